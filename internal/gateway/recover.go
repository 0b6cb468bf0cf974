package gateway

import (
	"context"
	"errors"
	"log/slog"

	"github.com/counterfoil/counterfoil"
)

// recover settles what dead processes left behind: a started use without a receipt gets one that says that nobody knows.
func (g *Gateway) recover(ctx context.Context) error {
	orphans, err := g.Store.Orphans(ctx)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		if err := g.recoverOne(ctx, o); err != nil {
			return err
		}
		g.Logger.LogAttrs(ctx, slog.LevelWarn, "an execution was interrupted; its outcome is unknown", slog.String("execution", o.ID))
	}
	if len(orphans) > 0 {
		g.wake()
	}
	return nil
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

// sweep does what time alone brings about.
func (g *Gateway) sweep(ctx context.Context) error {
	moved, err := g.Store.Sweep(ctx, g.Now())
	for _, row := range moved {
		g.record(ctx, counterfoil.PhaseLapsed, counterfoil.EventParams{
			Tenant: row.Tenant, ExecutionID: row.ID, Actor: row.Requester, Tool: row.Tool, Code: string(row.State),
		})
	}
	if len(moved) > 0 {
		g.wake()
	}
	return errors.Join(err, g.recover(ctx), g.settleAgain(ctx))
}

// settleAgain offers the store the receipts that it could not take before.
func (g *Gateway) settleAgain(ctx context.Context) error {
	g.mu.Lock()
	todo := g.unsettled
	g.unsettled = nil
	g.mu.Unlock()
	for i, s := range todo {
		if err := g.Store.Settle(ctx, s); err != nil {
			g.mu.Lock()
			g.unsettled = append(todo[i:], g.unsettled...)
			g.mu.Unlock()
			return err
		}
		g.wake()
	}
	return nil
}

// Bundle returns the bundle of a settled execution, in the form that verifiers read.
func (g *Gateway) Bundle(ctx context.Context, tenant, id string, redact bool) ([]byte, error) {
	o, err := g.Store.Execution(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if o.Receipt == nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the execution has no receipt yet"}
	}
	b, err := parseExecution(o)
	if err != nil {
		return nil, err
	}
	if redact {
		return b.Encode(), nil
	}
	plain, err := g.open(tenant, kindOperation, o.ID, o.Operation)
	if err != nil {
		return nil, err
	}
	if b.Operation, err = counterfoil.ParseOperation(plain, b.DryRun.Policy()); err != nil {
		return nil, err
	}
	return b.Encode(), nil
}
