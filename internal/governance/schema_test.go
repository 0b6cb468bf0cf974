package governance_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

// toolOf returns the tool with the given input schema.
func toolOf(t testing.TB, schema string) *governance.Tool {
	t.Helper()
	def := fmt.Appendf(nil, `{"name":"t","inputSchema":%s}`, schema)
	r := registry(t, governance.Source{
		UpstreamID: upstreamID, Definitions: [][]byte{def},
		Classifications: []governance.Classification{{UpstreamID: upstreamID, Tool: "t", Definition: digestOf(t, def), Effect: "read"}},
	})
	if len(r.Tools()) != 1 {
		t.Fatal(r.Dropped())
	}
	return r.Tools()[0]
}

// check validates arguments as the gate does: strict and canonical first.
func check(t testing.TB, tool *governance.Tool, args string) []string {
	t.Helper()
	a, err := counterfoil.ParseArguments([]byte(args))
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	var out []string
	for _, p := range tool.Check(a.Canonical()) {
		out = append(out, p.Pointer+" "+p.Msg)
	}
	return out
}

func TestTool_Check(t *testing.T) {
	t.Parallel()
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	tests := []struct {
		schema, args string
		want         []string
	}{
		{`{}`, `{}`, nil},
		{`{}`, `{"anything":[1,{"x":null}]}`, nil},
		{`{}`, `[]`, []string{" the arguments must be an object"}},
		{`{}`, `null`, []string{" the arguments must be an object"}},
		{`{"type":["object","array"]}`, `[1]`, []string{" the arguments must be an object"}},
		{`{"type":"object","required":["b","a"]}`, `{}`, []string{"/a is missing", "/b is missing"}},
		{`{"properties":{"a":{"type":"string"}}}`, `{"a":7}`, []string{"/a must be string, not number"}},
		{`{"properties":{"a":{"type":["string","null"]}}}`, `{"a":true}`, []string{"/a must be null or string, not boolean"}},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`, []string{"/a must be integer, not number"}},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, nil},
		{`{"additionalProperties":false,"properties":{"a":{}}}`, `{"a":1,"b":2,"c":3}`, []string{"/b is not a known argument", "/c is not a known argument"}},
		{`{"properties":{"a":{"enum":["x","y"]}}}`, `{"a":"secret"}`, []string{"/a is not one of the allowed values"}},
		{`{"properties":{"a":{"const":1}}}`, `{"a":2}`, []string{"/a is not one of the allowed values"}},
		{`{"properties":{"a":{"minLength":2}}}`, `{"a":"ä"}`, []string{"/a must have at least 2 characters"}},
		{`{"properties":{"a":{"maxLength":2}}}`, `{"a":"äöü"}`, []string{"/a must have at most 2 characters"}},
		{`{"properties":{"a":{"pattern":"^[a-z]+$"}}}`, `{"a":"A"}`, []string{"/a doesn't match the pattern that the schema asks"}},
		{`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":["x",1,"y",2]}`, []string{"/a/1 must be string, not number", "/a/3 must be string, not number"}},
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":false}}}`, `{"a":["x",1]}`, []string{"/a/1 is not allowed here"}},
		{`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1]}`, []string{"/a has the same element twice"}},
		{`{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1]}`, []string{"/a doesn't have the elements that the schema asks"}},
		{`{"properties":{"a":{"minItems":2}}}`, `{"a":[1]}`, []string{"/a must have at least 2 elements"}},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, []string{" must have at most 1 members"}},
		{`{"propertyNames":{"pattern":"^a"}}`, `{"b":1}`, []string{" has a member whose name is not allowed"}},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{"/b is missing"}},
		{`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`, []string{"/a matches none of the allowed forms"}},
		{`{"properties":{"a":{"oneOf":[{"type":"number"},{"type":"integer"}]}}}`, `{"a":1}`, []string{"/a must match exactly one of the allowed forms"}},
		{`{"not":{"required":["a"]}}`, `{"a":1}`, []string{" is not allowed here"}},
		{`{"unevaluatedProperties":false,"allOf":[{"properties":{"a":{}}}]}`, `{"a":1,"b":1}`, []string{"/b is not allowed here"}},
		{`{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, `{"a":1}`, []string{"/a must be string, not number"}},
		{`{"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":"string"}}}},"$ref":"#/$defs/n"}`, `{"next":{"next":{"v":1}}}`, []string{"/next/next/v must be string, not number"}},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, []string{"/b is missing"}},
		// The dialect is 2020-12 unless the schema names draft 7, where siblings of $ref don't count and formats do.
		{`{"definitions":{"s":{}},"properties":{"a":{"$ref":"#/definitions/s","type":"string"}}}`, `{"a":1}`, []string{"/a must be string, not number"}},
		{`{` + draft7 + `"definitions":{"s":{}},"properties":{"a":{"$ref":"#/definitions/s","type":"string"}}}`, `{"a":1}`, nil},
		{`{"properties":{"a":{"items":[{"type":"string"}]}}}`, ``, nil}, // refused: an array of items is not 2020-12
		{`{` + draft7 + `"properties":{"a":{"items":[{"type":"string"}]}}}`, `{"a":[1]}`, []string{"/a/0 must be string, not number"}},
		{`{"properties":{"a":{"format":"date"}}}`, `{"a":"x"}`, nil},
		{`{` + draft7 + `"properties":{"a":{"format":"date"}}}`, `{"a":"x"}`, []string{"/a doesn't have the format that the schema asks"}},
		{`{` + draft7 + `"properties":{"a":{"format":"regex"}}}`, `{"a":"("}`, []string{"/a doesn't have the format that the schema asks"}},
		// Numbers are compared exactly.
		{`{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":0.07}`, nil},
		{`{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":0.075}`, []string{"/a is not a multiple of what the schema asks"}},
		{`{"properties":{"a":{"maximum":9223372036854775807}}}`, `{"a":9223372036854776000}`, []string{"/a is too large"}},
		{`{"properties":{"a":{"minimum":18446744073709551615}}}`, `{"a":18446744073709550000}`, []string{"/a is too small"}},
		{`{"properties":{"a":{"exclusiveMaximum":0.3}}}`, `{"a":0.3}`, []string{"/a is too large"}},
		{`{"properties":{"a":{"const":100}}}`, `{"a":1e2}`, nil},
		{`{"properties":{"a":{"const":9007199254740993}}}`, `{"a":9007199254740992}`, []string{"/a is not one of the allowed values"}},
		// Names from the caller are shown escaped and bounded.
		{`{"additionalProperties":false}`, `{"a/b~c":1}`, []string{"/a~1b~0c is not a known argument"}},
		{`{"additionalProperties":false}`, `{"a\u001b[2J\u202e":1}`, []string{`/a\u{1b}[2J\u{202e} is not a known argument`}},
		{`{"additionalProperties":false}`, `{"` + strings.Repeat("x", 1000) + `":1}`, []string{"/" + strings.Repeat("x", 255) + "… is not a known argument"}},
	}
	for _, tt := range tests {
		tool := toolOf(t, tt.schema)
		if tt.args == "" {
			if tool.Status != governance.StatusUnusable {
				t.Errorf("%s was accepted", tt.schema)
			}
			continue
		}
		if tool.Status != governance.StatusActive {
			t.Errorf("%s: %s", tt.schema, tool.Why)
			continue
		}
		if diff := cmp.Diff(tt.want, check(t, tool, tt.args)); diff != "" {
			t.Errorf("%s, %s (-want +got)\n%s", tt.schema, tt.args, diff)
		}
	}
}

