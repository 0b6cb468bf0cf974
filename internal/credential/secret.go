package credential

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// A Secret is a text that must not be seen: it prints and logs as "redacted", and has no JSON form.
type Secret struct{ text string }

// NewSecret takes a secret from outside: a password, or a credential that was presented.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text, for the one answer that it belongs in.
func (s Secret) Reveal() string { return s.text }

const redacted = "redacted"

// String says "redacted".
func (s Secret) String() string { return redacted }

// Format says "redacted", whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue says "redacted".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText refuses: whoever sends a secret says so with Reveal.
func (s Secret) MarshalText() ([]byte, error) {
	return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "a secret is not written out"}
}

// The prefixes of the secrets that we make. No secret of one kind can be taken for one of another.
const (
	prefixKey       = "cfk_"
	prefixRefresh   = "cfr_"
	prefixBootstrap = "cfb_"
)

// rawSize is how many random bytes such a secret has, bodySize how long they are in base64url.
const (
	rawSize  = 32
	bodySize = 43
)

// A Hash is what is kept of a random secret: the SHA-256 of its text.
type Hash [sha256.Size]byte

func (s Secret) hash() Hash { return sha256.Sum256([]byte(s.text)) }

func format(prefix string, raw [rawSize]byte) Secret {
	return Secret{prefix + base64.RawURLEncoding.EncodeToString(raw[:])}
}

// draw makes a new random secret.
func draw(rand io.Reader, prefix string) (Secret, error) {
	var raw [rawSize]byte
	if err := fill(rand, raw[:]); err != nil {
		return Secret{}, err
	}
	return format(prefix, raw), nil
}

// parse reads a secret of ours: the prefix and exactly one spelling of 32 bytes.
func parse(prefix, text string) (raw [rawSize]byte, ok bool) {
	body, ok := strings.CutPrefix(text, prefix)
	if !ok || len(body) != bodySize {
		return raw, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(b) != rawSize { // the decoder skips line breaks: then there are fewer bytes
		return raw, false
	}
	return [rawSize]byte(b), true
}

func fill(rand io.Reader, b []byte) error {
	if _, err := io.ReadFull(rand, b); err != nil {
		return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	return nil
}
