package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// A tx is a transaction under way. What it appends to logs is written at its end.
type tx struct {
	s    *Store
	ctx  context.Context // never one that a caller can cancel
	conn *pgx.Conn

	heads  map[string]*head // of the logs that are locked
	events eventRows
	queue  []write
	as     string // the process
	wrote  bool
}

// A write is a statement that waits to be sent with others.
type write struct {
	sql  string
	args []any
}

// transact runs f in a transaction of its own and makes it durable. The heads of the tenants' logs are locked first. An error
// of f means that nothing of it was recorded. Once it has begun, the caller's patience has no say.
func (s *Store) transact(ctx context.Context, tenants []string, f func(*tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return cancelled(err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return closedError()
	}
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()
	for attempt := 0; ; attempt++ {
		began, err := s.transactOnce(ctx, tenants, f)
		if attempt == 0 && !began && died(err) {
			s.pool.Reset() // the others died with it
			continue
		}
		if attempt == retries || !s.again(ctx, err) {
			return writeError(err)
		}
	}
}

// again reports whether a transaction that failed may be tried once more.
func (s *Store) again(ctx context.Context, err error) bool {
	if errors.Is(err, errLapsed) {
		return s.lease.renew(ctx) == nil
	}
	return passing(err) && !errors.Is(err, counterfoil.CodeUnknownOutcome)
}

func cancelled(err error) error {
	return fail(counterfoil.CodeUnavailable, "cancelled before anything was recorded", err)
}

func closedError() error { return fail(counterfoil.CodeUnavailable, "the store is closed", nil) }

// transactOnce is one attempt. began says that the server has answered.
func (s *Store) transactOnce(ctx context.Context, tenants []string, f func(*tx) error) (began bool, err error) {
	if err := s.fault(beginning); err != nil {
		return true, err
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	c, err := s.pool.Acquire(wait)
	if err != nil {
		return true, acquireError(err)
	}
	defer c.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	t := &tx{s: s, ctx: ctx, conn: c.Conn()}
	b := &pgx.Batch{}
	b.Queue(begin)
	t.lock(b, tenants)
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		t.abandon()
		return false, err
	}
	if err := t.call(f); err != nil {
		t.abandon()
		return true, err
	}
	return true, t.end()
}

// begin says nothing of READ WRITE: a database that was made read-only stays so.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED`

// fault is what a test wants to happen at a stage.
func (s *Store) fault(at stage) error {
	if err := s.o.fault(at); err != nil {
		return injected{err}
	}
	return nil
}

// call runs a member's function. A panic in it, of a signer for instance, must not leave others waiting.
func (t *tx) call(f func(*tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail(counterfoil.CodeInternal, "a transaction panicked; nothing was recorded", cause(fmt.Sprintf("panic: %v", p)))
		}
	}()
	return f(t)
}

// end sends what waits to be written together with the commit. A transaction that has changed nothing is rolled back.
func (t *tx) end() error {
	t.queueEvents()
	if !t.wrote && len(t.queue) == 0 {
		t.abandon()
		return nil
	}
	err := t.faults()
	if err == nil && t.conn.PgConn().TxStatus() != 'T' {
		err = fail(counterfoil.CodeUnavailable, "the transaction has ended by itself; nothing was recorded", nil)
	}
	if err == nil {
		err = t.commit()
	}
	if err != nil {
		t.abandon()
		return err
	}
	t.s.saw(t.heads)
	return nil
}

// faults asks for every statement that is about to be sent.
func (t *tx) faults() error {
	for range t.queue {
		if err := t.s.fault(writing); err != nil {
			return err
		}
	}
	return t.s.fault(ending)
}

// commit sends the last statements and the commit in one message: the server skips the commit if one of them fails, and then
// says so. Whatever else goes wrong from here on leaves open whether it happened.
func (t *tx) commit() error {
	delete(t.conn.PgConn().CustomData(), warned)
	b := &pgx.Batch{}
	for _, w := range t.queue {
		b.Queue(w.sql, w.args...)
	}
	b.Queue(`UPDATE versions SET n = n + 1 WHERE slot = $1`, t.s.commits.Add(1)%16)
	var tag pgconn.CommandTag
	b.Queue(`COMMIT`).Exec(func(ct pgconn.CommandTag) error {
		tag = ct
		return nil
	})
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return commitError(err)
	}
	if tag.String() != "COMMIT" {
		return fail(counterfoil.CodeUnavailable, "the database has rolled the transaction back; nothing was recorded", nil)
	}
	if err := t.s.fault(ended); err != nil {
		return unknown(err)
	}
	if _, there := t.conn.PgConn().CustomData()[warned]; there {
		// The server did not wait for its standby: the record may be lost in a failover.
		return unknown(cause("the server warned"))
	}
	return nil
}

const warned = "warned"

// noteWarning remembers that the server warned.
func noteWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warned] = true
	}
}

// later queues a statement for the end.
func (t *tx) later(query string, args ...any) {
	t.queue = append(t.queue, write{query, args})
}

// exactly queues a statement that must change so many rows. If it doesn't the database stands elsewhere than it was read,
// and a division by zero fails the transaction.
func (t *tx) exactly(rows int, query string, args ...any) {
	args = append(args, rows)
	t.later(fmt.Sprintf(`WITH done AS (%s RETURNING 1) SELECT 1 / (count(*) = $%d::bigint)::int FROM done`, query, len(args)), args...)
}

// abandon ends the transaction, if there still is one. A connection that can't even do that is given up.
func (t *tx) abandon() {
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), patience)
	defer cancel()
	if _, err := t.conn.Exec(ctx, `ROLLBACK`); err != nil {
		_ = t.conn.Close(ctx)
	}
}

// exec runs a statement now and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	if err := t.s.fault(writing); err != nil {
		return 0, err
	}
	t.wrote = true
	tag, err := t.conn.Exec(t.ctx, query, args...)
	return tag.RowsAffected(), err
}

// write runs a statement that changes something and returns a row.
func (t *tx) write(query string, args []any, dest ...any) error {
	if err := t.s.fault(writing); err != nil {
		return err
	}
	t.wrote = true
	return t.get(query, args, dest...)
}

// get reads one row. A missing one is gateway.ErrNotFound.
func (t *tx) get(query string, args []any, dest ...any) error {
	err := t.conn.QueryRow(t.ctx, query, args...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return gateway.ErrNotFound
	}
	return err
}

// rows reads all rows of a query.
func rows[T any](t *tx, query string, args []any, scan func(rowscan.Scanner) (T, error)) ([]T, error) {
	found, err := t.conn.Query(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, collectable(scan))
}

// collectable is how the driver wants a function that reads a row.
func collectable[T any](scan func(rowscan.Scanner) (T, error)) pgx.RowToFunc[T] {
	return func(r pgx.CollectableRow) (T, error) { return scan(r) }
}
