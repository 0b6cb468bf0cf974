package counterfoil_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

// twoSteps returns a plan of two steps on one source and a policy that has room for it.
func twoSteps() (plan, policy doc) {
	p, pol := onePlanOf(step(operation()), step(operation())), wide()
	asDoc(inside(p, "steps", 1))["id"] = "query-again"
	return p, pol
}

func onePlanOf(steps ...any) doc {
	p := plan()
	p["steps"] = steps
	return p
}

func wide() doc {
	p := policy()
	p["maxSteps"], p["maxRows"], p["maxBytes"] = 128, 100_000, 100_000_000
	return p
}

func TestParsePlan(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, plan())
	op := operation()
	s := step(op)
	if p.ID() != "plan-1" || p.Tenant() != "acme" || p.Audience() != "log.example.test" || p.Actor() != "agent:planner" {
		t.Errorf("got %s %s %s %s", p.ID(), p.Tenant(), p.Audience(), p.Actor())
	}
	if got := p.Digest().String(); got != digestOf("plan", plan()) {
		t.Errorf("digest %s", got)
	}
	if d := cmp.Diff(string(canonical(plan())), string(p.Canonical())); d != "" {
		t.Error(d)
	}
	digest := func(v any) counterfoil.Digest {
		d, err := counterfoil.ParseDigest(asString(v))
		noError(t, err)
		return d
	}
	want := []counterfoil.Step{{
		ID: "query-incidents", Tool: "query", Effect: counterfoil.EffectRead, QueryPlanID: "tools/call",
		Fingerprint: digest(inside(op, "queryPlan", "fingerprint")), ParametersDigest: digest(s["parametersDigest"]),
		InputDigest: digest(s["inputDigest"]), Fields: []string{"OBJECTID", "status"}, Rows: 100, Bytes: 50_000,
		Source: counterfoil.Source{
			ID: "incidents", SchemaVersion: "schema-7", SourceVersion: "snapshot-9", Scopes: []string{"incidents:read"},
			DataMode: counterfoil.DataLive, ObservedAt: at(19, 59, 30, 0), Attribution: "Incident service",
		},
	}}
	if d := cmp.Diff(want, p.Steps()); d != "" {
		t.Error(d)
	}
	p.Steps()[0].Fields[0], p.Steps()[0].Source.Scopes[0] = "password", "admin"
	p.Canonical()[0] = 'x'
	if d := cmp.Diff(want, p.Steps()); d != "" {
		t.Errorf("the plan changed: %s", d)
	}
}

// The order in which lists and members are written down does not matter; what they say does.
func TestParsePlan_equivalence(t *testing.T) {
	t.Parallel()
	p := plan()
	asDoc(inside(p, "steps", 0))["fields"] = list{"status", "OBJECTID"}
	if mustPlan(t, p).Digest() != mustPlan(t, plan()).Digest() {
		t.Error("the order of fields changed the digest")
	}
	none := doc{"destructive": 0, "job": 0, "mutation": 0, "publish": 0, "read": 1, "realtime": 0, "render": 0, "share": 0}
	budget := inside(decode(mustDryRun(t, p, policy()).Canonical()), "effectBudget")
	if d := cmp.Diff(decode(canonical(doc{"steps": 1, "rows": 100, "bytes": 50_000, "byEffect": none})), budget); d != "" {
		t.Error(d)
	}
	p = plan()
	asDoc(inside(p, "steps", 0, "source"))["authorizationScope"] = list{"b", "a", "\U0001f600", "\uffee"}
	q := plan()
	asDoc(inside(q, "steps", 0, "source"))["authorizationScope"] = list{"a", "b", "\U0001f600", "\uffee"}
	one, two := mustPlan(t, p), mustPlan(t, q)
	if one.Digest() != two.Digest() {
		t.Error("the order of scopes changed the digest")
	}
	if !strings.Contains(string(one.Canonical()), `["a","b","😀","`+"\uffee"+`"]`) {
		t.Errorf("scopes are not in UTF-16 order: %s", one.Canonical())
	}
	p = plan()
	p["actor"] = "agent:other"
	if mustPlan(t, p).Digest() == mustPlan(t, plan()).Digest() {
		t.Error("two actors have one digest")
	}
	op := operation()
	op["parameters"] = doc{"where": "status = 'closed'"}
	refreshOperation(op)
	if step(op)["inputDigest"] == step(operation())["inputDigest"] {
		t.Error("two operations have one input digest")
	}
	p, q = twoSteps()
	again, _ := twoSteps()
	slices.Reverse(asList(again["steps"]))
	if mustPlan(t, p).Digest() == mustPlan(t, again).Digest() {
		t.Error("the order of steps did not change the digest")
	}
	_ = q
}

