package counterfoil_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

// A signer counts how often it is asked, and can be told to fail.
type signer struct {
	key    *counterfoil.PrivateKey
	signs  int
	during func() error
	sig    []byte
	public func() counterfoil.PublicKey
}

func (s *signer) Public() counterfoil.PublicKey {
	if s.public != nil {
		return s.public()
	}
	return s.key.Public()
}

func (s *signer) Sign(ctx context.Context, m counterfoil.Message) ([]byte, error) {
	s.signs++
	if s.during != nil {
		if err := s.during(); err != nil {
			return nil, err
		}
	}
	if s.sig != nil {
		return s.sig, nil
	}
	return s.key.Sign(ctx, m)
}

// payloadOf returns the payload of an envelope as a stranger reads it.
func payloadOf(envelope []byte) doc {
	raw, err := base64.StdEncoding.DecodeString(asString(asDoc(decode(envelope))["payload"]))
	if err != nil {
		panic(err)
	}
	return asDoc(decode(raw))
}

func TestApprove(t *testing.T) {
	t.Parallel()
	dry := mustDryRun(t, plan(), policy())
	req := request()
	req.Reason, req.NotBefore = "looks right", at(20, 0, 1, 0)
	a := mustApprove(t, dry, req, approverKey(t))
	want := doc{
		"kind": "counterfoil.approval", "version": "1.0", "id": "approval-1", "tenant": "acme", "audience": "log.example.test",
		"approvers": list{reviewer}, "authority": doc{"kind": "person", "digest": dry.Digest().String()},
		"planDigest": digestOf("plan", plan()), "policyDigest": digestOf("policy", policy()),
		"bindingsDigest": digestOf("bindings", list{source()}), "evaluatedAt": stamp(now()), "issuedAt": stamp(now()),
		"notBefore": stamp(at(20, 0, 1, 0)), "expiresAt": stamp(expires()), "approvedRows": 80, "approvedBytes": 50_000,
		"reason": "looks right", "use": "single",
		"steps": list{doc{"id": "query-incidents", "inputDigest": step(operation())["inputDigest"], "rows": 80, "bytes": 50_000}},
	}
	if d := cmp.Diff(decode(canonical(want)), decode(canonical(payloadOf(a.Envelope())))); d != "" {
		t.Error(d)
	}
	if a.Digest().String() != digestOf("approval", want) {
		t.Errorf("digest %s", a.Digest())
	}
	b := reparsed(t, a)
	if b.Digest() != a.Digest() || !bytes.Equal(b.Envelope(), a.Envelope()) {
		t.Error("the approval read back is another")
	}
	for _, a := range []*counterfoil.Approval{a, b} {
		if a.ID() != "approval-1" || a.Authority() != counterfoil.AuthorityPerson || a.Reason() != "looks right" ||
			!slices.Equal(a.Approvers(), []string{reviewer}) || !a.IssuedAt().Equal(now()) || !a.ExpiresAt().Equal(expires()) {
			t.Errorf("got %s %s %s %s %s %s", a.ID(), a.Authority(), a.Reason(), a.Approvers(), a.IssuedAt(), a.ExpiresAt())
		}
		a.Approvers()[0] = "mallory"
		a.Envelope()[0] = 'x'
		if a.Approvers()[0] != reviewer || a.Envelope()[0] != '{' {
			t.Error("the approval can be changed")
		}
	}
	req.NotBefore = req.IssuedAt
	if _, said := payloadOf(mustApprove(t, dry, req, approverKey(t)).Envelope())["notBefore"]; said {
		t.Error("notBefore says what issuedAt says")
	}
	said := approvalPayload()
	said["notBefore"] = said["issuedAt"]
	wantCode(t, drop(counterfoil.ParseApproval)(envelopeOf("approval", canonical(said))), counterfoil.CodeInvalidInput)
}

