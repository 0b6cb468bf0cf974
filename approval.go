package counterfoil

import (
	"context"
	"slices"
	"time"
)

const kindApproval = "counterfoil.approval"

// An AuthorityKind says what an approval rests on. The zero kind is none.
type AuthorityKind string

// The kinds.
const (
	AuthorityPolicy AuthorityKind = "policy" // the rules allow it; the gateway's policy key signs
	AuthorityPerson AuthorityKind = "person" // a person looked at the dry run and signs
	AuthorityGrant  AuthorityKind = "grant"  // a person's standing grant allows it; the gateway's policy key signs
)

// role is the role of the keys that may sign under this authority.
func (k AuthorityKind) role() Role {
	if k == AuthorityPolicy || k == AuthorityGrant {
		return RolePolicy
	}
	return RoleApprover
}

// A Limit narrows what a step may return.
type Limit struct{ Rows, Bytes int64 }

// An ApprovalRequest is what a host asks a signer to approve.
type ApprovalRequest struct {
	ID        string
	Authority AuthorityKind
	Reason    string // optional; shown in the receipt
	IssuedAt  time.Time
	NotBefore time.Time // optional: not before IssuedAt when absent
	ExpiresAt time.Time
	Limits    map[string]Limit // by step id; a step without an entry keeps the plan's limits
	Approvers []string         // everybody who must sign, the first signer among them; the signer alone when absent
	Grant     *StandingGrant   // under AuthorityGrant alone
}

// An approvedStep is one step as it was approved.
type approvedStep struct {
	id    string
	input Digest
	limit Limit
}

// An Approval is a signed right to run each of a plan's steps once.
type Approval struct {
	tenant, audience string
	id               string
	kind             AuthorityKind
	authority        Digest
	approvers        []string
	reason           string
	issued, from     time.Time
	expires          time.Time
	evaluated        time.Time
	plan, policy     Digest
	bindings         Digest
	rows, bytes      int64
	steps            []approvedStep
	grant            *StandingGrant // under AuthorityGrant; not in the payload, which names its digest

	env    *envelope
	digest Digest
	made   KeyID // set when a PrivateKey of this process made it: this very signature need not be verified again
}

// Approve has signer approve a dry run, as it stands or narrowed. The authority's digest is the dry run's for a person
// (what they were shown), the rules' for policy, and the grant's for a standing grant. Neither of the latter ever approves
// a destructive effect. An approval that names more approvers than one can be used when each has signed: see CoSign.
//
// It fails with CodePolicyDenied for a limit wider than the plan's, a lifetime beyond the policy's, a destructive effect
// without a person or a call that the grant is not for, CodeSelfApproval when an approver is the plan's actor,
// CodeQuorumMissing when the approvers are too few for the policy, CodeApprovalExpired and CodeInvalidInput for times out
// of order.
func Approve(ctx context.Context, dry *DryRun, req ApprovalRequest, signer Signer, now time.Time) (*Approval, error) {
	key, err := publicOf(signer)
	if err != nil {
		return nil, err
	}
	p, err := PrepareApproval(dry, req, key, now)
	if err != nil {
		return nil, err
	}
	a, err := p.sign(ctx, signer)
	if err != nil {
		return nil, err
	}
	if own, ok := signer.(*PrivateKey); ok {
		a.made = own.public.ID
	}
	return a, nil
}

// PrepareApproval does what Approve does, for a signature that is made elsewhere with the key.
func PrepareApproval(dry *DryRun, req ApprovalRequest, key PublicKey, now time.Time) (*PendingApproval, error) {
	if !dry.made() {
		return nil, fail(CodeInvalidInput, "an approval needs a dry run")
	}
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	a, err := draftApproval(dry, req, key.Owner)
	if err != nil {
		return nil, err
	}
	if err := a.checkIssue(dry, at); err != nil {
		return nil, err
	}
	return a.pending(&envelope{typ: typeApproval, payload: a.encode()}, key), nil
}

// approversOf returns everybody who must sign, in order.
func approversOf(req ApprovalRequest, signer string) ([]string, error) {
	all := slices.Clone(req.Approvers)
	if len(all) == 0 {
		all = []string{signer}
	}
	for _, who := range all {
		if err := CheckIdentity(who); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, compareUTF16)
	switch {
	case len(all) > maxSignatures, len(slices.Compact(slices.Clone(all))) != len(all), !slices.Contains(all, signer):
		return nil, failAt(CodeInvalidInput, "/approvers", "the approvers are 32 at most, each once, and the signer is one of them")
	case len(all) > 1 && req.Authority != AuthorityPerson:
		return nil, failAt(CodeInvalidInput, "/approvers", "only what persons approve is signed by several")
	}
	return all, nil
}

