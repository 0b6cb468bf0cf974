package ratelimit

import (
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are those whose word on where a request comes from is taken. The zero Proxies trust nobody.
type Proxies struct {
	trusted []netip.Prefix
	header  string
}

// ParseProxies reads the networks or addresses of proxies, and the name of the one header that they all write:
// X-Forwarded-For, which "" stands for, or Forwarded. What a proxy doesn't write it may pass on from anybody, so that the
// other header is never looked at.
func ParseProxies(networks []string, header string) (Proxies, error) {
	p := Proxies{header: http.CanonicalHeaderKey(header)}
	switch p.header {
	case "":
		p.header = forwardedFor
	case forwardedFor, forwarded:
	default:
		return Proxies{}, invalid("the header of trusted proxies is X-Forwarded-For or Forwarded")
	}
	for _, s := range networks {
		n, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil || a.Zone() != "" {
				return Proxies{}, invalid("a trusted proxy is an address or a network such as 10.0.0.0/8")
			}
			a = a.Unmap()
			n = netip.PrefixFrom(a, a.BitLen())
		}
		if n.Bits() == 0 || n.Addr().Is4In6() {
			return Proxies{}, invalid("a network of trusted proxies is not everybody, and no IPv4 network in IPv6 form")
		}
		p.trusted = append(p.trusted, n.Masked())
	}
	return p, nil
}

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
	// maxHops bounds the proxies that are gone through, maxForwarded the bytes of one line.
	maxHops      = 32
	maxForwarded = 4096
)

// Client returns the address of the client of a request: the connection's peer, which is given as net/http has it, or, if
// that is a trusted proxy, the last address in the header that isn't one. A header that can't be read says nothing: then it
// is the peer. The address is invalid if the peer has none, as on a Unix socket.
func (p Proxies) Client(remote string, h http.Header) netip.Addr {
	peer := parseNode(remote)
	if !p.trusts(peer) {
		return peer
	}
	client := peer
	lines := h[p.header]
	for i := len(lines) - 1; i >= 0; i-- {
		hops, ok := p.hops(lines[i])
		if !ok {
			return peer
		}
		for j := len(hops) - 1; j >= 0; j-- {
			if client = parseNode(hops[j]); !client.IsValid() {
				return peer
			}
			if !p.trusts(client) {
				return client
			}
		}
	}
	return client // all of them are ours
}

func (p Proxies) trusts(a netip.Addr) bool {
	for _, n := range p.trusted {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// hops returns the nodes of a line, the nearest last.
func (p Proxies) hops(line string) ([]string, bool) {
	if len(line) > maxForwarded {
		return nil, false
	}
	if p.header == forwarded {
		return forwardedHops(line)
	}
	hops := strings.Split(line, ",")
	for i := range hops {
		hops[i] = strings.Trim(hops[i], " \t")
	}
	return hops, len(hops) <= maxHops
}

// forwardedHops returns the "for" of each element of a Forwarded line (RFC 7239). Each element has one.
func forwardedHops(line string) ([]string, bool) {
	var hops []string
	node, have := "", false
	for {
		name, rest, ok := strings.Cut(strings.TrimLeft(line, " \t"), "=")
		value, rest, fine := cutValue(rest)
		if !ok || !fine || !isToken(name) {
			return nil, false
		}
		if strings.EqualFold(name, "for") {
			if have {
				return nil, false
			}
			node, have = value, true
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] == ',' {
			if !have || len(hops) == maxHops {
				return nil, false
			}
			hops, have = append(hops, node), false
		}
		switch {
		case rest == "":
			return hops, true
		case rest[0] != ',' && rest[0] != ';':
			return nil, false
		default:
			line = rest[1:]
		}
	}
}

// cutValue takes a token or a quoted string off the front.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		n := strings.IndexFunc(s, func(r rune) bool { return !tokenRune(r) })
		if n < 0 {
			n = len(s)
		}
		return s[:n], s[n:], n > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !tokenRune(r) }) < 0
}

func tokenRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// parseNode reads an address with or without a port. Anything else, a name for instance, is the invalid address.
func parseNode(s string) netip.Addr {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().Unmap().WithZone("")
	}
	if n := len(s); n > 1 && s[0] == '[' && s[n-1] == ']' {
		s = s[1 : n-1]
		if !strings.Contains(s, ":") {
			return netip.Addr{}
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
