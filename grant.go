package counterfoil

import (
	"context"
	"slices"
	"time"
)

const (
	kindGrant = "counterfoil.standing-grant"

	typeGrant payloadType = "application/vnd.counterfoil.standing-grant.v1+json"

	// MaxGrantLifetime is the longest that a standing grant may last.
	MaxGrantLifetime = 7 * 24 * time.Hour

	maxGrantUses = 1_000_000
)

// A StandingGrant is a person's signed word that calls of one kind may be approved without asking again. A use of it is a
// fresh approval, signed by the policy key, that names the grant. ParseStandingGrant and Grant are its only makers.
type StandingGrant struct {
	p        GrantParams
	issued   time.Time
	approver string

	env    *envelope
	digest Digest
}

// GrantParams is what Grant signs.
type GrantParams struct {
	Tenant, Audience string
	ID               string
	Principal        string // the plan's actor
	Upstream         string // the source's id
	SourceVersion    string // the digest of the upstream's pin
	Tool             string
	Definition       Digest // of the tool, as DefinitionDigest makes it: the source's schema version
	Predicate        []byte // any JSON: what the arguments must be like. The host evaluates it, this package does not
	MaxUses          int64  // 1 to 1,000,000; the host's ledger counts them
	ExpiresAt        time.Time
	Reason           string
}

// Grant signs a standing grant with a person's own key. It begins now and lasts seven days at most.
func Grant(ctx context.Context, p GrantParams, signer Signer, now time.Time) (*StandingGrant, error) {
	key, err := publicOf(signer)
	if err != nil {
		return nil, err
	}
	w, err := PrepareGrant(p, key, now)
	if err != nil {
		return nil, err
	}
	return w.sign(ctx, signer)
}

// PrepareGrant does what Grant does, for a signature that is made elsewhere with the key.
func PrepareGrant(p GrantParams, key PublicKey, now time.Time) (*Pending[StandingGrant], error) {
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	if key.Custody != CustodyHolder {
		return nil, fail(CodeSignatureInvalid, "a standing grant is signed with the person's own key")
	}
	if p.ExpiresAt, err = instant(p.ExpiresAt); err != nil {
		return nil, err
	}
	if p.Predicate, err = Canonicalize(p.Predicate); err != nil {
		return nil, err
	}
	payload := (&StandingGrant{p: p, issued: at, approver: key.Owner}).encode()
	g, err := grantIn(payload) // the parser is the one judge of what a grant may say
	if err != nil {
		return nil, err
	}
	env := &envelope{typ: typeGrant, payload: payload}
	return &Pending[StandingGrant]{env: env, role: RoleApprover, key: key, finish: func(env *envelope) *StandingGrant {
		c := *g
		c.env = env
		return &c
	}}, nil
}

func (g *StandingGrant) encode() []byte {
	w := &writer{b: make([]byte, 0, 1024)}
	w.open('{')
	w.text("approver", g.approver)
	w.text("audience", g.p.Audience)
	w.digest("definitionDigest", g.p.Definition)
	w.time("expiresAt", g.p.ExpiresAt)
	w.text("id", g.p.ID)
	w.time("issuedAt", g.issued)
	w.text("kind", kindGrant)
	w.count("maxUses", g.p.MaxUses)
	w.raw("predicate", g.p.Predicate)
	w.text("principal", g.p.Principal)
	w.text("reason", g.p.Reason)
	w.text("sourceVersion", g.p.SourceVersion)
	w.text("tenant", g.p.Tenant)
	w.text("tool", g.p.Tool)
	w.text("upstream", g.p.Upstream)
	w.text("version", version)
	w.close('}')
	return w.b
}

// ParseStandingGrant reads a standing grant's envelope. It verifies nothing: Authorize and VerifyBundle do.
func ParseStandingGrant(b []byte) (*StandingGrant, error) {
	env, err := parseEnvelope(b, typeGrant)
	if err != nil {
		return nil, err
	}
	return readGrant(env)
}

func readGrant(env *envelope) (*StandingGrant, error) {
	g, err := grantIn(env.payload)
	if err != nil {
		return nil, err
	}
	g.env = env
	return g, nil
}

