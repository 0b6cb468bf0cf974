package counterfoil_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// settled wants a receipt of the outcome and an error of the code, and returns the receipt's payload. The bundle verifies.
func (l *lab) settled(r *counterfoil.Receipt, err error, outcome counterfoil.Outcome, code counterfoil.Code) doc {
	l.t.Helper()
	if code != "" {
		wantCode(l.t, err, code)
	} else if err != nil {
		l.t.Fatal(err)
	}
	if r == nil || r.Outcome() != outcome {
		l.t.Fatalf("receipt %v, want outcome %s", r, outcome)
	}
	b := counterfoil.Bundle{Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun, Operation: l.x.Operation}
	rep, err := counterfoil.VerifyBundle(b.Encode(), allKeys(l.t), at(23, 0, 0, 0))
	if err != nil || rep.Outcome != outcome {
		l.t.Fatalf("the bundle: %v", err)
	}
	return payloadOf(r.Envelope())
}

func TestExecute(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var got counterfoil.Work
	l.executes(func(_ context.Context, w counterfoil.Work) (counterfoil.Result, error) {
		got = w
		l.clock = at(20, 0, 20, 0)
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	res, r, err := l.execute()
	p := l.settled(r, err, counterfoil.OutcomeSucceeded, "")
	if string(res.Value) != rawResult || res.Rows != 1 {
		t.Errorf("result %s", res.Value)
	}
	if string(got.Operation.Parameters()) != `{"where":"status = 'open'"}` || got.Limit != (counterfoil.Limit{Rows: 80, Bytes: 50_000}) ||
		got.IdempotencyKey != l.ledger.consumption.Digest().String() {
		t.Errorf("work %+v", got)
	}
	want := doc{
		"kind": "counterfoil.receipt", "version": "1.0", "id": "execution-1", "tenant": "acme", "audience": "log.example.test",
		"stepId": "query-incidents", "planDigest": digestOf("plan", plan()), "policyDigest": digestOf("policy", policy()),
		"bindingsDigest": digestOf("bindings", list{source()}), "approvalDigest": l.x.Approval.Digest().String(),
		"inputDigest": step(operation())["inputDigest"], "useDigest": l.ledger.consumption.Digest().String(),
		"resultDigest": digestOfBytes("result", []byte(rawResult)), "outcome": "succeeded", "completedAt": stamp(at(20, 0, 20, 0)),
		"issuedAt": stamp(at(20, 0, 20, 0)), "rows": 1, "bytes": len(rawResult), "observedRows": 1, "observedBytes": len(rawResult),
	}
	if d := cmp.Diff(decode(canonical(want)), any(p)); d != "" {
		t.Error(d)
	}
	if r.Digest().String() != digestOf("receipt", want) || r.ID() != "execution-1" || r.Tenant() != "acme" || r.Step() != "query-incidents" ||
		r.UseDigest() != l.ledger.consumption.Digest() || r.ApprovalDigest() != l.x.Approval.Digest() ||
		!r.CompletedAt().Equal(at(20, 0, 20, 0)) || r.Recovered() {
		t.Errorf("receipt %s", r.Digest())
	}
	if n := len(l.ledger.Events()); n != 2 || l.runs != 1 || l.ledger.Uses() != 1 {
		t.Errorf("%d events, %d runs, %d uses", n, l.runs, l.ledger.Uses())
	}
	again, err := counterfoil.ParseReceipt(r.Envelope())
	noError(t, err)
	if again.Digest() != r.Digest() {
		t.Error("the receipt read back is another")
	}
	r.Envelope()[0] = 'x'
	if r.Envelope()[0] != '{' {
		t.Error("the receipt can be changed")
	}
}

// One approval is one run, whoever asks again and how.
func TestExecute_replay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, err := l.execute()
	noError(t, err)
	l.x.ID, l.x.Nonce = "execution-2", [16]byte{9}
	_, r, err := l.execute()
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	if r != nil || l.runs != 1 {
		t.Errorf("receipt %v, %d runs", r, l.runs)
	}
	// A second signature under the same payload is the same approval.
	l.x.Approval = forge(t, payloadOf(l.x.Approval.Envelope()), approverKey(t))
	_, _, err = l.execute()
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
}

func TestExecute_replayConcurrently(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var runs, wins, used atomic.Int32
	l.x.Ledger = l.ledger.Ledger
	l.x.Executor = &counterfoiltest.Executor{Name: "query", Does: counterfoil.EffectRead,
		Run: func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			runs.Add(1)
			return counterfoil.Result{Value: []byte("{}")}, nil
		}}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			x := l.x
			x.ID, x.Nonce = fmt.Sprintf("execution-%d", i), [16]byte{byte(i + 1)}
			_, _, err := counterfoil.Execute(context.Background(), x)
			switch {
			case err == nil:
				wins.Add(1)
			case errors.Is(err, counterfoil.CodeAlreadyUsed):
				used.Add(1)
			}
		})
	}
	wg.Wait()
	if runs.Load() != 1 || wins.Load() != 1 || used.Load() != 63 {
		t.Errorf("%d runs, %d wins, %d refused", runs.Load(), wins.Load(), used.Load())
	}
}

