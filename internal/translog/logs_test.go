package translog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	w := setup(t)
	l := w.logs()
	if err := l.Publish(w.ctx()); err != nil {
		t.Fatal("nothing to publish:", err)
	}
	for _, n := range []int{1, 2, 253, 1, 300} {
		w.refusals(n)
		w.appendIn("other", counterfoil.PhaseRefused, "r")
		if err := l.Publish(w.ctx()); err != nil {
			t.Fatal(err)
		}
		size := w.store.log(tenant).state.Size
		c := w.published()
		if c.Size() != size || c.Root() != w.rootOf(size) {
			t.Fatalf("published is %d with another root than that of %d events", c.Size(), size)
		}
		if err := c.Verify(w.ring, audience, tenant, w.clock); err != nil {
			t.Error(err)
		}
		if k := w.kept(); k == nil || string(k.Note()) != string(c.Note()) {
			t.Error("what is kept outside is not what was published")
		}
	}
	if err := w.logs().Guard(w.ctx()); err != nil {
		t.Error(err)
	}
}

// TestPublish_steps publishes a log that is longer than one step.
func TestPublish_steps(t *testing.T) {
	t.Parallel()
	w := setup(t)
	l := w.store.log(tenant)
	for i, leaf := range someLeaves(2<<16 + 9) {
		l.events = append(l.events, translog.Event{Sequence: int64(i) + 1, At: start(), Leaf: leaf})
	}
	l.state.Size = int64(len(l.events))
	w.publish()
	if c := w.published(); c.Size() != l.state.Size || c.Root() != w.rootOf(l.state.Size) {
		t.Errorf("published %d of %d", c.Size(), l.state.Size)
	}
}

