package ratelimit_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// What was used outlives the process: all of it if it was closed, all but the last second if it was killed.
func TestRestart(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := openStore(t, filepath.Join(t.TempDir(), "test.db"), clock)
	f := newFixture(t, ratelimit.Options{}, s, clock)
	f.count(t, who("a"), 5)
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Abandon()
	clock.Move(61 * time.Second)

	f = newFixture(t, ratelimit.Options{}, s, clock)
	if u := f.used(t, who("a")); u != (ratelimit.Use{Hour: 5, Day: 5}) {
		t.Fatalf("%+v after a kill", u)
	}
	f.count(t, who("a"), 3)
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f = newFixture(t, ratelimit.Options{}, s, clock)
	if u := f.used(t, who("a")); u != (ratelimit.Use{Minute: 3, Hour: 8, Day: 8}) {
		t.Fatalf("%+v after a close", u)
	}
	if n := f.count(t, who("a"), 20); n != 12 {
		t.Fatalf("%d more at once", n)
	}
}

// However many keys there are, few are in memory, and those that had to make room for others have lost nothing.
func TestEvict(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupWith(t, ratelimit.Options{Shared: shared, MaxKeys: 256})
			f.tiers.Set("a", ratelimit.TierFree)
			if f.count(t, who("a"), 6) != 5 {
				t.Fatal("not exhausted")
			}
			for i := range 1000 {
				f.take(t, ratelimit.Subject{Tenant: "flood", Principal: strconv.Itoa(i)})
				if i%8 == 0 {
					if err := f.Flush(t.Context()); !shared && err != nil {
						t.Fatal(err)
					}
				}
			}
			if n := f.Known(); n > 256 {
				t.Errorf("%d keys in memory", n)
			}
			if f.take(t, who("a")).Allowed {
				t.Error("making room has given something back")
			}
		})
	}
}

// While what was used can't be written down, nobody makes room, and new callers are told that there is no answer.
func TestEvict_unsaved(t *testing.T) {
	t.Parallel()
	f := setupWith(t, ratelimit.Options{MaxKeys: 16})
	f.store.FailWrites(errStore)
	f.tiers.Set("a", ratelimit.TierFree)
	errs := 0
	for i := range 200 {
		if _, err := f.Take(t.Context(), ratelimit.Subject{Tenant: "a", Principal: strconv.Itoa(i)}); err != nil {
			wantCode(t, err, counterfoil.CodeUnavailable)
			errs++
		}
	}
	if n := f.Known(); n > 16 || errs < 200-16 {
		t.Fatalf("%d keys, %d errors", n, errs)
	}
	f.store.FailWrites(nil)
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.take(t, who("b"))
}

// A limiter that can't answer says so, and that is no yes; when it can again, nothing was lost.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.count(t, who("a"), 3)
		f.store.Fail(errStore)
		d, err := f.Take(t.Context(), who("b"))
		if wantCode(t, err, counterfoil.CodeUnavailable); d.Allowed {
			t.Error("allowed")
		}
		f.take(t, who("a")) // known, and counted
		for range 2 {
			if f.Flush(t.Context()) == nil {
				t.Error("written down")
			}
		}
		_, err = f.Take(t.Context(), who("a"))
		wantCode(t, err, counterfoil.CodeUnavailable)
		f.store.Fail(nil)
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if u := f.used(t, who("a")); u.Day != 4 {
			t.Errorf("%+v", u)
		}
		f.take(t, who("a"))
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		f := setupWith(t, ratelimit.Options{Shared: true})
		f.take(t, who("a"))
		f.store.Fail(errStore)
		calls := f.store.Calls()
		for range 100 {
			d, err := f.Take(t.Context(), who("b"))
			if wantCode(t, err, counterfoil.CodeUnavailable); d.Allowed {
				t.Error("allowed")
			}
		}
		if n := f.store.Calls() - calls; n > 2 {
			t.Errorf("a store that fails was asked %d times", n)
		}
		f.store.Fail(nil)
		f.clock.Move(time.Second)
		if n := f.count(t, who("b"), 20); n != 15 {
			t.Errorf("%d at once", n)
		}
	})
}