// Each step of an approval is its own right.
func TestExecute_stepsApart(t *testing.T) {
	t.Parallel()
	p, pol := twoSteps()
	l := newLabOf(t, p, pol, operation())
	for i, step := range []string{"query-again", "query-incidents"} {
		l.x.StepID, l.x.ID = step, fmt.Sprintf("execution-%d", i)
		_, r, err := l.execute()
		l.settled(r, err, counterfoil.OutcomeSucceeded, "")
		_, _, err = l.execute()
		wantCode(t, err, counterfoil.CodeAlreadyUsed)
	}
	if l.runs != 2 {
		t.Errorf("%d runs", l.runs)
	}
}

func TestExecute_incomplete(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*counterfoil.Execution){
		"no clock":                 func(x *counterfoil.Execution) { x.Now = nil },
		"no executor":              func(x *counterfoil.Execution) { x.Executor = nil },
		"no operation":             func(x *counterfoil.Execution) { x.Operation = nil },
		"no ledger":                func(x *counterfoil.Execution) { x.Ledger = nil },
		"no pseudonyms":            func(x *counterfoil.Execution) { x.Pseudonyms = nil },
		"empty pseudonyms":         func(x *counterfoil.Execution) { x.Pseudonyms = new(counterfoil.Pseudonyms) },
		"no nonce":                 func(x *counterfoil.Execution) { x.Nonce = [16]byte{} },
		"no id":                    func(x *counterfoil.Execution) { x.ID = "" },
		"an id with a line feed":   func(x *counterfoil.Execution) { x.ID = "a\nb" },
		"no dry run":               func(x *counterfoil.Execution) { x.DryRun = nil },
		"no approval":              func(x *counterfoil.Execution) { x.Approval = nil },
		"executor of another tool": func(x *counterfoil.Execution) { x.Executor = &counterfoiltest.Executor{Name: "other", Does: "read"} },
		"executor of other effect": func(x *counterfoil.Execution) {
			x.Executor = &counterfoiltest.Executor{Name: "query", Does: "mutation"}
		},
		"executor that can't speak": func(x *counterfoil.Execution) { x.Executor = mute{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			f(&l.x)
			l.refused(counterfoil.CodeInvalidInput)
		})
	}
	// A wrong receipt key is found before the effect, not after it.
	for name, s := range map[string]counterfoil.Signer{
		"none": nil, "of another role": approverKey(t), "of another tenant": counterfoiltest.Key(t, counterfoil.RoleReceipt, "gateway", "other"),
		"that can't be had": &signer{public: func() counterfoil.PublicKey { panic("x") }},
	} {
		t.Run("receipt signer "+name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.x.Signer = s
			l.refused(counterfoil.CodeSignatureInvalid)
		})
	}
}

type mute struct{ counterfoil.Executor }

func (mute) Tool() string { panic("no name") }

