package identity_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// A retired key verifies until its end, an announced one already, one that is gone never more; remembered tokens too.
func TestKeyRing_Replace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	old := w.token()
	if _, err := w.auth.Token(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	one, two, three := edKey(t, "one"), edKey(t, "two"), edKey(t, "three")
	end := w.clock.Now().Add(30 * time.Second)
	must(t, w.keys.Replace(two, identity.Held{Key: one, Until: end}, identity.Held{Key: three}))
	fresh := w.token()
	announced := edForger("three").sign(t, header(three.ID()), claims())
	for _, text := range []string{old, fresh, announced, old} {
		if _, err := w.auth.Token(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Move(30*time.Second - time.Millisecond)
	if _, err := w.auth.Token(t.Context(), old); err != nil {
		t.Fatalf("before the end: %v", err)
	}
	w.clock.Move(time.Millisecond)
	for range 2 {
		p, err := w.auth.Token(t.Context(), old)
		if got := why(t, p, err); got != "kid" {
			t.Fatalf("at the end: %s", got)
		}
	}
	if _, err := w.auth.Token(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	must(t, w.keys.Replace(three))
	p, err := w.auth.Token(t.Context(), fresh)
	if got := why(t, p, err); got != "kid" {
		t.Fatalf("after it was dropped: %s", got)
	}
}

func TestKeyRing_refused(t *testing.T) {
	t.Parallel()
	one, hs := edKey(t, "one"), func(id string) *identity.Key {
		k, err := identity.NewHS256Key(id, seed("secret"))
		must(t, err)
		return k
	}
	public, err := base64.RawURLEncoding.DecodeString(member(t, one, "x"))
	must(t, err)
	asSecret, err := identity.NewHS256Key("public", append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"), public...))
	must(t, err)
	for name, c := range map[string]struct {
		signs  *identity.Key
		others []identity.Held
	}{
		"none":                   {nil, nil},
		"an empty one":           {&identity.Key{}, nil},
		"none of the others":     {one, []identity.Held{{Key: nil}}},
		"the same twice":         {one, []identity.Held{{Key: edKey(t, "one")}}},
		"the same secret":        {hs("a"), []identity.Held{{Key: hs("b")}}},
		"the same id":            {one, []identity.Held{{Key: named(t, one.ID())}}},
		"a public key as secret": {one, []identity.Held{{Key: asSecret}}},
	} {
		r, err := identity.NewKeyRing(edKey(t, "before"))
		must(t, err)
		before := r.JWKS(time.Time{})
		if err := r.Replace(c.signs, c.others...); err == nil {
			t.Errorf("%s: taken", name)
		}
		if !bytes.Equal(before, r.JWKS(time.Time{})) {
			t.Errorf("%s: the ring has changed", name)
		}
		if r, err := identity.NewKeyRing(c.signs, c.others...); err == nil || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

func named(t *testing.T, id string) *identity.Key {
	t.Helper()
	k, err := identity.NewHS256Key(id, seed("other"))
	must(t, err)
	return k
}

func TestKeys_refused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 31, 1025} {
		if _, err := identity.NewHS256Key("k", make([]byte, n)); err == nil {
			t.Errorf("a secret of %d bytes is taken", n)
		}
	}
	if _, err := identity.NewHS256Key("k", []byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n")); err == nil {
		t.Error("a public key in PEM is taken for a secret")
	}
	for _, id := range []string{"a b", "a/b", "ä", strings.Repeat("x", 129)} {
		if _, err := identity.NewHS256Key(id, seed("secret")); err == nil {
			t.Errorf("the id %q is taken", id)
		}
	}
	for _, n := range []int{0, 31, 33, 64} {
		if _, err := identity.NewEdDSAKey(make([]byte, n)); err == nil {
			t.Errorf("a seed of %d bytes is taken", n)
		}
		if _, err := identity.NewES256Key(bytes.Repeat([]byte{1}, n)); err == nil {
			t.Errorf("a scalar of %d bytes is taken", n)
		}
	}
	for _, scalar := range [][]byte{make([]byte, 32), bytes.Repeat([]byte{0xff}, 32)} {
		if _, err := identity.NewES256Key(scalar); err == nil {
			t.Errorf("the scalar %x is taken", scalar)
		}
	}
}

type jwks struct {
	Keys []map[string]string `json:"keys"`
}

func published(t *testing.T, r *identity.KeyRing, now time.Time) jwks {
	t.Helper()
	var set jwks
	must(t, json.Unmarshal(r.JWKS(now), &set))
	return set
}

func member(t *testing.T, k *identity.Key, name string) string {
	t.Helper()
	r, err := identity.NewKeyRing(k)
	must(t, err)
	return published(t, r, time.Time{}).Keys[0][name]
}

// The document has the public keys that have not ended, and no secret.
func TestKeyRing_JWKS(t *testing.T) {
	t.Parallel()
	secret, err := identity.NewHS256Key("shared", seed("secret"))
	must(t, err)
	es, err := identity.NewES256Key(seed("ec"))
	must(t, err)
	// The key of RFC 8037, appendix A.1, with its thumbprint of A.3.
	d, err := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	must(t, err)
	ed, err := identity.NewEdDSAKey(d)
	must(t, err)
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r, err := identity.NewKeyRing(secret, identity.Held{Key: ed}, identity.Held{Key: es, Until: end})
	must(t, err)
	want := []map[string]string{
		{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"},
		{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "x": member(t, es, "x"), "y": member(t, es, "y"), "kid": es.ID()},
	}
	if d := cmp.Diff(want, published(t, r, end.Add(-time.Millisecond)).Keys); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff(want[:1], published(t, r, end).Keys); d != "" {
		t.Fatal(d)
	}
	if got := string((&identity.KeyRing{}).JWKS(end)); got != `{"keys":[]}` {
		t.Fatal(got)
	}
}

// No way of printing a key shows it.
func TestKey_redacted(t *testing.T) {
	t.Parallel()
	k, err := identity.NewHS256Key("shared", seed("secret"))
	must(t, err)
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&b, verb+"\n", k)
	}
	slog.New(slog.NewTextHandler(&b, nil)).LogAttrs(t.Context(), slog.LevelInfo, "key", slog.Any("key", k))
	if s := b.String(); strings.Contains(s, "secret") || strings.Contains(s, "736563") || strings.Contains(s, "115 101") || !strings.Contains(s, "key shared") {
		t.Fatal(s)
	}
}
