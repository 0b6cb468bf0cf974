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

// With real clocks the ledger's may be behind or ahead of the gateway's, with no skew at all.
func TestExecute_clocksApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		ledger time.Duration
		code   counterfoil.Code
		at     time.Duration
	}{
		{"ledger ahead", 2 * time.Second, "", 2 * time.Second},
		{"ledger behind", -2 * time.Second, "", 0}, // the approval's own beginning
		{"ledger far behind", -6 * time.Second, counterfoil.CodeClock, 0},
		{"ledger past the end", time.Hour, counterfoil.CodeApprovalExpired, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLabOf(t, plan(), patientPolicy(), operation())
			l.ledger.Ledger = counterfoiltest.NewLedger(ledgerKey(t), func() time.Time { return l.clock.Add(c.ledger) })
			_, r, err := l.execute()
			if c.code != "" {
				wantCode(t, err, c.code)
				return
			}
			p := l.settled(r, err, counterfoil.OutcomeSucceeded, "")
			if got := l.ledger.consumption.At(); !got.Equal(now().Add(c.at)) {
				t.Errorf("consumed at %s", got)
			}
			// A completion clock behind the ledger's must not lose the receipt.
			if p["completedAt"] != stamp(now().Add(c.at)) {
				t.Errorf("completed at %s", p["completedAt"])
			}
		})
	}
	t.Run("the clock runs backwards", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			l.clock = now().Add(-time.Hour)
			return counterfoil.Result{}, nil
		})
		_, r, err := l.execute()
		if p := l.settled(r, err, counterfoil.OutcomeSucceeded, ""); p["completedAt"] != stamp(now()) {
			t.Errorf("completed at %s", p["completedAt"])
		}
	})
	t.Run("the clock breaks", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			l.clock = time.Time{}
			return counterfoil.Result{}, nil
		})
		_, r, err := l.execute()
		if p := l.settled(r, err, counterfoil.OutcomeSucceeded, ""); p["completedAt"] != stamp(now()) {
			t.Errorf("completed at %s", p["completedAt"])
		}
		l = newLab(t)
		l.clock = time.Time{}
		l.refused(counterfoil.CodeClock)
	})
}

// Whatever the executor does, there is a receipt, and it says no more and no less than what is known.
func TestExecute_outcomes(t *testing.T) {
	t.Parallel()
	big := []byte(strings.Repeat("x", 50_001))
	failed := fmt.Errorf("no route to host: %w", counterfoil.CodeExecutionFailed)
	type seen struct{ rows, bytes, observedRows, observedBytes int }
	for _, c := range []struct {
		name    string
		res     counterfoil.Result
		err     error
		read    counterfoil.Outcome // what it is for a read
		write   counterfoil.Outcome // and for a mutation
		seen    seen
		result  bool // the receipt names the result
		hand    bool // the caller gets it
		uncount bool
	}{
		{"empty result", counterfoil.Result{}, nil, "succeeded", "succeeded", seen{}, true, true, false},
		{"at the limits", counterfoil.Result{Value: big[1:], Rows: 80}, nil, "succeeded", "succeeded", seen{80, 50_000, 80, 50_000}, true, true, false},
		{"uncounted", counterfoil.Result{Value: big[:5], Uncounted: true}, nil, "succeeded", "succeeded", seen{0, 5, 0, 5}, true, true, true},
		{"81 rows", counterfoil.Result{Value: big[:5], Rows: 81}, nil, "failed", "indeterminate", seen{0, 0, 81, 5}, true, false, false},
		{"50001 bytes", counterfoil.Result{Value: big, Rows: 1}, nil, "failed", "indeterminate", seen{0, 0, 1, 50_001}, true, false, false},
		{"a failure report too large", counterfoil.Result{Value: big, Failed: true}, nil, "failed", "indeterminate", seen{0, 0, 0, 50_001}, true, false, false},
		{"negative rows", counterfoil.Result{Value: big[:5], Rows: -1}, nil, "failed", "indeterminate", seen{0, 0, 0, 5}, true, false, true},
		{"rows beyond the safe integers", counterfoil.Result{Value: big[:5], Rows: 1 << 53}, nil, "failed", "indeterminate", seen{0, 0, 0, 5}, true, false, true},
		{"rows that were not counted", counterfoil.Result{Value: big[:5], Rows: 1, Uncounted: true}, nil, "failed", "indeterminate", seen{0, 0, 0, 5}, true, false, true},
		{"the tool failed", counterfoil.Result{Value: big[:7], Rows: 1, Failed: true}, nil, "failed", "failed", seen{0, 0, 1, 7}, true, true, false},
		{"the tool was not reached", counterfoil.Result{}, failed, "failed", "failed", seen{}, false, false, false},
		{"the connection broke", counterfoil.Result{}, errors.New("secret detail"), "indeterminate", "indeterminate", seen{}, false, false, false},
		{"the connection broke half way", counterfoil.Result{Value: big[:9], Rows: 2}, errors.New("secret detail"), "indeterminate", "indeterminate", seen{0, 0, 2, 9}, true, false, false},
		{"it broke, and the count with it", counterfoil.Result{Value: big[:9], Rows: -2}, errors.New("secret detail"), "indeterminate", "indeterminate", seen{0, 0, 0, 9}, true, false, true},
		{"time was over", counterfoil.Result{}, context.DeadlineExceeded, "indeterminate", "indeterminate", seen{}, false, false, false},
	} {
		for _, effect := range []string{"read", "mutation"} {
			t.Run(c.name+"/"+effect, func(t *testing.T) {
				t.Parallel()
				op, pol := operation(), policy()
				op["effect"], pol["allowedEffects"] = effect, list{"mutation", "read"}
				l := newLabOf(t, onePlanOf(step(op)), pol, op)
				l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) { return c.res, c.err })
				res, r, err := l.execute()
				outcome := c.read
				if effect == "mutation" {
					outcome = c.write
				}
				code := map[counterfoil.Outcome]counterfoil.Code{
					"succeeded": "", "failed": counterfoil.CodeExecutionFailed, "indeterminate": counterfoil.CodeUnknownOutcome,
				}[outcome]
				p := l.settled(r, err, outcome, code)
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the executor's words leave: %v", err)
				}
				if c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("%v lost its cause", err)
				}
				got := seen{int(asNumber(p["rows"])), int(asNumber(p["bytes"])), int(asNumber(p["observedRows"])), int(asNumber(p["observedBytes"]))}
				if got != c.seen {
					t.Errorf("counts %+v, want %+v", got, c.seen)
				}
				if d, named := p["resultDigest"]; named != c.result || named && d != digestOfBytes("result", c.res.Value) {
					t.Errorf("result digest %v", d)
				}
				if (p["uncounted"] == true) != c.uncount {
					t.Errorf("uncounted %v", p["uncounted"])
				}
				if (res.Value != nil) != c.hand || c.hand && string(res.Value) != string(c.res.Value) {
					t.Errorf("handed on %q", res.Value)
				}
			})
		}
	}
}

