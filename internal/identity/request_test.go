package identity_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// apiKeys knows one key.
type apiKeys struct {
	key string
	p   *identity.Principal
	err error
}

func (k apiKeys) Principal(_ context.Context, key string) (*identity.Principal, error) {
	if k.err != nil {
		return nil, k.err
	}
	if key != k.key {
		return nil, &identity.Error{Reason: identity.ReasonInvalid, Why: "key"}
	}
	return k.p, nil
}

// Exactly one credential, where credentials are read.
func TestAuthenticate(t *testing.T) {
	t.Parallel()
	service := identity.Principal{Tenant: "acme", Subject: "ci", Kind: identity.KindService, Owner: "ada", Credential: "key-1"}
	w := newWorld(t, func(o *identity.Options) { o.APIKeys = apiKeys{key: "cfk_good", p: &service} })
	good := w.token()
	for _, c := range []struct {
		name    string
		headers []string
		query   string
		who     string // the subject
		want    identity.Reason
	}{
		{"a token", []string{"Authorization", "Bearer " + good}, "", "build", ""},
		{"lower case", []string{"Authorization", "bearer " + good}, "", "build", ""},
		{"upper case", []string{"Authorization", "BEARER " + good}, "", "build", ""},
		{"two spaces", []string{"Authorization", "Bearer  " + good}, "", "build", ""},
		{"a key", []string{"X-API-Key", "cfk_good"}, "", "ci", ""},
		{"a key and an empty header", []string{"X-API-Key", "cfk_good", "Authorization", ""}, "", "ci", ""},
		{"other parameters", []string{"X-API-Key", "cfk_good"}, "after=1&tokens=2&x=%zz&%zz=1", "ci", ""},

		{"nothing", nil, "", "", identity.ReasonMissing},
		{"empty headers", []string{"X-API-Key", "", "Authorization", ""}, "", "", identity.ReasonMissing},
		{"a cookie", []string{"Cookie", "token=" + good}, "", "", identity.ReasonMissing},
		{"in the query", nil, "access_token=" + good, "", identity.ReasonMissing},
		{"a key in the query", nil, "a=b&api_key=cfk_good", "", identity.ReasonMissing},

		{"both", []string{"Authorization", "Bearer " + good, "X-API-Key", "cfk_good"}, "", "", identity.ReasonAmbiguous},
		{"a bad token and a good key", []string{"Authorization", "Bearer x", "X-API-Key", "cfk_good"}, "", "", identity.ReasonAmbiguous},
		{"a good token and a bad key", []string{"Authorization", "Bearer " + good, "X-API-Key", "x"}, "", "", identity.ReasonAmbiguous},
		{"another scheme and a key", []string{"Authorization", "Basic eDp5", "X-API-Key", "cfk_good"}, "", "", identity.ReasonAmbiguous},
		{"the same token twice", []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, "", "", identity.ReasonAmbiguous},
		{"the same key twice", []string{"X-API-Key", "cfk_good", "X-API-Key", "cfk_good"}, "", "", identity.ReasonAmbiguous},
		{"a token and one in the query", []string{"Authorization", "Bearer " + good}, "token=x", "", identity.ReasonAmbiguous},
		{"in other letters", []string{"X-API-Key", "cfk_good"}, "Access_Token=x", "", identity.ReasonAmbiguous},
		{"escaped", []string{"X-API-Key", "cfk_good"}, "acc%65ss_token=x", "", identity.ReasonAmbiguous},
		{"without a value", []string{"X-API-Key", "cfk_good"}, "access_token", "", identity.ReasonAmbiguous},

		{"another scheme", []string{"Authorization", "Basic eDp5"}, "", "", identity.ReasonInvalid},
		{"no scheme", []string{"Authorization", good}, "", "", identity.ReasonInvalid},
		{"a scheme alone", []string{"Authorization", "Bearer"}, "", "", identity.ReasonInvalid},
		{"no token", []string{"Authorization", "Bearer "}, "", "", identity.ReasonInvalid},
		{"a tab", []string{"Authorization", "Bearer\t" + good}, "", "", identity.ReasonInvalid},
		{"two in one", []string{"Authorization", "Bearer " + good + ", Bearer " + good}, "", "", identity.ReasonInvalid},
		{"a key as a token", []string{"Authorization", "Bearer cfk_good"}, "", "", identity.ReasonInvalid},
		{"a token as a key", []string{"X-API-Key", good}, "", "", identity.ReasonInvalid},
		{"a long key", []string{"X-API-Key", strings.Repeat("x", 8192)}, "", "", identity.ReasonInvalid},
	} {
		r := request(c.headers...)
		r.URL.RawQuery = c.query
		p, err := w.auth.Authenticate(r)
		if c.want != "" {
			if got := reason(t, p, err); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			continue
		}
		if err != nil || p.Subject != c.who {
			t.Errorf("%s: %v, %v", c.name, p, err)
		}
	}
}