func TestPublish_manyProcesses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var appending, publishing sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		l := w.logs()
		publishing.Go(func() {
			for {
				if err := l.Publish(w.ctx()); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	appending.Go(func() { w.refusals(700) })
	appending.Wait()
	close(done)
	publishing.Wait()
	w.publish()
	if c := w.published(); c.Size() != 700 || c.Root() != w.rootOf(700) {
		t.Errorf("published %d", c.Size())
	}
}

// TestRun checks that the publisher is no more than a second behind, and ends when its owner says so.
func TestRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(3)
	ctx, cancel := context.WithCancel(w.ctx())
	ended := make(chan struct{})
	go func() {
		w.logs().Run(ctx)
		close(ended)
	}()
	deadline := time.Now().Add(time.Second)
	for {
		s, err := w.store.Log(ctx, tenant)
		if err != nil {
			t.Fatal(err)
		}
		if s.Published == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a second went by without a checkpoint")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}

// refused checks that err has the code integrity-failed and says all of the words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Fatalf("got %v, want integrity-failed", err)
	}
	for _, s := range words {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

// TestPublish_refuses edits what is published in every way, and checks that nothing is signed.
func TestPublish_refuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		edit  func(w *world, l *log)
		words []string
	}{
		{"shortened below its checkpoint", func(_ *world, l *log) {
			l.events, l.state.Size = l.events[:280], 280
		}, []string{"280", "300"}},
		{"a gap", func(_ *world, l *log) {
			l.events = append(l.events[:305], l.events[306:]...)
		}, []string{"306", "missing"}},
		{"missing at the end", func(_ *world, l *log) {
			l.events = l.events[:305]
		}, []string{"310", "305"}},
		{"an edited edge tile", func(_ *world, l *log) {
			l.tiles[translog.TileID{Level: 0, Index: 1}][40] ^= 1
		}, []string{"tiles", "300"}},
		{"a cut edge tile", func(_ *world, l *log) {
			id := translog.TileID{Level: 1}
			l.tiles[id] = l.tiles[id][:0]
		}, []string{"missing or cut"}},
		{"a note that is none", func(_ *world, l *log) { l.state.Note = []byte("x\n") }, []string{"none"}},
		{"a note of another size", func(w *world, l *log) {
			l.state.Note = w.sign(299, w.rootOf(299)).Note()
		}, []string{"299", "300"}},
		{"a note by another key", func(w *world, l *log) {
			c, err := counterfoil.SignCheckpoint(w.ctx(), audience, tenant, 300, w.rootOf(300), otherKey(w.t))
			if err != nil {
				w.t.Fatal(err)
			}
			l.state.Note = c.Note()
		}, []string{"can't be believed"}},
		{"a note of another log", func(w *world, l *log) {
			c, err := counterfoil.SignCheckpoint(w.ctx(), audience, "other", 300, w.rootOf(300), w.key)
			if err != nil {
				w.t.Fatal(err)
			}
			l.state.Note = c.Note()
		}, []string{"can't be believed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.refusals(300)
			w.publish()
			w.refusals(10)
			l := w.store.log(tenant)
			tt.edit(w, l)
			note, kept := string(l.state.Note), string(w.kept().Note())
			refused(t, w.logs().Publish(w.ctx()), append(tt.words, tenant)...)
			if l.state.Published != 300 || string(l.state.Note) != note || string(w.kept().Note()) != kept {
				t.Error("something was signed")
			}
		})
	}
}

func (w *world) sign(size int64, root translog.Hash) *counterfoil.Checkpoint {
	w.t.Helper()
	c, err := counterfoil.SignCheckpoint(w.ctx(), audience, tenant, size, root, w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestPublish_memory replaces the database under a process that has seen it.
func TestPublish_memory(t *testing.T) {
	t.Parallel()
	restored := func(w *world, n int) { // a consistent copy with other events
		w.store.logs[tenant] = nil
		w.refusals(n)
		c := w.config()
		c.Keep = nil
		if err := w.open(c).Publish(w.ctx()); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		size  int
		words []string
	}{
		{"shorter", 7, []string{"shortened", "7", "10", "seen"}},
		{"same size", 10, []string{"forked", "10"}},
		{"longer", 30, []string{"forked", "30", "10"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.refusals(10)
			l := w.logs()
			if err := l.Publish(w.ctx()); err != nil {
				t.Fatal(err)
			}
			restored(w, tt.size)
			w.refusals(1)
			refused(t, l.Publish(w.ctx()), tt.words...)
			refused(t, l.Guard(w.ctx()), tt.words...)
			if s := w.store.log(tenant).state; s.Published != int64(tt.size) {
				t.Errorf("it went on to %d", s.Published)
			}
		})
	}
}

func TestPublish_cancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(3)
	ctx, cancel := context.WithCancel(w.ctx())
	cancel()
	if err := w.logs().Publish(ctx); err == nil {
		t.Error("a cancelled round is no success")
	}
}

// TestGuard checks the database against what is kept outside, as a process does that begins.
func TestGuard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		edit  func(w *world)
		words []string // nil: it may go on
	}{
		{"nothing changed", func(*world) {}, nil},
		{"more events", func(w *world) { w.refusals(700) }, nil},
		{"an older checkpoint outside", func(w *world) { w.keepOnly(w.sign(7, w.rootOf(7)).Note()) }, nil},
		{"a newer checkpoint outside than published", func(w *world) {
			w.refusals(5)
			w.keepOnly(w.sign(302, w.rootOf(302)).Note())
		}, nil},
		{"an older copy", func(w *world) { w.restore(100) }, []string{tenant, "100", "300", "shortened", "kept outside"}},
		{"an older copy that has grown again", func(w *world) {
			w.restore(100)
			w.refusals(400)
		}, []string{tenant, "forked or edited", "300", "500"}},
		{"an empty log", func(w *world) { w.restore(0); w.refusals(2) }, []string{tenant, "2", "300"}},
		{"no database", func(w *world) { w.store.logs = map[string]*log{} }, []string{"missing", "0", "300"}},
		{"nothing outside", func(w *world) { w.keepOnly(nil) }, []string{tenant, "300", "none is kept outside"}},
		{"rubbish outside", func(w *world) { w.keepOnly([]byte("rubbish")) }, []string{"no checkpoint"}},
		{"a checkpoint outside by another key", func(w *world) {
			c, err := counterfoil.SignCheckpoint(w.ctx(), audience, tenant, 300, w.rootOf(300), otherKey(w.t))
			if err != nil {
				w.t.Fatal(err)
			}
			w.keepOnly(c.Note())
		}, []string{"can't be believed"}},
		{"a checkpoint outside of another installation", func(w *world) {
			c, err := counterfoil.SignCheckpoint(w.ctx(), "gate.example/staging", tenant, 300, w.rootOf(300), w.key)
			if err != nil {
				w.t.Fatal(err)
			}
			w.keepOnly(c.Note())
		}, []string{"another log"}},
		{"another root outside", func(w *world) { w.keepOnly(w.sign(300, w.rootOf(299)).Note()) }, []string{"forked or edited", "300"}},
		{"unpublished events edited", func(w *world) {
			w.refusals(5)
			w.keepOnly(w.sign(305, w.rootOf(304)).Note())
		}, []string{"forked or edited", "305"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.refusals(300)
			w.publish()
			tt.edit(w)
			err := w.logs().Guard(w.ctx())
			if tt.words == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, tt.words...)
			if _, err := w.logs().Accept(w.ctx()); err != nil {
				t.Fatal("accepted by the operator:", err)
			}
			w.refusals(1)
			l := w.logs()
			if err := errors.Join(l.Guard(w.ctx()), l.Publish(w.ctx()), w.logs().Guard(w.ctx())); err != nil {
				t.Error("after it was accepted:", err)
			}
		})
	}
}