// rogue is an executor that does with the claim what it likes.
type rogue struct {
	run func(context.Context, *counterfoil.Claim) (counterfoil.Result, error)
}

func (rogue) Tool() string               { return "query" }
func (rogue) Effect() counterfoil.Effect { return counterfoil.EffectRead }
func (x rogue) Execute(ctx context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	return x.run(ctx, c)
}

func TestExecute_executorPanics(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.x.Executor = rogue{func(_ context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
		_, err := c.Redeem()
		noError(t, err)
		panic("secret detail")
	}}
	_, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the panic's words leave: %v", err)
	}
	l = newLab(t)
	l.x.Executor = rogue{func(context.Context, *counterfoil.Claim) (counterfoil.Result, error) { panic("at once") }}
	_, r, err = l.execute()
	l.settled(r, err, counterfoil.OutcomeCancelled, counterfoil.CodeExecutionFailed)
}

// An executor that does not take the operation has done nothing, and can't do it later.
func TestExecute_notRedeemed(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func() (counterfoil.Result, error){
		"with a result": func() (counterfoil.Result, error) { return counterfoil.Result{Value: []byte("{}"), Rows: 1}, nil },
		"with an error": func() (counterfoil.Result, error) { return counterfoil.Result{}, errors.New("not today") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			var kept *counterfoil.Claim
			l.x.Executor = rogue{func(_ context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
				kept = c
				return run()
			}}
			res, r, err := l.execute()
			p := l.settled(r, err, counterfoil.OutcomeCancelled, counterfoil.CodeExecutionFailed)
			if res.Value != nil || p["observedBytes"] != 0.0 {
				t.Errorf("result %s, receipt %v", res.Value, p)
			}
			_, err = kept.Redeem()
			wantCode(t, err, counterfoil.CodeAlreadyUsed)
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

func TestExecute_cancelled(t *testing.T) {
	t.Parallel()
	cause := errors.New("the client left")
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		_, r, err := counterfoil.Execute(ctx, l.x)
		wantCode(t, err, counterfoil.CodeAborted)
		if r != nil || l.runs != 0 || l.ledger.spends != 0 || !errors.Is(err, cause) {
			t.Errorf("receipt %v, %d runs, %d spends, %v", r, l.runs, l.ledger.spends, err)
		}
	})
	t.Run("after the use was spent", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		l.ledger.afterSpend = func(c *counterfoil.Consumption) (*counterfoil.Consumption, error) { cancel(cause); return c, nil }
		_, r, err := counterfoil.Execute(ctx, l.x)
		l.settled(r, err, counterfoil.OutcomeCancelled, counterfoil.CodeAborted)
		if l.runs != 0 || len(l.ledger.Events()) != 2 {
			t.Errorf("%d runs, %d events", l.runs, len(l.ledger.Events()))
		}
	})
	t.Run("while it runs, and the executor gives up", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		l.executes(func(ctx context.Context, _ counterfoil.Work) (counterfoil.Result, error) {
			cancel(cause)
			return counterfoil.Result{Value: []byte("par"), Rows: 1}, context.Cause(ctx)
		})
		_, r, err := counterfoil.Execute(ctx, l.x)
		p := l.settled(r, err, counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome)
		if p["observedBytes"] != 3.0 || p["bytes"] != 0.0 || !errors.Is(err, cause) {
			t.Errorf("receipt %v, %v", p, err)
		}
	})
	t.Run("while it runs, and the executor finishes", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			cancel(cause)
			return counterfoil.Result{Value: []byte("{}")}, nil
		})
		res, r, err := counterfoil.Execute(ctx, l.x)
		l.settled(r, err, counterfoil.OutcomeSucceeded, "") // a whole result is the truth, whoever waits for it
		if string(res.Value) != "{}" || l.ledger.settles != 1 {
			t.Errorf("result %s, %d settles", res.Value, l.ledger.settles)
		}
	})
}

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
		_, err = counterfoil.Settle(ctx, counterfoiltest.NewLedger(ledgerKey(t), l.now), f, l.x.Signer, now())
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