// Limits are narrowed or kept, and the totals follow.
func TestApprove_limits(t *testing.T) {
	t.Parallel()
	p, pol := twoSteps()
	dry := mustDryRun(t, p, pol)
	req := request()
	req.Limits = map[string]counterfoil.Limit{"query-incidents": {Rows: 10, Bytes: 1000}, "query-again": {Rows: 20, Bytes: 2000}}
	got := payloadOf(mustApprove(t, dry, req, approverKey(t)).Envelope())
	if got["approvedRows"] != 30.0 || got["approvedBytes"] != 3000.0 {
		t.Errorf("totals %v, %v", got["approvedRows"], got["approvedBytes"])
	}
	if inside(got, "steps", 0, "id") != "query-incidents" || inside(got, "steps", 1, "rows") != 20.0 {
		t.Errorf("steps %v", got["steps"])
	}
	req.Limits = nil
	got = payloadOf(mustApprove(t, dry, req, approverKey(t)).Envelope())
	if got["approvedRows"] != 200.0 || got["approvedBytes"] != 100_000.0 {
		t.Errorf("totals %v, %v", got["approvedRows"], got["approvedBytes"])
	}
	req.Limits = map[string]counterfoil.Limit{"query-incidents": {}}
	got = payloadOf(mustApprove(t, dry, req, approverKey(t)).Envelope())
	if got["approvedRows"] != 100.0 || inside(got, "steps", 0, "bytes") != 0.0 {
		t.Errorf("a limit of zero: %v", got)
	}
}

