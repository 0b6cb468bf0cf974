package counterfoil

import (
	"context"
	"encoding/hex"
	"slices"
	"time"
)

// An Authorization is the result of every check that can be made before the use is spent. Authorize is its only maker.
type Authorization struct {
	dry       *DryRun
	approval  *Approval
	operation *Operation
	step      *Step
	limit     Limit
	fresh     time.Time
	keys      []PublicKey // that signed the approval
	ring      *KeyRing
}

// Authorize checks that the approval allows this operation as this step of the plan, now: every check of the boundary but
// the use itself, in this order: the operation against the plan, the approval against the dry run, the window, the policy at
// this instant, the sources as they are, and last the signatures (INV-2). A parsed approval that rests on a standing grant
// must have been put together with it (Approval.Under).
func Authorize(dry *DryRun, approval *Approval, current *Context, stepID string, op *Operation, ring *KeyRing, now time.Time) (*Authorization, error) {
	if !dry.made() || approval == nil || op == nil {
		return nil, fail(CodeInvalidInput, "an authorization needs a dry run, an approval and an operation")
	}
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	step := dry.plan.step(stepID)
	if step == nil {
		return nil, fail(CodePolicyDenied, "the plan has no such step")
	}
	if op.input != step.InputDigest {
		return nil, fail(CodeIntegrityFailed, "the operation is not the one that was planned")
	}
	if err := approval.match(dry); err != nil {
		return nil, err
	}
	if err := within(at, approval.issued, approval.from, approval.expires, dry.policy.skew); err != nil {
		return nil, err
	}
	if err := dry.policy.evaluate(dry.plan, at); err != nil {
		return nil, err
	}
	if err := current.match(dry.plan, dry.policy, at); err != nil {
		return nil, err
	}
	keys, err := approval.verify(ring, at, true, nil)
	if err != nil {
		return nil, err
	}
	return &Authorization{
		dry: dry, approval: approval, operation: op, step: step, limit: approval.step(stepID).limit,
		fresh: dry.policy.freshUntil(dry.plan, current), keys: keys, ring: ring,
	}, nil
}

// A Use names one right to run: which step of which approval. A Ledger gives it out once, ever.
type Use struct {
	Tenant      string
	Audience    string
	Approval    Digest
	Step        string
	Input       Digest
	ExecutionID string
	Nonce       [16]byte
	// Grant is the standing grant that the approval rests on, zero for none, and GrantUses how often it may be used, by all
	// its approvals together. A ledger counts its uses and sets GrantCount to the number that this one is; Consume refuses
	// a count that is zero or too high, so that a ledger that doesn't know of grants gives none out.
	Grant                 Digest
	GrantUses, GrantCount int64

	// The approval's window, which the ledger judges by its own clock inside its transaction.
	IssuedAt  time.Time
	NotBefore time.Time
	ExpiresAt time.Time
	Skew      time.Duration
	// FreshUntil is the last instant at which the sources' observations are young enough; zero for no bound.
	FreshUntil time.Time
	// KeysFrom and KeysUntil bound when the keys that signed the approval may all act; KeysUntil is exclusive, zero for no
	// bound. The skew does not apply to them.
	KeysFrom, KeysUntil time.Time

	// Guards are the subjects whose revocation refuses the use with CodeRevoked: the approval, the policy, what the approval
	// rests on, the actor, the approvers and the keys that signed. The ledger looks for them in its transaction.
	Guards []Digest
	// After, if set, is the step of the same approval that must have a receipt of success. The ledger looks for it in its
	// transaction, and refuses with CodePolicyDenied while there is none.
	After string
}

// maxHeadAhead is how far the ledger's newest record may lie ahead of its clock before the clock is not believed.
const maxHeadAhead = 5 * time.Second

