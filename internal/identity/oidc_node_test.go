package identity_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/identity"
)

const npmDir = "../../testdata/npm"

// node starts the issuer of testdata/npm and returns its address. It ends with stop, or with the test.
func node(t *testing.T, config string) (issuer string, stop func()) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(npmDir, "node_modules", "oidc-provider")); err != nil {
		t.Skip("the issuer isn't installed: run npm ci in testdata/npm")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	cmd := exec.CommandContext(ctx, "node", "oidc.mjs", config)
	cmd.Dir = npmDir
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	stop = func() {
		_ = stdin.Close() // that ends it
		_ = cmd.Wait()
		cancel()
	}
	t.Cleanup(stop)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var ready struct {
			Issuer string `json:"issuer"`
		}
		if json.Unmarshal(lines.Bytes(), &ready) == nil && ready.Issuer != "" {
			go func() { _, _ = io.Copy(io.Discard, stdout) }() // until the process ends
			return ready.Issuer, stop
		}
	}
	t.Fatalf("the issuer does not start: %v", lines.Err())
	return "", nil
}

// fetchToken asks the issuer for an access token.
func fetchToken(t *testing.T, issuer, client, resource, scope string) string {
	t.Helper()
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {client + "-secret"},
		"resource": {resource}, "scope": {scope},
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer+"/token", strings.NewReader(form.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, err)
	must(t, response.Body.Close())
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
		t.Fatalf("%s: %s", response.Status, body)
	}
	return answer.Token
}

// Tokens of a real issuer are taken for what they say, and no others; keys that it changes are noticed.
func TestOIDC_realIssuer(t *testing.T) {
	t.Parallel()
	const clients = `"clients":{"agent":{"tenant_id":"acme","kind":"agent"},"stranger":{"tenant_id":"initech","kind":"agent"},"silent":{}}`
	for _, algorithm := range []string{"RS256", "ES256"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			issuer, stop := node(t, `{"alg":"`+algorithm+`",`+clients+`}`)
			w := newWorld(t, func(o *identity.Options) {
				o.OIDC = []identity.OIDC{{
					Name: "corp", Issuer: issuer, Algorithm: algorithm, Lifetime: 10 * time.Minute, TenantClaim: "tenant_id", Tenants: []string{"acme"},
					KindClaim: "kind", Kinds: map[string]identity.Kind{"agent": identity.KindAgent}, Owner: "ada",
					ScopesClaim: "scope", Scopes: []string{"tools:read", "tools:execute", "approvals:decide"}, HTTP: client(t, issuer),
				}}
			})
			// The issuer's clock is the real one, and the machine may be slow.
			fetch := func(client, resource, scope string) string {
				text := fetchToken(t, issuer, client, resource, scope)
				w.clock.Move(time.Since(w.clock.Now()) + time.Second)
				return text
			}
			text := fetch("agent", audience, "tools:read tools:execute")
			p, err := w.auth.Authenticate(request("Authorization", "Bearer "+text))
			must(t, err)
			want := &identity.Principal{
				Tenant: "acme", Subject: "corp/agent", Kind: identity.KindAgent, Owner: "ada", Scopes: scopes(t, "tools:read", "tools:execute"),
				Credential: p.Credential, ExpiresAt: p.ExpiresAt,
			}
			if d := cmp.Diff(want, p, asScopes); d != "" || !strings.HasPrefix(p.Credential, "corp/") {
				t.Fatal(d)
			}
			for _, c := range []struct{ client, resource, scope, why string }{
				{"agent", "https://gate.example/other", "tools:read", "audience"},
				{"agent", audience, "approvals:decide", "principal"},
				{"stranger", audience, "tools:read", "tenant"},
				{"silent", audience, "tools:read", "tenant"},
			} {
				q, err := w.auth.Token(t.Context(), fetch(c.client, c.resource, c.scope))
				if got := why(t, q, err); got != c.why {
					t.Errorf("%v: refused for %q", c, got)
				}
			}
			head, rest, _ := strings.Cut(text, ".")
			body, sig, _ := strings.Cut(rest, ".")
			q, err := w.auth.Token(t.Context(), head+"."+body+"."+sig[:10]+"AAAA"+sig[14:])
			if got := why(t, q, err); got != "signature" {
				t.Errorf("refused for %q", got)
			}
			must(t, w.auth.RevokeCredential(t.Context(), "person:root", "acme", p.Credential))
			q, err = w.auth.Token(t.Context(), text)
			if got := why(t, q, err); got != "revoked" {
				t.Errorf("refused for %q", got)
			}
			// It comes back at the same address with other keys.
			stop()
			_, port, _ := strings.Cut(strings.TrimPrefix(issuer, "http://"), ":")
			node(t, `{"alg":"`+algorithm+`","port":`+port+`,`+clients+`}`)
			fresh := fetch("agent", audience, "tools:read")
			w.clock.Move(10 * time.Second)
			if _, err := w.auth.Token(t.Context(), fresh); err != nil {
				t.Fatalf("with the new key: %v", err)
			}
		})
	}
}
