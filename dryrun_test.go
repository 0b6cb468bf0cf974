package counterfoil_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

func dryRunDoc(plan, policy doc, at time.Time, rows, size int) doc {
	byEffect := doc{}
	for _, e := range counterfoil.Effects() {
		byEffect[string(e)] = 0
	}
	sources := list{}
	for _, s := range asList(plan["steps"]) {
		byEffect[asString(asDoc(s)["effect"])] = asInt(byEffect[asString(asDoc(s)["effect"])]) + 1
		if len(sources) == 0 { // the fixtures have one source
			sources = append(sources, asDoc(s)["source"])
		}
	}
	return doc{
		"kind": "counterfoil.dry-run", "version": "1.0", "plan": plan, "planDigest": digestOf("plan", plan),
		"policyDigest": digestOf("policy", policy), "bindingsDigest": digestOf("bindings", sources), "evaluatedAt": stamp(at),
		"effectBudget": doc{"steps": len(asList(plan["steps"])), "rows": rows, "bytes": size, "byEffect": byEffect},
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	d := mustDryRun(t, plan(), policy())
	want := dryRunDoc(plan(), policy(), now(), 100, 50_000)
	if diff := cmp.Diff(string(canonical(want)), string(d.Canonical())); diff != "" {
		t.Error(diff)
	}
	if d.Digest().String() != digestOf("dry-run", want) {
		t.Errorf("digest %s", d.Digest())
	}
	if d.Plan().Digest().String() != digestOf("plan", plan()) || d.Policy().Digest().String() != digestOf("policy", policy()) {
		t.Error("the dry run is of another plan or policy")
	}
	if !d.EvaluatedAt().Equal(now()) {
		t.Errorf("evaluated at %s", d.EvaluatedAt())
	}
	d.Canonical()[0] = 'x'
	if d.Canonical()[0] != '{' {
		t.Error("the record can be changed")
	}
	two, pol := twoSteps()
	d = mustDryRun(t, two, pol)
	if diff := cmp.Diff(string(canonical(dryRunDoc(two, pol, now(), 200, 100_000))), string(d.Canonical())); diff != "" {
		t.Error(diff)
	}
	later, err := mustPlan(t, plan()).DryRun(mustPolicy(t, policy()), now().Add(time.Millisecond+999*time.Microsecond))
	noError(t, err)
	if !later.EvaluatedAt().Equal(now().Add(time.Millisecond)) {
		t.Errorf("the clock was not cut to milliseconds: %s", later.EvaluatedAt())
	}
	zone, err := mustPlan(t, plan()).DryRun(mustPolicy(t, policy()), now().In(time.FixedZone("", 7200)))
	noError(t, err)
	if zone.Digest() != mustDryRun(t, plan(), policy()).Digest() {
		t.Error("a time zone changed the digest")
	}
}

func TestDryRun_denies(t *testing.T) {
	t.Parallel()
	type change func(plan, step, policy, source doc)
	for _, c := range []struct {
		name, path string
		f          change
	}{
		{"an unknown tool", "/steps/0/tool", func(_, s, _, _ doc) { s["tool"] = "applyEdits" }},
		{"a tool in another case", "/steps/0/tool", func(_, s, _, _ doc) { s["tool"] = "Query" }},
		{"a mutation", "/steps/0/effect", func(_, s, _, _ doc) { s["effect"] = "mutation" }},
		{"a publication", "/steps/0/effect", func(_, s, _, _ doc) { s["effect"] = "publish" }},
		{"an undeclared field", "/steps/0/fields", func(_, s, _, _ doc) { s["fields"] = list{"status", "password"} }},
		{"a wider scope", "/steps/0/source", func(_, s, _, _ doc) {
			asDoc(s["source"])["authorizationScope"] = list{"incidents:admin", "incidents:read"}
		}},
		{"101 rows", "/steps", func(_, s, _, _ doc) { s["limits"] = doc{"rows": 101, "bytes": 1} }},
		{"50001 bytes", "/steps", func(_, s, _, _ doc) { s["limits"] = doc{"rows": 1, "bytes": 50_001} }},
		{"another schema", "/steps/0/source", func(_, s, _, _ doc) { asDoc(s["source"])["schemaVersion"] = "schema-8" }},
		{"another source version", "/steps/0/source", func(_, s, _, _ doc) { asDoc(s["source"])["sourceVersion"] = "snapshot-10" }},
		{"another data mode", "/steps/0/source", func(_, s, _, _ doc) { asDoc(inside(s, "source", "provenance"))["dataMode"] = "cached" }},
		{"an observation too old", "/steps/0/source", func(_, s, _, _ doc) { asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(at(19, 0, 0, 0)) }},
		{"an observation too old by a millisecond", "/steps/0/source", func(_, s, _, _ doc) {
			asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now().Add(-60_001 * time.Millisecond))
		}},
		{"an observation in the future", "/steps/0/source", func(_, s, _, _ doc) {
			asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now().Add(time.Millisecond))
		}},
		{"an observation in the future, without a bound on age", "/steps/0/source", func(_, s, _, src doc) {
			delete(src, "maxProvenanceAgeMs")
			asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now().Add(time.Millisecond))
		}},
		{"an observation in the future beyond the skew", "/steps/0/source", func(_, s, p, _ doc) {
			p["maxClockSkewMs"] = 5000
			asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now().Add(5001 * time.Millisecond))
		}},
		{"an unknown source", "/steps/0/source", func(_, s, _, _ doc) { asDoc(s["source"])["id"] = "constructor" }},
		{"two fields where one is allowed", "/steps/0/fields", func(_, _, p, _ doc) { p["maxFieldsPerStep"] = 1 }},
		{"two scopes where one is allowed", "/steps/0/source", func(_, s, p, src doc) {
			p["maxAuthorizationScopesPerSource"] = 1
			src["authorizationScope"], asDoc(s["source"])["authorizationScope"] = list{"a", "b"}, list{"a", "b"}
		}},
		{"two steps where one is allowed", "/steps", func(p, s, _, _ doc) {
			s["limits"] = doc{"rows": 1, "bytes": 1}
			second := asDoc(clone(s))
			second["id"] = "two"
			p["steps"] = list{s, second}
		}},
		{"rows of one step", "/steps/0/limits", func(_, _, p, _ doc) { p["maxRowsPerStep"] = 99 }},
		{"bytes of one step", "/steps/0/limits", func(_, _, p, _ doc) { p["maxBytesPerStep"] = 49_999 }},
		{"rows of two steps together", "/steps", func(p, s, pol, _ doc) {
			second := asDoc(clone(s))
			second["id"] = "two"
			p["steps"], pol["maxSteps"], pol["maxBytes"], pol["maxRows"] = list{s, second}, 2, 100_000, 199
		}},
		{"a sum beyond the safe integers", "/steps", func(p, s, pol, _ doc) {
			s["limits"] = doc{"rows": int64(1<<53 - 1), "bytes": 0}
			steps := list{}
			for i := range 128 {
				c := asDoc(clone(s))
				c["id"] = fmt.Sprint(i)
				steps = append(steps, c)
			}
			p["steps"], pol["maxSteps"], pol["maxRows"] = steps, 128, int64(1<<53-1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, pol := plan(), policy()
			s := asDoc(inside(p, "steps", 0))
			c.f(p, s, pol, asDoc(inside(pol, "sources", "incidents")))
			for _, s := range asList(p["steps"]) {
				refreshStep(asDoc(s))
			}
			d, err := mustPlan(t, p).DryRun(mustPolicy(t, pol), now())
			wantCode(t, err, counterfoil.CodePolicyDenied)
			if d != nil || !strings.HasPrefix(err.Error(), "policy-denied at "+c.path+":") {
				t.Errorf("got %v, want it at %s", err, c.path)
			}
		})
	}
}

