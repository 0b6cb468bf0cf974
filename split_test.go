package counterfoil_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// halves are a host's two systems, and what they were asked in its order.
type halves struct {
	uses  *counterfoiltest.Ledger
	asked []string
	fail  map[string]func() error // by what is asked: before it is done
	after map[string]func() error // after it
	log   []counterfoil.Event
	times []time.Time
}

func (h *halves) ask(what string, do func() error) error {
	h.asked = append(h.asked, what)
	if f := h.fail[what]; f != nil {
		if err := f(); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if f := h.after[what]; f != nil {
		return f()
	}
	return nil
}

// book is the UseBook, log the AuditLog.
type book struct{ *halves }

func (b book) Spend(ctx context.Context, u counterfoil.Use) (c *counterfoil.Consumption, err error) {
	err = b.ask("spend", func() error {
		c, err = b.uses.Spend(ctx, u, counterfoil.Event{})
		return err
	})
	return c, err
}

func (b book) Settle(ctx context.Context, r *counterfoil.Receipt) error {
	return b.ask("settle", func() error { return b.uses.Settle(ctx, r, counterfoil.Event{}) })
}

type auditLog struct{ *halves }

func (l auditLog) Append(ctx context.Context, e counterfoil.Event, at time.Time) error {
	return l.ask(string(e.Phase()), func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !slices.ContainsFunc(l.log, func(o counterfoil.Event) bool { return string(o.Seal(1, now())) == string(e.Seal(1, now())) }) {
			l.log, l.times = append(l.log, e), append(l.times, at)
		}
		return nil
	})
}

// splitLab is a lab on a split ledger.
func splitLab(t testing.TB) (*lab, *halves) {
	t.Helper()
	l := newLab(t)
	h := &halves{uses: l.ledger.Ledger, fail: map[string]func() error{}, after: map[string]func() error{}}
	l.x.Ledger = &counterfoil.SplitLedger{Uses: book{h}, Audit: auditLog{h}}
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		h.asked = append(h.asked, "effect")
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	return l, h
}

// The use first, then the start, then the effect, then the receipt, then the end.
func TestSplitLedger(t *testing.T) {
	t.Parallel()
	l, h := splitLab(t)
	_, r, err := l.execute()
	noError(t, err)
	if !slices.Equal(h.asked, []string{"spend", "started", "effect", "settle", "completed"}) {
		t.Errorf("the order is %s", h.asked)
	}
	c, _ := h.uses.Use(l.x.Approval.Digest(), l.x.StepID)
	start := asDoc(decode(h.log[0].Seal(1, now())))
	if start["useDigest"] != c.Digest().String() || !h.times[0].Equal(c.At()) || !h.times[1].Equal(r.CompletedAt()) {
		t.Errorf("the start is %v, the times %v", start, h.times)
	}
	_, _, err = l.execute()
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	if l.runs != 1 || len(h.log) != 3 || h.log[2].Phase() != counterfoil.PhaseRefused {
		t.Errorf("%d runs, asked %s", l.runs, h.asked)
	}
}

