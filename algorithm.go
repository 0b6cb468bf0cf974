package counterfoil

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"
)

// An Algorithm is how a key signs. It belongs to the key: no message names one, so that none can choose.
type Algorithm string

// The algorithms.
const (
	AlgorithmEdDSA Algorithm = "EdDSA" // Ed25519 (RFC 8032)
	AlgorithmES256 Algorithm = "ES256" // ECDSA on P-256 with SHA-256 (FIPS 186-5), as r‖s with s in the lower half
)

const (
	pointSize     = 65 // an uncompressed point: 4, x, y (SEC 1, section 2.3.3)
	signatureSize = 64 // of both algorithms
)

// A curveKey is a public key on one of the two curves. The zero curveKey verifies nothing.
type curveKey struct {
	raw []byte           // 32 bytes of Ed25519, or an uncompressed point of P-256
	ec  *ecdsa.PublicKey // nil for Ed25519
}

// newCurveKey tells the curves apart by the length. What is no point of the curve is refused.
func newCurveKey(raw []byte) (curveKey, error) {
	switch len(raw) {
	case ed25519.PublicKeySize:
		if isEdwardsKey(raw) {
			return curveKey{raw: bytes.Clone(raw)}, nil
		}
	case pointSize:
		if ec, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw); err == nil {
			return curveKey{raw: bytes.Clone(raw), ec: ec}, nil
		}
	}
	return curveKey{}, fail(CodeInvalidInput, "this is neither an Ed25519 public key nor a point on P-256, or it is one of a few that prove nothing")
}

// isEdwardsKey reports whether raw is the one spelling of a point of the curve (RFC 8032, section 5.1.3) whose order is not
// small. A point of small order fits signatures that nobody made.
func isEdwardsKey(raw []byte) bool {
	le := bytes.Clone(raw)
	le[31] &= 0x7f // the sign of x
	slices.Reverse(le)
	y, p := new(big.Int).SetBytes(le), edwardsPrime()
	if y.Cmp(p) >= 0 {
		return false
	}
	one := big.NewInt(1)
	d := new(big.Int).ModInverse(big.NewInt(121666), p)
	d.Mul(d, big.NewInt(-121665))
	yy := new(big.Int).Mul(y, y)
	dyy := new(big.Int).Mul(d, yy)
	// The orders 1, 2 and 4 are where y is 0 or ±1. The double of a point of order 8 has the y 0, so that x² = −y², with which
	// the curve's equation is dy⁴ + 2y² = 1.
	eight := new(big.Int).Add(dyy, big.NewInt(2))
	eight.Mul(eight, yy).Sub(eight, one).Mod(eight, p)
	u := new(big.Int).Sub(yy, one)
	if u.Mod(u, p); y.Sign() == 0 || u.Sign() == 0 || eight.Sign() == 0 {
		return false
	}
	// x² = (y² − 1)/(dy² + 1) has a root if the product of both has one; the divisor is never 0.
	v := dyy.Add(dyy, one)
	return big.Jacobi(u.Mod(u.Mul(u, v), p), p) == 1
}

// edwardsPrime is 2²⁵⁵ − 19.
func edwardsPrime() *big.Int {
	p := new(big.Int).Lsh(big.NewInt(1), 255)
	return p.Sub(p, big.NewInt(19))
}

func (c curveKey) algorithm() Algorithm {
	if c.ec == nil {
		return AlgorithmEdDSA
	}
	return AlgorithmES256
}

// coordinates returns the members x and y of a JWK; an Ed25519 key has no y.
func (c curveKey) coordinates() (x, y string) {
	b64 := base64.RawURLEncoding
	if c.ec == nil {
		return b64.EncodeToString(c.raw), ""
	}
	return b64.EncodeToString(c.raw[1:33]), b64.EncodeToString(c.raw[33:])
}

