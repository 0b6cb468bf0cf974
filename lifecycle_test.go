package counterfoil_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// life plays one approval's executions against a ledger that fails as ledgers do.
type life struct {
	*lab
	attempts int
	running  *counterfoil.Finished // ran, and is not settled as far as the host knows
	receipts map[counterfoil.Digest]*counterfoil.Receipt
}

var errBroken = errors.New("the connection broke")

// failing makes the ledger fail: not at all, before it did anything, or after it did everything.
func (l *life) failing(how string) (before, after error) {
	switch how {
	case "before":
		return errBroken, nil
	case "after":
		return nil, errBroken
	default:
		return nil, nil
	}
}

// attempt executes once more. The model: the executor is entered only if the ledger said yes to this very attempt.
func (l *life) attempt(t *rapid.T) {
	l.attempts++
	l.x.ID, l.x.Nonce = fmt.Sprintf("execution-%d", l.attempts), [16]byte{byte(l.attempts), 1}
	modes := []string{"", "before", "after"}
	before, after := l.failing(rapid.SampledFrom(modes).Draw(t, "spend"))
	l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { return nil, before }
	l.ledger.afterSpend = func(c *counterfoil.Consumption) (*counterfoil.Consumption, error) {
		if after != nil {
			return nil, after
		}
		return c, nil
	}
	a, err := l.authorize()
	if err != nil {
		t.Fatal(err)
	}
	used := l.ledger.Uses()
	c, err := counterfoil.Spend(context.Background(), l.ledger, a, l.spendParams())
	switch {
	case before != nil || after != nil && used == 0:
		if !errors.Is(err, counterfoil.CodeUnknownOutcome) {
			t.Fatalf("a broken ledger: %v", err)
		}
	case used == 1:
		if !errors.Is(err, counterfoil.CodeAlreadyUsed) {
			t.Fatalf("a spent use: %v", err)
		}
	case err != nil:
		t.Fatal(err)
	}
	if err != nil {
		return
	}
	how := rapid.SampledFrom([]string{"fine", "error", "panic", "unredeemed", "unsent", "large"}).Draw(t, "executor")
	l.x.Executor = rogue{func(_ context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
		if how == "unredeemed" {
			return counterfoil.Result{}, nil
		}
		if _, err := c.Redeem(); err != nil {
			return counterfoil.Result{}, err
		}
		l.runs++
		switch how {
		case "error":
			return counterfoil.Result{}, errBroken
		case "panic":
			panic("broken")
		case "unsent":
			return counterfoil.Result{}, counterfoil.CodeExecutionFailed
		case "large":
			return counterfoil.Result{Value: make([]byte, 50_001)}, nil
		default:
			return counterfoil.Result{Value: []byte("{}")}, nil
		}
	}}
	l.running, err = counterfoil.Run(context.Background(), c, l.x.Executor)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := counterfoil.Run(context.Background(), c, l.x.Executor); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
		t.Fatalf("a claim ran twice: %v", err)
	}
}

// settle settles what ran, perhaps again.
func (l *life) settle(t *rapid.T) {
	if l.running == nil {
		return
	}
	before, after := l.failing(rapid.SampledFrom([]string{"", "before", "after"}).Draw(t, "settle"))
	l.ledger.beforeSettle, l.ledger.afterSettle = func() error { return before }, func() error { return after }
	r, err := counterfoil.Settle(context.Background(), l.ledger, l.running, l.x.Signer, l.clock)
	if err != nil && !errors.Is(err, counterfoil.CodeReceiptFailed) {
		t.Fatal(err)
	}
	if err == nil {
		l.receipts[r.Digest()] = r
	}
}

// recover plays another process that finds the use started and nobody settling it.
func (l *life) recover(t *rapid.T) {
	if l.ledger.consumption == nil {
		return
	}
	l.ledger.beforeSettle, l.ledger.afterSettle = nil, nil
	r, e, err := counterfoil.Recover(context.Background(), l.x.DryRun, l.x.Approval, l.ledger.consumption,
		counterfoil.OutcomeIndeterminate, l.x.Pseudonyms, l.x.Signer, l.clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ledger.Settle(context.Background(), r, e); err == nil {
		l.receipts[r.Digest()] = r
	} else if !errors.Is(err, counterfoil.CodeAlreadyUsed) {
		t.Fatal(err)
	}
}

// check holds the state against the model: at most one use, one run, one recorded receipt, and a log that tells the same.
func (l *life) check(t *rapid.T) {
	started, completed := 0, 0
	for _, e := range l.ledger.Events() {
		started += bytes.Count(e, []byte(`"phase":"started"`))
		completed += bytes.Count(e, []byte(`"phase":"completed"`))
	}
	if l.runs > 1 || l.ledger.Uses() > 1 || len(l.receipts) > 1 || started != l.ledger.Uses() || completed > started {
		t.Fatalf("%d runs, %d uses, %d receipts, %d started, %d completed", l.runs, l.ledger.Uses(), len(l.receipts), started, completed)
	}
	for _, r := range l.receipts {
		b := counterfoil.Bundle{Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun, Operation: l.x.Operation}
		if _, err := counterfoil.VerifyBundle(b.Encode(), l.x.Keys, tomorrow()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{lab: newLab(t), receipts: map[counterfoil.Digest]*counterfoil.Receipt{}}
		l.ledger.Ledger = counterfoiltest.NewLedger("log.example.test", ledgerKey(t), l.now)
		rt.Repeat(map[string]func(*rapid.T){
			"attempt": l.attempt, "settle": l.settle, "recover": l.recover, "": l.check,
		})
	})
}
