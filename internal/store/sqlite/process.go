package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
)

const (
	processDir = "procs"
	lockSuffix = ".lock"
	lockWait   = 30 * time.Second
)

// A process is the sign of life of one open store: a lock on a file that bears its random name. Rows in the database name
// it. Whoever can take the lock knows that the process is dead, at once and whatever the clock says.
type process struct {
	id   string
	dir  string
	lock *filelock.Lock
}

// register makes and locks the file before anything in the database can name it.
func register(ctx context.Context, path string, rand io.Reader) (*process, error) {
	b := make([]byte, 16)
	if _, err := io.ReadFull(rand, b); err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "there is no randomness", err)
	}
	p := &process{id: hex.EncodeToString(b), dir: filepath.Join(filepath.Dir(path), processDir)}
	if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fail(counterfoil.CodeUnavailable, "the directory of the processes can't be made", err)
	}
	if info, err := os.Lstat(p.dir); err != nil || !info.IsDir() {
		return nil, fail(counterfoil.CodeUnavailable, "the directory of the processes is none", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	var err error
	if p.lock, err = filelock.Wait(ctx, p.file(p.id)); err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "the sign of life of this process can't be made", err)
	}
	p.tidy()
	return p, nil
}

// tidy removes the files of the dead: a process without a file is dead too, so that nothing is lost with them. What fails
// is left for the next start.
func (p *process) tidy() {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), lockSuffix); ok {
			_, _ = p.dead(id)
		}
	}
}

func (p *process) file(id string) string { return filepath.Join(p.dir, id+lockSuffix) }

func (p *process) end() error {
	if p == nil {
		return nil
	}
	return p.lock.Remove()
}

// dead reports whether the process with the id has ended. In doubt it has not. The file of a dead one is removed.
func (p *process) dead(id string) (bool, error) {
	if id == p.id {
		return false, nil
	}
	// The id comes from the database: it must not lead anywhere else.
	if b, err := hex.DecodeString(id); err != nil || len(b) != 16 {
		return false, fail(counterfoil.CodeIntegrityFailed, "a record names a process that can't be one", nil)
	}
	if _, err := os.Lstat(p.file(id)); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	l, err := filelock.Try(p.file(id))
	if errors.Is(err, filelock.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, fail(counterfoil.CodeUnavailable, "a process can't be looked for", err)
	}
	if err := l.Remove(); err != nil {
		return false, fail(counterfoil.CodeUnavailable, "the sign of life of a dead process can't be removed", err)
	}
	return true, nil
}
