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

// A queue lets those who come together share one commit. One goroutine commits for all, always the same: the driver needs a
// deep stack, which a new one would have to grow each time.
type queue struct {
	w *writer

	mu      sync.Mutex
	waiting []*member
	closed  bool
	wake    chan struct{} // says that somebody may wait
	runner  sync.WaitGroup
}

// start begins to commit, until close.
func (q *queue) start(w *writer) {
	q.w, q.wake = w, make(chan struct{}, 1)
	q.runner.Go(q.run)
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
	select {
	case q.wake <- struct{}{}:
	default: // it is said already
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

// run commits whenever anybody waits, until the queue is closed.
func (q *queue) run() {
	for range q.wake {
		// Those who are about to queue get the chance to come along: a lone caller loses nothing by it.
		for range 3 {
			runtime.Gosched()
		}
		for batch := q.take(); len(batch) > 0; batch = q.take() {
			q.w.run(batch)
			for _, m := range batch {
				close(m.done)
			}
			for range 3 {
				runtime.Gosched()
			}
		}
	}
}

// take removes the next batch.
func (q *queue) take() []*member {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxBatch)
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
	if !already && q.wake != nil {
		close(q.wake)
	}
	q.mu.Unlock()
	for _, m := range left {
		m.err = closedError()
		close(m.done)
	}
	q.runner.Wait()
	return !already
}
