package counterfoil

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// A Role is the one purpose that a key serves. A key of one role never verifies in another (INV-8).
type Role string

// The roles.
const (
	RoleApprover Role = "approver" // a person's decisions
	RolePolicy   Role = "policy"   // approvals that policy alone gives
	RoleLedger   Role = "ledger"   // consumption records, signed inside the ledger's commit
	RoleReceipt  Role = "receipt"  // receipts
)

func validRole(r Role) bool {
	return r == RoleApprover || r == RolePolicy || r == RoleLedger || r == RoleReceipt
}

// A Custody says whose hand holds a private key.
type Custody string

// The custodies.
const (
	CustodyHolder  Custody = "holder"  // the owner's own device or sealed file signs
	CustodyGateway Custody = "gateway" // the gateway signs
)

// A KeyID is the RFC 7638 thumbprint of a public key, base64url without padding.
type KeyID string

// A PublicKey is a verification key with all that is known of it.
type PublicKey struct {
	ID        KeyID
	Role      Role
	Owner     string // the identity that the key speaks for
	Custody   Custody
	Tenants   []string  // the tenants it may act for, sorted; never empty
	NotBefore time.Time // judged at the instant of the act that was signed
	NotAfter  time.Time // exclusive; the zero time is no end

	key ed25519.PublicKey
}

// KeyParams is what NewPublicKey binds to a key.
type KeyParams struct {
	Role      Role
	Owner     string
	Custody   Custody
	Tenants   []string
	NotBefore time.Time
	NotAfter  time.Time // the zero time is no end
}

func newPublicKey(raw ed25519.PublicKey, p KeyParams) (PublicKey, error) {
	var none PublicKey
	if len(raw) != ed25519.PublicKeySize {
		return none, fail(CodeInvalidInput, "an Ed25519 public key has 32 bytes")
	}
	if !validRole(p.Role) {
		return none, fail(CodeInvalidInput, "the key's role is not known")
	}
	if p.Custody != CustodyHolder && p.Custody != CustodyGateway {
		return none, fail(CodeInvalidInput, "the key's custody is not known")
	}
	if len(p.Tenants) == 0 {
		return none, fail(CodeInvalidInput, "a key acts for at least one tenant")
	}
	for _, s := range append([]string{p.Owner}, p.Tenants...) {
		if err := CheckIdentity(s); err != nil {
			return none, err
		}
	}
	from, err := instant(p.NotBefore)
	if err != nil {
		return none, fail(CodeInvalidInput, "a key needs a beginning")
	}
	k := PublicKey{
		ID: thumbprint(raw), Role: p.Role, Owner: p.Owner, Custody: p.Custody,
		Tenants: slices.Clone(p.Tenants), NotBefore: from, key: slices.Clone(raw),
	}
	slices.SortFunc(k.Tenants, compareUTF16)
	if !p.NotAfter.IsZero() {
		if k.NotAfter, err = instant(p.NotAfter); err != nil || !k.NotAfter.After(from) {
			return none, fail(CodeInvalidInput, "a key ends after it begins")
		}
	}
	return k, nil
}

// thumbprint is RFC 7638 over the OKP members of RFC 8037.
func thumbprint(raw ed25519.PublicKey) KeyID {
	x := base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return KeyID(base64.RawURLEncoding.EncodeToString(sum[:]))
}

// validAt reports whether the key may act in tenant at t.
func (k *PublicKey) validAt(tenant string, t time.Time) bool {
	return slices.Contains(k.Tenants, tenant) && !t.Before(k.NotBefore) && (k.NotAfter.IsZero() || t.Before(k.NotAfter))
}

// A PrivateKey signs in one role. It can't be printed or compared: every text form of it says "redacted".
type PrivateKey struct {
	_      [0]func() // not comparable
	public PublicKey
	key    ed25519.PrivateKey
}

// NewPrivateKey makes a key from a 32-byte seed, which must come from a cryptographic random source.
func NewPrivateKey(seed []byte, p KeyParams) (*PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fail(CodeInvalidInput, "a seed has 32 bytes")
	}
	key := ed25519.NewKeyFromSeed(seed)
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fail(CodeInternal, "the key has no public half")
	}
	k, err := newPublicKey(public, p)
	if err != nil {
		return nil, err
	}
	return &PrivateKey{public: k, key: key}, nil
}

// Public returns the public half.
func (k *PrivateKey) Public() PublicKey { return k.public }

// Sign implements Signer.
func (k *PrivateKey) Sign(_ context.Context, m Message) ([]byte, error) {
	if m.role != k.public.Role {
		return nil, fail(CodeSignatureInvalid, "this key does not sign documents of that kind")
	}
	return ed25519.Sign(k.key, m.pae), nil
}

const redacted = "redacted"

// String says "redacted".
func (k *PrivateKey) String() string { return redacted }

// GoString says "redacted".
func (k *PrivateKey) GoString() string { return redacted }

