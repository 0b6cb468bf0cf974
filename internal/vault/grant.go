package vault

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// A Grant is an operator's word that a secret of a tenant may be filled into an upstream's configuration. What it doesn't name it
// doesn't allow: there are no wildcards, and empty lists allow nothing.
type Grant struct {
	Tenant   string
	Secret   string
	Upstream string   // by its name in the configuration
	Pointers []string // "/headers/NAME", "/env/NAME" or "/args/N"
	// Hosts are to whom a header may be sent: "api.example.com" for port 443 of exactly that host, or "host:port". The
	// environment and the arguments of a program that the operator starts need none.
	Hosts []string
}

// Check reports what is wrong with a grant's form.
func (g *Grant) Check() error {
	if g.Tenant == "" || g.Upstream == "" || len(g.Pointers) == 0 {
		return fail(counterfoil.CodeInvalidInput, "a grant names a tenant, a secret, an upstream and at least one place", nil)
	}
	if err := CheckName(g.Secret); err != nil {
		return err
	}
	for _, p := range g.Pointers {
		pointer, err := parsePointer(p)
		if err != nil {
			return err
		}
		if isHeader(pointer) && len(g.Hosts) == 0 {
			return fail(counterfoil.CodeInvalidInput, "a grant for a header names the hosts that it may be sent to", nil)
		}
	}
	for _, h := range g.Hosts {
		if _, ok := parseHost(h); !ok {
			return fail(counterfoil.CodeInvalidInput, "a grant's host is a name or an address, in small letters, with a port if it isn't 443", nil)
		}
	}
	return nil
}

// covers reports whether the grant allows a secret at a place, sent to a host ("host:port") if it is a header.
func (g *Grant) covers(tenant, upstream, secret, pointer, host string) bool {
	if g.Check() != nil || g.Tenant != tenant || g.Upstream != upstream || g.Secret != secret {
		return false
	}
	named := slices.ContainsFunc(g.Pointers, func(p string) bool {
		canonical, err := parsePointer(p)
		return err == nil && canonical == pointer
	})
	if !named || !isHeader(pointer) {
		return named
	}
	return slices.ContainsFunc(g.Hosts, func(h string) bool {
		granted, ok := parseHost(h)
		return ok && granted == host
	})
}

// parseHost returns a grant's host with its port.
func parseHost(s string) (string, bool) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), "443"
	}
	if host == "" || port == "" || strings.Trim(port, "0123456789") != "" || port[0] == '0' || len(port) > 5 {
		return "", false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(host, port), addr.Zone() == "" && addr.String() == host
	}
	if len(host) > 253 || strings.HasSuffix(host, ".") || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// hostOf returns where a URL leads, "host:port". Only a connection that nobody listens in on counts: https, or http to this
// machine.
func hostOf(u *url.URL) (string, error) {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	switch {
	case u.Scheme == "https":
		if port == "" {
			port = "443"
		}
	case u.Scheme == "http" && isLoopback(host):
		if port == "" {
			port = "80"
		}
	default:
		return "", fail(counterfoil.CodePolicyDenied, "secrets are sent over https alone, or to this machine", nil)
	}
	return net.JoinHostPort(host, port), nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