// Whatever goes wrong with the keys lets nobody in.
func TestAuthenticate_apiKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys identity.APIKeys
		want identity.Reason
	}{
		"none":       {nil, identity.ReasonInvalid},
		"an error":   {apiKeys{err: errors.New("away")}, identity.ReasonUnavailable},
		"nobody":     {apiKeys{key: "k"}, identity.ReasonInvalid},
		"incomplete": {apiKeys{key: "k", p: &identity.Principal{Tenant: "", Subject: "ci", Kind: identity.KindService, Owner: "ada", Credential: "k"}}, identity.ReasonInvalid},
	} {
		w := newWorld(t, func(o *identity.Options) { o.APIKeys = c.keys })
		p, err := w.auth.Authenticate(request("X-API-Key", "k"))
		if got := reason(t, p, err); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A challenge says what a client needs, and nothing of the token.
func TestChallenge(t *testing.T) {
	t.Parallel()
	w, plain := newWorld(t, nil), newWorld(t, func(o *identity.Options) { o.ResourceMetadata = "" })
	const at = `resource_metadata="` + metadata + `"`
	got := map[string]string{
		"missing":     w.auth.Challenge(identity.ReasonMissing, identity.ScopeToolsExecute),
		"invalid":     w.auth.Challenge(identity.ReasonInvalid),
		"ambiguous":   w.auth.Challenge(identity.ReasonAmbiguous),
		"scope":       w.auth.Challenge(identity.ReasonScope, identity.ScopeToolsRead, identity.ScopeToolsExecute),
		"unavailable": w.auth.Challenge(identity.ReasonUnavailable),
		"unknown":     w.auth.Challenge("other"),
		"plain":       plain.auth.Challenge(identity.ReasonMissing),
	}
	want := map[string]string{
		"missing":     `Bearer scope="tools:execute", ` + at,
		"invalid":     `Bearer error="invalid_token", ` + at,
		"ambiguous":   `Bearer error="invalid_request", ` + at,
		"scope":       `Bearer error="insufficient_scope", scope="tools:read tools:execute", ` + at,
		"unavailable": "", "unknown": "", "plain": "Bearer",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// What is refused for its size costs no memory in proportion.
func TestAuthenticate_costsNothing(t *testing.T) { //nolint:paralleltest // it measures what all of the process allocates
	w := newWorld(t, nil)
	jwe := strings.Repeat("A", 1000) + "."
	for name, text := range map[string]string{
		"dots": strings.Repeat(".", 1<<20), "five parts": b64(`{"alg":"dir","enc":"A128GCM","zip":"DEF"}`) + "." + jwe + jwe + jwe + "A",
		"rounds":    b64(`{"alg":"PBES2-HS256+A128KW","enc":"A128GCM","p2c":2147483647,"p2s":"AAAA"}`) + "." + jwe + jwe + jwe + "A",
		"a long id": b64(`{"alg":"EdDSA","typ":"at+jwt","kid":"`+strings.Repeat("x", 700_000)+`"}`) + ".e30.AAAA",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 200 {
			p, err := w.auth.Token(t.Context(), text)
			why(t, p, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes for 200 requests", name, used)
		}
	}
}
