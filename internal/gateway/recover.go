package gateway

import (
	"context"
	"errors"
	"log/slog"

	"github.com/counterfoil/counterfoil"
)

// recover settles what dead processes left behind: a started use without a receipt gets one that says that nobody knows.
// An execution that can't be settled, because its record is damaged for instance, stops neither the others nor the gate.
// The error is the store's, which could not list them.
func (g *Gateway) recover(ctx context.Context) error {
	orphans, err := g.Store.Orphans(ctx)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		err := g.recoverOne(ctx, o)
		switch {
		case err == nil:
			g.Logger.LogAttrs(ctx, slog.LevelWarn, "an execution was interrupted; its outcome is unknown", slog.String("execution", o.ID))
		case errors.Is(err, counterfoil.CodeAlreadyUsed): // another process recovered it in this moment
		case ctx.Err() != nil:
			return err
		default:
			g.unrecovered(ctx, o.ID, err)
			continue
		}
		delete(g.stuck, o.ID)
		g.wake()
	}
	return nil
}

// unrecovered says once that an execution has no receipt. Every sweep tries again.
func (g *Gateway) unrecovered(ctx context.Context, id string, err error) {
	if g.stuck[id] {
		return
	}
	g.stuck[id] = true
	g.Logger.LogAttrs(ctx, slog.LevelError, "an interrupted execution can't be settled; it stands without a receipt",
		slog.String("execution", id), slog.String("error", err.Error()), slog.String("cause", causes(err)))
}

func (g *Gateway) recoverOne(ctx context.Context, o Execution) error {
	b, err := parseExecution(o)
	if err != nil {
		return err
	}
	r, e, err := counterfoil.Recover(ctx, b.DryRun, b.Approval, b.Consumption, counterfoil.OutcomeIndeterminate,
		g.Keys.Pseudonyms(), g.Keys.Receipt(), g.Now())
	if err != nil {
		return err
	}
	return g.Store.Settle(ctx, Settling{Receipt: r, Completed: e, Request: o.Request, KeepUntil: b.Approval.ExpiresAt()})
}

// parseExecution reads an execution's documents back. Receipt and operation stay nil where there is none.
func parseExecution(o Execution) (*counterfoil.Bundle, error) {
	policy, err := counterfoil.ParsePolicy(o.Policy)
	if err != nil {
		return nil, err
	}
	b := &counterfoil.Bundle{}
	if b.DryRun, err = counterfoil.ParseDryRun(o.DryRun, policy); err != nil {
		return nil, err
	}
	if b.Approval, err = counterfoil.ParseApproval(o.Approval); err != nil {
		return nil, err
	}
	if b.Consumption, err = counterfoil.ParseConsumption(o.Consumption); err != nil {
		return nil, err
	}
	if o.Receipt != nil {
		if b.Receipt, err = counterfoil.ParseReceipt(o.Receipt); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// later keeps what the store did not take for the sweep, which calls it until it returns nil. If this process dies first,
// recovery in another one settles the use.
func (g *Gateway) later(f func(context.Context) error) {
	g.mu.Lock()
	g.unfinished = append(g.unfinished, f)
	g.mu.Unlock()
}

// finish does what was kept for later, up to the first that still fails: that one is the last to be tried the next time.
func (g *Gateway) finish(ctx context.Context) error {
	g.mu.Lock()
	todo := g.unfinished
	g.unfinished = nil
	g.mu.Unlock()
	for i, f := range todo {
		if err := f(ctx); err != nil {
			g.mu.Lock()
			g.unfinished = append(append(todo[i+1:], g.unfinished...), f)
			g.mu.Unlock()
			return err
		}
		g.wake()
	}
	return nil
}
