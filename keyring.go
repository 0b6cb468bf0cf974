package counterfoil

import (
	"encoding/base64"
	"slices"
)

// A KeyRing holds the public keys that verification trusts. It never learns a key from what it verifies.
type KeyRing struct{ keys map[KeyID]PublicKey }

// NewKeyRing makes a ring of keys. Two keys with one id are refused, and so is a key that was changed after it was made.
func NewKeyRing(keys ...PublicKey) (*KeyRing, error) {
	r := &KeyRing{keys: make(map[KeyID]PublicKey, len(keys))}
	for i := range keys {
		k, err := keys[i].remade()
		if err != nil {
			return nil, err
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

// verify returns the key that made the signature of m, if the ring has it in m's role. Whether the key may act for the
// tenant at the instant in question is the caller's next question (PublicKey.mayAct).
func (r *KeyRing) verify(m Message, s signature) (*PublicKey, error) {
	k, err := r.find(m, s)
	if err != nil {
		return nil, err
	}
	if err := k.verify(m, s); err != nil {
		return nil, err
	}
	return k, nil
}

const doesNotFit = "the signature does not fit"

// find returns the key that the signature names if the ring has it in m's role and for its kind of signature.
func (r *KeyRing) find(m Message, s signature) (*PublicKey, error) {
	if r == nil {
		return nil, fail(CodeSignatureInvalid, "there is no key ring")
	}
	k, ok := r.keys[s.key]
	if !ok {
		return nil, fail(CodeSignatureInvalid, "the ring does not have the key that signed this")
	}
	if k.Role != m.role {
		return nil, fail(CodeSignatureInvalid, "the key that signed this has another role")
	}
	if (k.Passkey != nil) != (s.authData != nil) {
		return nil, fail(CodeSignatureInvalid, "a passkey makes its own kind of signature and no other key does")
	}
	return &k, nil
}

// verify checks that the key made the signature: a plain one, or a passkey's, as the key and never the signature has it.
// That the signature is of that kind was checked when the key was found.
func (k *PublicKey) verify(m Message, s signature) error {
	switch {
	case k.Passkey != nil:
		if msg := k.Passkey.verify(k.key, m, s); msg != "" {
			return fail(CodeSignatureInvalid, msg)
		}
	case !k.key.verify(m.pae, s.sig):
		return fail(CodeSignatureInvalid, doesNotFit)
	}
	return nil
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
		x, y := k.key.coordinates()
		kty, crv := curveNames(k.Algorithm)
		w.text("alg", string(k.Algorithm))
		w.text("crv", crv)
		w.text("custody", string(k.Custody))
		w.text("kid", string(k.ID))
		w.text("kty", kty)
		if !k.NotAfter.IsZero() {
			w.time("notAfter", k.NotAfter)
		}
		w.time("notBefore", k.NotBefore)
		w.text("owner", k.Owner)
		if p := k.Passkey; p != nil {
			w.name("passkey")
			w.open('{')
			w.list("origins", p.Origins)
			w.text("rpId", p.RPID)
			w.close('}')
		}
		if v := k.Revoked; v != nil {
			w.name("revoked")
			w.open('{')
			w.time("at", v.At)
			w.text("why", string(v.Why))
			w.close('}')
		}
		w.text("role", string(k.Role))
		w.list("tenants", k.Tenants)
		w.text("use", "sig")
		w.text("x", x)
		w.maybe("y", y)
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
	r, err := newReader(b, limits{bytes: 4 * maxDocumentBytes, nodes: 64 * maxRingKeys, depth: 5, width: maxRingKeys})
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
	var m [15]value
	r.members(n, m[:], "alg", "crv", "custody", "kid", "kty", "notAfter?", "notBefore", "owner", "passkey?", "revoked?", "role",
		"tenants", "use", "x", "y?")
	alg := oneOf(r, m[0], "algorithm", AlgorithmEdDSA, AlgorithmES256)
	kty, crv := curveNames(alg)
	r.literal(m[1], crv)
	r.literal(m[4], kty)
	r.literal(m[12], "sig")
	p := KeyParams{
		Custody: oneOf(r, m[2], "custody", custodies()...), NotAfter: r.time(m[5]), NotBefore: r.time(m[6]),
		Owner: r.identity(m[7]), Role: oneOf(r, m[10], "role", roles()...), Tenants: r.list(m[11], 1, maxRingKeys),
	}
	id := KeyID(r.text(m[3]))
	raw := readCoordinates(r, m[13], m[14], alg)
	passkey, revoked := readPasskey(r, m[8]), readRevoked(r, m[9])
	if r.err != nil {
		return PublicKey{}
	}
	k, err := newPublicKey(raw, p)
	if err == nil && k.ID != id {
		r.fail(m[3], badKeyID)
		return PublicKey{}
	}
	if err == nil {
		k.Passkey, k.Revoked = passkey, revoked
		k, err = k.remade()
	}
	if err != nil {
		r.fail(n, "this key is not complete")
		return PublicKey{}
	}
	return k
}

// curveNames returns the members kty and crv that go with an algorithm.
func curveNames(a Algorithm) (kty, crv string) {
	if a == AlgorithmES256 {
		return "EC", "P-256"
	}
	return "OKP", "Ed25519"
}

// readCoordinates returns a key's raw bytes. Each coordinate has 32 of them, so that no other form is ever tried.
func readCoordinates(r *reader, x, y value, alg Algorithm) []byte {
	point, ends := []byte(nil), []value{x}
	if alg == AlgorithmES256 {
		point, ends = []byte{4}, []value{x, y}
	} else if r.has(y) {
		r.fail(y, "this curve has no y")
	}
	for _, v := range ends {
		b, err := base64.RawURLEncoding.Strict().DecodeString(r.text(v))
		if r.err == nil && (err != nil || len(b) != 32) {
			r.fail(v, "this must be 32 bytes as base64url without padding")
		}
		point = append(point, b...)
	}
	return point
}

func readPasskey(r *reader, n value) *Passkey {
	if !r.has(n) {
		return nil
	}
	var m [2]value
	r.members(n, m[:], "origins", "rpId")
	return &Passkey{Origins: r.list(m[0], 1, maxOrigins), RPID: r.identity(m[1])}
}

func readRevoked(r *reader, n value) *Revocation {
	if !r.has(n) {
		return nil
	}
	var m [2]value
	r.members(n, m[:], "at", "why")
	return &Revocation{At: r.time(m[0]), Why: oneOf(r, m[1], "reason", RevokedSuperseded, RevokedCompromised)}
}
