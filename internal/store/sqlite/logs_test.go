package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func checkpointRing() (*counterfoil.KeyRing, error) {
	return counterfoil.NewKeyRing(storetest.Key(counterfoil.RoleCheckpoint).Public())
}

// newLogs publishes a store's logs, with the newest checkpoint kept in a directory.
func newLogs(s *sqlite.Store, dir string) (*translog.Logs, error) {
	keep, err := translog.NewKeep(dir)
	if err != nil {
		return nil, err
	}
	ring, err := checkpointRing()
	if err != nil {
		return nil, err
	}
	return translog.New(translog.Config{
		Store: s, Audience: storetest.Audience, Ring: ring, Signer: storetest.Key(counterfoil.RoleCheckpoint), Keep: keep,
		Logger: slog.New(slog.DiscardHandler),
	})
}

func privateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kept")
	must(t, os.Mkdir(dir, 0o700))
	return dir
}

// proven fails the test unless the log is what was signed, and nothing is missing from it.
func proven(t *testing.T, s *sqlite.Store, logs *translog.Logs) {
	t.Helper()
	must(t, logs.Guard(t.Context()))
	must(t, logs.Publish(t.Context()))
	state, err := s.Log(t.Context(), storetest.Tenant)
	must(t, err)
	ring, err := checkpointRing()
	must(t, err)
	report, err := translog.Check{
		Tenant: storetest.Tenant, Audience: storetest.Audience, Ring: ring, Checkpoints: [][]byte{state.Note}, KeptSince: storetest.Start(),
	}.Run(t.Context(), translog.Events(t.Context(), s, storetest.Tenant))
	must(t, err)
	if !report.OK() || report.Proven != state.Size || report.Dropped != 0 {
		t.Fatalf("%d of %d events are proven: %+v", report.Proven, state.Size, report.Findings)
	}
}

// A restored copy is noticed against the checkpoint that is kept outside, unless it has all that was published.
func TestRestore_older(t *testing.T) {
	t.Parallel()
	path, kept := newPath(t), privateDir(t)
	s := open(t, path, options(storetest.Start))
	logs, err := newLogs(s, kept)
	must(t, err)
	fill(t, s, 5)
	must(t, logs.Publish(t.Context()))
	older := filepath.Join(t.TempDir(), "older.db")
	must(t, s.Backup(t.Context(), older, nil))
	must(t, use(t, s, "later"))
	must(t, logs.Publish(t.Context()))
	newest := filepath.Join(t.TempDir(), "newest.db")
	must(t, s.Backup(t.Context(), newest, nil))
	proven(t, s, logs)
	must(t, s.Close())
	for backup, whole := range map[string]bool{older: false, newest: true} {
		to := newPath(t)
		must(t, sqlite.Restore(t.Context(), backup, to, options(storetest.Start)))
		r := open(t, to, options(storetest.Start))
		logs, err := newLogs(r, kept)
		must(t, err)
		switch err := logs.Guard(t.Context()); {
		case whole:
			must(t, err)
			proven(t, r, logs)
		case !errors.Is(err, counterfoil.CodeIntegrityFailed):
			t.Errorf("an older copy: %v", err)
		}
	}
}

const scribeVariable = "COUNTERFOIL_TEST_SCRIBE"

// scribe is a process that writes all that a log has, until it is killed.
func scribe(spec string) error {
	path, kept, _ := strings.Cut(spec, "\n")
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, options(time.Now))
	if err != nil {
		return err
	}
	logs, err := newLogs(s, kept)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for n := 0; ; n++ {
		name := fmt.Sprintf("%d-%d", os.Getpid(), n)
		c, err := storetest.NewCase(name, time.Now().UTC().Truncate(time.Millisecond))
		if err != nil {
			return err
		}
		l := &storetest.Ledger{Store: s, Case: c}
		claim, err := l.Claim(ctx, "run-"+name)
		if err == nil && n%3 > 0 {
			_, err = l.Finish(ctx, claim, time.Now())
		}
		if err == nil && n%3 == 1 {
			err = revoke(ctx, s, c.Approval.Digest(), name)
		}
		if err == nil && n%4 == 2 {
			err = logs.Publish(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func revoke(ctx context.Context, s *sqlite.Store, subject counterfoil.Digest, name string) error {
	e, err := counterfoil.NewEvent(counterfoil.PhaseRevoked, storetest.Names(), counterfoil.EventParams{
		Tenant: storetest.Tenant, Audience: storetest.Audience, ExecutionID: "rev-" + name,
	})
	if err != nil {
		return err
	}
	return s.Revoke(ctx, storetest.Tenant, subject, []byte("signed "+name), e)
}

// Processes that spend, settle, revoke and publish are killed at any time. What is there afterwards is whole, has all that
// was kept outside, and can be recovered. SOAK=1 go test -run Kill_log -timeout 1h
func TestKill_log(t *testing.T) {
	t.Parallel()
	path, kept := newPath(t), privateDir(t)
	witness := open(t, path, options(time.Now))
	rnd := dice(t)
	rounds := soak(15, 500)
	for round := range rounds {
		var wg sync.WaitGroup
		for range 1 + round%2 {
			cmd := startScribe(t, path, kept)
			delay := time.Duration(rnd.IntN(60_000)) * time.Microsecond
			wg.Go(func() {
				time.Sleep(delay)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
		}
		wg.Wait()
		s := witness
		if round%3 == 0 {
			s = open(t, path, options(time.Now))
		}
		logs, err := newLogs(s, kept)
		must(t, err)
		must(t, logs.Guard(t.Context()))
		orphans, err := s.Orphans(t.Context())
		must(t, err)
		for _, x := range orphans {
			st, err := storetest.Recovered(x, counterfoil.OutcomeIndeterminate, time.Now())
			must(t, err)
			must(t, s.Settle(t.Context(), st))
		}
		if state, err := s.Log(t.Context(), storetest.Tenant); err == nil && state.Size > 0 {
			proven(t, s, logs)
		}
		if round%5 == 4 || round == rounds-1 {
			healthy(t, s)
		}
		if s != witness {
			must(t, s.Close())
		}
	}
	state, err := witness.Log(t.Context(), storetest.Tenant)
	if err != nil || state.Size < int64(rounds) {
		t.Fatalf("%+v, %v", state, err)
	}
	t.Logf("%d rounds, %d events", rounds, state.Size)
}

func startScribe(t *testing.T, path, kept string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), scribeVariable+"="+path+"\n"+kept)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := io.ReadAll(io.LimitReader(out, 6)); string(line) != "ready\n" {
		t.Fatalf("the scribe said %q, %v", line, err)
	}
	return cmd
}
