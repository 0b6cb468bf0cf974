package counterfoil

import (
	"bytes"
	"time"
)

const (
	kindBundle = "counterfoil.bundle"

	// BundleMediaType is the media type of a bundle.
	BundleMediaType = "application/vnd.counterfoil.bundle.v1+json"
)

// A Bundle is a receipt with everything that is needed to verify it.
type Bundle struct {
	Receipt     *Receipt
	Approval    *Approval
	Consumption *Consumption
	DryRun      *DryRun    // with its policy
	Operation   *Operation // nil in a bundle that was exported without its arguments
	Log         *LogProof  // nil if there is none
}

// complete reports whether the bundle has all that it must have, each made by its parser.
func (b *Bundle) complete() bool {
	return b.Receipt != nil && b.Receipt.env != nil && b.Approval != nil && b.Approval.env != nil &&
		b.Consumption != nil && b.Consumption.env != nil && b.DryRun.made() && (b.Log == nil || b.Log.complete())
}

// Encode returns the bundle's canonical bytes, nil for a bundle that lacks something.
func (b *Bundle) Encode() []byte {
	if !b.complete() {
		return nil
	}
	w := &writer{b: make([]byte, 0, 8192)}
	w.open('{')
	w.raw("approval", b.Approval.env.canon)
	w.raw("consumption", b.Consumption.env.canon)
	w.raw("dryRun", b.DryRun.canon)
	w.text("kind", kindBundle)
	if b.Log != nil {
		b.Log.encode(w)
	}
	if b.Operation != nil {
		w.raw("operation", b.Operation.canon)
	}
	w.raw("policy", b.DryRun.policy.canon)
	w.raw("receipt", b.Receipt.env.canon)
	if b.Approval.grant != nil {
		w.raw("standingGrant", b.Approval.grant.env.canon)
	}
	w.text("version", version)
	w.close('}')
	return w.b
}

func bundleLimits() limits {
	return limits{
		bytes: MaxArgumentBytes + 16*maxDocumentBytes, nodes: MaxArgumentNodes + 4*maxDocumentNodes,
		depth: MaxArgumentDepth + 2, width: MaxArgumentNodes,
	}
}

// ParseBundle reads a bundle. Only its canonical form is accepted, so that no byte of it can change unseen. The dry run is
// rebuilt under the bundle's policy; no signature is verified.
func ParseBundle(b []byte) (*Bundle, error) { return readBundle(bytes.Clone(b)) }

