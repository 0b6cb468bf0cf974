package ratelimit_test

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

// both runs a test alone with its store, and as one of those that share it.
func both(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, setupWith(t, ratelimit.Options{Shared: shared}))
		})
	}
}

func TestTake_first(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		d := f.take(t, who("a"))
		if !d.Allowed || d.Limit != 60 || d.Remaining != 59 {
			t.Fatalf("%+v", d)
		}
		if next := f.take(t, who("a")); !next.Allowed || next.Remaining != 58 {
			t.Fatalf("%+v", next)
		}
	})
}

func TestTake_burst(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		for tier, burst := range map[ratelimit.Tier]int{ratelimit.TierFree: 5, ratelimit.TierStandard: 15, ratelimit.TierPremium: 50} {
			f.tiers.Set(string(tier), tier)
			if n := f.count(t, who(string(tier)), 2*burst); n != burst {
				t.Errorf("%d at once for %s", n, tier)
			}
			d := f.take(t, who(string(tier)))
			if d.Allowed || d.Remaining != 0 || d.RetryAfterSeconds() < 1 {
				t.Errorf("%+v for %s", d, tier)
			}
		}
		f.clock.Move(6*time.Second + 100*time.Millisecond)
		if !f.take(t, who("free")).Allowed {
			t.Error("refused after the bucket has got one back")
		}
	})
}

// Who waits exactly as long as the header says gets a yes, whatever limit it was that bit.
func TestTake_retryAfter(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		f.tiers.Set("a", ratelimit.TierFree)
		refused := map[int64]int{}
		for range 300 {
			d := f.take(t, who("a"))
			if d.Allowed {
				f.clock.Move(1700 * time.Millisecond)
				continue
			}
			refused[d.Limit]++
			h := http.Header{}
			d.SetHeaders(h)
			wait, err := strconv.Atoi(h.Get("Retry-After"))
			if err != nil || wait < 1 {
				t.Fatal(h)
			}
			if reset := d.Reset().Sub(f.clock.Now()); reset > time.Duration(wait)*time.Second || reset <= 0 {
				t.Fatalf("reset in %v, retry after %d", reset, wait)
			}
			f.clock.Move(time.Duration(wait) * time.Second)
			if d := f.take(t, who("a")); !d.Allowed {
				t.Fatalf("%+v after waiting %d s", d, wait)
			}
		}
		if refused[10] == 0 || refused[200] == 0 {
			t.Fatalf("the limits that bit: %v", refused)
		}
	})
}

func TestTake_headers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	headers := func(d ratelimit.Decision) http.Header {
		h := http.Header{}
		d.SetHeaders(h)
		return h
	}
	now := f.clock.Now().Unix()
	d := f.take(t, who("a"))
	got := headers(d)
	if reset, err := strconv.ParseInt(got.Get("X-RateLimit-Reset"), 10, 64); err != nil || reset < now+60 || reset > now+61 {
		t.Errorf("reset %d, now %d, %v", reset, now, err)
	}
	got.Del("X-RateLimit-Reset")
	if d := cmp.Diff(http.Header{"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"59"}}, got); d != "" {
		t.Error(d)
	}
	f.tiers.Set("u", ratelimit.TierUnlimited)
	if d := cmp.Diff(http.Header{"X-Ratelimit-Limit": {"unlimited"}, "X-Ratelimit-Remaining": {"unlimited"}, "X-Ratelimit-Reset": {"0"}},
		headers(f.take(t, who("u")))); d != "" {
		t.Error(d)
	}
	if h := headers(ratelimit.Decision{}); h.Get("Retry-After") != "1" || h.Get("X-RateLimit-Limit") != "0" {
		t.Errorf("the zero decision says %v", h)
	}
}

