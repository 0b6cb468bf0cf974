package counterfoil_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

func TestSettle_failures(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("the receipt can't be signed", func(t *testing.T) {
		t.Parallel()
		for name, during := range map[string]func() error{
			"error": func() error { return errors.New("secret detail") }, "panic": func() error { panic("secret detail") },
		} {
			l := newLab(t)
			s := &signer{key: receiptKey(t), during: during}
			l.x.Signer = s
			_, r, err := l.execute()
			wantCode(t, err, counterfoil.CodeReceiptFailed)
			if r != nil || l.runs != 1 || l.ledger.settles != 0 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: receipt %v, %d runs, %v", name, r, l.runs, err)
			}
			// The use is started in the ledger: recovery finds it.
			r, e, err := counterfoil.Recover(ctx, l.x.DryRun, l.x.Approval, l.ledger.consumption, counterfoil.OutcomeIndeterminate, l.x.Pseudonyms, receiptKey(t), now())
			l.settled(r, err, counterfoil.OutcomeIndeterminate, "")
			noError(t, l.ledger.Settle(ctx, r, e))
		}
	})
	t.Run("the ledger can't record", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.ledger.beforeSettle = func() error { return errors.New("disk full") }
		res, r, err := l.execute()
		l.settled(r, err, counterfoil.OutcomeSucceeded, counterfoil.CodeReceiptFailed)
		if res.Value != nil {
			t.Error("a result was handed on without a record")
		}
		l.ledger.beforeSettle = func() error { panic("disk full") }
		l2 := newLab(t)
		l2.ledger.beforeSettle = l.ledger.beforeSettle
		_, r, err = l2.execute()
		l2.settled(r, err, counterfoil.OutcomeSucceeded, counterfoil.CodeReceiptFailed)
	})
	t.Run("again", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		f, err := counterfoil.Run(ctx, l.claim(), l.x.Executor)
		noError(t, err)
		l.ledger.afterSettle = func() error { return errors.New("reset by peer") } // failed but persisted
		first, err := counterfoil.Settle(ctx, l.ledger, f, l.x.Signer, now())
		wantCode(t, err, counterfoil.CodeReceiptFailed)
		l.ledger.afterSettle = nil
		second, err := counterfoil.Settle(ctx, l.ledger, f, l.x.Signer, at(20, 0, 5, 0))
		noError(t, err)
		if first.Digest() != second.Digest() || len(l.ledger.Events()) != 2 {
			t.Errorf("two receipts for one execution, %d events", len(l.ledger.Events()))
		}
	})
	t.Run("after recovery", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		f, err := counterfoil.Run(ctx, l.claim(), l.x.Executor)
		noError(t, err)
		r, e, err := counterfoil.Recover(ctx, l.x.DryRun, l.x.Approval, l.ledger.consumption, counterfoil.OutcomeIndeterminate, l.x.Pseudonyms, l.x.Signer, now())
		noError(t, err)
		noError(t, l.ledger.Settle(ctx, r, e))
		_, err = counterfoil.Settle(ctx, l.ledger, f, l.x.Signer, now())
		wantCode(t, err, counterfoil.CodeReceiptFailed)
		if !errors.Is(err, counterfoil.CodeAlreadyUsed) || len(l.ledger.Events()) != 2 {
			t.Errorf("%v, %d events", err, len(l.ledger.Events()))
		}
	})
	t.Run("without a spent use", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		f, err := counterfoil.Run(ctx, l.claim(), l.x.Executor)
		noError(t, err)
		_, err = counterfoil.Settle(ctx, counterfoiltest.NewLedger("log.example.test", ledgerKey(t), l.now), f, l.x.Signer, now())
		wantCode(t, err, counterfoil.CodeReceiptFailed)
	})
	t.Run("nothing to settle", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		f, err := counterfoil.Run(ctx, l.claim(), l.x.Executor)
		noError(t, err)
		for _, call := range []func() (*counterfoil.Receipt, error){
			func() (*counterfoil.Receipt, error) { return counterfoil.Settle(ctx, nil, f, l.x.Signer, now()) },
			func() (*counterfoil.Receipt, error) { return counterfoil.Settle(ctx, l.ledger, nil, l.x.Signer, now()) },
			func() (*counterfoil.Receipt, error) {
				return counterfoil.Settle(ctx, l.ledger, new(counterfoil.Finished), l.x.Signer, now())
			},
		} {
			_, err := call()
			wantCode(t, err, counterfoil.CodeInvalidInput)
		}
		_, err = counterfoil.Settle(ctx, l.ledger, f, nil, now())
		wantCode(t, err, counterfoil.CodeReceiptFailed)
		_, err = counterfoil.Settle(ctx, l.ledger, f, l.x.Signer, now())
		noError(t, err)
	})
}

