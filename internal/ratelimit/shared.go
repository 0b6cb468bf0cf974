package ratelimit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	// tellEvery is how often the store is told of slices that have ended.
	tellEvery = 100 * time.Millisecond
	// downLife is how long nobody asks after a failure of the store, in nanoseconds.
	downLife = 250e6
)

// takeShared counts against the slice of this process. Only when there is none the store is asked.
func (l *Limiter) takeShared(ctx context.Context, k Key, r *rules) (Decision, error) {
	s := l.table.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.closed.Load() {
		return Decision{}, closedError()
	}
	e := s.find(k)
	if e == nil {
		if err := k.Check(); err != nil {
			return Decision{}, err
		}
		var err error
		if e, err = s.add(k, l.mayGo); err != nil {
			return Decision{}, err
		}
		e.slice = &slice{want: 1}
	}
	if d, ok := e.slice.take(l.now(), r); ok {
		if d.Unlimited && e.slice.extra == 1 {
			l.tell(e)
		}
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := l.ask(ctx, s, e, r); err != nil {
			return Decision{}, err
		}
		if d, ok := e.slice.take(l.now(), r); ok {
			return d, nil
		}
	}
}

// mayGo reports whether nobody waits for an entry, and lets it go. What is left of its slice is lost.
func (l *Limiter) mayGo(e *entry) bool {
	if e.slice.asking != nil || e.slice.waiting > 0 || e.slice.extra > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, e)
	return true
}

// ask waits for the store's answer, without the shard's lock.
func (l *Limiter) ask(ctx context.Context, s *shard, e *entry, r *rules) error {
	c := e.slice
	if c.asking == nil {
		if now, until := l.now(), l.down.Load(); now < until && now >= until-downLife {
			return unavailable("the store did not answer a moment ago", nil)
		}
		if err := l.enqueue(e); err != nil {
			return err
		}
		c.asking, c.asked = &answer{done: make(chan struct{})}, *r
	}
	a := c.asking
	c.waiting++
	s.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	c.waiting--
	select {
	case <-a.done:
		return a.err
	default:
		return unavailable("the store has not answered in time", context.Cause(ctx))
	}
}

func (l *Limiter) enqueue(e *entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() { // who has the lock after Close sees it
		return closedError()
	}
	l.queue = append(l.queue, e)
	l.wakeUp()
	return nil
}

func closedError() error { return unavailable("the limiter is closed", nil) }

// tell remembers that the store has to hear of an entry.
func (l *Limiter) tell(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[e] = struct{}{}
}

// heed logs that the store fails, once until it answers again, and lets nobody ask for a moment.
func (l *Limiter) heed(ctx context.Context, err error) {
	if err == nil {
		l.failures.Store(0)
		return
	}
	l.down.Store(l.now() + downLife)
	if l.failures.Add(1) == 1 && ctx.Err() == nil {
		l.o.Logger.LogAttrs(ctx, slog.LevelError, "rates: the store can't be asked", slog.Any("error", err))
	}
}

// lease speaks with the store until the limiter is closed.
func (l *Limiter) lease(ctx context.Context) {
	tell, expire := time.NewTicker(tellEvery), time.NewTicker(expireEvery)
	defer tell.Stop()
	defer expire.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			_ = l.errands(ctx, l.queued(), false) // those who wait are told
		case <-tell.C:
			_ = l.errands(ctx, l.told(), false) // what can't be told is lost
		case <-expire.C:
			l.expire(ctx)
		}
	}
}

// queued takes those that want an answer.
func (l *Limiter) queued() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.queue
	l.queue = nil
	return all
}

// told returns the entries of which the store may have to hear.
func (l *Limiter) told() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.open))
}

// giveBack tells the store everything, at the end, and answers those who still wait.
func (l *Limiter) giveBack(ctx context.Context) error {
	l.answer(l.queued(), closedError())
	return l.errands(ctx, l.told(), true)
}

func (l *Limiter) answer(entries []*entry, err error) {
	for _, e := range entries {
		s := l.table.shard(e.key)
		s.mu.Lock()
		e.slice.answer(err)
		s.mu.Unlock()
	}
}

func (c *slice) answer(err error) {
	if c.asking != nil {
		c.asking.err = err
		close(c.asking.done)
		c.asking = nil
	}
}

// errands does what the entries have to tell and to ask. all gives back slices that still run, too.
func (l *Limiter) errands(ctx context.Context, entries []*entry, all bool) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	slices.SortFunc(entries, func(a, b *entry) int { return a.key.Compare(b.key) })
	var errs []error
	for batch := range slices.Chunk(entries, maxBatch) {
		errs = append(errs, l.batch(ctx, batch, all))
	}
	return errors.Join(errs...)
}

func (l *Limiter) batch(ctx context.Context, entries []*entry, all bool) error {
	now := l.now()
	var keys []Key
	var xs []errand
	for _, e := range entries {
		if x, ok := l.leave(e, now, all); ok {
			keys, xs = append(keys, e.key), append(xs, x)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := l.o.Store.UpdateRates(wait, keys, func(states [][]byte) ([]Row, error) {
		rows := make([]Row, len(keys))
		for i, b := range states {
			st, err := parseState(b)
			if xs[i].err = err; err != nil {
				continue // nobody else's errand fails for it
			}
			xs[i].serve(&st, now)
			rows[i] = row(keys[i], &st, now)
		}
		return rows, nil
	})
	l.heed(ctx, err)
	for i := range xs {
		if err != nil {
			xs[i].err = err
		}
		l.come(&xs[i], now)
	}
	return err
}

// leave takes an entry's errand out of it, if it has one.
func (l *Limiter) leave(e *entry, now int64, all bool) (errand, bool) {
	s := l.table.shard(e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Who has just been given something and hasn't woken up yet keeps it.
	if e.slice.asking == nil && (!all || e.slice.waiting > 0) && !e.slice.done(now) {
		return errand{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, e)
	return e.slice.errand(e, now), true
}

// come brings the answer to an entry and to those who wait for it.
func (l *Limiter) come(x *errand, now int64) {
	e := x.e
	s := l.table.shard(e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.slice.hear(x, now)
	if e.slice.spare > 0 || e.slice.extra > 0 {
		l.tell(e)
	}
	if x.waiting > 0 {
		e.slice.answer(answered(x.err))
	}
}

func answered(err error) error {
	if err == nil {
		return nil
	}
	return unavailable("the store can't be asked", err)
}
