package identity_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// checkAnswer fails unless an answer is a complete principal, or a refusal that blames the request: never a fault of ours.
func checkAnswer(t *testing.T, p *identity.Principal, err error) {
	t.Helper()
	if err == nil {
		if p == nil {
			t.Fatal("neither a principal nor an error")
		}
		if err := p.Check(); err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		if p.ExpiresAt.IsZero() || p.Tenant != "acme" && p.Tenant != "globex" {
			t.Fatalf("%+v", p)
		}
		return
	}
	if p != nil {
		t.Fatalf("%+v with %v", p, err)
	}
	if got := identity.ReasonOf(err); !slices.Contains([]identity.Reason{identity.ReasonMissing, identity.ReasonAmbiguous, identity.ReasonInvalid}, got) {
		t.Fatalf("%s: %v", got, err)
	}
}

// FuzzToken signs whatever header and claims there are with keys of ours: only the reading stands between them and a principal.
func FuzzToken(f *testing.F) {
	w := newWorld(f, nil)
	kid := edKey(f, "one").ID()
	for _, h := range []string{
		header(kid), `{"alg":"none"}`, `{"alg":"EdDSA","kid":"` + kid + `","typ":"at+jwt","crit":["x"]}`, `[]`, `{"alg":1}`, `{"alg":"EdDSA","alg":"none"}`, "{\"\\ud800\":1}", "",
	} {
		f.Add(h, claims())
	}
	for _, c := range []string{
		dated("1772366400", "1772366400", "1772366460"), dated("1e9", "-1", "1e400"), dated(`"1"`, "null", "[1]"), `{}`, `null`, `{"aud":[[[[`, "\xff", "",
		edited(f, claims(), `"scopes":["tools:execute"]`, `"scopes":["tools:*","\u0061dmin"]`), edited(f, claims(), `"jti":"t-1"`, `"jti":"\u0000"`),
	} {
		f.Add(header(kid), c)
	}
	f.Fuzz(func(t *testing.T, h, c string) {
		text := edForger("one").sign(t, h, c)
		p, err := w.auth.Token(t.Context(), text)
		checkAnswer(t, p, err)
		if again, err2 := w.auth.Token(t.Context(), text); (err == nil) != (err2 == nil) || (p == nil) != (again == nil) {
			t.Fatalf("%v, then %v", err, err2)
		}
		if err == nil && (!utf8.ValidString(p.Subject) || strings.Contains(c, `"exp":"`)) {
			t.Fatalf("%+v", p)
		}
	})
}

// FuzzToken_text gives any text.
func FuzzToken_text(f *testing.F) {
	w := newWorld(f, nil)
	good := edForger("one").sign(f, header(edKey(f, "one").ID()), claims())
	for _, s := range []string{good, "", ".", "..", "...", good + ".", strings.Repeat(".", 100), "e30.e30.e30", "a.b.c.d.e", good[:len(good)-1], "\xff.\xff.\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := w.auth.Token(t.Context(), text)
		checkAnswer(t, p, err)
		if err == nil && text != good {
			t.Fatalf("a forged token is taken: %q", text)
		}
	})
}

// FuzzAuthenticate gives any headers and query.
func FuzzAuthenticate(f *testing.F) {
	w := newWorld(f, func(o *identity.Options) { o.APIKeys = apiKeys{key: "cfk_good"} })
	good := edForger("one").sign(f, header(edKey(f, "one").ID()), claims())
	f.Add("Bearer "+good, "", "")
	f.Add("bearer  "+good, "x", "access_token=y")
	f.Add("", "cfk_good", "a=%zz;b&&=&access%5ftoken")
	f.Fuzz(func(t *testing.T, authorization, key, query string) {
		r := request("Authorization", authorization, "X-API-Key", key)
		r.URL.RawQuery = query
		p, err := w.auth.Authenticate(r)
		checkAnswer(t, p, err)
		if err != nil {
			return
		}
		if values, _ := url.ParseQuery(query); key != "" || values.Has("access_token") || !strings.HasSuffix(authorization, good) {
			t.Fatalf("%q, %q, %q: taken", authorization, key, query)
		}
	})
}

// FuzzOIDC signs whatever claims there are with another issuer's key.
func FuzzOIDC(f *testing.F) {
	key := edKey(f, "theirs")
	p := newProvider(f, key)
	w := newWorld(f, trusting(p.trusted()))
	f.Add(p.claims())
	f.Add(edited(f, p.claims(), `"realm_access":{"roles":["reviewers","other"]}`, `"realm_access":[1]`))
	f.Add(edited(f, p.claims(), `"app":{"owner":"u1"}`, `"app":"x","_claim_names":{"a":"b"},"_claim_sources":{"b":{}}`))
	f.Add(edited(f, p.claims(), `"openid tools:execute"`, `["openid","\ttools:*"]`))
	f.Fuzz(func(t *testing.T, c string) {
		q, err := w.auth.Token(t.Context(), edForger("theirs").sign(t, header(key.ID()), c))
		checkAnswer(t, q, err)
		if err == nil && !strings.HasPrefix(q.Subject, "corp/") {
			t.Fatalf("%+v", q)
		}
	})
}
