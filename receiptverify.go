package counterfoil

import "time"

// A ReceiptOf is what a receipt must be of. Tenant and Audience are always compared, so that the zero ReceiptOf fits no
// receipt; the documents are compared where they are given.
type ReceiptOf struct {
	Tenant      string
	Audience    string
	DryRun      *DryRun
	Approval    *Approval // put together with its standing grant, if it rests on one (Approval.Under)
	Consumption *Consumption
}

// made reports whether each document that is given was made by its parser.
func (x *ReceiptOf) made() bool {
	return (x.DryRun == nil || x.DryRun.made()) && (x.Approval == nil || x.Approval.env != nil) && (x.Consumption == nil || x.Consumption.env != nil)
}

// agree checks the documents that are given against each other.
func (x *ReceiptOf) agree() error {
	if x.Approval == nil {
		return nil
	}
	if x.DryRun != nil {
		if err := x.Approval.match(x.DryRun); err != nil {
			return err
		}
	}
	if x.Consumption != nil {
		return x.Consumption.spends(x.Approval)
	}
	return nil
}

// VerifyReceipt checks one receipt by itself: that it is of what is given and does not contradict itself, that it is not
// from the future of now, and that a receipt key of the ring signed it, which may act for the tenant at the receipt's own
// instant and is not revoked. The signatures of the documents that are given are not verified, and no log is looked at:
// VerifyBundle does both. Nothing is called but the ring.
func VerifyReceipt(r *Receipt, ring *KeyRing, of ReceiptOf, now time.Time) error {
	if r == nil || r.env == nil || !of.made() {
		return fail(CodeInvalidInput, "a receipt and what it is held against come from their parsers")
	}
	at, err := instant(now)
	if err != nil {
		return err
	}
	if err := of.agree(); err != nil {
		return err
	}
	if err := r.match(of); err != nil {
		return err
	}
	skew := time.Duration(0)
	if dry := of.DryRun; dry != nil {
		skew = dry.policy.skew
		if step := dry.plan.step(r.step); step == nil || step.InputDigest != r.input {
			return fail(CodeIntegrityFailed, "the receipt is for another step")
		}
	}
	if c := of.Consumption; c != nil && (r.approval != c.approval || r.input != c.input || r.tenant != c.tenant || r.audience != c.audience) {
		return fail(CodeIntegrityFailed, "the receipt is for another use")
	}
	if r.issued.After(at.Add(skew)) {
		return fail(CodeClock, inFuture)
	}
	return r.verify(ring, nil)
}

const inFuture = "the receipt lies in the future"

// match checks a receipt against what it says it is for, at no cost of cryptography.
func (r *Receipt) match(x ReceiptOf) error {
	dry, a, c := x.DryRun, x.Approval, x.Consumption
	var step *approvedStep
	if a != nil {
		step = a.step(r.step)
	}
	switch {
	case r.tenant != x.Tenant || r.audience != x.Audience || c != nil && r.id != c.id:
		return fail(CodeIntegrityFailed, "the receipt is for another tenant, audience or execution")
	case dry != nil && (r.plan != dry.plan.digest || r.policy != dry.policy.digest || r.bindings != dry.plan.bindings):
		return fail(CodeIntegrityFailed, "the receipt is for another plan or policy")
	case a != nil && (r.approval != a.digest || step == nil || r.input != step.input):
		return fail(CodeIntegrityFailed, "the receipt is for another approval or step")
	case c != nil && (r.step != c.step || r.use != c.digest):
		return fail(CodeIntegrityFailed, "the receipt is for another use")
	case step != nil && (r.rows > step.limit.Rows || r.bytes > step.limit.Bytes):
		return fail(CodePolicyDenied, "the receipt accepts more than was approved")
	case c != nil && r.completed.Before(c.at) || r.issued.Before(r.completed):
		return fail(CodeIntegrityFailed, "the receipt's times are out of order")
	case a != nil && dry != nil && r.late != !r.completed.Before(a.expires.Add(dry.policy.skew)):
		return fail(CodeIntegrityFailed, "the receipt is wrong about being late")
	}
	return r.coherent()
}

// coherent checks that a receipt does not contradict itself.
func (r *Receipt) coherent() error {
	switch {
	case r.outcome == OutcomeSucceeded && (r.result.IsZero() || r.bytes != r.seenBytes || r.rows != r.observedRows):
		return fail(CodeIntegrityFailed, "a success names its result and accepts all of it")
	case r.outcome != OutcomeSucceeded && (r.rows != 0 || r.bytes != 0):
		return fail(CodeIntegrityFailed, "only a success accepts anything")
	case r.outcome == OutcomeCancelled && (r.observedRows != 0 || r.seenBytes != 0 || !r.result.IsZero()):
		return fail(CodeIntegrityFailed, "what never began has no result")
	case r.uncounted && r.observedRows != 0:
		return fail(CodeIntegrityFailed, "what could not be counted has no count")
	case r.recovered && r.outcome != OutcomeCancelled && r.outcome != OutcomeIndeterminate:
		return fail(CodeIntegrityFailed, "recovery can't know of this outcome")
	}
	return nil
}
