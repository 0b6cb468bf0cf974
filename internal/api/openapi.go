package api

import (
	"bytes"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// rawJSON is JSON of any shape, kept as it is written.
type rawJSON jsontext.Value

// MarshalJSON writes it as it is.
func (r rawJSON) MarshalJSON() ([]byte, error) { return jsontext.Value(r).MarshalJSON() }

// UnmarshalJSON keeps it as it is.
func (r *rawJSON) UnmarshalJSON(b []byte) error { *r = bytes.Clone(b); return nil }

// Schema says that it may be anything.
func (rawJSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// scopesOf returns all scopes that routes name, sorted.
func scopesOf(routes []route) []identity.Scope {
	var list []identity.Scope
	for i := range routes {
		for _, s := range []identity.Scope{routes[i].scope, routes[i].or} {
			if s != "" && !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	slices.Sort(list)
	return list
}

// describe writes the OpenAPI 3.1 document of the table.
func describe(routes []route, url, version string) ([]byte, error) {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Counterfoil", Version: version,
			Description: "A gate between AI agents and tools. Errors are problem documents (RFC 9457) with a stable code.",
		},
		Servers: []*huma.Server{{URL: url}},
		Components: &huma.Components{Schemas: reg, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
			"key":   {Type: "apiKey", In: "header", Name: "X-API-Key"},
		}},
	}
	for i := range routes {
		if r := &routes[i]; r.method != "" {
			doc.AddOperation(operation(r, reg))
		}
	}
	return doc.MarshalJSON()
}

func operation(r *route, reg huma.Registry) *huma.Operation {
	op := &huma.Operation{
		Method: r.method, Path: strings.ReplaceAll(r.path, "...}", "}"), Summary: r.summary, OperationID: operationID(r),
		Parameters: parameters(r), Responses: map[string]*huma.Response{
			"default": {Description: "A problem", Content: map[string]*huma.MediaType{typeProblem: {Schema: reg.Schema(reflect.TypeFor[problem](), true, "Problem")}}},
		},
	}
	if r.in != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{typeJSON: {Schema: reg.Schema(r.in, true, "")}}}
	}
	done := &huma.Response{Description: http.StatusText(r.status)}
	status := r.status
	switch {
	case r.out == reflect.TypeFor[nothing]():
		status, done.Description = http.StatusNoContent, http.StatusText(http.StatusNoContent)
	case r.out != nil:
		done.Content = map[string]*huma.MediaType{typeJSON: {Schema: reg.Schema(r.out, true, "")}}
	case r.kind != "":
		done.Content = map[string]*huma.MediaType{r.kind: {}}
	}
	op.Responses[strconv.Itoa(status)] = done
	if r.access == guarded {
		op.Security = []map[string][]string{{"token": {string(r.scope)}}, {"key": {string(r.scope)}}}
	}
	return op
}

// operationID is the method and the path's fixed parts.
func operationID(r *route) string {
	id := strings.ToLower(r.method)
	for part := range strings.SplitSeq(strings.Trim(r.path, "/"), "/") {
		id += "-" + strings.Trim(strings.ReplaceAll(part, "...", ""), "{}.")
	}
	return id
}

func parameters(r *route) []*huma.Param {
	var list []*huma.Param
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			list = append(list, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
		}
	}
	for _, name := range r.query {
		list = append(list, &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: "string"}})
	}
	return list
}

// docsTemplate is the page for people: no script, no style, nothing from elsewhere.
const docsTemplate = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Counterfoil API</title></head>
<body>
<h1>Counterfoil API {{.Version}}</h1>
<p>The same for machines: <a href="/openapi.json">openapi.json</a>. Bodies are JSON. Errors are problem documents (RFC 9457); their
<code>code</code> is stable. One credential per request: <code>Authorization: Bearer …</code> or <code>X-API-Key</code>.</p>
<table border="1">
<thead><tr><th>Method</th><th>Path</th><th>Scope</th><th>What it does</th><th>Parameters</th></tr></thead>
<tbody>
{{range .Rows}}<tr><td>{{.Method}}</td><td><code>{{.Path}}</code></td><td>{{.Scope}}</td><td>{{.Summary}}</td><td>{{.Query}}</td></tr>
{{end}}</tbody>
</table>
<h2>Codes that only HTTP has</h2>
<table border="1">
<thead><tr><th>Code</th><th>Status</th></tr></thead>
<tbody>
{{range .Codes}}<tr><td><code>{{index . 0}}</code></td><td>{{index . 1}}</td></tr>
{{end}}</tbody>
</table>
</body>
</html>
`

type docsRow struct{ Method, Path, Scope, Summary, Query string }

// docsPage makes the page of the table.
func docsPage(routes []route, version string) ([]byte, error) {
	t, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, err
	}
	data := struct {
		Version string
		Rows    []docsRow
		Codes   [][2]string
	}{Version: version}
	for i := range routes {
		r := &routes[i]
		row := docsRow{Method: r.method, Path: r.path, Scope: string(r.scope), Summary: r.summary, Query: strings.Join(r.query, ", ")}
		if r.or != "" {
			row.Scope += " or " + string(r.or)
		}
		if r.access != guarded {
			row.Scope = "public"
		}
		data.Rows = append(data.Rows, row)
	}
	for _, c := range httpCodes() {
		data.Codes = append(data.Codes, [2]string{string(c.code), strconv.Itoa(c.status)})
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// valid reports whether it is one JSON document, or none.
func (r rawJSON) valid() bool { return len(r) == 0 || jsontext.Value(r).IsValid() }
