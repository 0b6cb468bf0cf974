package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/counterfoil/counterfoil"
)

// es256Lab is the lab with P-256 keys in every role.
func es256Lab(t testing.TB) *lab {
	t.Helper()
	l := newLab(t)
	approver, ledger, receipt := es256Key(t, "approver", reviewer), es256Key(t, "ledger", "gateway"), es256Key(t, "receipt", "gateway")
	l.keyed(ledger)
	l.x.Approval, l.x.Signer = reparsed(t, mustApprove(t, l.x.DryRun, request(), approver)), receipt
	l.x.Keys = mustRing(t, approver, ledger, receipt)
	return l
}

func TestES256_everyRole(t *testing.T) {
	t.Parallel()
	l := es256Lab(t)
	b := l.bundle().Encode()
	rep, err := counterfoil.VerifyBundle(b, l.x.Keys, tomorrow())
	noError(t, err)
	if k := rep.ApprovalKeys[0]; k.Algorithm != counterfoil.AlgorithmES256 || k.Owner != reviewer {
		t.Errorf("approved with %s of %s", k.Algorithm, k.Owner)
	}
	wantCode(t, drop2(counterfoil.VerifyBundle(b, allKeys(t), tomorrow())), counterfoil.CodeSignatureInvalid)
	again := es256Lab(t).bundle().Encode()
	if !bytes.Equal(b, again) {
		t.Error("signatures depend on chance")
	}
}

func drop2[T any](_ T, err error) error { return err }

