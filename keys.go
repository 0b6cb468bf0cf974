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

func roles() []Role { return []Role{RoleApprover, RolePolicy, RoleLedger, RoleReceipt} }

// A Custody says whose hand holds a private key.
type Custody string

// The custodies.
const (
	CustodyHolder  Custody = "holder"  // the owner's own device or sealed file signs
	CustodyGateway Custody = "gateway" // the gateway signs
)

func custodies() []Custody { return []Custody{CustodyHolder, CustodyGateway} }

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

// KeyParams is what a key is bound to.
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
	if !slices.Contains(roles(), p.Role) {
		return none, fail(CodeInvalidInput, "the key's role is not known")
	}
	if !slices.Contains(custodies(), p.Custody) {
		return none, fail(CodeInvalidInput, "the key's custody is not known")
	}
	tenants := slices.Clone(p.Tenants)
	slices.SortFunc(tenants, compareUTF16)
	if len(tenants) == 0 || len(slices.Compact(tenants)) != len(p.Tenants) {
		return none, fail(CodeInvalidInput, "a key acts for at least one tenant and names none twice")
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
		Tenants: tenants, NotBefore: from, key: slices.Clone(raw),
	}
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

// params returns what the key is bound to.
func (k *PublicKey) params() KeyParams {
	return KeyParams{
		Role: k.Role, Owner: k.Owner, Custody: k.Custody, Tenants: k.Tenants, NotBefore: k.NotBefore, NotAfter: k.NotAfter,
	}
}

// clone returns a copy that shares no memory.
func (k *PublicKey) clone() PublicKey {
	c := *k
	c.Tenants = slices.Clone(k.Tenants)
	return c
}

// A PrivateKey signs in one role. It can't be compared or printed: every text form of it says "redacted", and inside
// another value there is only a function to be printed.
type PrivateKey struct {
	public PublicKey
	sign   func(message []byte) []byte
}

// NewPrivateKey makes a key from a 32-byte seed, which must come from a cryptographic random source.
func NewPrivateKey(seed []byte, p KeyParams) (*PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fail(CodeInvalidInput, "a seed has 32 bytes")
	}
	key := ed25519.NewKeyFromSeed(seed)
	// An Ed25519 private key is the seed and the public key (RFC 8032).
	public, err := newPublicKey(ed25519.PublicKey(key[ed25519.SeedSize:]), p)
	if err != nil {
		return nil, err
	}
	return &PrivateKey{public: public, sign: func(m []byte) []byte { return ed25519.Sign(key, m) }}, nil
}

// Public returns the public half.
func (k *PrivateKey) Public() PublicKey { return k.public.clone() }

// Sign implements Signer.
func (k *PrivateKey) Sign(_ context.Context, m Message) ([]byte, error) {
	if m.role == "" || m.role != k.public.Role {
		return nil, fail(CodeSignatureInvalid, "this key does not sign documents of that kind")
	}
	return k.sign(m.pae), nil
}

const redacted = "redacted"

// String says "redacted".
func (k PrivateKey) String() string { return redacted }

// GoString says "redacted".
func (k PrivateKey) GoString() string { return redacted }

// Format says "redacted" for every verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue says "redacted".
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

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

// NewKeyRing makes a ring of keys. Two keys with one id are refused, and so is a key that was changed after it was made.
func NewKeyRing(keys ...PublicKey) (*KeyRing, error) {
	r := &KeyRing{keys: make(map[KeyID]PublicKey, len(keys))}
	for i := range keys {
		k, err := newPublicKey(keys[i].key, keys[i].params())
		if err != nil {
			return nil, err
		}
		if k.ID != keys[i].ID {
			return nil, fail(CodeInvalidInput, badKeyID)
		}
		if msg := r.add(k); msg != "" {
			return nil, fail(CodeInvalidInput, msg)
		}
	}
	return r, nil
}

const badKeyID = "the key's id is not its thumbprint"

func (r *KeyRing) add(k PublicKey) (fault string) {
	if _, twice := r.keys[k.ID]; twice {
		return "the ring has the same key twice"
	}
	if len(r.keys) == maxRingKeys {
		return "the ring has too many keys"
	}
	r.keys[k.ID] = k
	return ""
}

// Keys returns the keys in the order of their ids.
func (r *KeyRing) Keys() []PublicKey {
	out := make([]PublicKey, 0, len(r.keys))
	for _, k := range r.keys {
		out = append(out, k.clone())
	}
	slices.SortFunc(out, func(a, b PublicKey) int { return compareUTF16(a.ID, b.ID) })
	return out
}

// verify returns the key that made sig over m, if the ring has it in m's role. Whether the key may act for the tenant at
// the instant in question is the caller's next question (PublicKey.validAt).
func (r *KeyRing) verify(m Message, id KeyID, sig []byte) (*PublicKey, error) {
	k, err := r.find(m, id, sig)
	if err != nil {
		return nil, err
	}
	if len(sig) != ed25519.SignatureSize || !ed25519.Verify(k.key, m.pae, sig) {
		return nil, fail(CodeSignatureInvalid, "the signature does not fit")
	}
	return k, nil
}

// find returns the key of that id if the ring has it in m's role.
func (r *KeyRing) find(m Message, id KeyID, _ []byte) (*PublicKey, error) {
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
	r, err := newReader(b, limits{bytes: 4 * maxDocumentBytes, nodes: 64 * maxRingKeys, depth: 4, width: maxRingKeys})
	if err != nil {
		return nil, err
	}
	var m [1]value
	r.members(r.root(), m[:], "keys")
	ring := &KeyRing{keys: map[KeyID]PublicKey{}}
	for _, n := range r.elements(m[0], maxRingKeys) {
		k := readKey(r, n)
		if r.err != nil {
			break
		}
		if msg := ring.add(k); msg != "" {
			r.fail(n, msg)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return ring, nil
}

func readKey(r *reader, n value) PublicKey {
	var m [12]value
	r.members(n, m[:], "alg", "crv", "custody", "kid", "kty", "notAfter?", "notBefore", "owner", "role", "tenants", "use", "x")
	r.literal(m[0], "EdDSA")
	r.literal(m[1], "Ed25519")
	r.literal(m[4], "OKP")
	r.literal(m[10], "sig")
	p := KeyParams{
		Custody: oneOf(r, m[2], "custody", custodies()...), NotAfter: r.time(m[5]), NotBefore: r.time(m[6]),
		Owner: r.identity(m[7]), Role: oneOf(r, m[8], "role", roles()...), Tenants: r.list(m[9], 1, maxRingKeys),
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
		r.fail(m[3], badKeyID)
	}
	return k
}