// TestAccept_compromised goes on with a new key after the old one was revoked as compromised, when the operator says so.
func TestAccept_compromised(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		w := setup(t)
		if !kept {
			w.keep = nil
		}
		w.acceptCompromised(t)
	}
}

func (w *world) acceptCompromised(t *testing.T) {
	t.Helper()
	w.refusals(300)
	w.publish()
	old := w.key.Public()
	old.Revoked = &counterfoil.Revocation{At: w.clock, Why: counterfoil.RevokedCompromised}
	w.key = otherKey(t)
	w.ring = w.ringOf(old, w.key.Public())
	w.refusals(5)
	refused(t, w.logs().Guard(w.ctx()), "can't be believed", tenant)
	refused(t, w.logs().Publish(w.ctx()), "can't be believed", tenant)
	events := w.store.log(tenant).events
	leaf := events[7].Leaf
	events[7].Leaf[0] ^= 1
	_, err := w.logs().Accept(w.ctx())
	refused(t, err, "not those of its checkpoint")
	events[7].Leaf = leaf
	doubts, err := w.logs().Accept(w.ctx())
	if err != nil || len(doubts) != 1 || doubts[0].Tenant != tenant {
		t.Fatal(doubts, err)
	}
	if err := errors.Join(w.logs().Guard(w.ctx()), w.logs().Publish(w.ctx())); err != nil {
		t.Fatal(err)
	}
	if r := w.report(w.check(), w.stored()); !r.OK() || r.Proven != 305 {
		t.Error(r.Findings)
	}
}

// keepOnly replaces what is kept outside.
func (w *world) keepOnly(note []byte) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*.checkpoint"))
	if err != nil || len(files) != 1 {
		w.t.Fatal(files, err)
	}
	if note == nil {
		err = os.Remove(files[0])
	} else {
		err = os.WriteFile(files[0], note, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// restore puts the database back to where it was after n events, as a backup would.
func (w *world) restore(n int) {
	w.t.Helper()
	old := w.store.log(tenant).events[:n]
	w.store.logs[tenant] = nil
	l := w.store.log(tenant)
	l.events, l.state.Size = old[:n:n], int64(n)
	if n > 0 {
		c := w.config()
		c.Keep = nil
		if err := w.open(c).Publish(w.ctx()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.clock = w.clock.Add(time.Hour)
}

func TestKeep_put(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(20)
	put := func(c *counterfoil.Checkpoint) error { return w.keep.Put(w.ctx(), c) }
	ten, nine := w.sign(10, w.rootOf(10)), w.sign(9, w.rootOf(9))
	if err := errors.Join(put(ten), put(nine)); err != nil {
		t.Fatal(err)
	}
	if got := w.kept().Size(); got != 10 {
		t.Errorf("a smaller checkpoint took the place of a larger one: %d", got)
	}
	refused(t, put(w.sign(10, w.rootOf(9))), "forked")
	if w.kept().Root() != w.rootOf(10) {
		t.Error("a fork took the place of what was kept")
	}
	if err := put(w.sign(20, w.rootOf(20))); err != nil || w.kept().Size() != 20 {
		t.Error("a larger one was not kept", err)
	}
}

func TestNewKeep_rejects(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "relative", file, filepath.Join(t.TempDir(), "missing")} {
		if _, err := translog.NewKeep(dir); err == nil {
			t.Errorf("%q is no directory for checkpoints", dir)
		}
	}
}
