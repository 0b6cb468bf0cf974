package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil/internal/api"
	"github.com/counterfoil/counterfoil/internal/identity"
)

func target(path string) string {
	for _, x := range [][2]string{{"{tool}", "files.send"}, {"{id}", "x"}, {"{name}", "x"}, {"{tenant}", acme}, {"{part...}", "x"}} {
		path = strings.ReplaceAll(path, x[0], x[1])
	}
	return path
}

// What is public is exactly this.
func TestRoutes_public(t *testing.T) {
	t.Parallel()
	want := []string{
		"/.well-known/counterfoil/keys.json", "/.well-known/oauth-protected-resource", "/docs", "/healthz", "/openapi.json", "/readyz", "/v1/auth/bootstrap", "/v1/auth/token",
	}
	var got []string
	for _, l := range api.Table() {
		if l.Public {
			got = append(got, l.Path)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("public: %q", got)
	}
}

// Each route is denied without a credential, and with every scope but its own; no route is there that the table lacks.
func TestRoutes_scopes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, l := range api.Table() {
		method := l.Method
		if l.Path == "/mcp" {
			continue // not mounted here
		}
		if l.Public {
			if l.Method == http.MethodGet {
				w.want(http.StatusOK, method, target(l.Path), "", "")
			}
			continue
		}
		var others []string
		for _, s := range identity.Registered() {
			if s != l.Scope && s != l.Or && s != identity.ScopeTenantAdmin {
				others = append(others, string(s))
			}
		}
		if !slices.Contains(identity.Registered(), l.Scope) {
			t.Errorf("%s %s: the scope %s is not registered", l.Method, l.Path, l.Scope)
		}
		a := w.want(http.StatusUnauthorized, method, target(l.Path), "", `{`)
		if a.code(t) != "credential-missing" || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s without a credential: %v", method, l.Path, a)
		}
		a = w.want(http.StatusForbidden, method, target(l.Path), w.ada(others...), `{`)
		if a.code(t) != "scope-insufficient" || !strings.Contains(a.header.Get("WWW-Authenticate"), string(l.Scope)) {
			t.Errorf("%s %s without its scope: %v %v", method, l.Path, a, a.header)
		}
		a = w.send(method, target(l.Path), w.as(umbrella, identity.KindPerson, "eve", string(l.Scope)), "{")
		if a.status == http.StatusForbidden || a.status == http.StatusUnauthorized || a.status == http.StatusInternalServerError {
			t.Errorf("%s %s with its scope: %v", method, l.Path, a)
		}
	}
}

func TestRoutes_unknown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, x := range []struct {
		method, target, token string
		status                int
		code                  string
	}{
		{"GET", "/v1/nothing", "", 401, "credential-missing"},
		{"GET", "/v1/nothing", w.ada(), 404, "not-found"},
		{"GET", "/metrics", w.ada("admin"), 404, "not-found"},
		{"PATCH", "/v1/tools", w.ada("admin"), 405, "method-not-allowed"},
		{"BREW", "/v1/tools", w.ada("admin"), 405, "method-not-allowed"},
		{"GET", "/v1/tools/", w.ada("admin"), 404, "not-found"},
		{"GET", "/v1//tools", w.ada("admin"), 404, "not-found"},
		{"GET", "/v1/x/../tools", w.ada("admin"), 404, "not-found"},
		{"GET", "/healthz/", "", 401, "credential-missing"},
		{"GET", "/docs/x", "", 401, "credential-missing"},
		{"GET", "/HEALTHZ", "", 401, "credential-missing"},
		{"GET", "/v1/tools?limit=1", w.ada("admin"), 400, "invalid-input"},
		{"GET", "/v1/approvals?limit=0", w.ada("admin"), 400, "invalid-input"},
		{"GET", "/v1/approvals?limit=1&limit=1", w.ada("admin"), 400, "invalid-input"},
		{"GET", "/v1/approvals?limit=%zz", w.ada("admin"), 400, "invalid-input"},
		{"GET", "/v1/approvals?state=none", w.ada("admin"), 400, "invalid-input"},
		{"GET", "/v1/approvals/a%00b", w.ada("admin"), 400, "invalid-input"},
		{"GET", "/v1/approvals?access_token=x", w.ada("admin"), 400, ""},
	} {
		a := w.send(x.method, x.target, x.token, "")
		if c := a.code(t); a.status != x.status || x.code != "" && c != x.code {
			t.Errorf("%s %s: %v", x.method, x.target, a)
		}
	}
	a := w.want(http.StatusNoContent, "OPTIONS", "/v1/keys", "", "")
	if got := a.header.Get("Allow"); got != "GET, HEAD, OPTIONS, POST" || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Fatalf("%v %v", a, a.header)
	}
}
