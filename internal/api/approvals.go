package api

import (
	"context"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// approvalItem is a request for approval. Lists leave out what is sealed: arguments and definition.
type approvalItem struct {
	ID               string            `json:"id"`
	State            string            `json:"state"`
	Requester        string            `json:"requester"`
	Run              string            `json:"run,omitzero"`
	Upstream         string            `json:"upstream"`
	UpstreamID       string            `json:"upstreamId"`
	Method           string            `json:"method,omitzero"`
	Tool             string            `json:"tool"`
	Effect           string            `json:"effect"`
	Arguments        rawJSON           `json:"arguments,omitzero"` // exactly what will be executed
	Definition       rawJSON           `json:"definition,omitzero"`
	InputDigest      string            `json:"inputDigest,omitzero"`
	DefinitionDigest string            `json:"definitionDigest,omitzero"`
	RulesDigest      string            `json:"rulesDigest,omitzero"`
	DryRunDigest     string            `json:"dryRunDigest,omitzero"` // what the approver signs over
	Rule             string            `json:"rule,omitzero"`
	Findings         []approvalFinding `json:"findings,omitzero"`
	CreatedAt        time.Time         `json:"createdAt"`
	ExpiresAt        time.Time         `json:"expiresAt"`
	DecidedBy        string            `json:"decidedBy,omitzero"`
	DecidedAt        time.Time         `json:"decidedAt,omitzero"`
	Reason           string            `json:"reason,omitzero"`
	Cause            string            `json:"cause,omitzero"` // why it is void
	Receipt          string            `json:"receipt,omitzero"`
	Outcome          string            `json:"outcome,omitzero"`
}

type approvalFinding struct {
	Pattern  string `json:"pattern"`
	Severity string `json:"severity"`
	Pointer  string `json:"pointer,omitzero"`
}

type approvalList struct {
	Items []approvalItem `json:"items"`
	Next  string         `json:"next,omitzero"` // the "after" of the next page
}

func approvalOf(p gateway.Approval) approvalItem {
	x := approvalItem{
		ID: p.ID, State: string(p.State), Requester: p.Requester, Run: p.Run, Upstream: p.UpstreamName, UpstreamID: p.UpstreamID,
		Method: p.Method, Tool: p.Tool, Effect: p.Effect, Arguments: p.Arguments, Definition: p.Definition, InputDigest: p.InputDigest,
		DefinitionDigest: p.DefinitionDigest, RulesDigest: p.RulesDigest, DryRunDigest: p.DryRunDigest, Rule: p.Rule,
		CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt, DecidedBy: p.DecidedBy, DecidedAt: p.DecidedAt, Reason: p.Reason, Cause: p.VoidCause,
		Receipt: p.Receipt, Outcome: p.Outcome,
	}
	for _, f := range p.Findings {
		x.Findings = append(x.Findings, approvalFinding{f.Pattern, f.Severity, f.Pointer})
	}
	return x
}

func states() []gateway.State {
	return []gateway.State{gateway.Pending, gateway.Approved, gateway.Denied, gateway.Expired, gateway.Cancelled, gateway.Void, gateway.Spent}
}

func (a *API) approvals(ctx context.Context, x *exchange) (approvalList, error) {
	after, limit, err := x.page()
	if err != nil {
		return approvalList{}, err
	}
	state := gateway.State(x.query.Get("state"))
	if x.query.Has("state") && !slices.Contains(states(), state) {
		return approvalList{}, malformed("state", "there is no such state")
	}
	list, err := a.o.Gate.Approvals(ctx, x.principal.Tenant, state, after, limit)
	if err != nil {
		return approvalList{}, err
	}
	out := approvalList{Items: make([]approvalItem, 0, len(list))}
	for _, p := range list {
		out.Items = append(out.Items, approvalOf(p))
	}
	if len(list) == limit {
		out.Next = list[limit-1].ID
	}
	return out, nil
}

func (a *API) approval(ctx context.Context, x *exchange) (approvalItem, error) {
	id, err := x.named("id")
	if err != nil {
		return approvalItem{}, err
	}
	p, err := a.o.Gate.Approval(ctx, x.principal.Tenant, id)
	if err != nil {
		return approvalItem{}, err
	}
	x.approval = p.ID
	return approvalOf(p), nil
}

// decision is a person's word on a request. The passphrase opens the key that signs it.
type decision struct {
	Reason     string `json:"reason,omitzero"`
	Passphrase string `json:"passphrase"`
	// Signs is the request's dryRunDigest, as the person saw it. If it is given and is another by now, nothing is decided.
	Signs string `json:"signs,omitzero"`
}

func (a *API) approve(ctx context.Context, x *exchange, in decision) (approvalItem, error) {
	return a.decide(ctx, x, in, a.o.Gate.Approve)
}

func (a *API) deny(ctx context.Context, x *exchange, in decision) (approvalItem, error) {
	return a.decide(ctx, x, in, a.o.Gate.Deny)
}

type decider func(ctx context.Context, tenant, id string, signer counterfoil.Signer, reason string) error

func (a *API) decide(ctx context.Context, x *exchange, in decision, decide decider) (approvalItem, error) {
	id, err := x.named("id")
	if err != nil {
		return approvalItem{}, err
	}
	tenant := x.principal.Tenant
	p, err := a.o.Gate.Approval(ctx, tenant, id)
	if err != nil {
		return approvalItem{}, err
	}
	x.approval = p.ID
	switch {
	case x.principal.Kind != identity.KindPerson:
		return approvalItem{}, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "people decide, nobody else"}
	case p.Requester == x.by():
		return approvalItem{}, &counterfoil.Error{Code: counterfoil.CodeSelfApproval, Msg: "whoever asks does not decide"}
	case p.State != gateway.Pending:
		return approvalItem{}, &gateway.ConflictError{State: p.State}
	case in.Signs != "" && in.Signs != p.DryRunDigest:
		return approvalItem{}, &gateway.ConflictError{State: p.State}
	}
	signer, err := a.o.Signer(ctx, x.principal, credential.NewSecret(in.Passphrase))
	if err != nil {
		return approvalItem{}, wrongPassphrase(err)
	}
	if err := decide(ctx, tenant, id, signer, in.Reason); err != nil {
		return approvalItem{}, err
	}
	p, err = a.o.Gate.Approval(ctx, tenant, id)
	return approvalOf(p), err
}
