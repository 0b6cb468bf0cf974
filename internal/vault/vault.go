// Package vault seals what is kept at rest, so that whoever reads the database learns nothing, and whoever writes it can't
// move a sealed value to another place and have it opened there.
//
// A sealed value is text: "cf1.<key id>.<base64url of nonce, ciphertext and tag>". The cipher is AES-256-GCM under a key
// that HKDF-SHA-256 derives from a master key. The associated data are the key's id and the label: tenant, kind, name and
// version, each with its length before it.
//
// Secrets are sealed values of tenants, in versions. They leave in one way: filled into the templates of an operator's
// configuration, where a grant names the place and the host, for the transport that sends them; and what comes back is looked
// through for them. The package trusts whoever holds the master keys and the operator's configuration. It does not trust the
// database, an agent or an upstream. An upstream that was given a secret may still give it away in a form that nobody knows.
// The package reads no files and has no clock.
package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"

	"github.com/counterfoil/counterfoil"
)

const (
	prefix = "cf1."

	// MasterSize is the length of a master key, in bytes.
	MasterSize = 32
	// MaxPlain bounds what one Seal takes, in bytes.
	MaxPlain = 64 << 20

	maxKeyID   = 64
	maxLabel   = 4096 // of one member
	derivation = "counterfoil/v1/vault\n"
)

// A Label says what a sealed value is and where it belongs. Tenant, Kind and Name must not be empty.
type Label struct {
	Tenant  string
	Kind    string
	Name    string
	Version string
}

// A Vault seals and opens. It is safe for concurrent use if its source of randomness is.
type Vault struct {
	rand   io.Reader
	ids    []string // oldest first
	newest string
	aeads  map[string]cipher.AEAD
}

// New makes a vault. The last of the keys seals, all of them open. Nonces come from rand, which must be
// cryptographic. One key seals at most 2^32 values: random nonces may repeat beyond that.
func New(rand io.Reader, keys ...Key) (*Vault, error) {
	if rand == nil || len(keys) == 0 {
		return nil, fail(counterfoil.CodeInvalidInput, "a vault needs randomness and at least one key", nil)
	}
	v := &Vault{rand: rand, aeads: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		if !validKeyID(k.ID) {
			return nil, fail(counterfoil.CodeInvalidInput, "a vault key's id has 1 to 64 letters, digits, dashes and underscores", nil)
		}
		if len(k.Master) != MasterSize {
			return nil, fail(counterfoil.CodeInvalidInput, "a vault's master key has 32 bytes", nil)
		}
		if bytes.Equal(k.Master, make([]byte, MasterSize)) {
			return nil, fail(counterfoil.CodeInvalidInput, "a vault's master key is all zeros", nil)
		}
		if _, twice := v.aeads[k.ID]; twice {
			return nil, fail(counterfoil.CodeInvalidInput, "the vault has two keys with one id", nil)
		}
		aead, err := derive(k)
		if err != nil {
			return nil, fail(counterfoil.CodeInternal, "the vault's cipher could not be set up", err)
		}
		v.aeads[k.ID], v.newest = aead, k.ID
		v.ids = append(v.ids, k.ID)
	}
	return v, nil
}

func derive(k Key) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.Master, nil, derivation+k.ID, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal encrypts plain for the label under the newest key.
func (v *Vault) Seal(label Label, plain []byte) ([]byte, error) {
	return v.sealUnder(v.newest, label, plain)
}

func (v *Vault) sealUnder(id string, label Label, plain []byte) ([]byte, error) {
	ad, err := associated(id, label)
	if err != nil {
		return nil, err
	}
	if len(plain) > MaxPlain {
		return nil, fail(counterfoil.CodeInvalidInput, "this is too large to be sealed", nil)
	}
	aead := v.aeads[id]
	raw := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := io.ReadFull(v.rand, raw); err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "there is no randomness", err)
	}
	raw = aead.Seal(raw, raw, plain, ad)
	out := make([]byte, 0, len(prefix)+len(id)+1+base64.RawURLEncoding.EncodedLen(len(raw)))
	out = append(out, prefix...)
	out = append(out, id...)
	out = append(out, '.')
	return base64.RawURLEncoding.AppendEncode(out, raw), nil
}

// Open returns what was sealed under the label. It fails with CodeIntegrityFailed, and returns nothing, when a byte of
// the value or of the label is another, or when the vault does not have the key.
func (v *Vault) Open(label Label, sealed []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(sealed, []byte(prefix))
	id, text, dotted := bytes.Cut(rest, []byte("."))
	if !ok || !dotted || !validKeyID(string(id)) {
		return nil, fail(counterfoil.CodeIntegrityFailed, "this is not a sealed value", nil)
	}
	aead, ok := v.aeads[string(id)]
	if !ok {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the vault does not have the key that sealed this", nil)
	}
	ad, err := associated(string(id), label)
	if err != nil {
		return nil, err
	}
	// The decoder skips line breaks: only the one spelling that Seal writes is accepted.
	if bytes.ContainsAny(text, "\r\n") {
		return nil, fail(counterfoil.CodeIntegrityFailed, "this is not a sealed value", nil)
	}
	raw, err := base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	if err != nil || len(raw) < aead.NonceSize()+aead.Overhead() {
		return nil, fail(counterfoil.CodeIntegrityFailed, "this is not a sealed value", nil)
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], ad)
	if err != nil {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the sealed value was changed or belongs elsewhere", nil)
	}
	return plain, nil
}

// KeyID returns the id of the key that sealed a value, "" when it is not a sealed value. It verifies nothing: it is for
// finding what a rotation has to seal again.
func KeyID(sealed []byte) string {
	rest, ok := bytes.CutPrefix(sealed, []byte(prefix))
	id, _, dotted := bytes.Cut(rest, []byte("."))
	if !ok || !dotted || !validKeyID(string(id)) {
		return ""
	}
	return string(id)
}

// associated binds the label: lengths first, so that no two labels have the same bytes.
func associated(id string, l Label) ([]byte, error) {
	if l.Tenant == "" || l.Kind == "" || l.Name == "" {
		return nil, fail(counterfoil.CodeInvalidInput, "a label has a tenant, a kind and a name", nil)
	}
	var b []byte
	for _, s := range []string{prefix, id, l.Tenant, l.Kind, l.Name, l.Version} {
		if len(s) > maxLabel {
			return nil, fail(counterfoil.CodeInvalidInput, "a label's member has at most 4096 bytes", nil)
		}
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b, nil
}

func validKeyID(s string) bool {
	if s == "" || len(s) > maxKeyID {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func fail(code counterfoil.Code, msg string, cause error) error {
	return &counterfoil.Error{Code: code, Msg: msg, Err: cause}
}