func TestParsePlan_rejects(t *testing.T) {
	t.Parallel()
	many := func(n int) list {
		out := list{}
		for i := range n {
			out = append(out, fmt.Sprintf("f%03d", i))
		}
		return out
	}
	for name, f := range map[string]func(p, s doc){
		"a query plan of another id than was digested": func(_, s doc) { asDoc(s["queryPlan"])["id"] = "tools/other" },
		"another fingerprint than was digested":        func(_, s doc) { asDoc(s["queryPlan"])["fingerprint"] = digestOf("arguments", 1) },
		"other parameters than were digested":          func(_, s doc) { s["parametersDigest"] = digestOf("parameters", 1) },
		"another tool than was digested":               func(_, s doc) { s["tool"] = "applyEdits" },
		"another effect than was digested":             func(_, s doc) { s["effect"] = "mutation" },
		"other fields than were digested":              func(_, s doc) { s["fields"] = list{"status"} },
		"another source than was digested":             func(_, s doc) { asDoc(s["source"])["id"] = "other" },
		"an effect that is none":                       func(_, s doc) { s["effect"] = "write"; refreshStep(s) },
		"an effect in another case":                    func(_, s doc) { s["effect"] = "Read"; refreshStep(s) },
		"an empty effect":                              func(_, s doc) { s["effect"] = ""; refreshStep(s) },
		"a data mode that is none":                     func(_, s doc) { asDoc(inside(s, "source", "provenance"))["dataMode"] = "Live" },
		"a field twice":                                func(_, s doc) { s["fields"] = list{"status", "status"} },
		"513 fields":                                   func(_, s doc) { s["fields"] = many(513); refreshStep(s) },
		"no scope":                                     func(_, s doc) { asDoc(s["source"])["authorizationScope"] = list{} },
		"129 scopes":                                   func(_, s doc) { asDoc(s["source"])["authorizationScope"] = many(129) },
		"a scope twice":                                func(_, s doc) { asDoc(s["source"])["authorizationScope"] = list{"a", "b", "a"} },
		"a citation with a credential": func(_, s doc) {
			asDoc(inside(s, "source", "provenance"))["citations"] = list{doc{"uri": "https://data.example.test/incidents?access_token=secret"}}
		},
		"a citation that is a text": func(_, s doc) {
			asDoc(inside(s, "source", "provenance"))["citations"] = list{"https://data.example.test/incidents"}
		},
		"65 citations": func(_, s doc) {
			asDoc(inside(s, "source", "provenance"))["citations"] = slices.Repeat(list{doc{"uri": "https://data.example.test/incidents"}}, 65)
		},
		"evidence that was not digested": func(_, s doc) { s["evidenceDigest"] = digestOf("evidence", 1) },
		"no step":                        func(p, _ doc) { p["steps"] = list{} },
		"129 steps": func(p, s doc) {
			all := list{}
			for i := range 129 {
				one := asDoc(clone(s))
				one["id"] = fmt.Sprintf("step-%d", i)
				all = append(all, one)
			}
			p["steps"] = all
		},
		"two steps of one id":              func(p, s doc) { p["steps"] = list{s, s} },
		"another kind":                     func(p, _ doc) { p["kind"] = "counterfoil.policy" },
		"another version":                  func(p, _ doc) { p["version"] = "1.1" },
		"a version in other words":         func(p, _ doc) { p["version"] = "1" },
		"an actor with a hidden character": func(p, _ doc) { p["actor"] = "agent:\u200bplanner" },
		"a tool name with a bidi control":  func(_, s doc) { s["tool"] = "query\u202e"; refreshStep(s) },
		"negative rows":                    func(_, s doc) { asDoc(s["limits"])["rows"] = -1 },
		"the source's id in another case":  func(_, s doc) { asDoc(s["source"])["id"] = "Incidents" },
		"an input digest in upper case":    func(_, s doc) { s["inputDigest"] = strings.ToUpper(asString(s["inputDigest"])) },
		"an input digest of nothing":       func(_, s doc) { s["inputDigest"] = "sha256:" + strings.Repeat("0", 64) },
		"an empty model":                   func(p, _ doc) { p["model"] = "" },
		"a null provider":                  func(p, _ doc) { p["provider"] = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan()
			f(p, asDoc(inside(p, "steps", 0)))
			wantCode(t, drop(counterfoil.ParsePlan)(canonical(p)), counterfoil.CodeInvalidInput)
		})
	}
	t.Run("one source described in two ways", func(t *testing.T) {
		t.Parallel()
		p, _ := twoSteps()
		asDoc(inside(p, "steps", 1, "source"))["sourceVersion"] = "snapshot-10"
		err := drop(counterfoil.ParsePlan)(canonical(p))
		wantCode(t, err, counterfoil.CodeInvalidInput)
		if !strings.Contains(err.Error(), "/steps/1/source: the plan describes one source in two ways") {
			t.Error(err)
		}
	})
}

