package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A step is one method that writes, and how to see whether it has.
type step struct {
	name string
	do   func(s Store) error
	// events is how many the method records.
	events int
	// done is what the method says when it has done its work; nil for no error.
	done func(error) bool
	// again is what it says when it has been done before; nil for the same as done.
	again func(error) bool
	// seen, if set, looks at what there is after the method has said something.
	seen func(s Store, said error)
}

func (x *step) isDone(err error) bool {
	if x.done != nil {
		return x.done(err)
	}
	return err == nil
}

func (x *step) isAgain(err error) bool {
	if x.again != nil {
		return x.again(err)
	}
	return x.isDone(err)
}

// testFaults makes every write fail at every stage, once, in a life that goes through all methods. What failed before the
// commit has left nothing, and can be repeated. What failed after it is there, and says that this is unknown.
func testFaults(t *testing.T, b Backend) {
	for _, stage := range []Stage{Begin, Write, Commit, Committed} {
		for nth := 1; faultyLife(t, b, stage, nth) > 0 && stage == Write; nth++ {
			if nth > 50 {
				t.Fatal("there is no end of writes")
			}
		}
	}
}

// faultyLife returns how many methods got that far.
func faultyLife(t *testing.T, b Backend, stage Stage, nth int) (fired int) {
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
	prefix := fmt.Sprintf("%s-%d-", stage, nth)
	for _, step := range life(t, clock, prefix) {
		before := len(check(t, witness))
		armed, count = true, 0
		err := step.do(s)
		hit := !armed
		armed = false
		if step.seen != nil {
			step.seen(witness, err)
		}
		name := fmt.Sprintf("%s: %s %d", step.name, stage, nth)
		want := counterfoil.CodeUnavailable
		if stage == Committed {
			want = counterfoil.CodeUnknownOutcome
		}
		recorded := len(check(t, witness)) - before
		switch {
		case !hit:
			if stage != Write || !step.isDone(err) || recorded != step.events {
				t.Fatalf("%s: no fault, %d events, and %v", name, recorded, err)
			}
			continue // it has fewer statements
		case counterfoil.CodeOf(err) != want:
			t.Fatalf("%s: %v", name, err)
		case stage != Committed && recorded != 0:
			t.Fatalf("%s: left %d events", name, recorded)
		case stage == Committed && recorded != step.events:
			t.Fatalf("%s: recorded %d events", name, recorded)
		}
		fired++
		is := step.isDone
		if stage == Committed {
			is = step.isAgain
		}
		if err := step.do(s); !is(err) {
			t.Fatalf("%s: repeated: %v", name, err)
		}
	}
	wantCounter(t, witness, "calls/"+prefix, 1)
	wantCounter(t, witness, "bytes/"+prefix, 15) // 40 were reserved
	must(t, s.Close())
	must(t, witness.Close())
	return fired
}

