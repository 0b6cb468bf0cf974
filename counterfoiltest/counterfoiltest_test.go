package counterfoiltest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

func now() time.Time { return time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC) }

func use(step string, nonce byte) counterfoil.Use {
	return counterfoil.Use{
		Tenant: "acme", Audience: "log.example.test", Approval: counterfoil.ResultDigest(nil), Input: counterfoil.ResultDigest(nil),
		Step: step, ExecutionID: "execution-1", Nonce: [16]byte{nonce}, IssuedAt: now(), NotBefore: now(), ExpiresAt: now().Add(time.Minute),
	}
}

func started(t *testing.T) counterfoil.Event {
	t.Helper()
	e, err := counterfoil.NewEvent(counterfoil.PhaseStarted, counterfoiltest.Pseudonyms(t), counterfoil.EventParams{
		Tenant: "acme", Audience: "log.example.test", ExecutionID: "execution-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A use is given out once, whoever asks and how many at a time; the log has no gap and its times never decrease.
func TestLedger_Spend(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	l := counterfoiltest.NewLedger("log.example.test", counterfoiltest.Key(t, counterfoil.RoleLedger, "gateway", "acme"), func() time.Time {
		return now().Add(time.Duration(1000-clock.Add(1)) * time.Millisecond) // it runs backwards
	})
	var wins atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_, err := l.Spend(context.Background(), use("step", byte(i+1)), started(t))
			switch {
			case err == nil:
				wins.Add(1)
			case !errors.Is(err, counterfoil.CodeAlreadyUsed):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 || l.Uses() != 1 || len(l.Events()) != 1 {
		t.Errorf("%d wins, %d uses, %d events", wins.Load(), l.Uses(), len(l.Events()))
	}
	first, err := l.Spend(context.Background(), use("another", 1), started(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.Spend(context.Background(), use("a third", 1), started(t))
	if err != nil || second.At().Before(first.At()) {
		t.Errorf("times decrease: %s, %s, %v", first.At(), second.At(), err)
	}
	late := use("late", 1)
	late.ExpiresAt = now()
	if _, err := l.Spend(context.Background(), late, started(t)); !errors.Is(err, counterfoil.CodeApprovalExpired) {
		t.Errorf("got %v", err)
	}
	if l.Uses() != 3 {
		t.Errorf("%d uses", l.Uses())
	}
}

// A claim that was redeemed elsewhere does not reach the function.
func TestExecutor(t *testing.T) {
	t.Parallel()
	ran := false
	x := counterfoiltest.Executor{Name: "query", Does: counterfoil.EffectRead, Run: func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		ran = true
		return counterfoil.Result{}, nil
	}}
	if _, err := x.Execute(context.Background(), new(counterfoil.Claim)); err == nil || ran {
		t.Errorf("it ran: %v", err)
	}
	if x.Tool() != "query" || x.Effect() != counterfoil.EffectRead {
		t.Error("it is another tool's")
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	one := counterfoiltest.Key(t, counterfoil.RoleApprover, "a", "acme").Public()
	if one.ID != counterfoiltest.Key(t, counterfoil.RoleApprover, "a", "other").Public().ID {
		t.Error("one owner has two keys")
	}
	if one.ID == counterfoiltest.Key(t, counterfoil.RolePolicy, "a", "acme").Public().ID {
		t.Error("two roles have one key")
	}
}
