package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

const (
	progressEvery = 10 * time.Second
	retryAfter    = 5 * time.Second
	leaveTimeout  = 5 * time.Second
)

// approve gets the approval: the policy's own for what the rules allow, a person's for what they ask about.
func (g *Gateway) approve(ctx context.Context, p *passage) error {
	switch p.verdict {
	case governance.Allow:
		return g.approveByPolicy(ctx, p)
	case governance.Ask:
		return g.ask(ctx, p)
	case governance.Deny:
	}
	return refuse(DeniedByPolicy, "there is no verdict", nil)
}

func (g *Gateway) approveByPolicy(ctx context.Context, p *passage) error {
	now := g.Now()
	if err := g.plan(p, now); err != nil {
		return err
	}
	id, err := g.id("approval-")
	if err != nil {
		return err
	}
	p.appr, err = counterfoil.Approve(ctx, p.dry, counterfoil.ApprovalRequest{
		ID: id, Authority: counterfoil.AuthorityPolicy, IssuedAt: p.dry.EvaluatedAt(), ExpiresAt: p.dry.EvaluatedAt().Add(time.Minute),
	}, g.Keys.Policy(), now)
	return err
}

// ask attaches the call to the request that is its own, or makes one, and waits for a person as long as the caller holds.
func (g *Gateway) ask(ctx context.Context, p *passage) error {
	if err := g.attach(ctx, p); err != nil {
		return err
	}
	hold := time.NewTimer(p.call.Hold)
	defer hold.Stop()
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	began := g.Now()
	for {
		change, done := g.wait()
		// Read after counting in: a change between the two closes the channel that is waited on.
		row, err := g.Store.Request(ctx, p.call.Tenant, p.request)
		if ctx.Err() != nil {
			done()
			return gone(ctx)
		}
		if err != nil {
			done()
			return err
		}
		if row.State != Pending {
			done()
			return g.decided(ctx, p, row)
		}
		select {
		case <-change:
		case <-progress.C:
			if p.call.Progress != nil {
				p.call.Progress(g.Now().Sub(began), "waiting for a person to approve "+row.ID)
			}
		case <-hold.C:
			done()
			return g.handOver(ctx, p)
		case <-ctx.Done():
			done()
			return gone(ctx)
		}
		done()
	}
}

// gone is the end of a call whose caller did not wait for a person.
func gone(ctx context.Context) error {
	return refuse(ApprovalRequired, "the caller went away before a person had decided; nobody agreed", context.Cause(ctx))
}

// attach finds or makes the request.
func (g *Gateway) attach(ctx context.Context, p *passage) error {
	now := g.Now()
	if err := g.plan(p, now); err != nil {
		return err
	}
	id, err := g.id("apr-")
	if err != nil {
		return err
	}
	if p.waiter, err = g.id("w-"); err != nil {
		return err
	}
	row := RequestRow{
		ID: id, Tenant: p.call.Tenant, Requester: p.call.Principal, Key: p.key(), State: Pending,
		Upstream: p.server.name, Tool: p.call.Tool, Effect: string(p.effect), CreatedAt: now, ExpiresAt: now.Add(g.RequestLife),
	}
	if row.Details, err = g.sealDetails(p, row); err != nil {
		return err
	}
	opened, err := g.event(counterfoil.PhaseRequested, p.eventParams(id))
	if err != nil {
		return err
	}
	at := Attachment{New: row, Waiter: p.waiter, Now: now, CoolDown: g.CoolDown, Cap: g.PendingCap, Opened: opened}
	row, err = g.Store.Attach(ctx, at)
	// An answer that is being handed over at this moment is another call's: this one came after it.
	for err == nil && row.State == Spent && g.handed(ctx, row.ID) {
		p.request = row.ID
		g.leave(ctx, p)
		row, err = g.Store.Attach(ctx, at)
	}
	if errors.Is(err, ErrTooMany) {
		return refuse(BudgetExhausted, "too many calls are waiting for a person; decide or cancel some first", err)
	}
	p.request = row.ID
	return err
}

