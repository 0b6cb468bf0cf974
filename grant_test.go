package counterfoil_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

const predicate = `{"arguments":{"where":"status = 'open'"}}`

func definition() counterfoil.Digest { return counterfoil.ResultDigest([]byte("definition")) }

func grantParams() counterfoil.GrantParams {
	return counterfoil.GrantParams{
		Tenant: "acme", Audience: "log.example.test", ID: "grant-1", Principal: "agent:planner", Upstream: "incidents",
		SourceVersion: "snapshot-9", Tool: "query", Definition: definition(), Predicate: []byte(" " + predicate), MaxUses: 2,
		ExpiresAt: now().Add(7 * 24 * time.Hour), Reason: "the nightly report",
	}
}

func grantPayload() doc {
	return doc{
		"kind": "counterfoil.standing-grant", "version": "1.0", "tenant": "acme", "audience": "log.example.test", "id": "grant-1",
		"principal": "agent:planner", "upstream": "incidents", "sourceVersion": "snapshot-9", "tool": "query",
		"definitionDigest": definition().String(), "predicate": decode([]byte(predicate)), "maxUses": 2, "issuedAt": stamp(now()),
		"expiresAt": stamp(now().Add(7 * 24 * time.Hour)), "reason": "the nightly report", "approver": reviewer,
	}
}

func mustGrant(t testing.TB, f func(*counterfoil.GrantParams)) *counterfoil.StandingGrant {
	t.Helper()
	p := grantParams()
	if f != nil {
		f(&p)
	}
	g, err := counterfoil.Grant(context.Background(), p, approverKey(t), now())
	noError(t, err)
	return g
}

// grantDocs are the lab's documents with a source whose schema version is a tool definition's digest.
func grantDocs() (plan, policy, op, sources doc) {
	op = operation()
	s := step(op)
	source := asDoc(s["source"])
	source["schemaVersion"] = definition().String()
	plan, policy = onePlanOf(s), grantPolicy()
	return plan, policy, op, doc{"sources": doc{"incidents": source}}
}

func grantPolicy() doc {
	p := policy()
	asDoc(inside(p, "sources", "incidents"))["schemaVersions"] = list{definition().String()}
	return p
}

func grantRequest(g *counterfoil.StandingGrant) counterfoil.ApprovalRequest {
	r := request()
	r.Authority, r.Grant = counterfoil.AuthorityGrant, g
	return r
}

func grantLab(t testing.TB, g *counterfoil.StandingGrant) *lab {
	t.Helper()
	p, pol, op, sources := grantDocs()
	l := newLabOf(t, p, pol, op)
	l.x.Context = mustContext(t, sources)
	l.x.Approval = mustApprove(t, l.x.DryRun, grantRequest(g), policyKey(t))
	return l
}

func TestGrant(t *testing.T) {
	t.Parallel()
	g := mustGrant(t, nil)
	if d := cmp.Diff(decode(canonical(grantPayload())), decode(canonical(payloadOf(g.Envelope())))); d != "" {
		t.Error(d)
	}
	again, err := counterfoil.ParseStandingGrant(g.Envelope())
	noError(t, err)
	want := grantParams()
	want.Predicate = []byte(predicate)
	for _, g := range []*counterfoil.StandingGrant{g, again} {
		if d := cmp.Diff(want, g.Params()); d != "" {
			t.Error(d)
		}
		if g.Approver() != reviewer || !g.IssuedAt().Equal(now()) || g.Digest().String() != digestOf("standing-grant", grantPayload()) {
			t.Errorf("got %s, %s, %s", g.Approver(), g.IssuedAt(), g.Digest())
		}
		g.Params().Predicate[0] = 'x'
	}
	a := newAuthenticator(t, reviewer)
	p, err := counterfoil.PrepareGrant(grantParams(), a.public, now())
	noError(t, err)
	byPasskey, err := p.Attach(a.assert(t, p.Message().Challenge()))
	noError(t, err)
	if byPasskey.Digest() != g.Digest() {
		t.Error("the digest depends on the key")
	}
	l := grantLab(t, byPasskey)
	l.x.Keys = a.ring(t)
	_, err = counterfoil.VerifyBundle(l.bundle().Encode(), l.x.Keys, tomorrow())
	noError(t, err)
}

