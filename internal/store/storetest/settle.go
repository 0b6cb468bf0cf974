package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func testRestart(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	c := Approved(t, "a", clock.Now())
	l := &Ledger{Store: s, Case: c}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	r, err := l.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	must(t, s.Close())
	s = b.Open(t, clock.Now, nil)
	_, err = (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-2")
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	wantPhases(t, s, "started", "completed")
	x, err := s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	bundle := counterfoil.Bundle{Receipt: r, Approval: c.Approval, DryRun: c.Dry, Operation: c.Operation}
	if bundle.Receipt, err = counterfoil.ParseReceipt(x.Receipt); err != nil {
		t.Fatal(err)
	}
	if bundle.Approval, err = counterfoil.ParseApproval(x.Approval); err != nil {
		t.Fatal(err)
	}
	if bundle.Consumption, err = counterfoil.ParseConsumption(x.Consumption); err != nil {
		t.Fatal(err)
	}
	if _, err := counterfoil.VerifyBundle(bundle.Encode(), Ring(), clock.Now()); err != nil {
		t.Fatalf("what was stored does not verify: %v", err)
	}
}

func testSettle(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	l := &Ledger{Store: s, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	x, err := s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	if x.Receipt != nil || x.Outcome != "" || !x.StartedAt.Equal(Start()) || x.Tenant != Tenant || x.Request != "" {
		t.Fatalf("before it is settled: %+v", x)
	}
	for name, pair := range map[string][2][]byte{
		"approval": {x.Approval, l.Case.Approval.Envelope()}, "dry run": {x.DryRun, l.Case.Dry.Canonical()},
		"policy": {x.Policy, l.Case.Policy.Canonical()}, "operation": {x.Operation, []byte("sealed run-1")},
		"consumption": {x.Consumption, claim.Consumption().Envelope()},
	} {
		if !bytes.Equal(pair[0], pair[1]) {
			t.Errorf("%s: %q", name, pair[0])
		}
	}
	clock.Move(time.Second)
	r, err := l.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	wantPhases(t, s, "started", "completed")
	x, err = s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	if !bytes.Equal(x.Receipt, r.Envelope()) || x.Outcome != "succeeded" || x.Tool != tool {
		t.Fatalf("after it is settled: %+v", x)
	}
	if log := events(t, s, Tenant); !log[1].At.Equal(clock.Now()) {
		t.Fatalf("completed at %v", log[1].At)
	}
	// The same receipt again, after an answer that was lost: nothing new.
	e := event(t, counterfoil.PhaseCompleted, "run-1")
	must(t, s.Settle(t.Context(), gateway.Settling{Receipt: r, Completed: e}))
	wantPhases(t, s, "started", "completed")
}

func testSettleRejects(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	wantCode(t, s.Settle(t.Context(), gateway.Settling{}), counterfoil.CodeInvalidInput)

	// A receipt for a use of another ledger: its id is unknown here, or taken by another use.
	other := &memory{clock: clock}
	l := &Ledger{Store: other, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	f, err := counterfoil.Run(t.Context(), claim, executor(done))
	must(t, err)
	l.Store = s
	_, err = counterfoil.Settle(t.Context(), l, f, Key(counterfoil.RoleReceipt), clock.Now())
	if !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Fatalf("an unknown use: %v", err)
	}
	_, err = (&Ledger{Store: s, Case: Approved(t, "b", clock.Now())}).Claim(t.Context(), "run-1")
	must(t, err)
	_, err = counterfoil.Settle(t.Context(), l, f, Key(counterfoil.RoleReceipt), clock.Now())
	if !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Fatalf("another use: %v", err)
	}
	wantPhases(t, s, "started")
}

// memory spends every use, as another ledger would.
type memory struct {
	gateway.Uses
	clock   *Clock
	settled *gateway.Settling // the last
}

func (m *memory) Settle(_ context.Context, s gateway.Settling) error {
	m.settled = &s
	return nil
}

func (m *memory) Spend(ctx context.Context, s gateway.Spending) (*counterfoil.Consumption, error) {
	return s.Use.Consume(ctx, m.clock.Now(), time.Time{}, Key(counterfoil.RoleLedger))
}

// An outcome that comes after recovery has settled the execution is an event, once for each receipt, and never a second
// receipt. It corrects no counter and answers no request.
func testLate(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Approved)))
	l := &Ledger{
		Store: s, Case: Approved(t, "a", clock.Now()),
		Spending: gateway.Spending{Request: "apr-k1", Counters: []gateway.Counter{{Name: "bytes", Add: 50, Limit: 100}}},
		Settling: gateway.Settling{
			Counters: []gateway.Counter{{Name: "bytes", Add: -50}, {Name: "late", Add: 1}}, Request: "apr-k1",
			Answer: []byte("late answer"), KeepUntil: clock.Now().Add(time.Hour),
		},
	}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	x, err := s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	rec, err := Recovered(x, counterfoil.OutcomeIndeterminate, clock.Now())
	must(t, err)
	must(t, other.Settle(t.Context(), rec))
	wantPhases(t, s, "requested", "approved", "started", "completed")
	clock.Move(time.Second)
	f, err := counterfoil.Run(t.Context(), claim, executor(done))
	must(t, err)
	for _, at := range []Store{s, s, other} { // again, after an answer that was lost
		l.Store = at
		_, err = counterfoil.Settle(t.Context(), l, f, Key(counterfoil.RoleReceipt), clock.Now())
		if !errors.Is(err, counterfoil.CodeAlreadyUsed) {
			t.Fatalf("a late outcome: %v", err)
		}
		wantPhases(t, s, "requested", "approved", "started", "completed", "late-outcome")
	}
	late := events(t, s, Tenant)[4]
	if member(late.Body, "outcome") != "succeeded" || member(late.Body, "executionId") != "run-1" || !late.At.Equal(clock.Now()) {
		t.Fatalf("the late event: %s", late.Body)
	}
	if n, err := other.Find(t.Context(), Tenant, "run-1", counterfoil.PhaseLate); err != nil || n != 5 {
		t.Fatalf("found it at %d: %v", n, err)
	}
	// A third receipt, of another instant, is another late outcome. The first stays, and so does its repetition.
	clock.Move(time.Second)
	third, err := Recovered(x, counterfoil.OutcomeCancelled, clock.Now())
	must(t, err)
	wantCode(t, s.Settle(t.Context(), third), counterfoil.CodeAlreadyUsed)
	must(t, s.Settle(t.Context(), rec))
	wantPhases(t, other, "requested", "approved", "started", "completed", "late-outcome", "late-outcome")
	wantCounter(t, s, "bytes", 50)
	wantCounter(t, s, "late", 0)
	row := wantState(t, s, "apr-k1", gateway.Spent)
	x, err = s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	if !bytes.Equal(x.Receipt, rec.Receipt.Envelope()) || x.Outcome != "indeterminate" || row.Outcome != "indeterminate" || row.Answer != nil {
		t.Fatalf("the receipt was replaced: %+v, %+v", x, row)
	}
}

