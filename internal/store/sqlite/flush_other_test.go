//go:build !linux

package sqlite_test

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
