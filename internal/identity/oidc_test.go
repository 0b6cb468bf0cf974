package identity_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/reach"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// A provider is an issuer in this process, for what a real one can't be made to do.
type provider struct {
	*httptest.Server
	mu        sync.Mutex
	discovery string // its document
	keys      string
	status    int // of every answer, 0 for 200
	fetched   map[string]int
	client    *http.Client
}

func newProvider(t testing.TB, keys ...*identity.Key) *provider {
	t.Helper()
	p := &provider{fetched: map[string]int{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.client = client(t, p.URL)
	p.discovery = `{"issuer":"` + p.URL + `","jwks_uri":"` + p.URL + `/keys"}`
	p.publish(t, keys...)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetched[r.URL.Path]++
	w.Header().Set("Content-Type", "application/json")
	if p.status != 0 {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(p.status)
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		_, _ = w.Write([]byte(p.discovery))
	} else {
		_, _ = w.Write([]byte(p.keys))
	}
}

func (p *provider) publish(t testing.TB, keys ...*identity.Key) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, k := range keys {
		r, err := identity.NewKeyRing(k)
		must(t, err)
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(string(r.JWKS(time.Time{})), `{"keys":[`), `]}`))
	}
	p.keys = `{"keys":[` + strings.Join(all, ",") + `]}`
}

