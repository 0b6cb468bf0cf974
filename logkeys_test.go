package counterfoil_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/mod/sumdb/note"

	"github.com/counterfoil/counterfoil"
)

// vkeyOf is a verifier key of the specification, without any code of ours.
func vkeyOf(name string, alg byte, key []byte) string {
	raw := append([]byte{alg}, key...)
	sum := sha256.Sum256(append([]byte(name+"\n"), raw...))
	return name + "+" + hex.EncodeToString(sum[:4]) + "+" + base64.StdEncoding.EncodeToString(raw)
}

func TestVerifierKey(t *testing.T) {
	t.Parallel()
	origin := originOf(auditor, "acme")
	log, err := counterfoil.VerifierKey(checkpointKey(t).Public(), origin)
	noError(t, err)
	if log != vkeyOf(origin, 1, rawPublic(t, checkpointKey(t).Public())) {
		t.Errorf("got %s", log)
	}
	_, err = note.NewVerifier(log)
	noError(t, err)
	witness, err := counterfoil.VerifierKey(witnessKey(t).Public(), watcher)
	noError(t, err)
	theirs, err := torchwood.NewCosignatureSigner(watcher, ed25519.NewKeyFromSeed(seedOf(counterfoil.RoleWitness, watcher)))
	noError(t, err)
	if witness != theirs.Verifier().String() {
		t.Errorf("got %s", witness)
	}
	for name, c := range map[string]struct {
		key  counterfoil.PublicKey
		name string
	}{
		"another witness's name": {witnessKey(t).Public(), origin}, "no log's name": {checkpointKey(t).Public(), "my log"},
		"a key of receipts": {receiptKey(t).Public(), origin}, "no key": {counterfoil.PublicKey{}, origin},
	} {
		if got, err := counterfoil.VerifierKey(c.key, c.name); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || got != "" {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

func TestNewWitnessKey(t *testing.T) {
	t.Parallel()
	want := witnessKey(t).Public()
	raw := rawPublic(t, want)
	vkey := vkeyOf(watcher, 4, raw)
	p := counterfoil.KeyParams{Custody: want.Custody, Tenants: want.Tenants, NotBefore: want.NotBefore}
	for _, owner := range []string{"", watcher} {
		p.Owner = owner
		got, err := counterfoil.NewWitnessKey(vkey, p)
		noError(t, err)
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(got)); d != "" {
			t.Error(d)
		}
		p.Role = counterfoil.RoleWitness
	}
	name, rest, _ := strings.Cut(vkey, "+")
	id, key, _ := strings.Cut(rest, "+")
	for what, text := range map[string]string{
		"nothing": "", "no key": name + "+" + id, "no base64": name + "+" + id + "+!", "a log's key": vkeyOf(watcher, 1, raw),
		"a short key": vkeyOf(watcher, 4, raw[:31]), "another id": name + "+00000000+" + key, "an id in capitals": name + "+" + strings.ToUpper(id) + "+" + key,
		"no name": vkeyOf("", 4, raw), "a name with a space": vkeyOf("my witness", 4, raw), "more": vkey + "+", "stray bits": vkey[:len(vkey)-1] + "B",
		"a point of small order": vkeyOf(watcher, 4, make([]byte, 32)), "another name": vkeyOf("other", 4, raw),
	} {
		if got, err := counterfoil.NewWitnessKey(text, p); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || got.ID != "" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	p.Role = counterfoil.RoleCheckpoint
	_, err := counterfoil.NewWitnessKey(vkey, p)
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

// edwards is a public key with the y and the sign given.
func edwards(y *big.Int, sign byte) []byte {
	raw := y.FillBytes(make([]byte, 32))
	slices.Reverse(raw)
	raw[31] |= sign << 7
	return raw
}

// weakKeys are spellings of public keys of Ed25519 that must be refused: the points of small order, which fit signatures that
// nobody made, other spellings of points, and what is no point at all.
func weakKeys() map[string][]byte {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 16); return n }
	eighth := number("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7")
	out := map[string][]byte{
		"no point of the curve": edwards(big.NewInt(2), 0), "no point, negative": edwards(big.NewInt(2), 1),
		"a point in another spelling": edwards(new(big.Int).Add(p, big.NewInt(3)), 0),
		"the largest number":          bytes.Repeat([]byte{0xff}, 32),
	}
	for name, y := range map[string]*big.Int{
		"order 1": big.NewInt(1), "order 2": new(big.Int).Sub(p, big.NewInt(1)), "order 4": big.NewInt(0), "order 8": eighth,
		"order 8, the other": new(big.Int).Sub(p, eighth), "order 4 in another spelling": p, "order 1 in another spelling": new(big.Int).Add(p, big.NewInt(1)),
	} {
		out["a point of "+name], out["a point of "+name+", negative"] = edwards(y, 0), edwards(y, 1)
	}
	return out
}

// thumbprintOf is RFC 7638 for a key of Ed25519, without any code of ours.
func thumbprintOf(x string) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func ed25519SPKI(raw []byte) []byte {
	return append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"), raw...)
}

func TestNewPublicKey_weak(t *testing.T) {
	t.Parallel()
	for name, raw := range weakKeys() {
		if k, err := counterfoil.NewPublicKey(ed25519SPKI(raw), keyParams()); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || k.ID != "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// What y+3 spells is a point in its own spelling.
	_, err := counterfoil.NewPublicKey(ed25519SPKI(edwards(big.NewInt(3), 0)), keyParams())
	noError(t, err)
	for i := range 100 {
		seed := sha256.Sum256([]byte{byte(i)})
		_, err := counterfoil.NewPublicKey(ed25519SPKI(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)), keyParams()) //nolint:errcheck // it is one
		noError(t, err)
	}
}
