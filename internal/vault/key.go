package vault

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// A Key is a master key and the id that sealed values name it by: 1 to 64 of A-Z, a-z, 0-9, "-" and "_". It prints as its id.
type Key struct {
	ID     string
	Master []byte // 32 random bytes
}

// String returns the id alone.
func (k Key) String() string { return "key " + k.ID + " " + redacted }

// Format implements fmt.Formatter: no verb shows the master.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue implements slog.LogValuer.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON returns the id alone.
func (k Key) MarshalJSON() ([]byte, error) { return quoted(k.String()) }

// A KMS keeps master keys elsewhere than beside what they seal: it unwraps them at start, and what it has unwrapped stays
// in memory alone. [Local] is the one of keys that the process was handed.
type KMS interface {
	// Masters returns the keys, oldest first: the last one seals.
	Masters(ctx context.Context) ([]Key, error)
}

// Local are keys that are at hand, oldest first.
type Local []Key

// Masters implements KMS.
func (l Local) Masters(context.Context) ([]Key, error) { return l, nil }

// Load makes a vault of the keys that a KMS holds, as New does.
func Load(ctx context.Context, rand io.Reader, k KMS) (*Vault, error) {
	if k == nil {
		return nil, fail(counterfoil.CodeInvalidInput, "a vault needs its keys", nil)
	}
	keys, err := k.Masters(ctx)
	if err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "the vault's keys can't be had", err)
	}
	return New(rand, keys...)
}

const idDerivation = "counterfoil/v1/vault key id"

// NewKey gives a master key the id that it has by itself, so that no other key is ever taken for it.
func NewKey(master []byte) (Key, error) {
	if len(master) != MasterSize {
		return Key{}, fail(counterfoil.CodeInvalidInput, "a vault's master key has 32 bytes", nil)
	}
	if bytes.Equal(master, make([]byte, MasterSize)) {
		return Key{}, fail(counterfoil.CodeInvalidInput, "a vault's master key is all zeros", nil)
	}
	id, err := hkdf.Key(sha256.New, master, nil, idDerivation, 8)
	if err != nil {
		return Key{}, fail(counterfoil.CodeInternal, "the vault key's id could not be made", err)
	}
	return Key{ID: "k-" + hex.EncodeToString(id), Master: master}, nil
}

// ParseMaster reads a master key from text: exactly 32 bytes, as 64 hexadecimal digits or in base64 of either alphabet, with its
// padding or without. Nothing else is taken, no blank and no line break: a passphrase is not a key.
func ParseMaster(text string) ([]byte, error) {
	bad := func() ([]byte, error) {
		return nil, fail(counterfoil.CodeInvalidInput, "a master key is 32 bytes in base64 or hexadecimal, as from: openssl rand -base64 32", nil)
	}
	var b []byte
	var err error
	switch s := strings.TrimSuffix(text, "="); {
	case len(text) == 2*MasterSize:
		b, err = hex.DecodeString(text)
	case len(s) != 43 || strings.ContainsAny(s, "\r\n"):
		return bad()
	case strings.ContainsAny(s, "-_"):
		b, err = base64.RawURLEncoding.Strict().DecodeString(s)
	default:
		b, err = base64.RawStdEncoding.Strict().DecodeString(s)
	}
	if err != nil || len(b) != MasterSize {
		return bad()
	}
	return b, nil
}

// ParseKeys reads master keys from one text, oldest first, with commas or line breaks between them: what ENCRYPTION_KEY
// holds, or a key file. One key is the usual case, several stand there while a rotation lasts.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		master, err := ParseMaster(field)
		if err != nil {
			return nil, err
		}
		k, err := NewKey(master)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(keys, func(x Key) bool { return x.ID == k.ID }) {
			return nil, fail(counterfoil.CodeInvalidInput, "one master key stands twice", nil)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, fail(counterfoil.CodeInvalidInput, "there is no master key: the text is empty", nil)
	}
	return keys, nil
}
