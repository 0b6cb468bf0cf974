package counterfoil_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

func toolDefinition() []byte {
	return []byte(`{"name": "query", "description": "reads incidents", "inputSchema": {"type": "object"}}`)
}

func discovery() doc {
	return doc{
		"kind": "counterfoil.discovery", "version": "1.0", "protocol": "mcp", "method": "tools/list", "retrievedAt": stamp(at(19, 59, 30, 0)),
		"endpoint": "https://user:secret@mcp.example.test/v1?token=secret#secret", "cursor": "cursor-secret",
		"authorizationScope": list{"incidents:read"}, "capabilities": list{"prompts", "tools"},
		"freshness":  doc{"mode": "snapshot", "maxAgeMs": 60_000},
		"provenance": list{doc{"source": "https://mcp.example.test/v1?sig=secret", "retrievedAt": stamp(at(19, 59, 29, 0)), "validator": "etag-secret"}},
		"server":     doc{"id": "incidents", "name": "Incident server", "version": "9"},
		"tools":      list{doc{"name": "query", "definitionDigest": digestOf("tool-definition", decode(toolDefinition()))}},
	}
}

func mustEvidence(t testing.TB, d doc) *counterfoil.Evidence {
	t.Helper()
	e, err := counterfoil.DeriveEvidence(toolDefinition(), canonical(d))
	noError(t, err)
	return e
}

// The sheet holds what the discovery says, in one form, and no credential.
func TestDeriveEvidence(t *testing.T) {
	t.Parallel()
	e := mustEvidence(t, discovery())
	want := doc{
		"kind": "counterfoil.evidence", "version": "1.0", "protocol": "mcp", "method": "tools/list", "tool": "query",
		"observedAt": stamp(at(19, 59, 30, 0)), "capabilities": list{"prompts", "tools"},
		"definitionDigest":         digestOf("tool-definition", decode(toolDefinition())),
		"endpointDigest":           digestOf("endpoint", "https://mcp.example.test/v1"),
		"authorizationScopeDigest": digestOf("scopes", doc{"authorizationScope": list{"incidents:read"}}),
		"freshness":                doc{"mode": "snapshot", "maxAgeMs": 60_000, "cursorPresent": true},
		"provenance": list{doc{
			"sourceDigest": digestOf("endpoint", "https://mcp.example.test/v1"), "retrievedAt": stamp(at(19, 59, 29, 0)),
			"validatorDigest": digestOf("validator", "etag-secret"),
		}},
		"server": doc{"id": "incidents", "name": "Incident server", "version": "9"}, "unavailableFacts": list{},
	}
	if d := cmp.Diff(string(canonical(want)), string(e.Canonical())); d != "" {
		t.Error(d)
	}
	if e.Digest().String() != digestOf("evidence", want) {
		t.Errorf("digest %s", e.Digest())
	}
	if e.Server() != "incidents" || e.Tool() != "query" || !e.ObservedAt().Equal(at(19, 59, 30, 0)) || len(e.Unavailable()) != 0 {
		t.Errorf("got %s %s %s %v", e.Server(), e.Tool(), e.ObservedAt(), e.Unavailable())
	}
	if again := mustEvidence(t, discovery()); again.Digest() != e.Digest() || !bytes.Equal(again.Canonical(), e.Canonical()) {
		t.Error("two derivations differ")
	}
	for _, secret := range []string{"secret", "token", "etag", "cursor-", "user", "https"} {
		if strings.Contains(string(e.Canonical()), secret) {
			t.Errorf("the evidence says %q", secret)
		}
	}
	for _, err := range []error{verifyEvidence(e.Canonical(), discovery()), verifyEvidence(canonical(want), discovery())} {
		noError(t, err)
	}
}

func verifyEvidence(recorded []byte, d doc) error {
	_, err := counterfoil.VerifyEvidence(recorded, toolDefinition(), canonical(d))
	return err
}

// What the discovery does not say is a fact too.
func TestDeriveEvidence_unavailable(t *testing.T) {
	t.Parallel()
	d := discovery()
	for _, name := range []string{"cursor", "freshness", "provenance"} {
		delete(d, name)
	}
	d["server"] = doc{"id": "incidents"}
	e := mustEvidence(t, d)
	want := []string{"freshness-contract", "provenance", "server-name", "server-version"}
	if diff := cmp.Diff(want, e.Unavailable()); diff != "" {
		t.Error(diff)
	}
	got := asDoc(decode(e.Canonical()))
	if _, said := got["freshness"]; said || len(asList(got["provenance"])) != 0 || len(asList(got["unavailableFacts"])) != 4 {
		t.Errorf("got %v", got)
	}
	e.Unavailable()[0] = "x"
	if e.Unavailable()[0] != want[0] {
		t.Error("the evidence changed")
	}
	d["cursor"] = "c"
	if f := asDoc(asDoc(decode(mustEvidence(t, d).Canonical()))["freshness"]); len(f) != 1 || f["cursorPresent"] != true {
		t.Errorf("got %v", f)
	}
	d["provenance"] = list{}
	if diff := cmp.Diff(want, mustEvidence(t, d).Unavailable()); diff != "" {
		t.Error(diff)
	}
}