func TestTool_Check_input(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, `{"type":"object","required":["a"]}`)
	for _, args := range []string{"{", `{"a":1,"a":2}`, `{"a":1} x`, "{\"a\":\"\xff\"}", "x", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)} {
		if p := tool.Check([]byte(args)); len(p) != 1 {
			t.Errorf("%.40s: %v", args, p)
		}
	}
	for _, args := range [][]byte{nil, {}} {
		if p := tool.Check(args); len(p) != 1 || p[0].Pointer != "/a" {
			t.Errorf("no arguments: %v", p)
		}
	}
	if p := (&governance.Tool{}).Check([]byte(`{}`)); len(p) != 1 {
		t.Errorf("the zero tool: %v", p)
	}
	if e, _ := (&governance.Tool{}).Effect([]byte(`{}`)); e != counterfoil.EffectDestructive {
		t.Errorf("the zero tool is %s", e)
	}
}

// TestTool_Check_values: what is refused is never repeated.
func TestTool_Check_values(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	schema := `{"properties":{"a":{"type":"number"},"b":{"enum":["x"]},"c":{"pattern":"^x$"},"d":{"const":1},"e":{"maxLength":1},"f":{"not":{}},
		"g":{"anyOf":[{"type":"null"},{"const":2}]},"h":{"items":{"type":"null"}}}}`
	args := `{"a":"S","b":"S","c":"S","d":"S","e":"S","f":"S","g":"S","h":["S"]}`
	got := check(t, toolOf(t, schema), strings.ReplaceAll(args, "S", secret))
	if len(got) != 8 || strings.Contains(fmt.Sprint(got), secret) {
		t.Errorf("%q", got)
	}
}