func TestApprove_refuses(t *testing.T) {
	t.Parallel()
	type state struct {
		plan, policy doc
		req          *counterfoil.ApprovalRequest
		now          *time.Time
		signer       *signer
	}
	for _, c := range []struct {
		name string
		code counterfoil.Code
		f    func(*state)
	}{
		{"more rows than planned", counterfoil.CodePolicyDenied, func(s *state) {
			s.req.Limits = map[string]counterfoil.Limit{"query-incidents": {Rows: 101, Bytes: 1}}
		}},
		{"more bytes than planned", counterfoil.CodePolicyDenied, func(s *state) {
			s.req.Limits = map[string]counterfoil.Limit{"query-incidents": {Rows: 1, Bytes: 50_001}}
		}},
		{"negative rows", counterfoil.CodePolicyDenied, func(s *state) {
			s.req.Limits = map[string]counterfoil.Limit{"query-incidents": {Rows: -1, Bytes: 1}}
		}},
		{"a step that the plan does not have", counterfoil.CodeInvalidInput, func(s *state) {
			s.req.Limits = map[string]counterfoil.Limit{"other": {}}
		}},
		{"no id", counterfoil.CodeInvalidInput, func(s *state) { s.req.ID = "" }},
		{"an id without end", counterfoil.CodeInvalidInput, func(s *state) { s.req.ID = strings.Repeat("a", 1_100_000) }},
		{"a reason without end", counterfoil.CodeInvalidInput, func(s *state) { s.req.Reason = strings.Repeat("a", 65_537) }},
		{"a reason of bad UTF-8", counterfoil.CodeInvalidInput, func(s *state) { s.req.Reason = "a\xff" }},
		{"a reason with a terminal code", counterfoil.CodeInvalidInput, func(s *state) { s.req.Reason = "\x1b[2J" }},
		{"no authority", counterfoil.CodeInvalidInput, func(s *state) { s.req.Authority = "" }},
		{"an authority that is none", counterfoil.CodeInvalidInput, func(s *state) { s.req.Authority = "grant" }},
		{"no clock", counterfoil.CodeClock, func(s *state) { *s.now = time.Time{} }},
		{"no time of issue", counterfoil.CodeClock, func(s *state) { s.req.IssuedAt = time.Time{} }},
		{"no end", counterfoil.CodeClock, func(s *state) { s.req.ExpiresAt = time.Time{} }},
		{"a beginning of no era", counterfoil.CodeClock, func(s *state) { s.req.NotBefore = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"issued before the dry run", counterfoil.CodeInvalidInput, func(s *state) { s.req.IssuedAt = now().Add(-time.Millisecond) }},
		{"issued in the future", counterfoil.CodeInvalidInput, func(s *state) { s.req.IssuedAt = now().Add(time.Millisecond) }},
		{"issued in the future beyond the skew", counterfoil.CodeInvalidInput, func(s *state) {
			s.policy["maxClockSkewMs"], s.req.IssuedAt = 30_000, now().Add(time.Minute)
		}},
		{"ends as it begins", counterfoil.CodeInvalidInput, func(s *state) {
			s.policy["maxClockSkewMs"], s.req.ExpiresAt = 1000, now()
		}},
		{"ends before it begins", counterfoil.CodeInvalidInput, func(s *state) {
			s.policy["maxClockSkewMs"] = 5000
			s.req.ExpiresAt = now().Add(-time.Second)
		}},
		{"ended already", counterfoil.CodeApprovalExpired, func(s *state) {
			s.policy = patientPolicy()
			s.req.ExpiresAt, *s.now = now().Add(30*time.Second), now().Add(time.Minute)
		}},
		{"ends at this instant", counterfoil.CodeApprovalExpired, func(s *state) {
			s.policy = patientPolicy()
			s.req.ExpiresAt, *s.now = now().Add(30*time.Second), now().Add(30*time.Second)
		}},
		{"may not be used before its end", counterfoil.CodeInvalidInput, func(s *state) { s.req.NotBefore = expires() }},
		{"may be used before it is issued", counterfoil.CodeInvalidInput, func(s *state) { s.req.NotBefore = now().Add(-time.Second) }},
		{"lives longer than a day", counterfoil.CodePolicyDenied, func(s *state) { s.req.ExpiresAt = now().Add(24*time.Hour + time.Millisecond) }},
		{"lives longer than the policy allows", counterfoil.CodePolicyDenied, func(s *state) {
			s.policy["maxApprovalLifetimeMs"] = 3_599_999
		}},
		{"the source got too old meanwhile", counterfoil.CodePolicyDenied, func(s *state) { *s.now = now().Add(time.Minute) }},
		{"the approver is the actor", counterfoil.CodeSelfApproval, func(s *state) { s.plan["actor"] = reviewer }},
		{"a key of another role", counterfoil.CodeSignatureInvalid, func(s *state) { s.signer.key = receiptKey(t) }},
		{"a person's key for policy", counterfoil.CodeSignatureInvalid, func(s *state) { s.req.Authority = counterfoil.AuthorityPolicy }},
		{"policy's key for a person", counterfoil.CodeSignatureInvalid, func(s *state) { s.signer.key = policyKey(t) }},
		{"policy without rules", counterfoil.CodeIntegrityFailed, func(s *state) {
			delete(s.policy, "rulesDigest")
			s.req.Authority, s.signer.key = counterfoil.AuthorityPolicy, policyKey(t)
		}},
		{"policy for a destructive effect", counterfoil.CodePolicyDenied, func(s *state) {
			op := operation()
			op["effect"], s.policy["allowedEffects"] = "destructive", list{"destructive"}
			s.plan = onePlanOf(step(op))
			s.req.Authority, s.signer.key = counterfoil.AuthorityPolicy, policyKey(t)
		}},
		{"the signer fails", counterfoil.CodeUnavailable, func(s *state) {
			s.signer.during = func() error { return errors.New("secret detail") }
		}},
		{"the signer panics", counterfoil.CodeUnavailable, func(s *state) { s.signer.during = func() error { panic("secret detail") } }},
		{"the signer's key can't be had", counterfoil.CodeUnavailable, func(s *state) {
			s.signer.public = func() counterfoil.PublicKey { panic("secret detail") }
		}},
		{"the signer is asked for nobody", counterfoil.CodeInvalidInput, func(s *state) {
			s.signer.public = func() counterfoil.PublicKey { return counterfoil.PublicKey{} }
		}},
		{"the signer does not sign", counterfoil.CodeUnavailable, func(s *state) { s.signer.sig = []byte{1} }},
		{"the signer refuses", counterfoil.CodeRevoked, func(s *state) { s.signer.during = func() error { return counterfoil.CodeRevoked } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req, when := request(), now()
			s := state{plan: plan(), policy: policy(), req: &req, now: &when, signer: &signer{key: approverKey(t)}}
			c.f(&s)
			a, err := counterfoil.Approve(context.Background(), mustDryRun(t, s.plan, s.policy), req, s.signer, when)
			wantCode(t, err, c.code)
			if a != nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, %v", a, err)
			}
			cheap := s.signer.during == nil && s.signer.sig == nil && c.code != counterfoil.CodeSignatureInvalid
			if cheap && s.signer.signs != 0 {
				t.Error("the signer was asked before everything was checked")
			}
		})
	}
}

// patientPolicy accepts observations of two hours ago.
func patientPolicy() doc {
	p := policy()
	asDoc(inside(p, "sources", "incidents"))["maxProvenanceAgeMs"] = 7_200_000
	return p
}

