// Package filelock keeps files to one holder at a time, and to one user: exclusive locks, and what a private file must look
// like. The kernel drops a lock when its holder dies, however it dies, so that a lock that can be taken proves that its
// holder is gone. Locks belong to the open file, not to the process: two holders in one process exclude each other like two
// processes. Locks are advisory, and for local file systems only.
package filelock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// ErrHeld says that another holder has the lock.
const ErrHeld = sentinel("the lock is held")

type sentinel string

func (s sentinel) Error() string { return string(s) }

// A Lock is held until Release or Remove.
type Lock struct {
	f    *os.File
	path string
}

// Try takes the lock on the file at path, which it creates with mode 0600 when there is none. It fails with ErrHeld when
// somebody else has it. A symbolic link is refused.
func Try(path string) (*Lock, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The holder before us may have removed the file: then what we hold is no longer what others will find.
		here, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		there, err := os.Lstat(path)
		if err == nil && os.SameFile(here, there) {
			return &Lock{f: f, path: path}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// pause is how long Wait waits between two tries.
const pause = 5 * time.Millisecond

// Wait takes the lock as Try does, and waits for it until ctx ends.
func Wait(ctx context.Context, path string) (*Lock, error) {
	for {
		l, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, errors.Join(ErrHeld, context.Cause(ctx))
		}
	}
}

// A Latch is a file that stays open and is locked again and again. One goroutine at a time uses it. Nobody removes its file.
type Latch struct{ f *os.File }

// NewLatch opens the file at path, which it creates with mode 0600 when there is none.
func NewLatch(path string) (*Latch, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return &Latch{f: f}, nil
}

// Try takes the lock, or fails with ErrHeld.
func (l *Latch) Try() error { return lock(l.f) }

// Release drops the lock.
func (l *Latch) Release() error { return unlock(l.f) }

// Close drops the lock and closes the file.
func (l *Latch) Close() error { return l.f.Close() }

// Release drops the lock and leaves the file.
func (l *Lock) Release() error { return l.f.Close() }
