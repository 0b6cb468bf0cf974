package vault

import (
	"bytes"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// redacted is what stands wherever a secret would be printed.
const redacted = "[redacted]"

// Bounds of a secret's value and metadata, in bytes. A shorter value could not be told from other text when results are
// looked through for it.
const (
	MinValue    = 8
	MaxValue    = 64 << 10
	MaxMetadata = 16 << 10
)

// A Value is a secret in the clear. It can be stored, and filled into templates by [Filled.Reveal]; nothing else gives it
// away: whatever prints, logs or encodes it gets "[redacted]". The zero Value is none.
type Value struct {
	// Behind a function even what looks into the unexported fields of others, as fmt does, finds an address alone.
	text func() []byte
}

func newValue(b []byte) Value { return Value{func() []byte { return b }} }

func (v Value) bytes() []byte {
	if v.text == nil {
		return nil
	}
	return v.text()
}

// NewValue takes a secret. It must be UTF-8 without control characters (a line break at the end is a common slip, and one
// inside would end a header), without blanks at its ends, and within MinValue and MaxValue. b is copied.
func NewValue(b []byte) (Value, error) {
	if msg := fault(b); msg != "" {
		return Value{}, fail(counterfoil.CodeInvalidInput, msg, nil)
	}
	return newValue(bytes.Clone(b)), nil
}

func fault(b []byte) string {
	switch {
	case len(b) < MinValue:
		return "a secret has at least 8 bytes"
	case len(b) > MaxValue:
		return "a secret has at most 65536 bytes"
	case !utf8.Valid(b):
		return "a secret is UTF-8; encode other bytes in base64"
	case bytes.ContainsFunc(b, isControl):
		return "a secret has no line break and no other control character; is there one at its end?"
	case b[0] == ' ' || b[len(b)-1] == ' ':
		return "a secret begins or ends with a blank"
	}
	return ""
}

// isControl knows what ends a header or an environment's entry, and what a terminal acts on.
func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return len(v.bytes()) == 0 }

// String returns "[redacted]".
func (v Value) String() string { return redacted }

// Format implements fmt.Formatter: every verb prints "[redacted]".
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (v Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON returns "[redacted]".
func (v Value) MarshalJSON() ([]byte, error) { return quoted(redacted) }

// MarshalText returns "[redacted]".
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func quoted(s string) ([]byte, error) { return jsontext.AppendQuote(nil, s) }
