package sqlite

import (
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
)

// A turn lets the processes of one database write in turns. SQLite's own lock is what excludes them; who waits for that
// sleeps longer and longer, and a busy process takes it again in every such sleep. Here who waits says so, and looks often;
// who wrote last then steps back for a moment.
type turn struct {
	writes, waits *filelock.Latch
	last          bool // this process wrote last
}

const (
	turnPoll = 300 * time.Microsecond
	turnRest = 3 * turnPoll
	turnWait = 5 * time.Second // as long as busy_timeout
)

func newTurn(path string) (*turn, error) {
	writes, err := filelock.NewLatch(path + ".turn")
	if err == nil {
		var waits *filelock.Latch
		if waits, err = filelock.NewLatch(path + ".wait"); err == nil {
			return &turn{writes: writes, waits: waits}, nil
		}
		err = errors.Join(err, writes.Close())
	}
	return nil, fail(counterfoil.CodeUnavailable, "the locks beside the database can't be opened", err)
}

// take waits for the turn. A lock that fails is no reason not to write: SQLite has its own.
func (l *turn) take() error {
	if l.last && errors.Is(l.waits.Try(), filelock.ErrHeld) {
		pause(turnRest)
	} else {
		_ = l.waits.Release()
	}
	l.last = false
	err := l.writes.Try()
	if !errors.Is(err, filelock.ErrHeld) {
		return nil
	}
	defer func() { _ = l.waits.Release() }()
	for range int(turnWait / turnPoll) {
		_ = l.waits.Try() // one of those who wait says it for all
		pause(turnPoll)
		if err = l.writes.Try(); !errors.Is(err, filelock.ErrHeld) {
			return nil
		}
	}
	return fail(counterfoil.CodeUnavailable, "the database is busy; nothing was recorded", err)
}

func pause(d time.Duration) { <-time.NewTimer(d).C }

// give ends the turn.
func (l *turn) give() {
	l.last = true
	_ = l.writes.Release()
}

func (l *turn) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.writes.Close(), l.waits.Close())
}