// Tenants, principals and tools are apart, also where their names would be the same if they were joined.
func TestTake_apart(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		if n := f.count(t, who("a"), 20); n != 15 {
			t.Fatal(n)
		}
		for _, s := range []ratelimit.Subject{{Tenant: "b", Principal: "agent:a"}, {Tenant: "a", Principal: "agent:b"}, {Tenant: "aagent:", Principal: "a"}, {Tenant: "agent:a", Principal: "a"}} {
			if n := f.count(t, s, 3); n != 3 {
				t.Errorf("%v had %d", s, n)
			}
		}
		if d, err := f.TakeTool(t.Context(), who("a"), "x", ratelimit.KindWrite, ratelimit.ToolLimits{}); err != nil || !d.Allowed {
			t.Errorf("a tool: %+v, %v", d, err)
		}
	})
}

func TestTake_unlimited(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		f.tiers.Set("a", ratelimit.TierFree)
		if f.count(t, who("a"), 10) != 5 {
			t.Fatal("not exhausted")
		}
		f.tiers.Set("a", ratelimit.TierUnlimited)
		if n := f.count(t, who("a"), 100); n != 100 {
			t.Fatalf("%d of 100", n)
		}
		if err := f.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if u := f.used(t, who("a")); u != (ratelimit.Use{Minute: 105, Hour: 105, Day: 105}) {
			t.Fatalf("%+v", u)
		}
	})
}

// Another tier counts from the next request on, and what was used stays.
func TestTake_tierChange(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		f.tiers.Set("a", ratelimit.TierFree)
		if f.count(t, who("a"), 10) != 5 {
			t.Fatal("not exhausted")
		}
		f.tiers.Set("a", ratelimit.TierPremium)
		if n := f.count(t, who("a"), 60); n != 50 {
			t.Fatalf("%d at once after an upgrade", n)
		}
		if u := f.used(t, who("a")); u.Day != 55 {
			t.Fatalf("%+v", u)
		}
		f.tiers.Set("a", ratelimit.TierFree)
		f.clock.Move(30 * time.Second)
		if f.take(t, who("a")).Allowed {
			t.Fatal("going back has made it forget")
		}
	})
}

// The minute binds where the bucket has something left.
func TestTake_minute(t *testing.T) {
	t.Parallel()
	f := setup(t)
	start := f.clock.Now()
	if n := f.count(t, who("a"), 20); n != 15 {
		t.Fatal(n)
	}
	for range 44 {
		f.clock.Move(time.Second)
		if !f.take(t, who("a")).Allowed {
			t.Fatal("refused within the limits")
		}
	}
	f.clock.Move(2 * time.Second)
	if d := f.take(t, who("a")); !d.Allowed || d.Remaining != 0 {
		t.Fatalf("%+v", d)
	}
	if d := f.take(t, who("a")); d.Allowed || d.Limit != 60 || d.Reset().Before(start.Add(time.Minute)) {
		t.Fatalf("%+v", d)
	}
}

func TestTake_denied(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.count(t, who("a"), 1000)
	if u := f.used(t, who("a")); u != (ratelimit.Use{Minute: 15, Hour: 15, Day: 15}) {
		t.Fatalf("%+v", u)
	}
	f.clock.Move(time.Second)
	if !f.take(t, who("a")).Allowed {
		t.Fatal("requests that were refused have cost something")
	}
}

func TestTake_goroutines(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		f.tiers.Set("a", ratelimit.TierPremium)
		var wg sync.WaitGroup
		var yes atomic.Int64
		for range 10 {
			wg.Go(func() {
				for range 50 {
					d, err := f.Take(t.Context(), who("a"))
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						yes.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if u := f.used(t, who("a")); yes.Load() != 50 || u.Minute != 50 {
			t.Fatalf("%d allowed, %d counted", yes.Load(), u.Minute)
		}
	})
}

func TestTake_refused(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		for _, s := range []ratelimit.Subject{{}, {Tenant: "a"}, {Principal: "a"}, {Tenant: "a", Principal: "\x00"}} {
			d, err := f.Take(t.Context(), s)
			wantCode(t, err, counterfoil.CodeInvalidInput)
			if d.Allowed {
				t.Error("allowed")
			}
		}
		f.tiers.Set("a", "golden")
		_, err := f.Take(t.Context(), who("a"))
		wantCode(t, err, counterfoil.CodeUnavailable)
		f.tiers.Fail(errStore)
		_, err = f.Take(t.Context(), who("b"))
		wantCode(t, err, counterfoil.CodeUnavailable)
		if n := f.Known(); n != 0 {
			t.Errorf("%d keys", n)
		}
	})
}

