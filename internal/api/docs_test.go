package api_test

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/api"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

// Every code that can be sent is documented with its status.
func TestProblems_documented(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/errors.md")
	must(t, err)
	_, doc, ok := strings.Cut(string(b), "## Problems of the HTTP surface")
	if !ok {
		t.Fatal("there is no such chapter")
	}
	statuses := map[string]map[int]bool{}
	note := func(code string, status int) {
		if statuses[code] == nil {
			statuses[code] = map[int]bool{}
		}
		statuses[code][status] = true
	}
	for _, m := range regexp.MustCompile("(?m)^- `([a-z-]+)` \\((\\d{3})\\):").FindAllStringSubmatch(doc, -1) {
		n, _ := strconv.Atoi(m[2])
		note(m[1], n)
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d{3}) \| (.*) \|$`).FindAllStringSubmatch(doc, -1) {
		n, _ := strconv.Atoi(m[1])
		for _, c := range regexp.MustCompile("`([a-z_-]+)`").FindAllStringSubmatch(m[2], -1) {
			note(c[1], n)
		}
	}
	want := func(code string, status int) {
		t.Helper()
		if !statuses[code][status] {
			t.Errorf("%s (%d) is not documented: %v", code, status, statuses[code])
		}
		delete(statuses, code)
	}
	for code, status := range api.HTTPCodes() {
		want(code, status)
	}
	for _, c := range counterfoil.Codes() {
		status, code := api.StatusOf(&counterfoil.Error{Code: c, Msg: "x"})
		want(code, status)
	}
	for _, r := range append(gateway.Reasons(), gateway.InvalidParams) {
		status, code := api.StatusOf(&gateway.Refusal{Reason: r})
		if r == gateway.ApprovalPending {
			if status != 202 {
				t.Errorf("pending is %d", status)
			}
			continue
		}
		want(code, status)
	}
	for _, r := range []identity.Reason{identity.ReasonMissing, identity.ReasonAmbiguous, identity.ReasonInvalid, identity.ReasonScope, identity.ReasonUnavailable} {
		status, code := api.StatusOf(&identity.Error{Reason: r})
		want(code, status)
	}
	for _, r := range []ratelimit.Reason{ratelimit.ReasonLength, ratelimit.ReasonTooLarge, ratelimit.ReasonEncoding} {
		status, code := api.StatusOf(&ratelimit.BodyError{Reason: r})
		want(code, status)
	}
	for code := range statuses {
		t.Errorf("%s is documented and never sent", code)
	}
	if status, code := api.StatusOf(errors.New("planted")); status != 500 || code != "internal" {
		t.Errorf("an error that nobody knows is %d %s", status, code)
	}
}

// The description has every line of the table, and nothing points nowhere.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.want(200, "GET", "/openapi.json", "", "")
	if !jsontext.Value(a.body).IsValid() {
		t.Fatal("it is no strict JSON")
	}
	var doc struct {
		OpenAPI    string                               `json:"openapi"`
		Paths      map[string]map[string]jsontext.Value `json:"paths"`
		Components struct {
			Schemas map[string]jsontext.Value `json:"schemas"`
		} `json:"components"`
	}
	a.into(t, &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Fatal(doc.OpenAPI)
	}
	n := 0
	for _, l := range api.Table() {
		if l.Method == "" {
			continue
		}
		n++
		op := doc.Paths[strings.ReplaceAll(l.Path, "...}", "}")][strings.ToLower(l.Method)]
		if op == nil || l.Scope != "" && !strings.Contains(string(op), string(l.Scope)) {
			t.Errorf("%s %s: %s", l.Method, l.Path, op)
		}
	}
	for _, p := range doc.Paths {
		n -= len(p)
	}
	if n != 0 {
		t.Errorf("%d operations too few", n)
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
		if doc.Components.Schemas[m[1]] == nil {
			t.Errorf("there is no schema %s", m[1])
		}
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(`"operationId":"([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
		if ids[m[1]] {
			t.Errorf("two operations are %s", m[1])
		}
		ids[m[1]] = true
	}
}

// The page has nothing that could run.
func TestDocs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.want(200, "GET", "/docs", "", "")
	for _, bad := range []string{"<script", "<style", " style=", "javascript:", "http://", "https://", " on"} {
		if strings.Contains(strings.ReplaceAll(a.body, " on ", " "), bad) && bad != " on" {
			t.Errorf("the page has %q", bad)
		}
	}
	if csp := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Fatal(csp)
	}
	if !strings.Contains(a.body, "/v1/tools/{tool}/call") {
		t.Fatal("the page lacks routes")
	}
}

func TestWellKnown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var r struct {
		Resource string   `json:"resource"`
		Scopes   []string `json:"scopes_supported"`
		Methods  []string `json:"bearer_methods_supported"`
	}
	w.want(200, "GET", "/.well-known/oauth-protected-resource", "", "").into(t, &r)
	if r.Resource != address || len(r.Scopes) < 5 || len(r.Methods) != 1 {
		t.Fatalf("%+v", r)
	}
	a := w.want(200, "GET", "/.well-known/counterfoil/keys.json", "", "")
	if _, err := counterfoil.ParseKeyRing([]byte(a.body)); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	must(t, json.Unmarshal([]byte(a.body), &v))
	if strings.Contains(a.body, `"d":`) {
		t.Fatal("a private key is published")
	}
}