// Facts that differ give other evidence; credentials and order do not.
func TestDeriveEvidence_same(t *testing.T) {
	t.Parallel()
	const same, other = true, false
	for name, c := range map[string]struct {
		edit func(doc)
		same bool
	}{
		"another password":   {func(d doc) { d["endpoint"] = "https://user:other@mcp.example.test/v1?token=x" }, same},
		"no credential":      {func(d doc) { d["endpoint"] = "https://mcp.example.test/v1" }, same},
		"an @ in a password": {func(d doc) { d["endpoint"] = "https://user:a@b@mcp.example.test/v1" }, same},
		"another cursor":     {func(d doc) { d["cursor"] = "other" }, same},
		"no cursor":          {func(d doc) { delete(d, "cursor") }, other},
		"another endpoint":   {func(d doc) { d["endpoint"] = "https://mcp.example.test/v2" }, other},
		"a command":          {func(d doc) { d["endpoint"] = "incidents-server --stdio" }, other},
		"an odd user":        {func(d doc) { d["endpoint"] = "https://a/b@mcp.example.test/v1" }, other},
		"another order":      {func(d doc) { d["capabilities"] = list{"tools", "prompts"} }, same},
		"another capability": {func(d doc) { d["capabilities"] = list{"tools"} }, other},
		"another scope":      {func(d doc) { d["authorizationScope"] = list{"incidents:admin"} }, other},
		"another time":       {func(d doc) { d["retrievedAt"] = stamp(at(19, 59, 31, 0)) }, other},
		"another server":     {func(d doc) { asDoc(d["server"])["id"] = "other" }, other},
		"another version":    {func(d doc) { asDoc(d["server"])["version"] = "10" }, other},
		"another mode":       {func(d doc) { asDoc(d["freshness"])["mode"] = "realtime" }, other},
		"another age":        {func(d doc) { asDoc(d["freshness"])["maxAgeMs"] = 1 }, other},
		"no age":             {func(d doc) { delete(asDoc(d["freshness"]), "maxAgeMs") }, other},
		"an age of nothing":  {func(d doc) { asDoc(d["freshness"])["maxAgeMs"] = 0 }, other},
		"another validator":  {func(d doc) { asDoc(inside(d, "provenance", 0))["validator"] = "x" }, other},
		"provenance twice":   {func(d doc) { d["provenance"] = append(asList(d["provenance"]), asList(d["provenance"])...) }, same},
		"another tool too": {func(d doc) {
			d["tools"] = append(asList(d["tools"]), doc{"name": "edit", "definitionDigest": digestOf("tool-definition", 1)})
		}, same},
	} {
		d := discovery()
		c.edit(d)
		if got := mustEvidence(t, d).Digest() == mustEvidence(t, discovery()).Digest(); got != c.same {
			t.Errorf("%s: the same %v, want %v", name, got, c.same)
		}
		err := verifyEvidence(mustEvidence(t, discovery()).Canonical(), d)
		if (err == nil) != c.same || err != nil && counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
			t.Errorf("%s: verification says %v", name, err)
		}
	}
	d := discovery()
	two := append(asList(d["provenance"]), doc{"source": "a file"})
	d["provenance"] = two
	one := mustEvidence(t, d)
	d["provenance"] = list{two[1], two[0]}
	if mustEvidence(t, d).Digest() != one.Digest() {
		t.Error("the order of provenance changed the evidence")
	}
}

