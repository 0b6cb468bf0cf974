package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// newUse makes a use as the boundary would, of an approval of five minutes. Equal names make equal uses.
func newUse(name string, now time.Time) counterfoil.Use {
	sum := sha256.Sum256([]byte(name))
	return counterfoil.Use{
		Tenant: Tenant, Audience: Audience, Approval: counterfoil.ResultDigest([]byte(name)), Step: counterfoil.CallStep,
		Input: counterfoil.ResultDigest([]byte("input")), ExecutionID: "run-" + name, Nonce: [16]byte(sum[:16]),
		IssuedAt: now, NotBefore: now, ExpiresAt: now.Add(5 * time.Minute),
	}
}

// spendUse spends a use with what it takes along.
func spendUse(ctx context.Context, s Store, u counterfoil.Use, sp gateway.Spending) error {
	e, err := counterfoil.NewEvent(counterfoil.PhaseStarted, Names(), counterfoil.EventParams{
		Tenant: u.Tenant, Audience: u.Audience, ExecutionID: u.ExecutionID, Actor: actor, Tool: tool,
	})
	if err != nil {
		return err
	}
	sp.Use, sp.Started = u, e
	_, err = s.Spend(ctx, sp)
	return err
}

func line(name string, add, limit int64) gateway.Spending {
	return gateway.Spending{Counters: []gateway.Counter{{Name: name, Add: add, Limit: limit}}}
}

// counterIs reports whether the counter stands at the value. It asks with a use that has run out, which takes nothing: a
// store signs a use, and judges its window, when all else is said.
func counterIs(ctx context.Context, s Store, name string, value int64) (bool, error) {
	u := newUse("probe", Start().AddDate(-1, 0, 0))
	err := spendUse(ctx, s, u, line(name, 1, value+1))
	if errors.Is(err, gateway.ErrBudget) {
		return false, nil // it is higher
	}
	if !errors.Is(err, counterfoil.CodeApprovalExpired) {
		return false, fmt.Errorf("the probe of %s: %w", name, err)
	}
	err = spendUse(ctx, s, u, line(name, 1, value))
	if errors.Is(err, gateway.ErrBudget) {
		return true, nil
	}
	if !errors.Is(err, counterfoil.CodeApprovalExpired) {
		return false, fmt.Errorf("the probe of %s: %w", name, err)
	}
	return false, nil
}

func wantCounter(t testing.TB, s Store, name string, want int64) {
	t.Helper()
	is, err := counterIs(t.Context(), s, name, want)
	must(t, err)
	if !is {
		t.Fatalf("the counter %s is not at %d", name, want)
	}
}

// wantRefused checks that a spending was refused for good, and why.
func wantRefused(t tb, err, why error) {
	t.Helper()
	if !errors.Is(err, why) || counterfoil.CodeOf(err) != counterfoil.CodePolicyDenied {
		t.Fatalf("got %v, not %v", err, why)
	}
}

// A spending takes from all of its lines, or from none.
func testCounters(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	n := 0
	take := func(at Store, counters ...gateway.Counter) error {
		n++
		return spendUse(t.Context(), at, newUse(fmt.Sprint("use-", n), clock.Now()), gateway.Spending{Counters: counters})
	}
	must(t, take(s, gateway.Counter{Name: "calls", Add: 1, Limit: 3}, gateway.Counter{Name: "bytes", Add: 60, Limit: 100}))
	wantRefused(t, take(other, gateway.Counter{Name: "calls", Add: 1, Limit: 3}, gateway.Counter{Name: "bytes", Add: 41, Limit: 100}),
		gateway.ErrBudget)
	wantCounter(t, s, "calls", 1)
	must(t, take(other, gateway.Counter{Name: "calls", Add: 1, Limit: 3}, gateway.Counter{Name: "bytes", Add: 40, Limit: 100}))
	must(t, take(s, gateway.Counter{Name: "calls", Add: 1, Limit: 3}))
	wantRefused(t, take(s, gateway.Counter{Name: "fresh", Add: 1, Limit: 1}, gateway.Counter{Name: "calls", Add: 1, Limit: 3}),
		gateway.ErrBudget)
	for name, want := range map[string]int64{"calls": 3, "bytes": 100, "fresh": 0, "Calls": 0, "calls ": 0, "": 0} {
		if name != "" {
			wantCounter(t, other, name, want)
		}
	}
	// The limit is the spending's, not the line's.
	must(t, take(s, gateway.Counter{Name: "calls", Add: 1, Limit: 4}))
	wantRefused(t, take(s, gateway.Counter{Name: "calls", Add: 1, Limit: 2}), gateway.ErrBudget)
	wantCounter(t, s, "calls", 4)
	must(t, take(s, gateway.Counter{Name: "huge", Add: math.MaxInt64, Limit: math.MaxInt64}))
	wantRefused(t, take(s, gateway.Counter{Name: "huge", Add: 1, Limit: math.MaxInt64}), gateway.ErrBudget)
	wantRefused(t, take(s, gateway.Counter{Name: "huge", Add: math.MaxInt64, Limit: math.MaxInt64}), gateway.ErrBudget)
	// Another tenant's line of the same name is another line.
	foreign := newUse("foreign", clock.Now())
	foreign.Tenant = OtherTenant
	must(t, spendUse(t.Context(), s, foreign, line("calls", 1, 1)))
	must(t, s.Close())
	s = b.Open(t, clock.Now, nil)
	wantCounter(t, s, "calls", 4)
	wantCounter(t, s, "bytes", 100)
	check(t, s)
}

