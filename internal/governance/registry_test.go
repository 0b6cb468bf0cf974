package governance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

const upstreamID = "sha256:0000000000000000000000000000000000000000000000000000000000000001"

func registry(t testing.TB, s governance.Source) *governance.Registry {
	t.Helper()
	r, err := governance.NewRegistry(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lookup(t testing.TB, r *governance.Registry, name string) *governance.Tool {
	t.Helper()
	tool, err := r.Lookup(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tool
}

func launch(argv ...string) governance.Launch { return governance.Identify(argv, "/home/a", nil) }

func digestOf(t testing.TB, raw []byte) counterfoil.Digest {
	t.Helper()
	d, err := counterfoil.DefinitionDigest(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// simple is a tool without arguments worth checking.
func simple(name string, more ...string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}%s}`, name, strings.Join(append([]string{""}, more...), ","))
}

// servers are the servers with a profile, each as it is launched when its version is pinned.
func servers() map[string]governance.Launch {
	return map[string]governance.Launch{
		"filesystem": launch("npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "/data", "work"),
		"memory":     launch("npx", "-y", "@modelcontextprotocol/server-memory@2026.8.31"),
		"everything": launch("npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"),
		"sample":     launch("counterfoil", "sample-server", "/notes"),
	}
}

// TestNewRegistry_known: a known release classifies every tool of it by itself.
func TestNewRegistry_known(t *testing.T) {
	t.Parallel()
	for name, l := range servers() {
		p := readProfile(t, name)
		r := registry(t, governance.Source{UpstreamID: upstreamID, Launch: l, Definitions: readTools(t, name)})
		if len(r.Tools()) != len(p.Tools) || len(r.Dropped()) > 0 {
			t.Errorf("%s: %d tools of %d, dropped %q", name, len(r.Tools()), len(p.Tools), r.Dropped())
		}
		for _, tool := range r.Tools() {
			if tool.Status != governance.StatusActive || !tool.Classified || tool.Class != p.Tools[tool.Name].Effect {
				t.Errorf("%s: %s is %s %s %v: %s", name, tool.Name, tool.Status, tool.Class, tool.Classified, tool.Why)
			}
		}
		if s, ok := r.Suggest(); ok {
			t.Errorf("%s: there is something to suggest: %+v", name, s)
		}
	}
}

// TestProfiles_annotations: no tool that a server itself calls dangerous is a read in a profile of ours.
func TestProfiles_annotations(t *testing.T) {
	t.Parallel()
	for name := range servers() {
		p := readProfile(t, name)
		for _, raw := range readTools(t, name) {
			var x struct {
				Name        string
				Annotations struct {
					ReadOnlyHint    *bool
					DestructiveHint bool
				}
			}
			unmarshal(t, raw, &x)
			careless := x.Annotations.DestructiveHint || x.Annotations.ReadOnlyHint == nil || !*x.Annotations.ReadOnlyHint
			if careless && p.Tools[x.Name].Effect.Class() == counterfoil.ClassRead {
				t.Errorf("%s: %s is a read in the profile alone", name, x.Name)
			}
		}
	}
}

// TestNewRegistry_unknown: any difference from a known release leaves every tool to a person.
func TestNewRegistry_unknown(t *testing.T) {
	t.Parallel()
	defs := readTools(t, "filesystem")
	changed := slices.Clone(defs)
	changed[0] = []byte(strings.Replace(string(changed[0]), "Read", "Reed", 1))
	tests := map[string]governance.Source{
		"version left open":    {Launch: launch("npx", "@modelcontextprotocol/server-filesystem", "/data"), Definitions: defs},
		"another version":      {Launch: launch("npx", "@modelcontextprotocol/server-filesystem@2026.8.30", "/data"), Definitions: defs},
		"another package":      {Launch: launch("npx", "server-filesystem@2026.8.31", "/data"), Definitions: defs},
		"another index":        {Launch: launch("uvx", "server-filesystem@2026.8.31", "/data"), Definitions: defs},
		"another program":      {Launch: launch("npx", "-p", "@modelcontextprotocol/server-filesystem@2026.8.31", "sh", "/data"), Definitions: defs},
		"unknown launch":       {Launch: launch("sh", "-c", "npx @modelcontextprotocol/server-filesystem@2026.8.31"), Definitions: defs},
		"no launch":            {Definitions: defs},
		"changed definition":   {Launch: servers()["filesystem"], Definitions: changed},
		"one tool more":        {Launch: servers()["filesystem"], Definitions: append(slices.Clone(defs), simple("extra"))},
		"a broken tool more":   {Launch: servers()["filesystem"], Definitions: append(slices.Clone(defs), []byte(`{"name":"extra"}`))},
		"a nameless tool more": {Launch: servers()["filesystem"], Definitions: append(slices.Clone(defs), []byte(`{}`))},
		"a tool twice":         {Launch: servers()["filesystem"], Definitions: append(slices.Clone(defs), defs[3])},
	}
	for name, s := range tests {
		r := registry(t, s)
		for _, tool := range r.Tools() {
			effect, why := tool.Effect([]byte(`{"path":"/data/a"}`))
			if tool.Classified || tool.Class != counterfoil.EffectDestructive || effect != counterfoil.EffectDestructive || why == "" {
				t.Errorf("%s: %s is %s, a call %s (%s)", name, tool.Name, tool.Class, effect, why)
			}
		}
	}
	// A server may leave tools out: what is there was reviewed.
	for _, tool := range registry(t, governance.Source{Launch: servers()["filesystem"], Definitions: defs[2:5]}).Tools() {
		if !tool.Classified {
			t.Errorf("%s isn't classified", tool.Name)
		}
	}
}

func TestRegistry_Suggest(t *testing.T) {
	t.Parallel()
	defs := readTools(t, "filesystem")
	i := slices.IndexFunc(defs, func(b []byte) bool { return nameOf(t, b) == "write_file" })
	defs[i] = []byte(strings.Replace(string(defs[i]), "overwrite", "replace", 1)) // no longer the reviewed one
	j := slices.IndexFunc(defs, func(b []byte) bool { return nameOf(t, b) == "get_file_info" })
	defs[j] = []byte(strings.Replace(string(defs[j]), `"readOnlyHint":true`, `"readOnlyHint":false`, 1))
	defs = append(defs, simple("extra"))
	source := governance.Source{
		UpstreamID: upstreamID, Launch: launch("npx", "@modelcontextprotocol/server-filesystem", "/data"), Definitions: defs,
	}
	s, ok := registry(t, source).Suggest()
	if !ok || s.Package != "@modelcontextprotocol/server-filesystem" || !s.Launched || len(s.Tools) != len(defs) {
		t.Fatalf("%+v, %v", s, ok)
	}
	want := map[string]governance.SuggestedTool{
		"read_file":     {Effect: counterfoil.EffectRead, Reviewed: true},
		"edit_file":     {Effect: counterfoil.EffectMutation, Reviewed: true},
		"write_file":    {Effect: counterfoil.EffectDestructive, Why: "the server itself calls it destructive"},
		"get_file_info": {Effect: counterfoil.EffectMutation, Why: "the server itself says that it writes"},
		"extra":         {Effect: counterfoil.EffectDestructive, Why: "the profile doesn't know this tool"},
	}
	for _, line := range s.Tools {
		source.Classifications = append(source.Classifications, governance.Classification{
			UpstreamID: upstreamID, Tool: line.Tool, Definition: line.Definition, Effect: line.Effect,
		})
		w, ok := want[line.Tool]
		if !ok {
			continue
		}
		w.Tool, w.Definition = line.Tool, line.Definition
		if diff := cmp.Diff(w, line); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	// Taken as it is, the suggestion settles every tool.
	r := registry(t, source)
	if s, ok := r.Suggest(); ok {
		t.Errorf("still something to suggest: %+v", s)
	}
	for _, line := range s.Tools {
		if tool := lookup(t, r, line.Tool); !tool.Classified || tool.Class != line.Effect {
			t.Errorf("%s is %s, suggested was %s", tool.Name, tool.Class, line.Effect)
		}
	}
}

// TestRegistry_Suggest_resembles: tools that look like a known server's are worth a suggestion, not more.
func TestRegistry_Suggest_resembles(t *testing.T) {
	t.Parallel()
	defs := readTools(t, "memory")
	s, ok := registry(t, governance.Source{Launch: launch("docker", "run", "-i", "mcp/memory"), Definitions: defs}).Suggest()
	if !ok || s.Launched || s.Package != "@modelcontextprotocol/server-memory" {
		t.Errorf("%+v, %v", s, ok)
	}
	for name, defs := range map[string][][]byte{
		"a stranger among them": append(slices.Clone(defs), simple("x")),
		"too few":               defs[:4],
		"none":                  nil,
		"others":                {simple("a"), simple("b")},
	} {
		if s, ok := registry(t, governance.Source{Definitions: defs}).Suggest(); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestNewRegistry_pins(t *testing.T) {
	t.Parallel()
	a, b := simple("a"), simple("b")
	pins := map[string]counterfoil.Digest{"a": digestOf(t, a), "b": digestOf(t, a), "gone": digestOf(t, a), "c": {}}
	r := registry(t, governance.Source{UpstreamID: upstreamID, Definitions: [][]byte{a, b, simple("c"), simple("new")}, Pins: pins})
	for name, want := range map[string]error{
		"a": nil, "new": nil, "b": governance.ErrQuarantined, "c": governance.ErrQuarantined, "gone": governance.ErrUnknown, "A": governance.ErrUnknown, "": governance.ErrUnknown,
	} {
		tool, err := r.Lookup(name)
		if !errors.Is(err, want) || (tool == nil) != (want != nil) {
			t.Errorf("%s: %v, %v; want %v", name, tool, err, want)
		}
		if want != nil && !errors.Is(err, counterfoil.CodePolicyDenied) {
			t.Errorf("%s: code of %v", name, err)
		}
	}
	// A change of white space and order keeps the pin; any other change breaks it.
	for raw, active := range map[string]bool{
		`{ "inputSchema" : {"type":"object"}, "name":"a" }`:                   true,
		`{"name":"a","inputSchema":{"type":"object"},"description":"x"}`:      false,
		`{"name":"a","inputSchema":{"type":"object"},"description":""}`:       false,
		`{"name":"a","inputSchema":{"type":"object","properties":{}}}`:        false,
		`{"name":"a","inputSchema":{"type":"object"},"_meta":{"x":"hidden"}}`: false,
	} {
		r := registry(t, governance.Source{Definitions: [][]byte{[]byte(raw)}, Pins: pins})
		if _, err := r.Lookup("a"); (err == nil) != active {
			t.Errorf("%s: %v", raw, err)
		}
	}
	// A pin holds against a profile and against a person's earlier decision.
	for name, s := range map[string]governance.Source{
		"profile": {UpstreamID: upstreamID, Launch: servers()["sample"], Definitions: readTools(t, "sample"), Pins: map[string]counterfoil.Digest{"read_note": {1}}},
		"person": {
			UpstreamID: upstreamID, Definitions: [][]byte{simple("read_note")}, Pins: map[string]counterfoil.Digest{"read_note": {1}},
			Classifications: []governance.Classification{{UpstreamID: upstreamID, Tool: "read_note", Definition: digestOf(t, simple("read_note")), Effect: "read"}},
		},
	} {
		r := registry(t, s)
		if _, err := r.Lookup("read_note"); !errors.Is(err, governance.ErrQuarantined) {
			t.Errorf("%s: %v", name, err)
		}
		for _, tool := range r.Tools() {
			if effect, _ := tool.Effect(nil); tool.Name == "read_note" && (tool.Classified || effect != counterfoil.EffectDestructive) {
				t.Errorf("%s: a quarantined tool is %s", name, effect)
			}
		}
	}
}

func TestNewRegistry_collisions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		names    []string
		unusable []string
	}{
		{[]string{"a", "b", "ab"}, nil},
		{[]string{"search", "search"}, []string{"search"}},
		{[]string{"search", "find", "search", "search"}, []string{"search"}},
		{[]string{"search", "Search"}, []string{"search", "Search"}},
		{[]string{"get", "GET", "Get", "put"}, []string{"get", "GET", "Get"}},
		{[]string{"sear\u0441h", "search"}, []string{"sear\u0441h", "search"}},                                       // Cyrillic es
		{[]string{"s\u03bfrt", "s\u043ert", "sort"}, []string{"s\u03bfrt", "s\u043ert", "sort"}},                     // Greek, Cyrillic
		{[]string{"\uff53earch", "search"}, []string{"\uff53earch", "search"}},                                       // full width
		{[]string{"caf\u00e9", "cafe\u0301"}, []string{"caf\u00e9", "cafe\u0301"}},                                   // composed or not
		{[]string{"caf\u00e9", "cafe"}, nil},                                                                         // an accent is seen
		{[]string{"strasse", "stra\u00dfe"}, []string{"strasse", "stra\u00dfe"}},                                     // folds
		{[]string{"\ufb01nd", "find"}, []string{"\ufb01nd", "find"}},                                                 // ligature
		{[]string{"list_1", "list_l", "list_2"}, []string{"list_1", "list_l"}},                                       // digit and letter
		{[]string{"list_I", "list_l"}, []string{"list_I", "list_l"}},                                                 // capital i
		{[]string{"list_I", "list_i"}, []string{"list_I", "list_i"}},                                                 // case
		{[]string{"g0", "gO", "go", "gx"}, []string{"g0", "gO", "go"}},                                               // zero
		{[]string{"a\u2010b", "a-b", "a_b"}, []string{"a\u2010b", "a-b"}},                                            // hyphens
		{[]string{"\u0405earch", "Search"}, []string{"\u0405earch", "Search"}},                                       // Cyrillic dze
		{[]string{"\u0440\u0430\u0443", "pay"}, []string{"\u0440\u0430\u0443", "pay"}},                               // all Cyrillic
		{[]string{"\u041c\u041e\u0412\u0415", "MOBE", "mobe"}, []string{"\u041c\u041e\u0412\u0415", "MOBE", "mobe"}}, // capitals
	}
	for _, tt := range tests {
		var defs [][]byte
		for _, n := range tt.names {
			defs = append(defs, simple(n))
		}
		for range 2 {
			r := registry(t, governance.Source{Definitions: defs})
			for _, n := range tt.names {
				_, err := r.Lookup(n)
				if want := slices.Contains(tt.unusable, n); errors.Is(err, governance.ErrUnusable) != want || (err != nil) != want {
					t.Errorf("%q: %q is %v", tt.names, n, err)
				}
			}
			for _, tool := range r.Tools() {
				if (tool.Status == governance.StatusUnusable) != slices.Contains(tt.unusable, tool.Name) || tool.Why == "" {
					t.Errorf("%q: %q is %s: %s", tt.names, tool.Name, tool.Status, tool.Why)
				}
			}
			slices.Reverse(defs) // neither wins in any order
		}
	}
}

func TestNewRegistry_definitions(t *testing.T) {
	t.Parallel()
	for raw, why := range map[string]string{
		`{"name":"ok","inputSchema":{"type":"object"}}`:                    "",
		`{"name":"ok","inputSchema":{}}`:                                   "",
		`{"name":"ok","inputSchema":{"type":"object"},"x":[1,{"y":null}]}`: "",
		`{"name":"ok"}`: "its input schema is missing or isn't an object",
		`{"name":"ok","inputschema":{"type":"object"}}`:                                                                               "its input schema is missing or isn't an object",
		`{"name":"ok","inputSchema":null}`:                                                                                            "its input schema is missing or isn't an object",
		`{"name":"ok","inputSchema":true}`:                                                                                            "its input schema is missing or isn't an object",
		`{"name":"ok","inputSchema":{"type":"objekt"}}`:                                                                               "its input schema can't be compiled",
		`{"name":"ok","inputSchema":{"type":7}}`:                                                                                      "its input schema can't be compiled",
		`{"name":"ok","inputSchema":{"properties":[]}}`:                                                                               "its input schema can't be compiled",
		`{"name":"ok","inputSchema":{"pattern":"["}}`:                                                                                 "its input schema can't be compiled",
		`{"name":"ok","inputSchema":{"$ref":"#/$defs"}}`:                                                                              "its input schema can't be compiled",
		`{"name":"ok","inputSchema":{"$ref":"https://evil.test/s.json"}}`:                                                             "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$ref":"http://127.0.0.1:1/s.json"}}`:                                                            "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$ref":"file:///etc/passwd"}}`:                                                                   "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$ref":"other.json"}}`:                                                                           "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$schema":"https://evil.test/dialect"}}`:                                                         "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$schema":"file:///etc/passwd"}}`:                                                                "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$id":"file:///etc/","$ref":"passwd"}}`:                                                          "its input schema refers to a document elsewhere",
		`{"name":"ok","inputSchema":{"$ref":"#"}}`:                                                                                    "its input schema refers to itself without end",
		`{"name":"ok","inputSchema":{"anyOf":[{"type":"string"},{"$ref":"#"}]}}`:                                                      "its input schema refers to itself without end",
		`{"name":"ok","inputSchema":{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}},"if":{"$ref":"#/$defs/a"}}}`: "its input schema refers to itself without end",
		`{"name":"ok","inputSchema":{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}}`:                                  "its input schema uses a dynamic reference, which isn't supported",
		`{"name":"ok","inputSchema":` + strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70) + `}`:                          "",
		`{"name":"ok","inputSchema":{"enum":[` + strings.Repeat(`1,`, 5000) + `1]}}`:                                                  "its definition has too many parts",
	} {
		r := registry(t, governance.Source{Definitions: [][]byte{[]byte(raw)}})
		if strings.Count(raw, "not") > 60 {
			if len(r.Dropped()) != 1 {
				t.Errorf("%.80s: %v", raw, r.Tools())
			}
			continue
		}
		if len(r.Tools()) != 1 || len(r.Dropped()) > 0 {
			t.Errorf("%.80s: %v, %q", raw, r.Tools(), r.Dropped())
			continue
		}
		tool := r.Tools()[0]
		if (tool.Status == governance.StatusActive) != (why == "") || why != "" && tool.Why != why {
			t.Errorf("%.200s is %s: %s; want %q", raw, tool.Status, tool.Why, why)
		}
		if why != "" {
			if p := tool.Check([]byte(`{}`)); len(p) == 0 {
				t.Errorf("%.80s: arguments pass", raw)
			}
			if e, _ := tool.Effect(nil); e != counterfoil.EffectDestructive {
				t.Errorf("%.80s: a call is %s", raw, e)
			}
		}
	}
}

func TestNewRegistry_dropped(t *testing.T) {
	t.Parallel()
	for raw, why := range map[string]string{
		``:     "its definition isn't strict JSON",
		`[]`:   "its definition isn't an object",
		`null`: "its definition isn't an object",
		`{}`:   "its name isn't 1 to 128 visible characters",
		`{"name":"a","name":"a","inputSchema":{}}`:                     "its definition isn't strict JSON",
		`{"name":"a","inputSchema":{}} x`:                              "its definition isn't strict JSON",
		"{\"name\":\"a\xff\",\"inputSchema\":{}}":                      "its definition isn't strict JSON",
		`{"name":"\ud800","inputSchema":{}}`:                           "its definition isn't strict JSON",
		`{"name":1e999,"inputSchema":{}}`:                              "its definition isn't strict JSON",
		`{"Name":"a","inputSchema":{}}`:                                "its name isn't 1 to 128 visible characters",
		`{"name":7,"inputSchema":{}}`:                                  "its name isn't 1 to 128 visible characters",
		`{"name":"","inputSchema":{}}`:                                 "its name isn't 1 to 128 visible characters",
		`{"name":"a b","inputSchema":{}}`:                              "its name isn't 1 to 128 visible characters",
		`{"name":"a\u00a0b","inputSchema":{}}`:                         "its name isn't 1 to 128 visible characters",
		`{"name":"a\u200bb","inputSchema":{}}`:                         "its name isn't 1 to 128 visible characters",
		`{"name":"a\u3164b","inputSchema":{}}`:                         "its name isn't 1 to 128 visible characters",
		`{"name":"a\ufe0f","inputSchema":{}}`:                          "its name isn't 1 to 128 visible characters",
		`{"name":"a\u202eb","inputSchema":{}}`:                         "its name isn't 1 to 128 visible characters",
		`{"name":"\u0301a","inputSchema":{}}`:                          "its name isn't 1 to 128 visible characters",
		`{"name":"a\nb","inputSchema":{}}`:                             "its name isn't 1 to 128 visible characters",
		`{"name":"` + strings.Repeat("ä", 129) + `","inputSchema":{}}`: "its name isn't 1 to 128 visible characters",
		`{"name":"a","x":"` + strings.Repeat("x", 256<<10) + `"}`:      "its definition is too large",
	} {
		r := registry(t, governance.Source{Definitions: [][]byte{simple("ok"), []byte(raw)}})
		if diff := cmp.Diff([]string{"definition 2: " + why}, r.Dropped()); diff != "" || len(r.Tools()) != 1 {
			t.Errorf("%.80q (-want +got)\n%s", raw, diff)
		}
	}
	lookup(t, registry(t, governance.Source{Definitions: [][]byte{simple(strings.Repeat("ä", 128))}}), strings.Repeat("ä", 128))
	many := make([][]byte, 3000)
	for i := range many {
		many[i] = simple(fmt.Sprint("t", i))
	}
	if r, err := governance.NewRegistry(governance.Source{Definitions: many}); err == nil {
		t.Errorf("3000 tools: %d", len(r.Tools()))
	}
}

// TestNewRegistry_classifications: a person's decision holds for that upstream, that tool and that definition alone, and
// the server's annotations can only raise it.
func TestNewRegistry_classifications(t *testing.T) {
	t.Parallel()
	def := simple("a")
	mine := governance.Classification{UpstreamID: upstreamID, Tool: "a", Definition: digestOf(t, def), Effect: "read"}
	with := func(change func(c *governance.Classification)) governance.Classification {
		c := mine
		change(&c)
		return c
	}
	annotated := func(annotations string) []byte { return simple("a", `"annotations":`+annotations) }
	tests := []struct {
		name string
		def  []byte
		c    governance.Classification
		want counterfoil.Effect
	}{
		{"as it is", def, mine, "read"},
		{"mutation", def, with(func(c *governance.Classification) { c.Effect = "mutation" }), "mutation"},
		{"unknown effect", def, with(func(c *governance.Classification) { c.Effect = "harmless" }), "destructive"},
		{"no effect", def, with(func(c *governance.Classification) { c.Effect = "" }), "destructive"},
		{"another upstream", def, with(func(c *governance.Classification) { c.UpstreamID = "x" }), "destructive"},
		{"no upstream", def, with(func(c *governance.Classification) { c.UpstreamID = "" }), "destructive"},
		{"another tool", def, with(func(c *governance.Classification) { c.Tool = "b" }), "destructive"},
		{"another definition", simple("a", `"title":"x"`), mine, "destructive"},
		{"destructive hint", annotated(`{"destructiveHint":true}`), mine, "destructive"},
		{"destructive hint beside read-only", annotated(`{"destructiveHint":true,"readOnlyHint":true}`), mine, "destructive"},
		{"not read-only", annotated(`{"readOnlyHint":false}`), mine, "mutation"},
		{"not read-only, not destructive", annotated(`{"readOnlyHint":false,"destructiveHint":false}`), mine, "mutation"},
		{"read-only", annotated(`{"readOnlyHint":true}`), with(func(c *governance.Classification) { c.Effect = "mutation" }), "mutation"},
		{"read-only can't lower", annotated(`{"readOnlyHint":true,"destructiveHint":false}`), with(func(c *governance.Classification) { c.Effect = "destructive" }), "destructive"},
		{"hint of another type", annotated(`{"destructiveHint":"true"}`), mine, "destructive"},
		{"read-only of another type", annotated(`{"readOnlyHint":"true"}`), mine, "destructive"},
		{"annotations of another type", annotated(`[]`), mine, "destructive"},
		{"no annotations", annotated(`{}`), mine, "read"},
		{"other annotations", annotated(`{"openWorldHint":true,"title":"x"}`), mine, "read"},
	}
	for _, tt := range tests {
		c := tt.c
		if c.Definition == digestOf(t, def) && tt.name != "another definition" {
			c.Definition = digestOf(t, tt.def)
		}
		r := registry(t, governance.Source{UpstreamID: upstreamID, Definitions: [][]byte{tt.def}, Classifications: []governance.Classification{c}})
		got, why := lookup(t, r, "a").Effect([]byte(`{}`))
		if got != tt.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", tt.name, got, why, tt.want)
		}
	}
	// Annotations alone say nothing good about a tool.
	r := registry(t, governance.Source{Definitions: [][]byte{annotated(`{"readOnlyHint":true,"destructiveHint":false}`)}})
	if got, _ := lookup(t, r, "a").Effect(nil); got != counterfoil.EffectDestructive {
		t.Errorf("a tool that nobody classified is %s", got)
	}
	// An upstream without an identity has no decisions.
	r = registry(t, governance.Source{Definitions: [][]byte{def}, Classifications: []governance.Classification{with(func(c *governance.Classification) { c.UpstreamID = "" })}})
	if got, _ := lookup(t, r, "a").Effect(nil); got != counterfoil.EffectDestructive {
		t.Errorf("without an identity: %s", got)
	}
}

func FuzzNewRegistry(f *testing.F) {
	for _, name := range []string{"filesystem", "memory", "everything", "sample"} {
		defs := readTools(f, name)
		f.Add(defs[0], defs[1], []byte(`{"path":"/data/x"}`))
	}
	f.Add(simple("a"), simple("A"), []byte(`{"a":[1,"x",null]}`))
	f.Add([]byte(`{"name":"t","inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"items":{"$ref":"#/$defs/a"}},{"pattern":"(?!x)y"}]}}}}`), []byte(`{}`), []byte(`[[[[]]]]`))
	f.Add([]byte(`{"name":"t","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":{"not":{}}},"items":[true]}}`), []byte(`{}`), []byte(`{"a":0}`))
	f.Add([]byte(`{"name":"t","inputSchema":{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}}}}`), []byte(`{}`), []byte(`{"a":{}}`))
	f.Fuzz(func(t *testing.T, a, b, args []byte) {
		s := governance.Source{UpstreamID: upstreamID, Launch: servers()["filesystem"], Definitions: [][]byte{a, b}}
		r, err := governance.NewRegistry(s)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := counterfoil.ParseArguments(args)
		for _, tool := range r.Tools() {
			if d := digestOf(t, tool.Definition); d != tool.Digest {
				t.Fatalf("digest %s of %s", tool.Digest, tool.Definition)
			}
			if got, err := r.Lookup(tool.Name); (err == nil) != (tool.Status == governance.StatusActive) || err == nil && got != tool {
				t.Fatalf("%s is %s: %v", tool.Name, tool.Status, err)
			}
			if tool.Why == "" {
				t.Fatalf("%s has no reason", tool.Name)
			}
			effect, _ := tool.Effect(args)
			if !tool.Classified && effect != counterfoil.EffectDestructive {
				t.Fatalf("%s is %s", tool.Name, effect)
			}
			if err != nil {
				continue
			}
			problems := tool.Check(parsed.Canonical())
			if len(problems) > 20 || tool.Status == governance.StatusUnusable && len(problems) == 0 {
				t.Fatalf("%d problems", len(problems))
			}
			if !slices.IsSortedFunc(problems, func(a, b governance.Problem) int { return strings.Compare(a.Pointer, b.Pointer) }) {
				t.Fatalf("no order: %v", problems)
			}
			_, _ = tool.Reach(parsed.Canonical())
		}
		r.Suggest()
	})
}
