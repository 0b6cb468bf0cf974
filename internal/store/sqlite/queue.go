package sqlite

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/counterfoil/counterfoil"
)

// maxBatch bounds how many members share one commit.
const maxBatch = 128

// A member is one transaction that waits to be committed, alone or with others.
type member struct {
	f    func(*tx) error // may be called again, when the first time could not be committed
	err  error
	done chan struct{} // closed when err is final
}

// A queue lets those who come together share one commit. While anybody waits, one goroutine commits for all; a caller who
// comes alone starts it and hands over to it at once.
type queue struct {
	w *writer

	mu      sync.Mutex
	waiting []*member
	running bool
	closed  bool
	runner  sync.WaitGroup
}

// do runs f in a transaction and makes it durable. An error of f means that nothing of it was recorded. A batch that has
// begun does not hang on the patience of one caller: who goes away meanwhile does not know the outcome. After an error nothing
// may be read that f sets: it may be running still.
func (q *queue) do(ctx context.Context, f func(*tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return fail(counterfoil.CodeUnavailable, "cancelled before anything was recorded", err)
	}
	m := &member{f: f, done: make(chan struct{})}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return closedError()
	}
	q.waiting = append(q.waiting, m)
	if !q.running {
		q.running = true
		q.runner.Go(q.run)
	}
	q.mu.Unlock()

	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return q.leave(ctx, m)
	}
}

// leave takes a member back, unless it is being committed.
func (q *queue) leave(ctx context.Context, m *member) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, m); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return fail(counterfoil.CodeUnavailable, "cancelled before anything was recorded", context.Cause(ctx))
	}
	select {
	case <-m.done:
		return m.err
	default:
		return fail(counterfoil.CodeUnknownOutcome, "cancelled during the commit; whether it happened is not known", context.Cause(ctx))
	}
}

func closedError() error { return fail(counterfoil.CodeUnavailable, "the store is closed", nil) }

// run commits until nobody waits.
func (q *queue) run() {
	for {
		// Those who are about to queue get the chance to come along: a lone caller loses nothing by it.
		for range 3 {
			runtime.Gosched()
		}
		batch := q.take()
		if batch == nil {
			return
		}
		q.w.run(batch)
		for _, m := range batch {
			close(m.done)
		}
	}
}

// take removes the next batch. When there is none, nil, the runner has ended with that.
func (q *queue) take() []*member {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxBatch)
	if n == 0 {
		q.running = false
		return nil
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// close answers those who still wait, lets the batch under way end, and reports whether this was the first time.
func (q *queue) close() bool {
	q.mu.Lock()
	already := q.closed
	q.closed = true
	left := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, m := range left {
		m.err = closedError()
		close(m.done)
	}
	q.runner.Wait()
	return !already
}
