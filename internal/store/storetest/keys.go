package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func once(now time.Time, keys ...string) gateway.Spending {
	var sp gateway.Spending
	for _, k := range keys {
		sp.Once = append(sp.Once, gateway.Once{Key: k, Until: now.Add(time.Minute)})
	}
	return sp
}

// A key is taken by the spending that is recorded, over all handles and restarts, and by no other.
func testOnce(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	spend := func(at Store, name string, keys ...string) error {
		return spendUse(t.Context(), at, newUse(name, clock.Now()), once(clock.Now(), keys...))
	}
	must(t, spend(s, "a", "token-1", "key-1"))
	wantCode(t, spend(other, "b", "token-2", "key-1"), counterfoil.CodeAlreadyUsed)
	wantCode(t, spend(other, "b", "key-1"), counterfoil.CodeAlreadyUsed)
	must(t, spend(other, "b", "token-2")) // the refused one did not take it
	wantCode(t, spend(s, "c", "token-3", "token-3"), counterfoil.CodeAlreadyUsed)
	must(t, spend(s, "c", "token-3", "TOKEN-3", "token-3 "))
	// What else is refused takes no key either.
	sp := once(clock.Now(), "token-4")
	sp.Counters = []gateway.Counter{{Name: "c", Add: 2, Limit: 1}}
	wantRefused(t, spendUse(t.Context(), s, newUse("d", clock.Now()), sp), gateway.ErrBudget)
	ended := newUse("e", clock.Now().Add(-time.Hour))
	wantCode(t, spendUse(t.Context(), s, ended, once(clock.Now(), "token-4")), counterfoil.CodeApprovalExpired)
	must(t, spend(other, "d", "token-4"))
	// A use that was spent says so, whatever its keys.
	wantCode(t, spend(s, "a", "token-5"), counterfoil.CodeAlreadyUsed)
	must(t, spend(s, "f", "token-5"))
	foreign := newUse("foreign", clock.Now())
	foreign.Tenant = OtherTenant
	must(t, spendUse(t.Context(), s, foreign, once(clock.Now(), "token-1")))
	must(t, other.Close())
	must(t, s.Close())
	s = b.Open(t, clock.Now, nil)
	wantCode(t, spend(s, "g", "token-1"), counterfoil.CodeAlreadyUsed)
	if n := len(check(t, s)); n != 5 {
		t.Fatalf("%d events", n)
	}
}

// Spendings of one key that come at once, by different uses: one is recorded.
func testOnceContenders(t *testing.T, b Backend) {
	clock := NewClock()
	var stores []Store
	for range 8 {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	for round := range 3 {
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		for i := range 64 {
			u := newUse(fmt.Sprintf("%d-%d", round, i), clock.Now())
			keys := []string{fmt.Sprint("token-", round), fmt.Sprintf("own-%d-%d", round, i)}
			if i%2 == 0 {
				keys[0], keys[1] = keys[1], keys[0]
			}
			wg.Go(func() {
				switch err := spendUse(t.Context(), stores[i%len(stores)], u, once(clock.Now(), keys...)); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, counterfoil.CodeAlreadyUsed):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 63 {
			t.Fatalf("%d won and %d lost", won.Load(), lost.Load())
		}
		if n := len(check(t, stores[0])); n != round+1 {
			t.Fatalf("%d events", n)
		}
	}
}

// A key is forgotten some time after its end, and never before, whatever instant a sweep is told.
func testOnceUntil(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	n := 0
	spend := func() error {
		n++
		return spendUse(t.Context(), s, newUse(fmt.Sprint("use-", n), clock.Now()), once(clock.Now(), "token"))
	}
	// Each sweep has something else to clear away, so that none is idle.
	sweep := func(now time.Time) {
		t.Helper()
		must(t, s.PutSecret(t.Context(), "code", "litter", now))
		must(t, second(s.Sweep(t.Context(), now)))
	}
	must(t, spend())
	sweep(clock.Now().Add(59 * time.Second))
	wantCode(t, spend(), counterfoil.CodeAlreadyUsed)
	// A clock that jumps ahead for one sweep and comes back: what carries the key is good again, and the key must be there.
	sweep(clock.Now().Add(24 * time.Hour))
	wantCode(t, spend(), counterfoil.CodeAlreadyUsed)
	clock.Move(59 * time.Second)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "time")))
	sweep(clock.Now())
	wantCode(t, spend(), counterfoil.CodeAlreadyUsed)
	clock.Move(48 * time.Hour)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "time")))
	sweep(clock.Now())
	must(t, spend())
	check(t, s)
}