func conflict(err error) bool {
	_, ok := errors.AsType[*gateway.ConflictError](err)
	return ok
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func failed(err error) bool { return err != nil }

// life goes through every method that writes.
func life(t *testing.T, clock *Clock, prefix string) []step {
	t.Helper()
	run := "run-" + prefix
	id := "apr-" + prefix + "1"
	l := &Ledger{
		Case: Approved(t, prefix, clock.Now()),
		Spending: gateway.Spending{
			Request:  id,
			Counters: []gateway.Counter{{Name: "calls/" + prefix, Add: 1, Limit: 5}, {Name: "bytes/" + prefix, Add: 40, Limit: 100}},
			Once:     []gateway.Once{{Key: "token/" + prefix, Until: clock.Now().Add(time.Hour)}, {Key: "key/" + prefix, Until: clock.Now().Add(time.Hour)}},
			Marks:    []gateway.Mark{{Name: "policy/" + prefix, Value: 3}},
		},
	}
	steps := []step{
		{"Record", func(s Store) error { return s.Record(t.Context(), event(t, counterfoil.PhaseRefused, run)) }, 1, nil, nil, nil},
		{"Advance", func(s Store) error {
			return s.Advance(t.Context(), Tenant, "policy/"+prefix, 0, 3, event(t, counterfoil.PhaseRevoked, "policy"))
		}, 1, nil, is(gateway.ErrChanged), nil},
	}
	steps = append(steps, rows(t, clock, prefix)...)
	steps = append(steps, uses(t, clock, run, l)...)
	return append(steps, ending(t, clock, id, l)...)
}

// rows are the methods on what is no use.
func rows(t *testing.T, clock *Clock, prefix string) []step {
	t.Helper()
	row := serverRow(clock)
	row.ID = prefix
	attached := attachment(t, clock, prefix, "1")
	attached.Cap = 1000
	id := attached.New.ID
	return []step{
		{"PutSecret", func(s Store) error { return s.PutSecret(t.Context(), "code", prefix, clock.Now().Add(time.Hour)) }, 0, nil, nil, nil},
		{"TakeSecret", func(s Store) error { return second(s.TakeSecret(t.Context(), "code", prefix, clock.Now())) }, 0, nil, nil, nil},
		{"SeeServer", func(s Store) error { return second(s.SeeServer(t.Context(), row)) }, 0, nil, nil, nil},
		{"ClassifyServer", func(s Store) error {
			r := row
			r.Classes, r.Decision = []byte("{}"), []byte("signed")
			return s.ClassifyServer(t.Context(), r, event(t, counterfoil.PhaseClassified, prefix))
		}, 1, nil, nil, nil},
		{"Attach", func(s Store) error { return second(s.Attach(t.Context(), attached)) }, 1, nil, failed, nil},
		{"Answer", func(s Store) error { return second(s.Answer(t.Context(), Tenant, id, attached.Waiter)) }, 0, nil, nil, nil},
		{"Leave", func(s Store) error { return s.Leave(t.Context(), Tenant, id, attached.Waiter, "x") }, 0, nil, nil, nil},
		{"Rule", func(s Store) error { return s.Rule(t.Context(), ruling(t, clock, id, gateway.Approved)) }, 1, nil, conflict, nil},
	}
}

// uses are the methods of a use's life.
func uses(t *testing.T, clock *Clock, run string, l *Ledger) []step {
	t.Helper()
	// settling makes the same receipt each time for the same outcome.
	made := map[counterfoil.Outcome]gateway.Settling{}
	settle := func(s Store, outcome counterfoil.Outcome) error {
		st, ok := made[outcome]
		if !ok {
			x, err := s.Execution(t.Context(), Tenant, run)
			if err != nil {
				return err
			}
			if st, err = Recovered(x, outcome, clock.Now()); err != nil {
				return err
			}
			st.Counters = []gateway.Counter{{Name: "bytes/" + run[len("run-"):], Add: -25}}
			st.Answer, st.KeepUntil = []byte("sealed"), clock.Now().Add(time.Minute)
			made[outcome] = st
		}
		return s.Settle(t.Context(), st)
	}
	return []step{
		{"Spend", func(s Store) error {
			l.Store = s
			return second(l.Claim(t.Context(), run))
		}, 1, nil, is(counterfoil.CodeAlreadyUsed), func(s Store, said error) {
			want := gateway.UseAbsent
			if said == nil || errors.Is(said, counterfoil.CodeUnknownOutcome) {
				want = gateway.UseMine
			}
			if r, c, err := s.Resolve(t.Context(), l.Use); r != want || (c != nil) != (want == gateway.UseMine) || err != nil {
				t.Errorf("after %v the use is %v: %v", said, r, err)
			}
		}},
		{"Settle", func(s Store) error { return settle(s, counterfoil.OutcomeCancelled) }, 1, nil, nil, nil},
		{"Settle late", func(s Store) error { return settle(s, counterfoil.OutcomeIndeterminate) }, 1, is(counterfoil.CodeAlreadyUsed), nil, nil},
	}
}

// ending are the methods that come after.
func ending(t *testing.T, clock *Clock, id string, l *Ledger) []step {
	t.Helper()
	attached := attachment(t, clock, id+"2", "")
	attached.Cap, attached.New.Key = 1000, id
	forgotten, expiring := attachment(t, clock, id+"3", ""), attachment(t, clock, id+"4", "")
	forgotten.Cap, expiring.Cap = 1000, 1000
	return []step{
		{"Deliver", func(s Store) error { return s.Deliver(t.Context(), Tenant, id) }, 0, nil, nil, nil},
		{"Attach again", func(s Store) error { return second(s.Attach(t.Context(), attached)) }, 1, nil, failed, nil},
		{"Leave alone", func(s Store) error { return s.Leave(t.Context(), Tenant, attached.New.ID, attached.Waiter, "x") }, 1, nil, nil, nil},
		{"Attach to lapse", func(s Store) error { return second(s.Attach(t.Context(), forgotten)) }, 1, nil, failed, nil},
		{"Lapse", func(s Store) error {
			return s.Lapse(t.Context(), Tenant, forgotten.New.ID, gateway.Cancelled, "x", event(t, counterfoil.PhaseLapsed, id))
		}, 1, nil, conflict, nil},
		{"Attach to expire", func(s Store) error { return second(s.Attach(t.Context(), expiring)) }, 1, nil, failed, nil},
		{"Sweep", func(s Store) error { return second(s.Sweep(t.Context(), expiring.New.ExpiresAt)) }, 1, nil, nil, nil},
		{"Revoke", func(s Store) error {
			return s.Revoke(t.Context(), Tenant, l.Case.Approval.Digest(), []byte("signed"), event(t, counterfoil.PhaseRevoked, id))
		}, 1, nil, nil, nil},
		{"Publish", func(s Store) error {
			x, err := s.Log(t.Context(), Tenant)
			if err != nil {
				return err
			}
			return s.Publish(t.Context(), publication(x.Size, tile(0, 0, 1, "")))
		}, 0, nil, nil, nil},
		{"Retire", func(s Store) error {
			n, err := s.Retire(t.Context(), Tenant, clock.Now().Add(time.Hour), clock.Now().Add(time.Hour), 1)
			if err == nil && n != 1 {
				err = fmt.Errorf("retired %d: %w", n, translog.ErrStale)
			}
			return err
		}, 0, nil, nil, nil},
	}
}