// What the ledger says decides whether anything runs. Unknown is never yes.
func TestExecute_ledgerAnswers(t *testing.T) {
	t.Parallel()
	detail := "password=secret"
	for _, c := range []struct {
		name string
		err  error
		code counterfoil.Code
	}{
		{"already used", counterfoil.CodeAlreadyUsed, counterfoil.CodeAlreadyUsed},
		{"revoked", counterfoil.CodeRevoked, counterfoil.CodeRevoked},
		{"expired", &counterfoil.Error{Code: counterfoil.CodeApprovalExpired, Msg: "the approval has expired"}, counterfoil.CodeApprovalExpired},
		{"not yet valid", counterfoil.CodeNotYetValid, counterfoil.CodeNotYetValid},
		{"clock", counterfoil.CodeClock, counterfoil.CodeClock},
		{"denied", counterfoil.CodePolicyDenied, counterfoil.CodePolicyDenied},
		{"key", counterfoil.CodeSignatureInvalid, counterfoil.CodeSignatureInvalid},
		{"unavailable", fmt.Errorf("dial %s: %w", detail, counterfoil.CodeUnavailable), counterfoil.CodeUnavailable},
		{"connection lost", errors.New("broken pipe " + detail), counterfoil.CodeUnknownOutcome},
		{"cancelled", context.Canceled, counterfoil.CodeUnknownOutcome},
		{"time over", context.DeadlineExceeded, counterfoil.CodeUnknownOutcome},
		{"unknown", counterfoil.CodeUnknownOutcome, counterfoil.CodeUnknownOutcome},
		{"aborted", counterfoil.CodeAborted, counterfoil.CodeUnknownOutcome},
		{"internal", counterfoil.CodeInternal, counterfoil.CodeUnknownOutcome},
		{"invalid input", counterfoil.CodeInvalidInput, counterfoil.CodeUnknownOutcome},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { return nil, c.err }
			_, r, err := l.execute()
			wantCode(t, err, c.code)
			if !errors.Is(err, c.err) {
				t.Errorf("%v lost its cause", err)
			}
			if r != nil || l.runs != 0 || strings.Contains(err.Error(), detail) {
				t.Errorf("receipt %v, %d runs, error %v", r, l.runs, err)
			}
			if c.name == "expired" && err.Error() != "approval-expired: the approval has expired" {
				t.Errorf("the ledger's own sentence is lost: %v", err)
			}
		})
	}
	t.Run("failed but persisted", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.ledger.afterSpend = func(*counterfoil.Consumption) (*counterfoil.Consumption, error) {
			return nil, errors.New("reset by peer")
		}
		_, _, err := l.execute()
		wantCode(t, err, counterfoil.CodeUnknownOutcome)
		if l.runs != 0 || l.ledger.Uses() != 1 {
			t.Errorf("%d runs, %d uses", l.runs, l.ledger.Uses())
		}
		l.ledger.afterSpend = nil
		_, _, err = l.execute() // the use is gone, and nobody runs on it
		wantCode(t, err, counterfoil.CodeAlreadyUsed)
		r, _, err := counterfoil.Recover(context.Background(), l.x.DryRun, l.x.Approval, l.ledger.consumption, counterfoil.OutcomeCancelled,
			l.x.Pseudonyms, l.x.Signer, now())
		l.settled(r, err, counterfoil.OutcomeCancelled, "")
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { panic(detail) }
		_, _, err := l.execute()
		wantCode(t, err, counterfoil.CodeUnknownOutcome)
		if l.runs != 0 || strings.Contains(err.Error(), detail) {
			t.Errorf("%d runs, error %v", l.runs, err)
		}
	})
	t.Run("no record", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.ledger.afterSpend = func(*counterfoil.Consumption) (*counterfoil.Consumption, error) { return nil, nil }
		_, _, err := l.execute()
		wantCode(t, err, counterfoil.CodeUnknownOutcome)
		if l.runs != 0 {
			t.Error("it ran")
		}
	})
	for name, f := range map[string]func(*counterfoil.Use){
		"another approval":  func(u *counterfoil.Use) { u.Approval[0] ^= 1 },
		"another step":      func(u *counterfoil.Use) { u.Step = "other" },
		"another operation": func(u *counterfoil.Use) { u.Input[0] ^= 1 },
		"another execution": func(u *counterfoil.Use) { u.ExecutionID = "other" },
		"another nonce":     func(u *counterfoil.Use) { u.Nonce[0] ^= 1 },
		"another audience":  func(u *counterfoil.Use) { u.Audience = "other" },
	} {
		t.Run("a record of "+name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.ledger.afterSpend = func(*counterfoil.Consumption) (*counterfoil.Consumption, error) {
				u := l.ledger.use
				f(&u)
				return u.Consume(context.Background(), now(), time.Time{}, ledgerKey(t))
			}
			_, _, err := l.execute()
			wantCode(t, err, counterfoil.CodeUnknownOutcome)
			if l.runs != 0 {
				t.Error("it ran")
			}
		})
	}
}

