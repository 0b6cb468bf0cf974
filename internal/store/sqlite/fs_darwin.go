package sqlite

import (
	"golang.org/x/sys/unix"

	"github.com/counterfoil/counterfoil"
)

// checkFileSystem refuses file systems on other machines: their locks and flushes can't be relied on.
func checkFileSystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fail(counterfoil.CodeUnavailable, "the file system of the database can't be looked at", err)
	}
	if s.Flags&unix.MNT_LOCAL == 0 {
		return fail(counterfoil.CodeUnavailable, "the database is on a network file system; it needs a local disk", nil)
	}
	return nil
}
