package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func testSpendOnce(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	l := &Ledger{Store: s, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	wantPhases(t, b, s, "started")
	c := claim.Consumption()
	if c.ExecutionID() != "run-1" || !c.At().Equal(Start()) {
		t.Fatalf("spent as %s at %v", c.ExecutionID(), c.At())
	}
	if parsed, err := counterfoil.ParseConsumption(c.Envelope()); err != nil || parsed.Digest() != c.Digest() {
		t.Fatal(err)
	}
	started := b.Log(t, s, Tenant)[0].Body
	if !bytes.Contains(started, []byte(`"useDigest":"`+c.Digest().String()+`"`)) {
		t.Fatalf("the started event does not name the use: %s", started)
	}
	for _, id := range []string{"run-2", "run-1"} {
		_, err = l.Claim(t.Context(), id)
		wantCode(t, err, counterfoil.CodeAlreadyUsed)
	}
	wantPhases(t, b, s, "started")
	// An id that is taken belongs to another use: nothing may be recorded under it.
	other := &Ledger{Store: s, Case: Approved(t, "b", clock.Now())}
	if _, err := other.Claim(t.Context(), "run-1"); err == nil {
		t.Fatal("two executions have one id")
	}
	wantPhases(t, b, s, "started")
	_, err = other.Claim(t.Context(), "run-2")
	must(t, err)
	wantPhases(t, b, s, "started", "started")

	foreign := gateway.Spending{Use: l.Use, Started: event(t, counterfoil.PhaseStarted, "run-3")}
	foreign.Use.Audience = "another"
	_, err = s.Spend(t.Context(), foreign)
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
}

// One use, 64 contenders over 16 handles: one wins, 63 are refused for good.
func testContenders(t *testing.T, b Backend) {
	clock := NewClock()
	const handles, each, rounds = 16, 4, 3
	var stores []Store
	for range handles {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	for round := range rounds {
		c := Approved(t, fmt.Sprintf("a%d", round), clock.Now())
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for i, s := range stores {
			for j := range each {
				wg.Go(func() {
					<-ready
					l := &Ledger{Store: s, Case: c}
					switch _, err := l.Claim(t.Context(), fmt.Sprintf("run-%d-%d-%d", round, i, j)); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, counterfoil.CodeAlreadyUsed):
						lost.Add(1)
					default:
						t.Error(err)
					}
				})
			}
		}
		close(ready)
		wg.Wait()
		if won.Load() != 1 || lost.Load() != handles*each-1 {
			t.Fatalf("%d won and %d lost", won.Load(), lost.Load())
		}
		if n := len(check(t, b, stores[0])); n != round+1 {
			t.Fatalf("%d events", n)
		}
	}
}

