package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"github.com/counterfoil/counterfoil"
)

// applicationID stands in the header of every database of ours: "CFoL".
const applicationID int64 = 0x43466f4c

// An access is what a connection may do.
type access int

const (
	readOnly access = iota + 1
	readWrite
	birth // the file is being made: it is not ours yet
)

// A setting is a pragma and the value that it must report.
type setting struct {
	name  string
	value any // as it is set
	shown any // as it is reported
}

// settings are what every connection must have, in the order in which they are set: first to wait for locks.
func settings(a access) []setting {
	queryOnly := int64(0)
	if a == readOnly {
		queryOnly = 1
	}
	return []setting{
		{"busy_timeout", int64(5000), int64(5000)},
		{"journal_mode", "wal", "wal"},
		{"synchronous", "FULL", int64(2)},
		{"fullfsync", int64(1), int64(1)},            // macOS: flush the drive's own cache too
		{"checkpoint_fullfsync", int64(1), int64(1)}, // likewise
		{"foreign_keys", int64(1), int64(1)},
		{"trusted_schema", int64(0), int64(0)},
		{"cell_size_check", int64(1), int64(1)},
		{"temp_store", "MEMORY", int64(2)},
		{"cache_size", int64(-8192), int64(-8192)},               // KiB
		{"wal_autocheckpoint", int64(4000), int64(4000)},         // pages: 16 MiB; each costs the commit that runs it two flushes
		{"journal_size_limit", int64(16 << 20), int64(16 << 20)}, // a log that a slow reader let grow shrinks to this
		{"query_only", queryOnly, queryOnly},
	}
}

// A connector opens connections and lets none out that is not as it must be.
type connector struct {
	driver.Connector
	access access
	err    error
}

// address is the URI of a file that must be there: one that has vanished is an error, not a new and empty database.
func address(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	name := u.EscapedPath()
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/…
	}
	return "file://" + name + "?mode=rw&_defensive=1&_dqs=0"
}

func newConnector(path string, a access) connector {
	c, err := sqlite.NewConnector(address(path))
	return connector{Connector: c, access: a, err: err}
}

func openPool(path string, a access, most int) *sql.DB {
	db := sql.OpenDB(newConnector(path, a))
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.err != nil {
		return nil, c.err
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.set(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// set applies the settings and checks what the connection reports. Whose file it is comes before the first that would
// change a byte of it.
func (c connector) set(ctx context.Context, conn driver.Conn) error {
	for i, s := range settings(c.access) {
		if i == 1 && c.access != birth {
			id, err := pragma(ctx, conn, "application_id")
			if err != nil {
				return err
			}
			if id != applicationID {
				return fail(counterfoil.CodeIntegrityFailed, "the file is a database of another program", nil)
			}
		}
		if _, err := pragma(ctx, conn, fmt.Sprintf("%s = %v", s.name, s.value)); err != nil {
			return err
		}
		if got, err := pragma(ctx, conn, s.name); err != nil {
			return err
		} else if got != s.shown {
			return fail(counterfoil.CodeUnavailable, "the database does not take the setting "+s.name, fmt.Errorf("it reports %v", got))
		}
	}
	return nil
}

// pragma runs a pragma and returns the first value that it reports, nil for none.
func pragma(ctx context.Context, conn driver.Conn, text string) (value any, err error) {
	q, ok := conn.(driver.QueryerContext)
	if !ok {
		return nil, fail(counterfoil.CodeInternal, "the database driver can't query", nil)
	}
	rows, err := q.QueryContext(ctx, "PRAGMA "+text, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if len(rows.Columns()) == 0 {
		return nil, nil
	}
	dest := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(dest); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if b, ok := dest[0].([]byte); ok {
		return string(b), nil
	}
	return dest[0], nil
}
