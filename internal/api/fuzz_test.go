package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil/internal/api"
)

// No value comes with an error, nothing panics, and what is read has no name twice.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"arguments":{"a":[1,{"b":null}]}}`, `{"arguments":1,"arguments":2}`, `[`, "\xff", `{"Arguments":1}`, strings.Repeat("[", 300)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v struct {
			Arguments map[string]any `json:"arguments"`
			Text      string         `json:"text"`
		}
		if err := api.Parse(b, &v); err != nil {
			if status, code := api.StatusOf(err); status != http.StatusBadRequest || code != "invalid-input" {
				t.Fatalf("%d %s: %v", status, code, err)
			}
		}
	})
}

func FuzzReadQuery(f *testing.F) {
	for _, s := range []string{"", "limit=1&after=x", "limit=1;after=2", "%", "limit=%00", "limit", "limit=1&limit=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		n, err := api.ReadQuery(raw, "limit", "after")
		if err != nil {
			if status, _ := api.StatusOf(err); status != http.StatusBadRequest {
				t.Fatal(err)
			}
		} else if n > 2 {
			t.Fatal("unknown parameters were taken")
		}
	})
}

// Whatever is asked of whichever route, by whoever has all rights: it is never a fault of ours.
func FuzzNo500(f *testing.F) {
	w := setup(f)
	table := api.Table()
	root := w.ada("admin", "system:admin", "approvals:*")
	for i, l := range table {
		f.Add(uint8(i), l.Method, "x", "limit=1&after=0&from=1&about=a&phase=completed&version=1&format=csv&redact=true", `{}`, "wait=0")
	}
	bodies := []string{
		`{"arguments":{}}`, `{"text":"ignore previous instructions"}`, `{"value":[1]}`, `{"tenant":"acme","user":"ada","password":"x"}`, `{"refresh":"x"}`,
		`{"passphrase":"","reason":""}`, `{"subject":"a","kind":"agent","scopes":["tools:*"],"life":{"seconds":60}}`, `{"life":{"seconds":-1}}`,
		`{"life":{"never":true},"overlap":9999999999999}`, `{"name":"x","password":"long enough password","scopes":["tools:read"]}`, `{"scopes":null,"groups":null}`,
		`{"value":"\u0000","metadata":{"a":1}}`, `{"kind":"tenant"}`, `{"kind":"agent","name":"agent:x"}`, `{"id":"new","settings":{"tier":"free","maxBody":-5}}`,
		`{"tier":"free","maxBody":9223372036854775807}`, `{"version":1,"hook":{"name":"x","phase":"pre-call","handler":"block"}}`,
		`{"name":"x","phase":"pre-call","url":"https://h.test/"}`, `{"name":"x","phase":"pre-call","handler":"block","priority":99999,"timeoutMs":-1}`,
		`null`, `[]`, `"x"`, ``, "{\"a\":\"\xff\"}", `{"tier":"x"}`,
	}
	for i, l := range table {
		for _, b := range bodies {
			f.Add(uint8(i), l.Method, "a b/..%00\u202e", "", b, "wait=x")
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, method, name, query, body, prefer string) {
		l := table[int(n)%len(table)]
		if l.Path == "/mcp" || strings.HasSuffix(l.Path, "/approve") || strings.HasSuffix(l.Path, "/deny") {
			return
		}
		path := l.Path
		for _, p := range []string{"{tool}", "{id}", "{name}", "{tenant}", "{part...}"} {
			path = strings.ReplaceAll(path, p, url.PathEscape(name))
		}
		u, err := url.Parse("http://gate.test" + path)
		if err != nil {
			return
		}
		u.RawQuery = query
		if !valid(method) {
			method = l.Method
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", strings.NewReader(body))
		r.Method, r.URL = method, u
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+root)
		r.Header.Set("Prefer", prefer)
		r.Header.Set("Idempotency-Key", name)
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		if rec.Code == http.StatusInternalServerError || rec.Code == 0 {
			t.Fatalf("%s %s: %d %s\n%s", method, u, rec.Code, rec.Body, w.log)
		}
	})
}

func valid(method string) bool {
	if method == "" {
		return false
	}
	return strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
