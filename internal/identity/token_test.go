package identity_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// header and claims are those of a good token, at the time that the clocks begin.
func header(kid string) string { return `{"alg":"EdDSA","kid":"` + kid + `","typ":"at+jwt"}` }

func claims() string {
	at := storetest.Start().Unix()
	return fmt.Sprintf(`{"iss":"%s","sub":"build","aud":"%s","iat":%d,"exp":%d,"jti":"t-1","tenant_id":"acme","kind":"agent","owner":"ada","scopes":["tools:execute"]}`,
		issuer, audience, at, at+600)
}

// What is issued is accepted, with each algorithm, and says what was said.
func TestIssuer_Issue(t *testing.T) {
	t.Parallel()
	hs, err := identity.NewHS256Key("", seed("secret"))
	must(t, err)
	es, err := identity.NewES256Key(seed("ec"))
	must(t, err)
	for _, key := range []*identity.Key{hs, es, edKey(t, "ed")} {
		t.Run(string(key.Algorithm()), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *identity.Options) { must(t, o.Keys.Replace(key)) })
			p := w.principal("tools:*", "approvals:read")
			p.Groups = []string{"release"}
			text, issued, err := w.issue.Issue(p, time.Minute)
			must(t, err)
			got, err := w.auth.Token(t.Context(), text)
			must(t, err)
			if d := cmp.Diff(issued, got, cmp.AllowUnexported(identity.Scopes{})); d != "" {
				t.Fatal(d)
			}
			want := p
			want.Credential, want.ExpiresAt = issued.Credential, storetest.Start().Add(time.Minute)
			if d := cmp.Diff(&want, got, cmp.AllowUnexported(identity.Scopes{})); d != "" || len(got.Credential) < 20 {
				t.Fatal(d)
			}
			other, _, err := w.issue.Issue(p, time.Minute)
			must(t, err)
			if other == text {
				t.Fatal("two tokens are the same")
			}
		})
	}
}

func TestIssuer_Issue_refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for name, change := range map[string]func(p *identity.Principal, life *time.Duration){
		"no tenant":   func(p *identity.Principal, _ *time.Duration) { p.Tenant = "" },
		"no subject":  func(p *identity.Principal, _ *time.Duration) { p.Subject = "" },
		"no kind":     func(p *identity.Principal, _ *time.Duration) { p.Kind = "" },
		"no owner":    func(p *identity.Principal, _ *time.Duration) { p.Owner = "" },
		"decides":     func(p *identity.Principal, _ *time.Duration) { p.Scopes = scopes(t, "approvals:decide") },
		"no life":     func(_ *identity.Principal, life *time.Duration) { *life = 0 },
		"negative":    func(_ *identity.Principal, life *time.Duration) { *life = -time.Second },
		"not seconds": func(_ *identity.Principal, life *time.Duration) { *life = 1500 * time.Millisecond },
		"too long":    func(_ *identity.Principal, life *time.Duration) { *life = time.Hour + time.Second },
		"too big": func(p *identity.Principal, _ *time.Duration) {
			p.Groups = []string{strings.Repeat("g", 500), strings.Repeat("h", 512)}
			for range 20 {
				p.Groups = append(p.Groups, p.Groups[0])
			}
		},
		"a bad group":  func(p *identity.Principal, _ *time.Duration) { p.Groups = []string{""} },
		"not its own":  func(p *identity.Principal, _ *time.Duration) { p.Kind = identity.KindPerson },
		"not readable": func(p *identity.Principal, _ *time.Duration) { p.Subject = "a\x00b" },
	} {
		p, life := w.principal(), time.Minute
		if change(&p, &life); true {
			if text, issued, err := w.issue.Issue(p, life); err == nil || text != "" || issued != nil {
				t.Errorf("%s: %q, %v, %v", name, text, issued, err)
			}
		}
	}
}