func testWindow(t *testing.T, b Backend) {
	// In this order the log's head never decides: the first three leave none.
	for _, row := range []struct {
		name string
		move time.Duration
		want counterfoil.Code
	}{
		{"end", 5 * time.Minute, counterfoil.CodeApprovalExpired},
		{"long after", 24 * time.Hour, counterfoil.CodeApprovalExpired},
		{"before", -5*time.Second - time.Millisecond, counterfoil.CodeClock},
		{"a little before", -5 * time.Second, ""}, // the approval's clock is ahead: the use is of its beginning
		{"last instant", 5*time.Minute - time.Millisecond, ""},
	} {
		clock := NewClock()
		c := Approved(t, row.name, clock.Now())
		clock.Move(row.move)
		s := b.Open(t, clock.Now, nil)
		before := len(check(t, b, s))
		_, err := (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-"+row.name)
		if counterfoil.CodeOf(err) != row.want {
			t.Errorf("%s: %v", row.name, err)
		}
		if n := len(check(t, b, s)) - before; (n == 1) != (row.want == "") {
			t.Errorf("%s: %d events", row.name, n)
		}
	}
}

// The clock that is behind the log's head refuses; one that is a little behind gets the head's time.
func testTimes(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	c := Approved(t, "a", clock.Now())
	clock.Move(10 * time.Second)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "call-1")))
	clock.Move(-3 * time.Second)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "call-2")))
	log := b.Log(t, s, Tenant)
	if !log[1].At.Equal(log[0].At) {
		t.Fatalf("times %v, %v", log[0].At, log[1].At)
	}
	clock.Move(-3 * time.Second)
	_, err := (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-1")
	wantCode(t, err, counterfoil.CodeClock)
	clock.Move(2 * time.Second)
	claim, err := (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-1")
	must(t, err)
	if !claim.Consumption().At().Equal(log[0].At) {
		t.Fatalf("spent at %v", claim.Consumption().At())
	}
	wantPhases(t, b, s, "refused", "refused", "started")
}

func testCounter(t *testing.T, b Backend) {
	clock := NewClock()
	const limit, callers = 10, 64
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		c := Approved(t, fmt.Sprint(i), clock.Now())
		wg.Go(func() {
			l := &Ledger{Store: stores[i%2], Case: c, Spending: gateway.Spending{Counters: []gateway.Counter{{Name: "calls/r", Add: 1, Limit: limit}}}}
			switch _, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i)); {
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
	if n := len(check(t, b, stores[0])); n != limit {
		t.Fatalf("%d events", n)
	}
	for name, s := range map[string]gateway.Spending{
		"another counter": {Counters: []gateway.Counter{{Name: "calls/s", Add: 1, Limit: 1}}},
		"a raised limit":  {Counters: []gateway.Counter{{Name: "calls/r", Add: 1, Limit: limit + 1}}},
		"no counter":      {},
	} {
		_, err := (&Ledger{Store: stores[0], Case: Approved(t, name, clock.Now()), Spending: s}).Claim(t.Context(), "run-"+name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, none := range []int64{0, -1} {
		_, err := (&Ledger{Store: stores[0], Case: Approved(t, "x", clock.Now()), Spending: gateway.Spending{Counters: []gateway.Counter{{Name: "c", Add: 1, Limit: none}}}}).
			Claim(t.Context(), "run-x")
		if !errors.Is(err, gateway.ErrBudget) {
			t.Errorf("a limit of %d: %v", none, err)
		}
	}
}

// Callers that share a commit: each gets its own verdict, and one that fails takes nothing of the others with it.
func testBatch(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	expired := map[int]*Case{}
	for i := range 64 {
		expired[i] = Approved(t, fmt.Sprint("expired", i), clock.Now())
	}
	clock.Move(5 * time.Minute)
	used := Approved(t, "used", clock.Now())
	_, err := (&Ledger{Store: s, Case: used}).Claim(t.Context(), "run-used")
	must(t, err)
	var wg sync.WaitGroup
	for i := range 64 {
		c := Approved(t, fmt.Sprint(i), clock.Now())
		wg.Go(func() {
			switch i % 4 {
			case 0:
				if _, err := (&Ledger{Store: s, Case: used}).Claim(t.Context(), fmt.Sprintf("run-%d", i)); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
					t.Error(err)
				}
			case 1: // it fails after it has counted: that must not stay
				l := &Ledger{Store: s, Case: expired[i], Spending: gateway.Spending{Counters: []gateway.Counter{{Name: "d", Add: 1, Limit: 64}}}}
				if _, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i)); !errors.Is(err, counterfoil.CodeApprovalExpired) {
					t.Error(err)
				}
			default:
				l := &Ledger{Store: s, Case: c, Spending: gateway.Spending{Counters: []gateway.Counter{{Name: "d", Add: 1, Limit: 32}}}}
				claim, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := l.Finish(t.Context(), claim, clock.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(check(t, b, s)); n != 1+2*32 {
		t.Fatalf("%d events", n)
	}
}

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
	wantPhases(t, b, s, "started", "completed")
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
	wantPhases(t, b, s, "started", "completed")
	x, err = s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	if !bytes.Equal(x.Receipt, r.Envelope()) || x.Outcome != "succeeded" || x.Tool != tool {
		t.Fatalf("after it is settled: %+v", x)
	}
	if log := b.Log(t, s, Tenant); !log[1].At.Equal(clock.Now()) {
		t.Fatalf("completed at %v", log[1].At)
	}
	// The same receipt again, after an answer that was lost: nothing new.
	e := event(t, counterfoil.PhaseCompleted, "run-1")
	must(t, s.Settle(t.Context(), gateway.Settling{Receipt: r, Completed: e}))
	wantPhases(t, b, s, "started", "completed")
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
	wantPhases(t, b, s, "started")
}

// memory spends every use, as another ledger would.
type memory struct {
	gateway.Uses
	clock *Clock
}

func (m *memory) Spend(ctx context.Context, s gateway.Spending) (*counterfoil.Consumption, error) {
	return s.Use.Consume(ctx, m.clock.Now(), time.Time{}, Key(counterfoil.RoleLedger))
}

// An outcome that comes after recovery has settled the execution is an event, and never a second receipt.
func testLate(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	l := &Ledger{Store: s, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	x, err := s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	rec, err := Recovered(x, counterfoil.OutcomeIndeterminate, clock.Now())
	must(t, err)
	must(t, s.Settle(t.Context(), rec))
	wantPhases(t, b, s, "started", "completed")
	clock.Move(time.Second)
	_, err = l.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	wantPhases(t, b, s, "started", "completed", "late-outcome")
	if late := b.Log(t, s, Tenant)[2].Body; !bytes.Contains(late, []byte(`"outcome":"succeeded"`)) {
		t.Fatalf("the late event: %s", late)
	}
	x, err = s.Execution(t.Context(), Tenant, "run-1")
	must(t, err)
	if !bytes.Equal(x.Receipt, rec.Receipt.Envelope()) || x.Outcome != "indeterminate" {
		t.Fatalf("the receipt was replaced: %+v", x)
	}
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

func testOrphans(t *testing.T, b Backend) {
	clock := NewClock()
	alive, dying := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	if alive.Process() == dying.Process() || alive.Process() == "" {
		t.Fatalf("processes %q and %q", alive.Process(), dying.Process())
	}
	settled := &Ledger{Store: dying, Case: Approved(t, "settled", clock.Now())}
	claim, err := settled.Claim(t.Context(), "run-settled")
	must(t, err)
	_, err = settled.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	for _, id := range []string{"run-1", "run-2"} {
		_, err = (&Ledger{Store: dying, Case: Approved(t, id, clock.Now())}).Claim(t.Context(), id)
		must(t, err)
	}
	_, err = (&Ledger{Store: alive, Case: Approved(t, "mine", clock.Now())}).Claim(t.Context(), "run-mine")
	must(t, err)
	for name, s := range map[string]Store{"alive": alive, "dying": dying} {
		if x, err := s.Orphans(t.Context()); err != nil || len(x) != 0 {
			t.Fatalf("%s sees orphans of the living: %v, %v", name, x, err)
		}
	}
	must(t, dying.Close())
	for range 2 { // looking changes nothing
		x, err := alive.Orphans(t.Context())
		if err != nil || len(x) != 2 || x[0].ID != "run-1" || x[1].ID != "run-2" {
			t.Fatalf("orphans %v, %v", x, err)
		}
	}
	orphans, err := alive.Orphans(t.Context())
	must(t, err)
	for _, x := range orphans {
		st, err := Recovered(x, counterfoil.OutcomeIndeterminate, clock.Now())
		must(t, err)
		must(t, alive.Settle(t.Context(), st))
	}
	if x, err := alive.Orphans(t.Context()); err != nil || len(x) != 0 {
		t.Fatalf("orphans after recovery: %v, %v", x, err)
	}
	// A process that starts now finds the one that was not recovered.
	must(t, alive.Close())
	if x, err := b.Open(t, clock.Now, nil).Orphans(t.Context()); err != nil || len(x) != 1 || x[0].ID != "run-mine" {
		t.Fatalf("orphans after a restart: %v, %v", x, err)
	}
}

func testExecutions(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for i := range 7 {
		l := &Ledger{Store: s, Case: Approved(t, fmt.Sprint(i), clock.Now())}
		claim, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i))
		must(t, err)
		if i%2 == 0 {
			_, err = l.Finish(t.Context(), claim, clock.Now())
			must(t, err)
		}
		clock.Move(time.Second)
	}
	var seen []string
	after := ""
	for {
		page, err := s.Executions(t.Context(), Tenant, after, 3)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, x := range page {
			if x.Approval != nil || x.DryRun != nil || x.Policy != nil || x.Operation != nil || x.Consumption != nil || x.Receipt != nil {
				t.Error("a list has documents")
			}
			if x.Tool != tool || (x.Outcome == "succeeded") != ((x.ID[4]-'0')%2 == 0) {
				t.Errorf("%+v", x)
			}
			seen = append(seen, x.ID)
		}
		after = page[len(page)-1].ID
	}
	if fmt.Sprint(seen) != "[run-6 run-5 run-4 run-3 run-2 run-1 run-0]" {
		t.Fatal(seen)
	}
	if _, err := s.Executions(t.Context(), Tenant, "run-none", 3); !errors.Is(err, gateway.ErrNotFound) {
		t.Error(err)
	}
	for _, none := range []int{0, -1} {
		if page, err := s.Executions(t.Context(), Tenant, "", none); err != nil || len(page) != 0 {
			t.Error(page, err)
		}
	}
	if _, err := s.Execution(t.Context(), Tenant, "run-none"); !errors.Is(err, gateway.ErrNotFound) {
		t.Error(err)
	}
}
