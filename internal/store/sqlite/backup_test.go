package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// use spends and settles one call.
func use(t testing.TB, s *sqlite.Store, name string) error {
	t.Helper()
	l := &storetest.Ledger{Store: s, Case: storetest.Approved(t, name, storetest.Start())}
	claim, err := l.Claim(t.Context(), "run-"+name)
	if err == nil {
		_, err = l.Finish(t.Context(), claim, storetest.Start())
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// healthy fails the test when the check finds anything.
func healthy(t testing.TB, s *sqlite.Store) {
	t.Helper()
	findings, err := s.Check(t.Context())
	if err != nil || len(findings) != 0 {
		t.Fatalf("%q, %v", findings, err)
	}
}

// A backup that is made while others write is whole: it opens elsewhere, and has a log without gaps up to some moment.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t), options(storetest.Start))
	for n := range 30 {
		must(t, use(t, s, fmt.Sprint("before", n)))
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				if err := use(t, s, fmt.Sprint("during", n)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	var done, total int64
	err := s.Backup(t.Context(), path, func(d, n int64) {
		if d < done || d > n {
			t.Errorf("%d of %d pages after %d", d, n, done)
		}
		done, total = d, n
	})
	close(stop)
	wg.Wait()
	must(t, err)
	if done == 0 || done != total {
		t.Errorf("%d of %d pages", done, total)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("files beside the backup: %v", entries)
	}
	if err := s.Backup(t.Context(), path, nil); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("it was overwritten: %v", err)
	}

	restored := filepath.Join(t.TempDir(), "restored.db")
	must(t, sqlite.Restore(t.Context(), path, restored, options(storetest.Start)))
	if err := sqlite.Restore(t.Context(), path, restored, options(storetest.Start)); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("restored over a database: %v", err)
	}
	r := open(t, restored, options(storetest.Start))
	healthy(t, r)
	log := readLog(t, r)
	if len(log) < 60 {
		t.Fatalf("%d events", len(log))
	}
	if err := use(t, r, "before7"); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
		t.Errorf("a use of before the backup: %v", err)
	}
	must(t, use(t, r, "after"))
	healthy(t, s)
}

func TestBackup_fails(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t), options(storetest.Start))
	must(t, use(t, s, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	err := s.Backup(ctx, filepath.Join(dir, "a.db"), func(int64, int64) { cancel() })
	if !errors.Is(err, counterfoil.CodeUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "no", "a.db"), nil); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("no directory: %v", err)
	}
	must(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	if err := s.Backup(t.Context(), filepath.Join(dir, "link"), nil); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("a link: %v", err)
	}
	small := smallDisk(t, "100k")
	if err := s.Backup(t.Context(), filepath.Join(small, "a.db"), nil); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("a full disk: %v", err)
	}
	for _, d := range []string{dir, small} {
		entries, err := os.ReadDir(d)
		must(t, err)
		for _, e := range entries {
			if e.Name() != "link" {
				t.Errorf("%s was left", e.Name())
			}
		}
	}
}

func TestRestore_rejects(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t), options(storetest.Start))
	for n := range 20 {
		must(t, use(t, s, fmt.Sprint(n)))
	}
	whole := filepath.Join(t.TempDir(), "whole.db")
	must(t, s.Backup(t.Context(), whole, nil))
	content, err := os.ReadFile(whole)
	must(t, err)
	for name, spoil := range map[string]func([]byte) []byte{
		"cut off": func(b []byte) []byte { return b[:len(b)/2] },
		"zeroed": func(b []byte) []byte {
			clear(b[len(b)/2 : len(b)/2+8192])
			return b
		},
		"text":  func([]byte) []byte { return []byte(strings.Repeat("not a database\n", 1000)) },
		"empty": func([]byte) []byte { return nil },
	} {
		dir := t.TempDir()
		bad := filepath.Join(dir, "bad.db")
		must(t, os.WriteFile(bad, spoil(append([]byte(nil), content...)), 0o600))
		to := filepath.Join(dir, "to.db")
		if err := sqlite.Restore(t.Context(), bad, to, options(storetest.Start)); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("%s: it was put in place", name)
		}
	}
	o := options(storetest.Start)
	o.Audience = "counterfoil-other"
	if err := sqlite.Restore(t.Context(), whole, newPath(t), o); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Errorf("another's: %v", err)
	}
	// The log of the database that was there before would be played into the backup.
	to := newPath(t)
	must(t, os.WriteFile(to+"-wal", content, 0o600))
	if err := sqlite.Restore(t.Context(), whole, to, options(storetest.Start)); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Errorf("beside a log: %v", err)
	}
}
