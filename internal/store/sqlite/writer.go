package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// A writer is the one connection that writes. One goroutine at a time uses it: the queue's.
type writer struct {
	connector connector
	files     *files
	turn      *turn
	fault     func(stage) error

	conn  driver.Conn // nil until it is needed, and after a failure
	stmts map[string]*statement
	memory
}

func newWriter(path string, fault func(stage) error) (*writer, error) {
	if fault == nil {
		fault = func(stage) error { return nil }
	}
	turn, err := newTurn(path)
	if err != nil {
		return nil, err
	}
	return &writer{connector: newConnector(path, readWrite), files: &files{path: path}, turn: turn, fault: fault, memory: newMemory()}, nil
}

// A tx is a transaction under way.
type tx struct {
	w       *writer
	changes changes
	spoiled bool // the member has changed something, or a statement failed: it can't just be left out
}

// run commits a batch and sets each member's error. Members judge before they write, so that those who are refused leave
// nothing to take back. The rare batch in which one does is run again, each member behind a savepoint of its own.
func (w *writer) run(batch []*member) {
	if err := w.turn.take(); err != nil {
		settle(batch, err)
		return
	}
	defer w.turn.give()
	if w.attempt(batch, len(batch) == 1) {
		return
	}
	w.attempt(batch, true)
}

// attempt commits a batch. It returns false when a member can't be separated from the others, and nothing was recorded.
func (w *writer) attempt(batch []*member, last bool) bool {
	for _, m := range batch {
		m.err = nil
	}
	t := &tx{w: w, changes: newChanges()}
	if err := t.begin(); err != nil {
		settle(batch, writeError(err))
		return true
	}
	took := 0
	for _, m := range batch {
		var broken error
		if last && len(batch) > 1 {
			m.err, broken = t.fence(m.f)
		} else {
			t.spoiled = false
			m.err = writeError(t.call(m.f))
			if m.err != nil && t.spoiled && !last {
				t.abandon()
				return false
			}
		}
		if broken != nil {
			// The transaction is gone, and with it what the members before had done.
			t.abandon()
			for _, b := range batch {
				b.err = nil
			}
			settle(batch, writeError(broken))
			return true
		}
		if m.err == nil {
			took++
		}
	}
	if took == 0 {
		t.abandon()
		return true
	}
	settle(batch, t.end())
	return true
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
	w := t.w
	if err := w.fault(beginning); err != nil {
		return err
	}
	fresh := w.conn == nil
	if fresh {
		conn, err := w.connector.Connect(context.Background())
		if err != nil {
			return err
		}
		w.conn, w.stmts = conn, map[string]*statement{}
		w.forget()
	}
	if _, err := t.step(`BEGIN IMMEDIATE`); err != nil {
		t.abandon()
		return err
	}
	err := w.files.check(fresh)
	if err == nil {
		var version int64
		if err = t.get(`PRAGMA data_version`, nil, &version); err == nil {
			w.at(version)
		}
	}
	if err != nil {
		t.abandon()
	}
	return err
}

// fence runs one member behind a savepoint. broken says that the whole transaction is lost.
func (t *tx) fence(f func(*tx) error) (err, broken error) {
	if _, err := t.step(`SAVEPOINT member`); err != nil {
		return nil, err
	}
	before := t.changes.clone()
	err = t.call(f)
	if err != nil {
		t.changes = before
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
			t.spoiled = true
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
		t.w.forget()
		return commitError(err)
	}
	t.w.keep(t.changes)
	err := t.w.fault(ended)
	if err == nil {
		err = t.w.files.check(false) // what was written to files that were moved meanwhile is lost
	}
	if err != nil {
		return commitError(err)
	}
	return nil
}

// abandon ends the transaction, if there still is one. A connection that can't even do that is given up.
func (t *tx) abandon() {
	if t.w.conn == nil {
		return
	}
	if _, err := t.step(`ROLLBACK`); err != nil && !noTransaction(err) {
		t.w.drop()
	}
}

// noTransaction recognises the one failure of ROLLBACK that leaves a clean connection. SQLite has no code of its own for
// it; a message that we do not recognise costs a new connection, nothing else.
func noTransaction(err error) bool {
	return resultCode(err) == 1 && strings.Contains(err.Error(), "no transaction is active")
}

// drop closes the connection, which rolls back what it had begun. The next transaction opens another.
func (w *writer) drop() { _ = w.disconnect() }

func (w *writer) close() error { return errors.Join(w.disconnect(), w.turn.close()) }

func (w *writer) disconnect() error {
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.stmt.Close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	w.conn, w.stmts = nil, nil
	return errors.Join(errs...)
}
