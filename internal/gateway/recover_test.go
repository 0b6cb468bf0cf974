package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A stalled upstream holds its calls until it is let go.
type stalled struct {
	*upstream
	entered chan struct{}
	free    chan struct{}
}

func stall() *stalled {
	s := &stalled{upstream: newUpstream(), entered: make(chan struct{}, 100), free: make(chan struct{})}
	s.answer = func(context.Context, gateway.Request) (gateway.Answer, error) {
		s.entered <- struct{}{}
		<-s.free
		return gateway.Answer{Result: []byte(`{"content":[]}`)}, nil
	}
	return s
}

// running starts an approved call on the gate, and returns once it is with the upstream.
func (g *gate) running(s *stalled, args string) <-chan outcome {
	g.f.t.Helper()
	done := g.start(g.f.t.Context(), call(s, "send", args, 20*time.Second))
	g.approve(g.pending())
	<-s.entered
	return done
}

// bury makes all others take the gate's process for dead, while it lives on: as after a long sleep.
func (g *gate) bury() {
	g.f.t.Helper()
	must(g.f.t, os.Remove(filepath.Join(g.f.dir, "procs", g.store.Process()+".lock")))
}

func (f *fixture) outcomes(g *gate) map[string]string {
	f.t.Helper()
	list, err := g.store.Executions(f.t.Context(), tenant, "", 100)
	must(f.t, err)
	out := map[string]string{}
	for _, e := range list {
		out[e.ID] = e.Outcome
	}
	return out
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), text)
}

