//go:build !linux

package sqlite_test

import (
	"os"
	"time"
)

func fdatasync(f *os.File) error { return f.Sync() }

// cpu is not measured here.
func cpu() time.Duration { return 0 }