// Wherever it fails, nothing runs without the use and its start, and a use is never given out again.
func TestSplitLedger_failures(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	for name, c := range map[string]struct {
		at      string
		after   bool
		with    func() error
		code    counterfoil.Code
		runs    int
		spent   int
		again   counterfoil.Code
		refused bool
	}{
		"the book refuses":           {"spend", false, func() error { return counterfoil.CodeRevoked }, counterfoil.CodeRevoked, 0, 0, "", true},
		"the book fails":             {"spend", false, func() error { return broken }, counterfoil.CodeUnknownOutcome, 0, 0, "", false},
		"the book's answer is lost":  {"spend", true, func() error { return broken }, counterfoil.CodeUnknownOutcome, 0, 1, counterfoil.CodeAlreadyUsed, false},
		"the start fails":            {"started", false, func() error { return broken }, counterfoil.CodeUnknownOutcome, 0, 1, counterfoil.CodeAlreadyUsed, false},
		"the start is said to be no": {"started", false, func() error { return counterfoil.CodeUnavailable }, counterfoil.CodeUnknownOutcome, 0, 1, counterfoil.CodeAlreadyUsed, false},
		"the start's answer is lost": {"started", true, func() error { return broken }, counterfoil.CodeUnknownOutcome, 0, 1, counterfoil.CodeAlreadyUsed, false},
		"the start panics":           {"started", false, func() error { panic(broken) }, counterfoil.CodeUnknownOutcome, 0, 1, counterfoil.CodeAlreadyUsed, false},
		"the receipt fails":          {"settle", false, func() error { return broken }, counterfoil.CodeReceiptFailed, 1, 1, counterfoil.CodeAlreadyUsed, false},
		"the end fails":              {"completed", false, func() error { return broken }, counterfoil.CodeReceiptFailed, 1, 1, counterfoil.CodeAlreadyUsed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, h := splitLab(t)
			points := h.fail
			if c.after {
				points = h.after
			}
			points[c.at] = c.with
			_, _, err := l.execute()
			wantCode(t, err, c.code)
			if l.runs != c.runs || h.uses.Uses() != c.spent || slices.Contains(h.asked, "refused") != c.refused {
				t.Errorf("%d runs, %d uses, asked %s", l.runs, h.uses.Uses(), h.asked)
			}
			clear(points)
			_, _, err = l.execute()
			if counterfoil.CodeOf(err) != c.again || l.runs > 1 {
				t.Errorf("again: %v, %d runs", err, l.runs)
			}
		})
	}
}

// A use without a start is found in the book and settled as cancelled; an end that is missing comes with the next Settle.
func TestSplitLedger_recovers(t *testing.T) {
	t.Parallel()
	l, h := splitLab(t)
	h.fail["started"] = func() error { return errors.New("full") }
	_, _, err := l.execute()
	wantCode(t, err, counterfoil.CodeUnknownOutcome)
	clear(h.fail)
	c, settled := h.uses.Use(l.x.Approval.Digest(), l.x.StepID)
	if c == nil || settled != nil {
		t.Fatalf("the book has %v, %v", c, settled)
	}
	r, e, err := counterfoil.Recover(t.Context(), l.x.DryRun, l.x.Approval, c, counterfoil.OutcomeCancelled, l.x.Pseudonyms, l.x.Signer, now())
	noError(t, err)
	h.fail["completed"] = func() error { return errors.New("full") }
	if err := l.x.Ledger.Settle(t.Context(), r, e); err == nil || len(h.log) != 0 {
		t.Errorf("got %v, %d events", err, len(h.log))
	}
	clear(h.fail)
	for range 2 {
		noError(t, l.x.Ledger.Settle(t.Context(), r, e))
	}
	if _, settled := h.uses.Use(l.x.Approval.Digest(), l.x.StepID); settled == nil || settled.Outcome() != counterfoil.OutcomeCancelled || len(h.log) != 1 || l.runs != 0 {
		t.Errorf("settled %v, %d events, %d runs", settled, len(h.log), l.runs)
	}
}

// A cancellation after the use is spent loses no record: the start, a cancelled receipt and the end follow.
func TestSplitLedger_cancelled(t *testing.T) {
	t.Parallel()
	l, h := splitLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.after["spend"] = func() error { cancel(); return nil }
	_, r, err := counterfoil.Execute(ctx, l.x)
	wantCode(t, err, counterfoil.CodeAborted)
	if r == nil || r.Outcome() != counterfoil.OutcomeCancelled || !slices.Equal(h.asked, []string{"spend", "started", "settle", "completed"}) {
		t.Errorf("receipt %v, asked %s", r, h.asked)
	}
}