// Consume judges the use's window and signs the record that the use is spent. A Ledger calls it inside the transaction
// that makes the record durable, with its own clock and the time of its newest event (zero for none). The instant is the
// latest of clock, head and the approval's beginning, so that times in a log never decrease; a head more than five
// seconds ahead of the clock refuses with CodeClock. Every error is definite: nothing was recorded.
func (u *Use) Consume(ctx context.Context, clock, head time.Time, key Signer) (*Consumption, error) {
	at, err := instant(clock)
	if err != nil {
		return nil, err
	}
	limit := at.Add(maxHeadAhead)
	for _, t := range []time.Time{head, u.IssuedAt} {
		if t.After(limit) {
			return nil, fail(CodeClock, "the ledger's clock is behind its own records or the approval")
		}
		if t.After(at) {
			at = t.UTC().Truncate(time.Millisecond)
		}
	}
	if err := u.judge(at); err != nil {
		return nil, err
	}
	public, err := publicOf(key)
	if err != nil || !public.validAt(u.Tenant, at) {
		return nil, failWith(CodeUnavailable, "the ledger has no key that may act for this tenant at this time", err)
	}
	c := &Consumption{
		tenant: u.Tenant, audience: u.Audience, id: u.ExecutionID, nonce: hex.EncodeToString(u.Nonce[:]), at: at,
		approval: u.Approval, step: u.Step, input: u.Input,
	}
	if c.env, err = seal(ctx, typeConsumption, c.encode(), RoleLedger, key, public); err != nil {
		return nil, failWith(CodeUnavailable, "the ledger could not sign", err)
	}
	c.digest = digest(domainUse, c.env.payload)
	if own, ok := key.(*PrivateKey); ok {
		c.made = own.public.ID
	}
	return c, nil
}

// judge holds the instant of the use against everything that has an end, and the standing grant's count against its bound.
func (u *Use) judge(at time.Time) error {
	if err := u.judgeTime(at); err != nil {
		return err
	}
	switch {
	case u.Grant.IsZero():
		return nil
	case u.GrantCount < 1:
		return fail(CodeUnavailable, "the ledger does not count the uses of standing grants")
	case u.GrantCount > u.GrantUses:
		return fail(CodePolicyDenied, "the standing grant is used up")
	}
	return nil
}

func (u *Use) judgeTime(at time.Time) error {
	if err := within(at, u.IssuedAt, u.NotBefore, u.ExpiresAt, u.Skew); err != nil {
		return err
	}
	if !u.FreshUntil.IsZero() && at.After(u.FreshUntil) {
		return fail(CodePolicyDenied, "a source's observation is too old")
	}
	if at.Before(u.KeysFrom) || !u.KeysUntil.IsZero() && !at.Before(u.KeysUntil) {
		return fail(CodeSignatureInvalid, "an approver's key may not act at this time")
	}
	return nil
}

const kindConsumption = "counterfoil.consumption"

// A Consumption is the ledger's signed record that a use is spent.
type Consumption struct {
	tenant, audience, id, nonce string
	at                          time.Time
	approval                    Digest
	step                        string
	input                       Digest

	env    *envelope
	digest Digest
	made   KeyID // set when a PrivateKey of this process made it: this very signature need not be verified again
}

func (c *Consumption) encode() []byte {
	w := &writer{b: make([]byte, 0, 512)}
	w.open('{')
	w.digest("approvalDigest", c.approval)
	w.text("audience", c.audience)
	w.time("consumedAt", c.at)
	w.text("id", c.id)
	w.digest("inputDigest", c.input)
	w.text("kind", kindConsumption)
	w.text("nonce", c.nonce)
	w.text("stepId", c.step)
	w.text("tenant", c.tenant)
	w.text("version", version)
	w.close('}')
	return w.b
}

// ParseConsumption reads a consumption record's envelope. It verifies nothing.
func ParseConsumption(b []byte) (*Consumption, error) {
	env, err := parseEnvelope(b, typeConsumption)
	if err != nil {
		return nil, err
	}
	return readConsumption(env)
}

