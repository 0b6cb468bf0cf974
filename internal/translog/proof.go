package translog

import (
	"context"
	"fmt"
	"slices"

	"github.com/counterfoil/counterfoil"
)

// ErrNotLogged says that no checkpoint covers the event yet, or that there is no such event.
const ErrNotLogged = sentinel("no checkpoint covers this event yet")

// ErrDropped says that retention has dropped the event: the log has its hash alone.
const ErrDropped = sentinel("the event was dropped by retention")

// Latest returns the newest published checkpoint of a tenant's log, verified, and nil for a log that has none.
func (l *Logs) Latest(ctx context.Context, tenant string) (*counterfoil.Checkpoint, error) {
	s, err := l.c.Store.Log(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s.Tenant = tenant
	return l.published(ctx, &s)
}

// A Mention names an event: the first of a phase about an execution, a request or a decision.
type Mention struct {
	About string
	Phase counterfoil.Phase
}

// Prove proves that the log has these events, under one checkpoint: the newest, or the newest that a witness has signed if
// that covers them. It fails with ErrNotLogged while the newest does not.
func (l *Logs) Prove(ctx context.Context, tenant string, events ...Mention) (*counterfoil.Checkpoint, []counterfoil.Inclusion, error) {
	places := make([]int64, len(events))
	for i, e := range events {
		var err error
		if places[i], err = l.c.Store.Find(ctx, tenant, e.About, e.Phase); err != nil {
			return nil, nil, err
		}
		if places[i] < 1 {
			return nil, nil, ErrNotLogged
		}
	}
	if len(places) == 0 {
		return nil, nil, invalid("a proof is of at least one event")
	}
	c, err := l.covering(ctx, tenant, slices.Max(places))
	if err != nil {
		return nil, nil, err
	}
	out := make([]counterfoil.Inclusion, len(places))
	for i, sequence := range places {
		if out[i], err = l.include(ctx, tenant, c, sequence); err != nil {
			return nil, nil, err
		}
	}
	return c, out, nil
}

// covering returns the checkpoint to prove an event under.
func (l *Logs) covering(ctx context.Context, tenant string, sequence int64) (*counterfoil.Checkpoint, error) {
	c, err := l.Latest(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if c == nil || c.Size() < sequence {
		return nil, ErrNotLogged
	}
	l.mu.Lock()
	witnessed := l.witnessed[tenant]
	l.mu.Unlock()
	if witnessed == nil || witnessed.Size() < sequence {
		return c, nil
	}
	// Published trees only grow, so that the tiles of the newer one have those of the older.
	if cosigned, err := c.Cosignatures(l.c.Ring, tenant); err != nil || len(cosigned) > 0 {
		return c, err
	}
	return witnessed, nil
}

// include proves one event under a checkpoint that covers it, and checks the proof.
func (l *Logs) include(ctx context.Context, tenant string, c *counterfoil.Checkpoint, sequence int64) (counterfoil.Inclusion, error) {
	var none counterfoil.Inclusion
	events, err := l.c.Store.Events(ctx, tenant, sequence-1, 1)
	if err != nil {
		return none, err
	}
	if len(events) != 1 || events[0].Sequence != sequence {
		return none, broken(tenant, fmt.Sprintf("the event %d is missing", sequence))
	}
	if events[0].Body == nil {
		return none, ErrDropped
	}
	path, err := l.tree(ctx, tenant, c).prove(sequence - 1)
	if err != nil {
		return none, err
	}
	i := counterfoil.Inclusion{Event: events[0].Body, Index: sequence - 1, Path: path}
	if err := i.Verify(c); err != nil {
		return none, brokenBy(tenant, fmt.Sprintf("the event %d is not the one that was published", sequence), err)
	}
	return i, nil
}

// Consistency proves that the newest checkpoint of a log, which it returns, has all leaves of the one of a smaller size.
func (l *Logs) Consistency(ctx context.Context, tenant string, older int64) (*counterfoil.Checkpoint, [][32]byte, error) {
	c, err := l.Latest(ctx, tenant)
	if err != nil {
		return nil, nil, err
	}
	if c == nil || older < 1 || older > c.Size() {
		return nil, nil, invalid("the log never had that size under a checkpoint")
	}
	path, err := l.tree(ctx, tenant, c).proveFrom(older)
	return c, path, err
}

func (l *Logs) tree(ctx context.Context, tenant string, c *counterfoil.Checkpoint) *tree {
	return &tree{ctx: ctx, tiles: l.c.Store, tenant: tenant, size: c.Size(), root: c.Root()}
}