func TestDryRun_allows(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(step, policy, source doc){
		"an observation just young enough": func(s, _, _ doc) {
			asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now().Add(-60 * time.Second))
		},
		"an observation of this instant": func(s, _, _ doc) { asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now()) },
		"an observation ahead by the skew": func(s, p, _ doc) {
			p["maxClockSkewMs"] = 5000
			asDoc(inside(s, "source", "provenance"))["observedAt"] = stamp(now().Add(5 * time.Second))
		},
		"an old observation without a bound": func(s, _, src doc) {
			delete(src, "maxProvenanceAgeMs")
			asDoc(inside(s, "source", "provenance"))["observedAt"] = "0001-01-01T00:00:00.001Z"
		},
		"versions and modes of any kind": func(s, _, src doc) {
			delete(src, "schemaVersions")
			delete(src, "sourceVersions")
			delete(src, "dataModes")
			asDoc(s["source"])["schemaVersion"], asDoc(s["source"])["sourceVersion"] = "x", "y"
			asDoc(inside(s, "source", "provenance"))["dataMode"] = "offline"
		},
		"no fields": func(s, _, _ doc) { s["fields"] = list{} },
		"limits of zero": func(s, p, _ doc) {
			s["limits"] = doc{"rows": 0, "bytes": 0}
			p["maxRows"], p["maxBytes"], p["maxRowsPerStep"], p["maxBytesPerStep"] = 0, 0, 0, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, pol := plan(), policy()
			s := asDoc(inside(p, "steps", 0))
			f(s, pol, asDoc(inside(pol, "sources", "incidents")))
			refreshStep(s)
			mustDryRun(t, p, pol)
		})
	}
}

