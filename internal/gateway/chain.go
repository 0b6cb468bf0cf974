package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

// A gate lets a call pass or ends it. An error is a no.
type gate struct {
	name string
	pass func(context.Context, *passage) error
}

// gates: every call, wherever it comes from, meets these from top to bottom.
func (g *Gateway) gates() []gate {
	return []gate{
		{"screen", g.screen},   // injection screening of the arguments: findings make a call ask
		{"govern", g.govern},   // registry, pinned definition, effect class, argument schema
		{"decide", g.decide},   // deny > ask > allow
		{"budget", g.budget},   // reach and call limit: nobody is asked for what can't run
		{"approve", g.approve}, // the policy's own approval, or a person's: a wait
		{"spend", g.spend},     // durable: the use, the started event and the budget in one commit
		{"run", g.run},         // the upstream gets the approved bytes
		{"settle", g.settle},   // durable: the receipt and the completed event in one commit
	}
}

// A passage is one call on its way through the chain. Each gate adds what it found out.
type passage struct {
	call Call
	// parameters are what is shown, approved and executed: the arguments, or the arguments and the extra members.
	parameters *counterfoil.Arguments
	arguments  []byte // the canonical bytes of the arguments alone
	method     string // the method as it is bound into the operation

	findings []Finding // screen

	server *server          // govern
	marks  []Mark           // govern: what the call's standing rests on
	tool   *governance.Tool // govern; nil for methods other than tools/call
	effect counterfoil.Effect
	why    string // why it has that effect

	verdict governance.Verdict // decide
	rule    string

	request string // approve: the approval request, "" under policy authority
	waiter  string
	dry     *counterfoil.DryRun
	op      *counterfoil.Operation
	appr    *counterfoil.Approval

	claim    *counterfoil.Claim    // spend
	finished *counterfoil.Finished // run
	reply    Answer

	answered bool // approve or spend found that another caller's answer serves this call
}

// A runKey names a run, within its tenant.
type runKey struct{ tenant, run string }

func (p *passage) run() runKey { return runKey{p.call.Tenant, p.call.Run} }

// Do runs one call through the chain. The error is always a *Refusal. The answer is to be written through its Deliver, if that
// is set.
func (g *Gateway) Do(ctx context.Context, c Call) (Answer, error) {
	if !g.serving.Load() {
		return Answer{}, refuse(Internal, "the gateway is not ready", nil)
	}
	p, err := g.admit(c)
	if err != nil {
		return Answer{}, g.refused(ctx, &passage{call: c}, "parse", err)
	}
	defer g.leave(ctx, p)
	for _, gate := range g.gates() {
		if err := gate.pass(ctx, p); err != nil {
			return Answer{}, g.refused(ctx, p, gate.name, err)
		}
		if p.answered {
			break
		}
	}
	return p.reply, nil
}

// refused records a refusal and gives it the form that the caller gets.
func (g *Gateway) refused(ctx context.Context, p *passage, gate string, err error) *Refusal {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		r = refusalFor(err)
	}
	g.Logger.LogAttrs(ctx, slog.LevelInfo, "call refused", slog.String("gate", gate), slog.String("reason", string(r.Reason)),
		slog.String("method", p.method), slog.Any("cause", r.Err))
	if slices.Contains([]Reason{ApprovalPending, ApprovalDenied, ApprovalExpired, OutcomeUnknown}, r.Reason) {
		return r // the request's own events, or the receipt, say it already
	}
	id, err := g.id("call-")
	if err != nil {
		return r
	}
	g.record(ctx, counterfoil.PhaseRefused, counterfoil.EventParams{
		Tenant: p.call.Tenant, ExecutionID: id, Actor: p.call.Principal, Tool: p.call.Tool, Effect: p.effect,
		Code: gate + "/" + string(r.Reason),
	})
	return r
}

// refusalFor turns an error of the boundary into what the caller is told. What carries no code is internal.
func refusalFor(err error) *Refusal {
	e, ok := errors.AsType[*counterfoil.Error](err)
	msg := "the gateway could not decide"
	if ok {
		msg = e.Msg
		if e.Path != "" {
			msg = e.Path + ": " + msg
		}
	}
	switch counterfoil.CodeOf(err) {
	case counterfoil.CodeInvalidInput:
		return refuse(InvalidParams, msg, err)
	case counterfoil.CodePolicyDenied, counterfoil.CodeSelfApproval, counterfoil.CodeQuorumMissing:
		return refuse(DeniedByPolicy, msg, err)
	case counterfoil.CodeApprovalExpired:
		return refuse(ApprovalExpired, msg, err)
	case counterfoil.CodeContextMismatch, counterfoil.CodeIntegrityFailed, counterfoil.CodeRevoked, counterfoil.CodeNotYetValid,
		counterfoil.CodeSignatureInvalid:
		return refuse(ApprovalVoid, msg, err)
	case counterfoil.CodeAlreadyUsed:
		return refuse(DuplicateEffect, msg, err)
	case counterfoil.CodeUnknownOutcome, counterfoil.CodeReceiptFailed:
		return refuse(OutcomeUnknown, msg, err)
	case counterfoil.CodeExecutionFailed:
		return refuse(UpstreamUnavailable, msg, err)
	case counterfoil.CodeUnavailable, counterfoil.CodeClock, counterfoil.CodeAborted, counterfoil.CodeInternal:
		return refuse(Internal, msg, err)
	default:
		return refuse(Internal, "the gateway could not decide", err)
	}
}
