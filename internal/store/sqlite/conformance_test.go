package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		return backend{filepath.Join(t.TempDir(), "test.db")}
	})
}

type backend struct{ path string }

func options(now func() time.Time) sqlite.Options {
	return sqlite.Options{Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: now, Names: storetest.Names()}
}

func (b backend) Open(t *testing.T, now func() time.Time, fault func(storetest.Stage) error) storetest.Store {
	t.Helper()
	o := options(now)
	if fault != nil {
		o = o.Faulty(func(stage string) error { return fault(storetest.Stage(stage)) })
	}
	return open(t, b.path, o)
}

func open(t testing.TB, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Kill implements storetest.Backend.
func (b backend) Kill(t *testing.T, s storetest.Store) {
	t.Helper()
	store, ok := s.(*sqlite.Store)
	if !ok {
		t.Fatalf("this is a %T", s)
	}
	if err := store.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Dead implements storetest.Backend: a lock goes with its process.
func (b backend) Dead() time.Duration { return 0 }

func readLog(t testing.TB, s *sqlite.Store) []translog.Event {
	t.Helper()
	var log []translog.Event
	for after := int64(0); ; {
		page, err := s.Events(t.Context(), storetest.Tenant, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, page...)
		if len(page) == 0 {
			return log
		}
		after = page[len(page)-1].Sequence
	}
}