func TestSplitLedger_incomplete(t *testing.T) {
	t.Parallel()
	l, h := splitLab(t)
	for _, s := range []*counterfoil.SplitLedger{{}, {Uses: book{h}}, {Audit: auditLog{h}}} {
		l.x.Ledger = s
		_, _, err := l.execute()
		wantCode(t, err, counterfoil.CodeUnavailable)
		wantCode(t, s.Settle(t.Context(), new(counterfoil.Receipt), counterfoil.Event{}), counterfoil.CodeUnavailable)
	}
	if l.runs != 0 || h.uses.Uses() != 0 {
		t.Errorf("%d runs, asked %s", l.runs, h.asked)
	}
	var none silent
	l.x.Ledger = &counterfoil.SplitLedger{Uses: none, Audit: auditLog{h}}
	_, _, err := l.execute()
	wantCode(t, err, counterfoil.CodeUnknownOutcome)
}

// silent is a book that answers nothing.
type silent struct{ counterfoil.UseBook }

func (silent) Spend(context.Context, counterfoil.Use) (*counterfoil.Consumption, error) {
	return nil, nil //nolint:nilnil // that is the fault
}

// An executor that never comes back is left alone after the deadline and the grace; what it says then is ignored, and one
// that had not redeemed by then can't any more.
func TestExecute_hangs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect  string
		redeems bool
		outcome counterfoil.Outcome
		code    counterfoil.Code
	}{
		"a read":         {"read", true, counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed},
		"a mutation":     {"mutation", true, counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome},
		"not even begun": {"mutation", false, counterfoil.OutcomeCancelled, counterfoil.CodeExecutionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				op, pol := operation(), policy()
				op["effect"], pol["allowedEffects"] = c.effect, list{"mutation", "read"}
				l := newLabOf(t, onePlanOf(step(op)), pol, op)
				release, late := make(chan struct{}), make(chan error, 1)
				l.x.Executor = hanging{l.x.Operation, func(_ context.Context, claim *counterfoil.Claim) (counterfoil.Result, error) {
					if c.redeems {
						_, err := claim.Redeem()
						noError(t, err)
					}
					<-release
					_, err := claim.Redeem()
					late <- err
					return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
				}}
				l.x.Timeout = time.Minute
				began := time.Now()
				res, r, err := l.execute()
				l.settled(r, err, c.outcome, c.code)
				if took := time.Since(began); took != time.Minute+counterfoil.Grace || res.Value != nil {
					t.Errorf("it took %s, result %s", took, res.Value)
				}
				close(release)
				wantCode(t, <-late, counterfoil.CodeAlreadyUsed)
				synctest.Wait()
				if r.Outcome() != c.outcome || len(l.ledger.Events()) != 2 {
					t.Errorf("the late result changed something: %d events", len(l.ledger.Events()))
				}
			})
		})
	}
	t.Run("ends its goroutine", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			l.x.Executor = hanging{l.x.Operation, func(_ context.Context, claim *counterfoil.Claim) (counterfoil.Result, error) {
				_, err := claim.Redeem()
				noError(t, err)
				runtime.Goexit()
				return counterfoil.Result{}, nil
			}}
			_, r, err := l.execute()
			l.settled(r, err, counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome)
		})
	})
	t.Run("comes back in the grace", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			l.executes(func(ctx context.Context, _ counterfoil.Work) (counterfoil.Result, error) {
				<-ctx.Done()
				time.Sleep(counterfoil.Grace - 1)
				return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
			})
			_, r, err := l.execute()
			if p := l.settled(r, err, counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed); asNumber(p["observedRows"]) != 1 {
				t.Errorf("what was seen is lost: %v", p)
			}
		})
	})
}

// hanging is an executor of an operation.
type hanging struct {
	op *counterfoil.Operation
	do func(context.Context, *counterfoil.Claim) (counterfoil.Result, error)
}

func (h hanging) Tool() string               { return h.op.Tool() }
func (h hanging) Effect() counterfoil.Effect { return h.op.Effect() }
func (h hanging) Execute(ctx context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	return h.do(ctx, c)
}
