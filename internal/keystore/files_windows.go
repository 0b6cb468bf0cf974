//go:build windows

package keystore

import (
	"io/fs"
	"os"
)

func openFile(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	return os.Open(path)
}

// exposed finds nothing: the profile's access list keeps other users out, and mode bits say nothing here.
func exposed(fs.FileInfo) string { return "" }

// syncDir does nothing: directories can't be flushed here.
func syncDir(string) error { return nil }
