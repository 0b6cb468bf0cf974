package gateway

import (
	"context"

	"github.com/counterfoil/counterfoil"
)

// A RevocationRequest is what a person revokes, and why.
type RevocationRequest struct {
	Tenant  string
	Subject counterfoil.Digest // of an approval or a policy, or what ActorSubject or KeySubject gives
	Why     counterfoil.RevocationReason
	Reason  string // optional
}

// Revoke records a person's signed word that the subject allows nothing any more: no use that rests on it is spent from then
// on. Approvals that wait for their call and are the subject, or rest on it, end with it.
func (g *Gateway) Revoke(ctx context.Context, r RevocationRequest, signer counterfoil.Signer) (*counterfoil.Decision, error) {
	if len(r.Reason) > maxReason {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/reason", Msg: "the reason is longer than 1000 bytes"}
	}
	p := counterfoil.DecisionParams{
		Tenant: r.Tenant, Audience: g.Keys.Audience(), Verb: counterfoil.VerbRevoke, Subject: r.Subject, Why: r.Why, Reason: r.Reason,
	}
	d, err := counterfoil.Decide(ctx, p, signer, g.Now())
	if err != nil {
		return nil, err
	}
	ring, err := g.Keys.Ring()
	if err != nil {
		return nil, err
	}
	if err := d.Verify(ring, p); err != nil { // not any key: an approver's
		return nil, err
	}
	e, err := g.event(counterfoil.PhaseRevoked, counterfoil.EventParams{
		Tenant: r.Tenant, ExecutionID: d.Digest().String(), Actor: d.Approver(), Code: string(r.Why), DecisionDigest: d.Digest(),
	})
	if err != nil {
		return nil, err
	}
	if err := g.Store.Revoke(ctx, r.Tenant, r.Subject, d.Envelope(), e); err != nil {
		return nil, err
	}
	_, err = g.voidThose(ctx, r.Tenant, "it was revoked", func(row RequestRow) (bool, error) {
		return g.restsOn(ctx, row, r.Subject)
	})
	return d, err
}

// restsOn reports whether an approved request rests on the subject.
func (g *Gateway) restsOn(ctx context.Context, row RequestRow, subject counterfoil.Digest) (bool, error) {
	if row.State != Approved {
		return false, nil
	}
	row, err := g.Store.Request(ctx, row.Tenant, row.ID) // lists leave the details out
	if err != nil {
		return false, err
	}
	a, err := counterfoil.ParseApproval(row.Decision)
	if err != nil {
		return false, err
	}
	d, err := g.openDetails(row)
	if err != nil {
		return false, err
	}
	dry, _, err := d.documents()
	if err != nil {
		return false, err
	}
	return counterfoil.RestsOn(dry, a, subject), nil
}

// RevokeApproval revokes the approval of a request, which waits for its call.
func (g *Gateway) RevokeApproval(ctx context.Context, tenant, id string, why counterfoil.RevocationReason, reason string, signer counterfoil.Signer) (*counterfoil.Decision, error) {
	row, err := g.Store.Request(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if row.State != Approved {
		return nil, &ConflictError{State: row.State}
	}
	a, err := counterfoil.ParseApproval(row.Decision)
	if err != nil {
		return nil, err
	}
	return g.Revoke(ctx, RevocationRequest{Tenant: tenant, Subject: a.Digest(), Why: why, Reason: reason}, signer)
}