func TestApprove_needsADryRunAndASigner(t *testing.T) {
	t.Parallel()
	ctx, dry := context.Background(), mustDryRun(t, plan(), policy())
	_, err := counterfoil.Approve(ctx, nil, request(), approverKey(t), now())
	wantCode(t, err, counterfoil.CodeInvalidInput)
	_, err = counterfoil.Approve(ctx, new(counterfoil.DryRun), request(), approverKey(t), now())
	wantCode(t, err, counterfoil.CodeInvalidInput)
	_, err = counterfoil.Approve(ctx, dry, request(), nil, now())
	wantCode(t, err, counterfoil.CodeInvalidInput)
	var none *counterfoil.PrivateKey
	_, err = counterfoil.Approve(ctx, dry, request(), none, now())
	wantCode(t, err, counterfoil.CodeUnavailable)
}

func TestApprove_cancelled(t *testing.T) {
	t.Parallel()
	dry := mustDryRun(t, plan(), policy())
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the reviewer left"))
	s := &signer{key: approverKey(t)}
	_, err := counterfoil.Approve(cancelled, dry, request(), s, now())
	wantCode(t, err, counterfoil.CodeAborted)
	if s.signs != 0 {
		t.Error("the signer was asked")
	}
	during, cancel := context.WithCancelCause(context.Background())
	s.during = func() error { cancel(errors.New("the reviewer left")); return nil }
	a, err := counterfoil.Approve(during, dry, request(), s, now())
	wantCode(t, err, counterfoil.CodeAborted)
	if s.signs != 1 || a != nil {
		t.Errorf("%d signatures, approval %v", s.signs, a)
	}
}

// Self-approval is a matter of policy, and the default is no.
func TestApprove_selfApprovalWhenAllowed(t *testing.T) {
	t.Parallel()
	p, pol := plan(), policy()
	p["actor"], pol["allowSelfApproval"] = reviewer, true
	mustApprove(t, mustDryRun(t, p, pol), request(), approverKey(t))
}

// forge signs an approval payload that Approve would not make, by the keys given.
func forge(t testing.TB, payload doc, keys ...*counterfoil.PrivateKey) *counterfoil.Approval {
	t.Helper()
	env := forgeEnvelope(t, "approval", payload, keys...)
	a, err := counterfoil.ParseApproval(env)
	noError(t, err)
	return a
}

// Everything that ties an approval to its dry run is checked when it is used, whoever signed it.
func TestAuthorize_forgedApprovals(t *testing.T) {
	t.Parallel()
	other := digestOf("plan", "another")
	for _, c := range []struct {
		name string
		code counterfoil.Code
		f    func(p, s doc)
	}{
		{"tenant", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["tenant"] = "other" }},
		{"audience", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["audience"] = "staging.example.test" }},
		{"plan", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["planDigest"] = other }},
		{"policy", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["policyDigest"] = other }},
		{"bindings", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["bindingsDigest"] = other }},
		{"evaluation", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["evaluatedAt"] = stamp(now().Add(-time.Millisecond)) }},
		{"authority digest", counterfoil.CodeIntegrityFailed, func(p, _ doc) { asDoc(p["authority"])["digest"] = other }},
		{"authority kind", counterfoil.CodeIntegrityFailed, func(p, _ doc) { asDoc(p["authority"])["kind"] = "policy" }},
		{"no step", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["steps"] = list{} }},
		{"a step more", counterfoil.CodeIntegrityFailed, func(p, s doc) { p["steps"] = list{s, s} }},
		{"another step", counterfoil.CodeIntegrityFailed, func(_, s doc) { s["id"] = "other" }},
		{"another operation", counterfoil.CodeIntegrityFailed, func(_, s doc) { s["inputDigest"] = other }},
		{"rows widened", counterfoil.CodePolicyDenied, func(p, s doc) { s["rows"], p["approvedRows"] = 101, 101 }},
		{"bytes widened", counterfoil.CodePolicyDenied, func(p, s doc) { s["bytes"], p["approvedBytes"] = 50_001, 50_001 }},
		{"total of rows", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["approvedRows"] = 81 }},
		{"total of bytes", counterfoil.CodeIntegrityFailed, func(p, _ doc) { p["approvedBytes"] = 49_999 }},
		{"end before the beginning", counterfoil.CodeInvalidInput, func(p, _ doc) { p["expiresAt"] = stamp(now().Add(-time.Second)) }},
		{"end at the beginning", counterfoil.CodeInvalidInput, func(p, _ doc) { p["expiresAt"] = p["issuedAt"] }},
		{"issued before the evaluation", counterfoil.CodeInvalidInput, func(p, _ doc) { p["issuedAt"] = stamp(now().Add(-time.Second)) }},
		{"valid before it is issued", counterfoil.CodeInvalidInput, func(p, _ doc) { p["notBefore"] = stamp(now().Add(-time.Second)) }},
		{"valid only after its end", counterfoil.CodeInvalidInput, func(p, _ doc) { p["notBefore"] = p["expiresAt"] }},
		{"a long life", counterfoil.CodePolicyDenied, func(p, _ doc) { p["expiresAt"] = stamp(now().Add(25 * time.Hour)) }},
		{"the actor among the approvers", counterfoil.CodeSelfApproval, func(p, _ doc) { p["approvers"] = list{"agent:planner", reviewer} }},
		{"an approver who did not sign", counterfoil.CodeQuorumMissing, func(p, _ doc) { p["approvers"] = list{reviewer, "second@example.test"} }},
		{"another approver than the signer", counterfoil.CodeSignatureInvalid, func(p, _ doc) { p["approvers"] = list{"second@example.test"} }},
		{"not valid yet", counterfoil.CodeNotYetValid, func(p, _ doc) { p["notBefore"] = stamp(now().Add(time.Millisecond)) }},
		{"issued in the future", counterfoil.CodeNotYetValid, func(p, _ doc) { p["issuedAt"] = stamp(now().Add(time.Millisecond)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			p := payloadOf(l.x.Approval.Envelope())
			c.f(p, asDoc(inside(p, "steps", 0)))
			l.x.Approval = forge(t, p, approverKey(t))
			l.refused(c.code)
		})
	}
}

