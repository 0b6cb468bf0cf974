package counterfoil_test

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

func colleagueKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleApprover, colleague, "acme")
}

func quorumPolicy(n int, approvers ...any) doc {
	p := policy()
	p["quorum"] = doc{"n": n, "approvers": approvers}
	return p
}

// requestOf names everybody who must sign.
func requestOf(approvers ...string) counterfoil.ApprovalRequest {
	req := request()
	req.Approvers = approvers
	return req
}

// quorumLab needs two of three, and has an approval that one of them has signed and one with a passkey shall.
func quorumLab(t testing.TB) (*lab, *authenticator) {
	t.Helper()
	l, a := newLabOf2(t, quorumPolicy(2, reviewer, colleague, "third@example.test")), newAuthenticator(t, colleague)
	l.x.Approval = mustApprove(t, l.x.DryRun, requestOf(reviewer, colleague), approverKey(t))
	l.x.Keys = mustPublicRing(t, a.public, approverKey(t).Public(), ledgerKey(t).Public(), receiptKey(t).Public())
	return l, a
}

// newLabOf2 is a lab whose policy the single approval of the usual one would not satisfy.
func newLabOf2(t testing.TB, p doc) *lab {
	t.Helper()
	l := newLab(t)
	l.x.DryRun = mustDryRun(t, plan(), p)
	l.x.Operation = mustOperation(t, operation(), l.x.DryRun.Policy())
	return l
}

func cosigned(t testing.TB, l *lab, a *authenticator) *counterfoil.Approval {
	t.Helper()
	p, err := counterfoil.PrepareCoSign(l.x.DryRun, l.x.Approval, a.public, now())
	noError(t, err)
	both, err := p.Attach(a.assert(t, p.Message().Challenge()))
	noError(t, err)
	return both
}

