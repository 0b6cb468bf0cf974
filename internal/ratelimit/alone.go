package ratelimit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// takeAlone counts in memory: this process is the only one that gives anything out.
func (l *Limiter) takeAlone(ctx context.Context, k Key, r *rules) (Decision, error) {
	// Once what is used can't be written down, a restart would give it back.
	if l.failures.Load() >= maxFailures {
		return Decision{}, unavailable("what is used can't be recorded", nil)
	}
	s := l.table.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(k)
	if e == nil {
		var err error
		if e, err = l.load(ctx, s, k); err != nil {
			return Decision{}, err
		}
	}
	if l.closed.Load() { // what Close writes down has all that was counted before
		return Decision{}, closedError()
	}
	now := l.now()
	e.settle(now, r)
	if limit, until := e.blocked(now, r); limit > 0 {
		return refused(limit, until, now), nil
	}
	e.take(now, now, 1, r)
	e.dirty = true
	return e.allowed(now, r), nil
}

// maxFailures is how many writes in a row may fail before nothing is given out any more.
const maxFailures = 2

// load makes the entry of a key that is not in the table, from what the store has of it. It lets go of the lock meanwhile.
func (l *Limiter) load(ctx context.Context, s *shard, k Key) (*entry, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	for {
		lost := s.lost
		st, err := l.read(ctx, s, k)
		if err != nil {
			return nil, err
		}
		if e := s.find(k); e != nil { // another request was faster
			return e, nil
		}
		if lost != s.lost {
			continue // the key may have been there and have gone meanwhile, with more than was read
		}
		e, err := s.add(k, (*entry).saved)
		if err != nil {
			l.wakeUp() // once what is used is written down there is room
			return nil, err
		}
		e.state = st
		return e, nil
	}
}

// read reads a key's state, without the shard's lock.
func (l *Limiter) read(ctx context.Context, s *shard, k Key) (state, error) {
	s.mu.Unlock()
	defer s.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := l.o.Store.Rate(ctx, k)
	if err != nil {
		return state{}, unavailable("what was used can't be read", err)
	}
	return parseState(b)
}

// saved reports whether nothing is lost with an entry: the store has its state.
func (e *entry) saved() bool { return !e.dirty && !e.saving }

// keep writes down what was used until the limiter is closed.
func (l *Limiter) keep(ctx context.Context) {
	flush, expire := time.NewTicker(flushEvery), time.NewTicker(expireEvery)
	defer flush.Stop()
	defer expire.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
			l.expire(ctx)
			continue
		case <-l.wake:
		case <-flush.C:
		}
		if err := l.flush(ctx); err != nil && ctx.Err() == nil {
			l.o.Logger.LogAttrs(ctx, slog.LevelError, "rates: what was used could not be recorded", slog.Any("error", err))
		}
	}
}

func (l *Limiter) expire(ctx context.Context) {
	if err := l.o.Store.ExpireRates(ctx, l.o.Now()); err != nil && ctx.Err() == nil {
		l.o.Logger.LogAttrs(ctx, slog.LevelWarn, "rates: old rows could not be removed", slog.Any("error", err))
	}
}

// maxBatch bounds the keys of one transaction.
const maxBatch = 128

// flush writes down what was used since the last time.
func (l *Limiter) flush(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var dirty []*entry
	for i := range l.table.shards {
		dirty = l.table.shards[i].collect(dirty)
	}
	slices.SortFunc(dirty, func(a, b *entry) int { return a.key.Compare(b.key) })
	var errs []error
	for batch := range slices.Chunk(dirty, maxBatch) {
		errs = append(errs, l.save(ctx, batch))
	}
	err := errors.Join(errs...)
	if err == nil {
		l.failures.Store(0)
	} else if ctx.Err() == nil {
		l.failures.Add(1)
	}
	return err
}

// collect adds the shard's entries whose state the store does not have.
func (s *shard) collect(to []*entry) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.dirty {
			e.saving = true
			to = append(to, e)
		}
	}
	return to
}

// save writes the states of entries down.
func (l *Limiter) save(ctx context.Context, batch []*entry) error {
	rows, keys := make([]Row, len(batch)), make([]Key, len(batch))
	now := l.now()
	for i, e := range batch {
		s := l.table.shard(e.key)
		s.mu.Lock()
		rows[i] = e.row(now)
		e.dirty = false
		s.mu.Unlock()
		keys[i] = e.key
	}
	err := l.o.Store.UpdateRates(ctx, keys, func([][]byte) ([]Row, error) { return rows, nil })
	for _, e := range batch {
		s := l.table.shard(e.key)
		s.mu.Lock()
		e.saving = false
		e.dirty = e.dirty || err != nil
		s.mu.Unlock()
	}
	return err
}

// row returns what the store keeps of the entry.
func (e *entry) row(now int64) Row { return row(e.key, &e.state, now) }

func row(k Key, st *state, now int64) Row {
	// In milliseconds, rounded up.
	return Row{Key: k, State: st.encode(), Until: time.UnixMilli(st.until(now)/1e6 + 1).UTC()}
}