// Keys are judged by their role, tenant and window, and the ring is the only source of them.
func TestAuthorize_keys(t *testing.T) {
	t.Parallel()
	key := func(role counterfoil.Role, owner, tenant string, from, until time.Time) *counterfoil.PrivateKey {
		k, err := counterfoil.NewPrivateKey(bytes.Repeat([]byte{7}, 32), counterfoil.KeyParams{
			Role: role, Owner: owner, Custody: counterfoil.CustodyHolder, Tenants: []string{tenant}, NotBefore: from, NotAfter: until,
		})
		noError(t, err)
		return k
	}
	before, after, never := now().Add(-time.Hour), now().Add(time.Hour), time.Time{}
	for _, c := range []struct {
		name string
		key  *counterfoil.PrivateKey
		ok   bool
	}{
		{"of the approver", key("approver", reviewer, "acme", before, never), true},
		{"from this instant", key("approver", reviewer, "acme", now(), after), true},
		{"of another tenant", key("approver", reviewer, "other", before, never), false},
		{"of another owner", key("approver", "mallory", "acme", before, never), false},
		{"not yet valid", key("approver", reviewer, "acme", now().Add(time.Millisecond), never), false},
		{"no longer valid", key("approver", reviewer, "acme", before, now()), false},
		{"of role policy", key("policy", reviewer, "acme", before, never), false},
		{"of role ledger", key("ledger", reviewer, "acme", before, never), false},
		{"of role receipt", key("receipt", reviewer, "acme", before, never), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			// The same bytes are signed whatever the ring says of the key.
			signing := key("approver", reviewer, "acme", before, never)
			l.x.Approval = forge(t, payloadOf(l.x.Approval.Envelope()), signing)
			l.x.Keys = mustRing(t, c.key, ledgerKey(t), receiptKey(t))
			if c.ok {
				_, _, err := l.execute()
				noError(t, err)
				return
			}
			l.refused(counterfoil.CodeSignatureInvalid)
		})
	}
	t.Run("not in the ring", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.x.Keys = mustRing(t, ledgerKey(t), receiptKey(t))
		l.refused(counterfoil.CodeSignatureInvalid)
		l.x.Keys = nil
		l.refused(counterfoil.CodeSignatureInvalid)
	})
	t.Run("two signatures of one owner", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		second := key("approver", reviewer, "acme", before, never)
		l.x.Approval = forge(t, payloadOf(l.x.Approval.Envelope()), approverKey(t), second)
		l.x.Keys = mustRing(t, approverKey(t), second, ledgerKey(t), receiptKey(t))
		l.refused(counterfoil.CodeSignatureInvalid)
	})
	t.Run("two owners where one is named", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		second := key("approver", "second@example.test", "acme", before, never)
		l.x.Approval = forge(t, payloadOf(l.x.Approval.Envelope()), approverKey(t), second)
		l.x.Keys = mustRing(t, approverKey(t), second, ledgerKey(t), receiptKey(t))
		l.refused(counterfoil.CodeSignatureInvalid)
	})
	t.Run("two owners, both named", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		second := key("approver", "second@example.test", "acme", before, never)
		p := payloadOf(l.x.Approval.Envelope())
		p["approvers"] = list{reviewer, "second@example.test"}
		l.x.Approval = forge(t, p, approverKey(t), second)
		l.x.Keys = mustRing(t, approverKey(t), second, ledgerKey(t), receiptKey(t))
		_, _, err := l.execute()
		noError(t, err)
	})
	t.Run("a signature of something else", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		p := payloadOf(l.x.Approval.Envelope())
		env := asDoc(decode(l.x.Approval.Envelope()))
		p["reason"] = "because"
		env["payload"] = base64.StdEncoding.EncodeToString(canonical(p))
		a, err := counterfoil.ParseApproval(canonical(env))
		noError(t, err)
		l.x.Approval = a
		l.refused(counterfoil.CodeSignatureInvalid)
	})
	t.Run("a short signature", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		env := asDoc(decode(l.x.Approval.Envelope()))
		asDoc(inside(env, "signatures", 0))["sig"] = "AQ=="
		a, err := counterfoil.ParseApproval(canonical(env))
		noError(t, err)
		l.x.Approval = a
		l.refused(counterfoil.CodeSignatureInvalid)
	})
}

