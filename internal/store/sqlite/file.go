package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// prepare sees to it that a healthy database of the current schema stands at path, and returns the absolute path. One
// process at a time prepares.
//
// The file is only ever opened by SQLite: if we opened and closed it ourselves, the kernel would drop the locks that other
// stores in this process hold on it.
func prepare(ctx context.Context, path string, o Options) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fail(counterfoil.CodeInvalidInput, "the database has no absolute path", err)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fail(counterfoil.CodeUnavailable, "the database's directory is missing", err)
	}
	if err := checkFileSystem(dir); err != nil {
		return "", err
	}
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	l, err := filelock.Wait(wait, path+".lock")
	if err != nil {
		return "", fail(counterfoil.CodeUnavailable, "the database is being prepared by another process", err)
	}
	return path, errors.Join(prepareLocked(ctx, path, o), l.Release())
}

func prepareLocked(ctx context.Context, path string, o Options) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return create(ctx, path, o)
	}
	name := filepath.Base(path)
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the database "+name+" can't be looked at", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return fail(counterfoil.CodeIntegrityFailed, name+" is not a regular file", nil)
	case info.Size() == 0:
		return fail(counterfoil.CodeIntegrityFailed, name+" is empty: it was cut off, or something else made it; restore it", nil)
	case info.Mode().Perm()&0o200 == 0:
		return fail(counterfoil.CodeUnavailable, name+" is read-only", nil)
	}
	if msg := filelock.Exposed(info); msg != "" {
		return fail(counterfoil.CodeIntegrityFailed, name+" "+msg, nil)
	}
	cut := info.Size()%pageSize != 0 && !hasLog(path)
	if err := upgrade(ctx, path, readWrite, o); err != nil {
		return openError(name, err)
	}
	if cut {
		return fail(counterfoil.CodeIntegrityFailed, name+" ends inside a page: it was cut off; restore it", nil)
	}
	if info.Size() > checkedAtStart {
		return nil
	}
	db := openPool(path, readOnly, 1)
	return openError(name, errors.Join(whole(ctx, db), db.Close()))
}

// checkedAtStart bounds, in bytes, the databases of which every page is looked at before they are used: a larger one would
// keep its user waiting, and is left to Check.
const checkedAtStart = 16 << 20

// pageSize is SQLite's, in bytes, of every database that is made here. SQLite itself takes what a last page lacks for zeros.
const pageSize = 4096

// hasLog reports whether there is a write-ahead log, which holds what a crash may have cut off the database.
func hasLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// create makes the database under another name and moves it into its place when it is complete: a crash leaves no
// database rather than half of one.
func create(ctx context.Context, path string, o Options) error {
	fresh := path + ".new"
	for _, leftover := range []string{fresh, fresh + "-wal", fresh + "-shm", fresh + "-journal"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(counterfoil.CodeUnavailable, "the database can't be made", err)
		}
	}
	if err := orphanedLog(path); err != nil {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator chooses the path
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the database can't be made", err)
	}
	if err := upgrade(ctx, fresh, birth, o); err != nil {
		return openError(filepath.Base(path), err)
	}
	if err := publish(fresh, path); err != nil {
		return fail(counterfoil.CodeUnavailable, "the database can't be moved into its place", err)
	}
	return nil
}

// orphanedLog refuses a log without its database, which would be taken for the new one's.
func orphanedLog(path string) error {
	for _, old := range []string{path + "-wal", path + "-journal"} {
		if _, err := os.Lstat(old); err == nil {
			return fail(counterfoil.CodeIntegrityFailed,
				"the database "+filepath.Base(path)+" is missing, but its log "+filepath.Base(old)+" is there; restore it, or move both away", nil)
		}
	}
	return nil
}

// publish gives the finished file its name, durably. The caller holds the lock and has seen that there is no other.
func publish(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return filelock.SyncDir(filepath.Dir(to))
}

// openError names the file in an error that SQLite reports when it is opened.
func openError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case resultCode(err) == sqlite3.SQLITE_NOTADB:
		return fail(counterfoil.CodeIntegrityFailed, name+" is not a database", err)
	case resultCode(err) == sqlite3.SQLITE_CORRUPT:
		return fail(counterfoil.CodeIntegrityFailed, name+" is damaged; restore it", err)
	case spoken(err):
		return err
	default:
		return fail(counterfoil.CodeUnavailable, name+" can't be opened", err)
	}
}

// upgrade brings the database to the current schema, in one transaction, and checks whose it is.
func upgrade(ctx context.Context, path string, a access, o Options) (err error) {
	db := openPool(path, a, 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	if err := upgradeLocked(ctx, conn, a, o); err != nil {
		_, undo := conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		return errors.Join(err, undo)
	}
	_, err = conn.ExecContext(ctx, `COMMIT`)
	return err
}

func upgradeLocked(ctx context.Context, conn *sql.Conn, a access, o Options) error {
	steps := o.steps
	var have int
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&have); err != nil {
		return err
	}
	if a == birth {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
			return err
		}
	} else if have < 1 {
		return fail(counterfoil.CodeIntegrityFailed, "the database has no schema; restore it", nil)
	}
	if have > len(steps) {
		return fail(counterfoil.CodeIntegrityFailed,
			fmt.Sprintf("the database has schema %d, which is newer than this program's %d; use the newer program", have, len(steps)), nil)
	}
	for _, step := range steps[have:] {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	if have < len(steps) {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, len(steps))); err != nil {
			return err
		}
	}
	if a == birth {
		_, err := conn.ExecContext(ctx, `INSERT INTO store (id, audience, created, probe) VALUES (1, ?, ?, 0)`,
			o.Audience, rowscan.Millis(o.Now()))
		return err
	}
	var audience string
	if err := conn.QueryRowContext(ctx, `SELECT audience FROM store WHERE id = 1`).Scan(&audience); err != nil {
		return err
	}
	if audience != o.Audience {
		return fail(counterfoil.CodeIntegrityFailed, "the database belongs to other keys than those beside it", nil)
	}
	return nil
}
