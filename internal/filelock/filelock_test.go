package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/filelock"
)

func TestTry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	l, err := filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Try(path); !errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("taken twice: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l, err = filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the file is still there: %v", err)
	}
}

func TestTry_symlink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "target"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if _, err := filelock.Try(filepath.Join(dir, "link")); err == nil || errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("followed: %v", err)
	}
}

func TestWait_ends(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	l, err := filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := filelock.Wait(ctx, path); !errors.Is(err, filelock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waited: %v", err)
	}
}

// Holders that remove the file as they go must exclude each other like those that leave it.
func TestWait_excludes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	var held atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				l, err := filelock.Wait(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if held.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				held.Add(-1)
				if i%2 == 0 {
					err = l.Remove()
				} else {
					err = l.Release()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestLatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.turn")
	a, err := filelock.NewLatch(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := filelock.NewLatch(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.Try(); err != nil {
			t.Fatal(err)
		}
		if err := b.Try(); !errors.Is(err, filelock.ErrHeld) {
			t.Fatalf("taken twice: %v", err)
		}
		if err := a.Release(); err != nil {
			t.Fatal(err)
		}
		if err := b.Try(); err != nil {
			t.Fatal(err)
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(b.Try(), b.Close(), a.Try(), a.Close()); err != nil {
		t.Fatalf("closing does not drop the lock: %v", err)
	}
}