func TestTool_Check_many(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, `{"properties":{"a":{"items":{"type":"string"}}}}`)
	args := `{"a":[1` + strings.Repeat(",1", 999) + `]}`
	first := check(t, tool, args)
	if len(first) != 20 || first[0] != "/a/0 must be string, not number" {
		t.Fatalf("%d problems: %q", len(first), first)
	}
	// Any two runs list the same ones, though the validator visits members in random order.
	tool = toolOf(t, `{"additionalProperties":{"type":"string"}}`)
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `,"m%03d":1`, i)
	}
	args = "{" + b.String()[1:] + "}"
	first = check(t, tool, args)
	for range 5 {
		if diff := cmp.Diff(first, check(t, tool, args)); diff != "" || first[19] != "/m019 must be string, not number" {
			t.Fatal(diff, first)
		}
	}
}

// TestTool_Effect_patterns: a pattern that can't be checked here leaves the tool usable, but a person sees each call.
func TestTool_Effect_patterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]counterfoil.Effect{
		`^[a-z]+$`:                       counterfoil.EffectRead,
		`^[\\p{L}0-9 ]{1,200}$`:          counterfoil.EffectRead,
		`^(?<year>\\d{4})-\\d\\d$`:       counterfoil.EffectRead,
		`^(?!\\.)(?!.*\\.\\.)[a-z]+@x$`:  counterfoil.EffectDestructive,
		`(?<=x)y`:                        counterfoil.EffectDestructive,
		`(a)\\1`:                         counterfoil.EffectDestructive,
		`\\u0041`:                        counterfoil.EffectDestructive,
		`\\p{Script=Greek}`:              counterfoil.EffectDestructive,
		`^.{1,4000}$`:                    counterfoil.EffectDestructive,
		`((a{100}){10}){10}`:             counterfoil.EffectDestructive,
		strings.Repeat("x{1000}", 20):    counterfoil.EffectDestructive,
		strings.Repeat("x", 1025):        counterfoil.EffectDestructive,
		strings.Repeat("[^\\\\pL]", 100): counterfoil.EffectRead,
		strings.Repeat("(", 1010) + "x":  "",
		`a**`:                            "",
		`[`:                              "",
		`(?i)x`:                          counterfoil.EffectRead,
		strings.Repeat("(", 400) + "x" + strings.Repeat(")", 400): counterfoil.EffectRead,
	} {
		for _, schema := range []string{
			`{"properties":{"a":{"type":"string","pattern":"` + pattern + `"}}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","patternProperties":{"` + pattern + `":{}}}`,
		} {
			tool := toolOf(t, schema)
			if want == "" {
				if tool.Status != governance.StatusUnusable {
					t.Errorf("%.60s was accepted", pattern)
				}
				continue
			}
			if got, why := tool.Effect([]byte(`{}`)); got != want || tool.Status != governance.StatusActive {
				t.Errorf("%.60s: %s is %s (%s), want %s", pattern, tool.Status, got, why, want)
			}
		}
	}
}