func draftApproval(dry *DryRun, req ApprovalRequest, approver string) (*Approval, error) {
	a := &Approval{
		tenant: dry.plan.tenant, audience: dry.plan.audience, id: req.ID, kind: req.Authority,
		reason: req.Reason, evaluated: dry.evaluated,
		plan: dry.plan.digest, policy: dry.policy.digest, bindings: dry.plan.bindings,
	}
	var err error
	if a.approvers, err = approversOf(req, approver); err != nil {
		return nil, err
	}
	if err := CheckIdentity(req.ID); err != nil {
		return nil, err
	}
	if msg := faultInText(req.Reason); req.Reason != "" && msg != "" {
		return nil, failAt(CodeInvalidInput, "/reason", msg)
	}
	if a.issued, err = instant(req.IssuedAt); err != nil {
		return nil, err
	}
	if a.expires, err = instant(req.ExpiresAt); err != nil {
		return nil, err
	}
	a.from = a.issued
	if !req.NotBefore.IsZero() {
		if a.from, err = instant(req.NotBefore); err != nil {
			return nil, err
		}
	}
	for i := range dry.plan.steps {
		s := &dry.plan.steps[i]
		l, narrowed := req.Limits[s.ID]
		if !narrowed {
			l = Limit{s.Rows, s.Bytes}
		}
		if l.Rows < 0 || l.Bytes < 0 || l.Rows > s.Rows || l.Bytes > s.Bytes {
			return nil, failAt(CodePolicyDenied, stepPath(i, "limits"), "an approval can narrow a plan, never widen it")
		}
		a.steps = append(a.steps, approvedStep{s.ID, s.InputDigest, l})
		a.rows, a.bytes = a.rows+l.Rows, a.bytes+l.Bytes
	}
	for id := range req.Limits {
		if dry.plan.step(id) == nil {
			return nil, fail(CodeInvalidInput, "the approval limits a step that the plan does not have")
		}
	}
	switch {
	case (req.Grant != nil) != (req.Authority == AuthorityGrant) || req.Grant != nil && req.Grant.env == nil:
		return nil, fail(CodeInvalidInput, "a standing grant goes with the authority of that kind")
	case req.Authority == AuthorityPerson:
		a.authority = dry.digest
	case req.Authority == AuthorityPolicy:
		a.authority = dry.policy.rules
	case req.Authority == AuthorityGrant:
		a.authority, a.grant = req.Grant.digest, req.Grant
	}
	return a, nil
}

// checkIssue makes the checks of issuance that verification does not repeat, then those that it does.
func (a *Approval) checkIssue(dry *DryRun, now time.Time) error {
	skew := dry.policy.skew
	switch {
	case a.issued.After(now.Add(skew)):
		return fail(CodeInvalidInput, "the approval lies in the future")
	case !now.Before(a.expires.Add(skew)):
		return fail(CodeApprovalExpired, "the approval has ended already")
	}
	if err := dry.policy.evaluate(dry.plan, now); err != nil {
		return err
	}
	return a.match(dry)
}

// match checks everything that ties an approval to a dry run and needs neither a key nor the time (INV-6).
func (a *Approval) match(dry *DryRun) error {
	switch {
	case a.tenant != dry.plan.tenant || a.audience != dry.plan.audience:
		return fail(CodeIntegrityFailed, "the approval is for another tenant or audience")
	case a.plan != dry.plan.digest || a.policy != dry.policy.digest || a.bindings != dry.plan.bindings:
		return fail(CodeIntegrityFailed, "the approval is for another plan or policy")
	case !a.evaluated.Equal(dry.evaluated):
		return fail(CodeIntegrityFailed, "the approval is for another evaluation of the plan")
	case len(a.steps) != len(dry.plan.steps):
		return fail(CodeIntegrityFailed, "the approval has other steps than the plan")
	case a.issued.Before(a.evaluated):
		return fail(CodeInvalidInput, "the approval is older than the dry run")
	case !a.expires.After(a.issued) || !a.expires.After(a.from) || a.from.Before(a.issued):
		return fail(CodeInvalidInput, "the approval's times are out of order")
	case a.expires.Sub(a.issued) > dry.policy.lifetime:
		return fail(CodePolicyDenied, "the approval lives longer than the policy allows")
	case !dry.policy.selfApproval && slices.Contains(a.approvers, dry.plan.actor):
		return fail(CodeSelfApproval, "the approver is the plan's own actor")
	case !dry.policy.quorum.metBy(a.approvers):
		return fail(CodeQuorumMissing, "the approval names too few of those of whom the policy asks for several")
	}
	var rows, size int64
	for i := range a.steps {
		s, planned := &a.steps[i], &dry.plan.steps[i]
		if s.id != planned.ID || s.input != planned.InputDigest {
			return failAt(CodeIntegrityFailed, stepPath(i, "inputDigest"), "the approval is for another operation")
		}
		if s.limit.Rows > planned.Rows || s.limit.Bytes > planned.Bytes {
			return failAt(CodePolicyDenied, stepPath(i, "limits"), "an approval can narrow a plan, never widen it")
		}
		rows, size = rows+s.limit.Rows, size+s.limit.Bytes
	}
	if rows != a.rows || size != a.bytes {
		return fail(CodeIntegrityFailed, "the approval's totals are not the sums of its steps")
	}
	return a.matchAuthority(dry)
}