// Each rule refuses on its own: the token is good but for one thing.
func TestToken_refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	kid := edKey(t, "one").ID()
	sign := edForger("one").sign
	if _, err := w.auth.Token(t.Context(), sign(t, header(kid), claims())); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	at := storetest.Start().Unix()
	sub, exp := `"sub":"build"`, fmt.Sprintf(`"exp":%d`, at+600)
	for _, c := range []struct{ name, part, old, with, why string }{
		{"another type", "header", `"at+jwt"`, `"counterfoil.approval"`, "typ"},
		{"plain JWT", "header", `"at+jwt"`, `"JWT"`, "typ"},
		{"no type", "header", `,"typ":"at+jwt"`, ``, "header"},
		{"an empty type", "header", `"at+jwt"`, `""`, "header"},
		{"no kid", "header", `"kid":"` + kid + `",`, ``, "header"},
		{"no algorithm", "header", `"alg":"EdDSA",`, ``, "header"},
		{"another algorithm", "header", `"EdDSA"`, `"ES256"`, "alg"},
		{"the same in other letters", "header", `"EdDSA"`, `"eddsa"`, "alg"},
		{"a path as kid", "header", kid, `../../../dev/null`, "kid"},
		{"a query as kid", "header", kid, `x' UNION SELECT 'k`, "kid"},
		{"a number as kid", "header", `"` + kid + `"`, `1`, "header"},
		{"crit", "header", `{`, `{"crit":["exp"],`, "header"},
		{"crit of nothing known", "header", `{`, `{"crit":["x"],"x":1,`, "header"},
		{"b64", "header", `{`, `{"b64":false,`, "header"},
		{"jwk", "header", `{`, `{"jwk":{"kty":"OKP"},`, "header"},
		{"jku", "header", `{`, `{"jku":"http://127.0.0.1:1/",`, "header"},
		{"x5u", "header", `{`, `{"x5u":"http://127.0.0.1:1/",`, "header"},
		{"x5c", "header", `{`, `{"x5c":[],`, "header"},
		{"zip", "header", `{`, `{"zip":"DEF",`, "header"},
		{"p2c", "header", `{`, `{"p2c":2147483647,`, "header"},
		{"cty", "header", `{`, `{"cty":"JWT",`, "header"},
		{"in other letters", "header", `"alg"`, `"Alg"`, "header"},
		{"twice in the header", "header", `{`, `{"alg":"EdDSA",`, "json"},
		{"twice by an escape", "header", `{`, `{"\u0061lg":"none",`, "json"},
		{"behind the header", "header", `}`, `}{}`, "json"},
		{"a list as header", "header", `{`, `[{`, "json"},
		{"bad UTF-8 in the header", "header", `"at+jwt"`, "\"at+jwt\xff\"", "json"},

		{"twice in the claims", "claims", sub, sub + `,"sub":"root"`, "json"},
		{"twice further inside", "claims", sub, sub + `,"x":{"a":1,"a":2}`, "json"},
		{"a lone surrogate", "claims", sub, `"sub":"\ud800"`, "json"},
		{"bad UTF-8", "claims", sub, "\"sub\":\"\xff\"", "json"},
		{"behind the claims", "claims", `]}`, `]} 1`, "json"},
		{"NaN", "claims", exp, `"exp":NaN`, "json"},
		{"too many members", "claims", sub, sub + manyMembers(200), "json"},
		{"no issuer", "claims", `"iss":"` + issuer + `",`, ``, "issuer"},
		{"another issuer", "claims", `"iss":"` + issuer, `"iss":"https://evil.example`, "issuer"},
		{"a slash more", "claims", `"iss":"` + issuer, `"iss":"` + issuer + `/`, "issuer"},
		{"no audience", "claims", `"aud":"` + audience + `",`, ``, "audience"},
		{"another audience", "claims", `"aud":"` + audience, `"aud":"https://other.example`, "audience"},
		{"an empty audience", "claims", `"aud":"` + audience + `"`, `"aud":""`, "audience"},
		{"audiences, none ours", "claims", `"aud":"` + audience + `"`, `"aud":["a","b"]`, "audience"},
		{"no audiences", "claims", `"aud":"` + audience + `"`, `"aud":[]`, "audience"},
		{"an object as audience", "claims", `"aud":"` + audience + `"`, `"aud":{"` + audience + `":1}`, "audience"},
		{"ours and a number", "claims", `"aud":"` + audience + `"`, `"aud":["` + audience + `",1]`, "audience"},
		{"no tenant", "claims", `"tenant_id":"acme",`, ``, "claim"},
		{"an empty tenant", "claims", `"tenant_id":"acme"`, `"tenant_id":""`, "claim"},
		{"a null tenant", "claims", `"tenant_id":"acme"`, `"tenant_id":null`, "claim"},
		{"tenants", "claims", `"tenant_id":"acme"`, `"tenant_id":["acme"]`, "claim"},
		{"a tenant that isn't there", "claims", `"tenant_id":"acme"`, `"tenant_id":"initech"`, "tenant"},
		{"a tenant with a control character", "claims", `"tenant_id":"acme"`, `"tenant_id":"ac\u0000me"`, "principal"},
		{"no subject", "claims", sub + `,`, ``, "claim"},
		{"an empty subject", "claims", sub, `"sub":""`, "claim"},
		{"a number as subject", "claims", sub, `"sub":7`, "claim"},
		{"a subject with a space behind", "claims", sub, `"sub":"build "`, "principal"},
		{"an invisible subject", "claims", sub, `"sub":"bu\u200bild"`, "principal"},
		{"no id", "claims", `"jti":"t-1",`, ``, "claim"},
		{"an id of another issuer's form", "claims", `"jti":"t-1"`, `"jti":"corp/1"`, "claim"},
		{"a long id", "claims", `"jti":"t-1"`, `"jti":"` + strings.Repeat("x", 129) + `"`, "claim"},
		{"no kind", "claims", `"kind":"agent",`, ``, "kind"},
		{"another kind", "claims", `"kind":"agent"`, `"kind":"robot"`, "principal"},
		{"a kind in other letters", "claims", `"kind":"agent"`, `"kind":"Agent"`, "principal"},
		{"no owner", "claims", `"owner":"ada",`, ``, "owner"},
		{"a number as owner", "claims", `"owner":"ada"`, `"owner":1`, "owner"},
		{"a person of another", "claims", `"kind":"agent"`, `"kind":"person"`, "principal"},
		{"no scopes", "claims", `,"scopes":["tools:execute"]`, ``, "scope"},
		{"scopes in one text", "claims", `["tools:execute"]`, `"tools:execute"`, "scope"},
		{"null scopes", "claims", `["tools:execute"]`, `null`, "scope"},
		{"a number as scope", "claims", `["tools:execute"]`, `["tools:execute",1]`, "scope"},
		{"an unknown scope", "claims", `["tools:execute"]`, `["tools:execute","tools:own"]`, "scope"},
		{"everything", "claims", `["tools:execute"]`, `["*"]`, "scope"},
		{"a pattern", "claims", `["tools:execute"]`, `["a*"]`, "scope"},
		{"an agent that decides", "claims", `["tools:execute"]`, `["approvals:decide"]`, "principal"},
		{"an agent that decides by noun", "claims", `["tools:execute"]`, `["approvals:*"]`, "principal"},
		{"an agent that administers", "claims", `["tools:execute"]`, `["admin"]`, "principal"},
		{"an agent that administers all", "claims", `["tools:execute"]`, `["system:admin"]`, "principal"},
		{"too many scopes", "claims", `["tools:execute"]`, `["tools:read"` + strings.Repeat(`,"tools:read"`, 256) + `]`, "scope"},
		{"groups in one text", "claims", sub, sub + `,"groups":"release"`, "group"},
	} {
		h, b := header(kid), claims()
		if c.part == "header" {
			h = edited(t, h, c.old, c.with)
		} else {
			b = edited(t, b, c.old, c.with)
		}
		p, err := w.auth.Token(t.Context(), sign(t, h, b))
		if got := why(t, p, err); got != c.why {
			t.Errorf("%s: refused for %q, want %q", c.name, got, c.why)
		}
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":0`, i)
	}
	return b.String()
}