func TestTakeTool(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		for _, c := range []struct {
			kind              ratelimit.Kind
			limits            ratelimit.ToolLimits
			perSecond, minute int
		}{
			{ratelimit.KindWrite, ratelimit.ToolLimits{}, 10, 60},
			{ratelimit.KindRead, ratelimit.ToolLimits{}, 50, 600},
			{ratelimit.KindWrite, ratelimit.ToolLimits{PerMinute: 3, PerSecond: 2}, 2, 3},
		} {
			s := ratelimit.Subject{Tenant: "a", Principal: strconv.Itoa(c.minute)}
			first, all := 0, 0
			for i := range 40 {
				n := 0
				for range c.perSecond + 3 {
					d, err := f.TakeTool(t.Context(), s, "files.write", c.kind, c.limits)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						n++
					}
				}
				if i == 0 {
					first = n
				}
				if all += n; n > c.perSecond {
					t.Errorf("%d in a second, of %d", n, c.perSecond)
				}
				f.clock.Move(1400 * time.Millisecond)
			}
			if first != c.perSecond || all != c.minute {
				t.Errorf("%d in the first second, %d in the minute, want %d and %d", first, all, c.perSecond, c.minute)
			}
		}
		for _, k := range []ratelimit.Kind{"", ratelimit.KindRequest, "other"} {
			d, err := f.TakeTool(t.Context(), who("a"), "x", k, ratelimit.ToolLimits{})
			wantCode(t, err, counterfoil.CodeInvalidInput)
			if d.Allowed {
				t.Errorf("%q is allowed", k)
			}
		}
		for _, limits := range []ratelimit.ToolLimits{{PerMinute: 1}, {PerSecond: 1}, {PerMinute: -1, PerSecond: 1}} {
			_, err := f.TakeTool(t.Context(), who("a"), "x", ratelimit.KindRead, limits)
			wantCode(t, err, counterfoil.CodeInvalidInput)
		}
	})
}

func TestTiers(t *testing.T) {
	t.Parallel()
	want := []ratelimit.Limits{
		{PerMinute: 10, PerHour: 200, PerDay: 1000, Burst: 5}, {PerMinute: 60, PerHour: 2000, PerDay: 10_000, Burst: 15},
		{PerMinute: 200, PerHour: 10_000, PerDay: 50_000, Burst: 50}, {},
	}
	var got []ratelimit.Limits
	for _, tier := range ratelimit.Tiers() {
		if p, err := ratelimit.ParseTier(string(tier)); err != nil || p != tier {
			t.Errorf("%s: %s, %v", tier, p, err)
		}
		got = append(got, tier.Limits())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, s := range []string{"", "Free", "free ", "gold", "0"} {
		if _, err := ratelimit.ParseTier(s); err == nil {
			t.Errorf("%q is a tier", s)
		}
	}
}

func TestNew_refused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	good := ratelimit.Options{Store: f.store, Tier: f.tiers.Tier, Now: f.clock.Now}
	for name, change := range map[string]func(*ratelimit.Options){
		"no store": func(o *ratelimit.Options) { o.Store = nil }, "no clock": func(o *ratelimit.Options) { o.Now = nil },
		"no tiers": func(o *ratelimit.Options) { o.Tier = nil }, "no such tier": func(o *ratelimit.Options) { o.Default = "gold" },
		"no keys": func(o *ratelimit.Options) { o.MaxKeys = -1 },
	} {
		o := good
		change(&o)
		if _, err := ratelimit.New(o); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}
