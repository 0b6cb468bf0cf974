package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// TestMain is also the program that the tests with processes start and kill.
func TestMain(m *testing.M) {
	if spec := os.Getenv(scribeVariable); spec != "" {
		fmt.Fprintln(os.Stderr, scribe(spec))
		os.Exit(1)
	}
	if code, worker := program().Worker(); worker {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func program() storetest.Program {
	return storetest.Program{
		Open: func(ctx context.Context, place string, fault func(storetest.Stage) error) (storetest.Store, error) {
			o := options(time.Now)
			if fault != nil {
				o = o.Faulty(func(stage string) error { return fault(storetest.Stage(stage)) })
			}
			return sqlite.Open(ctx, place, o)
		},
		Dead: 0, Now: time.Now,
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	program().Run(t, func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") })
}

// Processes that died before they had spent anything are named nowhere: the next start removes their files.
func TestProcesses_signsOfLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "test.db")
	open(t, path, options(time.Now))
	for range 3 {
		s := open(t, path, options(time.Now))
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path, options(time.Now))
	entries, err := filepath.Glob(filepath.Join(dir, "procs", "*.lock"))
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
}
