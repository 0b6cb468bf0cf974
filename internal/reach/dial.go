package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/counterfoil/counterfoil"
)

const (
	dialTimeout  = 10 * time.Second
	maxAddresses = 32 // of one name that are looked at
	maxAttempts  = 4  // of them that are dialled
)

// A Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	// LookupNetIP returns the addresses of host; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialOptions are what a Dialer is made of. The zero value dials public addresses.
type DialOptions struct {
	// Resolver finds addresses; nil is the system's, with its hosts file and search domains.
	Resolver Resolver
	// Private are the ranges that may be dialled although they aren't public. Only the system's configuration may fill it.
	Private []netip.Prefix
	// Timeout bounds one dial, the resolving included. 0 is 10 s.
	Timeout time.Duration
}

// A Dialer opens connections to public addresses and to the listed ranges alone. It resolves a name once, judges every
// address of the answer and dials one of those: a name that resolves to another address later changes nothing.
type Dialer struct {
	resolver Resolver
	timeout  time.Duration
	judge    addresses
}

// NewDialer returns a dialer.
func NewDialer(o DialOptions) (*Dialer, error) {
	judge, err := newAddresses(o.Private)
	if err != nil {
		return nil, err
	}
	d := &Dialer{resolver: o.Resolver, timeout: o.Timeout, judge: judge}
	if d.resolver == nil {
		d.resolver = &net.Resolver{}
	}
	if d.timeout <= 0 {
		d.timeout = dialTimeout
	}
	return d, nil
}

// DialContext connects to "host:port" over TCP. One refused address in the answer refuses the whole: names that mix public
// and private addresses are made for rebinding. It fails with [counterfoil.CodePolicyDenied] when the address is refused,
// with CodeUnavailable when the name can't be resolved or nobody answers, and with CodeInvalidInput for texts that are
// no host. In each case nothing was sent.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, bad("only TCP is dialled")
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	return d.dialAny(ctx, network, addrs, port)
}

// splitAddress reads what net/http dials: "name:80", "192.0.2.1:80" or "[2001:db8::1]:80".
func splitAddress(address string) (string, uint16, error) {
	host, port, err := parseAuthority(address)
	if err == nil && port == 0 {
		err = bad("the address to dial has no port")
	}
	return host, port, err
}

// resolve returns the addresses of a host, all of them permitted.
func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addr, err := netip.ParseAddr(host)
	addrs := []netip.Addr{addr}
	if err != nil {
		if addrs, err = d.resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the host's address could not be found", Err: err}
		}
	}
	if len(addrs) == 0 || len(addrs) > maxAddresses {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the host has no address, or too many"}
	}
	checked := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		// Resolvers give IPv4 addresses in IPv6's form too: the same address, and dialled as IPv4.
		if checked[i] = a.Unmap(); !d.judge.permits(checked[i]) {
			return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the host's address is not public and not listed", Err: errors.New(a.String())}
		}
	}
	return checked, nil
}

// dialAny dials the first few addresses one after the other, each for its part of the time. What it gives the net package
// are numbers, so nothing is resolved again.
func (d *Dialer) dialAny(ctx context.Context, network string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	addrs = addrs[:min(len(addrs), maxAttempts)]
	one := net.Dialer{Timeout: d.timeout / time.Duration(len(addrs))}
	var last error
	for _, a := range addrs {
		conn, err := one.DialContext(ctx, network, netip.AddrPortFrom(a, port).String())
		if err == nil {
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the host could not be connected to", Err: last}
}
