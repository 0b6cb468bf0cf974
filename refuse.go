package counterfoil

import (
	"context"
	"errors"
)

// A Refuser is a Ledger that keeps refusals too. Execute hands it each that it makes (INV-9).
type Refuser interface {
	// Refuse puts the event of a refusal in the log of its tenant. It refuses an event of another audience than the ledger's.
	// ctx is never cancelled: Refuse has to bound its own time.
	Refuse(ctx context.Context, refused Event) error
}

// refused has the ledger keep a refusal, if it keeps any. Whatever becomes of that, the refusal stands: a fault is only joined
// to its cause. An unknown outcome is none: the use may be spent, and then its receipt will say what became of it.
func (x *Execution) refused(ctx context.Context, refusal error) error {
	keeper, keeps := x.Ledger.(Refuser)
	if !keeps || CodeOf(refusal) == CodeUnknownOutcome {
		return refusal
	}
	e, err := x.refusal(CodeOf(refusal))
	if err != nil {
		return refusal // nothing was parsed that a log could name
	}
	err = guarded(func() error { return keeper.Refuse(context.WithoutCancel(ctx), e) })
	if err == nil {
		return refusal
	}
	out := failWith(CodeOf(refusal), "the execution was refused", errors.Join(refusal, failWith(CodeUnavailable, "the refusal could not be recorded", err)))
	if r, ok := errors.AsType[*Error](refusal); ok {
		out.Path, out.Msg = r.Path, r.Msg
	}
	return out
}

// refusal makes the event of a refusal: its code, and digests and pseudonyms of what was parsed. It fails if that is too
// little for an event.
func (x *Execution) refusal(code Code) (Event, error) {
	p := EventParams{ExecutionID: x.ID, Code: string(code)}
	if a := x.Approval; a != nil {
		p.Tenant, p.Audience, p.ApprovalDigest = a.tenant, a.audience, a.digest
	}
	if dry := x.DryRun; dry.made() {
		p.Tenant, p.Audience, p.Actor, p.Plan = dry.plan.tenant, dry.plan.audience, dry.plan.actor, dry.plan.id
		p.PlanDigest, p.PolicyDigest, p.BindingsDigest = dry.plan.digest, dry.policy.digest, dry.plan.bindings
		if step := dry.plan.step(x.StepID); step != nil {
			p.Step, p.Source = step.ID, step.Source.ID
		}
	}
	if op := x.Operation; op != nil { // what was attempted, be it what was planned or not
		p.Tool, p.Effect, p.InputDigest = op.tool, op.effect, op.input
	}
	return NewEvent(PhaseRefused, x.Pseudonyms, p)
}
