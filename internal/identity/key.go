package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"

	"github.com/golang-jwt/jwt/v5"
)

// An Algorithm is how a key signs. It belongs to the key; no token chooses it.
type Algorithm string

// The algorithms of our own keys.
const (
	HS256 Algorithm = "HS256" // HMAC with SHA-256; the secret signs and verifies
	EdDSA Algorithm = "EdDSA" // Ed25519
	ES256 Algorithm = "ES256" // ECDSA on P-256 with SHA-256
)

// minSecret is the shortest secret of HS256 (RFC 7518 section 3.2), maxSecret the longest that is no mistake.
const (
	minSecret = 32
	maxSecret = 1024
)

// A Key signs and verifies tokens. Its text form is the id, never the key.
type Key struct {
	id        string
	algorithm Algorithm
	method    jwt.SigningMethod
	verify    any // what method takes
	sign      any
	x, y      []byte // of a public key
}

// NewHS256Key makes a key of a shared secret of 32 to 1024 bytes, which must be random. id is its "kid"; where it is empty one
// is made from the secret.
func NewHS256Key(id string, secret []byte) (*Key, error) {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fail("the secret of an HS256 key must have 32 to 1024 bytes")
	}
	if bytes.HasPrefix(secret, []byte("-----BEGIN")) {
		return nil, fail("this is a key in PEM, not the secret of an HS256 key")
	}
	if id == "" {
		mac := hmac.New(sha256.New, secret)
		_, _ = io.WriteString(mac, "counterfoil token key id") // a hash takes everything
		id = base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
	}
	if !isTokenID(id) {
		return nil, fail("a key's id has letters, digits, - and _ alone, 128 at most")
	}
	secret = bytes.Clone(secret)
	return &Key{id: id, algorithm: HS256, method: jwt.SigningMethodHS256, verify: secret, sign: secret, x: nil, y: nil}, nil
}

// NewEdDSAKey makes an Ed25519 key of its 32-byte seed. Its id is the thumbprint of RFC 7638.
func NewEdDSAKey(seed []byte) (*Key, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fail("the seed of an EdDSA key must have 32 bytes")
	}
	private := ed25519.NewKeyFromSeed(seed)
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fail("this is not an Ed25519 key")
	}
	k := &Key{id: "", algorithm: EdDSA, method: jwt.SigningMethodEdDSA, verify: public, sign: private, x: public, y: nil}
	k.id = thumbprint(k.publicMembers())
	return k, nil
}

// NewES256Key makes a P-256 key of its 32-byte scalar. Its id is the thumbprint of RFC 7638.
func NewES256Key(scalar []byte) (*Key, error) {
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, fail("this is not the scalar of an ES256 key")
	}
	point, err := private.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, fail("this is not the scalar of an ES256 key")
	}
	k := &Key{
		id: "", algorithm: ES256, method: jwt.SigningMethodES256, verify: &private.PublicKey, sign: private,
		x: point[1:33], y: point[33:],
	}
	k.id = thumbprint(k.publicMembers())
	return k, nil
}

// ID returns the key's "kid".
func (k *Key) ID() string { return k.id }

// Algorithm returns how the key signs.
func (k *Key) Algorithm() Algorithm { return k.algorithm }

// String returns the key's id.
func (k *Key) String() string { return "key " + k.id }

// Format prints the key's id, whatever the verb.
func (k *Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue logs the key's id.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// verifies reports whether sig is the key's own signature of the text.
func (k *Key) verifies(signed string, sig []byte) bool {
	return k.method.Verify(signed, sig, k.verify) == nil
}

// publicMembers returns the members of a public key's JWK in the order of RFC 7638, and "" for a secret.
func (k *Key) publicMembers() string {
	x, y := base64.RawURLEncoding.EncodeToString(k.x), base64.RawURLEncoding.EncodeToString(k.y)
	switch k.algorithm {
	case EdDSA:
		return `"crv":"Ed25519","kty":"OKP","x":"` + x + `"`
	case ES256:
		return `"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"`
	case HS256:
		return ""
	default:
		return ""
	}
}

func thumbprint(publicMembers string) string {
	sum := sha256.Sum256([]byte("{" + publicMembers + "}"))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// like reports whether k is made of what o is made of, or is a secret that has the public key of o in it, which everyone knows.
func (k *Key) like(o *Key) bool {
	if k.algorithm != HS256 {
		return k.algorithm == o.algorithm && bytes.Equal(k.x, o.x)
	}
	secret, _ := k.verify.([]byte)
	if o.algorithm != HS256 {
		return bytes.Contains(secret, o.x)
	}
	other, _ := o.verify.([]byte)
	return hmac.Equal(secret, other)
}