func TestDryRun_needsATimeAndDocuments(t *testing.T) {
	t.Parallel()
	p, pol := mustPlan(t, plan()), mustPolicy(t, policy())
	for _, bad := range []time.Time{{}, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := p.DryRun(pol, bad)
		wantCode(t, err, counterfoil.CodeClock)
	}
	var none *counterfoil.Plan
	for _, f := range []func() (*counterfoil.DryRun, error){
		func() (*counterfoil.DryRun, error) { return p.DryRun(nil, now()) },
		func() (*counterfoil.DryRun, error) { return p.DryRun(new(counterfoil.Policy), now()) },
		func() (*counterfoil.DryRun, error) { return none.DryRun(pol, now()) },
		func() (*counterfoil.DryRun, error) { return new(counterfoil.Plan).DryRun(pol, now()) },
		func() (*counterfoil.DryRun, error) {
			return counterfoil.ParseDryRun(mustDryRun(t, plan(), policy()).Canonical(), nil)
		},
	} {
		_, err := f()
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
}

func TestParseDryRun(t *testing.T) {
	t.Parallel()
	pol := mustPolicy(t, policy())
	d := mustDryRun(t, plan(), policy())
	again, err := counterfoil.ParseDryRun(d.Canonical(), pol)
	noError(t, err)
	if again.Digest() != d.Digest() || !bytes.Equal(again.Canonical(), d.Canonical()) {
		t.Error("the record read back is another")
	}
	spaced, err := counterfoil.ParseDryRun(bytes.ReplaceAll(d.Canonical(), []byte(":{"), []byte(" : {")), pol)
	noError(t, err)
	if spaced.Digest() != d.Digest() {
		t.Error("white space changed the digest")
	}
	two, wider := twoSteps()
	big := mustDryRun(t, two, wider)
	_, err = counterfoil.ParseDryRun(big.Canonical(), mustPolicy(t, wider))
	noError(t, err)
}

// Nothing in a record is believed: it is rebuilt, and must come out the same.
func TestParseDryRun_forged(t *testing.T) {
	t.Parallel()
	other := digestOf("plan", "another")
	for name, f := range map[string]func(doc){
		"policy digest":   func(d doc) { d["policyDigest"] = other },
		"plan digest":     func(d doc) { d["planDigest"] = other },
		"bindings digest": func(d doc) { d["bindingsDigest"] = other },
		"rows":            func(d doc) { asDoc(d["effectBudget"])["rows"] = 99 },
		"bytes":           func(d doc) { asDoc(d["effectBudget"])["bytes"] = 0 },
		"steps":           func(d doc) { asDoc(d["effectBudget"])["steps"] = 2 },
		"effects":         func(d doc) { asDoc(inside(d, "effectBudget", "byEffect"))["read"] = 0 },
		"actor":           func(d doc) { asDoc(d["plan"])["actor"] = "agent:other" },
		"budget missing":  func(d doc) { d["effectBudget"] = doc{} },
		"budget a number": func(d doc) { d["effectBudget"] = 0 },
	} {
		d := dryRunDoc(plan(), policy(), now(), 100, 50_000)
		f(d)
		_, err := counterfoil.ParseDryRun(canonical(d), mustPolicy(t, policy()))
		if err == nil || counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d := dryRunDoc(plan(), policy(), now(), 100, 50_000)
	otherPolicy := policy()
	otherPolicy["maxRows"] = 1000
	_, err := counterfoil.ParseDryRun(canonical(d), mustPolicy(t, otherPolicy))
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
	otherPolicy["maxRows"] = 10
	_, err = counterfoil.ParseDryRun(canonical(d), mustPolicy(t, otherPolicy))
	wantCode(t, err, counterfoil.CodePolicyDenied)
	d["evaluatedAt"] = stamp(at(20, 0, 29, 0)) // still fresh, so that the record is a true one of another instant
	again, err := counterfoil.ParseDryRun(canonical(d), mustPolicy(t, policy()))
	noError(t, err)
	if again.Digest() == mustDryRun(t, plan(), policy()).Digest() {
		t.Error("the instant is not part of the record")
	}
	d["evaluatedAt"] = stamp(at(20, 1, 0, 0))
	_, err = counterfoil.ParseDryRun(canonical(d), mustPolicy(t, policy()))
	wantCode(t, err, counterfoil.CodePolicyDenied)
}

// A plan near the limits makes a record that can be read again.
func TestParseDryRun_atTheLimits(t *testing.T) {
	t.Parallel()
	s := step(operation())
	fields := list{}
	for i := range 512 {
		fields = append(fields, fmt.Sprintf("f%0200d", i))
	}
	pol := wide()
	pol["maxFieldsPerStep"] = 512
	asDoc(inside(pol, "sources", "incidents"))["fields"] = fields
	s["fields"] = fields
	refreshStep(s)
	steps := list{}
	for i := range 9 { // 9 × 512 fields of 204 bytes: 0.94 MB
		c := asDoc(clone(s))
		c["id"] = fmt.Sprint(i)
		steps = append(steps, c)
	}
	d := mustDryRun(t, onePlanOf(steps...), pol)
	if len(d.Plan().Canonical()) < 900_000 {
		t.Fatalf("the plan has only %d bytes", len(d.Plan().Canonical()))
	}
	_, err := counterfoil.ParseDryRun(d.Canonical(), d.Policy())
	noError(t, err)
}

func TestContext_rejects(t *testing.T) {
	t.Parallel()
	many := func(n int) doc {
		out := doc{}
		for i := range n {
			s := source()
			s["id"] = fmt.Sprintf("source-%d", i)
			out[asString(s["id"])] = s
		}
		return doc{"sources": out}
	}
	mustContext(t, many(128))
	mustContext(t, many(0))
	for name, d := range map[string]doc{
		"129 sources":              many(129),
		"a source of another name": {"sources": doc{"other": source()}},
		"a name without end":       {"sources": doc{strings.Repeat("a", 1_100_000): source()}},
	} {
		if err := drop(counterfoil.ParseContext)(canonical(d)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s := counterfoil.Source{
		ID: "incidents", SchemaVersion: "schema-7", SourceVersion: "snapshot-9", Scopes: []string{"b", "a"}, DataMode: counterfoil.DataLive,
		ObservedAt: now(), Attribution: "x",
	}
	_, err := counterfoil.NewContext(s)
	noError(t, err)
	if s.Scopes[0] != "b" {
		t.Error("the caller's list was sorted")
	}
	for name, f := range map[string]func(*counterfoil.Source){
		"bad UTF-8":   func(s *counterfoil.Source) { s.Attribution = "\xff" },
		"no mode":     func(s *counterfoil.Source) { s.DataMode = "" },
		"no scope":    func(s *counterfoil.Source) { s.Scopes = nil },
		"no time":     func(s *counterfoil.Source) { s.ObservedAt = time.Time{} },
		"a far time":  func(s *counterfoil.Source) { s.ObservedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"a bad name":  func(s *counterfoil.Source) { s.ID = "a\nb" },
		"a null name": func(s *counterfoil.Source) { s.ID = "" },
	} {
		bad := s
		f(&bad)
		if _, err := counterfoil.NewContext(bad); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := counterfoil.NewContext(s, s); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("one source twice: got %v", err)
	}
}
