package counterfoil

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

// This file reads and writes pieces of JSON text. What is read here is known to be strict JSON.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the offset past the string that begins at b[i].
func skipString(b []byte, i int) int {
	i++
	for {
		i += bytes.IndexByte(b[i:], '"') + 1
		escapes := 0
		for b[i-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// nextMark returns the offset of the first quote, backslash or control character from b[i] on, len(b) if there is none.
func nextMark(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quotes, backslashes := w^'"'*ones, w^'\\'*ones
		// A byte's high bit is set in marks if the byte is one of these. Above the first such byte, borrows make it unreliable.
		marks := ((w-' '*ones)&^w | (quotes-ones)&^quotes | (backslashes-ones)&^backslashes) & highs
		if marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// skipScalar returns the offset past the number or literal that begins at b[i].
func skipScalar(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

// isPlain reports whether a quoted string has no escapes: then it is its own canonical form.
func isPlain(quoted []byte) bool { return bytes.IndexByte(quoted, '\\') < 0 }

// unquote appends the content of a quoted string. The text is strict JSON: there is nothing to go wrong.
func unquote(dst, quoted []byte) []byte {
	if isPlain(quoted) {
		return append(dst, quoted[1:len(quoted)-1]...)
	}
	dst, _ = jsontext.AppendUnquote(dst, quoted)
	return dst
}

// appendString appends the RFC 8785 form of a string (section 3.2.2.2). Content that is not valid UTF-8 stays as it is, so
// that the strict parser refuses the text: a replacement character would make two names one.
func appendString[S ~[]byte | ~string](dst []byte, s S) []byte {
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// unitOrder makes bytes of valid UTF-8 compare as the UTF-16 code units of the text do. The two orders differ in one
// place: a character beyond the BMP (lead byte 0xF0 and up) begins with a surrogate, which sorts before U+E000 to U+FFFF
// (lead bytes 0xEE and 0xEF).
func unitOrder(c byte) byte {
	if c == 0xEE || c == 0xEF {
		return c + 0x10
	}
	return c
}

// compareUTF16 orders two UTF-8 texts by their UTF-16 code units, as RFC 8785 section 3.2.3 asks.
func compareUTF16[S ~[]byte | ~string](a, b S) int {
	i := commonPrefix(a, b)
	if i == len(a) || i == len(b) {
		return len(a) - len(b)
	}
	return int(unitOrder(a[i])) - int(unitOrder(b[i]))
}

func commonPrefix[S ~[]byte | ~string](a, b S) int {
	i, n := 0, min(len(a), len(b))
	for i+8 <= n && string(a[i:i+8]) == string(b[i:i+8]) {
		i += 8
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// window is how many bytes of a text orderOf looks at.
const window = 7

// orderOf returns a number that orders texts as compareUTF16 does, as far as the first seven bytes tell. The last byte
// says how long the text is, 8 for longer ones: equal numbers are equal texts, or begin longer ones alike.
func orderOf(s []byte) uint64 {
	var first [8]byte
	n := copy(first[:], s)
	const ones, lows = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	w := binary.BigEndian.Uint64(first[:])
	// unitOrder on all bytes at once: those that are 0xEE or 0xEF become zero, and then a high bit.
	other := (w | ones) ^ 0xEF*ones
	w += ^((other&lows + lows) | other | lows) >> 3
	return w&^0xFF | uint64(n) //nolint:gosec // n is 0 to 8
}

// endsInWindow reports whether an order's text is no longer than the window.
func endsInWindow(order uint64) bool { return order&0xFF <= window }
