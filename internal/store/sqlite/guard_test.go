package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// A file that takes the place of the open database is refused: what is written to the old one would be lost.
func TestReplaced(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path, backup string){
		"an older copy": func(t *testing.T, path, backup string) { must(t, os.Rename(backup, path)) },
		"nothing":       func(t *testing.T, path, _ string) { must(t, os.Remove(path)) },
		"no log":        func(t *testing.T, path, _ string) { must(t, os.Remove(path+"-wal")) },
		"another log": func(t *testing.T, path, backup string) {
			must(t, errors.Join(os.Remove(path+"-wal"), os.Rename(backup, path+"-wal")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			s := open(t, path, options(storetest.Start))
			must(t, use(t, s, "a"))
			backup := filepath.Join(t.TempDir(), "backup.db")
			must(t, s.Backup(t.Context(), backup, nil))
			must(t, use(t, s, "b"))
			replace(t, path, backup)
			for range 2 {
				if err := use(t, s, "c"); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
					t.Fatal(err)
				}
				if err := s.Ready(t.Context()); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
					t.Fatal(err)
				}
			}
		})
	}
}

// A log that is shorter than the store has seen it, or another, gets no further event; the logs of others do.
func TestSetBack(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]string{
		"shortened": `DROP TRIGGER events_last; DELETE FROM receipts; DELETE FROM documents WHERE number = 1 << 40 | 3;
			DROP TRIGGER executions_last; DELETE FROM executions WHERE number = 1 << 40 | 3; DELETE FROM events WHERE place IN (1 << 40 | 3, 1 << 40 | 4)`,
		"emptied": `DROP TRIGGER events_last; DELETE FROM events WHERE place >> 40 = 1`,
		"forked":  `DROP TRIGGER events_stay; UPDATE events SET leaf = zeroblob(32) WHERE place = 1 << 40 | 4`,
		"gone":    `DROP TRIGGER logs_last; DELETE FROM logs WHERE number = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			s := open(t, path, options(storetest.Start))
			must(t, errors.Join(use(t, s, "a"), use(t, s, "b")))
			must(t, s.Record(t.Context(), foreign(t)))
			db, err := sql.Open("sqlite", path)
			must(t, err)
			closeAfter(t, db)
			if _, err := db.ExecContext(t.Context(), tamper); err != nil {
				t.Fatal(err)
			}
			events := func() (n int) {
				must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM events`).Scan(&n))
				return n
			}
			before := events()
			for range 2 {
				if err := use(t, s, "c"); counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
					t.Fatal(err)
				}
				if err := s.Record(t.Context(), storetest.Refused(t, "call")); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
					t.Fatal(err)
				}
			}
			if n := events(); n != before {
				t.Fatalf("%d events, not %d", n, before)
			}
			must(t, s.Record(t.Context(), foreign(t)))
		})
	}
}

// foreign is an event of another tenant.
func foreign(t *testing.T) counterfoil.Event {
	t.Helper()
	e, err := counterfoil.NewEvent(counterfoil.PhaseRefused, storetest.Names(), counterfoil.EventParams{
		Tenant: "other", Audience: storetest.Audience, ExecutionID: "call",
	})
	must(t, err)
	return e
}

// What others commit is seen by a store that has been told nothing: heads, revocations, policies.
func TestOthersCommits(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	a, b := open(t, path, options(storetest.Start)), open(t, path, options(storetest.Start))
	for n := range 6 {
		must(t, use(t, []*sqlite.Store{a, b}[n%2], fmt.Sprint(n)))
	}
	c := storetest.Approved(t, "revoked", storetest.Start())
	e, err := counterfoil.NewEvent(counterfoil.PhaseRevoked, storetest.Names(), counterfoil.EventParams{
		Tenant: storetest.Tenant, Audience: storetest.Audience, ExecutionID: "x",
	})
	must(t, err)
	must(t, b.Revoke(t.Context(), storetest.Tenant, c.Approval.Digest(), []byte("signed"), e))
	if _, err := (&storetest.Ledger{Store: a, Case: c}).Claim(t.Context(), "run-revoked"); !errors.Is(err, counterfoil.CodeRevoked) {
		t.Fatal(err)
	}
	healthy(t, a)
}

// gate holds a store's transactions at a stage while it is shut.
type gate struct {
	stage   string
	mu      sync.Mutex
	shut    chan struct{} // nil while open
	reached chan struct{}
}

func (g *gate) fault(stage string) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil && stage == g.stage {
		g.reached <- struct{}{}
		<-shut
	}
	return nil
}

func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.shut, g.reached = shut, make(chan struct{}, 1000)
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.shut = nil
		g.mu.Unlock()
		close(shut)
	})
}