// An approval that this process has just signed is spared one verification, not the ring's say.
func TestAuthorize_ownApprovals(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	own := mustApprove(t, l.x.DryRun, request(), approverKey(t))
	l.x.Approval = own
	l.x.Keys = mustRing(t, ledgerKey(t), receiptKey(t))
	l.refused(counterfoil.CodeSignatureInvalid)
	l.x.Keys = allKeys(t)
	_, _, err := l.execute()
	noError(t, err)

	// A signer that is not ours is not believed: what it returned is verified at once.
	a, err := counterfoil.Approve(t.Context(), l.x.DryRun, request(), &signer{key: approverKey(t), sig: bytes.Repeat([]byte{1}, 64)}, now())
	wantCode(t, err, counterfoil.CodeUnavailable)
	if a != nil {
		t.Error("there is an approval all the same")
	}
}

// Under policy authority the rules' digest stands for the person, and the policy key for theirs.
func TestApprove_byPolicy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	req := request()
	req.Authority = counterfoil.AuthorityPolicy
	a := mustApprove(t, l.x.DryRun, req, policyKey(t))
	if got := inside(payloadOf(a.Envelope()), "authority"); !cmp.Equal(got, any(doc{"kind": "policy", "digest": policy()["rulesDigest"]})) {
		t.Errorf("authority %v", got)
	}
	l.x.Approval = reparsed(t, a)
	_, _, err := l.execute()
	noError(t, err)

	for _, key := range []*counterfoil.PrivateKey{approverKey(t), receiptKey(t), ledgerKey(t)} {
		l := newLab(t)
		p := payloadOf(a.Envelope())
		p["approvers"] = list{key.Public().Owner}
		l.x.Approval = forge(t, p, key)
		l.refused(counterfoil.CodeSignatureInvalid)
	}
}

// Policy alone never approves what can't be undone, even if its key signed it.
func TestAuthorize_policyNeverApprovesDestruction(t *testing.T) {
	t.Parallel()
	op := operation()
	op["effect"] = "destructive"
	pol := policy()
	pol["allowedEffects"] = list{"destructive"}
	l := newLabOf(t, onePlanOf(step(op)), pol, op)
	p := payloadOf(l.x.Approval.Envelope())
	p["approvers"], p["authority"] = list{"gateway"}, doc{"kind": "policy", "digest": pol["rulesDigest"]}
	l.x.Approval = forge(t, p, policyKey(t))
	l.refused(counterfoil.CodePolicyDenied)
	l = newLabOf(t, onePlanOf(step(op)), pol, op) // a person may
	_, _, err := l.execute()
	noError(t, err)
}
