//go:build unix

package filelock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600) //nolint:gosec // the caller chooses the path
}

func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		default:
			return err
		}
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// Remove removes the file and drops the lock, in this order: whoever waits for the lock finds that its file is gone.
func (l *Lock) Remove() error { return errors.Join(os.Remove(l.path), l.f.Close()) }

// Exposed says what is wrong with the mode or the owner of a file that must be private, "" for nothing.
func Exposed(info fs.FileInfo) string {
	if info.Mode().Perm()&0o077 != 0 {
		return "is open to other users; remove their permissions (chmod go=)"
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Uid != uint32(os.Geteuid()) { //nolint:gosec // a user id fits
		return "belongs to another user"
	}
	return ""
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the caller chooses the path
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
