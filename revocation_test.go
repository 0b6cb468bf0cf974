package counterfoil_test

import (
	"context"
	"slices"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

func revokeParams(subject counterfoil.Digest) counterfoil.DecisionParams {
	return counterfoil.DecisionParams{
		Tenant: "acme", Audience: "log.example.test", Verb: counterfoil.VerbRevoke, Subject: subject, Why: counterfoil.RevokedCompromised, Reason: "lost",
	}
}

func revokedEvent(t testing.TB) counterfoil.Event {
	t.Helper()
	e, err := counterfoil.NewEvent(counterfoil.PhaseRevoked, counterfoiltest.Pseudonyms(t), counterfoil.EventParams{
		Tenant: "acme", Audience: "log.example.test", ExecutionID: "revocation-1", Code: "compromised",
	})
	noError(t, err)
	return e
}

// Whatever an approval rests on can be revoked; from then on nothing is spent and nothing runs.
func TestExecute_revoked(t *testing.T) {
	t.Parallel()
	rules, err := counterfoil.ParseDigest(asString(policy()["rulesDigest"]))
	noError(t, err)
	for name, c := range map[string]struct {
		subject func(*lab) counterfoil.Digest
		code    counterfoil.Code
	}{
		"the approval":             {func(l *lab) counterfoil.Digest { return l.x.Approval.Digest() }, counterfoil.CodeRevoked},
		"the policy":               {func(l *lab) counterfoil.Digest { return l.x.DryRun.Policy().Digest() }, counterfoil.CodeRevoked},
		"its rules":                {func(*lab) counterfoil.Digest { return rules }, counterfoil.CodeRevoked},
		"what was shown":           {func(l *lab) counterfoil.Digest { return l.x.DryRun.Digest() }, counterfoil.CodeRevoked},
		"the actor":                {func(*lab) counterfoil.Digest { return counterfoil.ActorSubject("agent:planner") }, counterfoil.CodeRevoked},
		"the approver":             {func(*lab) counterfoil.Digest { return counterfoil.ActorSubject(reviewer) }, counterfoil.CodeRevoked},
		"the key":                  {func(l *lab) counterfoil.Digest { return counterfoil.KeySubject(approverKey(l.t).Public().ID) }, counterfoil.CodeRevoked},
		"another actor":            {func(*lab) counterfoil.Digest { return counterfoil.ActorSubject("agent:other") }, ""},
		"another key":              {func(l *lab) counterfoil.Digest { return counterfoil.KeySubject(receiptKey(l.t).Public().ID) }, ""},
		"an actor's name as a key": {func(*lab) counterfoil.Digest { return counterfoil.KeySubject("agent:planner") }, ""},
		"a result that looks so":   {func(*lab) counterfoil.Digest { return counterfoil.ResultDigest([]byte(`"agent:planner"`)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			d, err := counterfoil.Decide(context.Background(), revokeParams(c.subject(l)), approverKey(t), now())
			noError(t, err)
			noError(t, l.ledger.Revoke(d, revokedEvent(t)))
			_, r, err := l.execute()
			if c.code == "" {
				l.settled(r, err, counterfoil.OutcomeSucceeded, "")
				return
			}
			wantCode(t, err, c.code)
			if r != nil || l.runs != 0 || l.ledger.Uses() != 0 || len(l.ledger.Events()) != 2 { // the revocation and the refusal
				t.Errorf("receipt %v, %d runs, %d uses, %d events", r, l.runs, l.ledger.Uses(), len(l.ledger.Events()))
			}
		})
	}
}

// A revocation after the use does not undo it: the receipt is recorded, and the bundle stays good. It belongs to one tenant.
func TestExecute_revokedLater(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d, err := counterfoil.Decide(context.Background(), revokeParams(l.x.Approval.Digest()), approverKey(t), now())
	noError(t, err)
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte(rawResult)}, l.ledger.Revoke(d, revokedEvent(t))
	})
	_, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeSucceeded, "")
	_, _, err = l.execute()
	wantCode(t, err, counterfoil.CodeAlreadyUsed)

	other := revokeParams(l.x.Approval.Digest())
	other.Tenant = "other"
	l = newLab(t)
	d, err = counterfoil.Decide(context.Background(), other, counterfoiltest.Key(t, counterfoil.RoleApprover, reviewer, "other"), now())
	noError(t, err)
	noError(t, l.ledger.Revoke(d, revokedEvent(t)))
	_, r, err = l.execute()
	l.settled(r, err, counterfoil.OutcomeSucceeded, "")

	deny := other
	deny.Verb, deny.Why = counterfoil.VerbDeny, ""
	d, err = counterfoil.Decide(context.Background(), deny, approverKey(t), now())
	noError(t, err)
	for _, d := range []*counterfoil.Decision{d, nil} {
		if err := l.ledger.Revoke(d, revokedEvent(t)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("got %v", err)
		}
	}
}