// Other signatures than the key's own are refused, and so is every text that isn't three parts in their one spelling.
func TestToken_forged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	kid, public := edKey(t, "one").ID(), edForger("one").key.(ed25519.PrivateKey).Public().(ed25519.PublicKey) //nolint:errcheck // it is one
	spki, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	good := edForger("one").sign(t, header(kid), claims())
	signed, sig := good[:strings.LastIndex(good, ".")], good[strings.LastIndex(good, ".")+1:]
	hs := func(key []byte) string {
		return forger{jwt.SigningMethodHS256, key}.sign(t, edited(t, header(kid), `"EdDSA"`, `"HS256"`), claims())
	}
	none := func(alg string) string {
		return b64(edited(t, header(kid), `"EdDSA"`, `"`+alg+`"`)) + "." + b64(claims())
	}
	stray := func(s string) string { // the same bytes in another spelling: stray bits at the end
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		i := strings.IndexByte(alphabet, s[len(s)-1])
		return s[:len(s)-1] + string(alphabet[i^1])
	}
	for name, c := range map[string]struct{ text, why string }{
		"another key":               {edForger("two").sign(t, header(kid), claims()), "signature"},
		"HMAC with the public key":  {hs(public), "alg"},
		"HMAC with its PEM":         {hs(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})), "alg"},
		"HMAC with nothing":         {hs([]byte{}), "alg"},
		"ECDSA":                     {ecForger(t, "ec").sign(t, edited(t, header(kid), `"EdDSA"`, `"ES256"`), claims()), "alg"},
		"none":                      {none("none") + "." + sig, "alg"},
		"nOnE":                      {none("nOnE") + "." + sig, "alg"},
		"none without a signature":  {none("none") + ".", "form"},
		"an empty third part":       {signed + ".", "form"},
		"two parts":                 {signed, "form"},
		"one part":                  {b64(header(kid)), "form"},
		"four parts":                {good + ".x", "form"},
		"five parts":                {"a.b.c.d.e", "form"},
		"an empty second part":      {b64(header(kid)) + ".." + sig, "form"},
		"nothing":                   {"", "form"},
		"dots":                      {"..", "form"},
		"another payload":           {b64(header(kid)) + "." + b64(edited(t, claims(), "build", "root")) + "." + sig, "signature"},
		"a short signature":         {signed + "." + sig[:40], "signature"},
		"padding":                   {good + "==", "form"},
		"stray bits":                {signed + "." + stray(sig), "form"},
		"stray bits in the payload": {b64(header(kid)) + "." + stray(b64(claims()+strings.Repeat(" ", 3-(len(claims())+2)%3))) + "." + sig, "form"}, // one byte over a multiple of three
		"a line break":              {signed + "." + sig[:40] + "\n" + sig[40:], "form"},
		"a space":                   {" " + good, "form"},
		"the other alphabet":        {signed + "." + base64.RawStdEncoding.EncodeToString([]byte{0xff, 0xfe, 0xfd}), "form"},
		"too long":                  {good + strings.Repeat("A", 8<<10), "size"},
		"a long header":             {b64(edited(t, header(kid), `{`, `{"x5t":"`+strings.Repeat("x", 1000)+`",`)) + "." + b64(claims()) + "." + sig, "form"},
		"an API key":                {"cfk_" + strings.Repeat("A", 43), "form"},
		"deep":                      {edForger("one").sign(t, header(kid), strings.Repeat(`[`, 4000)), "json"},
		"deep inside":               {edForger("one").sign(t, header(kid), `{"a":`+strings.Repeat(`[`, 4000)), "json"},
		"the payload as JSON":       {header(kid) + "." + claims() + "." + sig, "form"},
	} {
		p, err := w.auth.Token(t.Context(), c.text)
		if got := why(t, p, err); got != c.why {
			t.Errorf("%s: refused for %q, want %q", name, got, c.why)
		}
	}
	if _, err := w.auth.Token(t.Context(), good); err != nil {
		t.Fatalf("the good one: %v", err)
	}
}

// A key that the header brings or names is not looked at, let alone fetched.
func TestToken_fetchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var seen atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer s.Close()
	kid := edKey(t, "one").ID()
	for _, member := range []string{
		`"jku":"` + s.URL + `"`, `"x5u":"` + s.URL + `"`,
		`"jwk":{"kty":"OKP","crv":"Ed25519","x":"` + b64(string(seed("two"))) + `"}`,
	} {
		for _, kid := range []string{kid, s.URL} {
			p, err := w.auth.Token(t.Context(), edForger("two").sign(t, edited(t, header(kid), `{`, `{`+member+`,`), claims()))
			why(t, p, err)
		}
	}
	p, err := w.auth.Token(t.Context(), edForger("two").sign(t, header(kid), edited(t, claims(), `"iss":"`+issuer, `"iss":"`+s.URL)))
	if why(t, p, err); seen.Load() != 0 {
		t.Fatalf("%d fetches", seen.Load())
	}
}
