package gateway_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// tenants opens a gateway whose tenants are kept in its store.
func (f *fixture) tenants() (*gate, *tenancy.Directory) {
	f.t.Helper()
	var d *tenancy.Directory
	g := f.open(func(c *gateway.Config) {
		rows, ok := c.Store.(tenancy.Store)
		if !ok {
			f.t.Fatal("the store keeps no tenants")
		}
		d = tenancy.New(tenancy.Options{
			Store: rows, Names: f.keys.Pseudonyms(), Audience: f.keys.Audience(), Now: f.clock.now, Rand: rand.Reader, Lag: time.Second,
		})
		c.Stands = d.Standing
	})
	return g, d
}

func TestStanding(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]tenancy.Target{
		"the tenant":             {Kind: tenancy.TargetTenant},
		"the agent":              {Kind: tenancy.TargetAgent, Name: "agent:test"},
		"the tool":               {Kind: tenancy.TargetTool, Name: "send"},
		"the upstream":           {Kind: tenancy.TargetUpstream, Name: "fake"},
		"another agent":          {Kind: tenancy.TargetAgent, Name: "agent:other"},
		"a tool of another name": {Kind: tenancy.TargetTool, Name: "sen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			g, d := f.tenants()
			u := newUpstream()
			g.do(t.Context(), call(u, "send", `{}`, 0)).want(t, gateway.DeniedByPolicy) // no such tenant
			_, err := d.Create(t.Context(), "person:ada", tenant, tenancy.Settings{})
			must(t, err)
			g.do(t.Context(), call(u, "send", `{"a":1}`, 0)).want(t, gateway.ApprovalPending)
			id := g.pending()
			_, err = d.Freeze(t.Context(), "person:ada", tenant, target)
			must(t, err)
			n, err := g.VoidFrozen(t.Context(), tenant)
			must(t, err)
			if name == "another agent" || name == "a tool of another name" {
				if s := g.state(id).State; n != 0 || s != gateway.Pending {
					t.Fatalf("%d voided; the request is %s", n, s)
				}
				return
			}
			if s := g.state(id).State; n != 1 || s != gateway.Void {
				t.Fatalf("%d voided; the request is %s", n, s)
			}
			g.do(t.Context(), call(u, "send", `{"a":1}`, 0)).want(t, gateway.DeniedByPolicy)
			if _, err := d.Unfreeze(t.Context(), "person:ada", tenant, target); err == nil {
				t.Fatal("whoever froze it has lifted it")
			}
			_, err = d.Unfreeze(t.Context(), "person:bob", tenant, target)
			must(t, err)
			g.do(t.Context(), call(u, "send", `{"a":2}`, 0)).want(t, gateway.ApprovalPending)
			if u.effects() != 0 {
				t.Fatal("something was sent")
			}
		})
	}
}

// What was approved before a freeze on another process is not spent after it, though the gate has not heard of it.
func TestStanding_otherProcess(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g, d := f.tenants()
	_, err := d.Create(t.Context(), "person:ada", tenant, tenancy.Settings{})
	must(t, err)
	u := newUpstream()
	done := g.start(t.Context(), call(u, "send", `{}`, 10*time.Second))
	id := g.pending()
	_, other := f.tenants()
	// The first process has just asked: for a second it believes what it knows.
	_, err = d.Get(t.Context(), tenant)
	must(t, err)
	_, err = other.Freeze(t.Context(), "person:bob", tenant, tenancy.Target{Kind: tenancy.TargetTool, Name: "send"})
	must(t, err)
	g.approve(id)
	if o := <-done; o.reason == "" || u.effects() != 0 {
		t.Fatalf("%d effects, %q", u.effects(), o.reason)
	}
	// A change that does not touch the call does not stop it.
	_, err = other.Unfreeze(t.Context(), "person:ada", tenant, tenancy.Target{Kind: tenancy.TargetTool, Name: "send"})
	must(t, err)
	f.clock.advance(2 * time.Second)
	done = g.start(t.Context(), call(u, "send", `{"again":true}`, 10*time.Second))
	id = g.pending()
	_, err = other.Freeze(t.Context(), "person:bob", tenant, tenancy.Target{Kind: tenancy.TargetTool, Name: "delete"})
	must(t, err)
	g.approve(id)
	if o := <-done; o.reason != "" || u.effects() != 1 {
		t.Fatalf("%d effects, %v", u.effects(), o.err)
	}
}

// A call under way is told to stop when what it touches is frozen.
func TestStanding_running(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g, d := f.tenants()
	_, err := d.Create(t.Context(), "person:ada", tenant, tenancy.Settings{})
	must(t, err)
	u := newUpstream()
	running := make(chan struct{})
	u.answer = func(ctx context.Context, _ gateway.Request) (gateway.Answer, error) {
		close(running)
		<-ctx.Done()
		return gateway.Answer{}, context.Cause(ctx)
	}
	done := g.start(t.Context(), call(u, "send", `{}`, 10*time.Second))
	g.approve(g.pending())
	<-running
	_, err = d.Freeze(t.Context(), "person:ada", tenant, tenancy.Target{Kind: tenancy.TargetAgent, Name: "agent:test"})
	must(t, err)
	select {
	case o := <-done:
		o.want(t, gateway.OutcomeUnknown)
	case <-time.After(20 * time.Second):
		t.Fatal("the call goes on")
	}
}

// What one tenant's person says of an upstream holds for that tenant alone, though both have the same upstream.
func TestClassify_perTenant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g, d := f.tenants()
	u := newUpstream()
	for _, id := range []string{tenant, "other"} {
		_, err := d.Create(t.Context(), "person:ada", id, tenancy.Settings{})
		must(t, err)
	}
	as := func(id string) gateway.Call {
		c := call(u, "look", `{}`, 0)
		c.Tenant, c.Run = id, "run-"+id
		return c
	}
	for _, id := range []string{tenant, "other"} {
		g.do(t.Context(), as(id)).want(t, gateway.ApprovalPending)
	}
	servers, err := g.Servers(t.Context(), tenant)
	must(t, err)
	must(t, g.Classify(t.Context(), tenant, servers[0].ID, servers[0].Digest, map[string]counterfoil.Effect{"look": counterfoil.EffectRead}, f.key))
	for range 2 { // whoever comes first
		g.do(t.Context(), as(tenant)).want(t, "")
		g.do(t.Context(), as("other")).want(t, gateway.ApprovalPending)
	}
	if n := u.effects(); n != 2 {
		t.Fatalf("%d effects", n)
	}
}
