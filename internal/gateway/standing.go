package gateway

import (
	"context"
	"errors"

	"github.com/counterfoil/counterfoil"
)

// A Standing is what a call touches: what its tenant can freeze.
type Standing struct {
	Tenant, Principal string
	Upstream          string // the digest of its identity
	UpstreamName      string
	Tool              string
	Fresh             bool // what is known from before does not do: the ledger has said that it is old
}

// errFrozen ends a call under way.
const errFrozen = sentinel("what the call touches was frozen")

// stands refuses a call of a tenant that is not there, or that touches what is frozen, and notes what that rests on: the
// spending is held against it.
func (g *Gateway) stands(ctx context.Context, p *passage, fresh bool) (err error) {
	if g.Stands == nil {
		return nil
	}
	s := p.standing()
	s.Fresh = fresh
	p.marks, err = g.Stands(ctx, s)
	return err
}

func (p *passage) standing() Standing {
	return Standing{
		Tenant: p.call.Tenant, Principal: p.call.Principal, Upstream: p.server.id.String(), UpstreamName: p.call.Upstream.Name(), Tool: p.call.Tool,
	}
}

// frozen reports whether the call is stopped by now. That nobody can say is no reason to stop what was begun rightly.
func (g *Gateway) frozen(ctx context.Context, s Standing) bool {
	_, err := g.Stands(ctx, s)
	return errors.Is(err, counterfoil.CodePolicyDenied)
}

// follow gives a call a context that ends when what it touches is frozen.
func (g *Gateway) follow(ctx context.Context, p *passage) (context.Context, func()) {
	if g.Stands == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	g.underWay[p] = cancel
	g.mu.Unlock()
	return ctx, func() {
		g.mu.Lock()
		delete(g.underWay, p)
		g.mu.Unlock()
		cancel(nil)
	}
}

// stopFrozen ends the calls under way that touch what is frozen by now.
func (g *Gateway) stopFrozen(ctx context.Context) {
	type followed struct {
		s      Standing
		cancel context.CancelCauseFunc
	}
	g.mu.Lock()
	all := make([]followed, 0, len(g.underWay))
	for p, cancel := range g.underWay {
		all = append(all, followed{p.standing(), cancel})
	}
	g.mu.Unlock()
	for _, f := range all {
		if g.frozen(ctx, f.s) {
			f.cancel(errFrozen)
		}
	}
}

// VoidFrozen ends the tenant's pending and approved requests that touch what is frozen, and returns how many there were.
// Whoever freezes calls it; what it misses is stopped when its call comes.
func (g *Gateway) VoidFrozen(ctx context.Context, tenant string) (n int, err error) {
	if g.Stands == nil {
		return 0, nil
	}
	return g.voidThose(ctx, tenant, "what it touches is frozen", func(row RequestRow) (bool, error) {
		row, err := g.Store.Request(ctx, tenant, row.ID) // lists leave the details out
		if err != nil {
			return false, err
		}
		d, err := g.openDetails(row)
		if err != nil {
			return false, err
		}
		return g.frozen(ctx, Standing{
			Tenant: tenant, Principal: row.Requester, Upstream: d.UpstreamID, UpstreamName: row.Upstream, Tool: row.Tool,
		}), nil
	})
}