func TestCoSign(t *testing.T) {
	t.Parallel()
	l, a := quorumLab(t)
	if l.x.Approval.Missing() != 1 {
		t.Errorf("%d signatures are missing", l.x.Approval.Missing())
	}
	l.refused(counterfoil.CodeQuorumMissing)
	first := l.x.Approval.Envelope()
	both := cosigned(t, l, a)
	if string(first) != string(l.x.Approval.Envelope()) || both.Digest() != l.x.Approval.Digest() || both.Missing() != 0 {
		t.Error("co-signing changed the approval")
	}
	_, sigs := signaturesOf(t, both)
	ids := []string{asString(asDoc(sigs[0])["keyid"]), asString(asDoc(sigs[1])["keyid"])}
	if len(sigs) != 2 || !slices.IsSorted(ids) {
		t.Errorf("the signatures are by %v", ids)
	}
	// Whoever signs first, the envelope is the same.
	p, err := counterfoil.PrepareApproval(l.x.DryRun, requestOf(colleague, reviewer), a.public, now())
	noError(t, err)
	other, err := p.Attach(a.assert(t, p.Message().Challenge()))
	noError(t, err)
	other, err = counterfoil.CoSign(context.Background(), l.x.DryRun, other, approverKey(t), now())
	noError(t, err)
	if string(other.Envelope()) != string(both.Envelope()) {
		t.Error("the envelope depends on who signs first")
	}
	l.x.Approval = reparsed(t, both)
	b := l.bundle().Encode()
	rep, err := counterfoil.VerifyBundle(b, l.x.Keys, tomorrow())
	noError(t, err)
	if len(rep.ApprovalKeys) != 2 || !slices.Equal(rep.Approvers, []string{reviewer, colleague}) {
		t.Errorf("approved by %v", rep.Approvers)
	}
	// Without one of the signatures, or with them in another order, the bundle says nothing.
	for name, c := range map[string]struct {
		f    func(list) list
		code counterfoil.Code
	}{
		"without the first":  {func(s list) list { return s[1:] }, counterfoil.CodeQuorumMissing},
		"without the second": {func(s list) list { return s[:1] }, counterfoil.CodeQuorumMissing},
		"in another order":   {func(s list) list { return list{s[1], s[0]} }, counterfoil.CodeInvalidInput},
		"one of them twice":  {func(s list) list { return list{s[0], s[0]} }, counterfoil.CodeInvalidInput},
	} {
		d := asDoc(decode(b))
		asDoc(d["approval"])["signatures"] = c.f(asList(inside(d, "approval", "signatures")))
		if _, err := counterfoil.VerifyBundle(canonical(d), l.x.Keys, tomorrow()); counterfoil.CodeOf(err) != c.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCoSign_refuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l, a := quorumLab(t)
	both := cosigned(t, l, a)
	byPolicy := mustApprove(t, mustDryRun(t, plan(), policy()), func() counterfoil.ApprovalRequest {
		r := request()
		r.Authority = counterfoil.AuthorityPolicy
		return r
	}(), policyKey(t))
	for name, c := range map[string]struct {
		dry      *counterfoil.DryRun
		approval *counterfoil.Approval
		signer   counterfoil.Signer
		when     time.Time
		code     counterfoil.Code
	}{
		"who has signed":     {l.x.DryRun, l.x.Approval, approverKey(t), now(), counterfoil.CodeInvalidInput},
		"who is not named":   {l.x.DryRun, l.x.Approval, counterfoiltest.Key(t, "approver", "third@example.test", "acme"), now(), counterfoil.CodeSignatureInvalid},
		"another role":       {l.x.DryRun, l.x.Approval, counterfoiltest.Key(t, "receipt", colleague, "acme"), now(), counterfoil.CodeSignatureInvalid},
		"a complete one":     {l.x.DryRun, both, colleagueKey(t), now(), counterfoil.CodeInvalidInput},
		"another dry run":    {mustDryRun(t, plan(), policy()), l.x.Approval, colleagueKey(t), now(), counterfoil.CodeIntegrityFailed},
		"one of policy":      {mustDryRun(t, plan(), policy()), byPolicy, colleagueKey(t), now(), counterfoil.CodeInvalidInput},
		"nobody":             {l.x.DryRun, l.x.Approval, nil, now(), counterfoil.CodeInvalidInput},
		"no dry run":         {nil, l.x.Approval, colleagueKey(t), now(), counterfoil.CodeInvalidInput},
		"no approval":        {l.x.DryRun, nil, colleagueKey(t), now(), counterfoil.CodeInvalidInput},
		"no time":            {l.x.DryRun, l.x.Approval, colleagueKey(t), time.Time{}, counterfoil.CodeClock},
		"after the end":      {l.x.DryRun, l.x.Approval, colleagueKey(t), expires(), counterfoil.CodeApprovalExpired},
		"an old observation": {l.x.DryRun, l.x.Approval, colleagueKey(t), at(20, 1, 0, 0), counterfoil.CodePolicyDenied},
	} {
		got, err := counterfoil.CoSign(ctx, c.dry, c.approval, c.signer, c.when)
		if counterfoil.CodeOf(err) != c.code || got != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	wantCode(t, drop2(counterfoil.CoSign(stopped, l.x.DryRun, l.x.Approval, colleagueKey(t), now())), counterfoil.CodeAborted)

	// A signer is asked once whose key it has: what was judged is what is written.
	asked := 0
	_, err := counterfoil.CoSign(ctx, l.x.DryRun, l.x.Approval, &signer{key: colleagueKey(t), public: func() counterfoil.PublicKey {
		if asked++; asked > 1 {
			return approverKey(t).Public()
		}
		return colleagueKey(t).Public()
	}}, now())
	if noError(t, err); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
	_, err = counterfoil.CoSign(ctx, l.x.DryRun, l.x.Approval, &signer{key: approverKey(t), public: func() counterfoil.PublicKey { return colleagueKey(t).Public() }}, now())
	wantCode(t, err, counterfoil.CodeUnavailable)

	// Two keys of one owner don't make two approvers, and a signature that does not fit is none.
	forged := counterfoiltest.Key(t, counterfoil.RoleApprover, colleague, "acme")
	all, err := counterfoil.CoSign(ctx, l.x.DryRun, l.x.Approval, forged, now())
	noError(t, err)
	env := asDoc(decode(all.Envelope()))
	for _, s := range asList(env["signatures"]) {
		if asDoc(s)["keyid"] == string(forged.Public().ID) {
			asDoc(s)["sig"] = base64.StdEncoding.EncodeToString(make([]byte, 64))
		}
	}
	all, err = counterfoil.ParseApproval(canonical(env))
	noError(t, err)
	l.x.Approval, l.x.Keys = all, mustRing(t, approverKey(t), forged, ledgerKey(t), receiptKey(t))
	l.refused(counterfoil.CodeSignatureInvalid)
	d := asDoc(decode(mustRing(t, approverKey(t), forged, ledgerKey(t), receiptKey(t)).JSON()))
	for _, k := range asList(d["keys"]) {
		if asDoc(k)["role"] == "approver" {
			asDoc(k)["owner"] = reviewer
		}
	}
	l.x.Keys, err = counterfoil.ParseKeyRing(canonical(d))
	noError(t, err)
	l.x.Approval, err = counterfoil.CoSign(ctx, l.x.DryRun, mustApprove(t, l.x.DryRun, requestOf(reviewer, colleague), approverKey(t)), forged, now())
	noError(t, err)
	l.refused(counterfoil.CodeSignatureInvalid)
}

func TestApprove_approvers(t *testing.T) {
	t.Parallel()
	many := func(n int) []string {
		out := []string{reviewer}
		for i := range n - 1 {
			out = append(out, "person-"+strconv.Itoa(i))
		}
		return out
	}
	for name, c := range map[string]struct {
		policy    doc
		approvers []string
		authority counterfoil.AuthorityKind
		code      counterfoil.Code
	}{
		"the signer alone":             {policy(), nil, "person", ""},
		"the signer by name":           {policy(), []string{reviewer}, "person", ""},
		"two without a quorum":         {policy(), []string{reviewer, colleague}, "person", ""},
		"thirty-two":                   {policy(), many(32), "person", ""},
		"too many":                     {policy(), many(33), "person", "invalid-input"},
		"without the signer":           {policy(), []string{colleague}, "person", "invalid-input"},
		"one twice":                    {policy(), []string{reviewer, reviewer}, "person", "invalid-input"},
		"one without a name":           {policy(), []string{reviewer, ""}, "person", "invalid-input"},
		"the actor among them":         {policy(), []string{reviewer, "agent:planner"}, "person", "self-approval"},
		"several for policy":           {policy(), []string{"gateway", colleague}, "policy", "invalid-input"},
		"two of two":                   {quorumPolicy(2, reviewer, colleague), []string{reviewer, colleague}, "person", ""},
		"one of one":                   {quorumPolicy(1, reviewer), nil, "person", ""},
		"one of two":                   {quorumPolicy(2, reviewer, colleague), nil, "person", "quorum-missing"},
		"two of whom one counts":       {quorumPolicy(2, reviewer, colleague), []string{reviewer, "third@example.test"}, "person", "quorum-missing"},
		"a person who does not count":  {quorumPolicy(1, colleague), nil, "person", "quorum-missing"},
		"policy in place of a quorum":  {quorumPolicy(1, reviewer), nil, "policy", "quorum-missing"},
		"three where two are asked of": {quorumPolicy(2, reviewer, colleague), []string{"third@example.test", reviewer, colleague}, "person", ""},
	} {
		req := requestOf(c.approvers...)
		req.Authority = c.authority
		key := approverKey(t)
		if c.authority == counterfoil.AuthorityPolicy {
			key = policyKey(t)
		}
		a, err := counterfoil.Approve(context.Background(), mustDryRun(t, plan(), c.policy), req, key, now())
		if counterfoil.CodeOf(err) != c.code || (a == nil) != (err != nil) {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
		if a != nil && a.Missing() != len(a.Approvers())-1 {
			t.Errorf("%s: %d are missing", name, a.Missing())
		}
	}
}

func TestParsePolicy_quorum(t *testing.T) {
	t.Parallel()
	many := list{}
	for i := range 33 {
		many = append(many, "p"+strconv.Itoa(100+i))
	}
	noError(t, drop(counterfoil.ParsePolicy)(canonical(quorumPolicy(32, many[:32]...))))
	for name, p := range map[string]doc{
		"nobody": quorumPolicy(1), "none of one": quorumPolicy(0, reviewer), "two of one": quorumPolicy(2, reviewer),
		"one twice": quorumPolicy(2, reviewer, reviewer), "too many": quorumPolicy(1, many...),
	} {
		if err := drop(counterfoil.ParsePolicy)(canonical(p)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
