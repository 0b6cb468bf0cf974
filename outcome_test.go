package counterfoil_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// With real clocks the ledger's may be behind or ahead of the gateway's, with no skew at all.
func TestExecute_clocksApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		ledger time.Duration
		code   counterfoil.Code
		at     time.Duration
		skew   int
	}{
		{"ledger ahead", 2 * time.Second, "", 2 * time.Second, 0},
		{"ledger ahead, with skew", 2 * time.Second, "", 2 * time.Second, 1000},
		{"ledger behind", -2 * time.Second, "", 0, 0}, // the approval's own beginning
		{"ledger far behind", -6 * time.Second, counterfoil.CodeClock, 0, 0},
		{"ledger past the end", time.Hour, counterfoil.CodeApprovalExpired, 0, 0},
		{"ledger past the end, within the skew", time.Hour, "", time.Hour, 1000},
		{"ledger past the end and the skew", time.Hour + time.Second, counterfoil.CodeApprovalExpired, 0, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pol := patientPolicy()
			pol["maxClockSkewMs"] = c.skew
			l := newLabOf(t, plan(), pol, operation())
			l.ledger.Ledger = counterfoiltest.NewLedger("log.example.test", ledgerKey(t), func() time.Time { return l.clock.Add(c.ledger) })
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

func (rogue) Tool() string { return "query" }

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
	t.Run("while it runs", func(t *testing.T) {
		t.Parallel()
		for effect, want := range map[string]struct {
			outcome counterfoil.Outcome
			code    counterfoil.Code
		}{
			"read":     {counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed},
			"mutation": {counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome},
		} {
			for name, gives := range map[string]func(context.Context) (counterfoil.Result, error){
				"and the executor gives up": func(ctx context.Context) (counterfoil.Result, error) {
					return counterfoil.Result{Value: []byte("par"), Rows: 1}, context.Cause(ctx)
				},
				"and the executor finishes": func(context.Context) (counterfoil.Result, error) {
					return counterfoil.Result{Value: []byte("all"), Rows: 1}, nil
				},
				"and the tool fails": func(context.Context) (counterfoil.Result, error) {
					return counterfoil.Result{Value: []byte("bad"), Rows: 1, Failed: true}, nil
				},
			} {
				l := effectLab(t, effect)
				ctx, cancel := context.WithCancelCause(context.Background())
				l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
					cancel(cause)
					return gives(ctx)
				})
				res, r, err := counterfoil.Execute(ctx, l.x)
				p := l.settled(r, err, want.outcome, want.code)
				if p["observedBytes"] != 3.0 || p["observedRows"] != 1.0 || p["bytes"] != 0.0 || res.Value != nil || !errors.Is(err, cause) || l.ledger.settles != 1 {
					t.Errorf("%s, %s: receipt %v, %v", effect, name, p, err)
				}
			}
		}
	})
	t.Run("while it runs, and the tool was not reached", func(t *testing.T) {
		t.Parallel()
		l := effectLab(t, "mutation")
		ctx, cancel := context.WithCancelCause(context.Background())
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			cancel(cause)
			return counterfoil.Result{}, counterfoil.CodeExecutionFailed
		})
		_, r, err := counterfoil.Execute(ctx, l.x)
		l.settled(r, err, counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed)
	})
}

// effectLab is the lab of a call of another effect.
func effectLab(t testing.TB, effect string) *lab {
	op := operation()
	op["effect"] = effect
	p := policy()
	p["allowedEffects"] = list{effect}
	return newLabOf(t, onePlanOf(step(op)), p, op)
}

// The executor has a deadline, whoever asks for how much; what it brings after it is no result.
func TestExecute_deadline(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), d)
	}
	for name, c := range map[string]struct {
		timeout, within time.Duration // asked for, and of the caller's own context
		want            time.Duration
	}{
		"nobody says": {0, 0, counterfoil.DefaultTimeout}, "the execution says": {time.Minute, 0, time.Minute}, "the caller says": {0, time.Minute, time.Minute},
		"the caller has less": {time.Hour, time.Minute, time.Minute}, "the caller has more": {time.Minute, time.Hour, time.Minute},
		"the most": {counterfoil.MaxTimeout, 0, counterfoil.MaxTimeout},
	} {
		l := newLab(t)
		l.x.Timeout = c.timeout
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if c.within != 0 {
			ctx, cancel = in(c.within)
		}
		var got counterfoil.Work
		var has time.Time
		l.executes(func(ctx context.Context, w counterfoil.Work) (counterfoil.Result, error) {
			got = w
			has, _ = ctx.Deadline()
			return counterfoil.Result{Value: []byte(rawResult)}, nil
		})
		_, _, err := counterfoil.Execute(ctx, l.x)
		cancel()
		noError(t, err)
		if left := time.Until(got.Deadline); !has.Equal(got.Deadline) || left > c.want || left < c.want-30*time.Second {
			t.Errorf("%s: %s left", name, left)
		}
	}
	// Run alone does not wait without end either.
	l := newLab(t)
	var got counterfoil.Work
	l.executes(func(_ context.Context, w counterfoil.Work) (counterfoil.Result, error) {
		got = w
		return counterfoil.Result{}, nil
	})
	for limit, ctx := range map[time.Duration]func() (context.Context, context.CancelFunc){
		counterfoil.DefaultTimeout: func() (context.Context, context.CancelFunc) { return t.Context(), func() {} },
		counterfoil.MaxTimeout:     func() (context.Context, context.CancelFunc) { return in(1000 * time.Hour) },
	} {
		l.keyed(ledgerKey(t))
		ctx, cancel := ctx()
		_, err := counterfoil.Run(ctx, l.claim(), l.x.Executor)
		cancel()
		noError(t, err)
		if left := time.Until(got.Deadline); left > limit || left < limit-30*time.Second {
			t.Errorf("%s left of %s", left, limit)
		}
	}
	for _, d := range []time.Duration{-1, counterfoil.MaxTimeout + 1} {
		l := newLab(t)
		l.x.Timeout = d
		l.refused(counterfoil.CodeInvalidInput)
	}
	for effect, want := range map[string]struct {
		outcome counterfoil.Outcome
		code    counterfoil.Code
	}{
		"read":        {counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed},
		"destructive": {counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome},
	} {
		l := effectLab(t, effect)
		l.x.Timeout = 50 * time.Millisecond
		l.executes(func(ctx context.Context, w counterfoil.Work) (counterfoil.Result, error) {
			<-ctx.Done()
			return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
		})
		res, r, err := l.execute()
		p := l.settled(r, err, want.outcome, want.code)
		if p["observedRows"] != 1.0 || p["rows"] != 0.0 || res.Value != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: receipt %v, %v", effect, p, err)
		}
	}
}
