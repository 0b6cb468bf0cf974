//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// exposed says what is wrong with the mode or the owner, "" for nothing.
func exposed(info fs.FileInfo) string {
	if info.Mode().Perm()&0o077 != 0 {
		return "is open to other users; remove their permissions (chmod go=)"
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Uid != uint32(os.Geteuid()) { //nolint:gosec // a user id fits
		return "belongs to another user"
	}
	return ""
}

// publish gives the finished file its name, durably. The caller holds the lock and has seen that there is no other.
func publish(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
