package vault

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A span is where a secret stands in a text.
type span struct{ from, to, of int }

// find returns the spans of all secrets, in order; none overlap.
func (s *Scrubber) find(text []byte) []span {
	if s == nil || s.table == nil {
		return nil
	}
	t := s.table()
	plain, at := unescape(text)
	out := t.spans(plain)
	if at != nil {
		for i, p := range out {
			out[i].from, out[i].to = int(at[p.from]), int(at[p.to])
		}
		out = append(out, t.raw(text)...)
	} else if t.escaped {
		out = append(out, t.raw(text)...)
	}
	return merge(out)
}

// merge makes one of spans that overlap.
func merge(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return (a.from-b.from)*2 + sign(b.to-a.to) })
	out := all[:0]
	for _, p := range all {
		if n := len(out); n > 0 && p.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, p.to)
			continue
		}
		out = append(out, p)
	}
	return out
}

func sign(n int) int { return min(1, max(-1, n)) }

// raw finds the secrets as they are: what undoes escapes takes something for one that belongs to the secret, or to what is
// before it.
func (t *table) raw(text []byte) []span {
	var out []span
	for _, n := range t.needles {
		if n.form != rawForm {
			continue
		}
		for last := 0; ; {
			i := bytes.Index(text[last:], []byte(n.text))
			if i < 0 {
				break
			}
			out = append(out, span{last + i, last + i + len(n.text), n.of})
			last += i + len(n.text)
		}
	}
	return out
}

// spans finds the other forms in a text without escapes.
func (t *table) spans(text []byte) []span {
	var out []span
	last := 0 // the end of the last span
	for i := 0; i < len(text); i++ {
		best := span{}
		for _, k := range t.starts[text[i]] {
			n := &t.needles[k]
			from, to := i, n.match(text, i)
			if to < 0 {
				continue
			}
			if n.form == base64Form { // the characters at its ends hold parts of it
				for from > last && isBase64(text[from-1]) {
					from--
				}
				for to < len(text) && isBase64(text[to]) {
					to++
				}
			}
			if to-from > best.to-best.from {
				best = span{from, to, n.of}
			}
		}
		if best.to > 0 {
			out = append(out, best)
			last = best.to
			i = last - 1
		}
	}
	return out
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}

// match returns where the needle ends that begins at i, -1 if it doesn't.
func (n *needle) match(text []byte, i int) int {
	switch n.form {
	case plainForm:
		if bytes.HasPrefix(text[i:], []byte(n.text)) {
			return i + len(n.text)
		}
	case hexForm:
		if i+len(n.text) <= len(text) && bytes.EqualFold(text[i:i+len(n.text)], []byte(n.text)) {
			return i + len(n.text)
		}
	case base64Form:
		for k := range len(n.text) {
			if k > 0 {
				i = lineBreak(text, i)
			}
			if i >= len(text) || standard(text[i]) != n.text[k] {
				return -1
			}
			i++
		}
		return i
	case rawForm:
	}
	return -1
}

