//go:build unix

package keystore

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFile never follows a link and never waits, so that a pipe in the place of a file can't hold the program up.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) //nolint:gosec // the directory was checked, the names are ours
}

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

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // it was checked
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