func (p *provider) set(change func(p *provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *provider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched[path]
}

// client is the server's own, which asks nobody but the issuer.
func client(t testing.TB, issuer string) *http.Client {
	t.Helper()
	dialer, err := reach.NewDialer(reach.DialOptions{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	must(t, err)
	transport, err := reach.NewTransport(reach.TransportOptions{Dialer: dialer})
	must(t, err)
	t.Cleanup(transport.Close)
	list, err := reach.ParseDomainAllowlist([]string{strings.TrimPrefix(issuer, "http://")})
	must(t, err)
	return transport.Client(reach.ClientOptions{Domains: list})
}

// trusted is a configuration for people and their groups.
func (p *provider) trusted() identity.OIDC {
	return identity.OIDC{
		Name: "corp", Issuer: p.URL, Algorithm: "EdDSA", Lifetime: time.Hour, Tenant: "acme",
		KindClaim: "type", Kinds: map[string]identity.Kind{"user": identity.KindPerson, "bot": identity.KindAgent}, OwnerClaim: "/app/owner",
		ScopesClaim: "scope", Scopes: []string{"tools:*", "approvals:read"},
		GroupsClaim: "/realm_access/roles", GroupScopes: map[string][]string{"reviewers": {"approvals:decide"}, "ops": {"admin"}},
		HTTP: p.client,
	}
}

func trusting(o identity.OIDC) func(*identity.Options) {
	return func(all *identity.Options) { all.OIDC = []identity.OIDC{o} }
}

func (p *provider) claims() string {
	at := storetest.Start().Unix()
	return fmt.Sprintf(`{"iss":"%s","sub":"u1","aud":["x","%s"],"iat":%d,"exp":%d,"jti":"i1","type":"user","scope":"openid tools:execute","app":{"owner":"u1"},"realm_access":{"roles":["reviewers","other"]}}`,
		p.URL, audience, at, at+600)
}

var asScopes = cmp.AllowUnexported(identity.Scopes{})

// What the issuer says becomes a principal of ours, by the configuration alone.
func TestOIDC(t *testing.T) {
	t.Parallel()
	key := edKey(t, "theirs")
	p := newProvider(t, key)
	w := newWorld(t, trusting(p.trusted()))
	kid, sign := key.ID(), edForger("theirs").sign
	ask := func(body string) *identity.Principal {
		t.Helper()
		got, err := w.auth.Authenticate(request("Authorization", "Bearer "+sign(t, header(kid), body)))
		must(t, err)
		return got
	}
	want := &identity.Principal{
		Tenant: "acme", Subject: "corp/u1", Kind: identity.KindPerson, Owner: "corp/u1", Credential: "corp/i1",
		Scopes: scopes(t, "tools:execute", "approvals:decide"), Groups: []string{"corp/reviewers", "corp/other"},
		ExpiresAt: storetest.Start().Add(10 * time.Minute),
	}
	if d := cmp.Diff(want, ask(p.claims()), asScopes); d != "" {
		t.Fatal(d)
	}
	bot := edited(t, edited(t, p.claims(), `"user"`, `"bot"`), `["reviewers","other"]`, `[]`)
	want.Kind, want.Scopes, want.Groups = identity.KindAgent, scopes(t, "tools:execute"), nil
	if d := cmp.Diff(want, ask(bot), asScopes); d != "" {
		t.Fatal(d)
	}
	// Neither scopes nor groups: nothing is allowed. No id: the token's digest.
	bare := edited(t, edited(t, edited(t, bot, `"jti":"i1",`, ``), `"scope":"openid tools:execute",`, ``), `,"realm_access":{"roles":[]}`, ``)
	want.Scopes = scopes(t)
	got := ask(bare)
	if !strings.HasPrefix(got.Credential, "corp/sha256-") {
		t.Fatal(got.Credential)
	}
	want.Credential = got.Credential
	if d := cmp.Diff(want, got, asScopes); d != "" {
		t.Fatal(d)
	}
	must(t, w.auth.RevokeCredential(t.Context(), "person:root", "acme", got.Credential))
	q, err := w.auth.Token(t.Context(), sign(t, header(kid), bare))
	if got := why(t, q, err); got != "revoked" {
		t.Fatal(got)
	}
	if n, m := p.count("/keys"), p.count("/.well-known/openid-configuration"); n != 1 || m != 1 {
		t.Fatalf("%d fetches of the keys, %d of the document", n, m)
	}
}

func TestOIDC_refused(t *testing.T) {
	t.Parallel()
	key := edKey(t, "theirs")
	p := newProvider(t, key)
	w := newWorld(t, trusting(p.trusted()))
	kid, sign := key.ID(), edForger("theirs").sign
	for _, c := range []struct{ name, part, old, with, why string }{
		{"another type", "header", `at+jwt`, `JWT`, "typ"},
		{"an approval", "header", `at+jwt`, `counterfoil.approval`, "typ"},
		{"another algorithm", "header", `EdDSA`, `RS256`, "alg"},
		{"none", "header", `EdDSA`, `none`, "alg"},
		{"a key of its own", "header", `{`, `{"jwk":{},`, "header"},
		{"another key", "header", kid, `other`, "signature"},
		{"our key", "header", kid, edKey(t, "one").ID(), "signature"},
		{"another issuer", "claims", `"iss":"` + p.URL, `"iss":"` + p.URL + `/`, "kid"},
		{"another audience", "claims", audience, `https://gate.example/other`, "audience"},
		{"no subject", "claims", `"sub":"u1",`, ``, "claim"},
		{"an unknown kind", "claims", `"user"`, `"admin"`, "principal"},
		{"no kind", "claims", `"type":"user",`, ``, "principal"},
		{"kinds", "claims", `"user"`, `["user"]`, "principal"},
		{"a bot without an owner", "claims", `"type":"user"`, `"type":"bot","app":{}`, "json"},
		{"a bot that decides", "claims", `"user"`, `"bot"`, "principal"},
		{"a scope that is not allowed", "claims", `openid tools:execute`, `policy:write`, "scope"},
		{"a noun that is not allowed", "claims", `openid tools:execute`, `approvals:*`, "scope"},
		{"administration", "claims", `openid tools:execute`, `admin`, "scope"},
		{"an unknown scope", "claims", `openid tools:execute`, `read:everything`, "scope"},
		{"a number as scopes", "claims", `"openid tools:execute"`, `1`, "scope"},
		{"groups in a text", "claims", `["reviewers","other"]`, `"reviewers"`, "group"},
		{"a group with a control character", "claims", `"other"`, `"a\u0007"`, "principal"},
		{"a fraction", "claims", `"iat":`, `"nbf":1.5,"iat":`, "date"},
	} {
		h, b := header(kid), p.claims()
		if c.part == "header" {
			h = edited(t, h, c.old, c.with)
		} else {
			b = edited(t, b, c.old, c.with)
		}
		q, err := w.auth.Token(t.Context(), sign(t, h, b))
		if got := why(t, q, err); got != c.why {
			t.Errorf("%s: refused for %q, want %q", c.name, got, c.why)
		}
	}
	noOwner := edited(t, edited(t, edited(t, p.claims(), `"user"`, `"bot"`), `["reviewers","other"]`, `[]`), `{"owner":"u1"}`, `{}`)
	q, err := w.auth.Token(t.Context(), sign(t, header(kid), noOwner))
	if got := why(t, q, err); got != "owner" {
		t.Errorf("refused for %q", got)
	}
	// Their key signs no token of ours, and our key none of theirs.
	q, err = w.auth.Token(t.Context(), sign(t, header(kid), claims()))
	if got := why(t, q, err); got != "kid" {
		t.Errorf("refused for %q", got)
	}
	q, err = w.auth.Token(t.Context(), edForger("one").sign(t, header(kid), p.claims()))
	if got := why(t, q, err); got != "signature" {
		t.Errorf("refused for %q", got)
	}
}

// An issuer that serves several tenants names one of those that it may.
func TestOIDC_tenants(t *testing.T) {
	t.Parallel()
	key := edKey(t, "theirs")
	p := newProvider(t, key)
	o := p.trusted()
	o.Tenant, o.TenantClaim, o.Tenants = "", "https://corp.example/tenant", []string{"acme"}
	w := newWorld(t, trusting(o))
	for value, want := range map[string]string{
		`"acme"`: "", `"globex"`: "tenant", `""`: "tenant", `null`: "tenant", `["acme"]`: "tenant", `"Acme"`: "tenant",
	} {
		text := edForger("theirs").sign(t, header(key.ID()), edited(t, p.claims(), `"sub"`, `"https://corp.example/tenant":`+value+`,"sub"`))
		q, err := w.auth.Token(t.Context(), text)
		if want == "" {
			if err != nil || q.Tenant != "acme" {
				t.Errorf("%s: %v", value, err)
			}
		} else if got := why(t, q, err); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
}

// The keys are fetched anew for an unknown key, but a stranger can't make that happen often; a withdrawn key ends.
func TestOIDC_rotation(t *testing.T) {
	t.Parallel()
	one, two := edKey(t, "theirs"), edKey(t, "next")
	p := newProvider(t, one)
	w := newWorld(t, trusting(p.trusted()))
	old := edForger("theirs").sign(t, header(one.ID()), p.claims())
	fresh := edForger("next").sign(t, header(two.ID()), p.claims())
	if _, err := w.auth.Token(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	p.publish(t, two)
	for i := range 50 {
		forged := edForger("evil").sign(t, header(fmt.Sprintf("k%d", i)), p.claims())
		q, err := w.auth.Token(t.Context(), forged)
		if got := why(t, q, err); got != "signature" {
			t.Fatal(got)
		}
	}
	if n := p.count("/keys"); n != 1 {
		t.Fatalf("strangers caused %d fetches", n-1)
	}
	w.clock.Move(10 * time.Second)
	if _, err := w.auth.Token(t.Context(), fresh); err != nil {
		t.Fatalf("the new key: %v", err)
	}
	if n := p.count("/keys"); n != 2 {
		t.Fatalf("%d fetches", n)
	}
	// What was verified with the old key is believed until the keys have to be looked at again.
	w.clock.Move(9*time.Minute + 49*time.Second)
	if _, err := w.auth.Token(t.Context(), old); err != nil {
		t.Fatalf("before the keys are fetched again: %v", err)
	}
	w.clock.Move(time.Second)
	body := p.claims()
	body = edited(t, body, fmt.Sprintf(`"exp":%d`, storetest.Start().Unix()+600), fmt.Sprintf(`"exp":%d`, storetest.Start().Unix()+3600))
	late := edForger("theirs").sign(t, header(one.ID()), body)
	q, err := w.auth.Token(t.Context(), late)
	if got := why(t, q, err); got != "signature" {
		t.Fatalf("after: %s", got)
	}
}

// A key that the issuer has withdrawn ends, though no token asks for another.
func TestOIDC_withdrawn(t *testing.T) {
	t.Parallel()
	key := edKey(t, "theirs")
	p := newProvider(t, key)
	w := newWorld(t, trusting(p.trusted()))
	at := storetest.Start().Unix()
	text := edForger("theirs").sign(t, header(key.ID()), edited(t, p.claims(), fmt.Sprintf(`"exp":%d`, at+600), fmt.Sprintf(`"exp":%d`, at+3600)))
	if _, err := w.auth.Token(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	p.publish(t, edKey(t, "next"))
	w.clock.Move(10*time.Minute - time.Millisecond)
	if _, err := w.auth.Token(t.Context(), text); err != nil {
		t.Fatalf("while the keys are fresh: %v", err)
	}
	w.clock.Move(time.Millisecond)
	q, err := w.auth.Token(t.Context(), text)
	if got := why(t, q, err); got != "signature" {
		t.Fatal(got)
	}
}

// While the issuer's documents can't be had nobody new is let in, and what was known is good for an hour.
func TestOIDC_away(t *testing.T) {
	t.Parallel()
	key := edKey(t, "theirs")
	long := func(p *provider, jti string) string {
		at := storetest.Start().Unix()
		body := edited(t, p.claims(), fmt.Sprintf(`"exp":%d`, at+600), fmt.Sprintf(`"exp":%d`, at+3600*3))
		return edForger("theirs").sign(t, header(key.ID()), edited(t, body, `"i1"`, `"`+jti+`"`))
	}
	for name, fault := range map[string]func(p *provider){
		"an error":      func(p *provider) { p.status = http.StatusInternalServerError },
		"another place": func(p *provider) { p.status = http.StatusFound },
		"not JSON":      func(p *provider) { p.discovery = `<html>`; p.keys = p.discovery },
		"a name twice":  func(p *provider) { p.discovery = edited(t, p.discovery, `{`, `{"issuer":"x",`) },
		"another issuer": func(p *provider) {
			p.discovery = edited(t, p.discovery, `"issuer":"`+p.URL, `"issuer":"https://evil.example`)
		},
		"a longer issuer":  func(p *provider) { p.discovery = edited(t, p.discovery, `"issuer":"`+p.URL, `"issuer":"`+p.URL+`/`) },
		"keys in clear":    func(p *provider) { p.discovery = edited(t, p.discovery, p.URL+`/keys`, `http://corp.example/keys`) },
		"keys in a file":   func(p *provider) { p.discovery = edited(t, p.discovery, p.URL+`/keys`, `file:///etc/passwd`) },
		"no keys' address": func(p *provider) { p.discovery = edited(t, p.discovery, `,"jwks_uri":"`+p.URL+`/keys"`, ``) },
		"keys not JSON":    func(p *provider) { p.keys = `<html>` },
		"too much":         func(p *provider) { p.discovery = `{"a":"` + strings.Repeat("x", 1<<20) + `"}` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, key)
			o := p.trusted()
			o.Lifetime = 3 * time.Hour
			w := newWorld(t, trusting(o))
			text := long(p, "i1")
			good := p.discovery
			p.set(fault)
			for range 5 {
				q, err := w.auth.Token(t.Context(), text)
				if got := reason(t, q, err); got != identity.ReasonUnavailable {
					t.Fatalf("%s: %v", got, errors.Unwrap(err))
				}
			}
			if n := p.count("/.well-known/openid-configuration"); n != 1 {
				t.Fatalf("%d attempts at once", n)
			}
			p.set(func(p *provider) { p.status, p.discovery = 0, good })
			p.publish(t, key)
			w.clock.Move(10 * time.Second)
			if _, err := w.auth.Token(t.Context(), text); err != nil {
				t.Fatalf("when it is back: %v", err)
			}
			p.set(fault)
			w.clock.Move(59*time.Minute + 50*time.Second - time.Second)
			if _, err := w.auth.Token(t.Context(), long(p, "i2")); err != nil {
				t.Fatalf("with keys of an hour: %v", err)
			}
			w.clock.Move(11 * time.Second)
			for _, text := range []string{text, long(p, "i2"), long(p, "i3")} {
				q, err := w.auth.Token(t.Context(), text)
				if got := reason(t, q, err); got != identity.ReasonUnavailable {
					t.Fatalf("%s: %v", got, err)
				}
			}
		})
	}
}

// A configuration that leaves something open is refused at the start.
func TestOIDC_configuration(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	w := newWorld(t, nil)
	for name, change := range map[string]func(*identity.OIDC){
		"no name":               func(o *identity.OIDC) { o.Name = "" },
		"a slash in the name":   func(o *identity.OIDC) { o.Name = "a/b" },
		"a long name":           func(o *identity.OIDC) { o.Name = strings.Repeat("a", 64) },
		"in clear":              func(o *identity.OIDC) { o.Issuer = "http://corp.example" },
		"no scheme":             func(o *identity.OIDC) { o.Issuer = "corp.example" },
		"a user":                func(o *identity.OIDC) { o.Issuer = "https://a:b@corp.example" },
		"a query":               func(o *identity.OIDC) { o.Issuer = "https://corp.example?a=b" },
		"no address":            func(o *identity.OIDC) { o.Issuer = "" },
		"ours":                  func(o *identity.OIDC) { o.Issuer = issuer },
		"a shared secret":       func(o *identity.OIDC) { o.Algorithm = "HS256" },
		"none":                  func(o *identity.OIDC) { o.Algorithm = "none" },
		"no algorithm":          func(o *identity.OIDC) { o.Algorithm = "" },
		"approvals":             func(o *identity.OIDC) { o.Types = []string{"counterfoil.approval"} },
		"an empty type":         func(o *identity.OIDC) { o.Types = []string{""} },
		"an empty audience":     func(o *identity.OIDC) { o.Audiences = []string{""} },
		"no life":               func(o *identity.OIDC) { o.Lifetime = 0 },
		"a long life":           func(o *identity.OIDC) { o.Lifetime = 25 * time.Hour },
		"no tenant":             func(o *identity.OIDC) { o.Tenant = "" },
		"any tenant":            func(o *identity.OIDC) { o.Tenant, o.TenantClaim = "", "t" },
		"two tenants":           func(o *identity.OIDC) { o.TenantClaim, o.Tenants = "t", []string{"acme"} },
		"an empty tenant":       func(o *identity.OIDC) { o.Tenant, o.TenantClaim, o.Tenants = "", "t", []string{""} },
		"no kind":               func(o *identity.OIDC) { o.KindClaim, o.Kinds = "", nil },
		"two kinds":             func(o *identity.OIDC) { o.Kind = identity.KindAgent },
		"any kind":              func(o *identity.OIDC) { o.Kinds = nil },
		"an unknown kind":       func(o *identity.OIDC) { o.Kinds = map[string]identity.Kind{"a": "robot"} },
		"an empty kind":         func(o *identity.OIDC) { o.Kinds = map[string]identity.Kind{"a": ""} },
		"two owners":            func(o *identity.OIDC) { o.Owner = "ada" },
		"an owner of people":    func(o *identity.OIDC) { o.KindClaim, o.Kinds, o.Kind = "", nil, identity.KindPerson },
		"any scope":             func(o *identity.OIDC) { o.Scopes = nil },
		"an unknown scope":      func(o *identity.OIDC) { o.Scopes = []string{"tools:own"} },
		"scopes of no claim":    func(o *identity.OIDC) { o.ScopesClaim = "" },
		"groups of no claim":    func(o *identity.OIDC) { o.GroupsClaim = "" },
		"a group's other scope": func(o *identity.OIDC) { o.GroupScopes["x"] = []string{"*"} },
		"no client":             func(o *identity.OIDC) { o.HTTP = nil },
		"no transport":          func(o *identity.OIDC) { o.HTTP = &http.Client{} },
	} {
		o := p.trusted()
		change(&o)
		all := identity.Options{
			Rules: rules(), Keys: w.keys, Store: w.store, Epoch: w.epoch, Remembered: 1, OIDC: []identity.OIDC{o},
			Names: storetest.Names(), Audience: "test", Now: w.clock.Now, Rand: zeros{},
		}
		if _, err := identity.New(all); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, o := range map[string][2]string{"the same name": {"corp", "https://other.example"}, "the same address": {"other", p.URL}} {
		second := p.trusted()
		second.Name, second.Issuer = o[0], o[1]
		all := identity.Options{
			Rules: rules(), Keys: w.keys, Store: w.store, Epoch: w.epoch, Remembered: 1, OIDC: []identity.OIDC{p.trusted(), second},
			Names: storetest.Names(), Audience: "test", Now: w.clock.Now, Rand: zeros{},
		}
		if _, err := identity.New(all); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if n := p.count("/.well-known/openid-configuration"); n != 0 {
		t.Fatalf("%d fetches before any token", n)
	}
}
