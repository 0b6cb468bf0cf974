package translog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A flaky store fails one call, or all while it is down.
type flaky struct {
	*memory
	left int // calls until the one that fails; below zero it has failed
	down atomic.Bool
}

func (f *flaky) fails() error {
	f.left--
	if f.left == -1 || f.down.Load() {
		return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the store is down"}
	}
	return nil
}

func (f *flaky) Logs(ctx context.Context, after string, limit int) ([]translog.State, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.memory.Logs(ctx, after, limit)
}

func (f *flaky) Log(ctx context.Context, tenant string) (translog.State, error) {
	if err := f.fails(); err != nil {
		return translog.State{}, err
	}
	return f.memory.Log(ctx, tenant)
}

func (f *flaky) Events(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.memory.Events(ctx, tenant, after, limit)
}

func (f *flaky) Leaves(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.memory.Leaves(ctx, tenant, after, limit)
}

func (f *flaky) Find(ctx context.Context, tenant, execution string, phase counterfoil.Phase) (int64, error) {
	if err := f.fails(); err != nil {
		return 0, err
	}
	return f.memory.Find(ctx, tenant, execution, phase)
}

func (f *flaky) Publish(ctx context.Context, p translog.Publication) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.memory.Publish(ctx, p)
}

func (f *flaky) Tiles(ctx context.Context, tenant string, ids []translog.TileID) ([]translog.Tile, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.memory.Tiles(ctx, tenant, ids)
}

// TestFlaky makes each call of the store fail once, in all that is done with it: the error must come through as it is, and
// once the store is back everything must go on.
func TestFlaky(t *testing.T) {
	t.Parallel()
	serve := func(path string) func(w *world, c translog.Config) error {
		return func(w *world, c translog.Config) error {
			id, err := translog.LogID(audience, tenant)
			if err != nil {
				return err
			}
			rec := httptest.NewRecorder()
			w.open(c).Serve(rec, httptest.NewRequestWithContext(w.ctx(), http.MethodGet, "/", nil), tenant, id+path)
			switch rec.Code {
			case http.StatusOK:
				return nil
			case http.StatusServiceUnavailable:
				return counterfoil.CodeUnavailable
			}
			return errors.New(rec.Body.String())
		}
	}
	for name, do := range map[string]func(w *world, c translog.Config) error{
		"publish": func(w *world, c translog.Config) error { return w.open(c).Publish(w.ctx()) },
		"publish again": func(w *world, c translog.Config) error {
			l := w.open(c)
			return errors.Join(l.Publish(w.ctx()), l.Publish(w.ctx()))
		},
		"guard": func(w *world, c translog.Config) error { return w.open(c).Guard(w.ctx()) },
		"accept": func(w *world, c translog.Config) error {
			_, err := w.open(c).Accept(w.ctx())
			return err
		},
		"cosign": func(w *world, c translog.Config) error { return w.open(c).Cosign(w.ctx()) },
		"prove": func(w *world, c translog.Config) error {
			_, _, err := w.open(c).Prove(w.ctx(), tenant, mentions("x-0", counterfoil.PhaseStarted, counterfoil.PhaseCompleted)...)
			return err
		},
		"consistency": func(w *world, c translog.Config) error {
			_, _, err := w.open(c).Consistency(w.ctx(), tenant, 7)
			return err
		},
		"check": func(w *world, c translog.Config) error {
			check := w.check()
			check.Tiles = c.Store
			r, err := check.Run(w.ctx(), translog.Events(w.ctx(), c.Store, tenant))
			if err == nil && !r.OK() {
				return errors.New("the log is right")
			}
			return err
		},
		"export": func(w *world, c translog.Config) error {
			return translog.Export(w.ctx(), io.Discard, translog.ExportParams{
				Store: c.Store, Tenant: tenant, Audience: audience, Checkpoint: w.published(), Format: translog.FormatLines,
			})
		},
		"serve a checkpoint": serve("/checkpoint"), "serve a tile": serve("/tile/0/000"), "serve entries": serve("/tile/entries/000"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, failed := 0, true; failed; n++ {
				w := setup(t)
				c := w.trusted(w.witness("a.example/w"))
				w.run(100)
				w.publish()
				if strings.HasPrefix(name, "publish") {
					w.run(1)
				}
				store := &flaky{memory: w.store, left: n}
				c.Store = store
				err := do(w, c)
				if failed = store.left < 0; failed != errors.Is(err, counterfoil.CodeUnavailable) || !failed && err != nil {
					t.Fatalf("with call %d failing: %v", n, err)
				}
				store.left = -2 // it is back
				if err := do(w, c); err != nil {
					t.Fatalf("after call %d failed: %v", n, err)
				}
			}
		})
	}
}

// TestRun_logs has the store go down and come back: each is said once.
func TestRun_logs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(3)
	store := &flaky{memory: w.store}
	store.down.Store(true)
	out := &lockedBuffer{}
	c := w.config()
	c.Store, c.Logger = store, slog.New(slog.NewTextHandler(out, nil))
	ctx, cancel := context.WithCancel(w.ctx())
	var running sync.WaitGroup
	running.Go(func() { w.open(c).Run(ctx) })
	wait := func(what string, done func() bool) {
		for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", what, out)
			}
		}
	}
	wait("the fault was not logged", func() bool { return strings.Contains(out.String(), "the store is down") })
	time.Sleep(20 * time.Millisecond)
	store.down.Store(false)
	wait("the end of the fault was not logged", func() bool { return strings.Contains(out.String(), "goes on") })
	cancel()
	running.Wait()
	if n := strings.Count(out.String(), "the store is down"); n != 1 {
		t.Errorf("a fault that stays the same was logged %d times", n)
	}
	if w.published().Size() != 3 {
		t.Error("it did not go on")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
