package reach_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

// names is a resolver. Each look-up of a name takes the next of its answers; the last stays.
type names struct {
	answers map[string][]string // addresses with blanks between
	lookups atomic.Int64
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	answers, ok := n.answers[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	at := min(int(n.lookups.Add(1)), len(answers)) - 1
	var out []netip.Addr
	for _, s := range strings.Fields(answers[at]) {
		if s == "hang" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func dialer(t testing.TB, o reach.DialOptions) *reach.Dialer {
	t.Helper()
	d, err := reach.NewDialer(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDialer_judges(t *testing.T) {
	t.Parallel()
	d := dialer(t, reach.DialOptions{})
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "127.0.0.1", "127.1.2.3", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
		"192.0.0.1", "192.0.0.170", "192.0.2.1", "198.51.100.7", "203.0.113.9", "192.88.99.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8",
		"100::1", "2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254",
		"fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "1000::1", "e000::1",
	} {
		if reach.Permits(d, netip.MustParseAddr(s)) {
			t.Errorf("%s may be dialled", s)
		}
	}
	for _, s := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.0.3.1", "198.17.0.1", "198.20.0.1", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1", "2a00:1450::1", "2001:200::1", "2001:db9::1", "2003::1", "3ffe::1", "2620:fe::fe",
	} {
		if !reach.Permits(d, netip.MustParseAddr(s)) {
			t.Errorf("%s may not be dialled", s)
		}
	}
	if reach.Permits(d, netip.Addr{}) {
		t.Error("no address may be dialled")
	}
}

func TestDialer_listed(t *testing.T) {
	t.Parallel()
	d := dialer(t, reach.DialOptions{Private: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("64:ff9b:1::/48"),
	}})
	for s, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd00:1::5": true, "fd00:2::5": false, "127.0.0.1": true, "127.0.0.2": false, "64:ff9b:1::1": true, "8.8.8.8": true,
		"64:ff9b::10.1.2.3": false, // NAT64's range isn't listed
		"2002:a01:203::":    false, "::10.1.2.3": false, "fd00:1::5%lo": false,
	} {
		if got := reach.Permits(d, netip.MustParseAddr(s)); got != want {
			t.Errorf("%s: %v, want %v", s, got, want)
		}
	}
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("10.1.2.3/16"), netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33)} {
		if _, err := reach.NewDialer(reach.DialOptions{Private: []netip.Prefix{bad}}); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%v is taken: %v", bad, err)
		}
	}
}

// listen accepts connections on a loopback address until the test ends.
func listen(t *testing.T, address string) (port string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("no such address here: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestDialer_DialContext(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	n := &names{answers: map[string][]string{
		"good.test": {"127.0.0.1"}, "mapped.test": {"::ffff:127.0.0.1"}, "second.test": {"127.9.9.9 127.0.0.1"}, "mixed.test": {"127.0.0.1 10.0.0.1"},
		"private.test": {"10.0.0.1"}, "metadata.test": {"169.254.169.254"}, "none.test": {""}, "many.test": {strings.Repeat("127.0.0.1 ", 33)},
	}}
	d := dialer(t, reach.DialOptions{Resolver: n, Private: loopback})
	for host, want := range map[string]counterfoil.Code{
		"good.test": "", "GOOD.test.": "", "mapped.test": "", "second.test": "", "127.0.0.1": "",
		"mixed.test": counterfoil.CodePolicyDenied, "private.test": counterfoil.CodePolicyDenied, "metadata.test": counterfoil.CodePolicyDenied,
		"10.0.0.1": counterfoil.CodePolicyDenied, "[::1]": counterfoil.CodePolicyDenied, "0.0.0.0": counterfoil.CodePolicyDenied,
		"unknown.test": counterfoil.CodeUnavailable, "none.test": counterfoil.CodeUnavailable, "many.test": counterfoil.CodeUnavailable,
		"2130706433": counterfoil.CodeInvalidInput, "127.1": counterfoil.CodeInvalidInput, "[::1%lo]": counterfoil.CodeInvalidInput, "[::ffff:127.0.0.1]": counterfoil.CodeInvalidInput, "": counterfoil.CodeInvalidInput,
	} {
		conn, err := d.DialContext(t.Context(), "tcp", host+":"+port)
		if counterfoil.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", host, err, want)
		}
		if err == nil {
			if got := conn.RemoteAddr().String(); got != "127.0.0.1:"+port {
				t.Errorf("%s: connected to %s", host, got)
			}
			_ = conn.Close()
		}
	}
	for _, address := range []string{"good.test", "good.test:", "good.test:0", "a@good.test:80", ":80"} {
		if _, err := d.DialContext(t.Context(), "tcp", address); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, network := range []string{"udp", "unix", ""} {
		if _, err := d.DialContext(t.Context(), network, "good.test:"+port); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", network, err)
		}
	}
}

// A name that resolves to a permitted address first and to another one afterwards is judged and dialled by one answer.
func TestDialer_rebinding(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	n := &names{answers: map[string][]string{"rebind.test": {"127.0.0.1", "10.0.0.1", "127.0.0.1 10.0.0.1", "169.254.169.254"}}}
	d := dialer(t, reach.DialOptions{Resolver: n, Private: loopback, Timeout: time.Second})
	for i, want := range []counterfoil.Code{"", counterfoil.CodePolicyDenied, counterfoil.CodePolicyDenied, counterfoil.CodePolicyDenied} {
		conn, err := d.DialContext(t.Context(), "tcp", "rebind.test:"+port)
		if counterfoil.CodeOf(err) != want || n.lookups.Load() != int64(i+1) {
			t.Errorf("dial %d: %v after %d look-ups", i, err, n.lookups.Load())
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestDialer_timeout(t *testing.T) {
	t.Parallel()
	n := &names{answers: map[string][]string{"slow.test": {"hang"}}}
	d := dialer(t, reach.DialOptions{Resolver: n, Timeout: 20 * time.Millisecond})
	if _, err := d.DialContext(t.Context(), "tcp", "slow.test:80"); !errors.Is(err, counterfoil.CodeUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a resolver that hangs: %v", err)
	}
}

// Whatever the resolver answers, a refused address is never dialled.
func FuzzDialer(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "8.8.8.8", "fe80::1%a"} {
		f.Add(s)
	}
	d, err := reach.NewDialer(reach.DialOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := netip.ParseAddr(s)
		if err != nil || !reach.Permits(d, a) {
			return
		}
		a = a.Unmap()
		if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || a.Zone() != "" {
			t.Fatalf("%s may be dialled", a)
		}
	})
}
