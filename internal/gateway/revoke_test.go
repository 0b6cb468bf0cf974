package gateway_test

import (
	"errors"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// What rests on something revoked runs no more, whether its caller waits or comes back, and only an approver can say so.
func TestRevoke(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]func(*fixture) counterfoil.Digest{
		"the agent":        func(*fixture) counterfoil.Digest { return counterfoil.ActorSubject("agent:test") },
		"the approver":     func(*fixture) counterfoil.Digest { return counterfoil.ActorSubject("person:ada") },
		"the approver key": func(f *fixture) counterfoil.Digest { return counterfoil.KeySubject(f.key.Public().ID) },
		"the approval":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, u := setup(t), newUpstream()
			g := f.open(nil)
			g.do(t.Context(), call(u, "send", `{}`, 0)).want(t, gateway.ApprovalPending)
			id := g.pending()
			g.approve(id)
			var err error
			if subject == nil {
				_, err = g.RevokeApproval(t.Context(), tenant, id, counterfoil.RevokedSuperseded, "", f.key)
			} else {
				r := gateway.RevocationRequest{Tenant: tenant, Subject: subject(f), Why: counterfoil.RevokedSuperseded}
				if _, err := g.Revoke(t.Context(), r, f.keys.Policy()); !errors.Is(err, counterfoil.CodeSignatureInvalid) {
					t.Fatalf("by the policy's key: %v", err)
				}
				_, err = g.Revoke(t.Context(), r, f.key)
			}
			must(t, err)
			if a := g.state(id); a.State != gateway.Void || a.VoidCause != "it was revoked" {
				t.Fatalf("the request is %s: %s", a.State, a.VoidCause)
			}
			if o := g.do(t.Context(), call(u, "send", `{}`, 0)); o.reason == "" || u.effects() != 0 {
				t.Fatalf("%d effects, %q", u.effects(), o.reason)
			}
		})
	}
}

func TestRevoke_other(t *testing.T) {
	t.Parallel()
	f, u := setup(t), newUpstream()
	g := f.open(nil)
	g.do(t.Context(), call(u, "send", `{}`, 0)).want(t, gateway.ApprovalPending)
	id := g.pending()
	if _, err := g.RevokeApproval(t.Context(), tenant, id, counterfoil.RevokedSuperseded, "", f.key); err == nil {
		t.Fatal("a request without an approval was revoked")
	}
	g.approve(id)
	_, err := g.Revoke(t.Context(), gateway.RevocationRequest{
		Tenant: tenant, Subject: counterfoil.ActorSubject("agent:other"), Why: counterfoil.RevokedCompromised,
	}, f.key)
	must(t, err)
	g.do(t.Context(), call(u, "send", `{}`, 0)).want(t, "")
}

// A bundle carries what was revoked after the use, each with its place in the log, and still verifies.
func TestBundle_revocations(t *testing.T) {
	t.Parallel()
	f, u := setup(t), newUpstream()
	var logs *translog.Logs
	g := f.open(func(c *gateway.Config) { logs, _ = c.Log.(*translog.Logs) })
	done := g.start(t.Context(), call(u, "send", `{}`, 10*time.Second))
	g.approve(g.pending())
	out := <-done
	out.want(t, "")
	for _, why := range []counterfoil.RevocationReason{counterfoil.RevokedSuperseded, counterfoil.RevokedCompromised} {
		_, err := g.Revoke(t.Context(), gateway.RevocationRequest{Tenant: tenant, Subject: counterfoil.ActorSubject("agent:test"), Why: why}, f.key)
		must(t, err)
	}
	_, err := g.Revoke(t.Context(), gateway.RevocationRequest{
		Tenant: tenant, Subject: counterfoil.ActorSubject("agent:other"), Why: counterfoil.RevokedCompromised,
	}, f.key)
	must(t, err)
	must(t, logs.Publish(t.Context()))
	raw, err := g.Bundle(t.Context(), tenant, out.answer.Receipt, false)
	must(t, err)
	b, err := counterfoil.ParseBundle(raw)
	must(t, err)
	if b.Log == nil || len(b.Log.Revocations) != 2 {
		t.Fatalf("the proof has not the two revocations: %+v", b.Log)
	}
	r, err := b.Verify(f.ring(), time.Now())
	must(t, err)
	if !r.Logged {
		t.Fatal(r.Unchecked)
	}
}
