package ratelimit

import (
	"context"
	"time"
)

// Rules are limits that no tier has.
type Rules struct{ Second, Minute, Hour, Day, Burst, PerMinute int64 }

func (r Rules) rules() rules {
	return rules{
		limit: [spans]int64{second: r.Second, minute: r.Minute, hour: r.Hour, day: r.Day}, counted: [spans]bool{true, true, true, true},
		burst: r.Burst, perMinute: r.PerMinute,
	}
}

// TakeRules counts one under rules of the test's own.
func (l *Limiter) TakeRules(ctx context.Context, k Key, r Rules) (Decision, error) {
	x := r.rules()
	return l.take(ctx, k, &x)
}

// Flush writes down what was used, as it is done every second.
func (l *Limiter) Flush(ctx context.Context) error { return l.flush(ctx) }

// Tend tells the store of slices that have ended, as it is done all the time.
func (l *Limiter) Tend(ctx context.Context) error { return l.errands(ctx, l.told(), false) }

// Abandon ends a limiter as a killed process ends: it tells nobody.
func (l *Limiter) Abandon() {
	l.closed.Store(true)
	l.stop()
	l.worker.Wait()
}

// Known returns how many keys are in memory.
func (l *Limiter) Known() int {
	n := 0
	for i := range l.table.shards {
		s := &l.table.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

// Shared reports whether others use the store too.
func (l *Limiter) Shared() bool { return l.o.Shared }

// A State is the engine without a limiter around it.
type State struct{ state }

// Take counts one if the rules allow it, and returns how long to wait if not.
func (st *State) Take(now time.Time, r Rules) (ok bool, wait time.Duration) {
	x, at := r.rules(), now.UnixNano()
	st.settle(at, &x)
	if limit, until := st.blocked(at, &x); limit > 0 {
		return false, time.Duration(until - at)
	}
	st.take(at, at, 1, &x)
	return true, 0
}

// Room returns how many the rules allow at once.
func (st *State) Room(now time.Time, r Rules) int64 {
	x, at := r.rules(), now.UnixNano()
	st.settle(at, &x)
	return st.room(at, &x)
}

// Lend takes up to n for use until an end, and GiveBack gives back what of them was not used.
func (st *State) Lend(now time.Time, n int64, r Rules) (taken int64, end time.Time) {
	x, at := r.rules(), now.UnixNano()
	st.settle(at, &x)
	taken = min(n, st.room(at, &x))
	if taken > 0 {
		st.take(at, at+sliceLife, taken, &x)
	}
	return taken, time.Unix(0, at+sliceLife)
}

// GiveBack settles a slice of n of which some were used, the last at an instant.
func (st *State) GiveBack(now, end time.Time, n, used int64, last time.Time, r Rules) {
	x, at := r.rules(), now.UnixNano()
	st.move(at)
	st.giveBack(at, end.UnixNano(), n, used, last.UnixNano(), &x)
}

// Encode writes the state down.
func (st *State) Encode() []byte { return st.encode() }

// ParseState reads a state that was written down.
func ParseState(b []byte) (*State, error) {
	st, err := parseState(b)
	return &State{st}, err
}

// Parts is into how many parts a window is cut.
const Parts = parts
