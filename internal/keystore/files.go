package keystore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
)

// maxFile bounds every file of a keystore, in bytes.
const maxFile = 1 << 20

// readFile reads a key file: a regular file of our own that nobody else may read. The error of a missing one is
// fs.ErrNotExist.
func readFile(path string) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, fail(counterfoil.CodeUnavailable, "the key file "+filepath.Base(path)+" can't be opened", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "the key file "+filepath.Base(path)+" can't be looked at", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the key file "+filepath.Base(path)+" is not a regular file", nil)
	}
	if msg := filelock.Exposed(info); msg != "" {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the key file "+filepath.Base(path)+" "+msg, nil)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "the key file "+filepath.Base(path)+" can't be read", err)
	}
	if len(b) > maxFile {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the key file "+filepath.Base(path)+" is too large", nil)
	}
	return b, nil
}

// writeFile replaces a file at once and durably: a crash leaves the old content or the new. The caller holds the lock.
func writeFile(dir, name string, b []byte) error {
	if err := replace(dir, name, b); err != nil {
		return fail(counterfoil.CodeUnavailable, "the key file "+name+" can't be written", err)
	}
	return nil
}

func replace(dir, name string, b []byte) (err error) {
	tmp := filepath.Join(dir, name+".tmp")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the directory was checked, the names are ours
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return filelock.SyncDir(dir)
}

// checkDir refuses a state directory that others can look into or that stands elsewhere.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the state directory can't be looked at", err)
	}
	if !info.IsDir() {
		return fail(counterfoil.CodeIntegrityFailed, "the state directory is a link or no directory", nil)
	}
	if msg := filelock.Exposed(info); msg != "" {
		return fail(counterfoil.CodeIntegrityFailed, "the state directory "+msg, nil)
	}
	return nil
}
