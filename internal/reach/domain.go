package reach

import (
	"net/netip"
	"slices"
	"strings"
)

// maxDomains bounds one list.
const maxDomains = 1024

// A DomainAllowlist says which hosts may be asked, and at which ports. The zero list, and an empty one, cover nothing.
type DomainAllowlist struct {
	exact map[string]ports
	below map[string]ports // by the name whose subdomains they are
	any   ports
}

// ports are those of the schemes, listed ones, or both.
type ports struct {
	own    bool // 80 for http, 443 for https
	listed []uint16
}

func (p ports) cover(u URL) bool {
	return p.own && u.port == defaultPort(u.scheme) || slices.Contains(p.listed, u.port)
}

func (p ports) with(port uint16) ports {
	if port == 0 {
		p.own = true
		return p
	}
	p.listed = append(p.listed, port)
	return p
}

// ParseDomainAllowlist reads entries: "api.example.com" is that host alone, "*.trusted.io" every name below trusted.io but
// not trusted.io itself, "*" every host. An entry covers the ports of the schemes, 80 for http and 443 for https; one with
// a port ("host:8443", "*.trusted.io:8443", "[2001:db8::1]:8443") covers that port instead, for both schemes. Hosts are held
// to the rules of [ParseURL]. Errors carry [counterfoil.CodeInvalidInput].
func ParseDomainAllowlist(entries []string) (DomainAllowlist, error) {
	if len(entries) > maxDomains {
		return DomainAllowlist{}, bad("the list has too many hosts")
	}
	l := DomainAllowlist{exact: map[string]ports{}, below: map[string]ports{}}
	for _, s := range entries {
		if err := l.add(s); err != nil {
			return DomainAllowlist{}, err
		}
	}
	return l, nil
}

func (l *DomainAllowlist) add(entry string) error {
	if number, ok := strings.CutPrefix(entry, "*:"); ok && number != "" {
		port, err := parsePort(number)
		l.any = l.any.with(port)
		return err
	}
	if entry == "*" {
		l.any = l.any.with(0)
		return nil
	}
	name, wild := strings.CutPrefix(entry, "*.")
	host, port, err := parseAuthority(name)
	if err != nil {
		return err
	}
	if !wild {
		l.exact[host] = l.exact[host].with(port)
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return bad("an address has no subdomains")
	}
	l.below[host] = l.below[host].with(port)
	return nil
}

// Only returns the list that covers the host and port of the given URLs alone.
func Only(urls ...URL) DomainAllowlist {
	l := DomainAllowlist{exact: make(map[string]ports, len(urls))}
	for _, u := range urls {
		if !u.IsZero() {
			l.exact[u.host] = l.exact[u.host].with(u.port)
		}
	}
	return l
}

// Covers reports whether the host and port of the URL are on the list. The list knows names alone: what a name resolves to is
// checked when it is dialled ([Dialer]).
func (l DomainAllowlist) Covers(u URL) bool {
	if u.IsZero() {
		return false
	}
	if l.any.cover(u) || l.exact[u.host].cover(u) {
		return true
	}
	if len(l.below) == 0 {
		return false
	}
	for rest := u.host; ; {
		_, after, ok := strings.Cut(rest, ".")
		if !ok {
			return false
		}
		if rest = after; l.below[rest].cover(u) {
			return true
		}
	}
}
