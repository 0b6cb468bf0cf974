package translog_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
	"github.com/counterfoil/counterfoil/internal/translog"
)

const (
	audience = "gate.example/prod"
	tenant   = "acme"
)

func leafHash(body []byte) translog.Hash { return counterfoil.LeafHash(body) }

func start() time.Time { return time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC) }

// A world is an installation: a store, its keys, and the directory for checkpoints.
type world struct {
	t     testing.TB
	store *memory
	keep  *translog.Keep
	dir   string
	key   *counterfoil.PrivateKey
	ring  *counterfoil.KeyRing
	names *counterfoil.Pseudonyms
	clock time.Time
}

func setup(t testing.TB) *world {
	t.Helper()
	w := &world{
		t: t, store: newMemory(), dir: t.TempDir(), names: counterfoiltest.Pseudonyms(t), clock: start(),
		key: counterfoiltest.Key(t, counterfoil.RoleCheckpoint, "gate", tenant, "other"),
	}
	w.ring = w.ringOf(w.key.Public())
	keep, err := translog.NewKeep(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	w.keep = keep
	return w
}

func (w *world) ringOf(keys ...counterfoil.PublicKey) *counterfoil.KeyRing {
	w.t.Helper()
	ring, err := counterfoil.NewKeyRing(keys...)
	if err != nil {
		w.t.Fatal(err)
	}
	return ring
}

func (w *world) config() translog.Config {
	return translog.Config{
		Store: w.store, Audience: audience, Ring: w.ring, Signer: w.key, Keep: w.keep, Interval: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// logs opens the logs as a process does that begins.
func (w *world) logs() *translog.Logs { return w.open(w.config()) }

func (w *world) open(c translog.Config) *translog.Logs {
	w.t.Helper()
	l, err := translog.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) event(phase counterfoil.Phase, p counterfoil.EventParams) counterfoil.Event {
	w.t.Helper()
	if p.Tenant == "" {
		p.Tenant = tenant
	}
	if p.Audience == "" {
		p.Audience = audience
	}
	e, err := counterfoil.NewEvent(phase, w.names, p)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// append adds an event a millisecond later than the last.
func (w *world) append(phase counterfoil.Phase, execution string) {
	w.t.Helper()
	w.appendIn(tenant, phase, execution)
}

func (w *world) appendIn(tenant string, phase counterfoil.Phase, execution string) {
	w.t.Helper()
	w.clock = w.clock.Add(time.Millisecond)
	p := counterfoil.EventParams{Tenant: tenant, ExecutionID: execution, Actor: "agent", Tool: "files/read"}
	if phase == counterfoil.PhaseStarted || phase == counterfoil.PhaseCompleted {
		p.UseDigest = counterfoil.ResultDigest([]byte(execution))
	}
	if phase == counterfoil.PhaseRefused {
		p.Code = "policy-denied"
	}
	w.store.append(w.event(phase, p), w.clock)
}

// run appends the events of n executions: three each.
func (w *world) run(n int) {
	w.t.Helper()
	for range n {
		id := fmt.Sprintf("x-%d", w.store.size(tenant))
		w.append(counterfoil.PhaseRefused, "r"+id)
		w.append(counterfoil.PhaseStarted, id)
		w.append(counterfoil.PhaseCompleted, id)
	}
}

// refusals appends n events.
func (w *world) refusals(n int) {
	w.t.Helper()
	for range n {
		w.append(counterfoil.PhaseRefused, fmt.Sprintf("r-%d", w.store.size(tenant)))
	}
}

func (w *world) publish() {
	w.t.Helper()
	if err := w.logs().Publish(w.ctx()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ctx() context.Context { return w.t.Context() }

// published returns the published checkpoint.
func (w *world) published() *counterfoil.Checkpoint {
	w.t.Helper()
	return w.parse(w.store.log(tenant).state.Note)
}

func (w *world) parse(note []byte) *counterfoil.Checkpoint {
	w.t.Helper()
	c, err := counterfoil.ParseCheckpoint(note)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) origin() string {
	w.t.Helper()
	origin, err := counterfoil.LogOrigin(audience, tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	return origin
}

// kept returns the checkpoint that is kept outside, nil for none.
func (w *world) kept() *counterfoil.Checkpoint {
	w.t.Helper()
	c, err := w.keep.Checkpoint(w.origin())
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// rootOf returns the root over the store's leaves, by tlog's own storage of hashes.
func (w *world) rootOf(size int64) translog.Hash {
	w.t.Helper()
	var leaves []translog.Hash
	for _, e := range w.store.log(tenant).events[:size] {
		leaves = append(leaves, e.Leaf)
	}
	return plainRoot(w.t, leaves)
}

// otherKey is a checkpoint key that no ring has.
func otherKey(t testing.TB) *counterfoil.PrivateKey {
	t.Helper()
	return counterfoiltest.Key(t, counterfoil.RoleCheckpoint, "stranger", tenant, "other")
}
