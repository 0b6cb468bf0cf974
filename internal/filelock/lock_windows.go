//go:build windows

package filelock

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

func open(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

func lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrHeld
	}
	return err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{})
}

// Remove drops the lock and removes the file, which can't be removed while it is open. A file that another holder has
// opened in between stays.
func (l *Lock) Remove() error {
	err := l.f.Close()
	_ = os.Remove(l.path)
	return err
}

// Exposed finds nothing: the profile's access list keeps other users out, and mode bits say nothing here.
func Exposed(fs.FileInfo) string { return "" }

// SyncDir does nothing: directories can't be flushed here.
func SyncDir(string) error { return nil }
