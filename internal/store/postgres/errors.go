package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func fail(code counterfoil.Code, msg string, cause error) error {
	return &counterfoil.Error{Code: code, Msg: msg, Err: plain(cause)}
}

// A cause is what may be logged of a failure. The driver's own errors name parts of the URL, and the server's may repeat
// values: neither is passed on.
type cause string

func (c cause) Error() string { return string(c) }

// plain keeps of an error what names no value. Errors of our own stay as they are.
func plain(err error) error {
	if err == nil || spoken(err) {
		return err
	}
	if e, ok := errors.AsType[injected](err); ok {
		return e
	}
	if c, ok := errors.AsType[cause](err); ok {
		return c
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		text := "SQLSTATE " + e.Code
		for _, s := range []string{e.TableName, e.ConstraintName, e.Routine} {
			if s != "" {
				text += ", " + s
			}
		}
		return cause(text)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return cause("there was no answer in time")
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return cause("the host's name was not found")
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return cause(e.Error())
	}
	return cause("the connection failed")
}

// An injected error comes from a test's fault.
type injected struct{ error }

// sqlState returns the server's code for an error, "" for errors of others.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// passing reports whether the server ended a transaction for the sake of another: it recorded nothing and may be tried again.
func passing(err error) bool {
	code := sqlState(err)
	return code == "40001" || code == "40P01"
}

// notText is the server's code for a text that it can't hold: nothing that is stored equals it.
const notText = "22021"

// died reports whether a connection turned out to be dead: it was closed while nobody used it, by a restart of the server or
// by something on the way. A new one can't be had when that fails too.
func died(err error) bool {
	if code := sqlState(err); code != "" {
		return code == "57P01" || code == "57P02"
	}
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused {
		return false
	}
	return err != nil && !spoken(err) && !pgconn.Timeout(err) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pgx.ErrNoRows)
}

// writeError gives an error from inside a transaction its code. The transaction is rolled back: nothing was recorded.
func writeError(err error) error {
	if errors.Is(err, errLapsed) {
		return fail(counterfoil.CodeUnavailable, "this process did not count as alive; nothing was recorded", err)
	}
	if err == nil || spoken(err) {
		return err
	}
	code := sqlState(err)
	switch {
	case code == "":
		return fail(counterfoil.CodeUnavailable, "the connection to the database failed; nothing was recorded", err)
	case code == notText:
		return badText()
	case passing(err), code == "55P03":
		return fail(counterfoil.CodeUnavailable, "the database is busy; nothing was recorded", err)
	case code == "57014":
		return fail(counterfoil.CodeUnavailable, "the database took too long; nothing was recorded", err)
	case code == "53100":
		return fail(counterfoil.CodeUnavailable, "the database's disk is full; nothing was recorded", err)
	case code == "25006", code == "42501":
		return fail(counterfoil.CodeUnavailable, "the database can't be written; nothing was recorded", err)
	case strings.HasPrefix(code, "57"), strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"):
		return fail(counterfoil.CodeUnavailable, "the database is not available; nothing was recorded", err)
	case strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"), strings.HasPrefix(code, "54"), code == "P0001":
		return fail(counterfoil.CodeInternal, "the record breaks a rule of the database; nothing was recorded", err)
	default:
		return fail(counterfoil.CodeUnavailable, "the database failed; nothing was recorded", err)
	}
}

// commitError tells a commit that did not happen from one of which that isn't known. What the server refused, it did not do:
// such an error stays as it is, and the transaction may be tried again if it says so.
func commitError(err error) error {
	if pgconn.SafeToRetry(err) {
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.SeverityUnlocalized == "ERROR" && e.Code != "40003" &&
		!strings.HasPrefix(e.Code, "08") {
		return err
	}
	return unknown(err)
}

func unknown(err error) error {
	return fail(counterfoil.CodeUnknownOutcome, "the commit failed half-way; whether it happened is not known", err)
}

// readError gives an error of a query its code.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return gateway.ErrNotFound
	case spoken(err):
		return err
	case sqlState(err) == notText:
		return gateway.ErrNotFound
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
	return ok || errors.Is(err, errLapsed)
}

// speaking are the errors that the stores' users have given names to.
type speaking interface {
	error
	Spoken()
}

// maxName bounds what is looked up by name: two of them fit an index's entry.
const maxName = 1024

// names checks what rows are found by.
func names(values ...string) error {
	for _, s := range values {
		if s == "" || len(s) > maxName {
			return fail(counterfoil.CodeInvalidInput, "a name is empty or too long", nil)
		}
	}
	return texts(values...)
}

// texts checks that the database can keep the values: it takes no NUL and no broken UTF-8.
func texts(values ...string) error {
	for _, s := range values {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return badText()
		}
	}
	return nil
}

func badText() error {
	return fail(counterfoil.CodeInvalidInput, "a text has a NUL or is not UTF-8", nil)
}