func TestClaim_Redeem(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.claim()
	if c.Consumption() != l.ledger.consumption {
		t.Error("the claim has another record")
	}
	var wins atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := c.Redeem(); err == nil {
				wins.Add(1)
			} else if !errors.Is(err, counterfoil.CodeAlreadyUsed) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 {
		t.Errorf("redeemed %d times", wins.Load())
	}
	var none *counterfoil.Claim
	_, err := none.Redeem()
	wantCode(t, err, counterfoil.CodeInvalidInput)
	_, err = new(counterfoil.Claim).Redeem()
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

func TestRun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		c := l.claim()
		f, err := counterfoil.Run(ctx, c, l.x.Executor)
		noError(t, err)
		if f.Outcome() != counterfoil.OutcomeSucceeded || string(f.Result().Value) != rawResult || f.Err() != nil {
			t.Errorf("got %s %v", f.Outcome(), f.Err())
		}
		again, err := counterfoil.Run(ctx, c, l.x.Executor)
		wantCode(t, err, counterfoil.CodeAlreadyUsed)
		if again != nil || l.runs != 1 {
			t.Errorf("%d runs", l.runs)
		}
	})
	t.Run("redeemed by another", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		c := l.claim()
		_, err := c.Redeem()
		noError(t, err)
		f, err := counterfoil.Run(ctx, c, l.x.Executor)
		noError(t, err)
		if f.Outcome() != counterfoil.OutcomeIndeterminate || l.runs != 0 {
			t.Errorf("got %s, %d runs", f.Outcome(), l.runs)
		}
	})
	t.Run("not redeemed", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		f, err := counterfoil.Run(ctx, l.claim(), rogue{func(context.Context, *counterfoil.Claim) (counterfoil.Result, error) {
			return counterfoil.Result{Value: []byte("{}")}, nil
		}})
		noError(t, err)
		wantCode(t, f.Err(), counterfoil.CodeExecutionFailed)
		if f.Outcome() != counterfoil.OutcomeCancelled || f.Result().Value != nil {
			t.Errorf("got %s, %s", f.Outcome(), f.Result().Value)
		}
	})
	t.Run("another tool", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		c := l.claim()
		f, err := counterfoil.Run(ctx, c, &counterfoiltest.Executor{Name: "other", Does: counterfoil.EffectRead})
		noError(t, err)
		wantCode(t, f.Err(), counterfoil.CodeInvalidInput)
		r, err := counterfoil.Settle(ctx, l.ledger, f, l.x.Signer, now())
		l.settled(r, err, counterfoil.OutcomeCancelled, "")
		_, err = c.Redeem()
		wantCode(t, err, counterfoil.CodeAlreadyUsed)
	})
	t.Run("nothing to run", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, c := range []*counterfoil.Claim{nil, new(counterfoil.Claim)} {
			_, err := counterfoil.Run(ctx, c, l.x.Executor)
			wantCode(t, err, counterfoil.CodeInvalidInput)
		}
		_, err := counterfoil.Run(ctx, l.claim(), nil)
		wantCode(t, err, counterfoil.CodeInvalidInput)
	})
}

func TestSpend_incomplete(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t)
	a, err := l.authorize()
	noError(t, err)
	for _, c := range []struct {
		ledger counterfoil.Ledger
		auth   *counterfoil.Authorization
	}{{nil, a}, {l.ledger, nil}, {l.ledger, new(counterfoil.Authorization)}} {
		_, err := counterfoil.Spend(ctx, c.ledger, c.auth, l.spendParams())
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
}
