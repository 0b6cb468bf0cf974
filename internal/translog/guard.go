package translog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/counterfoil/counterfoil"
)

// Guard compares the database with the checkpoints that are kept outside and with what this process has seen. It is to be
// asked before anything is appended: it fails with CodeIntegrityFailed, and names the sizes, for a log that is shorter than
// its checkpoint or not its continuation, for a log that is gone, and for one whose checkpoint outside is gone.
func (l *Logs) Guard(ctx context.Context) error {
	doubts, faults := l.guard(ctx)
	for _, d := range doubts {
		faults = append(faults, d.Why)
	}
	return errors.Join(faults...)
}

// A Doubt is a log that is not what the checkpoint outside says.
type Doubt struct {
	Tenant string // "" for a log that the database does not have
	Origin string
	Has    int64 // events in the database
	Should int64 // events by the checkpoint outside, 0 for none
	Why    error

	at *counterfoil.Checkpoint // to be kept by who accepts it
}

// guard returns what an operator may accept, and apart from that the faults that nobody can accept.
func (l *Logs) guard(ctx context.Context) (doubts []Doubt, faults []error) {
	var known []string
	faults = l.each(ctx, func(ctx context.Context, s State) error {
		origin, err := counterfoil.LogOrigin(l.c.Audience, s.Tenant)
		if err != nil {
			return err
		}
		known = append(known, origin)
		d := Doubt{Tenant: s.Tenant, Origin: origin, Has: s.Size}
		if d.at, err = l.published(ctx, &s); err != nil {
			return err // the database contradicts itself, or this process's memory
		}
		d.Should, d.Why = l.compare(ctx, s, origin)
		if !errors.Is(d.Why, counterfoil.CodeIntegrityFailed) {
			return d.Why
		}
		doubts = append(doubts, d)
		return nil
	})
	if l.c.Keep == nil || len(faults) > 0 {
		return doubts, faults
	}
	missing, err := l.c.Keep.strangers(known)
	if err != nil {
		return doubts, append(faults, err)
	}
	for _, c := range missing {
		doubts = append(doubts, Doubt{Origin: c.Origin(), Should: c.Size(), Why: &counterfoil.Error{
			Code: counterfoil.CodeIntegrityFailed,
			Msg: fmt.Sprintf("the log %s is missing: the database has 0 events of it, and the last checkpoint kept outside has %d",
				c.Origin(), c.Size()),
		}})
	}
	return doubts, faults
}

// compare holds a log against the checkpoint that is kept outside, and returns its size.
func (l *Logs) compare(ctx context.Context, s State, origin string) (int64, error) {
	if l.c.Keep == nil {
		return 0, nil
	}
	c, err := l.c.Keep.Checkpoint(origin)
	switch {
	case err != nil:
		return 0, err
	case c == nil && s.Published == 0:
		return 0, nil // it has never had one: one is kept before it is published
	case c == nil:
		return 0, broken(s.Tenant, fmt.Sprintf("it has a checkpoint of %d events, and none is kept outside", s.Published))
	case s.Size < c.Size():
		return c.Size(), shortened(s.Tenant, s.Size, c.Size(), "the last checkpoint kept outside")
	}
	if err := l.verify(ctx, s.Tenant, c); err != nil {
		return c.Size(), err
	}
	root, err := l.rootAt(ctx, s, c.Size())
	if err != nil {
		return c.Size(), err
	}
	if root != c.Root() {
		return c.Size(), broken(s.Tenant, fmt.Sprintf(
			"it is forked or edited: its first %d of %d events are not those of the checkpoint kept outside", c.Size(), s.Size))
	}
	return c.Size(), nil
}

// rootAt returns the root of the first events of a log whose published checkpoint is verified.
func (l *Logs) rootAt(ctx context.Context, s State, size int64) (Hash, error) {
	c := l.lastSeen(s.Tenant)
	if c != nil && size <= c.Size() {
		return (&tree{ctx: ctx, tiles: l.c.Store, tenant: s.Tenant, size: c.Size(), root: c.Root()}).rootAt(size)
	}
	e, err := &edge{}, error(nil)
	if c != nil {
		if e, err = l.edgeOf(ctx, s.Tenant, c); err != nil {
			return Hash{}, err
		}
	}
	if _, err := l.grow(ctx, s.Tenant, e, size); err != nil {
		return Hash{}, err
	}
	return e.root()
}

// Accept makes what the database has the truth where Guard doubts it: after a restore, by the operator's explicit will. It
// moves the checkpoints outside that say otherwise aside, keeps those of the database in their place, and returns what it
// has accepted. Auditors and witnesses that have seen the longer log will still say so.
//
// It fails for a database that contradicts itself: that can't be accepted.
func (l *Logs) Accept(ctx context.Context) ([]Doubt, error) {
	doubts, faults := l.guard(ctx)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	for _, d := range doubts {
		if err := l.c.Keep.replace(ctx, d.Origin, d.at); err != nil {
			return nil, err
		}
		l.c.Logger.LogAttrs(ctx, slog.LevelWarn, "a log was accepted as it is",
			slog.String("tenant", d.Tenant), slog.String("log", d.Origin), slog.Int64("events", d.Has), slog.Int64("should", d.Should))
	}
	return doubts, l.Guard(ctx)
}