// Format says "redacted" for every verb.
func (k *PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue says "redacted".
func (k *PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// A Signer makes signatures with a key that it keeps to itself. What it signs are messages that only this package
// makes, so that it can't be used to sign anything else.
type Signer interface {
	// Public returns the key that verifies what Sign makes.
	Public() PublicKey
	// Sign signs one message. It refuses a message that its key's role does not sign.
	Sign(ctx context.Context, m Message) ([]byte, error)
}

// A Message is a document of this package that is ready to be signed.
type Message struct {
	role Role
	pae  []byte
}

// A KeyRing holds the public keys that verification trusts. It never learns a key from what it verifies.
type KeyRing struct{ keys map[KeyID]PublicKey }

// NewKeyRing makes a ring of keys. Two keys with one id are refused.
func NewKeyRing(keys ...PublicKey) (*KeyRing, error) {
	r := &KeyRing{keys: make(map[KeyID]PublicKey, len(keys))}
	for _, k := range keys {
		if _, twice := r.keys[k.ID]; twice {
			return nil, fail(CodeInvalidInput, "the ring has the same key twice")
		}
		if len(k.key) != ed25519.PublicKeySize {
			return nil, fail(CodeInvalidInput, "a key of the ring is empty")
		}
		r.keys[k.ID] = k
	}
	return r, nil
}

// Keys returns the keys in the order of their ids.
func (r *KeyRing) Keys() []PublicKey {
	out := make([]PublicKey, 0, len(r.keys))
	for _, k := range r.keys {
		k.Tenants = slices.Clone(k.Tenants)
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b PublicKey) int { return compareUTF16(a.ID, b.ID) })
	return out
}

// verify returns the key that made sig over m, if the ring has it in m's role. Whether the key may act for the tenant at
// the instant in question is the caller's next question (PublicKey.validAt).
func (r *KeyRing) verify(m Message, id KeyID, sig []byte) (*PublicKey, error) {
	if r == nil {
		return nil, fail(CodeSignatureInvalid, "there is no key ring")
	}
	k, ok := r.keys[id]
	if !ok {
		return nil, fail(CodeSignatureInvalid, "the ring does not have the key that signed this")
	}
	if k.Role != m.role {
		return nil, fail(CodeSignatureInvalid, "the key that signed this has another role")
	}
	if len(sig) != ed25519.SignatureSize || !ed25519.Verify(k.key, m.pae, sig) {
		return nil, fail(CodeSignatureInvalid, "the signature does not fit")
	}
	return &k, nil
}

// JSON returns the ring as a JWK set (RFC 7517, RFC 8037) in canonical form, with what RFC 7517 does not know under
// names of our own.
func (r *KeyRing) JSON() []byte {
	w := &writer{}
	w.open('{')
	w.name("keys")
	w.b = append(w.b, '[')
	for _, k := range r.Keys() {
		w.open('{')
		w.text("alg", "EdDSA")
		w.text("crv", "Ed25519")
		w.text("custody", string(k.Custody))
		w.text("kid", string(k.ID))
		w.text("kty", "OKP")
		if !k.NotAfter.IsZero() {
			w.time("notAfter", k.NotAfter)
		}
		w.time("notBefore", k.NotBefore)
		w.text("owner", k.Owner)
		w.text("role", string(k.Role))
		w.list("tenants", k.Tenants)
		w.text("use", "sig")
		w.text("x", base64.RawURLEncoding.EncodeToString(k.key))
		w.close('}')
	}
	w.close(']')
	w.close('}')
	return w.b
}

// maxRingKeys bounds a key ring document.
const maxRingKeys = 1024

// ParseKeyRing reads what KeyRing.JSON writes. Every key's id must be its thumbprint; private members are refused.
func ParseKeyRing(b []byte) (*KeyRing, error) {
	d, err := parseDocument(b, documentLimits(), numbersExact)
	if err != nil {
		return nil, err
	}
	r := &reader{doc: d}
	var m [1]int
	r.members(0, m[:], "keys")
	ring := &KeyRing{keys: map[KeyID]PublicKey{}}
	for _, n := range r.elements(m[0], maxRingKeys) {
		k := readKey(r, n)
		if r.err != nil {
			break
		}
		if _, twice := ring.keys[k.ID]; twice {
			r.fail(n, "the ring has the same key twice")
		}
		ring.keys[k.ID] = k
	}
	if r.err != nil {
		return nil, r.err
	}
	return ring, nil
}

func readKey(r *reader, n int) PublicKey {
	var m [12]int
	r.members(n, m[:], "alg", "crv", "custody", "kid", "kty", "notAfter?", "notBefore", "owner", "role", "tenants", "use", "x")
	r.literal(m[0], "EdDSA")
	r.literal(m[1], "Ed25519")
	r.literal(m[4], "OKP")
	r.literal(m[10], "sig")
	p := KeyParams{
		Custody: Custody(r.text(m[2])), NotAfter: r.time(m[5]), NotBefore: r.time(m[6]), Owner: r.identity(m[7]),
		Role: Role(r.text(m[8])), Tenants: r.list(m[9], 1, maxRingKeys),
	}
	id := KeyID(r.text(m[3]))
	raw, err := base64.RawURLEncoding.Strict().DecodeString(r.text(m[11]))
	if r.err != nil {
		return PublicKey{}
	}
	if err != nil {
		r.fail(m[11], "this must be base64url without padding")
		return PublicKey{}
	}
	k, err := newPublicKey(raw, p)
	if err != nil {
		r.fail(n, "this key is not complete")
		return PublicKey{}
	}
	if k.ID != id {
		r.fail(m[3], "the key's id is not its thumbprint")
	}
	return k
}
