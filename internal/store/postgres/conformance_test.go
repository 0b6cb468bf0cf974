package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/translog"
)

var server pgtest.Server

// TestMain is also the program that the tests with processes start and kill.
func TestMain(m *testing.M) {
	if code, worker := program().Worker(); worker {
		os.Exit(code)
	}
	os.Exit(server.Run(m))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		// Nothing depends on the defaults of a database.
		return backend{server.Fresh(t, "TimeZone=America/New_York", "DateStyle=German, DMY", "bytea_output=escape", "standard_conforming_strings=off",
			"default_transaction_isolation=serializable", "synchronous_commit=off")}
	})
}

type backend struct{ url string }

func options(now func() time.Time) postgres.Options {
	return postgres.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Names: storetest.Names(), Now: now, Lease: 3 * time.Second,
	}
}

func (b backend) Open(t *testing.T, now func() time.Time, fault func(storetest.Stage) error) storetest.Store {
	t.Helper()
	o := options(now)
	if fault != nil {
		o = o.Faulty(fault)
	}
	return open(t, b.url, o)
}

func open(t testing.TB, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
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
	store, ok := s.(*postgres.Store)
	if !ok {
		t.Fatalf("this is a %T", s)
	}
	store.Kill()
}

// Dead implements storetest.Backend: it is the lease's length.
func (b backend) Dead() time.Duration { return options(time.Now).Lease }

func readLog(t testing.TB, s *postgres.Store, tenant string) []translog.Event {
	t.Helper()
	var log []translog.Event
	for after := int64(0); ; {
		page, err := s.Events(t.Context(), tenant, after, 1000)
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
