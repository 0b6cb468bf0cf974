package postgres

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
)

const (
	maxBatch = 128     // how many members share one commit
	maxBytes = 4 << 20 // and how much they write, unless it is one alone
)

// A member is an operation that waits to be committed, alone or with others.
type member struct {
	operation
	wrote bool // judge has added something to the transaction
	err   error
	done  chan struct{} // closed when err is final
}

// An operation is judged in memory against what was read under the locks of its tenant's log, and adds what it writes to the
// writes of all.
type operation interface {
	// want names what must be read. It is asked once for each attempt.
	want(v *view)
	// prepare does what can be done while the server reads.
	prepare(clock time.Time)
	// judge decides. When it writes nothing it leaves the view as it was.
	judge(v *view) (wrote bool, err error)
	// size is roughly how many bytes it writes.
	size() int
}

// group commits the operation together with others. Callers that come together share one commit: the first of them leads,
// which means that it commits for all. A member that is refused takes nothing of the others with it.
//
// An error means that nothing of it was recorded, unless it says otherwise. The context is asked before, and never again:
// what a batch does must not hang on the patience of one caller.
func (s *Store) group(ctx context.Context, op operation) error {
	if err := context.Cause(ctx); err != nil {
		return cancelled(err)
	}
	m := &member{operation: op, done: make(chan struct{})}
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
		s.run(context.WithoutCancel(ctx), batch)
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

// take removes the next batch from the queue.
func (s *Store) take() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes := 0, 0
	for n < len(s.queue) && n < maxBatch && (n == 0 || bytes+s.queue[n].size() <= maxBytes) {
		bytes += s.queue[n].size()
		n++
	}
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

// run commits a batch and sets each member's error.
func (s *Store) run(ctx context.Context, batch []*member) {
	var err error
	for attempt := 0; ; attempt++ {
		var began bool
		if began, err = s.runOnce(ctx, batch); err == nil {
			return
		}
		// A connection that had died while it was idle has not begun anything: that costs a new one, nothing else.
		if attempt == 0 && !began && died(err) {
			continue
		}
		if attempt == retries || !s.again(ctx, err) {
			break
		}
	}
	if len(batch) > 1 && broke(err) {
		// One of them is more than the database takes: each gets its own answer.
		for _, m := range batch {
			s.run(ctx, []*member{m})
		}
		return
	}
	err = writeError(err)
	for _, m := range batch {
		m.err = err
	}
}

// broke reports whether the server refused what one member wrote.
func broke(err error) bool {
	code := sqlState(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54") || code == "P0001"
}

// runOnce returns the error of the whole transaction, of which nothing was recorded; nil when the members have theirs. began
// says that the server has answered.
func (s *Store) runOnce(ctx context.Context, batch []*member) (began bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err := s.fault(beginning); err != nil {
		return true, err
	}
	if err := s.connectWriter(ctx); err != nil {
		return true, err
	}
	v := newView(&tx{s: s, ctx: ctx, conn: s.writer})
	defer func() {
		if s.writer.IsClosed() {
			s.writer = nil
		}
	}()
	for _, m := range batch {
		m.want(v)
	}
	if err := s.ensure(ctx, s.writer, v.tenants()); err != nil {
		v.t.abandon()
		return false, err
	}
	asked := s.o.Now()
	err = v.load(func() {
		for _, m := range batch {
			m.prepare(asked)
		}
	})
	if err != nil {
		v.t.abandon()
		return false, err
	}
	took := false
	for _, m := range batch {
		m.wrote = false
		m.err = v.t.call(func(*tx) (err error) {
			m.wrote, err = m.judge(v)
			return err
		})
		if m.err != nil && !spoken(m.err) { // the database's: the transaction is gone
			v.t.abandon()
			return true, m.err
		}
		took = took || m.wrote
	}
	if !took {
		v.t.abandon()
		return true, nil
	}
	v.write()
	err = v.t.end()
	if err == nil {
		s.keep(v)
		return true, nil
	}
	if counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome {
		return true, err
	}
	for _, m := range batch {
		// A refusal stands whatever became of the commit; an answer that rests on it does not.
		if m.wrote || m.err == nil {
			m.err = err
		}
	}
	return true, nil
}

// connectWriter opens the connection of the lead if there is none.
func (s *Store) connectWriter(ctx context.Context) error {
	if s.writer != nil && !s.writer.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		s.writer = nil
		return connectError(err)
	}
	s.writer = conn
	return nil
}

func (s *Store) dropWriter() {
	if s.writer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.writer.Close(ctx)
	}
	s.writer = nil
}