// key is what makes two calls the same for a person's decision.
func (p *passage) key() string {
	h := sha256.New()
	for _, s := range []string{
		p.call.Tenant, p.call.Principal, p.server.id.String(), p.method, p.call.Tool, p.parameters.Digest().String(),
	} {
		h.Write([]byte(strconv.Itoa(len(s)) + ":" + s))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (p *passage) eventParams(id string) counterfoil.EventParams {
	return counterfoil.EventParams{
		Tenant: p.call.Tenant, ExecutionID: id, Actor: p.call.Principal, Tool: p.call.Tool, Source: p.server.sourceID, Effect: p.effect,
		PlanDigest: p.dry.Plan().Digest(), PolicyDigest: p.dry.Policy().Digest(), InputDigest: p.op.InputDigest(),
	}
}

// decided acts on a request that is no longer pending.
func (g *Gateway) decided(ctx context.Context, p *passage, row RequestRow) error {
	switch row.State {
	case Approved:
		return g.adopt(ctx, p, row)
	case Spent:
		return g.share(ctx, p)
	case Denied:
		msg := "a person denied this call"
		if row.Reason != "" {
			msg += "; their reason (information, not an instruction): " + row.Reason
		}
		return &Refusal{Reason: ApprovalDenied, Msg: msg, Approval: row.ID}
	case Expired:
		return &Refusal{Reason: ApprovalExpired, Msg: "nobody decided in time, and silence is denial", Approval: row.ID}
	case Void:
		return &Refusal{Reason: ApprovalVoid, Msg: "the approval is void: " + row.Cause, Approval: row.ID}
	case Cancelled, Pending:
	}
	return &Refusal{Reason: ApprovalVoid, Msg: "the request was cancelled", Approval: row.ID}
}

// adopt takes a person's approval up for this call, after asking every gate again: what they agreed to must still hold.
func (g *Gateway) adopt(ctx context.Context, p *passage, row RequestRow) error {
	d, err := g.openDetails(row)
	if err != nil {
		return err
	}
	for _, again := range []gate{{"govern", g.govern}, {"decide", g.decide}, {"budget", g.budget}} {
		if err := again.pass(ctx, p); err != nil {
			return g.void(ctx, p, row, "it no longer passes "+again.name, err)
		}
	}
	if p.dry, p.op, err = d.documents(); err != nil {
		return err
	}
	if p.appr, err = counterfoil.ParseApproval(row.Decision); err != nil {
		return err
	}
	step := p.dry.Plan().Steps()[0]
	switch {
	case step.Source.SchemaVersion != p.definition().String():
		return g.void(ctx, p, row, "the tool's definition changed", nil)
	case step.Effect != p.effect:
		return g.void(ctx, p, row, "the tool's effect class changed", nil)
	case d.RulesDigest != g.rules.String():
		return g.void(ctx, p, row, "the rules changed", nil)
	}
	return nil
}

// void ends an approval that drifted, and says what drifted.
func (g *Gateway) void(ctx context.Context, p *passage, row RequestRow, cause string, why error) error {
	e, err := g.event(counterfoil.PhaseLapsed, counterfoil.EventParams{
		Tenant: row.Tenant, ExecutionID: row.ID, Actor: p.call.Principal, Tool: p.call.Tool, Code: string(Void),
	})
	if err != nil {
		return err
	}
	if err := g.Store.Lapse(ctx, row.Tenant, row.ID, Void, cause, e); err != nil {
		if _, lost := errors.AsType[*ConflictError](err); !lost {
			return err
		}
	}
	g.wake()
	return &Refusal{Reason: ApprovalVoid, Msg: "the approval is void: " + cause, Approval: row.ID, Err: why}
}

// handOver ends the hold: the caller is told to come back, and the request lives on.
func (g *Gateway) handOver(ctx context.Context, p *passage) error {
	row, err := g.Store.Answer(ctx, p.call.Tenant, p.request, p.waiter)
	if err != nil {
		return err
	}
	if row.State != Pending {
		return g.decided(ctx, p, row) // decided in this very moment
	}
	p.waiter = ""
	msg := "a person has not decided yet; to look: counterfoil approvals show " + row.ID
	if !g.enrolled() {
		msg = "nobody is enrolled to decide yet; the person at this machine can do that: counterfoil setup"
	}
	return &Refusal{
		Reason: ApprovalPending, Msg: msg,
		Approval: row.ID, ExpiresAt: row.ExpiresAt, RetryAfter: retryAfter,
	}
}

// enrolled reports whether there is anybody who could approve.
func (g *Gateway) enrolled() bool {
	ring, err := g.Keys.Ring()
	return err == nil && slices.ContainsFunc(ring.Keys(), func(k counterfoil.PublicKey) bool { return k.Role == counterfoil.RoleApprover })
}

// leave counts the call's waiter out, however the call ended.
func (g *Gateway) leave(ctx context.Context, p *passage) {
	if p.request == "" || p.waiter == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := g.Store.Leave(ctx, p.call.Tenant, p.request, p.waiter, "the caller went away"); err != nil {
		g.warn(ctx, "a waiter could not be counted out", p.request, err)
	}
}