func grantIn(payload []byte) (*StandingGrant, error) {
	r, err := newSignedReader(payload, documentLimits())
	if err != nil {
		return nil, err
	}
	var m [16]value
	r.members(r.root(), m[:], "approver", "audience", "definitionDigest", "expiresAt", "id", "issuedAt", "kind", "maxUses", "predicate",
		"principal", "reason", "sourceVersion", "tenant", "tool", "upstream", "version")
	g := &StandingGrant{approver: r.identity(m[0]), issued: r.time(m[5]), digest: digest(domainGrant, payload), p: GrantParams{
		Audience: r.identity(m[1]), Definition: r.digest(m[2]), ExpiresAt: r.time(m[3]), ID: r.identity(m[4]),
		MaxUses: r.countBetween(m[7], 1, maxGrantUses), Predicate: r.raw(m[8]), Principal: r.identity(m[9]), Reason: r.text(m[10]),
		SourceVersion: r.identity(m[11]), Tenant: r.identity(m[12]), Tool: r.identity(m[13]), Upstream: r.identity(m[14]),
	}}
	r.literal(m[6], kindGrant)
	r.literal(m[15], version)
	if life := g.p.ExpiresAt.Sub(g.issued); r.err == nil && (life <= 0 || life > MaxGrantLifetime) {
		r.fail(m[3], "a standing grant ends after it begins and lasts seven days at most")
	}
	if r.err != nil {
		return nil, r.err
	}
	return g, nil
}

// Digest returns the digest of the grant's payload: what an approval under it names as its authority.
func (g *StandingGrant) Digest() Digest { return g.digest }

// Envelope returns a copy of the signed envelope's bytes, which ParseStandingGrant reads.
func (g *StandingGrant) Envelope() []byte { return slices.Clone(g.env.canon) }

// Params returns what the grant says.
func (g *StandingGrant) Params() GrantParams {
	p := g.p
	p.Predicate = slices.Clone(p.Predicate)
	return p
}

// Approver returns who gave the grant.
func (g *StandingGrant) Approver() string { return g.approver }

// IssuedAt returns when it was given, and begins.
func (g *StandingGrant) IssuedAt() time.Time { return g.issued }

// Under returns the approval together with the grant that it rests on, which a parsed approval only names. It fails with
// CodeIntegrityFailed for another grant.
func (a *Approval) Under(g *StandingGrant) (*Approval, error) {
	if g == nil || g.env == nil || a.kind != AuthorityGrant || a.authority != g.digest {
		return nil, fail(CodeIntegrityFailed, "the approval does not rest on this grant")
	}
	c := *a
	c.grant = g
	return &c, nil
}

// Grant returns the standing grant that the approval rests on, nil for none.
func (a *Approval) Grant() *StandingGrant { return a.grant }

// covers checks everything that ties a grant to an approval and its dry run and needs neither a key nor the time. The
// predicate is not evaluated and the uses are not counted here.
func (g *StandingGrant) covers(a *Approval, dry *DryRun) error {
	switch {
	case g == nil || a.authority != g.digest:
		return fail(CodeIntegrityFailed, "the standing grant that the approval rests on is not there")
	case g.p.Tenant != a.tenant || g.p.Audience != a.audience:
		return fail(CodeIntegrityFailed, "the standing grant is for another tenant or audience")
	case g.p.Principal != dry.plan.actor:
		return fail(CodePolicyDenied, "the standing grant is for another principal")
	case !dry.policy.selfApproval && g.approver == dry.plan.actor:
		return fail(CodeSelfApproval, "the plan's own actor gave the standing grant")
	case a.issued.Before(g.issued):
		return fail(CodeNotYetValid, "the approval is older than the standing grant that it rests on")
	case a.expires.After(g.p.ExpiresAt):
		return fail(CodeApprovalExpired, "the approval outlives the standing grant that it rests on")
	}
	for i := range dry.plan.steps {
		s := &dry.plan.steps[i]
		switch {
		case s.Effect.Class() == ClassDestructive:
			return failAt(CodePolicyDenied, stepPath(i, "effect"), "a standing grant never approves a destructive effect")
		case s.Tool != g.p.Tool:
			return failAt(CodePolicyDenied, stepPath(i, "tool"), "the standing grant is for another tool")
		case s.Source.ID != g.p.Upstream || s.Source.SourceVersion != g.p.SourceVersion || s.Source.SchemaVersion != g.p.Definition.String():
			return failAt(CodePolicyDenied, stepPath(i, "source"), "the standing grant is for another upstream or definition")
		}
	}
	return nil
}

// verify checks that a person's own key, which may act at the instant, signed the grant.
func (g *StandingGrant) verify(ring *KeyRing, at time.Time, past *history) (*PublicKey, error) {
	s, err := g.env.single()
	if err != nil {
		return nil, err
	}
	key, err := ring.verify(g.env.message(RoleApprover), s)
	if err != nil {
		return nil, err
	}
	if key.Owner != g.approver || key.Custody != CustodyHolder {
		return nil, fail(CodeSignatureInvalid, "the standing grant is not signed with its approver's own key")
	}
	own := key.clone()
	return &own, past.mayAct(key, g.p.Tenant, at)
}
