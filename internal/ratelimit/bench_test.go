package ratelimit_test

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

func unlimited(context.Context, string) (ratelimit.Tier, error) { return ratelimit.TierUnlimited, nil }

func benchmarkTake(b *testing.B, f *fixture, r ratelimit.Rules) {
	b.Helper()
	k := ratelimit.Key{Subject: who("a"), Kind: ratelimit.KindRequest}
	if _, err := f.TakeRules(b.Context(), k, r); err != nil {
		b.Fatal(err)
	}
	calls := f.store.Calls()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.TakeRules(b.Context(), k, r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(f.store.Calls()-calls)/float64(b.N), "store-calls/op")
}

// What a limit costs that is far away, and one that is reached.
func BenchmarkTake(b *testing.B) {
	wide := ratelimit.Rules{Minute: 1 << 23, Hour: 1 << 23, Day: 1 << 23, Burst: 1 << 23, PerMinute: 1 << 23}
	narrow := ratelimit.Rules{Minute: 10, Hour: 200, Day: 1000, Burst: 5, PerMinute: 10}
	b.Run("alone", func(b *testing.B) { benchmarkTake(b, setup(b), wide) })
	b.Run("alone/denied", func(b *testing.B) { benchmarkTake(b, setup(b), narrow) })
	b.Run("shared", func(b *testing.B) { benchmarkTake(b, setupWith(b, ratelimit.Options{Shared: true}), wide) })
	b.Run("shared/denied", func(b *testing.B) { benchmarkTake(b, setupWith(b, ratelimit.Options{Shared: true}), narrow) })
}

// Many principals at once, with the headers of their answers.
func BenchmarkTake_parallel(b *testing.B) {
	f := setup(b)
	l, err := ratelimit.New(ratelimit.Options{Store: f.store, Tier: unlimited, Now: f.clock.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close(context.Background()) })
	subjects := make([]ratelimit.Subject, 1000)
	for i := range subjects {
		subjects[i] = ratelimit.Subject{Tenant: "acme", Principal: "agent:" + strconv.Itoa(i)}
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			d, err := l.Take(b.Context(), subjects[i%len(subjects)])
			if err != nil || !d.Allowed {
				b.Error(d, err)
			}
		}
	})
}

func BenchmarkSetHeaders(b *testing.B) {
	d := setup(b).take(b, who("a"))
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		d.SetHeaders(h)
	}
}

func BenchmarkAddresses(b *testing.B) {
	a, _ := addresses(b, ratelimit.AddressLimits{})
	p := proxies(b, "", "10.0.0.0/8")
	b.Run("check", func(b *testing.B) {
		addr := netip.MustParseAddr("2001:db8::1")
		b.ReportAllocs()
		for b.Loop() {
			a.Check(addr)
		}
	})
	b.Run("flood", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			a.Take(netip.AddrFrom4([4]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}))
		}
	})
	b.Run("client", func(b *testing.B) {
		h := http.Header{"X-Forwarded-For": {"1.2.3.4, 10.0.0.2"}}
		b.ReportAllocs()
		for b.Loop() {
			p.Client("10.0.0.1:1234", h)
		}
	})
}

// A request that is counted leaves nothing to collect, so that its cost stays the same under load.
func TestTake_allocations(t *testing.T) {
	for _, shared := range []bool{false, true} {
		f := setupWith(t, ratelimit.Options{Shared: shared})
		f.tiers.Set("a", ratelimit.TierFree)
		s := who("a")
		f.count(t, s, 10) // denied from here on
		if n := testing.AllocsPerRun(200, func() { f.take(t, s) }); n > 0 {
			t.Errorf("%v allocations of one that is denied", n)
		}
		f.tiers.Set("a", ratelimit.TierUnlimited)
		if n := testing.AllocsPerRun(200, func() { f.take(t, s) }); n > 0 {
			t.Errorf("%v allocations of one that is allowed", n)
		}
	}
}