// An execution that outlives its approval gets a receipt that says so; what the world did stays done.
func TestExecute_late(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end  time.Time
		skew int
		late bool
	}{
		{expires().Add(-time.Millisecond), 0, false}, {expires(), 0, true}, {at(23, 0, 0, 0), 0, true},
		{expires(), 5000, false}, {expires().Add(5 * time.Second), 5000, true},
	} {
		pol := policy()
		pol["maxClockSkewMs"] = c.skew
		l := newLabOf(t, plan(), pol, operation())
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			l.clock = c.end
			return counterfoil.Result{Value: []byte("{}")}, nil
		})
		_, r, err := l.execute()
		p := l.settled(r, err, counterfoil.OutcomeSucceeded, "")
		if (p["late"] == true) != c.late {
			t.Errorf("ended at %s with skew %d: late %v", c.end, c.skew, p["late"])
		}
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t)
	l.claim() // and then the process dies
	rec := func(outcome counterfoil.Outcome, f func(*counterfoil.Execution, **counterfoil.Consumption)) (*counterfoil.Receipt, counterfoil.Event, error) {
		x, c := l.x, l.ledger.consumption
		if f != nil {
			f(&x, &c)
		}
		return counterfoil.Recover(ctx, x.DryRun, x.Approval, c, outcome, x.Pseudonyms, x.Signer, at(22, 0, 0, 0))
	}
	r, e, err := rec(counterfoil.OutcomeIndeterminate, nil)
	p := l.settled(r, err, counterfoil.OutcomeIndeterminate, "")
	if p["recovered"] != true || p["late"] != true || !r.Recovered() || e.Phase() != counterfoil.PhaseCompleted || e.ExecutionID() != "execution-1" {
		t.Errorf("receipt %v", p)
	}
	noError(t, l.ledger.Settle(ctx, r, e))

	other := newLab(t) // an equal call under another approval
	q := plan()
	q["id"] = "plan-2"
	other.x.DryRun = mustDryRun(t, q, policy())
	other.x.Approval = mustApprove(t, other.x.DryRun, request(), approverKey(t))
	for _, c := range []struct {
		name    string
		outcome counterfoil.Outcome
		code    counterfoil.Code
		f       func(*counterfoil.Execution, **counterfoil.Consumption)
	}{
		{"a success", counterfoil.OutcomeSucceeded, counterfoil.CodeInvalidInput, nil},
		{"a failure", counterfoil.OutcomeFailed, counterfoil.CodeInvalidInput, nil},
		{"no outcome", "", counterfoil.CodeInvalidInput, nil},
		{"no dry run", counterfoil.OutcomeIndeterminate, counterfoil.CodeInvalidInput, func(x *counterfoil.Execution, _ **counterfoil.Consumption) { x.DryRun = nil }},
		{"no approval", counterfoil.OutcomeIndeterminate, counterfoil.CodeInvalidInput, func(x *counterfoil.Execution, _ **counterfoil.Consumption) { x.Approval = nil }},
		{"no record", counterfoil.OutcomeIndeterminate, counterfoil.CodeInvalidInput, func(_ *counterfoil.Execution, c **counterfoil.Consumption) { *c = nil }},
		{"no pseudonyms", counterfoil.OutcomeIndeterminate, counterfoil.CodeInvalidInput, func(x *counterfoil.Execution, _ **counterfoil.Consumption) { x.Pseudonyms = nil }},
		{"no signer", counterfoil.OutcomeIndeterminate, counterfoil.CodeInvalidInput, func(x *counterfoil.Execution, _ **counterfoil.Consumption) { x.Signer = nil }},
		{"an empty record", counterfoil.OutcomeIndeterminate, counterfoil.CodeIntegrityFailed, func(_ *counterfoil.Execution, c **counterfoil.Consumption) { *c = new(counterfoil.Consumption) }},
		{"the dry run of another plan", counterfoil.OutcomeIndeterminate, counterfoil.CodeIntegrityFailed, func(x *counterfoil.Execution, _ **counterfoil.Consumption) { x.DryRun = other.x.DryRun }},
		{"the approval of an equal call", counterfoil.OutcomeIndeterminate, counterfoil.CodeIntegrityFailed, func(x *counterfoil.Execution, _ **counterfoil.Consumption) {
			x.DryRun, x.Approval = other.x.DryRun, other.x.Approval
		}},
	} {
		r, _, err := rec(c.outcome, c.f)
		if counterfoil.CodeOf(err) != c.code || r != nil {
			t.Errorf("%s: got %v, %v", c.name, r, err)
		}
	}
}
