package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A step is one method that writes, and how to see whether it has.
type step struct {
	name string
	do   func(s Store) error
	// events is how many the method records.
	events int
	// again is what the method says when it has been done before; nil for no error.
	again func(error) bool
}

// testFaults makes every write fail at every stage, once, in a life that goes through all methods. What failed before the
// commit has left nothing, and can be repeated. What failed after it is there, and says that this is unknown.
func testFaults(t *testing.T, b Backend) {
	for _, stage := range []Stage{Begin, Write, Commit, Committed} {
		for nth := 1; nth <= 8; nth++ {
			if stage != Write && nth > 1 {
				break
			}
			faultyLife(t, b, stage, nth)
		}
	}
}

func faultyLife(t *testing.T, b Backend, stage Stage, nth int) {
	t.Helper()
	clock := NewClock()
	boom := errors.New("injected")
	armed, count := false, 0
	s := b.Open(t, clock.Now, func(at Stage) error {
		if !armed || at != stage {
			return nil
		}
		if count++; count != nth {
			return nil
		}
		armed = false
		return boom
	})
	witness := b.Open(t, clock.Now, nil)
	for _, step := range life(t, clock, fmt.Sprintf("%s-%d-", stage, nth)) {
		before := len(check(t, b, witness))
		armed, count = true, 0
		err := step.do(s)
		fired := !armed
		armed = false
		name := fmt.Sprintf("%s: %s, %s %d", step.name, stage, stage, nth)
		want := counterfoil.CodeUnavailable
		if stage == Committed {
			want = counterfoil.CodeUnknownOutcome
		}
		recorded := len(check(t, b, witness)) - before
		switch {
		case !fired:
			if stage != Write || err != nil {
				t.Fatalf("%s: no fault, and %v", name, err)
			}
			continue // it has fewer statements
		case counterfoil.CodeOf(err) != want:
			t.Fatalf("%s: %v", name, err)
		case stage != Committed && recorded != 0:
			t.Fatalf("%s: left %d events", name, recorded)
		case stage == Committed && recorded != step.events:
			t.Fatalf("%s: recorded %d events", name, recorded)
		}
		err = step.do(s)
		if stage == Committed && step.again != nil {
			if !step.again(err) {
				t.Fatalf("%s: repeated: %v", name, err)
			}
		} else if err != nil {
			t.Fatalf("%s: repeated: %v", name, err)
		}
		check(t, b, witness)
	}
	must(t, s.Close())
	must(t, witness.Close())
}

func conflict(err error) bool {
	_, ok := errors.AsType[*gateway.ConflictError](err)
	return ok
}

// life goes through every method that writes.
func life(t *testing.T, clock *Clock, prefix string) []step {
	t.Helper()
	id := "apr-" + prefix + "1"
	run := "run-" + prefix
	l := &Ledger{
		Case:     Approved(t, prefix, clock.Now()),
		Spending: gateway.Spending{Request: id, Counters: []gateway.Counter{{Name: "calls/" + prefix, Add: 1, Limit: 5}}},
		Settling: gateway.Settling{Request: id, Answer: []byte("sealed"), KeepUntil: clock.Now().Add(time.Minute)},
	}
	var settling gateway.Settling
	row := serverRow(clock)
	row.ID = prefix
	attached := attachment(t, clock, prefix, "1")
	attached.Cap = 100
	return []step{
		{"Record", func(s Store) error { return s.Record(t.Context(), event(t, counterfoil.PhaseRefused, run)) }, 1, nil},
		{"PutSecret", func(s Store) error { return s.PutSecret(t.Context(), "code", prefix, clock.Now().Add(time.Hour)) }, 0, nil},
		{"TakeSecret", func(s Store) error { return second(s.TakeSecret(t.Context(), "code", prefix, clock.Now())) }, 0, nil},
		{"SeeServer", func(s Store) error { return second(s.SeeServer(t.Context(), row)) }, 0, nil},
		{"ClassifyServer", func(s Store) error {
			r := row
			r.Classes, r.Decision = []byte("{}"), []byte("signed")
			return s.ClassifyServer(t.Context(), r, event(t, counterfoil.PhaseClassified, run))
		}, 1, nil},
		{"Attach", func(s Store) error { return second(s.Attach(t.Context(), attached)) }, 1, func(err error) bool { return err != nil }},
		{"Answer", func(s Store) error { return second(s.Answer(t.Context(), Tenant, id, attached.Waiter)) }, 0, nil},
		{"Leave", func(s Store) error { return s.Leave(t.Context(), Tenant, id, attached.Waiter, "x") }, 0, nil},
		{"Rule", func(s Store) error { return s.Rule(t.Context(), ruling(t, clock, id, gateway.Approved)) }, 1, conflict},
		{"Spend", func(s Store) error {
			l.Store = s
			_, err := l.Claim(t.Context(), run)
			if errors.Is(err, counterfoil.CodeUnknownOutcome) {
				if r, c, err := s.Resolve(t.Context(), l.Use); r != gateway.UseMine || c == nil || err != nil {
					t.Errorf("after an unknown commit: %v, %v", r, err)
				}
			}
			return err
		}, 1, func(err error) bool { return errors.Is(err, counterfoil.CodeAlreadyUsed) }},
		{"Settle", func(s Store) error {
			if settling.Receipt == nil {
				x, err := s.Execution(t.Context(), Tenant, run)
				if err != nil {
					return err
				}
				if settling, err = Recovered(x, counterfoil.OutcomeCancelled, clock.Now()); err != nil {
					return err
				}
			}
			return s.Settle(t.Context(), settling)
		}, 1, nil},
		{"Deliver", func(s Store) error { return s.Deliver(t.Context(), Tenant, id) }, 0, nil},
		{"Attach again", func(s Store) error {
			a := attached
			a.New.ID, a.Waiter = id+"2", a.Waiter+"2"
			return second(s.Attach(t.Context(), a))
		}, 1, func(err error) bool { return err != nil }},
		{"Lapse", func(s Store) error {
			return s.Lapse(t.Context(), Tenant, id+"2", gateway.Cancelled, "x", event(t, counterfoil.PhaseLapsed, run))
		}, 1, conflict},
		{"Revoke", func(s Store) error {
			return s.Revoke(t.Context(), Tenant, l.Case.Approval.Digest(), []byte("signed"), event(t, counterfoil.PhaseRevoked, run))
		}, 1, nil},
	}
}
