package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// The server is ended under load, in all ways, and comes back. Whatever was acknowledged is there; what was refused is not;
// what was left unknown is resolved for good; and the store goes on by itself.
func TestRestart(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t)
	address := srv.Fresh(t)
	s := open(t, address, options(time.Now))
	var load load
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range 16 {
		load.wg.Go(func() { load.run(ctx, t, s, i) })
	}
	for round, end := range []func(){
		func() { srv.Crash(t) },
		func() { killPostmaster(t, address) },
		func() {
			exec(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()`)
		},
	} {
		load.grow(t, 40)
		end()
		if round < 2 {
			<-time.After(50 * time.Millisecond)
			wantCode(t, s.Ready(t.Context()), counterfoil.CodeUnavailable)
			srv.Restart(t)
		}
	}
	load.grow(t, 40)
	stop()
	load.wg.Wait()
	load.audit(t, s)
	healthy(t, s)
}

// killPostmaster kills the server's first process and waits until its children have noticed.
func killPostmaster(t *testing.T, address string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dataDir(t, address), "data", "postmaster.pid"))
	must(t, err)
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	must(t, err)
	must(t, p.Kill())
	for range 500 {
		if _, err := postgres.Open(deadline(t, time.Second), address, options(time.Now)); err != nil && !others(t, dataDir(t, address)) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the server's processes live on")
}

// others reports whether processes work in the server's directory.
func others(t *testing.T, dir string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	for _, link := range all {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, filepath.Join(dir, "data")) {
			return true
		}
	}
	return false
}

// A load is callers that spend and settle, and what they were told.
type load struct {
	wg    sync.WaitGroup
	acked atomic.Int64

	mu   sync.Mutex
	uses []told
}

type told struct {
	use     counterfoil.Use
	run     string
	err     error // of the spending
	settled bool
}

func (l *load) run(ctx context.Context, t *testing.T, s *postgres.Store, caller int) {
	for n := 0; ctx.Err() == nil; n++ {
		run := fmt.Sprintf("run-%d-%d", caller, n)
		c, err := storetest.NewCase(run, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		ledger := &storetest.Ledger{Store: s, Case: c}
		claim, err := ledger.Claim(context.Background(), run)
		x := told{ledger.Use, run, err, false}
		switch counterfoil.CodeOf(err) { //nolint:exhaustive // all others are wrong
		case "":
			_, err = ledger.Finish(context.Background(), claim, time.Now())
			x.settled = err == nil
			if err != nil && !errors.Is(err, counterfoil.CodeUnavailable) && !errors.Is(err, counterfoil.CodeUnknownOutcome) {
				t.Errorf("settling: %v", err)
			}
			l.acked.Add(1)
		case counterfoil.CodeUnavailable:
			<-time.After(5 * time.Millisecond)
		case counterfoil.CodeUnknownOutcome:
		default:
			t.Errorf("spending: %v", err)
		}
		l.mu.Lock()
		l.uses = append(l.uses, x)
		l.mu.Unlock()
	}
}

// grow waits until so many more uses are spent.
func (l *load) grow(t *testing.T, n int64) {
	t.Helper()
	from := l.acked.Load()
	for began := time.Now(); l.acked.Load() < from+n; <-time.After(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the store does not come back")
		}
	}
}

func (l *load) audit(t *testing.T, s *postgres.Store) {
	t.Helper()
	unknown, unsettled := 0, 0
	for _, x := range l.uses {
		r, _, err := s.Resolve(t.Context(), x.use)
		must(t, err)
		switch code := counterfoil.CodeOf(x.err); {
		case code == "" && r != gateway.UseMine:
			t.Errorf("%s was acknowledged, and is %v", x.run, r)
		case code == counterfoil.CodeUnavailable && r != gateway.UseAbsent:
			t.Errorf("%s was refused, and is %v", x.run, r)
		case code == counterfoil.CodeUnknownOutcome:
			unknown++
		}
		if x.settled {
			if e, err := s.Execution(t.Context(), storetest.Tenant, x.run); err != nil || e.Receipt == nil {
				t.Errorf("the receipt of %s is gone: %v", x.run, err)
			}
		} else if r == gateway.UseMine {
			unsettled++
		}
	}
	t.Logf("%d uses, %d acknowledged, %d unknown, %d without a receipt", len(l.uses), l.acked.Load(), unknown, unsettled)
}

// A dump brings everything back, into another database.
func TestBackup(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	s := open(t, address, options(storetest.Start))
	l, claim, err := spend(t, s, "a", "run-a")
	must(t, err)
	_, err = l.Finish(t.Context(), claim, storetest.Start())
	must(t, err)
	file := filepath.Join(t.TempDir(), "backup")
	err = postgres.Backup(t.Context(), with(t, address, "password", "s3cr3tw0rd"), file)
	if err != nil && strings.Contains(err.Error(), "not installed") {
		t.Skip(err)
	}
	must(t, err)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	wantCode(t, postgres.Backup(t.Context(), address, file), counterfoil.CodeInvalidInput)
	elsewhere := server.Fresh(t)
	restore(t, elsewhere, file)
	again := open(t, elsewhere, options(storetest.Start))
	healthy(t, again)
	_, _, err = spend(t, again, "a", "run-b")
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	x, err := again.Execution(t.Context(), storetest.Tenant, "run-a")
	if err != nil || x.Outcome != "succeeded" {
		t.Fatalf("%+v, %v", x, err)
	}
	// What can't be dumped says which command shows why, without the password.
	err = postgres.Backup(t.Context(), "postgres://u:s3cr3tw0rd@127.0.0.1:1/d?password=s3cr3tw0rd&pool_max_conns=3", filepath.Join(t.TempDir(), "none"))
	wantCode(t, err, counterfoil.CodeUnavailable)
	if said := chain(err); strings.Contains(said, "s3cr3t") || !strings.Contains(said, "pg_dump --format=custom") || strings.Contains(said, "pool_max") {
		t.Error(said)
	}
	wantCode(t, postgres.Backup(t.Context(), "postgres://u@h/d?sslpassword=s3cr3tw0rd", file), counterfoil.CodeInvalidInput)
}
