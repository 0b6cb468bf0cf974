// Package postgres is the gateway's store in a PostgreSQL database that many replicas share.
//
// What a method has acknowledged is on the server's disk: fsync and synchronous_commit are checked on every connection.
// Replicas meet only in the database: in locks on rows and in unique indexes. The lock on the head of a tenant's log is the
// lock of all that the tenant has, and callers that come together share one transaction. The store trusts the server to keep
// what it has acknowledged, the clock that it is given for times in the log, and the server's clock for who is alive. It
// never reads what its callers have sealed.
package postgres

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// Options are what a store takes from outside. Audience, Signer, Names and Now are required.
type Options struct {
	// Audience is the name that the store's uses and its log carry. A database that was made for another is refused.
	Audience string
	// Signer is the ledger's key.
	Signer counterfoil.Signer
	// Names are the pseudonyms of the log: the store makes the events of requests that it moves by itself.
	Names *counterfoil.Pseudonyms
	// Now is the ledger's clock.
	Now func() time.Time
	// Rand names this process; crypto/rand when nil.
	Rand io.Reader
	// Lease is how long this process counts as alive without a sign of life; 30 seconds when 0, and at least 100 ms.
	Lease time.Duration
	// Logger is told what no caller is; nothing when nil.
	Logger *slog.Logger

	fault func(stage) error // tests make stages of a transaction fail with it
}

// A stage is a place where a test can make a transaction fail.
type stage string

const (
	beginning stage = "begin"     // before the transaction
	writing   stage = "write"     // before a statement
	ending    stage = "commit"    // before the commit: the transaction is rolled back
	ended     stage = "committed" // after the commit: it is durable, but nobody was told
)

const (
	poolSize     = 8 // connections beside that of the group commit and that of the lease
	defaultLease = 30 * time.Second
	leastLease   = 100 * time.Millisecond
	patience     = 10 * time.Second // how long a call waits for a connection or an answer to a query
	longest      = 40 * time.Second // of a transaction
	retries      = 8                // of a transaction that the server ended for the sake of another
)

// A Store is an open database. It is safe for concurrent use.
type Store struct {
	o    Options
	pool *pgxpool.Pool

	lease   *lease
	commits atomic.Int64 // spreads the commits over the slots of versions

	lead   chan struct{} // held by who commits for all
	writer *pgx.Conn     // of the lead; nil until it is needed, and after a failure

	mu     sync.Mutex
	queue  []*member
	closed bool
	calls  sync.WaitGroup   // transactions of their own that are under way
	known  map[string]bool  // tenants whose log has a row
	seen   map[string]int64 // the largest log that this process has seen, by tenant
	saved  map[counterfoil.Digest]bool
}

var (
	_ gateway.Store  = (*Store)(nil)
	_ translog.Store = (*Store)(nil)
)

// Open opens the database behind a postgres:// URL, or makes its tables where there are none, and proves that it can be
// written and read. Anything that is not a healthy database of this program and of this version or an earlier one is refused
// and left as it is. Its errors carry CodeInvalidInput for the URL and the options, CodeUnavailable for a server that can't
// be reached, written or relied on, and CodeIntegrityFailed for a database that is not ours.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if o.Audience == "" || o.Signer == nil || o.Now == nil || o.Names == nil {
		return nil, fail(counterfoil.CodeInvalidInput, "a store needs an audience, the ledger's key, pseudonyms and a clock", nil)
	}
	if err := names(o.Audience); err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Lease < leastLease {
		return nil, fail(counterfoil.CodeInvalidInput, "the lease is too short", nil)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.fault == nil {
		o.fault = func(stage) error { return nil }
	}
	cfg, schema, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.OnNotice = noteWarning
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, connectError(err)
	}
	if err := migrate(ctx, conn, schema, o); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	s := &Store{
		o: o, lead: make(chan struct{}, 1), writer: conn, known: map[string]bool{}, seen: map[string]int64{}, saved: map[counterfoil.Digest]bool{},
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		_ = conn.Close(ctx)
		return nil, fail(counterfoil.CodeInvalidInput, "the pool of connections can't be made", nil)
	}
	if s.lease, err = register(ctx, cfg.ConnConfig, o); err == nil {
		err = s.Ready(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the store. Commits that have begun are finished, later calls fail with CodeUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.lead <- struct{}{} // never given back: who still waits in the queue is answered by drain
	s.drain()
	s.calls.Wait()
	s.lease.end()
	s.dropWriter()
	s.pool.Close()
	return nil
}

// Process returns the random name under which this store's waiters and executions stand in the database. It is another one
// after the lease has lapsed.
func (s *Store) Process() string { return s.lease.process() }

// Ready writes to the database and reads back what it wrote.
func (s *Store) Ready(ctx context.Context) error {
	var wrote, read int64
	err := s.transact(ctx, nil, func(t *tx) error {
		return t.write(`UPDATE store SET probe = probe + 1 WHERE id = 1 RETURNING probe`, nil, &wrote)
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

// Version implements gateway.Rulings: the number of commits, of all processes together.
func (s *Store) Version(ctx context.Context) (int64, error) {
	var v int64
	err := s.get(ctx, `SELECT sum(n)::bigint FROM versions`, nil, &v)
	return v, err
}

// get reads one row. A missing one is gateway.ErrNotFound.
func (s *Store) get(ctx context.Context, query string, args []any, dest ...any) error {
	return readError(s.reading(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, query, args...).Scan(dest...)
	}))
}

// reading runs a query, once more if its connection had died.
func (s *Store) reading(ctx context.Context, query func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := query(ctx)
	if died(err) {
		s.pool.Reset() // the others died with it
		err = query(ctx)
	}
	return err
}

// list reads all rows of a query, which must be bounded.
func list[T any](ctx context.Context, s *Store, query string, args []any, scan func(rowscan.Scanner) (T, error)) ([]T, error) {
	var out []T
	err := s.reading(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, query, args...)
		if err == nil {
			out, err = pgx.CollectRows(rows, collectable(scan))
		}
		return err
	})
	if err != nil || len(out) == 0 {
		if sqlState(err) == notText {
			err = nil
		}
		return nil, readError(err)
	}
	return out, nil
}

// maxPage bounds what one list returns.
const maxPage = 1000

func page(limit int) int { return max(0, min(limit, maxPage)) }
