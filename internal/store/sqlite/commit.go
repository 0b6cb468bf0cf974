package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// maxBatch bounds how many members share one commit.
const maxBatch = 128

// A member is one transaction that waits to be committed, alone or with others.
type member struct {
	f    func(*tx) error
	err  error
	done chan struct{} // closed when err is final
}

// commit runs f in a transaction and makes it durable. Callers that come together share one commit: the first of them
// leads, which means that it commits for all. A member that fails takes back its own changes alone.
//
// An error of f means that nothing of it was recorded. The context is asked before, and never again: what a batch does
// must not hang on the patience of one caller.
func (s *Store) commit(ctx context.Context, f func(*tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return fail(counterfoil.CodeUnavailable, "cancelled before anything was recorded", err)
	}
	m := &member{f: f, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return closedError()
	}
	s.queue = append(s.queue, m)
	s.mu.Unlock()

	select {
	case <-m.done:
		return m.err
	case s.lead <- struct{}{}:
	}
	defer func() { <-s.lead }()
	select {
	case <-m.done: // the leader before us took it along
		return m.err
	default:
	}
	// Those who are about to queue get the chance to come along: a lone caller loses nothing by it.
	for range 3 {
		runtime.Gosched()
	}
	for { // until our own batch, which is the first unless the queue is longer than one
		batch := s.take()
		s.write.run(batch)
		for _, b := range batch {
			close(b.done)
		}
		select {
		case <-m.done:
			return m.err
		default:
		}
	}
}

func closedError() error { return fail(counterfoil.CodeUnavailable, "the store is closed", nil) }

// take removes the next batch from the queue.
func (s *Store) take() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), maxBatch)
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch
}

// drain answers those who were still waiting when the store was closed.
func (s *Store) drain() {
	for batch := s.take(); len(batch) > 0; batch = s.take() {
		for _, m := range batch {
			m.err = closedError()
			close(m.done)
		}
	}
}

// A writer is the one connection that writes. Only who holds the lead may use it.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn            // nil until it is needed, and after a failure
	stmts map[string]statement // of conn
	fault func(stage) error
}

func newWriter(path string, fault func(stage) error) *writer {
	if fault == nil {
		fault = func(stage) error { return nil }
	}
	return &writer{db: openPool(path, readWrite, 1), fault: fault}
}

// A statement is a prepared one that lives as long as its connection.
type statement struct{ *sql.Stmt }

// A tx is a transaction under way.
type tx struct{ w *writer }

// run commits a batch and sets each member's error.
func (w *writer) run(batch []*member) {
	t := &tx{w: w}
	if err := t.begin(); err != nil {
		settle(batch, writeError(err))
		return
	}
	took := 0
	for _, m := range batch {
		var broken error
		if m.err, broken = t.include(m.f, len(batch) > 1); broken != nil {
			// The transaction is gone, and with it what the members before had done.
			t.abandon()
			for _, b := range batch {
				b.err = nil
			}
			settle(batch, writeError(broken))
			return
		}
		if m.err == nil {
			took++
		}
	}
	if took == 0 {
		t.abandon()
		return
	}
	settle(batch, t.end())
}

// settle gives the error to all members that have none.
func settle(batch []*member, err error) {
	for _, m := range batch {
		if m.err == nil {
			m.err = err
		}
	}
}

// begin takes the write lock, waiting as long as busy_timeout says.
func (t *tx) begin() error {
	if err := t.w.fault(beginning); err != nil {
		return err
	}
	if t.w.conn == nil {
		conn, err := t.w.db.Conn(context.Background())
		if err != nil {
			return err
		}
		t.w.conn, t.w.stmts = conn, map[string]statement{}
	}
	_, err := t.step(`BEGIN IMMEDIATE`)
	if err != nil {
		t.abandon()
	}
	return err
}

// include runs one member. A lone one needs no savepoint: if it fails nothing is committed. broken says that the
// whole transaction is lost.
func (t *tx) include(f func(*tx) error, shared bool) (err, broken error) {
	if !shared {
		return writeError(t.call(f)), nil
	}
	if _, err := t.step(`SAVEPOINT member`); err != nil {
		return nil, err
	}
	err = t.call(f)
	if err != nil {
		// After a full disk or the like SQLite has rolled everything back by itself: then there is no savepoint.
		if _, gone := t.step(`ROLLBACK TO member`); gone != nil {
			return nil, errors.Join(err, gone)
		}
	}
	if _, gone := t.step(`RELEASE member`); gone != nil {
		return nil, gone
	}
	return writeError(err), nil
}

// call runs a member's function. A panic in it, of a signer for instance, must not leave the others waiting.
func (t *tx) call(f func(*tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail(counterfoil.CodeInternal, "a transaction panicked; nothing was recorded", fmt.Errorf("panic: %v", p))
		}
	}()
	return f(t)
}

func (t *tx) end() error {
	if err := t.w.fault(ending); err != nil {
		t.abandon()
		return writeError(err)
	}
	if _, err := t.step(`COMMIT`); err != nil {
		t.abandon()
		return commitError(err)
	}
	if err := t.w.fault(ended); err != nil {
		return commitError(err)
	}
	return nil
}

// abandon ends the transaction, if there still is one. A connection that can't even do that is given up.
func (t *tx) abandon() {
	if t.w.conn == nil {
		return
	}
	_, err := t.w.conn.ExecContext(context.Background(), `ROLLBACK`)
	if err != nil && !noTransaction(err) {
		t.w.drop()
	}
}

// noTransaction recognises the one failure of ROLLBACK that leaves a clean connection. SQLite has no code of its own for
// it; a message that we do not recognise costs a new connection, nothing else.
func noTransaction(err error) bool {
	return resultCode(err) == 1 && strings.Contains(err.Error(), "no transaction is active")
}

// drop closes the connection, which rolls back what it had begun. The next transaction opens another.
func (w *writer) drop() {
	for _, s := range w.stmts {
		_ = s.Close()
	}
	if w.conn != nil {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // takes it out of the pool
		_ = w.conn.Close()
	}
	w.conn, w.stmts = nil, nil
}

func (w *writer) close() error {
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// exec runs a statement of a transaction and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	if err := t.w.fault(writing); err != nil {
		return 0, err
	}
	return t.step(query, args...)
}

// write runs a statement that changes something and returns a row.
func (t *tx) write(query string, args []any, dest ...any) error {
	if err := t.w.fault(writing); err != nil {
		return err
	}
	return t.get(query, args, dest...)
}

func (t *tx) step(query string, args ...any) (int64, error) {
	stmt, err := t.prepare(query)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// get reads one row. A missing one is gateway.ErrNotFound.
func (t *tx) get(query string, args []any, dest ...any) error {
	stmt, err := t.prepare(query)
	if err != nil {
		return err
	}
	err = stmt.QueryRowContext(context.Background(), args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return readError(err)
	}
	return err
}

// rows reads all rows of a query.
func rows[T any](t *tx, query string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	stmt, err := t.prepare(query)
	if err != nil {
		return nil, err
	}
	found, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return nil, err
	}
	return collect(found, scan)
}

// prepare keeps statements: there are a few dozen, and no query text is made from data.
func (t *tx) prepare(query string) (statement, error) {
	if s, ok := t.w.stmts[query]; ok {
		return s, nil
	}
	s, err := t.w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return statement{}, err
	}
	t.w.stmts[query] = statement{s}
	return statement{s}, nil
}
