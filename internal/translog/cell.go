package translog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestCell is how many bytes of a field a cell shows.
const longestCell = 512

// cell makes a text safe for a spreadsheet and for who reads it: what can't be seen, or moves what can, is written out; a
// formula is none; and of a long text the digest stays.
func cell(s string) string {
	shown, long := s, len(s) > longestCell
	if long {
		shown = s[:longestCell]
		for len(shown) > 0 && !utf8.RuneStart(s[len(shown)]) {
			shown = shown[:len(shown)-1]
		}
	}
	var b strings.Builder
	if startsFormula(s) {
		b.WriteByte('\'')
	}
	for i := 0; i < len(shown); {
		r, n := utf8.DecodeRuneInString(shown[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, shown[i])
		case r == '\\':
			b.WriteString(`\\`)
		case !unicode.IsPrint(r): // controls, formats (bidi among them), separators but the space, private use, unassigned
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	if long {
		sum := sha256.Sum256([]byte(s))
		fmt.Fprintf(&b, "… (%d bytes, SHA-256 %s)", len(s), hex.EncodeToString(sum[:]))
	}
	return b.String()
}

// startsFormula reports whether a spreadsheet could take the text for a formula, in any width of its first character and
// behind spaces.
func startsFormula(s string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	return s != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", r)
}