// One record that can't be read leaves its own execution without a receipt, and says so once; all others get theirs.
func TestRecover_damaged(t *testing.T) {
	t.Parallel()
	f, s := setup(t), stall()
	a := f.open(nil)
	var calls []<-chan outcome
	for _, args := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
		calls = append(calls, a.running(s, args))
	}
	ids := f.outcomes(a)
	if len(ids) != 3 {
		t.Fatalf("executions %v", ids)
	}
	damaged := ""
	for id := range ids {
		damaged = max(damaged, id)
	}
	f.exec(`DROP TRIGGER documents_stay`)
	f.exec(`UPDATE documents SET dry_run = x'7b7d' WHERE number = (SELECT number FROM executions WHERE id = ?)`, damaged)
	a.bury()
	log := &logBuffer{}
	b := f.open(func(c *gateway.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	if !b.Ready() {
		t.Fatal("one damaged record keeps the gate from starting")
	}
	time.Sleep(1200 * time.Millisecond) // two sweeps
	for id, o := range f.outcomes(b) {
		if want := map[bool]string{true: "", false: "indeterminate"}[id == damaged]; o != want {
			t.Errorf("%s: outcome %q, want %q", id, o, want)
		}
	}
	if n := log.count("can't be settled"); n != 1 || log.count(damaged) == 0 {
		t.Errorf("the damaged execution was reported %d times", n)
	}
	close(s.free)
	for _, c := range calls {
		<-c
	}
}

// Recovery is not only for the start: a process that dies later is found by the sweep of any other.
func TestRecover_later(t *testing.T) {
	t.Parallel()
	f, s := setup(t), stall()
	a, b := f.open(nil), f.open(nil)
	done := a.running(s, `{}`)
	a.bury()
	await(t, "the receipt", func() (string, bool) {
		for _, o := range f.outcomes(b) {
			return o, o == "indeterminate"
		}
		return "", false
	})
	close(s.free)
	<-done
}

// A process that was taken for dead and comes back with the real outcome: the receipt stays as it is, the outcome is an
// event beside it, and the caller is told.
func TestRecover_lateOutcome(t *testing.T) {
	t.Parallel()
	f, s := setup(t), stall()
	log := &logBuffer{}
	a := f.open(func(c *gateway.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	done := a.running(s, `{}`)
	a.bury()
	b := f.open(nil)
	close(s.free)
	out := <-done
	out.want(t, gateway.OutcomeUnknown)
	r, ok := errors.AsType[*gateway.Refusal](out.err)
	if !ok || r.Receipt == "" || !strings.Contains(r.Msg, "too late") {
		t.Fatalf("%+v", r)
	}
	f.wantPhase(t, "late-outcome", `"outcome":"succeeded"`)
	time.Sleep(1200 * time.Millisecond) // two sweeps: nothing is offered again
	count := 0
	for _, e := range f.events() {
		count += bytes.Count(e, []byte(`"phase":"late-outcome"`))
	}
	if count != 1 || f.outcomes(b)[r.Receipt] != "indeterminate" || log.count("the store fails") != 0 {
		t.Fatalf("%d late outcomes, receipts %v, log %s", count, f.outcomes(b), log.b.String())
	}
}

// Two processes that find the same orphan at once: one receipt.
func TestRecover_together(t *testing.T) {
	t.Parallel()
	f, s := setup(t), stall()
	a := f.open(nil)
	done := a.running(s, `{}`)
	a.bury()
	var work sync.WaitGroup
	gates := make([]*gate, 4)
	for i := range gates {
		work.Go(func() { gates[i] = f.open(nil) })
	}
	work.Wait()
	for _, g := range gates {
		if !g.Ready() {
			t.Error("a gate did not start")
		}
	}
	if n := len(f.query(`SELECT body FROM receipts`)); n != 1 {
		t.Errorf("%d receipts", n)
	}
	close(s.free)
	<-done
}

// What Serve can't do for itself ends the gate, aloud: no call is taken any more.
func TestServe_ends(t *testing.T) {
	t.Parallel()
	refusing := errors.New("the log was shortened")
	for _, c := range []struct {
		name    string
		change  func(*gateway.Config)
		started bool
		want    error
	}{
		{"guard", func(c *gateway.Config) { c.Guard = func(context.Context) error { return refusing } }, false, refusing},
		{"orphans", func(c *gateway.Config) { c.Store = &brokenStore{Store: c.Store, orphans: errLost} }, false, errLost},
		{"panic", func(c *gateway.Config) { c.Store = &brokenStore{Store: c.Store, panics: true} }, true, counterfoil.CodeInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, u := setup(t), newUpstream()
			log := &logBuffer{}
			g := f.open(func(cfg *gateway.Config) {
				cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
				c.change(cfg)
			})
			if err := <-g.ended; !errors.Is(err, c.want) {
				t.Fatalf("Serve returned %v", err)
			}
			if g.Ready() {
				t.Error("ready")
			}
			if c.started && log.count("level=ERROR") == 0 {
				t.Error("the log says nothing")
			}
			read := call(u, "resources/read", `{"uri":"x"}`, noHold)
			read.Method = "resources/read"
			g.do(t.Context(), read).want(t, gateway.Internal)
			if u.effects() != 0 {
				t.Fatal("an effect")
			}
		})
	}
}

// While the store fails the gate is not ready, and says so once; when it is well again it goes on.
func TestReady(t *testing.T) {
	t.Parallel()
	f := setup(t)
	log, broken := &logBuffer{}, &brokenStore{}
	g := f.open(func(c *gateway.Config) {
		broken.Store, c.Store = c.Store, broken
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	if !g.Ready() {
		t.Fatal("not ready")
	}
	broken.set(errLost)
	await(t, "the end of readiness", func() (string, bool) { return "", !g.Ready() })
	time.Sleep(1200 * time.Millisecond)
	broken.set(nil)
	await(t, "readiness", func() (string, bool) { return "", g.Ready() })
	if n := log.count("the store fails"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

type brokenStore struct {
	gateway.Store
	mu      sync.Mutex
	orphans error
	panics  bool
}

func (s *brokenStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orphans = err
}

func (s *brokenStore) Orphans(ctx context.Context) ([]gateway.Execution, error) {
	s.mu.Lock()
	err := s.orphans
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.Orphans(ctx)
}

func (s *brokenStore) Sweep(ctx context.Context, now time.Time) ([]gateway.RequestRow, error) {
	if s.panics {
		panic("a fault of ours")
	}
	return s.Store.Sweep(ctx, now)
}

// No effect without a key that may sign its receipt, from the spending to the end of the time that the call may take.
func TestSpend_receiptKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*counterfoil.PublicKey)
		want   gateway.Reason
	}{
		{"as it is", func(*counterfoil.PublicKey) {}, ""},
		{"of another tenant", func(k *counterfoil.PublicKey) { k.Tenants = []string{"other"} }, gateway.Internal},
		{"not yet", func(k *counterfoil.PublicKey) { k.NotBefore = time.Now().Add(time.Hour) }, gateway.Internal},
		{"ends during the call", func(k *counterfoil.PublicKey) { k.NotAfter = time.Now().Add(time.Minute) }, gateway.Internal},
		{"ends later", func(k *counterfoil.PublicKey) { k.NotAfter = time.Now().Add(time.Hour) }, ""},
		{"superseded", func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: time.Now().Add(-time.Second), Why: counterfoil.RevokedSuperseded}
		}, gateway.Internal},
		{"superseded later", func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: time.Now().Add(time.Hour), Why: counterfoil.RevokedSuperseded}
		}, ""},
		{"compromised", func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: time.Now().Add(time.Hour), Why: counterfoil.RevokedCompromised}
		}, gateway.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, u := setup(t), newUpstream()
			g := f.open(func(cfg *gateway.Config) { cfg.Keys = &otherRing{cfg.Keys, c.change} })
			read := call(u, "resources/read", `{"uri":"x"}`, noHold)
			read.Method = "resources/read"
			g.do(t.Context(), read).want(t, c.want)
			if ran := u.effects() == 1; ran != (c.want == "") || len(f.outcomes(g)) != u.effects() {
				t.Fatalf("%d effects, %d uses", u.effects(), len(f.outcomes(g)))
			}
		})
	}
}

// otherRing changes the receipt key in the ring.
type otherRing struct {
	gateway.Keys
	change func(*counterfoil.PublicKey)
}

func (r *otherRing) Ring() (*counterfoil.KeyRing, error) {
	ring, err := r.Keys.Ring()
	if err != nil {
		return nil, err
	}
	keys := ring.Keys()
	for i := range keys {
		if keys[i].Role == counterfoil.RoleReceipt {
			r.change(&keys[i])
		}
	}
	return counterfoil.NewKeyRing(keys...)
}
