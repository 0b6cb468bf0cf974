// Package sqlite is the embedded store: all of the gateway's records in one SQLite file on a local disk.
//
// What a method has acknowledged is on the disk: every commit is synchronous. One connection writes, a few others read.
// Several processes may have the file open at once; they meet only in the file and its locks. The store trusts the
// directory that the file lies in (it must be the user's own), the clock that it is given, and the disk to keep what it
// has flushed. It never reads what its callers have sealed.
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// Options are what a store takes from outside. Audience, Signer, Now and Names are required.
type Options struct {
	// Audience is the name that the store's uses and its log carry. A file that was made for another is refused.
	Audience string
	// Signer is the ledger's key.
	Signer counterfoil.Signer
	// Now is the ledger's clock.
	Now func() time.Time
	// Names are the log's pseudonyms, for the events of requests that the store moves by itself.
	Names *counterfoil.Pseudonyms
	// Rand names this process; crypto/rand when nil.
	Rand io.Reader

	fault func(stage) error // tests make stages of a transaction fail with it
	steps []string          // migrations; tests have another
}

// A stage is a place where a test can make a transaction fail.
type stage string

const (
	beginning stage = "begin"     // before the transaction
	writing   stage = "write"     // before a statement
	ending    stage = "commit"    // before the commit: the transaction is rolled back
	ended     stage = "committed" // after the commit: it is durable, but nobody was told
)

const readers = 4

// A Store is an open database. It is safe for concurrent use.
type Store struct {
	o    Options
	path string

	process *process
	queue   queue
	read    *sql.DB
	watch   *watcher

	checking sync.Mutex
}

var _ gateway.Store = (*Store)(nil)

// Open opens the database file at path, or makes a new one when there is none. Every file that is not a healthy database
// of this program and of this version or an earlier one is refused and left as it is.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Audience == "" || o.Signer == nil || o.Now == nil || o.Names == nil {
		return nil, fail(counterfoil.CodeInvalidInput, "a store needs an audience, the ledger's key, a clock and pseudonyms", nil)
	}
	if o.steps == nil {
		o.steps = migrations()
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	// Without the switch every commit flushes the file's timestamps too. It is refused where the platform has no such call.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fail(counterfoil.CodeInternal, "the way to flush files could not be chosen", err)
	}
	path, err := prepare(ctx, path, o)
	if err != nil {
		return nil, err
	}
	s := &Store{o: o, path: path}
	if s.process, err = register(ctx, path, o.Rand); err != nil {
		return nil, err
	}
	w, err := newWriter(path, o.fault)
	if err != nil {
		return nil, errors.Join(err, s.process.end())
	}
	s.queue.start(w)
	s.read = openPool(path, readOnly, readers)
	s.watch = newWatcher(path)
	if err := s.Ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the store. Commits that have begun are finished, later calls fail with CodeUnavailable.
func (s *Store) Close() error {
	if !s.queue.close() {
		return nil
	}
	// The writer goes last: the last connection brings the write-ahead log into the file and removes it.
	return errors.Join(s.watch.close(), s.read.Close(), s.queue.w.close(), s.process.end())
}

// commit runs f in a transaction and makes it durable.
func (s *Store) commit(ctx context.Context, f func(*tx) error) error { return s.queue.do(ctx, f) }

// Process returns the random name under which this store's waiters and executions stand in the database.
func (s *Store) Process() string { return s.process.id }

// Ready writes to the database and reads back what it wrote.
func (s *Store) Ready(ctx context.Context) error {
	var wrote, read int64
	err := s.commit(ctx, func(t *tx) error {
		return t.probe(&wrote)
	})
	if err != nil {
		return err
	}
	if err := s.get(ctx, `SELECT probe FROM store WHERE id = 1`, nil, &read); err != nil {
		return err
	}
	if read < wrote { // another process may have counted on
		return fail(counterfoil.CodeUnavailable, "the database does not keep what is written", nil)
	}
	return nil
}

// probe writes another value each time: SQLite does not write what is the same as before.
func (t *tx) probe(wrote *int64) error {
	if wrote == nil {
		wrote = new(int64)
	}
	return t.write(`UPDATE store SET probe = probe + 1 WHERE id = 1 RETURNING probe`, nil, wrote)
}

// get reads one row. A missing one is gateway.ErrNotFound.
func (s *Store) get(ctx context.Context, query string, args []any, dest ...any) error {
	return readError(s.read.QueryRowContext(ctx, query, args...).Scan(dest...))
}

// list reads all rows of a query, which must be bounded: a reader that takes its time would keep the write-ahead log from
// being reset.
func list[T any](ctx context.Context, s *Store, query string, args []any, scan func(rowscan.Scanner) (T, error)) ([]T, error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, readError(err)
	}
	return collect(rows, scan)
}

func collect[T any](rows *sql.Rows, scan func(rowscan.Scanner) (T, error)) ([]T, error) {
	defer rows.Close() //nolint:errcheck // its error is rows.Err's
	var out []T
	for rows.Next() {
		x, err := scan(rows)
		if err != nil {
			return nil, readError(err)
		}
		out = append(out, x)
	}
	return out, readError(rows.Err())
}