// A caller that goes away does not take the others' answers along.
func TestTake_cancelled(t *testing.T) {
	t.Parallel()
	f := setupWith(t, ratelimit.Options{Shared: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := f.Take(ctx, who("a")); err == nil && !d.Allowed {
		t.Errorf("%+v", d)
	} else if err != nil {
		wantCode(t, err, counterfoil.CodeUnavailable)
	}
	f.take(t, who("a"))
}

func TestClose(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 200 {
					if _, err := f.Take(t.Context(), ratelimit.Subject{Tenant: "a", Principal: strconv.Itoa(i)}); err != nil {
						wantCode(t, err, counterfoil.CodeUnavailable)
						return
					}
				}
			})
		}
		for range 2 {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
		_, err := f.Take(t.Context(), who("a"))
		wantCode(t, err, counterfoil.CodeUnavailable)
	})
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		f.tiers.Set("b", ratelimit.TierFree)
		f.count(t, who("x"), 3)
		f.count(t, who("b"), 1)
		f.count(t, ratelimit.Subject{Tenant: "b", Principal: "agent:z"}, 2)
		if _, err := f.TakeTool(t.Context(), who("y"), "x", ratelimit.KindRead, ratelimit.ToolLimits{}); err != nil {
			t.Fatal(err)
		}
		standard, free := ratelimit.TierStandard, ratelimit.TierFree
		use := func(n int64) ratelimit.Use { return ratelimit.Use{Minute: n, Hour: n, Day: n} }
		want := []ratelimit.Quota{
			{Subject: who("b"), Tier: free, Limits: free.Limits(), Used: use(1)},
			{Subject: ratelimit.Subject{Tenant: "b", Principal: "agent:z"}, Tier: free, Limits: free.Limits(), Used: use(2)},
			{Subject: who("x"), Tier: standard, Limits: standard.Limits(), Used: use(3)},
		}
		var got []ratelimit.Quota
		for after := (ratelimit.Subject{}); ; {
			page, err := f.Quotas(t.Context(), after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, page...); len(page) < 2 {
				break
			}
			after = page[1].Subject
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		got, err := f.TenantQuotas(t.Context(), "b", "agent:a", 10)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want[1:2], got); d != "" {
			t.Error(d)
		}
		unknown, err := f.Quota(t.Context(), who("nobody"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ratelimit.Quota{Subject: who("nobody"), Tier: standard, Limits: standard.Limits()}, unknown); d != "" {
			t.Error(d)
		}
		_, err = f.Quota(t.Context(), ratelimit.Subject{})
		wantCode(t, err, counterfoil.CodeInvalidInput)
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		f.count(t, who("a"), 20)
		f.count(t, who("b"), 20)
		if err := f.Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if u := f.used(t, who("a")); u != (ratelimit.Use{}) {
			t.Errorf("%+v", u)
		}
		if u := f.used(t, who("b")); u.Minute != 15 {
			t.Errorf("another tenant's: %+v", u)
		}
		if n := f.count(t, who("a"), 20); n != 15 {
			t.Errorf("%d at once", n)
		}
		if f.take(t, who("b")).Allowed {
			t.Error("another tenant's was reset")
		}
		wantCode(t, f.Reset(t.Context(), ""), counterfoil.CodeInvalidInput)
	})
}

// A record that can't be read denies its own key and nobody else's.
func TestDamaged(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, f *fixture) {
		k := ratelimit.Key{Subject: who("a"), Kind: ratelimit.KindRequest}
		if err := f.store.UpdateRates(t.Context(), []ratelimit.Key{k}, func([][]byte) ([]ratelimit.Row, error) {
			return []ratelimit.Row{{Key: k, State: []byte("damaged"), Until: f.clock.Now().Add(time.Hour)}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		// All are asked for in one transaction: the store is busy with another until they are there.
		f.store.gate.Lock()
		var wg sync.WaitGroup
		ask := func(tenant string) {
			if d, err := f.Take(t.Context(), who(tenant)); (err == nil) != (tenant != "a") || d.Allowed != (tenant != "a") {
				t.Errorf("%s: %+v, %v", tenant, d, err)
			}
		}
		calls := f.store.Calls()
		for i, tenant := range []string{"first", "a", "b"} {
			wg.Go(func() { ask(tenant) })
			for f.store.Calls() == calls || f.Shared() && f.Known() <= i {
				runtime.Gosched()
			}
		}
		f.store.gate.Unlock()
		wg.Wait()
	})
}
