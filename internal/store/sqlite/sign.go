package sqlite

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A draft is a use that was signed before its turn came: callers sign at the same time, and nobody waits for a signature while
// the database is locked. It is no decision: take gives it out only where the same would be signed again.
type draft struct {
	clock time.Time
	c     *counterfoil.Consumption // nil when it could not be signed: then the turn says why
}

// soon is how old a draft may be.
const soon = 200 * time.Millisecond

// draft signs a use. That of a standing grant can't be: its count is not known yet.
func (s *Store) draft(ctx context.Context, u *counterfoil.Use) (d draft) {
	if !u.Grant.IsZero() {
		return draft{}
	}
	defer func() {
		if recover() != nil { // a signer that panics does so again when it is its turn, where it is said
			d = draft{}
		}
	}()
	d.clock = s.o.Now()
	c, err := u.Consume(context.WithoutCancel(ctx), d.clock, time.Time{}, s.o.Signer)
	if err != nil {
		return draft{}
	}
	d.c = c
	return d
}

// take returns the use as signed for the instant of its turn, which the head of the log and the clock say. A head that is not
// later than a draft would not have changed it.
func (d draft) take(ctx context.Context, s *Store, u *counterfoil.Use, head time.Time) (*counterfoil.Consumption, error) {
	now := s.o.Now()
	if d.c != nil && !head.After(d.c.At()) && !now.Before(d.clock) && now.Sub(d.clock) <= soon {
		return d.c, nil
	}
	return u.Consume(context.WithoutCancel(ctx), now, head, s.o.Signer)
}