// A disk that hangs keeps nobody longer than they want to wait: who is in the commit does not know, who is not has done
// nothing, and what becomes of the first is found out behind the commit.
func TestSlow(t *testing.T) {
	t.Parallel()
	g := &gate{stage: "commit"}
	s := open(t, newPath(t), options(storetest.Start).Faulty(g.fault))
	release := g.close()
	defer release()
	first, second := storetest.Approved(t, "first", storetest.Start()), storetest.Approved(t, "second", storetest.Start())
	in := &storetest.Ledger{Store: s, Case: first}
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := in.Claim(ctx, "run-first")
		answer <- err
	}()
	<-g.reached
	cancel()
	if err := <-answer; counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome {
		t.Fatalf("in the commit: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	waiting := &storetest.Ledger{Store: s, Case: second}
	if _, err := waiting.Claim(ctx, "run-second"); counterfoil.CodeOf(err) != counterfoil.CodeUnavailable {
		t.Fatalf("behind the commit: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.Resolve(ctx, in.Use); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Fatalf("resolved while the commit hangs: %v", err)
	}
	release()
	if r, _, err := s.Resolve(t.Context(), in.Use); r != gateway.UseMine || err != nil {
		t.Fatalf("the first: %v, %v", r, err)
	}
	if r, _, err := s.Resolve(t.Context(), waiting.Use); r != gateway.UseAbsent || err != nil {
		t.Fatalf("the second: %v, %v", r, err)
	}
	healthy(t, s)
}

// Close lets the commit under way end, and turns away who waits behind it.
func TestClose_commits(t *testing.T) {
	t.Parallel()
	g := &gate{stage: "commit"}
	path := newPath(t)
	s := open(t, path, options(storetest.Start).Faulty(g.fault))
	release := g.close()
	defer release()
	answers := make(chan error, 2)
	record := func() { answers <- s.Record(t.Context(), storetest.Refused(t, "call")) }
	go record()
	<-g.reached
	go record()
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	if err := <-answers; !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Fatalf("behind the commit: %v", err)
	}
	select {
	case err := <-closed:
		t.Fatal("closed during a commit", err)
	case <-time.After(10 * time.Millisecond):
	}
	release()
	must(t, errors.Join(<-answers, <-closed))
	if n := len(readLog(t, open(t, path, options(storetest.Start)))); n != 1 {
		t.Fatalf("%d events", n)
	}
}

// Members of one batch that fail after they have written, for whatever reason, take nothing of the others with them.
func TestBatch_spoiled(t *testing.T) {
	t.Parallel()
	g := &gate{stage: "begin"}
	s := open(t, newPath(t), options(storetest.Start).Faulty(g.fault))
	release := g.close()
	defer release()
	var wg sync.WaitGroup
	wg.Go(func() { // holds the runner until all the others wait
		if err := s.Record(t.Context(), storetest.Refused(t, "first")); err != nil {
			t.Error(err)
		}
	})
	<-g.reached
	for n := range 30 {
		wg.Go(func() {
			switch n % 3 {
			case 0:
				if err := s.Fail(storetest.Refused(t, "fails"), false); !errors.Is(err, counterfoil.CodeInvalidInput) {
					t.Error(err)
				}
			case 1:
				if err := s.Fail(storetest.Refused(t, "panics"), true); !errors.Is(err, counterfoil.CodeInternal) {
					t.Error(err)
				}
			default:
				if err := use(t, s, fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for s.Waiting() < 30 {
		time.Sleep(time.Millisecond)
	}
	release()
	wg.Wait()
	if n := len(readLog(t, s)); n != 1+2*10 {
		t.Fatalf("%d events", n)
	}
	healthy(t, s)
}

func TestMigration(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	must(t, errors.Join(use(t, s, "a"), s.Close()))

	// A step that fails leaves the schema before it, in one piece.
	half := `CREATE TABLE more (x INTEGER); INSERT INTO more VALUES (1); INSERT INTO nowhere VALUES (1)`
	if _, err := sqlite.Open(t.Context(), path, options(storetest.Start).Stepped(half)); err == nil {
		t.Fatal("a broken step was taken")
	}
	s = open(t, path, options(storetest.Start))
	healthy(t, s)
	must(t, s.Close())

	step := options(storetest.Start).Stepped(`CREATE TABLE more (x INTEGER); INSERT INTO more SELECT count(*) FROM executions`)
	for range 2 { // the second time there is nothing to do
		s = open(t, path, step)
		if err := use(t, s, "a"); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
			t.Fatalf("a use of before the migration: %v", err)
		}
		var n int64
		for _, db := range sqlite.Pools(path, 1) {
			closeAfter(t, db)
			must(t, db.QueryRowContext(t.Context(), `SELECT sum(x) FROM more`).Scan(&n))
		}
		if n != 1 {
			t.Fatalf("migrated %d times", n)
		}
		healthy(t, s)
		must(t, s.Close())
	}
	if _, err := sqlite.Open(t.Context(), path, options(storetest.Start)); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Fatalf("the older program opened it: %v", err)
	}
}