// Receipts that come at once: one is kept, each of the others is one late outcome.
func testSettleContenders(t *testing.T, b Backend) {
	clock := NewClock()
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	l := &Ledger{Store: stores[0], Case: Approved(t, "a", clock.Now()), Spending: line("c", 10, 100)}
	must(t, second(l.Claim(t.Context(), "run-1")))
	x, err := stores[0].Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	const receipts, times = 8, 3
	var won, late atomic.Int32
	var wg sync.WaitGroup
	for i := range receipts {
		st, err := Recovered(x, counterfoil.OutcomeIndeterminate, clock.Now().Add(time.Duration(i)*time.Millisecond))
		must(t, err)
		st.Counters = []gateway.Counter{{Name: "c", Add: 1}}
		for j := range times {
			wg.Go(func() {
				switch err := stores[(i+j)%len(stores)].Settle(t.Context(), st); {
				case err == nil:
					won.Add(1)
				case counterfoil.CodeOf(err) == counterfoil.CodeAlreadyUsed:
					late.Add(1)
				default:
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if won.Load() != times || late.Load() != (receipts-1)*times { // the one receipt is no error as often as it comes
		t.Fatalf("%d won and %d were late", won.Load(), late.Load())
	}
	want := append([]string{"started", "completed"}, slices.Repeat([]string{"late-outcome"}, receipts-1)...)
	wantPhases(t, stores[0], want...)
	wantCounter(t, stores[0], "c", 11)
}

func testResolve(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	c := Approved(t, "a", clock.Now())
	failing := &Ledger{Store: &memory{clock: clock}, Case: c}
	_, err := failing.Claim(t.Context(), "run-1")
	must(t, err)
	if r, cons, err := s.Resolve(t.Context(), failing.Use); r != gateway.UseAbsent || cons != nil || err != nil {
		t.Fatalf("absent: %v, %v, %v", r, cons, err)
	}
	l := &Ledger{Store: s, Case: c}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	for _, from := range []Store{s, other} {
		r, cons, err := from.Resolve(t.Context(), l.Use)
		if r != gateway.UseMine || err != nil || cons.Digest() != claim.Consumption().Digest() {
			t.Fatalf("mine: %v, %v, %v", r, cons, err)
		}
	}
	u := l.Use
	u.ExecutionID = "run-2"
	if r, cons, err := s.Resolve(t.Context(), u); r != gateway.UseAnothers || cons != nil || err != nil {
		t.Fatalf("another's: %v, %v, %v", r, cons, err)
	}
}
