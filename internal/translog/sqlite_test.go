package translog_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// openSQLite opens a store of the embedded kind in a file.
func (w *world) openSQLite(path string) *sqlite.Store {
	w.t.Helper()
	s, err := sqlite.Open(w.ctx(), path, sqlite.Options{
		Audience: audience, Signer: counterfoiltest.Key(w.t, counterfoil.RoleLedger, "gate", tenant), Now: time.Now, Names: w.names,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

// record appends n events, from many callers at once.
func (w *world) record(s *sqlite.Store, name string, n int) {
	w.t.Helper()
	var callers sync.WaitGroup
	for caller := range 32 {
		callers.Go(func() {
			for i := caller; i < n; i += 32 {
				e := w.event(counterfoil.PhaseRefused, counterfoil.EventParams{ExecutionID: fmt.Sprintf("%s-%d", name, i), Code: "policy-denied"})
				if err := s.Record(w.ctx(), e); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// TestSQLite goes through the life of a log over the real store: two processes publish, prove, check, export, and refuse an
// older copy of the file.
func TestSQLite(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := filepath.Join(t.TempDir(), "store.db")
	s := w.openSQLite(path)
	c := w.config()
	c.Store = s
	a, b := w.open(c), w.open(c)
	if err := a.Guard(w.ctx()); err != nil {
		t.Fatal("a new database:", err)
	}
	w.record(s, "first", 20)
	if err := a.Publish(w.ctx()); err != nil {
		t.Fatal(err)
	}
	older := w.copyOf(s)
	var both sync.WaitGroup
	both.Go(func() { w.record(s, "more", 300) })
	for _, l := range []*translog.Logs{a, b} {
		both.Go(func() {
			for range 5 {
				if err := l.Publish(w.ctx()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	if err := errors.Join(b.Publish(w.ctx()), a.Guard(w.ctx()), w.open(c).Guard(w.ctx())); err != nil {
		t.Fatal(err)
	}
	cp, proofs, err := a.Prove(w.ctx(), tenant, mentions("more-299", counterfoil.PhaseRefused)...)
	if err != nil || cp.Size() != 320 || proofs[0].Verify(cp) != nil {
		t.Fatal(err)
	}
	check := w.check()
	check.Checkpoints, check.Tiles = [][]byte{cp.Note(), w.kept().Note()}, s
	if r := w.report(check, translog.Events(w.ctx(), s, tenant)); !r.OK() || r.Proven != 320 {
		t.Errorf("%+v", r)
	}
	var lines bytes.Buffer
	p := translog.ExportParams{Store: s, Tenant: tenant, Audience: audience, Checkpoint: cp, Format: translog.FormatLines}
	if err := translog.Export(w.ctx(), &lines, p); err != nil {
		t.Fatal(err)
	}
	x, err := translog.OpenExport(&lines)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.report(check, x.Events()); !r.OK() {
		t.Errorf("%+v", r)
	}
	c.Store = w.openSQLite(older)
	refused(t, w.open(c).Guard(w.ctx()), tenant, "20", "320", "shortened")
}

// copyOf backs a store up and returns the copy's path.
func (w *world) copyOf(s *sqlite.Store) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "copy.db")
	if err := s.Backup(w.ctx(), path, nil); err != nil {
		w.t.Fatal(err)
	}
	return path
}