// readBundle reads a bundle that keeps b.
func readBundle(b []byte) (*Bundle, error) {
	r, err := newSignedReader(b, bundleLimits())
	if err != nil {
		return nil, err
	}
	var m [10]value
	r.members(r.root(), m[:], "approval", "consumption", "dryRun", "kind", "log?", "operation?", "policy", "receipt", "standingGrant?", "version")
	r.literal(m[3], kindBundle)
	r.literal(m[9], version)
	r.bound(m[6], documentLimits())
	r.bound(m[2], dryRunLimits())
	if r.err != nil {
		return nil, r.err
	}
	out := &Bundle{}
	policy, err := readPolicy(r, m[6])
	if err != nil {
		return nil, err
	}
	if out.DryRun, err = readDryRun(r, m[2], policy); err != nil {
		return nil, err
	}
	if r.has(m[5]) {
		if r.bound(m[5], operationLimits(policy)); r.err != nil {
			return nil, r.err
		}
		if out.Operation, err = readOperation(r, m[5], policy); err != nil {
			return nil, err
		}
	}
	if err := out.readSigned(r, m[0], m[8], m[1], m[7]); err != nil {
		return nil, err
	}
	if r.has(m[4]) {
		if out.Log, err = readLogProof(r, m[4]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readSigned reads the documents that are signed.
func (b *Bundle) readSigned(r *reader, approval, grant, consumption, receipt value) (err error) {
	if b.Approval, err = readIn(r, approval, typeApproval, readApproval); err != nil {
		return err
	}
	if r.has(grant) {
		g, err := readIn(r, grant, typeGrant, readGrant)
		if err != nil {
			return err
		}
		if b.Approval, err = b.Approval.Under(g); err != nil {
			return err
		}
	}
	if b.Consumption, err = readIn(r, consumption, typeConsumption, readConsumption); err != nil {
		return err
	}
	b.Receipt, err = readIn(r, receipt, typeReceipt, readReceipt)
	return err
}

// readIn reads a signed document inside the bundle.
func readIn[T any](r *reader, n value, t payloadType, read func(*envelope) (*T, error)) (*T, error) {
	env, err := readEnvelope(r, n, t)
	if err != nil {
		return nil, err
	}
	return read(env)
}

// A Report says what a bundle proves.
type Report struct {
	Tenant, Audience string
	ExecutionID      string
	Actor            string // who proposed
	Tool             string
	Effect           Effect
	Source           string // upstream
	Arguments        []byte // canonical; nil when the bundle does not carry them
	ArgumentsDigest  Digest
	Authority        AuthorityKind
	Grant            *StandingGrant // that the approval rests on, nil for none
	Approvers        []string
	ApprovalKeys     []PublicKey // the keys that signed the approval, and last the one that signed its grant
	Reason           string
	ApprovedAt       time.Time
	ConsumedAt       time.Time
	CompletedAt      time.Time
	Outcome          Outcome
	Late, Recovered  bool
	Rows, Bytes      int64
	Uncounted        bool
	ResultDigest     Digest
	ReceiptDigest    Digest
	Logged           bool          // a checkpoint that the ring vouches for has the receipt
	LogSize          int64         // of that checkpoint
	Witnesses        []Cosignature // on it
	Checked          []string      // what was checked, in order
	Unchecked        []string      // what this bundle gives no means to check
}

// VerifyBundle repeats every check of issuance whose input the bundle holds, against the ring's keys alone (INV-7), and
// reports what it proves and what it could not check. Approver, policy and ledger keys are judged at the instant of the
// use, the receipt's key at the instant of its signature. A receipt from the future of now is refused.
func VerifyBundle(b []byte, ring *KeyRing, now time.Time) (*Report, error) {
	x, err := readBundle(b) // nothing of it outlives this call
	if err != nil {
		return nil, err
	}
	return x.Verify(ring, now)
}

// Verify does what VerifyBundle does, on a parsed bundle.
func (b *Bundle) Verify(ring *KeyRing, now time.Time) (*Report, error) {
	if !b.complete() {
		return nil, fail(CodeInvalidInput, "the bundle is not complete")
	}
	rep := &Report{Checked: append(make([]string, 0, 12), "form", "dry run rebuilt from plan and policy")}
	step, err := b.match(rep, now)
	if err != nil {
		return nil, err
	}
	if err := b.verify(rep, ring, now); err != nil {
		return nil, err
	}
	b.describe(rep, step)
	return rep, nil
}

func (r *Report) checked(what string) { r.Checked = append(r.Checked, what) }

// match checks what ties the bundle's documents to each other, and returns the plan's step.
func (b *Bundle) match(rep *Report, now time.Time) (*Step, error) {
	dry, a, c, r := b.DryRun, b.Approval, b.Consumption, b.Receipt
	if err := a.match(dry); err != nil {
		return nil, err
	}
	rep.checked("approval is for this plan and no wider")
	step := dry.plan.step(c.step)
	if step == nil {
		return nil, fail(CodeIntegrityFailed, "the plan has no such step")
	}
	if b.Operation != nil {
		if b.Operation.input != step.InputDigest {
			return nil, fail(CodeIntegrityFailed, "the operation is not the one that was planned")
		}
		rep.checked("operation is the one that was approved")
	}
	if err := r.match(ReceiptOf{Tenant: a.tenant, Audience: a.audience, DryRun: dry, Approval: a, Consumption: c}); err != nil {
		return nil, err
	}
	rep.checked("receipt is for this use and within its limits")
	if r.issued.After(now.Add(dry.policy.skew)) {
		return nil, fail(CodeClock, inFuture)
	}
	if err := dry.policy.evaluate(dry.plan, c.at); err != nil {
		return nil, err
	}
	rep.checked("policy allowed it at the instant of the use")
	return step, nil
}

// verify checks the log and the signatures.
func (b *Bundle) verify(rep *Report, ring *KeyRing, now time.Time) error {
	dry, a, c, r := b.DryRun, b.Approval, b.Consumption, b.Receipt
	var past *history
	if b.Log != nil {
		var err error
		if past, err = b.Log.verify(b, ring, now); err != nil {
			return err
		}
		rep.Logged, rep.LogSize, rep.Witnesses = true, b.Log.Checkpoint.size, past.witnesses
		rep.checked("start and receipt are in the log, in this order, under a signed checkpoint")
		if len(past.witnesses) > 0 {
			rep.checked("checkpoint is cosigned by a witness")
		}
	}
	if err := c.verify(a, dry.policy.skew, ring, past); err != nil {
		return err
	}
	rep.checked("use is signed by the ledger, inside the approval's window")
	keys, err := a.verify(ring, c.at, false, past)
	if err != nil {
		return err
	}
	if err := past.allows(dry, a, keys); err != nil {
		return err
	}
	rep.ApprovalKeys = keys
	rep.checked("approval is signed by every approver")
	if a.grant != nil {
		rep.checked("standing grant is signed by a person's own key, for this call and time")
	}
	if err := r.verify(ring, past); err != nil {
		return err
	}
	rep.checked("receipt is signed")
	return nil
}

const onlyUse = "that the log has no other use of the approval; whoever reads all of it can see that"

func (b *Bundle) describe(rep *Report, step *Step) {
	dry, a, c, r := b.DryRun, b.Approval, b.Consumption, b.Receipt
	rep.Tenant, rep.Audience, rep.ExecutionID, rep.Actor = r.tenant, r.audience, r.id, dry.plan.actor
	rep.Tool, rep.Effect, rep.Source, rep.ArgumentsDigest = step.Tool, step.Effect, step.Source.ID, step.ParametersDigest
	rep.Authority, rep.Grant, rep.Approvers, rep.Reason = a.kind, a.grant, a.Approvers(), a.reason
	rep.ApprovedAt, rep.ConsumedAt, rep.CompletedAt = a.issued, c.at, r.completed
	rep.Outcome, rep.Late, rep.Recovered = r.outcome, r.late, r.recovered
	rep.Rows, rep.Bytes, rep.Uncounted = r.rows, r.bytes, r.uncounted
	rep.ResultDigest, rep.ReceiptDigest = r.result, r.digest
	if b.Operation != nil {
		rep.Arguments = b.Operation.Parameters()
	} else {
		rep.Unchecked = append(rep.Unchecked, "arguments: the bundle does not carry them; their digest is bound")
	}
	if a.grant != nil {
		rep.Unchecked = append(rep.Unchecked,
			"the standing grant's predicate, which is not evaluated here", "how often the standing grant was used")
	}
	if before := dry.plan.before(c.step); dry.policy.ordered && before != "" {
		rep.Unchecked = append(rep.Unchecked, "order: that the step before had succeeded; its own bundle shows it")
	}
	if !step.EvidenceDigest.IsZero() {
		rep.Unchecked = append(rep.Unchecked, "the evidence on the tool; its digest is bound")
	}
	switch {
	case !rep.Logged:
		rep.Unchecked = append(rep.Unchecked, "logged: no; the bundle has no inclusion proof, so that it can't show that this is the only use")
	case len(rep.Witnesses) == 0:
		rep.Unchecked = append(rep.Unchecked, "that everybody is shown the same log: no witness of the ring has cosigned the checkpoint", onlyUse)
	default:
		rep.Unchecked = append(rep.Unchecked, onlyUse)
	}
	rep.Unchecked = append(rep.Unchecked,
		"revocations: that nothing it rests on was revoked before the use, nor a key after the ring was exported",
		"the source as it was at the time of execution",
		"the result itself; its digest is bound",
	)
}
