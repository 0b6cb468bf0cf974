package counterfoil

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"

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

// skipValue returns the offset past the value that begins at b[i].
func skipValue(b []byte, i int) int {
	open := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			open++
			i++
		case '}', ']':
			open--
			i++
		case ',', ':':
			i++
		default:
			i = skipScalar(b, i)
		}
		if open == 0 {
			return i
		}
	}
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

// orderOf returns a text's first eight bytes as a number, so that most comparisons of compareUTF16 cost one.
func orderOf(s []byte) uint64 {
	var n uint64
	if len(s) >= 8 {
		n = binary.BigEndian.Uint64(s)
		if n&0x8080808080808080 == 0 {
			return n // ASCII is in order as it is
		}
		n = 0
	}
	for i := range 8 {
		n <<= 8
		if i < len(s) {
			n |= uint64(unitOrder(s[i]))
		}
	}
	return n
}

// A numberRule says what happens to a number that a double can't hold exactly as written.
type numberRule byte

const (
	numbersExact numberRule = iota + 1
	numbersRounded
)

// append appends the canonical form of a JSON number, if the rule accepts it.
func (rule numberRule) append(dst, raw []byte) ([]byte, *Error) {
	if isSmallInteger(raw) {
		return append(dst, raw...), nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return dst, fail(CodeInvalidInput, "a number is too large for a double")
	}
	from := len(dst)
	dst = appendNumber(dst, f)
	if rule == numbersRounded {
		return dst, nil
	}
	if f == 0 && raw[0] == '-' {
		return dst, fail(CodeInvalidInput, "minus zero is not accepted")
	}
	written, ok := decimalOf(raw)
	if printed, _ := decimalOf(dst[from:]); !ok || written != printed {
		return dst, fail(CodeInvalidInput, "a number has more digits than a double can hold; send it as a string")
	}
	return dst, nil
}

// isSmallInteger reports whether a text is a JSON number that is an integer of at most 2^53: its own canonical form.
func isSmallInteger(raw []byte) bool {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	const most = "9007199254740992"
	if len(digits) == 0 || len(digits) > len(most) || len(digits) == len(most) && string(digits) > most || digits[0] == '0' && len(raw) > 1 {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// appendNumber appends a finite double as ECMA-262 prints it (Number::toString, base 10), which is RFC 8785's form.
func appendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// strconv writes at least two exponent digits, ECMA-262 no leading zero.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// A decimal is the exact value of a JSON number: significant digits without zeros at either end, and the power of ten of
// the last of them. No double's shortest form has more than 17 digits. Zero is the zero decimal.
type decimal struct {
	negative bool
	digits   [17]byte
	n        int
	exp      int
}

// decimalOf reads a JSON number without arithmetic that could round. ok is false for one that is no double's shortest form.
func decimalOf(raw []byte) (d decimal, ok bool) {
	zeros, fraction, end := 0, 0, len(raw)
	for i, c := range raw {
		switch c {
		case '-':
			d.negative = true
		case '.':
			fraction = i + 1
		case 'e', 'E':
			end = i
		case '0':
			zeros++
		default:
			if d.n == 0 {
				zeros = 0
			}
			if d.n+zeros >= len(d.digits) {
				return d, false
			}
			for ; zeros > 0; zeros-- {
				d.digits[d.n] = '0'
				d.n++
			}
			d.digits[d.n] = c
			d.n++
		}
		if end < len(raw) {
			break
		}
	}
	if d.n == 0 {
		return decimal{}, true
	}
	if end < len(raw) {
		exp, err := strconv.Atoi(string(bytes.TrimPrefix(raw[end+1:], []byte("+"))))
		if err != nil {
			return d, false
		}
		d.exp = exp
	}
	if fraction > 0 {
		d.exp -= end - fraction
	}
	d.exp += zeros
	return d, true
}
