package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// Whatever a definition asks to have in headers, a header can hold it, and what is written matches the arguments that it was
// written for.
func FuzzMirrors(f *testing.F) {
	for _, s := range []string{
		`{"inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}}`,
		`{"inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}}`,
		`{"inputSchema":{"allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}}`,
		`{"inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}}`,
		`{"inputSchema":{"x-mcp-header":"A","properties":{"x-mcp-header":{"default":{"x-mcp-header":1}}}}}`,
	} {
		f.Add([]byte(s), []byte(`{"a":"é","b":{"c":5.0}}`))
	}
	f.Fuzz(func(t *testing.T, definition, arguments []byte) {
		mirrors, err := upstream.Mirrors(definition)
		if err != nil {
			if mirrors != nil {
				t.Fatal("a value with an error")
			}
			return
		}
		seen := map[string]bool{}
		for _, m := range mirrors {
			if seen[m.Header] || !strings.HasPrefix(m.Header, "Mcp-Param-") || strings.ContainsAny(m.Header, " :\r\n") {
				t.Fatalf("header %q", m.Header)
			}
			seen[m.Header] = true
			canonical, err := counterfoil.Canonicalize(arguments)
			if err != nil {
				continue
			}
			h := http.Header{}
			if m.Set(h, canonical) != nil {
				continue
			}
			if !m.Matches(h, canonical) || !m.Matches(h, arguments) {
				t.Fatalf("%v does not match %s", h, arguments)
			}
		}
	})
}

func TestMirrors_rejects(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"empty":              `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		"no token":           `{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`,
		"no text":            `{"properties":{"a":{"type":"string","x-mcp-header":1}}}`,
		"twice":              `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		"twice, deep":        `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}}}`,
		"number":             `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		"no type":            `{"properties":{"a":{"x-mcp-header":"A"}}}`,
		"object":             `{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`,
		"several types":      `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`,
		"element":            `{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`,
		"branch":             `{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
		"definition":         `{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`,
		"the arguments":      `{"x-mcp-header":"A"}`,
		"pattern properties": `{"properties":{"a":{"patternProperties":{"x":{"type":"string","x-mcp-header":"A"}}}}}`,
	} {
		if got, err := upstream.Mirrors([]byte(`{"name":"t","inputSchema":` + schema + `}`)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, schema := range map[string]string{
		"a property of that name": `{"properties":{"x-mcp-header":{"type":"string"}}}`,
		"a default":               `{"properties":{"a":{"default":{"x-mcp-header":""}}}}`,
		"none":                    `true`,
	} {
		if got, err := upstream.Mirrors([]byte(`{"name":"t","inputSchema":` + schema + `}`)); err != nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A stream of events is read within its bounds, and what is made of it does not depend on how its lines end.
func FuzzEvents(f *testing.F) {
	f.Add("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
	f.Add("id: 1\nretry: 5\ndata: a\ndata: b\n\n:x\n\ndata\n\n")
	f.Add("\ufeffdata:x\n\nid:\x00\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, '\r') {
			return
		}
		want, wantErr := upstream.ReadEvents(strings.NewReader(s), 1000, 4000)
		for _, d := range want {
			if len(d) > 1000 {
				t.Fatalf("an event of %d bytes", len(d))
			}
		}
		if wantErr != nil {
			return
		}
		for _, end := range []string{"\r", "\r\n"} {
			got, err := upstream.ReadEvents(strings.NewReader(strings.ReplaceAll(s, "\n", end)), 2000, 8000)
			if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
				t.Fatalf("with %q: %q instead of %q, %v", end, got, want, err)
			}
		}
	})
}

// Whatever a server answers, a call ends in an answer that is JSON or in an error that is not "unsent".
func FuzzHTTP_answer(f *testing.F) {
	f.Add(200, "application/json", `{"jsonrpc":"2.0","id":2,"result":{"a":1.0}}`)
	f.Add(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n")
	f.Add(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":1}}`)
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		if status < 200 || status > 599 || strings.ContainsAny(kind, "\r\n") {
			return
		}
		m, err := upstream.Answer(t.Context(), &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {kind}},
		}, strings.NewReader(body))
		if err != nil {
			if m != nil {
				t.Fatal("a value with an error")
			}
			return
		}
		if raw := append(append([]byte{}, m.Result...), m.Error...); !jsontext.Value(raw).IsValid() || m.ID.String() != "2" {
			t.Fatalf("answer %s to %s", raw, m.ID)
		}
	})
}
