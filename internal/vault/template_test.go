package vault_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func TestParseSheet(t *testing.T) {
	t.Parallel()
	s := sheet(t, map[string]string{
		"/headers/x-key": "{{secret:key}}", "/headers/Authorization": "Basic {{secret:user}}:{{secret:key@12}}{{secret:key}}", "/headers/Accept": "a {{x}} } {{ x",
	})
	if d := cmp.Diff([]string{"/headers/Accept", "/headers/Authorization", "/headers/X-Key"}, s.Pointers()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]vault.Ref{{Name: "user"}, {Name: "key", Version: 12}, {Name: "key"}}, s.Refs()); d != "" {
		t.Error(d)
	}
	if got := string(s.Canonical()); !strings.Contains(got, `"/headers/X-Key":"{{secret:key}}"`) {
		t.Error(got)
	}
	// The digest is of the templates and of where they stand.
	again := sheet(t, map[string]string{"/headers/X-Key": "{{secret:key}}"})
	for _, other := range []map[string]string{{}, {"/headers/X-Key": "{{secret:key@1}}"}, {"/headers/X-Kez": "{{secret:key}}"}, {"/headers/X-Key": "{{secret:kez}}"}, {"/env/X_KEY": "{{secret:key}}"}} {
		if sheet(t, other).Digest() == again.Digest() {
			t.Errorf("%v has the same digest", other)
		}
	}
	if again.Digest() != sheet(t, map[string]string{"/headers/x-key": "{{secret:key}}"}).Digest() || again.Digest().IsZero() {
		t.Error("one sheet, two digests")
	}
}

