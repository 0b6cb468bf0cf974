package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
)

const (
	secretPrefix = "whsec_"
	secretSize   = 32

	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// A Secret signs what is sent to a callback, as Standard Webhooks 1.0 wants it. While it is changed it is two: the receiver
// may know either. It prints as "redacted".
type Secret struct{ keys [][]byte } // newest first

// ParseSecret reads "whsec_" and the base64 of 32 bytes, as it stands in the configuration of the system.
func ParseSecret(s string) (Secret, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(s), secretPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) != secretSize {
		return Secret{}, bad("", "a hook's secret is whsec_ and 32 bytes in base64")
	}
	return Secret{keys: [][]byte{key}}, nil
}

func newSecret(rand io.Reader) (Secret, error) {
	key := make([]byte, secretSize)
	if _, err := io.ReadFull(rand, key); err != nil {
		return Secret{}, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	return Secret{keys: [][]byte{key}}, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return len(s.keys) == 0 }

// Format says "redacted" for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redacted") }

// LogValue says "redacted".
func (s Secret) LogValue() slog.Value { return slog.StringValue("redacted") }

// reveal returns the newest key as ParseSecret reads it.
func (s Secret) reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.keys[0]) }

// bytes and secretOf are the form that is sealed.
func (s Secret) bytes() []byte {
	var b []byte
	for _, k := range s.keys {
		b = append(b, k...)
	}
	return b
}

func secretOf(b []byte) (Secret, error) {
	var s Secret
	for ; len(b) >= secretSize && len(s.keys) < 2; b = b[secretSize:] {
		s.keys = append(s.keys, b[:secretSize:secretSize])
	}
	if s.IsZero() || len(b) != 0 {
		return Secret{}, failure("the hook's secret is damaged", nil)
	}
	return s, nil
}

// after returns s with the key that it takes the place of, if there is one.
func (s Secret) after(old Secret) Secret {
	if old.IsZero() {
		return s
	}
	return Secret{keys: [][]byte{s.keys[0], old.keys[0]}}
}

// newest returns s without the key whose place it took.
func (s Secret) newest() Secret { return Secret{keys: s.keys[:min(1, len(s.keys))]} }

// sign returns the signatures of one message, with a blank between.
func (s Secret) sign(id string, at time.Time, body []byte) string {
	all := make([]string, len(s.keys))
	for i, k := range s.keys {
		h := hmac.New(sha256.New, k)
		_, _ = h.Write([]byte(id + "." + unix(at) + "."))
		_, _ = h.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return strings.Join(all, " ")
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
