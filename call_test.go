package counterfoil_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

func call(t testing.TB) *counterfoil.Call {
	t.Helper()
	args, err := counterfoil.ParseArguments([]byte(`{"where": "status = 'open'"}`))
	noError(t, err)
	return &counterfoil.Call{
		PlanID: "plan-1", Tenant: "acme", Audience: "log.example.test", Actor: "agent:planner", Tool: "query", Method: "tools/call",
		Effect: counterfoil.EffectRead, Arguments: args, Fields: []string{"status", "OBJECTID"}, Rows: 100, Bytes: 50_000,
		Source: counterfoil.Source{
			ID: "incidents", SchemaVersion: "schema-7", SourceVersion: "snapshot-9", Scopes: []string{"b", "a"}, DataMode: counterfoil.DataLive,
			ObservedAt: at(19, 59, 30, 0), Attribution: "Incident service",
		},
	}
}

// A call's plan, policy and operation are documents like any other, and fit each other.
func TestCall(t *testing.T) {
	t.Parallel()
	c := call(t)
	p := plan()
	delete(p, "provider")
	s := step(operation())
	s["id"], asDoc(s["source"])["authorizationScope"] = counterfoil.CallStep, list{"a", "b"}
	refreshStep(s)
	p["steps"] = list{s}
	if d := cmp.Diff(string(canonical(p)), string(c.Plan())); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(string(canonical(operation())), string(c.Operation())); d != "" {
		t.Error(d)
	}
	rules, err := counterfoil.ParseDigest(asString(policy()["rulesDigest"]))
	noError(t, err)
	want := doc{
		"kind": "counterfoil.policy", "version": "1.0", "allowedTools": list{"query"}, "allowedEffects": list{"read"},
		"maxSteps": 1, "maxRows": 100, "maxBytes": 50_000, "maxFieldsPerStep": 2, "maxAuthorizationScopesPerSource": 2,
		"maxOperationParameterBytes": 16 << 20, "maxOperationParameterNodes": 1_000_000, "maxOperationParameterDepth": 64,
		"maxApprovalLifetimeMs": 60_000, "rulesDigest": policy()["rulesDigest"],
		"sources": doc{"incidents": doc{
			"authorizationScope": list{"a", "b"}, "fields": list{"OBJECTID", "status"}, "schemaVersions": list{"schema-7"},
			"sourceVersions": list{"snapshot-9"}, "dataModes": list{"live"},
		}},
	}
	if d := cmp.Diff(string(canonical(want)), string(c.Policy(rules, time.Minute))); d != "" {
		t.Error(d)
	}
	if c.Fields[0] != "status" || c.Source.Scopes[0] != "b" {
		t.Error("the call's own lists were sorted")
	}

	pol, err := counterfoil.ParsePolicy(c.Policy(rules, time.Minute))
	noError(t, err)
	parsed, err := counterfoil.ParsePlan(c.Plan())
	noError(t, err)
	dry, err := parsed.DryRun(pol, now())
	noError(t, err)
	l := newLab(t)
	l.x.DryRun, l.x.StepID = dry, counterfoil.CallStep
	l.x.Operation, err = counterfoil.ParseOperation(c.Operation(), pol)
	noError(t, err)
	l.x.Context, err = counterfoil.NewContext(c.Source)
	noError(t, err)
	l.x.Approval = mustApprove(t, dry, counterfoil.ApprovalRequest{
		ID: "approval-1", Authority: counterfoil.AuthorityPolicy, IssuedAt: now(), ExpiresAt: now().Add(time.Minute),
	}, policyKey(t))
	_, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeSucceeded, "")
}

// A call may be filled with anything: what is wrong in it is refused by the parsers, and nothing panics.
func TestCall_badFields(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*counterfoil.Call){
		"nothing at all":       func(c *counterfoil.Call) { *c = counterfoil.Call{} },
		"no arguments":         func(c *counterfoil.Call) { c.Arguments = nil },
		"empty arguments":      func(c *counterfoil.Call) { c.Arguments = new(counterfoil.Arguments) },
		"bad UTF-8 in tool":    func(c *counterfoil.Call) { c.Tool = "query\xff" },
		"bad UTF-8 in method":  func(c *counterfoil.Call) { c.Method = "\xc3" },
		"quotes in a scope":    func(c *counterfoil.Call) { c.Source.Scopes = []string{"a\x01"} },
		"no effect":            func(c *counterfoil.Call) { c.Effect = "" },
		"a field twice":        func(c *counterfoil.Call) { c.Fields = []string{"a", "a"} },
		"a source without id":  func(c *counterfoil.Call) { c.Source.ID = "" },
		"a tool of no name":    func(c *counterfoil.Call) { c.Tool = "" },
		"a hidden tool":        func(c *counterfoil.Call) { c.Tool = "que\u200bry" },
		"an unpaired fragment": func(c *counterfoil.Call) { c.Tool = "\xed\xa0\x80" },
	} {
		c := call(t)
		f(c)
		if err := drop(counterfoil.ParsePlan)(c.Plan()); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: plan: %v", name, err)
		}
		pol, err := counterfoil.ParsePolicy(c.Policy(counterfoil.Digest{}, time.Minute))
		if err == nil {
			_, err = counterfoil.ParseOperation(c.Operation(), pol)
		}
		if name != "a source without id" && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: operation: %v", name, err)
		}
	}
	for name, f := range map[string]func(*counterfoil.Call){
		"negative rows":     func(c *counterfoil.Call) { c.Rows = -1 },
		"negative bytes":    func(c *counterfoil.Call) { c.Bytes = -1 },
		"no actor":          func(c *counterfoil.Call) { c.Actor = "" },
		"bad UTF-8 actor":   func(c *counterfoil.Call) { c.Actor = "agent\xff" },
		"no tenant":         func(c *counterfoil.Call) { c.Tenant = "" },
		"no audience":       func(c *counterfoil.Call) { c.Audience = "" },
		"no plan id":        func(c *counterfoil.Call) { c.PlanID = "" },
		"no observation":    func(c *counterfoil.Call) { c.Source.ObservedAt = time.Time{} },
		"a far observation": func(c *counterfoil.Call) { c.Source.ObservedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no attribution":    func(c *counterfoil.Call) { c.Source.Attribution = "" },
	} {
		c := call(t)
		f(c)
		if err := drop(counterfoil.ParsePlan)(c.Plan()); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: plan: %v", name, err)
		}
	}
	for _, lifetime := range []time.Duration{0, -time.Second, 999 * time.Microsecond, 8 * 24 * time.Hour} {
		if err := drop(counterfoil.ParsePolicy)(call(t).Policy(counterfoil.Digest{}, lifetime)); err == nil {
			t.Errorf("a lifetime of %s was accepted", lifetime)
		}
	}
	if bytes.Contains(call(t).Policy(counterfoil.Digest{}, time.Minute), []byte("rulesDigest")) {
		t.Error("rules that are none have a digest")
	}
}