func TestParseSheet_rejects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{{secret:}}", "{{secret:a", "{{secret:a}", "{{secret:a b}}", "{{secret:a@}}", "{{secret:a@0}}", "{{secret:a@-1}}", "{{secret:a@01}}", "{{secret:a@+1}}",
		"{{secret:a@1@2}}", "{{secret:a@99999999999999999999}}", "{{ secret:a}}", "{{secret :a}}", "{{SECRET:a}}", "{{Secret:a}}", "{{secret}}", "{{secrets:a}}",
		"{{secret:{{secret:a}}}}", "{{secret:a\n}}", "\xff", "a\nb", "a\rb", "a\x00b", strings.Repeat("{{secret:a}}", 65), strings.Repeat("a", 65537),
	} {
		if _, err := vault.ParseSheet(map[string]string{"/headers/X-Key": text}); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	for _, p := range []string{
		"", "/", "headers/X", "/headers/", "/headers/a b", "/headers/a:", "/headers/a\n", "/headers/Host", "/headers/content-length", "/headers/Transfer-Encoding", "/headers/Ä", "/env/", "/env/A=B",
		"/env/1A", "/env/A B", "/env/A-B", "/args/", "/args/-1", "/args/01", "/args/x", "/args/65536", "/url", "/body/x", "/Headers/X",
	} {
		if _, err := vault.ParseSheet(map[string]string{p: "x"}); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, fields := range []map[string]string{
		{"/headers/X-Key": "a", "/headers/x-key": "b"}, {"/headers/X": "a", "/env/X": "b"}, {"/args/1": "a", "/headers/X": "b"},
		{"/args/1": "a", "/env/X": "b", "/headers/X": "b"},
	} {
		if _, err := vault.ParseSheet(fields); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%v: %v", fields, err)
		}
	}
	if _, err := vault.ParseSheet(map[string]string{"/args/0": "a\nscript", "/env/X": "x"}); err != nil {
		t.Errorf("an argument of two lines: %v", err)
	}
}

// Only what a grant names is filled: tenant, secret, upstream, place and host, each by itself.
func TestFill_grants(t *testing.T) {
	t.Parallel()
	s := secrets(t)
	put(t, s, "key", "a secret value")
	const at, host, address = "/headers/X-Key", "up.test", "https://up.test/mcp"
	template := sheet(t, map[string]string{at: "Bearer {{secret:key}}"})
	good := anyGrant("key", []string{at}, []string{host})
	for name, tt := range map[string]struct {
		change  func(*vault.Grant)
		address string
		code    counterfoil.Code
	}{
		"good":              {nil, address, ""},
		"its port":          {nil, "https://up.test:443/", ""},
		"upper case":        {nil, "https://UP.test/", ""},
		"small header":      {func(g *vault.Grant) { g.Pointers = []string{"/headers/x-key"} }, address, ""},
		"another port":      {nil, "https://up.test:8443/", counterfoil.CodePolicyDenied},
		"port named":        {func(g *vault.Grant) { g.Hosts = []string{"up.test:8443"} }, "https://up.test:8443/", ""},
		"another host":      {nil, "https://evil.test/", counterfoil.CodePolicyDenied},
		"below":             {nil, "https://x.up.test/", counterfoil.CodePolicyDenied},
		"trailing dot":      {nil, "https://up.test./", counterfoil.CodePolicyDenied},
		"user info":         {nil, "https://up.test@evil.test/", counterfoil.CodePolicyDenied},
		"in the clear":      {nil, "http://up.test/", counterfoil.CodePolicyDenied},
		"clear, its port":   {func(g *vault.Grant) { g.Hosts = []string{"up.test:80"} }, "http://up.test/", counterfoil.CodePolicyDenied},
		"this machine":      {func(g *vault.Grant) { g.Hosts = []string{"127.0.0.1:80"} }, "http://127.0.0.1/", ""},
		"another scheme":    {nil, "ftp://up.test/", counterfoil.CodePolicyDenied},
		"no address":        {nil, "", counterfoil.CodePolicyDenied},
		"tenant":            {func(g *vault.Grant) { g.Tenant = "other" }, address, counterfoil.CodePolicyDenied},
		"no tenant":         {func(g *vault.Grant) { g.Tenant = "" }, address, counterfoil.CodePolicyDenied},
		"secret":            {func(g *vault.Grant) { g.Secret = "kez" }, address, counterfoil.CodePolicyDenied},
		"wildcard secret":   {func(g *vault.Grant) { g.Secret = "*" }, address, counterfoil.CodePolicyDenied},
		"upstream":          {func(g *vault.Grant) { g.Upstream = "down" }, address, counterfoil.CodePolicyDenied},
		"place":             {func(g *vault.Grant) { g.Pointers = []string{"/headers/X-Kez"} }, address, counterfoil.CodePolicyDenied},
		"no place":          {func(g *vault.Grant) { g.Pointers = nil }, address, counterfoil.CodePolicyDenied},
		"wildcard place":    {func(g *vault.Grant) { g.Pointers = []string{"/headers/*"} }, address, counterfoil.CodePolicyDenied},
		"no host":           {func(g *vault.Grant) { g.Hosts = nil }, address, counterfoil.CodePolicyDenied},
		"wildcard host":     {func(g *vault.Grant) { g.Hosts = []string{"*"} }, address, counterfoil.CodePolicyDenied},
		"wildcard below":    {func(g *vault.Grant) { g.Hosts = []string{"*.test"} }, address, counterfoil.CodePolicyDenied},
		"a bad host beside": {func(g *vault.Grant) { g.Hosts = []string{host, "UP.TEST"} }, address, counterfoil.CodePolicyDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := good
			if tt.change != nil {
				tt.change(&g)
			}
			f, err := s.Fill(t.Context(), template, target(t, tt.address, g))
			if counterfoil.CodeOf(err) != tt.code {
				t.Fatal(err)
			}
			text, ok := f.Reveal(at)
			if want := tt.code == ""; ok != want || want && text != "Bearer a secret value" {
				t.Fatalf("%q, %v", text, ok)
			}
			if tt.code != "" && (f.Used() != nil || f.Scrubber() != nil) {
				t.Fatal("something was used")
			}
		})
	}
	if _, err := s.Fill(t.Context(), template, target(t, address)); counterfoil.CodeOf(err) != counterfoil.CodePolicyDenied {
		t.Errorf("without grants: %v", err)
	}
	if _, err := s.Fill(t.Context(), nil, target(t, address, good)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("without a sheet: %v", err)
	}
	missing := anyGrant("missing", []string{at}, []string{host})
	if _, err := s.Fill(t.Context(), sheet(t, map[string]string{at: "{{secret:missing}}"}), target(t, address, missing)); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("a secret that isn't there: %v", err)
	}
}