func TestDeriveEvidence_rejects(t *testing.T) {
	t.Parallel()
	const invalid, broken = counterfoil.CodeInvalidInput, counterfoil.CodeIntegrityFailed
	for name, c := range map[string]struct {
		definition string
		edit       func(doc)
		code       counterfoil.Code
	}{
		"another definition":          {`{"name": "query", "description": "deletes incidents"}`, nil, broken},
		"a tool that was not listed":  {`{"name": "edit"}`, nil, broken},
		"a definition in other order": {`{"inputSchema": {"type": "object"}, "description": "reads incidents", "name": "query"}`, nil, ""},
		"no name":                     {`{}`, nil, invalid},
		"a name that is a number":     {`{"name": 1}`, nil, invalid},
		"a name that hides":           {"{\"name\": \"query\u200b\"}", nil, invalid},
		"no object":                   {`[]`, nil, invalid},
		"no JSON":                     {`{`, nil, invalid},
		"two names":                   {`{"name": "query", "name": "edit"}`, nil, invalid},
		"no capability":               {"", func(d doc) { d["capabilities"] = list{"prompts"} }, broken},
		"a listing of nothing":        {"", func(d doc) { d["tools"] = list{} }, broken},
		"another digest":              {"", func(d doc) { asDoc(inside(d, "tools", 0))["definitionDigest"] = digestOf("tool-definition", 1) }, broken},
		"a tool twice":                {"", func(d doc) { d["tools"] = append(asList(d["tools"]), asList(d["tools"])...) }, invalid},
		"another kind":                {"", func(d doc) { d["kind"] = "counterfoil.evidence" }, invalid},
		"another version":             {"", func(d doc) { d["version"] = "2.0" }, invalid},
		"an unknown mode":             {"", func(d doc) { asDoc(d["freshness"])["mode"] = "forever" }, invalid},
		"no scope":                    {"", func(d doc) { d["authorizationScope"] = list{} }, invalid},
		"65 sources":                  {"", func(d doc) { d["provenance"] = append(list{}, make(list, 65)...) }, invalid},
	} {
		def, d := c.definition, discovery()
		if def == "" {
			def = string(toolDefinition())
		}
		if c.edit != nil {
			c.edit(d)
		}
		e, err := counterfoil.DeriveEvidence([]byte(def), canonical(d))
		if counterfoil.CodeOf(err) != c.code || (e == nil) == (err == nil) {
			t.Errorf("%s: got %v, %v", name, e, err)
		}
	}
	_, err := counterfoil.DeriveEvidence(toolDefinition(), []byte(`{`))
	wantCode(t, err, invalid)
	good := mustEvidence(t, discovery()).Canonical()
	wantCode(t, verifyEvidence([]byte(`{`), discovery()), invalid)
	wantCode(t, verifyEvidence([]byte(`{}`), discovery()), broken)
	wantCode(t, verifyEvidence(bytes.Replace(good, []byte(`19:59:30`), []byte(`19:59:31`), 1), discovery()), broken)
	d := discovery()
	d["tools"] = list{}
	wantCode(t, verifyEvidence(good, d), broken)
}

// A step that binds evidence binds it into the operation, the approval and the receipt: the same operation with other
// evidence, or with none, is another operation.
func TestEvidence_bound(t *testing.T) {
	t.Parallel()
	e := mustEvidence(t, discovery())
	with := func(digest string) doc {
		op := operation()
		if digest != "" {
			op["evidenceDigest"] = digest
		}
		return op
	}
	s := step(operation())
	s["evidenceDigest"] = e.Digest().String()
	refreshStep(s)
	l := newLabOf(t, onePlanOf(s), policy(), with(e.Digest().String()))
	if got := l.x.DryRun.Plan().Steps()[0].EvidenceDigest; got != e.Digest() {
		t.Errorf("got %s", got)
	}
	_, r, err := l.execute()
	if p := l.settled(r, err, counterfoil.OutcomeSucceeded, ""); p["inputDigest"] != s["inputDigest"] || s["inputDigest"] == step(operation())["inputDigest"] {
		t.Error("the receipt does not bind the evidence")
	}
	for _, other := range []string{"", digestOf("evidence", 1)} {
		l := newLabOf(t, onePlanOf(s), policy(), with(other))
		l.refused(counterfoil.CodeIntegrityFailed)
	}
	l = newLabOf(t, plan(), policy(), with(e.Digest().String()))
	l.refused(counterfoil.CodeIntegrityFailed)

	c := call(t)
	c.Evidence = e.Digest()
	p, err := counterfoil.ParsePlan(c.Plan())
	noError(t, err)
	op, err := counterfoil.ParseOperation(c.Operation(), mustPolicy(t, policy()))
	noError(t, err)
	if p.Steps()[0].EvidenceDigest != e.Digest() || p.Steps()[0].InputDigest != op.InputDigest() {
		t.Error("the call's plan and operation do not bind its evidence")
	}
}

func FuzzDeriveEvidence(f *testing.F) {
	f.Add(toolDefinition(), canonical(discovery()))
	f.Add([]byte(`{}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, definition, record []byte) {
		e, err := counterfoil.DeriveEvidence(definition, record)
		if (e == nil) == (err == nil) {
			t.Fatalf("value %v, error %v", e, err)
		}
		if err != nil {
			refusal(t, err, counterfoil.CodeIntegrityFailed)
			return
		}
		if c, err := counterfoil.Canonicalize(e.Canonical()); err != nil || !bytes.Equal(c, e.Canonical()) {
			t.Fatalf("the evidence is not canonical: %s", e.Canonical())
		}
		if again, err := counterfoil.VerifyEvidence(e.Canonical(), definition, record); err != nil || again.Digest() != e.Digest() {
			t.Fatalf("the evidence does not verify: %v", err)
		}
	})
}