func (a *Approval) matchAuthority(dry *DryRun) error {
	switch a.kind {
	case AuthorityPerson:
		if a.authority != dry.digest {
			return fail(CodeIntegrityFailed, "the person approved another dry run")
		}
		return nil
	case AuthorityPolicy:
		if dry.policy.rules.IsZero() || a.authority != dry.policy.rules {
			return fail(CodeIntegrityFailed, "the approval rests on other rules than the policy's")
		}
		for i := range dry.plan.steps {
			if dry.plan.steps[i].Effect.Class() == ClassDestructive {
				return failAt(CodePolicyDenied, stepPath(i, "effect"), "policy alone never approves a destructive effect")
			}
		}
		return nil
	case AuthorityGrant:
		return a.grant.covers(a, dry)
	default:
		return fail(CodeInvalidInput, "the approval's authority is not known")
	}
}

// within reports whether an instant lies in the approval's window. The skew is applied once to each comparison.
func within(at, issued, from, expires time.Time, skew time.Duration) error {
	if at.Before(issued.Add(-skew)) || at.Before(from.Add(-skew)) {
		return fail(CodeNotYetValid, "the approval is not valid yet")
	}
	if !at.Before(expires.Add(skew)) {
		return fail(CodeApprovalExpired, "the approval has expired")
	}
	return nil
}

// verify checks the signatures: each by a key of the right role that may act for the tenant at the instant, each owner an
// approver, each approver among the owners. It returns the keys, and last that of the standing grant, if there is one. An approval that a key of this process made a moment ago
// is spared the curve arithmetic if the caller says so; the ring must have the key all the same. The past is what a log shows of keys.
func (a *Approval) verify(ring *KeyRing, at time.Time, spareOwn bool, past *history) ([]PublicKey, error) {
	if a.Missing() > 0 {
		return nil, fail(CodeQuorumMissing, "an approver that the approval names has not signed")
	}
	m := a.env.message(a.kind.role())
	keys := make([]PublicKey, 0, len(a.env.signatures))
	for _, s := range a.env.signatures {
		find := ring.verify
		if spareOwn && s.key == a.made {
			find = ring.find
		}
		key, err := find(m, s)
		if err != nil {
			return nil, err
		}
		if err := past.mayAct(key, a.tenant, at); err != nil {
			return nil, err
		}
		again := func(k PublicKey) bool { return k.Owner == key.Owner }
		if slices.ContainsFunc(keys, again) || !slices.Contains(a.approvers, key.Owner) {
			return nil, fail(CodeSignatureInvalid, "the signature is not by one of the approvers, or not by distinct ones")
		}
		keys = append(keys, key.clone())
	}
	if a.grant != nil {
		key, err := a.grant.verify(ring, at, past)
		if err != nil {
			return nil, err
		}
		keys = append(keys, *key)
	}
	return keys, nil
}