// A line's limit holds over handles, however many come at once.
func testCounterContenders(t *testing.T, b Backend) {
	clock := NewClock()
	const limit, callers = 10, 64
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		u := newUse(fmt.Sprint(i), clock.Now())
		wg.Go(func() {
			// Two lines in either order: who locks them as they come waits for others crosswise.
			counters := []gateway.Counter{{Name: "a", Add: 1, Limit: limit}, {Name: "b", Add: 3, Limit: callers * 3}}
			if i%2 == 0 {
				counters[0], counters[1] = counters[1], counters[0]
			}
			switch err := spendUse(t.Context(), stores[i%len(stores)], u, gateway.Spending{Counters: counters}); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, gateway.ErrBudget) && errors.Is(err, counterfoil.CodePolicyDenied):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != limit || lost.Load() != callers-limit {
		t.Fatalf("%d won and %d lost", won.Load(), lost.Load())
	}
	if n := len(check(t, stores[0])); n != limit {
		t.Fatalf("%d events", n)
	}
	wantCounter(t, stores[1], "a", limit)
	wantCounter(t, stores[1], "b", 3*limit)
}

// A settling corrects what the spending reserved, once, and says how it was even if that is over the limit.
func testCountersSettled(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	const limit = 100
	n := 0
	run := func(reserved int64, corrections ...gateway.Counter) (*Ledger, *counterfoil.Receipt) {
		t.Helper()
		n++
		l := &Ledger{
			Store: s, Case: Approved(t, fmt.Sprint(n), clock.Now()), Spending: line("bytes", reserved, limit),
			Settling: gateway.Settling{Counters: corrections},
		}
		claim, err := l.Claim(t.Context(), fmt.Sprint("run-", n))
		must(t, err)
		r, err := l.Finish(t.Context(), claim, clock.Now())
		must(t, err)
		return l, r
	}
	by := func(add int64) gateway.Counter { return gateway.Counter{Name: "bytes", Add: add, Limit: limit} }
	l, r := run(40, by(-30))
	wantCounter(t, s, "bytes", 10)
	// The same receipt again corrects nothing.
	must(t, l.Settle(t.Context(), r, event(t, counterfoil.PhaseCompleted, "run-1")))
	wantCounter(t, s, "bytes", 10)
	run(10, by(5), gateway.Counter{Name: "rows", Add: 7, Limit: 0}, gateway.Counter{Name: "rows", Add: 1, Limit: 1})
	wantCounter(t, s, "bytes", 25)
	wantCounter(t, s, "rows", 8) // it has none to correct: it is what happened
	run(10, by(500))
	wantCounter(t, s, "bytes", 535) // over the limit, since it happened
	err := spendUse(t.Context(), s, newUse("over", clock.Now()), line("bytes", 1, limit))
	wantRefused(t, err, gateway.ErrBudget)
	l = &Ledger{Store: s, Case: Approved(t, "below", clock.Now()), Settling: gateway.Settling{Counters: []gateway.Counter{
		by(-1000), {Name: "rows", Add: math.MinInt64}, {Name: "most", Add: math.MaxInt64}, {Name: "most", Add: math.MaxInt64}, {Name: "new", Add: -5},
	}}}
	claim, err := l.Claim(t.Context(), "run-below")
	must(t, err)
	must(t, second(l.Finish(t.Context(), claim, clock.Now())))
	for _, name := range []string{"bytes", "rows", "new"} {
		wantCounter(t, s, name, 0) // never below
	}
	err = spendUse(t.Context(), s, newUse("most", clock.Now()), line("most", 1, math.MaxInt64))
	wantRefused(t, err, gateway.ErrBudget)
	must(t, spendUse(t.Context(), s, newUse("again", clock.Now()), line("bytes", limit, limit)))
	wantCounter(t, s, "bytes", limit)
	check(t, s)
}

// What is no reservation is refused, and leaves nothing.
func testCountersReject(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for name, c := range map[string]gateway.Counter{
		"no limit": {Name: "c", Add: 1}, "a limit below zero": {Name: "c", Add: 1, Limit: -1}, "nothing": {Name: "c", Limit: 10},
		"less than nothing": {Name: "c", Add: -1, Limit: 10}, "the least there is": {Name: "c", Add: math.MinInt64, Limit: 10},
		"more than the limit": {Name: "c", Add: 11, Limit: 10}, "more than a sum can be": {Name: "c", Add: math.MaxInt64, Limit: 10},
	} {
		err := spendUse(t.Context(), s, newUse(name, clock.Now()), gateway.Spending{Counters: []gateway.Counter{{Name: "d", Add: 1, Limit: 5}, c}})
		if !errors.Is(err, gateway.ErrBudget) || counterfoil.CodeOf(err) != counterfoil.CodePolicyDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, sp := range map[string]gateway.Spending{
		"a line without a name": line("", 1, 1),
		"a mark without a name": {Marks: []gateway.Mark{{}}},
		"a key without a name":  {Once: []gateway.Once{{Until: clock.Now().Add(time.Hour)}}},
		"a key without an end":  {Once: []gateway.Once{{Key: "k"}}},
	} {
		err := spendUse(t.Context(), s, newUse(name, clock.Now()), sp)
		if code := counterfoil.CodeOf(err); code != counterfoil.CodeInvalidInput && code != counterfoil.CodePolicyDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantPhases(t, s)
	wantCounter(t, s, "c", 0)
	wantCounter(t, s, "d", 0)
}