// thumbprint is RFC 7638 over the members of RFC 8037 or RFC 7518.
func (c curveKey) thumbprint() KeyID {
	x, y := c.coordinates()
	text := `{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`
	if c.ec != nil {
		text = `{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`
	}
	sum := sha256.Sum256([]byte(text))
	return KeyID(base64.RawURLEncoding.EncodeToString(sum[:]))
}

// verify reports whether sig is this key's signature of the message. Each message and key has one spelling of a signature:
// of the two values of s that ECDSA has, only the lower is accepted.
func (c curveKey) verify(message, sig []byte) bool {
	if len(sig) != signatureSize {
		return false
	}
	if c.ec == nil {
		return len(c.raw) == ed25519.PublicKeySize && ed25519.Verify(c.raw, message, sig)
	}
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	sum := sha256.Sum256(message)
	return s.Cmp(halfOrder()) <= 0 && ecdsa.Verify(c.ec, sum[:], r, s)
}

// halfOrder is the largest s of the lower half.
func halfOrder() *big.Int { return new(big.Int).Rsh(elliptic.P256().Params().N, 1) }

// FixedSignature turns an ECDSA P-256 signature in DER, as key management services and authenticators make it, into the 64
// bytes r‖s that this package reads, with s in the lower half. It fails with CodeInvalidInput for anything but strict DER
// of two numbers between 0 and the order of the curve.
func FixedSignature(der []byte) ([]byte, error) {
	var n struct{ R, S *big.Int }
	rest, err := asn1.Unmarshal(der, &n)
	if err != nil || len(rest) > 0 {
		return nil, fail(CodeInvalidInput, "this is not an ECDSA signature in DER")
	}
	// The one spelling of the two numbers is the one that Go writes.
	if again, err := asn1.Marshal(n); err != nil || !bytes.Equal(again, der) {
		return nil, fail(CodeInvalidInput, "this is not an ECDSA signature in DER")
	}
	order := elliptic.P256().Params().N
	if n.R.Sign() <= 0 || n.S.Sign() <= 0 || n.R.Cmp(order) >= 0 || n.S.Cmp(order) >= 0 {
		return nil, fail(CodeInvalidInput, "the numbers of the signature are out of range")
	}
	if n.S.Cmp(halfOrder()) > 0 {
		n.S.Sub(order, n.S) // both halves sign the same message
	}
	sig := make([]byte, signatureSize)
	n.R.FillBytes(sig[:32])
	n.S.FillBytes(sig[32:])
	return sig, nil
}

// NewES256PrivateKey makes an ECDSA P-256 key from a 32-byte scalar between 0 and the order of the curve, which must come
// from a cryptographic random source. Its signatures are deterministic (RFC 6979).
func NewES256PrivateKey(scalar []byte, p KeyParams) (*PrivateKey, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, fail(CodeInvalidInput, "this is not a private key on P-256")
	}
	point, _ := key.PublicKey.Bytes() // without one, there is no public key either
	public, err := newPublicKey(point, p)
	if err != nil {
		return nil, err
	}
	sign := func(message []byte) ([]byte, error) {
		sum := sha256.Sum256(message)
		der, _ := key.Sign(nil, sum[:], crypto.SHA256) // without one, there is nothing that FixedSignature would take
		return FixedSignature(der)
	}
	return &PrivateKey{public: public, sign: sign}, nil
}

// NewPublicKey makes a verification key from a SubjectPublicKeyInfo in DER (RFC 8410, RFC 5480), as key management services
// and browsers hand it out. Only Ed25519 and P-256 are known, the latter as an uncompressed point.
func NewPublicKey(spki []byte, p KeyParams) (PublicKey, error) {
	for _, form := range []struct {
		head string
		size int
	}{
		{"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", ed25519.PublicKeySize},
		{"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00", pointSize},
	} {
		if raw, ok := bytes.CutPrefix(spki, []byte(form.head)); ok && len(raw) == form.size {
			return newPublicKey(raw, p)
		}
	}
	return PublicKey{}, fail(CodeInvalidInput, "this is not a SubjectPublicKeyInfo of Ed25519 or P-256")
}
