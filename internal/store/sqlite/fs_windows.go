package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/windows"

	"github.com/counterfoil/counterfoil"
)

// checkFileSystem refuses shares of other machines: their locks and flushes can't be relied on.
func checkFileSystem(dir string) error {
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return fail(counterfoil.CodeInvalidInput, "the database's path is not one", err)
	}
	if windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return fail(counterfoil.CodeUnavailable, "the database is on a network drive; it needs a local disk", nil)
	}
	return nil
}
