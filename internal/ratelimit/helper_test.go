package ratelimit_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// A tiers is what an administrator has set.
type tiers struct {
	mu  sync.Mutex
	set map[string]ratelimit.Tier
	err error
}

func (x *tiers) Set(tenant string, t ratelimit.Tier) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set[tenant] = t
}

func (x *tiers) Fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
}

func (x *tiers) Tier(_ context.Context, tenant string) (ratelimit.Tier, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.set[tenant], x.err
}

// A fixture is a limiter on a store, with a clock that the test moves.
type fixture struct {
	*ratelimit.Limiter
	clock *storetest.Clock
	tiers *tiers
	store *flaky
}

func setup(t testing.TB) *fixture { return setupWith(t, ratelimit.Options{}) }

func setupWith(t testing.TB, o ratelimit.Options) *fixture {
	t.Helper()
	clock := storetest.NewClock()
	return newFixture(t, o, openStore(t, filepath.Join(t.TempDir(), "test.db"), clock), clock)
}

func newFixture(t testing.TB, o ratelimit.Options, s ratelimit.Store, clock *storetest.Clock) *fixture {
	t.Helper()
	f := &fixture{clock: clock, tiers: &tiers{set: map[string]ratelimit.Tier{}}, store: &flaky{Store: s}}
	o.Store, o.Tier, o.Now = f.store, f.tiers.Tier, clock.Now
	var err error
	if f.Limiter, err = ratelimit.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close(context.WithoutCancel(t.Context())) })
	return f
}

func openStore(t testing.TB, path string, clock *storetest.Clock) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: clock.Now, Names: storetest.Names(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A flaky store fails while it is told to, and counts what it is asked.
type flaky struct {
	ratelimit.Store
	mu     sync.Mutex
	err    error
	writes error
	calls  int
	gate   sync.RWMutex // held by a test that lets writes wait
}

func (s *flaky) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *flaky) FailWrites(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = err
}

func (s *flaky) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *flaky) called() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.err
}

func (s *flaky) Rate(ctx context.Context, k ratelimit.Key) ([]byte, error) {
	if err := s.called(); err != nil {
		return nil, err
	}
	return s.Store.Rate(ctx, k)
}

func (s *flaky) UpdateRates(ctx context.Context, keys []ratelimit.Key, f func([][]byte) ([]ratelimit.Row, error)) error {
	if err := s.called(); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.writes
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.UpdateRates(ctx, keys, f)
}

var errStore = errors.New("the disk is on fire")

func who(tenant string) ratelimit.Subject {
	return ratelimit.Subject{Tenant: tenant, Principal: "agent:a"}
}

// take asks once and wants an answer.
func (f *fixture) take(t testing.TB, s ratelimit.Subject) ratelimit.Decision {
	t.Helper()
	d, err := f.Take(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// count asks n times and returns how often the answer was yes.
func (f *fixture) count(t testing.TB, s ratelimit.Subject, n int) int {
	t.Helper()
	yes := 0
	for range n {
		if f.take(t, s).Allowed {
			yes++
		}
	}
	return yes
}

func (f *fixture) used(t testing.TB, s ratelimit.Subject) ratelimit.Use {
	t.Helper()
	q, err := f.Quota(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return q.Used
}

func wantCode(t testing.TB, err error, want counterfoil.Code) {
	t.Helper()
	if counterfoil.CodeOf(err) != want {
		t.Fatalf("error %v, want %s", err, want)
	}
}
