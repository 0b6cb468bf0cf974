package gateway

import (
	"context"
	"errors"

	"github.com/counterfoil/counterfoil"
)

// Approval returns a request with all that its approver must see.
func (g *Gateway) Approval(ctx context.Context, tenant, id string) (Approval, error) {
	row, err := g.Store.Request(ctx, tenant, id)
	if err != nil {
		return Approval{}, err
	}
	a := approvalOf(row)
	d, err := g.openDetails(row)
	if err != nil {
		return a, err
	}
	dry, op, err := d.documents()
	if err != nil {
		return a, err
	}
	a.UpstreamID, a.Method, a.Definition, a.DefinitionDigest, a.Run, a.Owner = d.UpstreamID, d.Method, d.Definition, d.DefDigest, d.Run, d.Owner
	a.RulesDigest, a.Findings = d.RulesDigest, d.Findings
	a.Rule = d.Rule
	if d.Why != "" {
		a.Rule += "; " + d.Why
	}
	// What is shown is what will be executed: the operation's own parameters, not a copy kept for showing (INV-1).
	a.Arguments, a.InputDigest, a.DryRunDigest = op.Parameters(), op.InputDigest().String(), dry.Digest().String()
	return a, nil
}

// Approvals lists requests, newest first, without what is sealed.
func (g *Gateway) Approvals(ctx context.Context, tenant string, state State, after string, limit int) ([]Approval, error) {
	rows, err := g.Store.Requests(ctx, tenant, state, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Approval, 0, len(rows))
	for _, row := range rows {
		out = append(out, approvalOf(row))
	}
	return out, nil
}

func approvalOf(row RequestRow) Approval {
	return Approval{
		ID: row.ID, Tenant: row.Tenant, Requester: row.Requester, State: row.State, UpstreamName: row.Upstream, Tool: row.Tool,
		Effect: row.Effect, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, DecidedBy: row.DecidedBy, DecidedAt: row.DecidedAt,
		Reason: row.Reason, VoidCause: row.Cause, Receipt: row.Execution, Outcome: row.Outcome,
	}
}

// maxReason bounds a decision's reason, which is shown to the agent.
const maxReason = 1000

// Approve signs an approval of exactly what the request holds. It runs nothing: the call that waits, or its identical
// retry, does.
func (g *Gateway) Approve(ctx context.Context, tenant, id string, signer counterfoil.Signer, reason string) error {
	row, d, dry, err := g.pending(ctx, tenant, id, reason)
	if err != nil {
		return err
	}
	if err := d.separate(signer); err != nil {
		return err
	}
	approvalID, err := g.id("approval-")
	if err != nil {
		return err
	}
	now := g.Now()
	a, err := counterfoil.Approve(ctx, dry, counterfoil.ApprovalRequest{
		ID: approvalID, Authority: counterfoil.AuthorityPerson, Reason: reason, IssuedAt: now, ExpiresAt: now.Add(g.GrantLife),
	}, signer, now)
	if err != nil {
		return err
	}
	e, err := g.event(counterfoil.PhaseApproved, counterfoil.EventParams{
		Tenant: tenant, ExecutionID: id, Actor: signer.Public().Owner, Tool: row.Tool, Effect: counterfoil.Effect(row.Effect),
		ApprovalDigest: a.Digest(), PlanDigest: dry.Plan().Digest(), PolicyDigest: dry.Policy().Digest(),
	})
	if err != nil {
		return err
	}
	return g.rule(ctx, Ruling{
		Tenant: tenant, ID: id, To: Approved, Decision: a.Envelope(), By: signer.Public().Owner, Reason: reason, At: now,
		ExpiresAt: a.ExpiresAt(), Event: e,
	})
}

// separate keeps a person from approving what a program of their own proposes. What they propose themselves the boundary
// refuses.
func (d *details) separate(signer counterfoil.Signer) error {
	if d.Owner != "" && d.Owner == signer.Public().Owner {
		return &counterfoil.Error{Code: counterfoil.CodeSelfApproval, Msg: "who proposes this belongs to you: another person has to approve it"}
	}
	return nil
}

