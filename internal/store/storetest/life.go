package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A use that belongs to a request: the request must be approved, and is spent with it.
func testSpendRequest(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	spend := func(request string) error {
		l := &Ledger{Store: s, Case: Approved(t, request, clock.Now()), Spending: gateway.Spending{Request: request, Counters: []gateway.Counter{{Name: "c", Add: 1, Limit: 1}}}}
		_, err := l.Claim(t.Context(), "run-"+request)
		return err
	}
	wantCode(t, spend("apr-none"), counterfoil.CodePolicyDenied)
	attach(t, s, clock, "p", "1")
	wantCode(t, spend("apr-p1"), counterfoil.CodePolicyDenied)
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-p1", gateway.Denied)))
	wantCode(t, spend("apr-p1"), counterfoil.CodePolicyDenied)
	for _, to := range []gateway.State{gateway.Void, gateway.Expired, gateway.Cancelled} {
		attach(t, s, clock, string(to), "1")
		must(t, s.Rule(t.Context(), ruling(t, clock, "apr-"+string(to)+"1", gateway.Approved)))
		must(t, s.Lapse(t.Context(), Tenant, "apr-"+string(to)+"1", to, "x", event(t, counterfoil.PhaseLapsed, "x")))
		err := spend("apr-" + string(to) + "1")
		wantCode(t, err, counterfoil.CodePolicyDenied)
		wantConflict(t, err, to)
	}
	attach(t, s, clock, "a", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-a1", gateway.Approved)))
	// Nothing of the refused ones stayed: the counter's one is still there.
	must(t, spend("apr-a1"))
	if row := wantState(t, s, "apr-a1", gateway.Spent); row.Execution != "run-apr-a1" {
		t.Fatalf("%+v", row)
	}
	if x, err := s.Execution(t.Context(), Tenant, "run-apr-a1"); err != nil || x.Request != "apr-a1" {
		t.Fatalf("%+v, %v", x, err)
	}
	// Another use of the same request.
	l := &Ledger{Store: s, Case: Approved(t, "again", clock.Now()), Spending: gateway.Spending{Request: "apr-a1"}}
	_, err := l.Claim(t.Context(), "run-again")
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	wantConflict(t, err, gateway.Spent)
	wantConflict(t, s.Lapse(t.Context(), Tenant, "apr-a1", gateway.Void, "x", event(t, counterfoil.PhaseLapsed, "x")), gateway.Spent)
}

// The life of a request with two callers: one runs it, both get the one answer, and then the next call is a new one.
func testLife(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	attach(t, other, clock, "k", "2")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Approved)))
	wantConflict(t, s.Deliver(t.Context(), Tenant, "apr-k1"), gateway.Approved)
	keep := clock.Now().Add(5 * time.Minute)
	l := &Ledger{
		Store: s, Case: Approved(t, "k", clock.Now()), Spending: gateway.Spending{Request: "apr-k1"},
		Settling: gateway.Settling{Request: "apr-k1", Answer: []byte("sealed answer"), KeepUntil: keep},
	}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	if row := attach(t, other, clock, "k", "3"); row.ID != "apr-k1" || row.State != gateway.Spent || row.Outcome != "" {
		t.Fatalf("while it runs, a retry got %+v", row)
	}
	// The caller leaves while the call runs: the outcome waits.
	must(t, s.Leave(t.Context(), Tenant, "apr-k1", "w-k1", "gone"))
	_, err = l.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	row := attach(t, other, clock, "k", "4")
	if row.ID != "apr-k1" || row.Outcome != "succeeded" || string(row.Answer) != "sealed answer" || !row.KeepUntil.Equal(keep) ||
		row.Execution != "run-1" || row.Delivered {
		t.Fatalf("after it ran, a retry got %+v", row)
	}
	must(t, other.Deliver(t.Context(), Tenant, "apr-k1"))
	must(t, other.Deliver(t.Context(), Tenant, "apr-k1"))
	if row := wantState(t, s, "apr-k1", gateway.Spent); !row.Delivered || string(row.Answer) != "sealed answer" {
		t.Fatalf("%+v", row) // whoever still waits shares it
	}
	if row := attach(t, s, clock, "k", "5"); row.ID != "apr-k5" {
		t.Fatalf("after the delivery, the next call got %s", row.ID)
	}
	wantPhases(t, s, "requested", "approved", "started", "completed", "requested")
	if err := s.Deliver(t.Context(), Tenant, "apr-none"); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
}

