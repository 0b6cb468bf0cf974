package counterfoil

import (
	"math"
	"math/bits"
	"strconv"
)

// This file reads and writes the numbers of JSON texts.

// A numberRule says what happens to a number that a double can't hold exactly as written.
type numberRule byte

const (
	numbersExact numberRule = iota + 1
	numbersRounded
)

// number appends the canonical form of a JSON number, if the rule accepts it.
func (c *canonicalizer) number(dst, raw []byte) ([]byte, *Error) {
	if out, ok := appendExact(dst, raw); ok {
		return out, nil
	}
	if c.rule == numbersRounded && isHard(raw) {
		if c.hard++; c.hard > maxHardNumbers {
			return dst, fail(CodeInvalidInput, "the document has more than "+strconv.Itoa(maxHardNumbers)+" numbers that are hard to round")
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil:
		return dst, fail(CodeInvalidInput, "a number is too large for a double")
	case c.rule == numbersRounded:
		return appendNumber(dst, f), nil
	case f == 0 && raw[0] == '-':
		return dst, fail(CodeInvalidInput, "minus zero is not accepted")
	default:
		return dst, fail(CodeInvalidInput, "a number has more digits than a double can hold; send it as a string")
	}
}

// appendExact appends the canonical form of a JSON number that has the same value. ok is false for a number that would be
// rounded, and for -0. It takes no number for longer than it takes to read it: strconv needs hundreds of times longer
// than that for the smallest doubles.
func appendExact(dst, raw []byte) (out []byte, ok bool) {
	d, ok := decimalOf(raw)
	switch point := d.n + d.exp; {
	case !ok || d.n == 0 && raw[0] == '-':
		return dst, false
	case d.n == 0:
		return append(dst, '0'), true
	case d.n <= 15 && point > minPoint && point <= maxPoint:
		return d.append(dst), true // fifteen digits survive a double, and no fewer digits are the same double
	}
	f, ok := d.double(raw)
	if !ok {
		return dst, false
	}
	out = appendNumber(dst, f)
	printed, _ := decimalOf(out[len(dst):])
	return out, printed == d
}

// maxHardNumbers bounds the numbers of one document that are rounded by long arithmetic, which takes tens of
// microseconds each.
const maxHardNumbers = 64

// isHard reports whether strconv may need long arithmetic to round a number.
func isHard(raw []byte) bool {
	if _, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
		return false
	}
	d, ok := decimalOf(raw)
	return !ok || d.n > 0 && d.n+d.exp <= minPoint
}

// skipSmallInteger returns the offset past the integer of at most 2^53 that begins at b[i], which is its own canonical form,
// or i if there is none.
func skipSmallInteger(b []byte, i int) int {
	from, n := i, uint64(0)
	if from < len(b) && b[from] == '-' {
		from++
	}
	end := from
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		n = n*10 + uint64(b[end]-'0')
		end++
	}
	switch {
	case end == from, end-from > len("9007199254740992"), n > 1<<53, b[from] == '0' && end-i > 1:
		return i
	case end < len(b) && (b[end] == '.' || b[end]|0x20 == 'e'):
		return i
	}
	return end
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

// A decimal is the exact value of a JSON number: its significant digits without zeros at either end, read as an integer,
// their count, and the power of ten of the last of them. No double's shortest form has more than 17 digits. Zero is the zero
// decimal.
type decimal struct {
	value    uint64
	n        int
	exp      int
	negative bool
}

const maxDigits = 17

// decimalOf reads a JSON number without arithmetic that could round. ok is false for one that is no double's shortest form.
func decimalOf(raw []byte) (d decimal, ok bool) {
	zeros, fraction, end := 0, 0, len(raw)
	for i := 0; i < end; i++ {
		switch c := raw[i]; {
		case c == '0':
			zeros++
		case c >= '1' && c <= '9':
			if d.n == 0 {
				zeros = 0
			}
			if d.n += zeros + 1; d.n > maxDigits {
				return d, false
			}
			for ; zeros > 0; zeros-- {
				d.value *= 10
			}
			d.value = d.value*10 + uint64(c-'0')
		case c == '-':
			d.negative = true
		case c == '.':
			fraction = i + 1
		case c|0x20 == 'e':
			end = i
		default:
			return d, false // no number: the short cut asks about any text
		}
	}
	if d.n == 0 {
		return decimal{}, len(raw) > 0
	}
	if fraction > 0 {
		d.exp -= end - fraction
	}
	d.exp += zeros
	if end < len(raw) {
		exp, ok := exponentOf(raw[end+1:])
		d.exp += exp
		return d, ok
	}
	return d, true
}

// exponentOf reads an exponent. ok is false for one so long that no double's own form has it.
func exponentOf(b []byte) (n int, ok bool) {
	i, negative := 0, false
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		i, negative = 1, b[0] == '-'
	}
	ok = i < len(b)
	for ; i < len(b); i++ {
		if b[i] < '0' || b[i] > '9' || n > MaxArgumentBytes {
			return 0, false
		}
		n = n*10 + int(b[i]-'0')
	}
	if negative {
		return -n, ok
	}
	return n, ok
}

// Doubles from 10^minPoint up are normal, and 10^maxPoint is one.
const (
	minPoint = -307
	maxPoint = 308
)

// double returns the double whose shortest form d may be, d being what raw says. ok is false if there is none.
func (d *decimal) double(raw []byte) (f float64, ok bool) {
	if d.n+d.exp <= minPoint {
		n := d.smallest()
		if f = math.Float64frombits(n); d.negative {
			f = -f
		}
		if n < 1<<53 { // beyond, doubles are further apart, and strconv is fast
			return f, n > 0
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// smallest returns how many of the smallest double, 2^-1074, a decimal below 10^minPoint is. It is zero for a decimal with
// digits beyond 10^-324: that is the shortest form of none. An error in the last place could only refuse a number, as what is
// printed is compared with what was written; strconv's long arithmetic would take hundreds of times longer.
func (d *decimal) smallest() uint64 {
	if d.exp < -324 {
		return 0
	}
	m := d.value // of 10^-324
	for range d.exp + 324 {
		m *= 10
	}
	const high, low = 0x33d0a25297738d7a, 0x9481932b20a19d6e // 2^1074/10^324, in units of 2^-64 and 2^-128
	n, part := bits.Mul64(m, high)
	rest, _ := bits.Mul64(m, low)
	part, carry := bits.Add64(part, rest, 0)
	return n + carry + part>>63
}

// append appends a decimal other than zero in the form of appendNumber.
func (d *decimal) append(dst []byte) []byte {
	if d.negative {
		dst = append(dst, '-')
	}
	var buffer [20]byte
	digits, point := strconv.AppendUint(buffer[:0], d.value, 10), d.n+d.exp
	switch {
	case point > 21 || point <= -6:
		dst = append(dst, digits[0])
		if d.n > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		dst = append(dst, 'e')
		if point > 0 {
			dst = append(dst, '+')
		}
		return strconv.AppendInt(dst, int64(point-1), 10)
	case point <= 0:
		return append(appendZeros(append(dst, '0', '.'), -point), digits...)
	case point >= d.n:
		return appendZeros(append(dst, digits...), point-d.n)
	default:
		return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
	}
}

func appendZeros(dst []byte, n int) []byte { return append(dst, "00000000000000000000"[:n]...) }