func TestParsePlan_atTheLimits(t *testing.T) {
	t.Parallel()
	steps := list{}
	for i := range 128 {
		op := operation()
		op["sourceId"] = fmt.Sprintf("source-%d", i)
		s := step(op)
		s["id"] = fmt.Sprintf("step-%d", i)
		asDoc(s["source"])["id"] = op["sourceId"]
		refreshStep(s)
		steps = append(steps, s)
	}
	p := mustPlan(t, onePlanOf(steps...))
	if len(p.Steps()) != 128 {
		t.Errorf("%d steps", len(p.Steps()))
	}
	s := step(operation())
	fields, scopes := list{}, list{}
	for i := range 512 {
		fields = append(fields, fmt.Sprintf("f%d", i))
		if i < 128 {
			scopes = append(scopes, fmt.Sprintf("s%d", i))
		}
	}
	s["fields"], asDoc(s["source"])["authorizationScope"] = fields, scopes
	refreshStep(s)
	mustPlan(t, onePlanOf(s))
}

func TestEffect_Class(t *testing.T) {
	t.Parallel()
	want := map[counterfoil.Effect]counterfoil.Class{
		"read": "read", "render": "read", "mutation": "write", "publish": "write", "share": "write", "realtime": "write",
		"job": "write", "destructive": "destructive",
	}
	for _, e := range counterfoil.Effects() {
		if e.Class() != want[e] {
			t.Errorf("%s is %s", e, e.Class())
		}
	}
	if len(counterfoil.Effects()) != len(want) {
		t.Errorf("%d effects", len(want))
	}
	for _, e := range []counterfoil.Effect{"", "Read", "write"} {
		if e.Class() != counterfoil.ClassDestructive {
			t.Errorf("%q is %s", e, e.Class())
		}
	}
}

