package counterfoil

import (
	"context"
	"slices"
	"time"
)

const kindReceipt = "counterfoil.receipt"

// An Outcome is how an execution ended. The zero Outcome is none.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded     Outcome = "succeeded"
	OutcomeFailed        Outcome = "failed"        // the executor reported a failure, or nothing reached the tool
	OutcomeCancelled     Outcome = "cancelled"     // the executor was never entered
	OutcomeIndeterminate Outcome = "indeterminate" // the executor was entered and nobody can say
)

func outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeCancelled, OutcomeIndeterminate}
}

// A Receipt proves what ran, under which approval and use, and how it ended.
type Receipt struct {
	tenant, audience, id    string
	step                    string
	plan, policy, bindings  Digest
	approval, input, use    Digest
	result                  Digest
	outcome                 Outcome
	completed, issued       time.Time
	rows, bytes             int64
	observedRows, seenBytes int64
	uncounted               bool
	late, recovered         bool

	env    *envelope
	digest Digest
}

func (r *Receipt) encode() []byte {
	w := &writer{b: make([]byte, 0, 1024)}
	w.open('{')
	w.digest("approvalDigest", r.approval)
	w.text("audience", r.audience)
	w.digest("bindingsDigest", r.bindings)
	w.count("bytes", r.bytes)
	w.time("completedAt", r.completed)
	w.text("id", r.id)
	w.digest("inputDigest", r.input)
	w.time("issuedAt", r.issued)
	w.text("kind", kindReceipt)
	w.truth("late", r.late)
	w.count("observedBytes", r.seenBytes)
	w.count("observedRows", r.observedRows)
	w.text("outcome", string(r.outcome))
	w.digest("planDigest", r.plan)
	w.digest("policyDigest", r.policy)
	w.truth("recovered", r.recovered)
	w.maybeDigest("resultDigest", r.result)
	w.count("rows", r.rows)
	w.text("stepId", r.step)
	w.text("tenant", r.tenant)
	w.truth("uncounted", r.uncounted)
	w.digest("useDigest", r.use)
	w.text("version", version)
	w.close('}')
	return w.b
}

// ParseReceipt reads a receipt's envelope. It verifies nothing: VerifyReceipt and VerifyBundle do.
func ParseReceipt(b []byte) (*Receipt, error) {
	env, err := parseEnvelope(b, typeReceipt)
	if err != nil {
		return nil, err
	}
	return readReceipt(env)
}

func readReceipt(env *envelope) (*Receipt, error) {
	r, err := env.payloadReader()
	if err != nil {
		return nil, err
	}
	var m [23]value
	r.members(r.root(), m[:], "approvalDigest", "audience", "bindingsDigest", "bytes", "completedAt", "id", "inputDigest", "issuedAt",
		"kind", "late?", "observedBytes", "observedRows", "outcome", "planDigest", "policyDigest", "recovered?", "resultDigest?",
		"rows", "stepId", "tenant", "uncounted?", "useDigest", "version")
	x := &Receipt{
		env: env, digest: digest(domainReceipt, env.payload),
		approval: r.digest(m[0]), audience: r.identity(m[1]), bindings: r.digest(m[2]), bytes: r.count(m[3]), completed: r.time(m[4]),
		id: r.identity(m[5]), input: r.digest(m[6]), issued: r.time(m[7]), late: r.onlyTrue(m[9]), seenBytes: r.count(m[10]),
		observedRows: r.count(m[11]), outcome: oneOf(r, m[12], "outcome", outcomes()...), plan: r.digest(m[13]), policy: r.digest(m[14]),
		recovered: r.onlyTrue(m[15]), result: r.digest(m[16]), rows: r.count(m[17]), step: r.identity(m[18]), tenant: r.identity(m[19]),
		uncounted: r.onlyTrue(m[20]), use: r.digest(m[21]),
	}
	r.literal(m[8], kindReceipt)
	r.literal(m[22], version)
	if r.err != nil {
		return nil, r.err
	}
	return x, nil
}

func (r *Receipt) verify(ring *KeyRing, past *history) error {
	s, err := r.env.single()
	if err != nil {
		return err
	}
	key, err := ring.verify(r.env.message(RoleReceipt), s)
	if err != nil {
		return err
	}
	return past.mayAct(key, r.tenant, r.issued)
}