func mark(name string, value int64) gateway.Spending {
	return gateway.Spending{Marks: []gateway.Mark{{Name: name, Value: value}}}
}

// A mark only rises, from where it stands; a spending holds what it saw against it.
func testMarks(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	e := event(t, counterfoil.PhaseRevoked, "policy")
	at := func(name string, want int64) {
		t.Helper()
		for _, s := range []Store{s, other} {
			if v, err := s.Mark(t.Context(), Tenant, name); err != nil || v != want {
				t.Fatalf("%s stands at %d, not %d: %v", name, v, want, err)
			}
		}
	}
	n := 0
	spend := func(at Store, marks ...gateway.Mark) error {
		n++
		return spendUse(t.Context(), at, newUse(fmt.Sprint("use-", n), clock.Now()), gateway.Spending{Marks: marks})
	}
	at("policy", 0)
	must(t, spend(s, gateway.Mark{Name: "policy"}))
	wantRefused(t, spend(s, gateway.Mark{Name: "policy", Value: 1}), gateway.ErrChanged)
	must(t, s.Advance(t.Context(), Tenant, "policy", 0, 1, e))
	at("policy", 1)
	at("Policy", 0)
	wantRefused(t, other.Advance(t.Context(), Tenant, "policy", 0, 1, e), gateway.ErrChanged)
	wantRefused(t, other.Advance(t.Context(), Tenant, "policy", 2, 3, e), gateway.ErrChanged)
	must(t, other.Advance(t.Context(), Tenant, "policy", 1, 1<<53, e))
	at("policy", 1<<53)
	for _, stale := range []int64{0, 1, 1<<53 - 1, 1<<53 + 1, -1} {
		wantRefused(t, spend(s, gateway.Mark{Name: "tool"}, gateway.Mark{Name: "policy", Value: stale}), gateway.ErrChanged)
	}
	must(t, spend(other, gateway.Mark{Name: "tool"}, gateway.Mark{Name: "policy", Value: 1 << 53}))
	for name, err := range map[string]error{
		"no tenant":     s.Advance(t.Context(), "", "policy", 1<<53, 1<<53+1, e),
		"no name":       s.Advance(t.Context(), Tenant, "", 0, 1, e),
		"not above":     s.Advance(t.Context(), Tenant, "policy", 1<<53, 1<<53, e),
		"down":          s.Advance(t.Context(), Tenant, "policy", 1<<53, 1, e),
		"below zero":    s.Advance(t.Context(), Tenant, "fresh", -1, 0, e),
		"other's event": s.Advance(t.Context(), OtherTenant, "policy", 0, 1, e),
	} {
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreign, err := counterfoil.NewEvent(counterfoil.PhaseRevoked, Names(), counterfoil.EventParams{Tenant: OtherTenant, Audience: Audience, ExecutionID: "p"})
	must(t, err)
	must(t, s.Advance(t.Context(), OtherTenant, "policy", 0, 7, foreign))
	at("policy", 1<<53)
	wantPhases(t, s, "started", "revoked", "revoked", "started")
	must(t, s.Close())
	s = b.Open(t, clock.Now, nil)
	at("policy", 1<<53)
}

// A mark is raised while uses are spent that were decided before: each spending comes before it in the log, or is refused.
// Of those who raise it at once, one does.
func testMarksRace(t *testing.T, b Backend) {
	clock := NewClock()
	const handles, rounds = 8, 4
	var stores []Store
	for range handles {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	for round := range rounds {
		from := len(check(t, stores[0]))
		var won, refused, raised atomic.Int32
		var wg sync.WaitGroup
		for i, s := range stores {
			e := event(t, counterfoil.PhaseRevoked, "policy")
			wg.Go(func() {
				if i%4 == 2 {
					switch err := s.Advance(t.Context(), Tenant, "policy", int64(round), int64(round+1), e); {
					case err == nil:
						raised.Add(1)
					case !errors.Is(err, gateway.ErrChanged):
						t.Error(err)
					}
				}
				for j := range 4 {
					u := newUse(fmt.Sprintf("%d-%d-%d", round, i, j), clock.Now())
					switch err := spendUse(t.Context(), s, u, mark("policy", int64(round))); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, gateway.ErrChanged):
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		log := check(t, stores[0])[from:]
		before := 0
		for before < len(log) && log[before] == "started" {
			before++
		}
		if raised.Load() != 1 || before != int(won.Load()) || len(log) != before+1 || won.Load()+refused.Load() != handles*4 || refused.Load() < 8 {
			t.Fatalf("%d raised it, %d won, %d were refused, and the log has %v", raised.Load(), won.Load(), refused.Load(), log)
		}
	}
}