func testSweep(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	attach(t, s, clock, "pending", "1")
	attach(t, s, clock, "approved", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-approved1", gateway.Approved)))
	attach(t, s, clock, "spent", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-spent1", gateway.Approved)))
	keep := clock.Now().Add(7 * time.Minute)
	l := &Ledger{
		Store: s, Case: Approved(t, "spent", clock.Now()), Spending: gateway.Spending{Request: "apr-spent1"},
		Settling: gateway.Settling{Request: "apr-spent1", Answer: []byte("sealed"), KeepUntil: keep},
	}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	_, err = l.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	for _, step := range []struct {
		after time.Duration
		moved []string
		keeps bool
	}{
		{0, nil, true},
		{5*time.Minute - time.Millisecond, nil, true},
		{5 * time.Minute, []string{"apr-approved1"}, true},
		{7*time.Minute - time.Millisecond, nil, true},
		{7 * time.Minute, nil, false},
		{requestLife, []string{"apr-pending1"}, false},
		{requestLife, nil, false},
	} {
		rows, err := s.Sweep(t.Context(), Start().Add(step.after))
		must(t, err)
		var got []string
		for _, r := range rows {
			if r.State != gateway.Expired || r.Tenant != Tenant || r.Details != nil {
				t.Errorf("%+v", r)
			}
			got = append(got, r.ID)
		}
		if !reflect.DeepEqual(got, step.moved) {
			t.Errorf("after %v it moved %v, not %v", step.after, got, step.moved)
		}
		if row := wantState(t, s, "apr-spent1", gateway.Spent); (row.Answer != nil) != step.keeps || row.Outcome != "succeeded" {
			t.Errorf("after %v: %+v", step.after, row)
		}
	}
	lapsed := check(t, s)
	if lapsed = lapsed[len(lapsed)-2:]; !slices.Equal(lapsed, []string{"lapsed", "lapsed"}) {
		t.Fatalf("what was swept left %v", lapsed)
	}
	wantLapsed(t, s, 7, "apr-approved1", "expired")
	clock.Move(7 * time.Minute)
	if row := attach(t, s, clock, "spent", "2"); row.ID != "apr-spent2" {
		t.Errorf("the answer is gone, and a retry got %s", row.ID)
	}
}

// The waiters of a process that died are counted out.
func testSweepDead(t *testing.T, b Backend) {
	clock := NewClock()
	alive, dying := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	attach(t, dying, clock, "cancelled", "1")
	attach(t, dying, clock, "void", "1")
	must(t, alive.Rule(t.Context(), ruling(t, clock, "apr-void1", gateway.Approved)))
	attach(t, dying, clock, "shared", "1")
	attach(t, alive, clock, "shared", "2")
	attach(t, dying, clock, "answered", "1")
	_, err := dying.Answer(t.Context(), Tenant, "apr-answered1", "w-answered1")
	must(t, err)
	for _, s := range []Store{alive, dying} {
		if rows, err := s.Sweep(t.Context(), clock.Now()); err != nil || len(rows) != 0 {
			t.Fatalf("moved the living's: %v, %v", rows, err)
		}
	}
	must(t, dying.Close())
	rows, err := alive.Sweep(t.Context(), clock.Now())
	must(t, err)
	got := map[string]gateway.State{}
	for _, r := range rows {
		got[r.ID] = r.State
		if r.Cause == "" {
			t.Errorf("%s has no cause", r.ID)
		}
	}
	if want := map[string]gateway.State{"apr-cancelled1": gateway.Cancelled, "apr-void1": gateway.Void}; !reflect.DeepEqual(got, want) {
		t.Fatalf("moved %v, not %v", got, want)
	}
	wantState(t, alive, "apr-shared1", gateway.Pending)
	wantState(t, alive, "apr-answered1", gateway.Pending)
	wantPhases(t, alive, "requested", "requested", "approved", "requested", "requested", "lapsed", "lapsed")
	if rows, err := alive.Sweep(t.Context(), clock.Now()); err != nil || len(rows) != 0 {
		t.Fatalf("moved twice: %v, %v", rows, err)
	}
	must(t, alive.Leave(t.Context(), Tenant, "apr-shared1", "w-shared2", "gone"))
	wantState(t, alive, "apr-shared1", gateway.Cancelled)
}

// The waiters of a process that was killed are counted out once it counts as dead.
func testSweepKilled(t *testing.T, b Backend) {
	clock := NewClock()
	alive, dying := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	attach(t, dying, clock, "a", "1")
	attach(t, alive, clock, "b", "1")
	b.Kill(t, dying)
	var moved []gateway.RequestRow
	eventually(t, b.Dead(), func() bool {
		rows, err := alive.Sweep(t.Context(), clock.Now())
		must(t, err)
		moved = append(moved, rows...)
		return len(moved) > 0
	})
	if len(moved) != 1 || moved[0].ID != "apr-a1" || moved[0].State != gateway.Cancelled || moved[0].Cause == "" {
		t.Fatalf("moved %v", moved)
	}
	wantState(t, alive, "apr-b1", gateway.Pending)
	wantPhases(t, alive, "requested", "requested", "lapsed")
}