func (a *Approval) encode() []byte {
	w := &writer{b: make([]byte, 0, 1024)}
	w.open('{')
	w.count("approvedBytes", a.bytes)
	w.count("approvedRows", a.rows)
	w.list("approvers", a.approvers)
	w.text("audience", a.audience)
	w.name("authority")
	w.open('{')
	w.digest("digest", a.authority)
	w.text("kind", string(a.kind))
	w.close('}')
	w.digest("bindingsDigest", a.bindings)
	w.time("evaluatedAt", a.evaluated)
	w.time("expiresAt", a.expires)
	w.text("id", a.id)
	w.time("issuedAt", a.issued)
	w.text("kind", kindApproval)
	if !a.from.Equal(a.issued) {
		w.time("notBefore", a.from)
	}
	w.digest("planDigest", a.plan)
	w.digest("policyDigest", a.policy)
	w.maybe("reason", a.reason)
	w.name("steps")
	w.open('[')
	for i := range a.steps {
		s := &a.steps[i]
		w.open('{')
		w.count("bytes", s.limit.Bytes)
		w.text("id", s.id)
		w.digest("inputDigest", s.input)
		w.count("rows", s.limit.Rows)
		w.close('}')
	}
	w.close(']')
	w.text("tenant", a.tenant)
	w.text("use", "single")
	w.text("version", version)
	w.close('}')
	return w.b
}

// ParseApproval reads an approval's envelope. It verifies nothing: Authorize and VerifyBundle do.
func ParseApproval(b []byte) (*Approval, error) {
	env, err := parseEnvelope(b, typeApproval)
	if err != nil {
		return nil, err
	}
	return readApproval(env)
}

func readApproval(env *envelope) (*Approval, error) {
	r, err := env.payloadReader()
	if err != nil {
		return nil, err
	}
	var m [20]value
	r.members(r.root(), m[:], "approvedBytes", "approvedRows", "approvers", "audience", "authority", "bindingsDigest", "evaluatedAt",
		"expiresAt", "id", "issuedAt", "kind", "notBefore?", "planDigest", "policyDigest", "reason?", "steps", "tenant", "use", "version")
	a := &Approval{
		env: env, digest: digest(domainApproval, env.payload),
		bytes: r.count(m[0]), rows: r.count(m[1]), approvers: r.list(m[2], 1, maxSignatures), audience: r.identity(m[3]),
		bindings: r.digest(m[5]), evaluated: r.time(m[6]), expires: r.time(m[7]), id: r.identity(m[8]), issued: r.time(m[9]),
		plan: r.digest(m[12]), policy: r.digest(m[13]), reason: r.text(m[14]), tenant: r.identity(m[16]),
	}
	r.literal(m[10], kindApproval)
	r.literal(m[17], "single")
	r.literal(m[18], version)
	a.from = a.issued
	if r.has(m[11]) {
		if a.from = r.time(m[11]); a.from.Equal(a.issued) {
			r.fail(m[11], "notBefore says nothing that issuedAt does not")
		}
	}
	var auth [2]value
	r.members(m[4], auth[:], "digest", "kind")
	a.authority, a.kind = r.digest(auth[0]), oneOf(r, auth[1], "authority", AuthorityPerson, AuthorityPolicy, AuthorityGrant)
	for _, n := range r.elements(m[15], maxSteps) {
		a.steps = append(a.steps, readApprovedStep(r, n))
	}
	if r.err != nil {
		return nil, r.err
	}
	return a, nil
}

func readApprovedStep(r *reader, n value) approvedStep {
	var m [4]value
	r.members(n, m[:], "bytes", "id", "inputDigest", "rows")
	return approvedStep{id: r.identity(m[1]), input: r.digest(m[2]), limit: Limit{Rows: r.count(m[3]), Bytes: r.count(m[0])}}
}

// Digest returns the digest of the approval's payload. The signatures are not part of it.
func (a *Approval) Digest() Digest { return a.digest }

// Envelope returns a copy of the signed envelope's bytes, which ParseApproval reads.
func (a *Approval) Envelope() []byte { return slices.Clone(a.env.canon) }

// ID returns the approval's id.
func (a *Approval) ID() string { return a.id }

// Authority returns what the approval rests on.
func (a *Approval) Authority() AuthorityKind { return a.kind }

// Approvers returns the identities that approved.
func (a *Approval) Approvers() []string { return slices.Clone(a.approvers) }

// Reason returns the approver's reason, "" for none.
func (a *Approval) Reason() string { return a.reason }

// IssuedAt returns when the approval was given.
func (a *Approval) IssuedAt() time.Time { return a.issued }

// ExpiresAt returns when the approval ends: at that instant it is no longer valid.
func (a *Approval) ExpiresAt() time.Time { return a.expires }

func (a *Approval) step(id string) *approvedStep {
	for i := range a.steps {
		if a.steps[i].id == id {
			return &a.steps[i]
		}
	}
	return nil
}
