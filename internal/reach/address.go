package reach

import (
	"net/netip"
	"slices"
)

// addresses judges what may be dialled.
type addresses struct {
	allowed []netip.Prefix // what the system's configuration lists
	closed4 []netip.Prefix
	closed6 []netip.Prefix // within 2000::/3
	open6   netip.Prefix
	nat64   netip.Prefix
}

func newAddresses(allowed []netip.Prefix) (addresses, error) {
	for _, p := range allowed {
		if !p.IsValid() || p.Addr().Is4In6() || p != p.Masked() {
			return addresses{}, bad("a listed range of addresses is no prefix, or has bits set behind its end")
		}
	}
	return addresses{
		allowed: slices.Clone(allowed),
		closed4: prefixes(
			"0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", // this host, private, link-local
			"100.64.0.0/10",                                     // carriers' NAT
			"192.0.0.0/24",                                      // protocol assignments
			"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", // documentation
			"192.88.99.0/24",             // relays of 6to4
			"198.18.0.0/15",              // benchmarking
			"224.0.0.0/4", "240.0.0.0/4", // multicast, reserved, broadcast
		),
		closed6: prefixes(
			"2001::/23",                  // protocol assignments, Teredo and benchmarking among them
			"2001:db8::/32", "3fff::/20", // documentation
			"2002::/16", // 6to4
		),
		open6: netip.MustParsePrefix("2000::/3"),
		nat64: netip.MustParsePrefix("64:ff9b::/96"),
	}, nil
}

// prefixes parses constants of ours.
func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, s := range all {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// permits reports whether the address may be dialled: it is listed, or it is public. Of IPv6 only what is handed out for
// global use is public; of the forms that carry an IPv4 address, only NAT64's well-known one, when that address is public.
// IPv4 addresses in IPv6's form must have been unmapped. No range contains those, an address with a zone, or the zero one.
func (x *addresses) permits(a netip.Addr) bool {
	switch {
	case within(x.allowed, a):
		return true
	case a.Is4():
		return !within(x.closed4, a)
	case x.nat64.Contains(a):
		b := a.As16()
		return !within(x.closed4, netip.AddrFrom4([4]byte(b[12:])))
	default:
		return x.open6.Contains(a) && !within(x.closed6, a)
	}
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