func TestGrant_refuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		f    func(*counterfoil.GrantParams)
		code counterfoil.Code
	}{
		"no principal":         {func(p *counterfoil.GrantParams) { p.Principal = "" }, "invalid-input"},
		"no definition":        {func(p *counterfoil.GrantParams) { p.Definition = counterfoil.Digest{} }, "invalid-input"},
		"no use":               {func(p *counterfoil.GrantParams) { p.MaxUses = 0 }, "invalid-input"},
		"too many uses":        {func(p *counterfoil.GrantParams) { p.MaxUses = 1_000_001 }, "invalid-input"},
		"no reason":            {func(p *counterfoil.GrantParams) { p.Reason = "" }, "invalid-input"},
		"no predicate":         {func(p *counterfoil.GrantParams) { p.Predicate = nil }, "invalid-input"},
		"a loose predicate":    {func(p *counterfoil.GrantParams) { p.Predicate = []byte(`{"a":1,"a":2}`) }, "invalid-input"},
		"a large predicate":    {func(p *counterfoil.GrantParams) { p.Predicate = []byte(`"` + strings.Repeat("a", 2<<20) + `"`) }, "invalid-input"},
		"an end at the begin":  {func(p *counterfoil.GrantParams) { p.ExpiresAt = now() }, "invalid-input"},
		"more than seven days": {func(p *counterfoil.GrantParams) { p.ExpiresAt = now().Add(7*24*time.Hour + time.Millisecond) }, "invalid-input"},
		"no end":               {func(p *counterfoil.GrantParams) { p.ExpiresAt = time.Time{} }, "clock"},
	} {
		p, s := grantParams(), &signer{key: approverKey(t)}
		c.f(&p)
		if g, err := counterfoil.Grant(ctx, p, s, now()); counterfoil.CodeOf(err) != c.code || g != nil || s.signs != 0 {
			t.Errorf("%s: got %v, %v, %d signatures", name, g, err, s.signs)
		}
	}
	wantCode(t, drop2(counterfoil.Grant(ctx, grantParams(), nil, now())), counterfoil.CodeInvalidInput)
	wantCode(t, drop2(counterfoil.Grant(ctx, grantParams(), approverKey(t), time.Time{})), counterfoil.CodeClock)
	wantCode(t, drop2(counterfoil.Grant(ctx, grantParams(), policyKey(t), now())), counterfoil.CodeSignatureInvalid)
	p := keyParams()
	p.Custody = counterfoil.CustodyGateway
	wantCode(t, drop2(counterfoil.Grant(ctx, grantParams(), rfcKey(t, p), now())), counterfoil.CodeSignatureInvalid)
}