func TestDecision_revoke(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	params := revokeParams(counterfoil.ActorSubject("agent:planner"))
	d, err := counterfoil.Decide(ctx, params, approverKey(t), now())
	noError(t, err)
	if p := payloadOf(d.Envelope()); p["why"] != "compromised" || p["verb"] != "revoke" || p["subject"] != digestOf("actor", "agent:planner") {
		t.Errorf("got %v", p)
	}
	again, err := counterfoil.ParseDecision(d.Envelope())
	noError(t, err)
	noError(t, again.Verify(allKeys(t), params))
	if again.Tenant() != "acme" || again.Verb() != counterfoil.VerbRevoke || again.Why() != counterfoil.RevokedCompromised || again.Subject() != params.Subject {
		t.Errorf("got %s %s %s %s", again.Tenant(), again.Verb(), again.Why(), again.Subject())
	}
	softer := params
	softer.Why = counterfoil.RevokedSuperseded
	wantCode(t, again.Verify(allKeys(t), softer), counterfoil.CodeIntegrityFailed)
	for name, edit := range map[string]func(*counterfoil.DecisionParams){
		"no why":             func(p *counterfoil.DecisionParams) { p.Why = "" },
		"an unknown why":     func(p *counterfoil.DecisionParams) { p.Why = "lost" },
		"no subject":         func(p *counterfoil.DecisionParams) { p.Subject = counterfoil.Digest{} },
		"a denial with why":  func(p *counterfoil.DecisionParams) { p.Verb = counterfoil.VerbDeny },
		"a verb in capitals": func(p *counterfoil.DecisionParams) { p.Verb = "Revoke" },
	} {
		p := params
		edit(&p)
		if _, err := counterfoil.Decide(ctx, p, approverKey(t), now()); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err = counterfoil.Decide(ctx, params, policyKey(t), now())
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
	if got := counterfoil.KeySubject("k").String(); got != digestOf("key-id", "k") {
		t.Errorf("got %s", got)
	}
}

// A standing grant, the person who gave it and their key can be revoked: no approval that rests on it is spent any more.
func TestExecute_revokedGrant(t *testing.T) {
	t.Parallel()
	g := mustGrant(t, nil)
	for name, subject := range map[string]counterfoil.Digest{
		"the grant": g.Digest(), "the person": counterfoil.ActorSubject(reviewer),
		"the person's key": counterfoil.KeySubject(approverKey(t).Public().ID), "the gateway's key": counterfoil.KeySubject(policyKey(t).Public().ID),
	} {
		l := grantLab(t, g)
		d, err := counterfoil.Decide(context.Background(), revokeParams(subject), approverKey(t), now())
		noError(t, err)
		noError(t, l.ledger.Revoke(d, revokedEvent(t)))
		_, r, err := l.execute()
		if counterfoil.CodeOf(err) != counterfoil.CodeRevoked || r != nil || l.runs != 0 {
			t.Errorf("%s: got %v, receipt %v, %d runs", name, err, r, l.runs)
		}
	}
	l := grantLab(t, g)
	_, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeSucceeded, "")
}

// A bundle and an approval say what they rest on: exactly what a use of theirs is refused for.
func TestRestsOn(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*lab{"a person's": newLab(t), "a grant's": grantLab(t, mustGrant(t, nil))} {
		b := l.bundle()
		subjects := b.RestsOn()
		want := []counterfoil.Digest{
			l.x.Approval.Digest(), l.x.DryRun.Policy().Digest(), counterfoil.ActorSubject(l.x.DryRun.Plan().Actor()),
		}
		r, err := b.Verify(l.x.Keys, tomorrow())
		noError(t, err)
		for _, k := range r.ApprovalKeys {
			want = append(want, counterfoil.KeySubject(k.ID))
		}
		for _, d := range want {
			if !slices.Contains(subjects, d) || !counterfoil.RestsOn(l.x.DryRun, l.x.Approval, d) {
				t.Errorf("%s: it does not rest on %s", name, d)
			}
		}
		if counterfoil.RestsOn(l.x.DryRun, l.x.Approval, counterfoil.ActorSubject("agent:other")) {
			t.Errorf("%s: it rests on another", name)
		}
	}
	if (&counterfoil.Bundle{}).RestsOn() != nil || counterfoil.RestsOn(nil, nil, counterfoil.Digest{}) {
		t.Error("nothing rests on something")
	}
}
