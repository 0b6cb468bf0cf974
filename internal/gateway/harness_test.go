package gateway_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/scan"
)

const (
	tenant     = "local"
	passphrase = "correct horse battery staple"
)

// A clock can be moved. It never stands still by itself: real time goes on under it.
type clock struct {
	mu    sync.Mutex
	shift time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.shift)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// A fixture is one state directory; several gateways may be opened on it, each as a process of its own.
type fixture struct {
	t     *testing.T
	dir   string
	clock *clock
	keys  *keystore.Keystore
	key   counterfoil.Signer // the approver's, unlocked
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "state"), clock: &clock{}}
	enrolled := template()
	must(t, enrolled.err)
	must(t, os.Mkdir(f.dir, 0o700))
	for name, b := range enrolled.files {
		must(t, os.WriteFile(filepath.Join(f.dir, name), b, 0o600))
	}
	var err error
	f.keys, err = keystore.Open(f.dir, keystore.Options{Now: f.clock.now, Rand: rand.Reader})
	must(t, err)
	f.key = enrolled.key
	return f
}

// A state that an approver has enrolled in. Stretching the passphrase takes long: it is done once for all tests.
type enrolledState struct {
	files map[string][]byte
	key   counterfoil.Signer
	err   error
}

var template = sync.OnceValue(func() (e enrolledState) {
	dir, err := os.MkdirTemp("", "counterfoil-state-")
	if err != nil {
		return enrolledState{err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	k, err := keystore.Open(dir, keystore.Options{Now: time.Now, Rand: rand.Reader})
	if err == nil {
		err = k.Enrol([]byte(passphrase), "person:ada")
	}
	if err == nil {
		e.key, err = k.Unlock([]byte(passphrase))
	}
	e.files = map[string][]byte{}
	entries, listErr := os.ReadDir(dir)
	for _, x := range entries {
		b, readErr := os.ReadFile(filepath.Join(dir, x.Name()))
		e.files[x.Name()], err = b, errors.Join(err, readErr)
	}
	e.err = errors.Join(err, listErr)
	return e
})

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A gate is one gateway on the fixture's state, with its own work running.
type gate struct {
	*gateway.Gateway
	f     *fixture
	store *sqlite.Store
	ended <-chan error // what Serve returned
}

// open opens a gateway. change, if not nil, may change its configuration, and put a faulty store before the real one.
func (f *fixture) open(change func(*gateway.Config), rules ...governance.Rule) *gate {
	f.t.Helper()
	store, err := sqlite.Open(f.t.Context(), filepath.Join(f.dir, "counterfoil.db"), sqlite.Options{
		Audience: f.keys.Audience(), Signer: f.keys.Ledger(), Now: f.clock.now, Names: f.keys.Pseudonyms(),
	})
	must(f.t, err)
	c := gateway.DefaultConfig()
	c.Keys, c.Store, c.Scanner, c.Now, c.Rand = f.keys, store, scan.New(), f.clock.now, rand.Reader
	c.Logger, c.Files, c.Grace, c.Guard = slog.New(slog.DiscardHandler), fstest.MapFS{}, 100*time.Millisecond, store.Ready
	c.Log, err = translog.New(translog.Config{
		Store: store, Audience: f.keys.Audience(), Ring: f.ring(), Signer: f.keys.Checkpoint(), Logger: slog.New(slog.DiscardHandler),
	})
	must(f.t, err)
	if c.Rules, err = governance.NewRules(rules); err != nil {
		f.t.Fatal(err)
	}
	if change != nil {
		change(&c)
	}
	g, err := gateway.New(c)
	must(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		ended <- g.Serve(ctx, func() { close(ready) })
	}()
	select {
	case <-ready:
	case <-done:
	}
	f.t.Cleanup(func() {
		cancel()
		<-done
		_ = store.Close()
	})
	return &gate{Gateway: g, f: f, store: store, ended: ended}
}

func (f *fixture) ring() *counterfoil.KeyRing {
	f.t.Helper()
	ring, err := f.keys.Ring()
	must(f.t, err)
	return ring
}

// An upstream is a tool server in this process that counts its effects.
type upstream struct {
	mu      sync.Mutex
	defs    [][]byte
	sent    []gateway.Request
	answer  func(context.Context, gateway.Request) (gateway.Answer, error)
	listErr error
}

func newUpstream() *upstream {
	return &upstream{defs: [][]byte{definition("send", "sends"), definition("delete", "deletes"), definition("look", "looks")}}
}

func definition(name, description string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
}

func (u *upstream) Identity() []byte {
	return []byte(`{"argv":["fake"],"dir":"/","env":[],"transport":"stdio"}`)
}
func (u *upstream) Name() string { return "fake" }

func (u *upstream) Definitions(context.Context, []byte, bool) ([][]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.defs, u.listErr
}

func (u *upstream) Send(ctx context.Context, r gateway.Request) (gateway.Answer, error) {
	u.mu.Lock()
	u.sent = append(u.sent, r)
	answer := u.answer
	u.mu.Unlock()
	if answer != nil {
		return answer(ctx, r)
	}
	return gateway.Answer{Result: []byte(`{"content":[{"type":"text","text":"done"}]}`)}, nil
}

func (u *upstream) effects() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent)
}

func (u *upstream) redefine(defs ...[]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.defs = defs
}

func call(u gateway.Upstream, tool, args string, hold time.Duration) gateway.Call {
	return gateway.Call{
		Tenant: tenant, Principal: "agent:test", Run: "run-1", Upstream: u, Method: "tools/call", Tool: tool, Arguments: []byte(args), Hold: hold,
	}
}

// An outcome is how a call ended.
type outcome struct {
	answer gateway.Answer
	reason gateway.Reason
	err    error
}

func (g *gate) do(ctx context.Context, c gateway.Call) outcome {
	a, err := g.Do(ctx, c)
	if err == nil {
		if a.Deliver != nil {
			must(g.f.t, a.Deliver(func() error { return nil }))
		}
		return outcome{answer: a}
	}
	r, ok := errors.AsType[*gateway.Refusal](err)
	if !ok {
		g.f.t.Errorf("the error is no refusal: %v", err)
		return outcome{err: err}
	}
	return outcome{reason: r.Reason, err: err}
}

func (g *gate) start(ctx context.Context, c gateway.Call) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- g.do(ctx, c) }()
	return done
}

func (g *gate) pending() string {
	g.f.t.Helper()
	return await(g.f.t, "a pending request", func() (string, bool) {
		list, err := g.Approvals(context.Background(), tenant, gateway.Pending, "", 10)
		must(g.f.t, err)
		if len(list) == 0 {
			return "", false
		}
		return list[0].ID, true
	})
}

func (g *gate) approve(id string) {
	g.f.t.Helper()
	must(g.f.t, g.Approve(context.Background(), tenant, id, g.f.key, "fine"))
}

func (g *gate) state(id string) gateway.Approval {
	g.f.t.Helper()
	a, err := g.Approval(context.Background(), tenant, id)
	must(g.f.t, err)
	return a
}

func await(t *testing.T, what string, ready func() (string, bool)) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if v, ok := ready(); ok {
			return v
		}
	}
	t.Fatalf("no %s within 20 s", what)
	return ""
}

func (o outcome) want(t *testing.T, reason gateway.Reason) {
	t.Helper()
	if o.reason != reason {
		t.Fatalf("got %q (%v), want %q", o.reason, o.err, reason)
	}
}