// lineBreak steps over what breaks base64 into lines, escaped or not.
func lineBreak(text []byte, at int) int {
	for at < len(text) {
		switch c := text[at]; {
		case c == '\n' || c == '\r' || c == '\t':
			at++
		case c == '\\' && at+1 < len(text) && (text[at+1] == 'n' || text[at+1] == 'r'):
			at += 2
		default:
			return at
		}
	}
	return at
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// standard maps the URL alphabet of base64 to the other, and what unescape makes of a plus.
func standard(c byte) byte {
	switch c {
	case '-', ' ':
		return '+'
	case '_':
		return '/'
	}
	return c
}

// unescape undoes the escapes of JSON, URLs, forms, HTML and shells, as often as there are any: what it makes of a text is the
// same however often that was escaped. at says where each byte, and the end, comes from; nil if nothing was changed. Time and
// memory are linear.
func unescape(text []byte) (plain []byte, at []int32) {
	if !bytes.ContainsAny(text, `%\&+`) {
		return text, nil
	}
	u := unescaper{plain: make([]byte, 0, len(text)), at: make([]int32, 0, len(text)+1)}
	for i, c := range text {
		if c == '+' {
			c = ' '
		}
		u.plain, u.at = append(u.plain, c), append(u.at, int32(i))
		for u.reduce() {
		}
	}
	return u.plain, append(u.at, int32(len(text))) //nolint:gosec // texts are far smaller than 2 GiB
}

type unescaper struct {
	plain []byte
	at    []int32
}

// reduce replaces an escape that ends where the text ends. What takes its place may end another.
func (u *unescaper) reduce() bool {
	b := u.plain
	n := len(b)
	last := b[n-1]
	if n >= 2 && b[n-2] == '\\' && last < 0x80 && last > ' ' && !isWord(last) && last != '%' && last != '&' {
		return u.replace(2, rune(last)) // a run of backslashes becomes one, and goes with what it escapes
	}
	if last == ';' {
		return u.entity()
	}
	if _, ok := digit(last); !ok {
		return false
	}
	if n >= 3 && b[n-3] == '%' {
		if c, ok := number(b[n-2:]); ok {
			return u.byte(3, byte(c)) //nolint:gosec // two digits
		}
	}
	if n >= 4 && b[n-4] == '\\' && b[n-3] == 'x' {
		if c, ok := number(b[n-2:]); ok {
			return u.byte(4, byte(c)) //nolint:gosec // two digits
		}
	}
	if n < 6 || b[n-6] != '\\' || b[n-5] != 'u' {
		return false
	}
	c, ok := number(b[n-4:])
	if !ok {
		return false
	}
	if !utf16.IsSurrogate(c) {
		return u.replace(6, c)
	}
	if n < 12 || b[n-12] != '\\' || b[n-11] != 'u' {
		return false // the first of two, or one alone
	}
	high, ok := number(b[n-10 : n-6])
	if r := utf16.DecodeRune(high, c); ok && r != utf8.RuneError {
		return u.replace(12, r)
	}
	return false
}

// replace puts a character in the place of the last bytes.
func (u *unescaper) replace(size int, r rune) bool {
	n := len(u.plain) - size
	from := u.at[n]
	if r == '+' {
		r = ' '
	}
	u.plain = utf8.AppendRune(u.plain[:n], r)
	for u.at = u.at[:n]; len(u.at) < len(u.plain); {
		u.at = append(u.at, from)
	}
	return true
}

// byte puts a byte, which may be a part of a character, in the place of the last ones.
func (u *unescaper) byte(size int, c byte) bool {
	n := len(u.plain) - size
	if c == '+' {
		c = ' '
	}
	u.plain, u.at = append(u.plain[:n], c), u.at[:n+1]
	return true
}

// maxEntity is the length of the longest entity that is known.
const maxEntity = 10

func (u *unescaper) entity() bool {
	from := max(0, len(u.plain)-maxEntity)
	i := bytes.LastIndexByte(u.plain[from:], '&')
	if i < 0 {
		return false
	}
	word := string(u.plain[from+i+1 : len(u.plain)-1])
	var r rune
	switch word {
	case "amp":
		r = '&'
	case "lt":
		r = '<'
	case "gt":
		r = '>'
	case "quot":
		r = '"'
	case "apos":
		r = '\''
	case "nbsp":
		r = ' '
	default:
		r = reference(word)
	}
	if r == 0 {
		return false
	}
	return u.replace(len(word)+2, r)
}

// reference reads a numbered entity, "#38" or "#x26"; 0 for none.
func reference(word string) rune {
	digits, ok := strings.CutPrefix(word, "#")
	if !ok || digits == "" {
		return 0
	}
	if x, ok := strings.CutPrefix(lowerFirst(digits), "x"); ok {
		r, valid := number([]byte(x))
		if !valid || r > utf8.MaxRune {
			return 0
		}
		return r
	}
	r := rune(0)
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0
		}
		r = r*10 + rune(c-'0')
	}
	if r > utf8.MaxRune {
		return 0
	}
	return r
}

func lowerFirst(s string) string { return string(lower(s[0])) + s[1:] }

// number reads hexadecimal digits, at most 7.
func number(digits []byte) (n rune, ok bool) {
	for _, c := range digits {
		d, ok := digit(c)
		if !ok {
			return 0, false
		}
		n = n<<4 | d
	}
	return n, len(digits) > 0 && len(digits) < 8
}

func digit(c byte) (rune, bool) {
	switch c = lower(c); {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	}
	return 0, false
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
