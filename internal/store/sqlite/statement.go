package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// A statement is a prepared one that lives as long as the writer's connection. It speaks to the driver itself: the pool of
// database/sql costs as much as the statements do, and one connection needs none.
type statement struct {
	stmt  driver.Stmt
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
}

// prepare keeps statements: there are a few dozen, and no query text is made from data.
func (t *tx) prepare(query string) (*statement, error) {
	if s, ok := t.w.stmts[query]; ok {
		return s, nil
	}
	p, ok := t.w.conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, fail(counterfoil.CodeInternal, "the database driver can't prepare", nil)
	}
	stmt, err := p.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s := &statement{stmt: stmt}
	var e, q bool
	s.exec, e = stmt.(driver.StmtExecContext)
	s.query, q = stmt.(driver.StmtQueryContext)
	if !e || !q {
		return nil, errors.Join(fail(counterfoil.CodeInternal, "the database driver's statements lack contexts", nil), stmt.Close())
	}
	t.w.stmts[query] = s
	return s, nil
}

// exec runs a statement of a transaction and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	if err := t.w.fault(writing); err != nil {
		return 0, err
	}
	n, err := t.step(query, args...)
	t.spoiled = t.spoiled || n > 0 || err != nil
	return n, err
}

// write runs a statement that changes something and returns a row.
func (t *tx) write(query string, args []any, dest ...any) error {
	if err := t.w.fault(writing); err != nil {
		return err
	}
	t.spoiled = true
	return t.get(query, args, dest...)
}

func (t *tx) step(query string, args ...any) (int64, error) {
	stmt, err := t.prepare(query)
	if err != nil {
		return 0, err
	}
	values, err := bound(args)
	if err != nil {
		return 0, err
	}
	res, err := stmt.exec.ExecContext(context.Background(), values)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// get reads one row. A missing one is gateway.ErrNotFound.
func (t *tx) get(query string, args []any, dest ...any) error {
	found := false
	err := t.query(query, args, func(r rowscan.Scanner) error {
		found = true
		return r.Scan(dest...)
	})
	if err == nil && !found {
		return gateway.ErrNotFound
	}
	return err
}

// rows reads all rows of a query.
func rows[T any](t *tx, query string, args []any, scan func(rowscan.Scanner) (T, error)) ([]T, error) {
	var out []T
	err := t.query(query, args, func(r rowscan.Scanner) error {
		x, err := scan(r)
		if err == nil {
			out = append(out, x)
		}
		return err
	})
	return out, err
}

func (t *tx) query(query string, args []any, each func(rowscan.Scanner) error) (err error) {
	defer func() { t.spoiled = t.spoiled || err != nil }()
	stmt, err := t.prepare(query)
	if err != nil {
		return err
	}
	values, err := bound(args)
	if err != nil {
		return err
	}
	found, err := stmt.query.QueryContext(context.Background(), values)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	r := make(row, len(found.Columns()))
	for {
		if err := found.Next(r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

// bound gives the driver its arguments.
func bound(args []any) ([]driver.NamedValue, error) {
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i].Ordinal = i + 1
		if s, ok := a.(sql.NullString); ok {
			a = nil
			if s.Valid {
				a = s.String
			}
		}
		switch a := a.(type) {
		case int64, []byte, bool, nil:
			out[i].Value = a
		case string:
			if !utf8.ValidString(a) || strings.ContainsRune(a, 0) {
				return nil, fail(counterfoil.CodeInvalidInput, "a text is not UTF-8, or has a NUL", nil)
			}
			out[i].Value = a
		case int:
			out[i].Value = int64(a)
		default:
			return nil, fail(counterfoil.CodeInternal, "a value has no form in the database", fmt.Errorf("%T", a))
		}
		if b, ok := a.([]byte); ok && b == nil {
			out[i].Value = nil
		}
	}
	return out, nil
}

// A row is what the driver has read: memory of our own.
type row []driver.Value

// Scan implements rowscan.Scanner for the few types that the database's columns have.
func (r row) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fail(counterfoil.CodeInternal, "a row has another number of columns", nil)
	}
	for i, d := range dest {
		if err := assign(d, r[i]); err != nil {
			return err
		}
	}
	return nil
}

func assign(dest any, v driver.Value) error {
	ok := false
	switch d := dest.(type) {
	case *int64:
		*d, ok = v.(int64)
	case *int:
		var n int64
		n, ok = v.(int64)
		*d = int(n)
	case *bool:
		var n int64
		n, ok = v.(int64)
		*d = n != 0
	case *string:
		*d, ok = v.(string)
	case *gateway.State:
		var s string
		s, ok = v.(string)
		*d = gateway.State(s)
	case *[]byte:
		*d, ok = v.([]byte)
		ok = ok || v == nil
	case *sql.NullString:
		d.String, d.Valid = v.(string)
		ok = d.Valid || v == nil
	case *sql.NullInt64:
		d.Int64, d.Valid = v.(int64)
		ok = d.Valid || v == nil
	}
	if !ok {
		return fail(counterfoil.CodeIntegrityFailed, "a record has another form than it must have", fmt.Errorf("%T into %T", v, dest))
	}
	return nil
}
