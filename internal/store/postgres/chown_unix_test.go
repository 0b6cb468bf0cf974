//go:build unix

package postgres_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// chown gives a file to whom its directory belongs to.
func chown(t testing.TB, file string) {
	t.Helper()
	info, err := os.Stat(filepath.Dir(file))
	must(t, err)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		must(t, os.Chown(file, int(stat.Uid), int(stat.Gid)))
	}
}