// A grant is used by a fresh approval that the policy key signs; the bundle has both, and says what it did not check.
func TestGrant_use(t *testing.T) {
	t.Parallel()
	l := grantLab(t, mustGrant(t, nil))
	own := l.x.Approval
	l.x.Approval = reparsed(t, own)
	l.refused(counterfoil.CodeIntegrityFailed) // the approval names the grant; somebody must bring it
	var err error
	l.x.Approval, err = l.x.Approval.Under(mustGrant(t, nil))
	noError(t, err)
	b := l.bundle().Encode()
	if l.ledger.use.Grant != mustGrant(t, nil).Digest() || l.ledger.use.GrantUses != 2 {
		t.Errorf("the use is of %s, %d times", l.ledger.use.Grant, l.ledger.use.GrantUses)
	}
	for _, subject := range []counterfoil.Digest{
		mustGrant(t, nil).Digest(), counterfoil.ActorSubject(reviewer), counterfoil.KeySubject(approverKey(t).Public().ID),
		counterfoil.KeySubject(policyKey(t).Public().ID),
	} {
		if !slices.Contains(l.ledger.use.Guards, subject) {
			t.Errorf("the revocation of %s would not stop the use", subject)
		}
	}
	rep, err := counterfoil.VerifyBundle(b, allKeys(t), tomorrow())
	noError(t, err)
	owners := []string{rep.ApprovalKeys[0].Owner, rep.ApprovalKeys[1].Owner}
	if rep.Authority != counterfoil.AuthorityGrant || rep.Grant.Digest() != mustGrant(t, nil).Digest() || !slices.Equal(owners, []string{"gateway", reviewer}) {
		t.Errorf("got %+v", rep)
	}
	if !slices.Contains(rep.Checked, "standing grant is signed by a person's own key, for this call and time") ||
		!slices.Contains(rep.Unchecked, "the standing grant's predicate, which is not evaluated here") ||
		!slices.Contains(rep.Unchecked, "how often the standing grant was used") {
		t.Errorf("checked %q, unchecked %q", rep.Checked, rep.Unchecked)
	}
	parsed, err := counterfoil.ParseBundle(b)
	noError(t, err)
	if string(parsed.Encode()) != string(b) || parsed.Approval.Grant() == nil {
		t.Error("the bundle read back prints otherwise")
	}
	for name, c := range map[string]struct {
		f    func(d doc)
		code counterfoil.Code
	}{
		"no grant":             {func(d doc) { delete(d, "standingGrant") }, "integrity-failed"},
		"another grant":        {func(d doc) { d["standingGrant"] = decode(mustGrant(t, otherReason).Envelope()) }, "integrity-failed"},
		"another document":     {func(d doc) { d["standingGrant"] = d["approval"] }, "invalid-input"},
		"a grant without form": {func(d doc) { d["standingGrant"] = decode(envelopeOf("standing-grant", []byte("{}"))) }, "invalid-input"},
		"a grant of the policy": {func(d doc) {
			d["standingGrant"] = decode(forgeEnvelope(t, "standing-grant", grantPayload(), policyKey(t)))
		}, "signature-invalid"},
		"a grant by another": {func(d doc) {
			d["standingGrant"] = decode(forgeEnvelope(t, "standing-grant", grantPayload(), colleagueKey(t)))
		}, "signature-invalid"},
		"a grant signed twice": {func(d doc) {
			d["standingGrant"] = decode(forgeEnvelope(t, "standing-grant", grantPayload(), colleagueKey(t), approverKey(t)))
		}, "signature-invalid"},
		"a grant that nobody signed": {func(d doc) { d["standingGrant"] = decode(envelopeOf("standing-grant", canonical(grantPayload()))) }, "signature-invalid"},
	} {
		d := asDoc(decode(b))
		c.f(d)
		ring := mustRing(t, approverKey(t), colleagueKey(t), policyKey(t), ledgerKey(t), receiptKey(t))
		if _, err := counterfoil.VerifyBundle(canonical(d), ring, tomorrow()); counterfoil.CodeOf(err) != c.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d := asDoc(decode(newLab(t).bundle().Encode()))
	d["standingGrant"] = decode(mustGrant(t, nil).Envelope())
	wantCode(t, drop(counterfoil.ParseBundle)(canonical(d)), counterfoil.CodeIntegrityFailed)
	for _, g := range []*counterfoil.StandingGrant{nil, {}, mustGrant(t, otherReason)} {
		wantCode(t, drop2(own.Under(g)), counterfoil.CodeIntegrityFailed)
	}
	wantCode(t, drop2(passkeyApproval(t).Under(mustGrant(t, nil))), counterfoil.CodeIntegrityFailed)
}

func otherReason(p *counterfoil.GrantParams) { p.Reason = "another" }

// The grant must be for the call, and the approval's window lie within the grant's.
func TestApprove_underGrant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grant func(*counterfoil.GrantParams)
		docs  func(plan, policy doc)
		code  counterfoil.Code
	}{
		"as it is":               {nil, nil, ""},
		"another tenant":         {func(p *counterfoil.GrantParams) { p.Tenant = "other" }, nil, "integrity-failed"},
		"another audience":       {func(p *counterfoil.GrantParams) { p.Audience = "other" }, nil, "integrity-failed"},
		"another principal":      {func(p *counterfoil.GrantParams) { p.Principal = "agent:other" }, nil, "policy-denied"},
		"another tool":           {func(p *counterfoil.GrantParams) { p.Tool = "other" }, nil, "policy-denied"},
		"another upstream":       {func(p *counterfoil.GrantParams) { p.Upstream = "other" }, nil, "policy-denied"},
		"another pin":            {func(p *counterfoil.GrantParams) { p.SourceVersion = "other" }, nil, "policy-denied"},
		"another definition":     {func(p *counterfoil.GrantParams) { p.Definition = counterfoil.ResultDigest(nil) }, nil, "policy-denied"},
		"ended with the request": {func(p *counterfoil.GrantParams) { p.ExpiresAt = expires() }, nil, ""},
		"ended before":           {func(p *counterfoil.GrantParams) { p.ExpiresAt = expires().Add(-time.Millisecond) }, nil, "approval-expired"},
		"of the actor":           {func(p *counterfoil.GrantParams) { p.Principal = reviewer }, func(plan, _ doc) { plan["actor"] = reviewer }, "self-approval"},
		"of the actor who may": {func(p *counterfoil.GrantParams) { p.Principal = reviewer }, func(plan, policy doc) {
			plan["actor"], policy["allowSelfApproval"] = reviewer, true
		}, ""},
		"a destructive effect": {nil, func(plan, policy doc) {
			policy["allowedEffects"] = list{"destructive"}
			s := asDoc(inside(plan, "steps", 0))
			s["effect"] = "destructive"
			refreshStep(s)
		}, "policy-denied"},
		"a quorum of persons": {nil, func(_, policy doc) { policy["quorum"] = doc{"n": 1, "approvers": list{reviewer}} }, "quorum-missing"},
	} {
		p, pol, _, _ := grantDocs()
		if c.docs != nil {
			c.docs(p, pol)
		}
		a, err := counterfoil.Approve(context.Background(), mustDryRun(t, p, pol), grantRequest(mustGrant(t, c.grant)), policyKey(t), now())
		if counterfoil.CodeOf(err) != c.code || (a == nil) != (err != nil) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	p, pol, _, _ := grantDocs()
	dry := mustDryRun(t, p, pol)
	later, err := counterfoil.Grant(context.Background(), grantParams(), approverKey(t), now().Add(time.Millisecond))
	noError(t, err)
	approve := func(req counterfoil.ApprovalRequest, key *counterfoil.PrivateKey) error {
		return drop2(counterfoil.Approve(context.Background(), dry, req, key, now()))
	}
	wantCode(t, approve(grantRequest(later), policyKey(t)), counterfoil.CodeNotYetValid)
	wantCode(t, approve(grantRequest(mustGrant(t, nil)), approverKey(t)), counterfoil.CodeSignatureInvalid)
	for _, g := range []*counterfoil.StandingGrant{nil, {}} {
		wantCode(t, approve(grantRequest(g), policyKey(t)), counterfoil.CodeInvalidInput)
	}
	req := request()
	req.Grant = mustGrant(t, nil)
	wantCode(t, approve(req, approverKey(t)), counterfoil.CodeInvalidInput)
}