// Deny signs a refusal. It is final for the same call for the cool-down.
func (g *Gateway) Deny(ctx context.Context, tenant, id string, signer counterfoil.Signer, reason string) error {
	row, _, dry, err := g.pending(ctx, tenant, id, reason)
	if err != nil {
		return err
	}
	now := g.Now()
	d, err := counterfoil.Decide(ctx, counterfoil.DecisionParams{
		Tenant: tenant, Audience: g.Keys.Audience(), Verb: counterfoil.VerbDeny, Subject: dry.Digest(), Reason: reason,
	}, signer, now)
	if err != nil {
		return err
	}
	e, err := g.event(counterfoil.PhaseDenied, counterfoil.EventParams{
		Tenant: tenant, ExecutionID: id, Actor: d.Approver(), Tool: row.Tool, Effect: counterfoil.Effect(row.Effect), DecisionDigest: d.Digest(),
		PlanDigest: dry.Plan().Digest(), PolicyDigest: dry.Policy().Digest(),
	})
	if err != nil {
		return err
	}
	return g.rule(ctx, Ruling{Tenant: tenant, ID: id, To: Denied, Decision: d.Envelope(), By: d.Approver(), Reason: reason, At: now, Event: e})
}

// pending returns a request that can still be decided, with what it holds.
func (g *Gateway) pending(ctx context.Context, tenant, id, reason string) (row RequestRow, d details, dry *counterfoil.DryRun, err error) {
	if len(reason) > maxReason {
		return row, d, nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/reason", Msg: "the reason is longer than 1000 bytes"}
	}
	if row, err = g.Store.Request(ctx, tenant, id); err != nil {
		return row, d, nil, err
	}
	if row.State != Pending {
		return row, d, nil, &ConflictError{State: row.State}
	}
	if d, err = g.openDetails(row); err != nil {
		return row, d, nil, err
	}
	dry, _, err = d.documents()
	return row, d, dry, err
}

func (g *Gateway) rule(ctx context.Context, r Ruling) error {
	if err := g.Store.Rule(ctx, r); err != nil {
		return err
	}
	g.wake()
	return nil
}

// VoidAll ends every pending and approved request of a tenant, because what they stand on is no longer certain. It returns how
// many there were.
func (g *Gateway) VoidAll(ctx context.Context, tenant, cause string) (n int, err error) {
	return g.voidThose(ctx, tenant, cause, func(RequestRow) (bool, error) { return true, nil })
}

// voidThose ends those pending and approved requests of a tenant that are meant.
func (g *Gateway) voidThose(ctx context.Context, tenant, cause string, meant func(RequestRow) (bool, error)) (n int, err error) {
	defer g.wake()
	for _, state := range []State{Pending, Approved} {
		after := ""
		for {
			rows, err := g.Store.Requests(ctx, tenant, state, after, voidAtOnce)
			if err != nil {
				return n, err
			}
			for _, row := range rows {
				after = row.ID
				ok, err := meant(row)
				if err == nil && ok {
					err = g.lapse(ctx, row, cause)
					n++
				}
				if _, moved := errors.AsType[*ConflictError](err); err != nil && !moved {
					return n, err
				}
			}
			if len(rows) < voidAtOnce {
				break
			}
		}
	}
	return n, nil
}

// voidAtOnce is how many requests are read at once.
const voidAtOnce = 100

func (g *Gateway) lapse(ctx context.Context, row RequestRow, cause string) error {
	e, err := g.event(counterfoil.PhaseLapsed, counterfoil.EventParams{
		Tenant: row.Tenant, ExecutionID: row.ID, Actor: row.Requester, Tool: row.Tool, Code: string(Void),
	})
	if err != nil {
		return err
	}
	return g.Store.Lapse(ctx, row.Tenant, row.ID, Void, cause, e)
}
