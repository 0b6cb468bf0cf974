package counterfoiltest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// A bench is one execution over a faulty ledger.
type bench struct {
	x    counterfoil.Execution
	book *counterfoiltest.Ledger
	tool *counterfoiltest.Executor
}

func newBench(faults ...counterfoiltest.Fault) *bench {
	b := &bench{
		book: counterfoiltest.NewLedger("log.example.test", key(counterfoil.RoleLedger), now),
		tool: &counterfoiltest.Executor{Name: "delete_file", Does: counterfoil.EffectDestructive},
	}
	b.x = deletion(now)
	b.x.Executor, b.x.Ledger = b.tool, counterfoiltest.NewFaultyLedger(b.book, faults...)
	return b
}

func (b *bench) receipt() *counterfoil.Receipt {
	_, r := b.book.Use(b.x.Approval.Digest(), counterfoil.CallStep)
	return r
}

// Whatever the ledger does, the effect happens at most once and only for a recorded use, and the records fit together.
func TestFaultyLedger(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	close(closed)
	const spend, settle = counterfoiltest.AtSpend, counterfoiltest.AtSettle
	for _, c := range []struct {
		name           string
		fault          counterfoiltest.Fault
		code, again    counterfoil.Code
		uses, effects  int  // after the first call
		settled, later bool // after the first and the second call
	}{
		{"spend refuses", counterfoiltest.Fault{At: spend, Do: counterfoiltest.Refuse, Code: counterfoil.CodeRevoked}, counterfoil.CodeRevoked, "", 0, 0, false, true},
		{"spend is unavailable", counterfoiltest.Fault{At: spend, Do: counterfoiltest.Refuse}, counterfoil.CodeUnavailable, "", 0, 0, false, true},
		{"spend fails before", counterfoiltest.Fault{At: spend, Do: counterfoiltest.FailBefore}, counterfoil.CodeUnknownOutcome, "", 0, 0, false, true},
		{"spend fails after", counterfoiltest.Fault{At: spend, Do: counterfoiltest.FailAfter}, counterfoil.CodeUnknownOutcome, counterfoil.CodeAlreadyUsed, 1, 0, false, false},
		{"spend answers for another", counterfoiltest.Fault{At: spend, Do: counterfoiltest.AnswerOther}, counterfoil.CodeUnknownOutcome, counterfoil.CodeAlreadyUsed, 1, 0, false, false},
		{"spend answers nothing", counterfoiltest.Fault{At: spend, Do: counterfoiltest.AnswerNone}, counterfoil.CodeUnknownOutcome, "", 0, 0, false, true},
		{"spend panics before", counterfoiltest.Fault{At: spend, Do: counterfoiltest.PanicBefore}, counterfoil.CodeUnknownOutcome, "", 0, 0, false, true},
		{"spend panics after", counterfoiltest.Fault{At: spend, Do: counterfoiltest.PanicAfter}, counterfoil.CodeUnknownOutcome, counterfoil.CodeAlreadyUsed, 1, 0, false, false},
		{"spend blocks", counterfoiltest.Fault{At: spend, Do: counterfoiltest.Block}, counterfoil.CodeUnknownOutcome, "", 0, 0, false, true},
		{"spend blocks, recorded", counterfoiltest.Fault{At: spend, Do: counterfoiltest.BlockAfter}, counterfoil.CodeUnknownOutcome, counterfoil.CodeAlreadyUsed, 1, 0, false, false},
		{"settle refuses", counterfoiltest.Fault{At: settle, Do: counterfoiltest.Refuse}, counterfoil.CodeReceiptFailed, counterfoil.CodeAlreadyUsed, 1, 1, false, false},
		{"settle fails before", counterfoiltest.Fault{At: settle, Do: counterfoiltest.FailBefore}, counterfoil.CodeReceiptFailed, counterfoil.CodeAlreadyUsed, 1, 1, false, false},
		{"settle fails after", counterfoiltest.Fault{At: settle, Do: counterfoiltest.FailAfter}, counterfoil.CodeReceiptFailed, counterfoil.CodeAlreadyUsed, 1, 1, true, true},
		{"settle answers for another", counterfoiltest.Fault{At: settle, Do: counterfoiltest.AnswerOther}, counterfoil.CodeReceiptFailed, counterfoil.CodeAlreadyUsed, 1, 1, false, false},
		{"settle panics after", counterfoiltest.Fault{At: settle, Do: counterfoiltest.PanicAfter}, counterfoil.CodeReceiptFailed, counterfoil.CodeAlreadyUsed, 1, 1, true, true},
		{"settle blocks", counterfoiltest.Fault{At: settle, Do: counterfoiltest.Block, Until: closed}, counterfoil.CodeReceiptFailed, counterfoil.CodeAlreadyUsed, 1, 1, false, false},
		{"no fault", counterfoiltest.Fault{At: settle, Do: counterfoiltest.Block, Call: 7}, "", counterfoil.CodeAlreadyUsed, 1, 1, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.fault.Call == 0 {
				c.fault.Call = 1
			}
			b := newBench(c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if c.fault.At == spend && c.fault.Do >= counterfoiltest.Block {
				ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
			}
			defer cancel()
			_, _, err := counterfoil.Execute(ctx, b.x)
			if counterfoil.CodeOf(err) != c.code || b.book.Uses() != c.uses || len(b.tool.Effects()) != c.effects || (b.receipt() != nil) != c.settled {
				t.Errorf("first: %v, %d uses, %d effects, receipt %v", err, b.book.Uses(), len(b.tool.Effects()), b.receipt() != nil)
			}
			_, _, err = counterfoil.Execute(t.Context(), b.x)
			if counterfoil.CodeOf(err) != c.again || b.book.Uses() != 1 || len(b.tool.Effects()) > 1 || (b.receipt() != nil) != c.later {
				t.Errorf("again: %v, %d uses, %d effects, receipt %v", err, b.book.Uses(), len(b.tool.Effects()), b.receipt() != nil)
			}
			if err := counterfoiltest.Check(b.book, b.tool); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFaultyLedger_chooses(t *testing.T) {
	t.Parallel()
	b := newBench(
		counterfoiltest.Fault{At: counterfoiltest.AtSpend, Call: 2, Do: counterfoiltest.FailBefore},
		counterfoiltest.Fault{At: counterfoiltest.AtSpend, Do: counterfoiltest.Refuse, Code: counterfoil.CodeRevoked},
	)
	for i, want := range []counterfoil.Code{counterfoil.CodeRevoked, counterfoil.CodeUnknownOutcome, counterfoil.CodeRevoked} {
		if _, _, err := counterfoil.Execute(t.Context(), b.x); counterfoil.CodeOf(err) != want {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if l, ok := b.x.Ledger.(*counterfoiltest.FaultyLedger); !ok || l.Calls(counterfoiltest.AtSpend) != 3 || l.Calls(counterfoiltest.AtSettle) != 0 {
		t.Error("the calls are not counted")
	}
	for _, f := range []counterfoiltest.Fault{{}, {At: counterfoiltest.AtSpend}, {Do: counterfoiltest.Refuse}, {At: counterfoiltest.AtSpend, Do: 99}, {At: counterfoiltest.AtSpend, Do: counterfoiltest.Block, Call: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is taken", f)
				}
			}()
			counterfoiltest.NewFaultyLedger(b.book, f)
		}()
	}
}

// Whatever the executor does, there is one receipt, and it says what can be said.
func TestExecutor_behaviours(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		behave  counterfoiltest.Behaviour
		code    counterfoil.Code
		outcome counterfoil.Outcome
		effects int
	}{
		{"well", counterfoiltest.BehaveWell, "", counterfoil.OutcomeSucceeded, 1},
		{"panics", counterfoiltest.BehavePanic, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1},
		{"hangs", counterfoiltest.BehaveHang, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1},
		{"fails", counterfoiltest.BehaveFail, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1},
		{"unreached", counterfoiltest.BehaveUnreached, counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 0},
		{"floods", counterfoiltest.BehaveFlood, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1},
		{"too many rows", counterfoiltest.BehaveManyRows, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1},
		{"no count", counterfoiltest.BehaveMiscount, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1},
		{"never redeems", counterfoiltest.BehaveNotRedeem, counterfoil.CodeExecutionFailed, counterfoil.OutcomeCancelled, 0},
		{"redeems twice", counterfoiltest.BehaveRedeemTwice, "", counterfoil.OutcomeSucceeded, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench()
			b.tool.Behave = c.behave
			ctx := t.Context()
			if c.behave == counterfoiltest.BehaveHang {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			}
			_, _, err := counterfoil.Execute(ctx, b.x)
			r := b.receipt()
			if counterfoil.CodeOf(err) != c.code || r == nil || r.Outcome() != c.outcome || len(b.tool.Effects()) != c.effects {
				t.Fatalf("got %v, receipt %v, %d effects", err, r, len(b.tool.Effects()))
			}
			if err := counterfoiltest.Check(b.book, b.tool); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFaultySigner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signer *counterfoiltest.FaultySigner
		code   counterfoil.Code
	}{
		"fails":         {&counterfoiltest.FaultySigner{Call: 0}, counterfoil.CodeReceiptFailed},
		"fails later":   {&counterfoiltest.FaultySigner{Call: 2}, ""},
		"signs garbage": {&counterfoiltest.FaultySigner{Call: 1, Garbage: true}, counterfoil.CodeReceiptFailed},
	} {
		b := newBench()
		s := c.signer
		s.Signer = b.x.Signer
		b.x.Signer = s
		if _, _, err := counterfoil.Execute(t.Context(), b.x); counterfoil.CodeOf(err) != c.code || (b.receipt() != nil) != (c.code == "") {
			t.Errorf("%s: got %v", name, err)
		}
		if err := counterfoiltest.Check(b.book, b.tool); err != nil {
			t.Error(err)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	c := counterfoiltest.NewClock(now(), time.Second, -3*time.Second)
	for i, want := range []time.Duration{0, time.Second, -2 * time.Second, -time.Second, -4 * time.Second} {
		if got := c.Now(); !got.Equal(now().Add(want)) {
			t.Errorf("reading %d: %s", i, got)
		}
	}
	c = counterfoiltest.NewClock(now())
	c.Now()
	c.Set(now().Add(time.Hour))
	for range 2 {
		if !c.Now().Equal(now().Add(time.Hour)) {
			t.Error("a clock without jumps moves")
		}
	}
}

// A clock that jumps breaks nothing: what happened has its receipt.
func TestClock_jumps(t *testing.T) {
	t.Parallel()
	for _, jumps := range [][]time.Duration{{time.Hour, -time.Hour}, {-time.Hour, time.Hour}, {time.Minute}, {-time.Second}, {48 * time.Hour, -72 * time.Hour}} {
		b := newBench()
		clock := counterfoiltest.NewClock(now(), jumps...)
		b.x.Now = clock.Now
		b.book = counterfoiltest.NewLedger("log.example.test", key(counterfoil.RoleLedger), clock.Now)
		b.x.Ledger = b.book
		_, _, err := counterfoil.Execute(t.Context(), b.x)
		if len(b.tool.Effects()) > 0 != (b.receipt() != nil) {
			t.Errorf("%v: %d effects, receipt %v, %v", jumps, len(b.tool.Effects()), b.receipt() != nil, err)
		}
		if err := counterfoiltest.Check(b.book, b.tool); err != nil {
			t.Errorf("%v: %v", jumps, err)
		}
	}
}

// Check sees what must not be.
func TestCheck(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, want string, l *counterfoiltest.Ledger, xs ...*counterfoiltest.Executor) {
		t.Helper()
		if err := counterfoiltest.Check(l, xs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	b := newBench()
	if _, _, err := counterfoil.Execute(t.Context(), b.x); err != nil {
		t.Fatal(err)
	}
	empty := newBench()
	check(t, "which is no use", empty.book, b.tool)
	check(t, "an effect again", b.book, b.tool, b.tool)
	b.book.Forget()
	check(t, "0 started events", b.book)
	check(t, "differ about its receipt", b.book)
	b = newBench()
	if _, _, err := counterfoil.Execute(t.Context(), b.x); err != nil {
		t.Fatal(err)
	}
	b.book.Repeat()
	for _, want := range []string{"has the number", "ends a use again", "2 started events"} {
		check(t, want, b.book)
	}
	b.book.Lose()
	check(t, "is not spent", b.book)
	b.book.Spoil()
	check(t, "event 1: ", b.book)
}

// A ledger takes nothing of another log, and no receipt of another use.
func TestLedger_refuses(t *testing.T) {
	t.Parallel()
	b := newBench()
	other := counterfoiltest.NewLedger("another.example.test", key(counterfoil.RoleLedger), now)
	b.x.Ledger = other
	if _, _, err := counterfoil.Execute(t.Context(), b.x); !errors.Is(err, counterfoil.CodeIntegrityFailed) || other.Uses() != 0 || len(b.tool.Effects()) != 0 {
		t.Errorf("another audience: %v", err)
	}
	b.x.Ledger = b.book
	if _, _, err := counterfoil.Execute(t.Context(), b.x); err != nil {
		t.Fatal(err)
	}
	again := newBench()
	again.x.ID = "execution-2"
	if _, _, err := counterfoil.Execute(t.Context(), again.x); err != nil {
		t.Fatal(err)
	}
	if err := b.book.Settle(t.Context(), again.receipt(), started(t)); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Errorf("the receipt of another execution: %v", err)
	}
	if err := b.book.Settle(t.Context(), b.receipt(), started(t)); err != nil || len(b.book.Events()) != 2 {
		t.Errorf("the same receipt again: %v, %d events", err, len(b.book.Events()))
	}
	if c, r := b.book.Use(b.x.Approval.Digest(), "another step"); c != nil || r != nil {
		t.Error("a use that is none has a record")
	}
}

// Refusals pass through to the ledger within, unless they are told to fail; a ledger that keeps none loses them.
func TestFaultyLedger_refuse(t *testing.T) {
	t.Parallel()
	key := counterfoiltest.Key(t, counterfoil.RoleLedger, "gateway", "acme")
	book := counterfoiltest.NewLedger("log.example.test", key, now)
	l := counterfoiltest.NewFaultyLedger(book, counterfoiltest.Fault{At: counterfoiltest.AtRefuse, Call: 2, Do: counterfoiltest.FailBefore})
	if err := l.Refuse(t.Context(), started(t)); err != nil {
		t.Error(err)
	}
	if err := l.Refuse(t.Context(), started(t)); !errors.Is(err, counterfoiltest.ErrFault) {
		t.Errorf("got %v", err)
	}
	if n := len(book.Events()); n != 1 || l.Calls(counterfoiltest.AtRefuse) != 2 {
		t.Errorf("%d events", n)
	}
	if err := counterfoiltest.NewFaultyLedger(struct{ counterfoil.Ledger }{book}).Refuse(t.Context(), started(t)); err != nil || len(book.Events()) != 1 {
		t.Errorf("got %v", err)
	}
	elsewhere := counterfoiltest.NewLedger("elsewhere.example.test", key, now)
	if err := elsewhere.Refuse(t.Context(), started(t)); !errors.Is(err, counterfoil.CodeIntegrityFailed) || len(elsewhere.Events()) != 0 {
		t.Errorf("got %v", err)
	}
}