// ID returns the receipt's id, which is the execution's.
func (r *Receipt) ID() string { return r.id }

// Digest returns the digest of the receipt's payload.
func (r *Receipt) Digest() Digest { return r.digest }

// Outcome returns how the execution ended.
func (r *Receipt) Outcome() Outcome { return r.outcome }

// Tenant returns the tenant.
func (r *Receipt) Tenant() string { return r.tenant }

// UseDigest returns the digest of the use that the receipt settles.
func (r *Receipt) UseDigest() Digest { return r.use }

// ApprovalDigest returns the digest of the approval that allowed the execution.
func (r *Receipt) ApprovalDigest() Digest { return r.approval }

// Step returns the plan's step that ran.
func (r *Receipt) Step() string { return r.step }

// CompletedAt returns when the execution ended.
func (r *Receipt) CompletedAt() time.Time { return r.completed }

// Recovered reports whether recovery issued the receipt, rather than the execution itself.
func (r *Receipt) Recovered() bool { return r.recovered }

// Envelope returns a copy of the signed envelope's bytes, which ParseReceipt reads.
func (r *Receipt) Envelope() []byte { return slices.Clone(r.env.canon) }

// issue completes, signs and returns a receipt for the consumption.
func (r *Receipt) issue(ctx context.Context, dry *DryRun, a *Approval, c *Consumption, signer Signer, now time.Time) error {
	at, err := instant(now)
	if err != nil || at.Before(c.at) {
		at = c.at // a completion clock behind the ledger's must not lose the receipt
	}
	r.tenant, r.audience, r.id, r.step = a.tenant, a.audience, c.id, c.step
	r.plan, r.policy, r.bindings = dry.plan.digest, dry.policy.digest, dry.plan.bindings
	r.approval, r.input, r.use = a.digest, c.input, c.digest
	r.completed, r.issued = at, at
	r.late = !at.Before(a.expires.Add(dry.policy.skew))
	key, err := publicOf(signer)
	if err != nil {
		return err
	}
	// A key that has ended while the tool ran would make a receipt that never verifies. The host settles with another.
	if err := key.MayAct(r.tenant, at); err != nil {
		return err
	}
	if r.env, err = seal(ctx, typeReceipt, r.encode(), RoleReceipt, signer, key); err != nil {
		return err
	}
	r.digest = digest(domainReceipt, r.env.payload)
	return nil
}

// completedEvent makes the event that goes into the log with the receipt.
func (r *Receipt) completedEvent(names *Pseudonyms, dry *DryRun, a *Approval) Event {
	e := stepEvent(PhaseCompleted, names, dry, a, r.step, r.id)
	e.p.UseDigest, e.p.ReceiptDigest, e.p.ResultDigest, e.p.Outcome = r.use, r.digest, r.result, r.outcome
	e.p.Rows, e.p.Bytes, e.p.ObservedRows, e.p.ObservedBytes = r.rows, r.bytes, r.observedRows, r.seenBytes
	e.p.Late, e.p.Recovered, e.p.Uncounted = r.late, r.recovered, r.uncounted
	return e
}

// Recover issues the receipt of an execution whose process died after it had spent the use: indeterminate, because nobody
// can say what happened; or cancelled, for a use whose commit was unknown and which was therefore never executed.
// The completed event goes into the ledger together with the receipt. A parsed approval that rests on a standing grant must
// have been put together with it (Approval.Under).
func Recover(ctx context.Context, dry *DryRun, a *Approval, c *Consumption, outcome Outcome, names *Pseudonyms, signer Signer, now time.Time) (*Receipt, Event, error) {
	if !dry.made() || a == nil || c == nil || !names.made() {
		return nil, Event{}, fail(CodeInvalidInput, "recovery needs the dry run, the approval, the consumption record and pseudonyms")
	}
	if outcome != OutcomeIndeterminate && outcome != OutcomeCancelled {
		return nil, Event{}, fail(CodeInvalidInput, "recovery can't know of any other outcome")
	}
	if err := a.match(dry); err != nil {
		return nil, Event{}, err
	}
	if err := c.spends(a); err != nil {
		return nil, Event{}, err
	}
	r := &Receipt{outcome: outcome, recovered: true}
	if err := r.issue(ctx, dry, a, c, signer, now); err != nil {
		return nil, Event{}, err
	}
	return r, r.completedEvent(names, dry, a), nil
}
