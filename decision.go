package counterfoil

import (
	"context"
	"slices"
	"time"
)

const kindDecision = "counterfoil.decision"

// A Verb is what a decision decides. Approving is not among them: an Approval is a document of its own.
type Verb string

// The verbs.
const (
	VerbDeny     Verb = "deny"     // subject: the digest of the dry run that was shown
	VerbClassify Verb = "classify" // subject: RulesDigest of the classification that was shown
	VerbRevoke   Verb = "revoke"   // subject: an approval's or a policy's digest, ActorSubject or KeySubject
)

// A Decision is a person's signed word on something other than an approval.
type Decision struct {
	tenant, audience string
	verb             Verb
	subject          Digest
	approver         string
	reason           string
	why              RevocationReason
	at               time.Time
	env              *envelope
}

// DecisionParams is what Decide signs.
type DecisionParams struct {
	Tenant, Audience string
	Verb             Verb
	Subject          Digest
	Reason           string           // optional
	Why              RevocationReason // of a revocation, and of nothing else
}

// Decide signs a decision with an approver's key.
func Decide(ctx context.Context, p DecisionParams, signer Signer, now time.Time) (*Decision, error) {
	key, err := publicOf(signer)
	if err != nil {
		return nil, err
	}
	w, err := PrepareDecision(p, key, now)
	if err != nil {
		return nil, err
	}
	return w.sign(ctx, signer)
}

// PrepareDecision does what Decide does, for a signature that is made elsewhere with the key.
func PrepareDecision(p DecisionParams, key PublicKey, now time.Time) (*Pending[Decision], error) {
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	said := &Decision{tenant: p.Tenant, audience: p.Audience, verb: p.Verb, subject: p.Subject, reason: p.Reason, why: p.Why, at: at, approver: key.Owner}
	payload := said.encode()
	d, err := decisionIn(payload) // the parser is the one judge of what a decision may say
	if err != nil {
		return nil, err
	}
	env := &envelope{typ: typeDecision, payload: payload}
	return &Pending[Decision]{env: env, role: RoleApprover, key: key, finish: func(env *envelope) *Decision {
		c := *d
		c.env = env
		return &c
	}}, nil
}

func (d *Decision) encode() []byte {
	w := &writer{b: make([]byte, 0, 512)}
	w.open('{')
	w.text("approver", d.approver)
	w.text("audience", d.audience)
	w.time("decidedAt", d.at)
	w.text("kind", kindDecision)
	w.maybe("reason", d.reason)
	w.digest("subject", d.subject)
	w.text("tenant", d.tenant)
	w.text("verb", string(d.verb))
	w.text("version", version)
	w.maybe("why", string(d.why))
	w.close('}')
	return w.b
}

// ParseDecision reads a decision's envelope. It verifies nothing: Verify does.
func ParseDecision(b []byte) (*Decision, error) {
	env, err := parseEnvelope(b, typeDecision)
	if err != nil {
		return nil, err
	}
	return readDecision(env)
}

func readDecision(env *envelope) (*Decision, error) {
	d, err := decisionIn(env.payload)
	if err != nil {
		return nil, err
	}
	d.env = env
	return d, nil
}

func decisionIn(payload []byte) (*Decision, error) {
	r, err := newSignedReader(payload, documentLimits())
	if err != nil {
		return nil, err
	}
	var m [10]value
	r.members(r.root(), m[:], "approver", "audience", "decidedAt", "kind", "reason?", "subject", "tenant", "verb", "version", "why?")
	d := &Decision{
		approver: r.identity(m[0]), audience: r.identity(m[1]), at: r.time(m[2]), reason: r.text(m[4]), subject: r.digest(m[5]),
		tenant: r.identity(m[6]), verb: oneOf(r, m[7], "verb", VerbDeny, VerbClassify, VerbRevoke),
		why: oneOf(r, m[9], "why", RevokedSuperseded, RevokedCompromised),
	}
	if r.has(m[9]) != (d.verb == VerbRevoke) {
		r.fail(r.root(), "a revocation says why, and nothing else does")
	}
	r.literal(m[3], kindDecision)
	r.literal(m[8], version)
	if r.err != nil {
		return nil, r.err
	}
	return d, nil
}

// Verify checks that an approver's key of the ring signed this verb on this subject for this tenant and audience.
func (d *Decision) Verify(ring *KeyRing, p DecisionParams) error {
	if d.env == nil || d.tenant != p.Tenant || d.audience != p.Audience || d.verb != p.Verb || d.subject != p.Subject || d.why != p.Why {
		return fail(CodeIntegrityFailed, "the decision is about something else")
	}
	key, err := d.signer(ring)
	if err != nil {
		return err
	}
	return key.MayAct(d.tenant, d.at)
}

// signer returns the key of the ring that signed, which is its approver's.
func (d *Decision) signer(ring *KeyRing) (*PublicKey, error) {
	s, err := d.env.single()
	if err != nil {
		return nil, err
	}
	key, err := ring.verify(d.env.message(RoleApprover), s)
	if err != nil {
		return nil, err
	}
	if key.Owner != d.approver {
		return nil, fail(CodeSignatureInvalid, "the key may not decide for this person")
	}
	return key, nil
}

// Tenant returns the tenant.
func (d *Decision) Tenant() string { return d.tenant }

// Verb returns what was decided.
func (d *Decision) Verb() Verb { return d.verb }

// Subject returns what it was decided about.
func (d *Decision) Subject() Digest { return d.subject }

// Why returns why something was revoked, "" for every other decision.
func (d *Decision) Why() RevocationReason { return d.why }

// Approver returns who decided.
func (d *Decision) Approver() string { return d.approver }

// At returns when.
func (d *Decision) At() time.Time { return d.at }

// Reason returns why, "" when it was not said.
func (d *Decision) Reason() string { return d.reason }

// Digest returns the digest of the decision's envelope, by which an event of the log names it. Unlike other digests it covers
// the signature: what a decision says is little, and could be guessed from a digest of that alone (INV-9).
func (d *Decision) Digest() Digest { return digest(domainDecision, d.env.canon) }

// Envelope returns a copy of the signed envelope's bytes, which ParseDecision reads.
func (d *Decision) Envelope() []byte { return slices.Clone(d.env.canon) }
