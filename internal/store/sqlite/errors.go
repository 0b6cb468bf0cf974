package sqlite

import (
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func fail(code counterfoil.Code, msg string, cause error) error {
	return &counterfoil.Error{Code: code, Msg: msg, Err: cause}
}

// maxName bounds, in bytes, the names that rows are found by.
const maxName = 1024

// named refuses what can't be such a name.
func named(names ...string) error {
	for _, n := range names {
		if n == "" || len(n) > maxName {
			return fail(counterfoil.CodeInvalidInput, "a name that a record is found by is empty or has more than 1024 bytes", nil)
		}
	}
	return nil
}

// resultCode returns SQLite's primary result code, 0 for errors of others.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// writeError gives an error from inside a transaction its code. The transaction is rolled back: nothing was recorded.
func writeError(err error) error {
	if err == nil {
		return nil
	}
	if spoken(err) {
		return err
	}
	switch resultCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fail(counterfoil.CodeUnavailable, "the database is busy; nothing was recorded", err)
	case sqlite3.SQLITE_FULL:
		return fail(counterfoil.CodeUnavailable, "the disk is full; nothing was recorded", err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return fail(counterfoil.CodeUnavailable, "the database can't be written; nothing was recorded", err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fail(counterfoil.CodeUnavailable, "the database is damaged; nothing was recorded", err)
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		return fail(counterfoil.CodeInternal, "the record breaks a rule of the database; nothing was recorded", err)
	default:
		return fail(counterfoil.CodeUnavailable, "the database failed; nothing was recorded", err)
	}
}

// commitError gives a failed commit its code. These results come before the commit record is written; after any other the
// record may be in the write-ahead log, and recovery may find it there.
func commitError(err error) error {
	switch resultCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
		return writeError(err)
	default:
		return fail(counterfoil.CodeUnknownOutcome, "the commit failed half-way; whether it happened is not known", err)
	}
}

// readError gives an error of a query its code.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return gateway.ErrNotFound
	case spoken(err):
		return err
	default:
		return fail(counterfoil.CodeUnavailable, "the database could not be read", err)
	}
}

// spoken reports whether the error is one of ours already.
func spoken(err error) bool {
	if _, ok := errors.AsType[*counterfoil.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[counterfoil.Code](err); ok {
		return true
	}
	if _, ok := errors.AsType[*gateway.ConflictError](err); ok {
		return true
	}
	_, ok := errors.AsType[speaking](err)
	return ok
}

// speaking are the errors that the stores' users have given names to.
type speaking interface {
	error
	Spoken()
}
