package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// backupStep is how many pages are copied between two looks at the context.
const backupStep = 512

// Backup copies the database as it is at one moment to a new file at path, while everything goes on. The copy is checked
// before it gets its name: what stands there is whole. progress, if not nil, is called with the pages copied so far and all
// pages. The write-ahead log is not reset meanwhile: it grows by what is written during the copy.
func (s *Store) Backup(ctx context.Context, path string, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	path, err := newFile(path)
	if err != nil {
		return err
	}
	return inPlace(path, func(fresh string) error {
		if err := s.copyTo(ctx, fresh, progress); err != nil {
			return fail(counterfoil.CodeUnavailable, "the backup could not be made", err)
		}
		return inspect(ctx, fresh, s.o)
	})
}

// Restore makes the database at path from a backup, which must be a whole one of the same audience. The caller has moved
// the old database away, with its write-ahead log; no store is open at path. Whether the backup is older than what was
// logged after it is for the log's guard to see, when the store is opened.
func Restore(ctx context.Context, backup, path string, o Options) (err error) {
	if o.steps == nil {
		o.steps = migrations()
	}
	if path, err = newFile(path); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	l, err := filelock.Wait(wait, path+".lock")
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the database is being prepared by another process", err)
	}
	defer func() { err = errors.Join(err, l.Release()) }()
	if err := orphanedLog(path); err != nil {
		return err
	}
	return inPlace(path, func(fresh string) error {
		if err := copyFile(backup, fresh); err != nil {
			return fail(counterfoil.CodeUnavailable, "the backup can't be copied", err)
		}
		return inspect(ctx, fresh, o)
	})
}

// copyFile copies bytes: a backup has no log beside it.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from) //nolint:gosec // the operator chooses the path
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0) //nolint:gosec // the file is our own
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// newFile returns the absolute path of a file that is not there yet.
func newFile(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fail(counterfoil.CodeInvalidInput, "the file has no absolute path", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fail(counterfoil.CodeInvalidInput, filepath.Base(path)+" is there already; choose another name, or move it away", nil)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fail(counterfoil.CodeUnavailable, filepath.Base(path)+" can't be looked at", err)
	}
	return path, nil
}

// inPlace has a file made under another name, flushes it and gives it its own name, which must not be taken. What fails
// leaves nothing.
func inPlace(path string, fill func(fresh string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the file can't be made", err)
	}
	fresh := f.Name()
	defer func() { err = errors.Join(err, discard(fresh)) }()
	if err := f.Close(); err != nil {
		return fail(counterfoil.CodeUnavailable, "the file can't be made", err)
	}
	if err := fill(fresh); err != nil {
		return err
	}
	err = flush(fresh)
	if err == nil {
		err = os.Link(fresh, path) // unlike a rename it replaces nothing
	}
	if err == nil {
		err = filelock.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the file can't be given its name", err)
	}
	return nil
}

// discard removes a database and what SQLite keeps beside it.
func discard(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(counterfoil.CodeUnavailable, "a file that is not needed can't be removed", err)
		}
	}
	return nil
}

func flush(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the file is our own
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyTo copies the database inside of one read transaction, so that no commit makes it begin again.
func (s *Store) copyTo(ctx context.Context, fresh string, progress func(done, total int64)) (err error) {
	db := openPool(s.path, readOnly, 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `BEGIN; SELECT probe FROM store`); err != nil {
		return err
	}
	return conn.Raw(func(c any) error {
		source, ok := c.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return fail(counterfoil.CodeInternal, "the database driver can't copy", nil)
		}
		b, err := source.NewBackup(address(fresh))
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if more, err = b.Step(backupStep); err == nil {
				total := int64(b.PageCount())
				progress(total-int64(b.Remaining()), total)
				err = context.Cause(ctx)
			}
		}
		return errors.Join(err, b.Finish())
	})
}

// inspect opens a copy as it would be opened in its place, reads every page of it, and leaves no log beside it.
func inspect(ctx context.Context, path string, o Options) error {
	name := filepath.Base(path)
	if err := upgrade(ctx, path, readWrite, o); err != nil {
		return openError(name, err)
	}
	db := openPool(path, readWrite, 1)
	return openError(name, errors.Join(whole(ctx, db), db.Close()))
}

// whole refuses a database that is damaged.
func whole(ctx context.Context, db *sql.DB) error {
	findings, err := pages(ctx, db)
	if err == nil && len(findings) > 0 {
		err = fail(counterfoil.CodeIntegrityFailed, "the database is damaged; restore it: "+findings[0], nil)
	}
	return err
}

// A queryer runs queries.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// pages lets SQLite look at every page, at every entry of an index and at every reference.
func pages(ctx context.Context, q queryer) ([]string, error) {
	found, err := q.QueryContext(ctx, `PRAGMA integrity_check(20)`)
	if err != nil {
		return nil, err
	}
	lines, err := collect(found, func(r rowscan.Scanner) (string, error) {
		var line string
		err := r.Scan(&line)
		return line, err
	})
	if err != nil {
		return nil, err
	}
	if len(lines) == 1 && lines[0] == "ok" {
		lines = nil
	}
	broken, err := q.QueryContext(ctx, `SELECT DISTINCT "table", parent FROM pragma_foreign_key_check`)
	if err != nil {
		return nil, err
	}
	references, err := collect(broken, func(r rowscan.Scanner) (string, error) {
		var table, parent string
		err := r.Scan(&table, &parent)
		return "the table " + table + " names rows of " + parent + " that are not there", err
	})
	return append(lines, references...), err
}
