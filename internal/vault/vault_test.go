package vault_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func key(id string, b byte) vault.Key {
	return vault.Key{ID: id, Master: bytes.Repeat([]byte{b}, vault.MasterSize)}
}

func open(t testing.TB, keys ...vault.Key) *vault.Vault {
	t.Helper()
	v, err := vault.New(rand.Reader, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func label() vault.Label {
	return vault.Label{Tenant: "a", Kind: "secret", Name: "openai_api_key", Version: "1"}
}

func TestSeal_opens(t *testing.T) {
	t.Parallel()
	v := open(t, key("k1", 1))
	for _, plain := range [][]byte{nil, {}, []byte("x"), bytes.Repeat([]byte("long "), 100_000)} {
		sealed, err := v.Seal(label(), plain)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(sealed, []byte("cf1.k1.")) {
			t.Fatalf("sealed as %.20s", sealed)
		}
		if len(plain) > 12 && bytes.Contains(sealed, plain[:12]) {
			t.Fatal("the plain text shows")
		}
		got, err := v.Open(label(), sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %q, %v", got, err)
		}
		again, err := v.Seal(label(), plain)
		if err != nil || bytes.Equal(again, sealed) {
			t.Fatal("two seals of one value are equal, or", err)
		}
	}
}

// A value moved to another tenant, kind, name, version or key is not opened.
func TestOpen_moved(t *testing.T) {
	t.Parallel()
	v := open(t, key("k1", 1), key("k2", 2), key("k3", 2))
	sealed, err := v.Seal(label(), []byte("sk-very-secret"))
	if err != nil {
		t.Fatal(err)
	}
	body := string(sealed[bytes.LastIndexByte(sealed, '.')+1:])
	rows := map[string]struct {
		label  vault.Label
		sealed string
	}{
		"tenant":          {vault.Label{Tenant: "b", Kind: "secret", Name: "openai_api_key", Version: "1"}, string(sealed)},
		"kind":            {vault.Label{Tenant: "a", Kind: "answer", Name: "openai_api_key", Version: "1"}, string(sealed)},
		"name":            {vault.Label{Tenant: "a", Kind: "secret", Name: "openai_api_kez", Version: "1"}, string(sealed)},
		"version":         {vault.Label{Tenant: "a", Kind: "secret", Name: "openai_api_key", Version: "2"}, string(sealed)},
		"no version":      {vault.Label{Tenant: "a", Kind: "secret", Name: "openai_api_key"}, string(sealed)},
		"shifted":         {vault.Label{Tenant: "asecret", Kind: "o", Name: "penai_api_key", Version: "1"}, string(sealed)},
		"other key":       {label(), "cf1.k1." + body},
		"same key's twin": {label(), "cf1.k2." + body},
		"unknown key":     {label(), "cf1.k9." + body},
		"no key":          {label(), "cf1.." + body},
		"other envelope":  {label(), "cf2.k3." + body},
		"upper case":      {label(), "CF1.k3." + body},
		"line break":      {label(), "cf1.k3." + body[:8] + "\n" + body[8:]},
		"padded":          {label(), string(sealed) + "="},
		"longer":          {label(), string(sealed) + "A"},
		"shorter":         {label(), string(sealed[:len(sealed)-2])},
		"empty body":      {label(), "cf1.k3."},
		"no body":         {label(), "cf1.k3"},
		"empty":           {label(), ""},
	}
	for name, r := range rows {
		plain, err := v.Open(r.label, []byte(r.sealed))
		if !errors.Is(err, counterfoil.CodeIntegrityFailed) || plain != nil {
			t.Errorf("%s: opened %q, %v", name, plain, err)
		}
		if err != nil && strings.Contains(err.Error(), "sk-") {
			t.Errorf("%s: the error tells: %v", name, err)
		}
	}
	if plain, err := v.Open(label(), sealed); err != nil || string(plain) != "sk-very-secret" {
		t.Fatalf("unmoved: %q, %v", plain, err)
	}
}

func TestOpen_everyBit(t *testing.T) {
	t.Parallel()
	v := open(t, key("k", 1))
	sealed, err := v.Seal(label(), []byte("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		for bit := range 8 {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1 << bit
			if plain, err := v.Open(label(), bad); err == nil || plain != nil {
				t.Fatalf("byte %d bit %d: opened %q", i, bit, plain)
			}
		}
	}
}

func TestNew_rotation(t *testing.T) {
	t.Parallel()
	old := open(t, key("k1", 1))
	sealed, err := old.Seal(label(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	both := open(t, key("k1", 1), key("k2", 2))
	if plain, err := both.Open(label(), sealed); err != nil || string(plain) != "x" {
		t.Fatalf("old value: %q, %v", plain, err)
	}
	newer, err := both.Seal(label(), []byte("x"))
	if err != nil || vault.KeyID(newer) != "k2" || vault.KeyID(sealed) != "k1" {
		t.Fatalf("sealed under %q, %v", vault.KeyID(newer), err)
	}
	if _, err := old.Open(label(), newer); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Fatalf("a vault without the key: %v", err)
	}
}

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	rows := map[string][]vault.Key{
		"none":        nil,
		"no id":       {key("", 1)},
		"dotted id":   {key("a.b", 1)},
		"long id":     {key(strings.Repeat("k", 65), 1)},
		"short key":   {{ID: "k", Master: make([]byte, 31)}},
		"long key":    {{ID: "k", Master: make([]byte, 33)}},
		"zero key":    {key("k", 0)},
		"one id, two": {key("k", 1), key("k", 2)},
	}
	for name, keys := range rows {
		if _, err := vault.New(rand.Reader, keys...); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := vault.New(nil, key("k", 1)); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("no randomness: %v", err)
	}
}

func TestSeal_rejects(t *testing.T) {
	t.Parallel()
	v := open(t, key("k", 1))
	for _, l := range []vault.Label{{}, {Kind: "k", Name: "n"}, {Tenant: "t", Name: "n"}, {Tenant: "t", Kind: "k"},
		{Tenant: "t", Kind: "k", Name: strings.Repeat("n", 5000)}} {
		if sealed, err := v.Seal(l, []byte("x")); !errors.Is(err, counterfoil.CodeInvalidInput) || sealed != nil {
			t.Errorf("%.40v: %v", l, err)
		}
	}
	broken, err := vault.New(iotest.ErrReader(errors.New("no entropy")), key("k", 1))
	if err != nil {
		t.Fatal(err)
	}
	if sealed, err := broken.Seal(label(), []byte("x")); !errors.Is(err, counterfoil.CodeUnavailable) || sealed != nil {
		t.Errorf("no entropy: %v", err)
	}
}

// The envelope is a wire format: this value was sealed once and must open for ever.
func TestOpen_vector(t *testing.T) {
	t.Parallel()
	nonce := bytes.Repeat([]byte{7}, 12)
	v, err := vault.New(bytes.NewReader(nonce), key("k1", 1))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := v.Seal(label(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "cf1.k1.BwcHBwcHBwcHBwcHpaaTyc43iaE0lzWuhR8lbTZJjBMq"
	if string(sealed) != want {
		t.Fatalf("sealed as %s", sealed)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(want, "cf1.k1."))
	if err != nil || !bytes.Equal(raw[:12], nonce) {
		t.Fatal("the nonce is not where it belongs", err)
	}
}

func FuzzOpen(f *testing.F) {
	// Every worker process seals the seed anew: the nonce must be the same for all.
	v, err := vault.New(bytes.NewReader(make([]byte, 12)), key("k", 1))
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := v.Seal(label(), []byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte("cf1.k."))
	f.Add([]byte("cf1.k.AAAA"))
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, err := v.Open(label(), b)
		if err == nil && !bytes.Equal(b, sealed) {
			t.Fatalf("opened %q from %q", plain, b)
		}
		if err != nil && plain != nil {
			t.Fatal("a value with an error")
		}
	})
}