// TestTool_Check_bounded: schemas and arguments that would keep a validator busy are refused at once, at the latest when
// the call comes.
func TestTool_Check_bounded(t *testing.T) {
	t.Parallel()
	tower := func(n int) string { // each definition applies the next one twice, in place
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":{}}}`, strings.Join(defs, ","), n)
	}
	double := func(schema string, n int) string { // each definition applies the next one twice, further down
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"d%d":{%s}`, i, strings.ReplaceAll(schema, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, (i+1)%n))))
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
	}
	nested := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)
	const draft7 = `{"$schema":"http://json-schema.org/draft-07/schema#",`
	numbers := func(n int) string { return `[0` + strings.Repeat(`,1`, n) + `]` }
	colliding := func(n int) string { // arrays that a careless hash takes for one another
		var b strings.Builder
		for i := range n {
			var item strings.Builder
			item.WriteString(`["x`)
			for bit := range 13 {
				item.WriteString(map[bool]string{true: `","`, false: `\u0004`}[i>>bit&1 == 1] + "x")
			}
			b.WriteString("," + item.String() + `"]`)
		}
		return `[` + b.String()[1:] + `]`
	}
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()[1:]
	}
	tests := map[string]struct {
		schema, args string
		refused      bool
	}{
		"alternatives in place":       {tower(20), `{}`, true},
		"alternatives in depth":       {double(`"properties":{"a":{"allOf":[NEXT,NEXT]}}`, 5), nested, true},
		"alternatives, shallow":       {double(`"properties":{"a":{"anyOf":[NEXT,NEXT]}}`, 5), `{"a":{"a":{"a":1}}}`, false},
		"dependencies of the old way": {draft7 + double(`"dependencies":{"a":{"properties":{"a":NEXT}},"b":{}},"properties":{"a":NEXT}`, 2)[1:], nested, true},
		"one way down":                {double(`"properties":{"a":NEXT}`, 2), nested, false},
		"big enumeration":             {`{"properties":{"a":{"items":{"enum":[` + many(`,%d.5`, 3000) + `]}}}}`, `{"a":` + numbers(100_000) + `}`, true},
		"small enumeration":           {`{"properties":{"a":{"items":{"enum":[0,1]}}}}`, `{"a":` + numbers(20_000) + `}`, false},
		"collisions":                  {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":` + colliding(8000) + `}`, true},
		"unique numbers":              {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + many(`,%d`, 3000) + `]}`, false},
		"long text, large pattern":    {`{"properties":{"a":{"pattern":"^(a?){900}$"}}}`, `{"a":"` + strings.Repeat("a", 1<<20) + `"}`, true},
		"long text, plain pattern":    {`{"properties":{"a":{"pattern":"^[a-z]*$"}}}`, `{"a":"` + strings.Repeat("a", 1<<20) + `"}`, false},
		"long text, no pattern":       {`{"properties":{"a":{"type":"string"}},"required":["a"]}`, `{"a":"` + strings.Repeat("a", 8<<20) + `"}`, false},
		"many patterns, many members": {`{"patternProperties":{` + many(`,"^(x?){50}%d":{}`, 300) + `}}`, `{` + many(`,"x%0500d":1`, 3000) + `}`, true},
		"all wrong":                   {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":` + numbers(50_000) + `}`, false},
		"unevaluated":                 {`{"unevaluatedItems":false,"properties":{"a":{"unevaluatedItems":false,"anyOf":[` + many(`,{"contains":{"const":%d}}`, 500) + `]}}}`, `{"a":` + numbers(5000) + `}`, true},
	}
	for name, tt := range tests {
		start := time.Now()
		tool := toolOf(t, tt.schema)
		if tool.Status != governance.StatusActive {
			t.Errorf("%s: %s", name, tool.Why)
			continue
		}
		problems := check(t, tool, tt.args)
		refused := len(problems) == 1 && strings.Contains(problems[0], "too large to be checked")
		if refused != tt.refused {
			t.Errorf("%s: %.200q", name, problems)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	// What can't be used at all is found when the definition comes.
	for name, schema := range map[string]string{
		"a long way":     chain(100),
		"a high tower":   tower(40),
		"too many parts": `{"properties":{` + many(`,"p%d":{}`, 5000) + `}}`,
	} {
		if tool := toolOf(t, schema); tool.Status != governance.StatusUnusable {
			t.Errorf("%s was accepted", name)
		}
	}
}

// chain is a schema whose references lead through n others in place.
func chain(n int) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":{}}}`, strings.Join(defs, ","), n)
}

// TestNewRegistry_budget: no single definition is over its bound, all together they are.
func TestNewRegistry_budget(t *testing.T) {
	t.Parallel()
	var defs [][]byte
	for i := range 40 {
		defs = append(defs, fmt.Appendf(nil, `{"name":"t%d","inputSchema":{"enum":[%s]}}`, i, strings.Repeat(`"x",`, 4000)+`"y"`))
	}
	r := registry(t, governance.Source{Definitions: defs})
	var usable int
	for _, tool := range r.Tools() {
		if tool.Status == governance.StatusActive {
			usable++
		}
	}
	if usable == 0 || usable == len(defs) {
		t.Errorf("%d of %d are usable", usable, len(defs))
	}
}

// TestTool_parallel: one tool serves calls in parallel (run with -race).
func TestTool_parallel(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"regex","pattern":"^.+$"},"b":{"$ref":"#"}},"required":["a"]}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if p := tool.Check([]byte(`{"a":"x(y)*","b":{"a":"z"}}`)); len(p) > 0 {
					t.Error(p)
				}
				if p := tool.Check([]byte(`{"a":"(","b":{}}`)); len(p) != 2 {
					t.Error(p)
				}
				if e, _ := tool.Effect([]byte(`{"a":"x"}`)); e != counterfoil.EffectRead {
					t.Error(e)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTool_Check(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"string","pattern":"^x"}},"required":["a"]}`, `{"a":"y"}`)
	f.Add(`{"properties":{"a":{"anyOf":[{"$ref":"#"},{"enum":[1,"x",null]}]}}}`, `{"a":{"a":1}}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{}],"additionalItems":false}}}`, `{"a":[1,2]}`)
	f.Add(`{"unevaluatedProperties":{"not":{}},"propertyNames":{"minLength":1},"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1,"":2}`)
	f.Add(`{"if":{"properties":{"a":{"const":1}}},"then":{"uniqueItems":true},"else":{"multipleOf":0.1}}`, `{"a":[1,1]}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		def := []byte(`{"name":"t","inputSchema":` + schema + `}`)
		r, err := governance.NewRegistry(governance.Source{Definitions: [][]byte{def}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := counterfoil.ParseArguments([]byte(args))
		if err != nil || len(r.Tools()) == 0 {
			return
		}
		tool := r.Tools()[0]
		problems := tool.Check(a.Canonical())
		if len(problems) > 20 {
			t.Fatalf("%d problems", len(problems))
		}
		if len(problems) == 0 && (tool.Status != governance.StatusActive || !strings.HasPrefix(string(a.Canonical()), "{")) {
			t.Fatalf("%s pass %s (%s)", a.Canonical(), schema, tool.Why)
		}
		for _, p := range problems {
			if p.Msg == "" || len(p.Pointer) > 300 || len(p.Msg) > 120 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func BenchmarkTool_Check(b *testing.B) {
	props, args := "", ""
	for i := range 10 {
		props += fmt.Sprintf(`,"property_%d":{"type":"string","maxLength":100,"description":"x"}`, i)
		args += fmt.Sprintf(`,"property_%d":"some value %d"`, i, i)
	}
	tool := toolOf(b, `{"type":"object","additionalProperties":false,"properties":{`+props[1:]+`},"required":["property_0"]}`)
	raw := []byte("{" + args[1:] + "}")
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if p := tool.Check(raw); len(p) > 0 {
			b.Fatal(p)
		}
	}
}

func BenchmarkNewRegistry(b *testing.B) {
	defs := readTools(b, "filesystem")
	l := servers()["filesystem"]
	b.ReportAllocs()
	for b.Loop() {
		if r := registry(b, governance.Source{Launch: l, Definitions: defs}); len(r.Tools()) != len(defs) {
			b.Fatal(r.Dropped())
		}
	}
}
