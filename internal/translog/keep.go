package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
)

const (
	keepSuffix = ".checkpoint"
	keepLock   = ".lock"
	maxNote    = 65_536 // bytes, of a checkpoint
)

// A Keep keeps the newest checkpoint of each log in a directory outside the database: one note in one file for each log,
// named by the log's id. A checkpoint never takes the place of a larger one. Processes may share the directory; gateways
// that share a database should.
type Keep struct{ dir string }

// NewKeep opens the directory, which must be there: one that was made on the way would hide that a disk is not mounted.
func NewKeep(dir string) (*Keep, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, unavailable("the directory for checkpoints can't be looked at", err)
	case !info.IsDir() || !filepath.IsAbs(dir):
		return nil, invalid("checkpoints are kept in a directory with an absolute path")
	}
	return &Keep{dir: dir}, nil
}

// file names the file of a log: the last part of its origin, of hexadecimal digits.
func (k *Keep) file(origin string) string {
	return filepath.Join(k.dir, idOf(origin)+keepSuffix)
}

// Checkpoint returns the checkpoint that is kept of a log, nil for none. Nothing is verified but its form and its log.
func (k *Keep) Checkpoint(origin string) (*counterfoil.Checkpoint, error) {
	c, err := readNote(k.file(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no checkpoint is an answer
	}
	return c, k.belongs(keptFile{c, err}, origin)
}

// belongs checks that a file has the checkpoint of a log.
func (k *Keep) belongs(f keptFile, origin string) error {
	if f.err == nil && f.c != nil && f.c.Origin() != origin {
		return &counterfoil.Error{
			Code: counterfoil.CodeIntegrityFailed,
			Msg:  "the checkpoint in " + filepath.Base(k.file(origin)) + " is of another log: does another installation keep its checkpoints here?",
		}
	}
	return f.err
}

// A kept file is a checkpoint, or the error of reading it.
type keptFile struct {
	c   *counterfoil.Checkpoint
	err error
}

// all returns what is kept, by file.
func (k *Keep) all() (map[string]keptFile, error) {
	files, err := filepath.Glob(filepath.Join(k.dir, "*"+keepSuffix))
	if err != nil {
		return nil, unavailable("the directory for checkpoints can't be read", err)
	}
	out := make(map[string]keptFile, len(files))
	for _, f := range files {
		c, err := readNote(f)
		out[f] = keptFile{c, err}
	}
	return out, nil
}

func readNote(file string) (*counterfoil.Checkpoint, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, unavailable("a checkpoint file can't be looked at", err)
	}
	name := filepath.Base(file)
	if !info.Mode().IsRegular() || info.Size() > maxNote {
		return nil, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: name + " is no checkpoint file"}
	}
	b, err := os.ReadFile(file) //nolint:gosec // the directory is the operator's, the name ours
	if err != nil {
		return nil, unavailable("a checkpoint file can't be read", err)
	}
	c, err := counterfoil.ParseCheckpoint(b)
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "what " + name + " holds is no checkpoint", Err: err}
	}
	return c, nil
}

// Put keeps a checkpoint, durably, unless a larger one is kept or one of the same size with as many signatures. Two of one
// size with different roots are a fork: CodeIntegrityFailed, and nothing is changed.
func (k *Keep) Put(ctx context.Context, c *counterfoil.Checkpoint) error {
	return k.locked(ctx, func() error {
		kept, err := k.Checkpoint(c.Origin())
		switch {
		case err != nil:
			return err
		case kept == nil:
			return k.write(c)
		case kept.Size() == c.Size() && kept.Root() != c.Root():
			return &counterfoil.Error{
				Code: counterfoil.CodeIntegrityFailed,
				Msg:  fmt.Sprintf("the log %s is forked: another checkpoint of the size %d is kept", c.Origin(), c.Size()),
			}
		case kept.Size() > c.Size() || kept.Size() == c.Size() && len(kept.Note()) >= len(c.Note()):
			return nil
		}
		return k.write(c)
	})
}

// replace keeps a checkpoint, or none, in the place of whatever is kept. What was there is moved aside, for an auditor.
func (k *Keep) replace(ctx context.Context, origin string, c *counterfoil.Checkpoint) error {
	return k.locked(ctx, func() error {
		file := k.file(origin)
		before, err := os.ReadFile(file) //nolint:gosec // the directory is the operator's, the name ours
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return unavailable("a checkpoint file can't be read", err)
		case c != nil && bytes.Equal(before, c.Note()):
			return nil
		default:
			aside, err := freeName(file + ".replaced")
			if err == nil {
				err = os.Rename(file, aside)
			}
			if err != nil {
				return unavailable("a checkpoint file can't be moved aside", err)
			}
		}
		if c == nil {
			return k.sync()
		}
		return k.write(c)
	})
}

// freeName returns the first of name, name.1, name.2, … that nothing has.
func freeName(name string) (string, error) {
	for n := range 1 << 16 {
		free := name
		if n > 0 {
			free = fmt.Sprintf("%s.%d", name, n)
		}
		if _, err := os.Lstat(free); errors.Is(err, fs.ErrNotExist) {
			return free, nil
		}
	}
	return "", errors.New("there are too many replaced checkpoints")
}

func (k *Keep) locked(ctx context.Context, f func() error) error {
	lock, err := filelock.Wait(ctx, filepath.Join(k.dir, keepLock))
	if err != nil {
		return unavailable("the directory for checkpoints can't be locked", err)
	}
	err = f()
	if release := lock.Release(); err == nil && release != nil {
		return unavailable("the directory for checkpoints can't be unlocked", release)
	}
	return err
}

// write replaces the file in one step that is durable when it returns. The lock is held: nobody else has the temporary name.
func (k *Keep) write(c *counterfoil.Checkpoint) error {
	file := k.file(c.Origin())
	tmp := file + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // auditors read it; the name is ours
	if err == nil {
		_, err = f.Write(c.Note())
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		return unavailable("a checkpoint file can't be written", err)
	}
	return k.sync()
}

// sync makes names durable. Windows has no such call for directories, and needs none for a rename.
func (k *Keep) sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(k.dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return unavailable("the directory for checkpoints can't be made durable", err)
	}
	return nil
}
