package counterfoil_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

func TestDecision(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	params := counterfoil.DecisionParams{
		Tenant: "acme", Audience: "log.example.test", Verb: counterfoil.VerbDeny, Subject: mustDryRun(t, plan(), policy()).Digest(), Reason: "no",
	}
	d, err := counterfoil.Decide(ctx, params, approverKey(t), now())
	noError(t, err)
	want := decisionPayload()
	want["subject"] = params.Subject.String()
	if diff := cmp.Diff(decode(canonical(want)), decode(canonical(payloadOf(d.Envelope())))); diff != "" {
		t.Error(diff)
	}
	again, err := counterfoil.ParseDecision(d.Envelope())
	noError(t, err)
	for _, d := range []*counterfoil.Decision{d, again} {
		noError(t, d.Verify(allKeys(t), params))
		if d.Approver() != reviewer || !d.At().Equal(now()) || d.Reason() != "no" {
			t.Errorf("got %s %s %s", d.Approver(), d.At(), d.Reason())
		}
	}
	classify := params
	classify.Verb = counterfoil.VerbClassify
	for name, p := range map[string]counterfoil.DecisionParams{
		"tenant":   {Tenant: "other", Audience: params.Audience, Verb: params.Verb, Subject: params.Subject},
		"audience": {Tenant: params.Tenant, Audience: "other", Verb: params.Verb, Subject: params.Subject},
		"subject":  {Tenant: params.Tenant, Audience: params.Audience, Verb: params.Verb, Subject: counterfoil.ResultDigest(nil)},
		"verb":     classify,
		"nothing":  {},
	} {
		if err := again.Verify(allKeys(t), p); counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
			t.Errorf("another %s: got %v", name, err)
		}
	}
	wantCode(t, new(counterfoil.Decision).Verify(allKeys(t), counterfoil.DecisionParams{}), counterfoil.CodeIntegrityFailed)
	wantCode(t, again.Verify(mustRing(t, receiptKey(t)), params), counterfoil.CodeSignatureInvalid)
	wantCode(t, again.Verify(nil, params), counterfoil.CodeSignatureInvalid)

	forged := func(payload doc, keys ...*counterfoil.PrivateKey) *counterfoil.Decision {
		d, err := counterfoil.ParseDecision(forgeEnvelope(t, "decision", payload, keys...))
		noError(t, err)
		return d
	}
	second := counterfoiltest.Key(t, counterfoil.RoleApprover, "second@example.test", "acme")
	foreign := counterfoiltest.Key(t, counterfoil.RoleApprover, reviewer, "other")
	for name, d := range map[string]*counterfoil.Decision{
		"by another person":    forged(want, second),
		"by two":               forged(want, approverKey(t), second),
		"by a key of the gate": forged(want, policyKey(t)),
	} {
		if err := d.Verify(mustRing(t, approverKey(t), second, policyKey(t)), params); counterfoil.CodeOf(err) != counterfoil.CodeSignatureInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	wantCode(t, forged(want, foreign).Verify(mustRing(t, foreign), params), counterfoil.CodeSignatureInvalid)

	for name, p := range map[string]counterfoil.DecisionParams{
		"no tenant":    {Audience: "a", Verb: "deny", Subject: params.Subject},
		"no audience":  {Tenant: "acme", Verb: "deny", Subject: params.Subject},
		"no verb":      {Tenant: "acme", Audience: "a", Subject: params.Subject},
		"approve":      {Tenant: "acme", Audience: "a", Verb: "approve", Subject: params.Subject},
		"no subject":   {Tenant: "acme", Audience: "a", Verb: "deny"},
		"bad UTF-8":    {Tenant: "acme\xff", Audience: "a", Verb: "deny", Subject: params.Subject},
		"long reason":  {Tenant: "acme", Audience: "a", Verb: "deny", Subject: params.Subject, Reason: strings.Repeat("a", 65_537)},
		"line reason":  {Tenant: "acme", Audience: "a", Verb: "deny", Subject: params.Subject, Reason: "a\nb"},
		"UTF-8 reason": {Tenant: "acme", Audience: "a", Verb: "deny", Subject: params.Subject, Reason: "a\xc3"},
	} {
		s := &signer{key: approverKey(t)}
		d, err := counterfoil.Decide(ctx, p, s, now())
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || d != nil || s.signs != 0 {
			t.Errorf("%s: got %v, %v, %d signatures", name, d, err, s.signs)
		}
	}
	_, err = counterfoil.Decide(ctx, params, nil, now())
	wantCode(t, err, counterfoil.CodeInvalidInput)
	_, err = counterfoil.Decide(ctx, params, approverKey(t), time.Time{})
	wantCode(t, err, counterfoil.CodeClock)
	_, err = counterfoil.Decide(ctx, params, receiptKey(t), now())
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
}