func TestParsePolicy_rejects(t *testing.T) {
	t.Parallel()
	many := func(n int) doc {
		out := doc{}
		for i := range n {
			out[fmt.Sprintf("source-%d", i)] = sourcePolicy()
		}
		return out
	}
	for name, f := range map[string]func(p, s doc){
		"no tools":                 func(p, _ doc) { p["allowedTools"] = list{} },
		"no sources":               func(p, _ doc) { p["sources"] = doc{} },
		"129 sources":              func(p, _ doc) { p["sources"] = many(129) },
		"no effects":               func(p, _ doc) { p["allowedEffects"] = list{} },
		"an effect twice":          func(p, _ doc) { p["allowedEffects"] = list{"read", "read"} },
		"an unknown effect":        func(p, _ doc) { p["allowedEffects"] = list{"read", "*"} },
		"no data modes":            func(_, s doc) { s["dataModes"] = list{} },
		"an unknown data mode":     func(_, s doc) { s["dataModes"] = list{"any"} },
		"no scopes":                func(_, s doc) { s["authorizationScope"] = list{} },
		"no schema versions":       func(_, s doc) { s["schemaVersions"] = list{} },
		"no source versions":       func(_, s doc) { s["sourceVersions"] = list{} },
		"a source with a bad name": func(p, _ doc) { p["sources"] = doc{"a\u200b": sourcePolicy()} },
		"a source without a name":  func(p, _ doc) { p["sources"] = doc{"": sourcePolicy()} },
		"no step":                  func(p, _ doc) { p["maxSteps"] = 0 },
		"129 steps":                func(p, _ doc) { p["maxSteps"] = 129 },
		"513 fields":               func(p, _ doc) { p["maxFieldsPerStep"] = 513 },
		"129 scopes":               func(p, _ doc) { p["maxAuthorizationScopesPerSource"] = 129 },
		"no scope":                 func(p, _ doc) { p["maxAuthorizationScopesPerSource"] = 0 },
		"parameter bytes":          func(p, _ doc) { p["maxOperationParameterBytes"] = 16<<20 + 1 },
		"parameter values":         func(p, _ doc) { p["maxOperationParameterNodes"] = 1_000_001 },
		"parameter depth":          func(p, _ doc) { p["maxOperationParameterDepth"] = 65 },
		"no parameters":            func(p, _ doc) { p["maxOperationParameterNodes"] = 0 },
		"a negative skew":          func(p, _ doc) { p["maxClockSkewMs"] = -1 },
		"a skew above five minutes": func(p, _ doc) {
			p["maxClockSkewMs"] = 300_001
		},
		"a skew of ten years":                          func(p, _ doc) { p["maxClockSkewMs"] = int64(10 * 365 * 24 * time.Hour / time.Millisecond) },
		"no lifetime":                                  func(p, _ doc) { p["maxApprovalLifetimeMs"] = 0 },
		"a lifetime above a week":                      func(p, _ doc) { p["maxApprovalLifetimeMs"] = 7*24*3600*1000 + 1 },
		"an age without end":                           func(_, s doc) { s["maxProvenanceAgeMs"] = int64(9007199254740991) },
		"no grant":                                     func(p, _ doc) { p["grants"] = list{} },
		"a grant of no tool":                           func(p, _ doc) { asDoc(inside(p, "grants", 0))["tools"] = list{} },
		"a grant of no source":                         func(p, _ doc) { asDoc(inside(p, "grants", 0))["sources"] = list{} },
		"a grant of no effect":                         func(p, _ doc) { asDoc(inside(p, "grants", 0))["effects"] = list{} },
		"a grant of an unknown effect":                 func(p, _ doc) { asDoc(inside(p, "grants", 0))["effects"] = list{"write"} },
		"257 grants":                                   func(p, _ doc) { p["grants"] = slices.Repeat(asList(p["grants"]), 257) },
		"steps of no effect":                           func(p, _ doc) { p["maxStepsByEffect"] = doc{} },
		"steps of an unknown effect":                   func(p, _ doc) { p["maxStepsByEffect"] = doc{"write": 1} },
		"129 steps of an effect":                       func(p, _ doc) { p["maxStepsByEffect"] = doc{"read": 129} },
		"an unknown step order":                        func(p, _ doc) { p["stepOrder"] = "Declared" },
		"no citation":                                  func(p, _ doc) { p["maxCitationsPerSource"] = 0 },
		"65 citations":                                 func(p, _ doc) { p["maxCitationsPerSource"] = 65 },
		"origins without prefixes":                     func(_, s doc) { delete(s, "citationResourcePrefixes") },
		"prefixes without origins":                     func(_, s doc) { delete(s, "citationOrigins") },
		"no origin":                                    func(_, s doc) { s["citationOrigins"] = list{} },
		"an origin with a path":                        func(_, s doc) { s["citationOrigins"] = list{"https://data.example.test/"} },
		"an origin in upper case":                      func(_, s doc) { s["citationOrigins"] = list{"https://Data.example.test"} },
		"an origin of another scheme":                  func(_, s doc) { s["citationOrigins"] = list{"http://data.example.test"} },
		"an origin with the port that it has anyway":   func(_, s doc) { s["citationOrigins"] = list{"https://data.example.test:443"} },
		"a prefix that is no path":                     func(_, s doc) { s["citationResourcePrefixes"] = list{"incidents"} },
		"a prefix that leaves itself":                  func(_, s doc) { s["citationResourcePrefixes"] = list{"/a/../b"} },
		"a prefix that is not canonical":               func(_, s doc) { s["citationResourcePrefixes"] = list{"/a;b"} },
		"a list that isn't sorted of itself but twice": func(p, _ doc) { p["allowedTools"] = list{"b", "a", "b"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fullPolicy()
			f(p, asDoc(inside(p, "sources", "incidents")))
			wantCode(t, drop(counterfoil.ParsePolicy)(canonical(p)), counterfoil.CodeInvalidInput)
		})
	}
	p := fullPolicy()
	p["sources"] = many(128)
	p["maxSteps"], p["maxClockSkewMs"], p["maxApprovalLifetimeMs"] = 128, 300_000, 7*24*3600*1000
	p["maxOperationParameterBytes"], p["maxOperationParameterNodes"], p["maxOperationParameterDepth"] = 16<<20, 1_000_000, 64
	p["allowedEffects"] = list{"share", "read", "render", "mutation", "publish", "realtime", "job", "destructive"}
	pol := mustPolicy(t, p)
	slices.SortFunc(asList(p["allowedEffects"]), func(a, b any) int { return strings.Compare(asString(a), asString(b)) })
	if pol.Digest().String() != digestOf("policy", p) {
		t.Error("the policy's digest is another")
	}
	if d := cmp.Diff(string(canonical(p)), string(pol.Canonical())); d != "" {
		t.Error(d)
	}
}

// Absent allowedEffects means read alone, and says so in other bytes than the explicit list.
func TestParsePolicy_defaults(t *testing.T) {
	t.Parallel()
	explicit := policy()
	explicit["allowedEffects"] = list{"read"}
	if mustPolicy(t, policy()).Digest() == mustPolicy(t, explicit).Digest() {
		t.Error("two documents have one digest")
	}
	_, err := mustPlan(t, plan()).DryRun(mustPolicy(t, explicit), now())
	noError(t, err)
	for _, e := range counterfoil.Effects()[1:] {
		op := operation()
		op["effect"] = string(e)
		_, err := mustPlan(t, onePlanOf(step(op))).DryRun(mustPolicy(t, policy()), now())
		wantCode(t, err, counterfoil.CodePolicyDenied)
		explicit["allowedEffects"] = list{string(e)}
		_, err = mustPlan(t, onePlanOf(step(op))).DryRun(mustPolicy(t, explicit), now())
		noError(t, err)
	}
}
