package counterfoil_test

import (
	"context"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// What is too large is refused by its reader, before anybody is asked anything.
func TestConformance_oversized(t *testing.T) {
	t.Parallel()
	endless := strings.Repeat("x", 1_100_000)
	for name, parse := range map[string]func() error{
		"an approval of 129 steps": func() error {
			p := approvalPayload()
			one := inside(p, "steps", 0)
			many := list{}
			for range 129 {
				many = append(many, one)
			}
			p["steps"] = many
			return drop(counterfoil.ParseApproval)(envelopeOf("approval", canonical(p)))
		},
		"a context with a name without end": func() error {
			return drop(counterfoil.ParseContext)(canonical(doc{"sources": doc{endless: source()}}))
		},
		"an execution with an id without end": func() error {
			l := newLab(t)
			l.x.ID = endless
			_, r, err := l.execute()
			if r != nil || l.runs != 0 || l.ledger.spends != 0 {
				t.Errorf("receipt %v, %d runs, %d spends", r, l.runs, l.ledger.spends)
			}
			return err
		},
		"a receipt with an id without end": func() error {
			p := receiptPayload()
			p["id"] = endless
			return drop(counterfoil.ParseReceipt)(envelopeOf("receipt", canonical(p)))
		},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, parse(), counterfoil.CodeInvalidInput) })
	}
}

// An executor for another tool costs nothing; the right one runs once.
func TestConformance_mismatchThenReplay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	right := l.x.Executor
	l.x.Executor = &namedExecutor{right, "other"}
	l.refused(counterfoil.CodeInvalidInput)
	l.x.Executor = right
	_, _, err := l.execute()
	noError(t, err)
	l.x.ID, l.x.Nonce = "execution-2", [16]byte{2}
	_, r, err := l.execute()
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	if r != nil || l.runs != 1 {
		t.Errorf("receipt %v, %d runs", r, l.runs)
	}
}

type namedExecutor struct {
	counterfoil.Executor
	name string
}

func (e *namedExecutor) Tool() string { return e.name }

// A start that was certainly not recorded spends nothing, and the next attempt may run.
func TestConformance_startFailsOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	broken := true
	l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) {
		if broken {
			return nil, counterfoil.CodeUnavailable
		}
		return nil, nil
	}
	_, r, err := l.execute()
	wantCode(t, err, counterfoil.CodeUnavailable)
	if r != nil || l.runs != 0 || len(l.ledger.Events()) != 1 { // the refusal
		t.Errorf("receipt %v, %d runs", r, l.runs)
	}
	broken = false
	_, _, err = l.execute()
	noError(t, err)
	if l.runs != 1 {
		t.Errorf("%d runs", l.runs)
	}
}

// A source that becomes too old while the tool runs was fresh when it mattered.
func TestConformance_agesWhileRunning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		l.clock = at(20, 30, 0, 0)
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	rep, err := counterfoil.VerifyBundle(l.bundle().Encode(), allKeys(t), tomorrow())
	noError(t, err)
	if rep.Outcome != counterfoil.OutcomeSucceeded || rep.Late {
		t.Errorf("got %+v", rep)
	}
}
