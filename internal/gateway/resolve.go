package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
)

const (
	resolveFirst = 50 * time.Millisecond // the pause after the first look
	resolveMost  = time.Second
)

// resolve deals with a commit of which nobody knows whether it happened. A use that turns out to be ours is settled as
// cancelled and never executed (INV-4). The store may be coming back only now: it is asked for a while, and what stays
// open is the sweep's to end.
func (g *Gateway) resolve(ctx context.Context, p *passage, u counterfoil.Use, cause error) error {
	x := &inquiry{g: g, p: p, use: u}
	err := x.insist(ctx)
	if err != nil {
		g.later(x.ask)
	}
	switch {
	case x.found == 0:
		return &Refusal{
			Reason: OutcomeUnknown, Msg: "the ledger can't say whether the approval was used; nothing was executed",
			Approval: p.request, Err: errors.Join(cause, err),
		}
	case x.found == UseAbsent:
		return refuse(Internal, "the ledger did not take the use; nothing was executed, and the call can be repeated", cause)
	case x.found == UseMine:
		return &Refusal{
			Reason: ApprovalVoid, Msg: "the ledger answered too late; the approval is used up and nothing was executed",
			Approval: p.request, Receipt: u.ExecutionID, Err: errors.Join(cause, err),
		}
	case p.request != "":
		return g.share(ctx, p) // another caller of the same request was first
	default:
		return refuse(DuplicateEffect, "the approval was used before", cause)
	}
}

// An inquiry finds out what became of a use, and settles it if it is ours.
type inquiry struct {
	g        *Gateway
	p        *passage
	use      counterfoil.Use
	found    Resolution
	settling *Settling // made once: the store takes the same receipt again
}

// insist asks until there is an answer or the time for it is up, whether or not the caller still waits.
func (x *inquiry) insist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.g.ResolveFor)
	defer cancel()
	for pause := resolveFirst; ; pause = min(2*pause, resolveMost) {
		err := x.ask(ctx)
		if err == nil {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// ask returns nil once the matter is closed.
func (x *inquiry) ask(ctx context.Context) error {
	if x.found == 0 {
		found, c, err := x.g.Store.Resolve(ctx, x.use)
		if err != nil {
			return err
		}
		x.found = found
		if found == UseMine {
			if err := x.cancelled(ctx, c); err != nil {
				x.found = 0
				return err
			}
		}
	}
	if x.settling == nil {
		return nil
	}
	err := x.g.Store.Settle(ctx, *x.settling)
	if errors.Is(err, counterfoil.CodeAlreadyUsed) {
		return nil // it has a receipt, which can't say more than that nobody knows
	}
	return err
}

func (x *inquiry) cancelled(ctx context.Context, c *counterfoil.Consumption) error {
	g, p := x.g, x.p
	r, e, err := counterfoil.Recover(ctx, p.dry, p.appr, c, counterfoil.OutcomeCancelled, g.Keys.Pseudonyms(), g.Keys.Receipt(), g.Now())
	if err != nil {
		return err
	}
	x.settling = &Settling{Receipt: r, Completed: e, Request: p.request}
	return nil
}
