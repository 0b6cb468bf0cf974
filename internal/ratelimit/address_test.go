package ratelimit_test

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func addresses(t testing.TB, l ratelimit.AddressLimits) (*ratelimit.Addresses, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock()
	a, err := ratelimit.NewAddresses(l, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a, clock
}

func takes(a *ratelimit.Addresses, addr string, n int) int {
	yes := 0
	for range n {
		if a.Take(netip.MustParseAddr(addr)).Allowed {
			yes++
		}
	}
	return yes
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	a, clock := addresses(t, ratelimit.AddressLimits{PerMinute: 60, Burst: 10})
	victim := netip.MustParseAddr("192.0.2.1")
	for range 1000 {
		if !a.Check(victim).Allowed {
			t.Fatal("a check costs something")
		}
	}
	if n := takes(a, "192.0.2.1", 1000); n != 10 {
		t.Fatalf("%d at once", n)
	}
	d := a.Check(victim)
	if d.Allowed || d.RetryAfterSeconds() != 1 {
		t.Fatalf("%+v", d)
	}
	clock.Move(d.RetryAfter)
	if n := takes(a, "192.0.2.1", 10); n != 1 {
		t.Fatalf("%d after waiting", n)
	}
	for _, other := range []string{"192.0.2.2", "2001:db8::1"} {
		if n := takes(a, other, 20); n != 10 {
			t.Errorf("%d for %s", n, other)
		}
	}
	// One subscriber, however it is written.
	for _, same := range []string{"::ffff:192.0.2.1", "2001:db8::2", "2001:db8:0:0:ffff::1", "2001:db8::1%eth0"} {
		if n := takes(a, same, 20); n != 0 {
			t.Errorf("%d for %s", n, same)
		}
	}
	if n := takes(a, "2001:db8:0:1::1", 20); n != 10 {
		t.Errorf("%d for the next network", n)
	}
	if !a.Take(netip.Addr{}).Allowed {
		t.Error("no address is no client")
	}
	clock.Move(-time.Hour)
	if d := a.Check(victim); d.Allowed || d.RetryAfter > time.Second {
		t.Errorf("%+v after the clock was set back", d)
	}
	clock.Move(time.Second)
	if !a.Check(victim).Allowed {
		t.Error("refused for longer than it takes")
	}
}

// A flood from very many addresses neither gives an offender anything back nor holds up who has done nothing.
func TestAddresses_flood(t *testing.T) {
	t.Parallel()
	a, _ := addresses(t, ratelimit.AddressLimits{PerMinute: 60, Burst: 3})
	takes(a, "192.0.2.1", 10)
	address := func(network byte, i int) netip.Addr {
		b := [16]byte{0x20, 0x01, 0x0d, 0xb8, network}
		binary.BigEndian.PutUint16(b[6:], uint16(i))
		return netip.AddrFrom16(b)
	}
	for i := range 10_000 {
		for range 4 {
			a.Take(address(0, i))
		}
	}
	if n := takes(a, "192.0.2.1", 10); n != 0 {
		t.Errorf("%d for an offender", n)
	}
	held := 0
	for i := range 10_000 {
		if !a.Check(address(1, i)).Allowed {
			held++
		}
	}
	if held > 20 {
		t.Errorf("%d of 10,000 are held for others", held)
	}
}

func TestNewAddresses_refused(t *testing.T) {
	t.Parallel()
	now := storetest.NewClock().Now
	for _, l := range []ratelimit.AddressLimits{{PerMinute: -1}, {Burst: -1}, {PerMinute: 1 << 40}} {
		if _, err := ratelimit.NewAddresses(l, now); err == nil {
			t.Errorf("%+v", l)
		}
	}
	if _, err := ratelimit.NewAddresses(ratelimit.AddressLimits{}, nil); err == nil {
		t.Error("without a clock")
	}
}

func proxies(t testing.TB, header string, networks ...string) ratelimit.Proxies {
	t.Helper()
	p, err := ratelimit.ParseProxies(networks, header)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClient(t *testing.T) {
	t.Parallel()
	none := ratelimit.Proxies{}
	x, f := proxies(t, "", "10.0.0.0/8", "2001:db8:f::/48", "192.0.2.77"), proxies(t, "forwarded", "10.0.0.0/8")
	xff, fwd := "X-Forwarded-For", "Forwarded"
	for _, c := range []struct {
		name    string
		proxies ratelimit.Proxies
		peer    string
		header  http.Header
		want    string
	}{
		{"no proxies", none, "10.0.0.1:1234", http.Header{xff: {"1.2.3.4"}, fwd: {"for=1.2.3.4"}, "X-Real-Ip": {"1.2.3.4"}}, "10.0.0.1"},
		{"a stranger's word", x, "203.0.113.1:1234", http.Header{xff: {"1.2.3.4"}}, "203.0.113.1"},
		{"no header", x, "10.0.0.1:1234", nil, "10.0.0.1"},
		{"one hop", x, "10.0.0.1:1234", http.Header{xff: {"1.2.3.4"}}, "1.2.3.4"},
		{"a mapped peer", x, "[::ffff:10.0.0.1]:1234", http.Header{xff: {"1.2.3.4"}}, "1.2.3.4"},
		{"a single proxy", x, "192.0.2.77:1", http.Header{xff: {"1.2.3.4"}}, "1.2.3.4"},
		{"spoofed in front", x, "10.0.0.1:1234", http.Header{xff: {"6.6.6.6, 1.2.3.4"}}, "1.2.3.4"},
		{"spoofed in another line", x, "10.0.0.1:1234", http.Header{xff: {"6.6.6.6", "1.2.3.4"}}, "1.2.3.4"},
		{"through two of ours", x, "10.0.0.1:1234", http.Header{xff: {"6.6.6.6, 1.2.3.4,10.9.9.9"}}, "1.2.3.4"},
		{"two lines of ours", x, "10.0.0.1:1234", http.Header{xff: {"1.2.3.4", "10.9.9.9"}}, "1.2.3.4"},
		{"all ours", x, "10.0.0.1:1234", http.Header{xff: {"10.2.2.2, 10.9.9.9"}}, "10.2.2.2"},
		{"garbage at the end", x, "10.0.0.1:1234", http.Header{xff: {"1.2.3.4, garbage"}}, "10.0.0.1"},
		{"nothing at the end", x, "10.0.0.1:1234", http.Header{xff: {"1.2.3.4, "}}, "10.0.0.1"},
		{"garbage behind the client", x, "10.0.0.1:1234", http.Header{xff: {"garbage, 1.2.3.4"}}, "1.2.3.4"},
		{"an empty line", x, "10.0.0.1:1234", http.Header{xff: {""}}, "10.0.0.1"},
		{"with a port", x, "10.0.0.1:1234", http.Header{xff: {"1.2.3.4:80"}}, "1.2.3.4"},
		{"IPv6", x, "[2001:db8:f::1]:1", http.Header{xff: {"2001:db8::5"}}, "2001:db8::5"},
		{"IPv6 with a port", x, "10.0.0.1:1", http.Header{xff: {"[2001:db8::5]:80"}}, "2001:db8::5"},
		{"IPv6 in brackets", x, "10.0.0.1:1", http.Header{xff: {"[2001:db8::5]"}}, "2001:db8::5"},
		{"octal", x, "10.0.0.1:1", http.Header{xff: {"010.0.0.1"}}, "10.0.0.1"},
		{"a name", x, "10.0.0.1:1", http.Header{xff: {"localhost"}}, "10.0.0.1"},
		{"the other header", x, "10.0.0.1:1", http.Header{fwd: {"for=1.2.3.4"}}, "10.0.0.1"},
		{"very many", x, "10.0.0.1:1", http.Header{xff: {strings.Repeat("10.1.1.1,", 400) + "10.1.1.1"}}, "10.0.0.1"},
		{"very long", x, "10.0.0.1:1", http.Header{xff: {strings.Repeat(" ", 5000) + "1.2.3.4"}}, "10.0.0.1"},

		{"forwarded", f, "10.0.0.1:1", http.Header{fwd: {`for=1.2.3.4;proto=https;by=203.0.113.43`}}, "1.2.3.4"},
		{"forwarded, quoted", f, "10.0.0.1:1", http.Header{fwd: {`For="[2001:db8::17]:4711"`}}, "2001:db8::17"},
		{"forwarded, two", f, "10.0.0.1:1", http.Header{fwd: {`for=6.6.6.6, for=1.2.3.4;host="a,b;c=\"d"`, ` for=10.3.3.3`}}, "1.2.3.4"},
		{"forwarded, hidden", f, "10.0.0.1:1", http.Header{fwd: {`for=_hidden`}}, "10.0.0.1"},
		{"forwarded, unknown", f, "10.0.0.1:1", http.Header{fwd: {`for=1.2.3.4, for=unknown`}}, "10.0.0.1"},
		{"forwarded, without a for", f, "10.0.0.1:1", http.Header{fwd: {`for=1.2.3.4, proto=http`}}, "10.0.0.1"},
		{"forwarded, twice", f, "10.0.0.1:1", http.Header{fwd: {`for=1.2.3.4;for=6.6.6.6`}}, "10.0.0.1"},
		{"forwarded, a quote that swallows", f, "10.0.0.1:1", http.Header{fwd: {`for="6.6.6.6, for=1.2.3.4`}}, "10.0.0.1"},
		{"forwarded, a quote that ends early", f, "10.0.0.1:1", http.Header{fwd: {`for="6.6.6.6"x, for=1.2.3.4`}}, "10.0.0.1"},
		{"forwarded, an escape at the end", f, "10.0.0.1:1", http.Header{fwd: {`for="\`}}, "10.0.0.1"},
		{"forwarded, empty", f, "10.0.0.1:1", http.Header{fwd: {`for=`}}, "10.0.0.1"},
		{"forwarded, none", f, "10.0.0.1:1", http.Header{xff: {"1.2.3.4"}}, "10.0.0.1"},

		{"no address", x, "@", http.Header{xff: {"1.2.3.4"}}, "invalid IP"},
		{"nothing", x, "", nil, "invalid IP"},
	} {
		if got := c.proxies.Client(c.peer, c.header).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestParseProxies_refused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "x", "10.0.0.0/33", "0.0.0.0/0", "::/0", "fe80::1%eth0", "::ffff:10.0.0.0/104", "10.0.0.1:80"} {
		if _, err := ratelimit.ParseProxies([]string{s}, ""); err == nil {
			t.Errorf("%q is trusted", s)
		}
	}
	if _, err := ratelimit.ParseProxies(nil, "X-Real-IP"); err == nil {
		t.Error("any header is taken")
	}
}

// Whoever claims to come from somewhere else each time shares one bucket, and nobody else's.
func TestClient_rotating(t *testing.T) {
	t.Parallel()
	a, _ := addresses(t, ratelimit.AddressLimits{PerMinute: 60, Burst: 10})
	p := proxies(t, "", "10.0.0.0/8")
	random := rand.New(rand.NewSource(1))
	yes := 0
	for range 100_000 {
		claimed := fmt.Sprintf("%d.%d.%d.%d", random.Intn(256), random.Intn(256), random.Intn(256), random.Intn(256))
		if a.Take(p.Client("203.0.113.9:1", http.Header{"X-Forwarded-For": {claimed}, "X-Real-Ip": {claimed}, "Forwarded": {"for=" + claimed}})).Allowed {
			yes++
		}
	}
	if yes != 10 {
		t.Errorf("%d of 10", yes)
	}
	if n := takes(a, "198.51.100.1", 20); n != 10 {
		t.Errorf("%d for a victim", n)
	}
}

// Whatever stands in the header, the client is the peer or somebody who is named in it.
func FuzzClient(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "1.2.3.4, 10.0.0.1", "for=1.2.3.4", `for="[::1]:80";by=x, for=_a`, "[::1]", "\"", "1.2.3.4:"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	x, fwd := proxies(f, "", "10.0.0.0/8"), proxies(f, "Forwarded", "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, line string, other bool) {
		p, header := x, http.Header{"X-Forwarded-For": {line}}
		if other {
			p, header = fwd, http.Header{"Forwarded": {line}}
		}
		got := p.Client("10.0.0.1:1", header)
		if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%v for %q", got, line)
		}
		if stranger := p.Client("203.0.113.9:1", header); stranger != netip.MustParseAddr("203.0.113.9") {
			t.Fatalf("%v for a stranger's %q", stranger, line)
		}
	})
}