// The thumbprint and the key of RFC 7515, appendix A.3, with RFC 7638 worked out without code of ours.
func TestES256_thumbprintAndSPKI(t *testing.T) {
	t.Parallel()
	const x, y = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
	d, err := base64.RawURLEncoding.DecodeString("jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI")
	noError(t, err)
	k, err := counterfoil.NewES256PrivateKey(d, keyParams())
	noError(t, err)
	sum := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`))
	if want := base64.RawURLEncoding.EncodeToString(sum[:]); string(k.Public().ID) != want {
		t.Errorf("got %s, want %s", k.Public().ID, want)
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
	noError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	noError(t, err)
	public, err := counterfoil.NewPublicKey(spki, keyParams())
	noError(t, err)
	if diff := cmp.Diff(k.Public(), public, cmpopts.IgnoreUnexported(public)); diff != "" {
		t.Error(diff)
	}
	want := doc{"keys": list{doc{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": string(public.ID), "x": x, "y": y, "role": "approver",
		"owner": reviewer, "custody": "holder", "tenants": list{"a", "b"}, "notBefore": stamp(now()), "notAfter": stamp(expires()),
	}}}
	if diff := cmp.Diff(any(want), decode(mustPublicRing(t, public).JSON())); diff != "" {
		t.Error(diff)
	}
	edwards, err := base64.RawURLEncoding.DecodeString(rfcPublic)
	noError(t, err)
	old, err := counterfoil.NewPublicKey(append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"), edwards...), keyParams())
	noError(t, err)
	if old.ID != rfcThumbprint || old.Algorithm != counterfoil.AlgorithmEdDSA {
		t.Errorf("got %s %s", old.Algorithm, old.ID)
	}
	bad := slices.Clone(spki)
	bad[len(bad)-1] ^= 1
	compressed := slices.Concat(spki[:26], []byte{2}, spki[27:59])
	other, err := ecdsa.ParseRawPrivateKey(elliptic.P384(), bytes.Repeat([]byte{1}, 48))
	noError(t, err)
	p384, err := x509.MarshalPKIXPublicKey(&other.PublicKey)
	noError(t, err)
	for name, b := range map[string][]byte{
		"nothing": nil, "not on the curve": bad, "compressed": compressed, "one byte more": append(slices.Clone(spki), 0),
		"one byte less": spki[:len(spki)-1], "another curve": p384, "a bare point": spki[26:], "a point at infinity": append(slices.Clone(spki[:26]), make([]byte, 65)...),
	} {
		if err := drop2(counterfoil.NewPublicKey(b, keyParams())); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	p := keyParams()
	p.Role = ""
	for name, scalar := range map[string][]byte{
		"nothing": nil, "zero": make([]byte, 32), "short": make([]byte, 31), "the order": elliptic.P256().Params().N.Bytes(), "too long": bytes.Repeat([]byte{1}, 33),
	} {
		if err := drop2(counterfoil.NewES256PrivateKey(scalar, keyParams())); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	wantCode(t, drop2(counterfoil.NewES256PrivateKey(d, p)), counterfoil.CodeInvalidInput)
}

func TestParseKeyRing_rejectsES256(t *testing.T) {
	t.Parallel()
	good := func() doc { return asDoc(decode(mustPublicRing(t, revokedPasskey(t)).JSON())) }
	noError(t, drop(counterfoil.ParseKeyRing)(canonical(good())))
	for name, f := range map[string]func(k doc){
		"an algorithm of the other curve": func(k doc) { k["alg"] = "EdDSA" },
		"a type of the other curve":       func(k doc) { k["kty"] = "OKP" },
		"another curve":                   func(k doc) { k["crv"] = "P-384" },
		"a private key":                   func(k doc) { k["d"] = k["x"] },
		"no y":                            func(k doc) { delete(k, "y") },
		"a point beside the curve":        func(k doc) { k["y"] = k["x"] },
		"a short x":                       func(k doc) { k["x"] = asString(k["x"])[:42] },
		"x and y exchanged":               func(k doc) { k["x"], k["y"] = k["y"], k["x"] },
		"another id":                      func(k doc) { k["kid"] = rfcThumbprint },
		"a passkey that is a receipt key": func(k doc) { k["role"] = "receipt" },
		"a passkey of the gateway":        func(k doc) { k["custody"] = "gateway" },
		"no origin":                       func(k doc) { asDoc(k["passkey"])["origins"] = list{} },
		"an origin twice":                 func(k doc) { asDoc(k["passkey"])["origins"] = list{rpOrigin, rpOrigin} },
		"an origin of another domain":     func(k doc) { asDoc(k["passkey"])["origins"] = list{"https://example.test"} },
		"no relying party":                func(k doc) { delete(asDoc(k["passkey"]), "rpId") },
		"an unknown reason":               func(k doc) { asDoc(k["revoked"])["why"] = "lost" },
		"a revocation without time":       func(k doc) { delete(asDoc(k["revoked"]), "at") },
		"an Ed25519 key with y": func(k doc) {
			k["alg"], k["kty"], k["crv"] = "EdDSA", "OKP", "Ed25519"
		},
	} {
		d := good()
		f(asDoc(inside(d, "keys", 0)))
		if err := drop(counterfoil.ParseKeyRing)(canonical(d)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d := asDoc(decode(mustRing(t, rfcKey(t, keyParams())).JSON()))
	asDoc(inside(d, "keys", 0))["passkey"] = doc{"rpId": rpID, "origins": list{rpOrigin}}
	wantCode(t, drop(counterfoil.ParseKeyRing)(canonical(d)), counterfoil.CodeInvalidInput)
	d = asDoc(decode(mustRing(t, rfcKey(t, keyParams())).JSON()))
	asDoc(inside(d, "keys", 0))["y"] = rfcPublic
	wantCode(t, drop(counterfoil.ParseKeyRing)(canonical(d)), counterfoil.CodeInvalidInput)
}

func TestNewKeyRing_rejectsWhatWasSetWrong(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*counterfoil.PublicKey){
		"another algorithm":   func(k *counterfoil.PublicKey) { k.Algorithm = counterfoil.AlgorithmEdDSA },
		"no reason":           func(k *counterfoil.PublicKey) { k.Revoked.Why = "" },
		"no time":             func(k *counterfoil.PublicKey) { k.Revoked.At = k.Revoked.At.AddDate(-9999, 0, 0) },
		"no relying party":    func(k *counterfoil.PublicKey) { k.Passkey.RPID = "" },
		"an upper-case party": func(k *counterfoil.PublicKey) { k.Passkey.RPID = "Gate.example.test" },
		"a party with a port": func(k *counterfoil.PublicKey) { k.Passkey.RPID = rpID + ":1" },
		"too many origins":    func(k *counterfoil.PublicKey) { k.Passkey.Origins = make([]string, 17) },
		"an origin twice":     func(k *counterfoil.PublicKey) { k.Passkey.Origins = []string{rpOrigin, rpOrigin} },
		"no origin":           func(k *counterfoil.PublicKey) { k.Passkey.Origins = nil },
	} {
		k := revokedPasskey(t)
		f(&k)
		if err := drop2(counterfoil.NewKeyRing(k)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for origin, ok := range map[string]bool{
		rpOrigin: true, rpOrigin + ":443": false, rpOrigin + ":8443": true, "https://a-b." + rpID: true, "http://" + rpID: false, rpOrigin + "/": false,
		"https://x" + rpID: false, "https://." + rpID: false, "https://-a." + rpID: false, "https://a_b." + rpID: false, rpOrigin + ":": false, rpOrigin + ":0": false,
		rpOrigin + ":080": false, rpOrigin + ":65536": false, rpOrigin + ":1:2": false, "https://user@" + rpID: false, rpID: false,
		"HTTPS://" + rpID: false, "null": false, "": false, "https://" + rpID + ".": false,
	} {
		k := revokedPasskey(t)
		k.Passkey.Origins = []string{origin}
		if err := drop2(counterfoil.NewKeyRing(k)); (err == nil) != ok {
			t.Errorf("%q: got %v", origin, err)
		}
	}
	k := revokedPasskey(t)
	k.Passkey = &counterfoil.Passkey{RPID: "localhost", Origins: []string{"http://localhost:8080", "https://localhost"}}
	ring := mustPublicRing(t, k)
	k.Passkey.Origins[0], k.Revoked.Why = "https://evil.test", counterfoil.RevokedCompromised
	ring.Keys()[0].Passkey.RPID = "evil.test"
	if got := ring.Keys()[0]; got.Passkey.Origins[0] != "http://localhost:8080" || got.Passkey.RPID != "localhost" || got.Revoked.Why != counterfoil.RevokedSuperseded {
		t.Errorf("the ring can be changed: %+v", got.Passkey)
	}
}

func derOf(r, s *big.Int) []byte {
	b, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		panic(err)
	}
	return b
}

func number(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 16)
	if !ok {
		panic(s)
	}
	return n
}

func TestFixedSignature(t *testing.T) {
	t.Parallel()
	// RFC 6979, appendix A.2.5, SHA-256 of "sample". Its s lies in the upper half.
	r, s := number("EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"), number("F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8")
	order := elliptic.P256().Params().N
	low := new(big.Int).Sub(order, s)
	want := hex.EncodeToString(r.Bytes()) + hex.EncodeToString(low.FillBytes(make([]byte, 32)))
	for _, der := range [][]byte{derOf(r, s), derOf(r, low)} {
		got, err := counterfoil.FixedSignature(der)
		noError(t, err)
		if hex.EncodeToString(got) != want {
			t.Errorf("got %x, want %s", got, want)
		}
	}
	one := big.NewInt(1)
	got, err := counterfoil.FixedSignature(derOf(one, one))
	noError(t, err)
	if len(got) != 64 || got[31] != 1 || got[63] != 1 {
		t.Errorf("got %x", got)
	}
	good := derOf(r, s)
	long := slices.Concat([]byte{good[0], 0x81}, good[1:])
	for name, der := range map[string][]byte{
		"nothing": nil, "r is zero": derOf(big.NewInt(0), s), "s is zero": derOf(r, big.NewInt(0)), "r is negative": derOf(big.NewInt(-1), s),
		"r is the order": derOf(order, s), "s is the order": derOf(r, order), "a byte more": append(slices.Clone(good), 0), "cut": good[:len(good)-1],
		"a long length": long, "a leading zero": {0x30, 7, 2, 2, 0, 1, 2, 1, 1}, "three numbers": {0x30, 9, 2, 1, 1, 2, 1, 1, 2, 1, 1}, "one number": {0x30, 3, 2, 1, 1}, "a fixed one": make([]byte, 64),
	} {
		if err := drop2(counterfoil.FixedSignature(der)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// One message and key have one signature that verifies: the other half, DER and other lengths are refused.
func TestES256_oneSpelling(t *testing.T) {
	t.Parallel()
	key := es256Key(t, "approver", reviewer)
	l := newLab(t)
	a := mustApprove(t, l.x.DryRun, request(), key)
	sig, err := base64.StdEncoding.DecodeString(asString(inside(decode(a.Envelope()), "signatures", 0, "sig")))
	noError(t, err)
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	high := new(big.Int).Sub(elliptic.P256().Params().N, s)
	for name, c := range map[string]struct {
		sig []byte
		ok  bool
	}{
		"as it was made":  {sig, true},
		"the upper half":  {slices.Concat(sig[:32], high.FillBytes(make([]byte, 32))), false},
		"DER":             {derOf(r, s), false},
		"a byte more":     {append(slices.Clone(sig), 0), false},
		"zeros":           {make([]byte, 64), false},
		"r is the order":  {slices.Concat(elliptic.P256().Params().N.Bytes(), sig[32:]), false},
		"one of Ed25519":  {bytes.Repeat([]byte{1}, 64), false},
		"another message": {slices.Concat(sig[32:], sig[:32]), false},
	} {
		env := asDoc(decode(a.Envelope()))
		asDoc(inside(env, "signatures", 0))["sig"] = base64.StdEncoding.EncodeToString(c.sig)
		l := newLab(t)
		l.x.Approval, err = counterfoil.ParseApproval(canonical(env))
		noError(t, err)
		l.x.Keys = mustRing(t, key, ledgerKey(t), receiptKey(t))
		if !c.ok {
			l.refused(counterfoil.CodeSignatureInvalid)
			continue
		}
		if _, _, err := l.execute(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = key.Sign(context.Background(), counterfoil.ForgeMessage(counterfoil.RoleReceipt, "x", nil))
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
}
