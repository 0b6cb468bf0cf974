package scan

import (
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The notations that unescape reads, as bits, and the order in which a path names them.
const (
	asEntity = 1 << iota
	asPercent
	asEscape
)

func escapesName(kinds int) string {
	var names []string
	for i, n := range [...]string{"html", "percent", "escape"} {
		if kinds>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// unescape scans l with its character references, percent codes and backslash escapes replaced by what they stand for.
func (r *run) unescape(l *layer) {
	if !strings.ContainsAny(l.text, `%&\`) && !strings.Contains(l.text, "U+") {
		return
	}
	u := unescaper{s: l.text}
	if !u.run(r) || u.kinds == 0 || !r.alive() {
		return
	}
	c := &layer{text: string(u.out), path: via(l.path, escapesName(u.kinds)), depth: l.depth + 1, parent: l, pieces: u.pieces}
	if c.depth > maxDepth {
		r.stop(UnscannableDepth)
		return
	}
	r.scan(c)
}

// An unescaper builds the replaced text.
type unescaper struct {
	s      string
	out    []byte
	done   int // how much of s is in out
	pieces []piece
	kinds  int
}

// run reads all of s and reports whether it got to the end.
func (u *unescaper) run(r *run) bool {
	check := checkEvery
	for i := 0; i < len(u.s); {
		if i >= check {
			if !r.alive() {
				return false
			}
			check = i + checkEvery
		}
		n := 0
		switch u.s[i] {
		case '%':
			n = u.percent(i)
		case '&':
			n = u.entity(i)
		case '\\':
			n = u.backslash(i)
		case 'U':
			n = u.codePoint(i)
		}
		i += max(n, 1)
	}
	u.out = append(u.out, u.s[u.done:]...)
	return true
}

// replace puts b in the place of n bytes at i.
func (u *unescaper) replace(i, n int, b []byte, kind int) int {
	u.out = append(u.out, u.s[u.done:i]...)
	from := len(u.out)
	u.out = append(u.out, b...)
	u.done = i + n
	u.kinds |= kind
	// Replacements side by side are one piece, up to a size that keeps places exact enough.
	const most = 16
	if p := len(u.pieces) - 1; p >= 0 && u.pieces[p].inEnd == i && from-u.pieces[p].out < most {
		u.pieces[p].outEnd, u.pieces[p].inEnd = len(u.out), i+n
		return n
	}
	u.pieces = append(u.pieces, piece{from, len(u.out), i, i + n})
	return n
}

// hexAt reads exactly n hexadecimal digits at i.
func (u *unescaper) hexAt(i, n int) (rune, bool) {
	if i+n > len(u.s) {
		return 0, false
	}
	var v rune
	for _, c := range []byte(u.s[i : i+n]) {
		d := nibble(c)
		if d > 15 {
			return 0, false
		}
		v = v<<4 | rune(d)
	}
	return v, true
}

// byteAt reads two hexadecimal digits at i.
func (u *unescaper) byteAt(i int) (byte, bool) {
	if i+2 > len(u.s) {
		return 0, false
	}
	a, b := nibble(u.s[i]), nibble(u.s[i+1])
	return a<<4 | b, a < 16 && b < 16
}

func (u *unescaper) percent(i int) int {
	if v, ok := u.byteAt(i + 1); ok {
		return u.replace(i, 3, []byte{v}, asPercent)
	}
	if i+1 < len(u.s) && u.s[i+1]|0x20 == 'u' {
		if v, ok := u.hexAt(i+2, 4); ok {
			return u.replace(i, 6, utf8.AppendRune(nil, v), asPercent)
		}
	}
	return 0
}

// entity reads a character reference; a numeric one may lack its semicolon.
func (u *unescaper) entity(i int) int {
	const longest = 33
	s := u.s[i:min(len(u.s), i+longest)]
	n := strings.IndexByte(s, ';') + 1
	if n == 0 && strings.HasPrefix(s, "&#") {
		for n = 2; n < len(s) && (alnum(s[n])); n++ {
		}
	}
	if n < 3 {
		return 0
	}
	if out := html.UnescapeString(s[:n]); out != s[:n] {
		return u.replace(i, n, []byte(out), asEntity)
	}
	return 0
}

// backslash reads the escapes of JSON, JavaScript, Python, C and Go. The plain ones count only beside others.
func (u *unescaper) backslash(i int) int {
	if i+1 >= len(u.s) {
		return 0
	}
	switch c := u.s[i+1]; c {
	case 'x':
		if v, ok := u.byteAt(i + 2); ok {
			return u.replace(i, 4, []byte{v}, asEscape)
		}
	case 'u':
		return u.unicodeEscape(i)
	case 'U':
		if v, ok := u.hexAt(i+2, 8); ok {
			return u.replace(i, 10, utf8.AppendRune(nil, v), asEscape)
		}
	case 'n', 'r', 't':
		return u.replace(i, 2, []byte{' '}, 0)
	case '"', '/':
		return u.replace(i, 2, []byte{c}, 0)
	case '\\':
		kind := 0
		if i+2 < len(u.s) && strings.IndexByte("uUx", u.s[i+2]) >= 0 {
			kind = asEscape
		}
		return u.replace(i, 2, []byte{c}, kind)
	case '0', '1':
		if v, ok := octal(u.s[i+1:]); ok {
			return u.replace(i, 4, []byte{v}, asEscape)
		}
	}
	return 0
}

// unicodeEscape reads \uXXXX, a surrogate pair of them, or \u{…}.
func (u *unescaper) unicodeEscape(i int) int {
	if v, ok := u.hexAt(i+2, 4); ok {
		if utf16.IsSurrogate(v) && strings.HasPrefix(u.s[i+6:], `\u`) {
			if low, ok := u.hexAt(i+8, 4); ok {
				return u.replace(i, 12, utf8.AppendRune(nil, utf16.DecodeRune(v, low)), asEscape)
			}
		}
		return u.replace(i, 6, utf8.AppendRune(nil, v), asEscape)
	}
	if i+2 < len(u.s) && u.s[i+2] == '{' {
		for n := 1; n <= 6; n++ {
			if v, ok := u.hexAt(i+3, n); ok && i+3+n < len(u.s) && u.s[i+3+n] == '}' {
				return u.replace(i, n+4, utf8.AppendRune(nil, v), asEscape)
			}
		}
	}
	return 0
}

func octal(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	a, b, c := s[0]-'0', s[1]-'0', s[2]-'0'
	return a<<6 | b<<3 | c, a < 4 && b < 8 && c < 8
}

// codePoint reads U+0069.
func (u *unescaper) codePoint(i int) int {
	if i+1 >= len(u.s) || u.s[i+1] != '+' {
		return 0
	}
	for n := 6; n >= 4; n-- {
		if v, ok := u.hexAt(i+2, n); ok && !invisible(v) { // a name for an invisible character hides nothing
			return u.replace(i, n+2, utf8.AppendRune(nil, v), asEscape)
		}
	}
	return 0
}
