package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A lostStore commits a spending, and then neither says so nor can be asked, a number of times.
type lostStore struct {
	gateway.Store
	mu      sync.Mutex
	persist bool
	silent  int // how many questions get no answer
	settle  int // how many receipts are not taken
}

func (s *lostStore) less(n *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n--
	return *n >= 0
}

func (s *lostStore) Spend(ctx context.Context, x gateway.Spending) (*counterfoil.Consumption, error) {
	if s.persist {
		if _, err := s.Store.Spend(ctx, x); err != nil {
			return nil, err
		}
	}
	return nil, errLost
}

func (s *lostStore) Resolve(ctx context.Context, u counterfoil.Use) (gateway.Resolution, *counterfoil.Consumption, error) {
	if s.less(&s.silent) {
		return 0, nil, errLost
	}
	return s.Store.Resolve(ctx, u)
}

func (s *lostStore) Settle(ctx context.Context, x gateway.Settling) error {
	if s.less(&s.settle) {
		return errLost
	}
	return s.Store.Settle(ctx, x)
}

// After a commit without an answer the store is asked until it knows; nothing is ever executed, and what was spent gets
// its receipt, by the call or by a sweep.
func TestResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		store *lostStore
		wait  time.Duration
		want  gateway.Reason
		uses  int
	}{
		{"absent, after some time", &lostStore{silent: 3}, 10 * time.Second, gateway.Internal, 0},
		{"mine, after some time", &lostStore{persist: true, silent: 3}, 10 * time.Second, gateway.ApprovalVoid, 1},
		{"mine, and the receipt after some time", &lostStore{persist: true, settle: 3}, 10 * time.Second, gateway.ApprovalVoid, 1},
		{"mine, too late for the call", &lostStore{persist: true, silent: 10_000}, 300 * time.Millisecond, gateway.OutcomeUnknown, 1},
		{"the receipt too late for the call", &lostStore{persist: true, settle: 10_000}, 300 * time.Millisecond, gateway.ApprovalVoid, 1},
		{"absent, too late for the call", &lostStore{silent: 10_000}, 300 * time.Millisecond, gateway.OutcomeUnknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, u := setup(t), newUpstream()
			g := f.open(func(cfg *gateway.Config) {
				c.store.Store, cfg.Store, cfg.ResolveFor = cfg.Store, c.store, c.wait
			})
			done := g.start(t.Context(), call(u, "send", `{}`, 20*time.Second))
			id := g.pending()
			g.approve(id)
			(<-done).want(t, c.want)
			c.store.mu.Lock()
			c.store.silent, c.store.settle = 2, 2 // it comes back, after two more sweeps
			c.store.mu.Unlock()
			await(t, "the end of the matter", func() (string, bool) {
				for _, o := range f.outcomes(g) {
					return "", o == "cancelled"
				}
				return "", c.uses == 0
			})
			if n := len(f.outcomes(g)); n != c.uses || u.effects() != 0 {
				t.Fatalf("%d uses, %d effects", n, u.effects())
			}
			if s := g.state(id); c.uses == 1 && (s.State != gateway.Spent || s.Outcome != "cancelled") {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// Who shares a request whose spending was lost hears of its end too.
func TestResolve_shared(t *testing.T) {
	t.Parallel()
	f, u := setup(t), newUpstream()
	lost := &lostStore{persist: true, silent: 5}
	a := f.open(func(cfg *gateway.Config) { lost.Store, cfg.Store = cfg.Store, lost })
	b := f.open(nil)
	first := a.start(t.Context(), call(u, "send", `{}`, 20*time.Second))
	id := a.pending()
	await(t, "the first caller", func() (string, bool) { return "", f.waiters(id) == 1 })
	a.approve(id)
	await(t, "the spending", func() (string, bool) { return "", a.state(id).State == gateway.Spent })
	second := b.start(t.Context(), call(u, "send", `{}`, 20*time.Second))
	(<-first).want(t, gateway.ApprovalVoid)
	(<-second).want(t, gateway.ApprovalVoid)
	if u.effects() != 0 {
		t.Fatalf("%d effects", u.effects())
	}
}