func readConsumption(env *envelope) (*Consumption, error) {
	r, err := env.payloadReader()
	if err != nil {
		return nil, err
	}
	var m [10]value
	r.members(r.root(), m[:], "approvalDigest", "audience", "consumedAt", "id", "inputDigest", "kind", "nonce", "stepId", "tenant", "version")
	c := &Consumption{
		env: env, digest: digest(domainUse, env.payload), approval: r.digest(m[0]), audience: r.identity(m[1]), at: r.time(m[2]),
		id: r.identity(m[3]), input: r.digest(m[4]), nonce: r.text(m[6]), step: r.identity(m[7]), tenant: r.identity(m[8]),
	}
	r.literal(m[5], kindConsumption)
	r.literal(m[9], version)
	if raw, err := hex.DecodeString(c.nonce); r.err == nil && (err != nil || len(raw) != 16 || hex.EncodeToString(raw) != c.nonce) {
		r.fail(m[6], "a nonce is 32 lower-case hex digits")
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// Digest returns the use digest: of the record without its signature.
func (c *Consumption) Digest() Digest { return c.digest }

// At returns the instant that the ledger gave the use.
func (c *Consumption) At() time.Time { return c.at }

// ExecutionID returns the id of the execution that spent the use.
func (c *Consumption) ExecutionID() string { return c.id }

// Envelope returns a copy of the signed envelope's bytes, which ParseConsumption reads.
func (c *Consumption) Envelope() []byte { return slices.Clone(c.env.canon) }

// spends checks that the record is for a step of this approval.
func (c *Consumption) spends(a *Approval) error {
	step := a.step(c.step)
	if c.tenant != a.tenant || c.audience != a.audience || c.approval != a.digest || step == nil || step.input != c.input {
		return fail(CodeIntegrityFailed, "the consumption record is for another use")
	}
	return nil
}

// verify checks the ledger's signature and that the record spends this step of this approval, inside its window.
func (c *Consumption) verify(a *Approval, skew time.Duration, ring *KeyRing, past *history) error {
	if err := c.spends(a); err != nil {
		return err
	}
	if err := within(c.at, a.issued, a.from, a.expires, skew); err != nil {
		return err
	}
	return c.verifySignature(ring, false, past)
}

// verifySignature checks that a ledger key of the ring signed, which may act at the instant of the use. A record that a key of
// this process made is spared the curve arithmetic if the caller says so.
func (c *Consumption) verifySignature(ring *KeyRing, spareOwn bool, past *history) error {
	s, err := c.env.single()
	if err != nil {
		return err
	}
	var key *PublicKey
	if spareOwn && s.key == c.made {
		key, err = ring.find(Message{role: RoleLedger}, s)
	} else {
		key, err = ring.verify(c.env.message(RoleLedger), s)
	}
	if err != nil {
		return err
	}
	return past.mayAct(key, c.tenant, c.at)
}

// use returns the right that the authorization is for.
func (a *Authorization) use(executionID string, nonce [16]byte) Use {
	u := Use{
		Tenant: a.approval.tenant, Audience: a.approval.audience, Approval: a.approval.digest, Step: a.step.ID, Input: a.step.InputDigest,
		ExecutionID: executionID, Nonce: nonce, IssuedAt: a.approval.issued, NotBefore: a.approval.from,
		ExpiresAt: a.approval.expires, Skew: a.dry.policy.skew, FreshUntil: a.fresh, Guards: guards(a.dry, a.approval, a.keys),
	}
	if a.dry.policy.ordered {
		u.After = a.dry.plan.before(a.step.ID)
	}
	if g := a.approval.grant; g != nil {
		u.Grant, u.GrantUses = g.digest, g.p.MaxUses
	}
	for _, k := range a.keys {
		if k.NotBefore.After(u.KeysFrom) {
			u.KeysFrom = k.NotBefore
		}
		if end := k.until(); !end.IsZero() && (u.KeysUntil.IsZero() || end.Before(u.KeysUntil)) {
			u.KeysUntil = end
		}
	}
	return u
}