// All places get one version, the text of an operator alone is a template, and the caller learns what was used.
func TestFill(t *testing.T) {
	t.Parallel()
	s := secrets(t)
	put(t, s, "key", "value one of key")
	put(t, s, "key", "value two of key")
	put(t, s, "odd", "has {{secret:key}} in it") // what a secret holds is no template either
	sheet := sheet(t, map[string]string{"/env/A": "a={{secret:key}}", "/env/B": "{{secret:key@1}}", "/args/0": "--x={{secret:key}}/{{secret:odd}}", "/env/PLAIN": "plain"})
	grants := []vault.Grant{anyGrant("key", []string{"/env/A", "/env/B", "/args/0"}, nil), anyGrant("odd", []string{"/args/0"}, nil)}
	f, err := s.Fill(t.Context(), sheet, target(t, "", grants...))
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"/env/A": "a=value two of key", "/env/B": "value one of key", "/args/0": "--x=value two of key/has {{secret:key}} in it", "/env/PLAIN": "plain",
	} {
		if got, ok := f.Reveal(p); !ok || got != want {
			t.Errorf("%s: %q", p, got)
		}
	}
	if _, ok := f.Reveal("/env/C"); ok {
		t.Error("a place that isn't there")
	}
	used := f.Used()
	slices.SortFunc(used, func(a, b vault.Used) int { return strings.Compare(a.Name, b.Name)*10 + int(a.Version-b.Version) })
	if d := cmp.Diff([]vault.Used{{Name: "key", Version: 1}, {Name: "key", Version: 2}, {Name: "odd", Version: 1}}, used); d != "" {
		t.Error(d)
	}
}

// The filled headers go to the one host, whatever redirects say, and not with a byte to another; what an agent sends stays
// as it is; and the response's headers come back without secrets.
func TestTransport(t *testing.T) {
	t.Parallel()
	const secret = "a secret value"
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.Header.Get("X-Key"))
	}))
	t.Cleanup(thief.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("X-Key") != "Bearer "+secret || r.Header.Get("X-Agent") != "{{secret:key}}" || string(body) != `{"x":"{{secret:key}}"}` {
			t.Errorf("got %v, %s", r.Header, body)
		}
		w.Header().Set("X-Echo", r.Header.Get("X-Key"))
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)
	s := secrets(t)
	put(t, s, "key", secret)
	f, err := s.Fill(t.Context(), sheet(t, map[string]string{"/headers/X-Key": "Bearer {{secret:key}}"}),
		target(t, server.URL, anyGrant("key", []string{"/headers/X-Key"}, []string{strings.TrimPrefix(server.URL, "http://")})))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: f.Transport(http.DefaultTransport)}
	send := func(address, host string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{"x":"{{secret:key}}"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Agent", "{{secret:key}}")
		req.Header.Set("X-Key", "of the agent")
		req.Host = host
		res, err := client.Do(req)
		if req.Header.Get("X-Key") != "of the agent" {
			t.Error("the caller's request was changed")
		}
		if err == nil {
			defer res.Body.Close() //nolint:errcheck // nothing is read
		} else if strings.Contains(err.Error(), secret) {
			t.Error(err)
		}
		return res, err
	}
	res, err := send(server.URL+"/", "") //nolint:bodyclose // send closes it
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("X-Echo"); got != "Bearer [redacted]" || res.Request.Header.Get("X-Key") != "of the agent" {
		t.Errorf("came back: %s, %v", got, res.Request.Header)
	}
	for _, to := range [][2]string{{server.URL + "/redirect", ""}, {thief.URL, ""}, {server.URL, "evil.test"}, {"http://up.test", ""}} {
		if _, err := send(to[0], to[1]); !errors.Is(err, counterfoil.CodePolicyDenied) { //nolint:bodyclose // send closes it
			t.Errorf("%v: %v", to, err)
		}
	}
	if len(stolen) > 0 {
		t.Errorf("another host was asked: %q", stolen)
	}
}

func FuzzSheet(f *testing.F) {
	for _, s := range []string{"{{secret:a}}", "x{{secret:a@1}}y", "{{secret:", "{{secret:a}}}}", "{{ secret:a }}", "{{{{secret:a}}"} {
		f.Add("/headers/X", s)
	}
	f.Fuzz(func(t *testing.T, pointer, text string) {
		s, err := vault.ParseSheet(map[string]string{pointer: text})
		if err != nil {
			if s != nil && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
				t.Fatal(err)
			}
			return
		}
		if strings.Contains(text, "{{secret:") != (len(s.Refs()) > 0) {
			t.Fatalf("%q names %v", text, s.Refs())
		}
		again, err := vault.ParseSheet(map[string]string{s.Pointers()[0]: text})
		if err != nil || again.Digest() != s.Digest() {
			t.Fatalf("%q is no fixed point: %v", pointer, err)
		}
	})
}
