package translog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

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

	at     *counterfoil.Checkpoint // to be kept by who accepts it
	unsign bool                    // its published checkpoint is by a compromised key
}

// guard returns what an operator may accept, and apart from that the faults that nobody can accept. It reads what is kept
// before the database: other processes may append meanwhile, and keep what they publish.
func (l *Logs) guard(ctx context.Context) (doubts []Doubt, faults []error) {
	kept := map[string]keptFile{}
	if l.c.Keep != nil {
		var err error
		if kept, err = l.c.Keep.all(); err != nil {
			return nil, []error{err}
		}
	}
	faults = l.each(ctx, func(ctx context.Context, s State) error {
		d, err := l.doubt(ctx, s, kept)
		if errors.Is(d.Why, counterfoil.CodeIntegrityFailed) {
			doubts = append(doubts, d)
		} else if err == nil {
			err = d.Why
		}
		return err
	})
	if len(faults) > 0 {
		return doubts, faults
	}
	for _, file := range slices.Sorted(maps.Keys(kept)) { // of logs that the database does not have
		f := kept[file]
		if f.err != nil {
			return doubts, []error{f.err}
		}
		doubts = append(doubts, Doubt{Origin: f.c.Origin(), Should: f.c.Size(), Why: &counterfoil.Error{
			Code: counterfoil.CodeIntegrityFailed,
			Msg: fmt.Sprintf("the log %s is missing: the database has 0 events of it, and the last checkpoint kept outside has %d",
				f.c.Origin(), f.c.Size()),
		}})
	}
	return doubts, nil
}

// doubt compares a log with what is kept of it, and takes that out of the map. An error is a database that contradicts
// itself, or this process's memory.
func (l *Logs) doubt(ctx context.Context, s State, kept map[string]keptFile) (Doubt, error) {
	d := Doubt{Tenant: s.Tenant, Has: s.Size}
	var err error
	if d.Origin, err = counterfoil.LogOrigin(l.c.Audience, s.Tenant); err != nil {
		return d, err
	}
	var f keptFile
	if l.c.Keep != nil {
		file := l.c.Keep.file(d.Origin)
		var known bool
		f, known = kept[file]
		delete(kept, file)
		if !known && s.Published > 0 { // perhaps it is new
			f.c, f.err = l.c.Keep.Checkpoint(d.Origin)
			if s, err = l.c.Store.Log(ctx, s.Tenant); err != nil {
				return d, err
			}
		}
	}
	if d.at, err = l.published(ctx, &s); errors.Is(err, counterfoil.CodeRevoked) {
		d.Why, d.unsign = err, true
		return d, nil
	} else if err != nil || l.c.Keep == nil {
		return d, err
	}
	if f.c != nil {
		d.Should = f.c.Size()
	}
	if d.Why = l.c.Keep.belongs(f, d.Origin); f.c != nil && d.Why == nil {
		d.Why = l.compare(ctx, s, f.c)
	} else if d.Why == nil && s.Published > 0 { // one is kept before it is published
		d.Why = broken(s.Tenant, fmt.Sprintf("it has a checkpoint of %d events, and none is kept outside", s.Published))
	}
	return d, nil
}

// compare holds a log against the checkpoint that is kept outside.
func (l *Logs) compare(ctx context.Context, s State, c *counterfoil.Checkpoint) error {
	if s.Size < c.Size() {
		return shortened(s.Tenant, s.Size, c.Size(), "the last checkpoint kept outside")
	}
	if err := l.verify(ctx, s.Tenant, c); err != nil {
		return err
	}
	root, err := l.rootAt(ctx, s, c.Size())
	if err != nil {
		return err
	}
	if root != c.Root() {
		return broken(s.Tenant, fmt.Sprintf(
			"it is forked or edited: its first %d of %d events are not those of the checkpoint kept outside", c.Size(), s.Size))
	}
	return nil
}

// rootAt returns the root of the first events of a log whose published checkpoint is verified.
func (l *Logs) rootAt(ctx context.Context, s State, size int64) (Hash, error) {
	c := l.lastSeen(s.Tenant)
	if c != nil && size <= c.Size() {
		return l.tree(ctx, s.Tenant, c).rootAt(size)
	}
	e := &edge{}
	if c != nil {
		var err error
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
// A log whose checkpoint was signed with a key that is revoked as compromised by now is signed anew, if it has the events
// of that checkpoint. It fails for a database that contradicts itself: that can't be accepted.
func (l *Logs) Accept(ctx context.Context) ([]Doubt, error) {
	doubts, faults := l.guard(ctx)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	for _, d := range doubts {
		var err error
		if d.unsign {
			if d.at, err = l.signAnew(ctx, d.Tenant); err != nil {
				return nil, err
			}
		}
		if l.c.Keep != nil {
			if err := l.c.Keep.replace(ctx, d.Origin, d.at); err != nil {
				return nil, err
			}
		}
		l.c.Logger.LogAttrs(ctx, slog.LevelWarn, "a log was accepted as it is",
			slog.String("tenant", d.Tenant), slog.String("log", d.Origin), slog.Int64("events", d.Has), slog.Int64("should", d.Should))
	}
	return doubts, l.Guard(ctx)
}

// signAnew has the present key sign the published checkpoint of a log, after the root of all events was compared with it.
func (l *Logs) signAnew(ctx context.Context, tenant string) (*counterfoil.Checkpoint, error) {
	s, err := l.c.Store.Log(ctx, tenant)
	if err != nil {
		return nil, err
	}
	old, err := counterfoil.ParseCheckpoint(s.Note)
	if err != nil {
		return nil, brokenBy(tenant, "its checkpoint is none", err)
	}
	e := &edge{}
	if _, err := l.grow(ctx, tenant, e, s.Published); err != nil {
		return nil, err
	}
	if root, err := e.root(); err != nil || root != old.Root() || old.Size() != s.Published {
		return nil, brokenBy(tenant, "its events are not those of its checkpoint", err)
	}
	c, err := counterfoil.SignCheckpoint(ctx, l.c.Audience, tenant, old.Size(), old.Root(), l.c.Signer)
	if err != nil {
		return nil, err
	}
	return c, l.c.Store.Publish(ctx, Publication{Tenant: tenant, Size: c.Size(), Root: c.Root(), Note: c.Note()})
}