// The one who gave the grant is judged at the instant of each use, and the ledger counts the uses over all approvals.
func TestGrant_ledger(t *testing.T) {
	t.Parallel()
	l := grantLab(t, mustGrant(t, nil))
	first := l.x.Approval
	for _, custody := range []string{"holder", "gateway"} {
		d := asDoc(decode(allKeys(t).JSON()))
		for _, k := range asList(d["keys"]) {
			if asDoc(k)["role"] == "approver" {
				asDoc(k)["custody"] = custody
				if custody == "holder" {
					asDoc(k)["notAfter"] = stamp(now())
				}
			}
		}
		ring, err := counterfoil.ParseKeyRing(canonical(d))
		noError(t, err)
		l.x.Keys = ring
		l.refused(counterfoil.CodeSignatureInvalid)
	}
	l.x.Keys = allKeys(t)
	for i := range 3 {
		req := grantRequest(mustGrant(t, nil))
		req.ID = "approval-" + string(rune('a'+i))
		l.x.ID, l.x.Nonce = "execution-"+string(rune('a'+i)), [16]byte{byte(i + 1)}
		l.x.Approval = mustApprove(t, l.x.DryRun, req, policyKey(t))
		_, _, err := l.execute()
		if i == 2 {
			wantCode(t, err, counterfoil.CodePolicyDenied)
			continue
		}
		noError(t, err)
	}
	if l.runs != 2 {
		t.Errorf("%d runs of two", l.runs)
	}
	// A ledger that doesn't know of grants gives no use out.
	l.x.Approval = first
	a, err := l.authorize()
	noError(t, err)
	key := ledgerKey(t)
	_, err = counterfoil.Spend(context.Background(), ledgerFunc(func(u counterfoil.Use) (*counterfoil.Consumption, error) {
		return u.Consume(context.Background(), now(), time.Time{}, key)
	}), a, l.spendParams())
	wantCode(t, err, counterfoil.CodeUnavailable)
}

type ledgerFunc func(counterfoil.Use) (*counterfoil.Consumption, error)

func (f ledgerFunc) Spend(_ context.Context, u counterfoil.Use, _ counterfoil.Event) (*counterfoil.Consumption, error) {
	return f(u)
}

func (f ledgerFunc) Settle(context.Context, *counterfoil.Receipt, counterfoil.Event) error {
	return nil
}
