package counterfoil_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

const (
	colleague  = "second@example.test"
	rpID       = "gate.example.test"
	rpOrigin   = "https://gate.example.test"
	typeGet    = "webauthn.get"
	flagsUsual = 0x1d // present, verified, eligible, backed up
)

// scalarOf is a private key that everybody knows.
func scalarOf(name string) []byte {
	sum := sha256.Sum256([]byte("scalar\n" + name))
	return sum[:]
}

func es256Params(role counterfoil.Role, owner string) counterfoil.KeyParams {
	return counterfoil.KeyParams{
		Role: role, Owner: owner, Custody: counterfoil.CustodyHolder, Tenants: []string{"acme"},
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func es256Key(t testing.TB, role counterfoil.Role, owner string) *counterfoil.PrivateKey {
	t.Helper()
	k, err := counterfoil.NewES256PrivateKey(scalarOf(string(role)+owner), es256Params(role, owner))
	noError(t, err)
	return k
}

func mustPublicRing(t testing.TB, keys ...counterfoil.PublicKey) *counterfoil.KeyRing {
	t.Helper()
	r, err := counterfoil.NewKeyRing(keys...)
	noError(t, err)
	return r
}

// An authenticator is a security key in software, and the browser in front of it.
type authenticator struct {
	key    *ecdsa.PrivateKey
	public counterfoil.PublicKey
}

func newAuthenticator(t testing.TB, owner string) *authenticator {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalarOf("passkey of "+owner))
	noError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	noError(t, err)
	public, err := counterfoil.NewPublicKey(spki, es256Params(counterfoil.RoleApprover, owner))
	noError(t, err)
	public.Passkey = &counterfoil.Passkey{RPID: rpID, Origins: []string{rpOrigin, "https://admin.gate.example.test:8443"}}
	return &authenticator{key, public}
}

// ring has the passkey and the keys of the gateway.
func (a *authenticator) ring(t testing.TB) *counterfoil.KeyRing {
	t.Helper()
	return mustPublicRing(t, a.public, policyKey(t).Public(), ledgerKey(t).Public(), receiptKey(t).Public())
}

// A ceremony is what one assertion is made of. Tests change one thing in it.
type ceremony struct {
	rpID   string
	flags  byte
	more   []byte // behind the counter
	client doc
	raw    []byte // in place of client
	der    func(der []byte) []byte
}

// assert makes an assertion over the challenge.
func (a *authenticator) assert(t testing.TB, challenge [32]byte, changes ...func(*ceremony)) counterfoil.Assertion {
	t.Helper()
	c := ceremony{rpID: rpID, flags: flagsUsual, client: doc{
		"type": typeGet, "challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "origin": rpOrigin, "crossOrigin": false,
	}}
	for _, change := range changes {
		change(&c)
	}
	party := sha256.Sum256([]byte(c.rpID))
	data := slices.Concat(party[:], []byte{c.flags, 0, 0, 0, 7}, c.more)
	client := c.raw
	if client == nil {
		client = canonical(c.client)
	}
	sum := sha256.Sum256(client)
	hash := sha256.Sum256(slices.Concat(data, sum[:]))
	der, err := a.key.Sign(nil, hash[:], crypto.SHA256)
	noError(t, err)
	if c.der != nil {
		der = c.der(der)
	}
	return counterfoil.Assertion{AuthenticatorData: data, ClientDataJSON: client, Signature: der}
}

// otherHalf turns a signature into the other one that ECDSA has for the same message.
func otherHalf(der []byte) []byte {
	var n struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &n); err != nil {
		panic(err)
	}
	n.S.Sub(elliptic.P256().Params().N, n.S)
	out, err := asn1.Marshal(n)
	if err != nil {
		panic(err)
	}
	return out
}

// passkeyApproval is the lab's approval, given with a passkey.
func passkeyApproval(t testing.TB) *counterfoil.Approval {
	t.Helper()
	return passkeyApprovalOf(t, mustDryRun(t, plan(), policy()), request())
}

func passkeyApprovalOf(t testing.TB, dry *counterfoil.DryRun, req counterfoil.ApprovalRequest) *counterfoil.Approval {
	t.Helper()
	a := newAuthenticator(t, reviewer)
	p, err := counterfoil.PrepareApproval(dry, req, a.public, now())
	noError(t, err)
	out, err := p.Attach(a.assert(t, p.Message().Challenge()))
	noError(t, err)
	return out
}

// revokedPasskey is a key with all that a ring can say of one.
func revokedPasskey(t testing.TB) counterfoil.PublicKey {
	t.Helper()
	k := newAuthenticator(t, reviewer).public
	k.NotAfter = expires()
	k.Revoked = &counterfoil.Revocation{At: now(), Why: counterfoil.RevokedSuperseded}
	return k
}

// anew makes an assertion of the same parts for changed signatures: the envelope's bytes, decoded.
func signaturesOf(t testing.TB, a *counterfoil.Approval) (doc, list) {
	t.Helper()
	env := asDoc(decode(a.Envelope()))
	return env, asList(env["signatures"])
}
