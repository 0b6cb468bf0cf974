package vault

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A span is where a secret stands in a text.
type span struct{ from, to, of int }

// find returns the spans of all secrets, in order; none overlap.
func (s *Scrubber) find(text []byte) []span {
	if s == nil {
		return nil
	}
	var out []span
	last := 0 // the end of the last span
	for i := 0; i < len(text); i++ {
		best := span{}
		for _, k := range s.starts[text[i]] {
			n := &s.needles[k]
			to := n.match(text, i)
			if to < 0 {
				continue
			}
			from := i
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

// maxStates bounds in how many ways a text is read at once.
const maxStates = 64

// match returns where the needle ends that begins at i, -1 if it doesn't. A character may be written in several ways, and what is
// read so far can end in several places: all are followed.
func (n *needle) match(text []byte, i int) int {
	ends := append(make([]int, 0, 8), i)
	next := make([]int, 0, 8)
	for k, size := 0, 0; k < len(n.text); k += size {
		var r rune
		r, size = utf8.DecodeRuneInString(n.text[k:])
		next = next[:0]
		for _, at := range ends {
			next = n.units(next, text, at, k > 0, r, n.text[k:k+size])
		}
		if len(next) == 0 {
			return -1
		}
		ends, next = next, ends
	}
	return slices.Max(ends)
}

// units adds the ends of all ways to write the character at a place.
func (n *needle) units(ends []int, text []byte, at int, inside bool, r rune, raw string) []int {
	if n.form == base64Form && inside {
		at = lineBreak(text, at)
	}
	if at >= len(text) {
		return ends
	}
	add := func(end int) {
		if end > at && len(ends) < maxStates && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	c := text[at]
	if n.form == hexForm {
		if lower(c) == raw[0] {
			add(at + 1)
		}
		return ends
	}
	if strings.HasPrefix(string(text[at:min(len(text), at+len(raw))]), raw) || n.form == base64Form && standard(c) == raw[0] {
		add(at + len(raw))
	}
	switch c {
	case '+':
		if r == ' ' {
			add(at + 1)
		}
	case '%':
		add(percent(text, at, raw))
		if n.form == base64Form && raw == "+" {
			add(percent(text, at, "-"))
		}
	case '&':
		add(entity(text, at, r))
	case '\\':
		for _, end := range backslash(text, at, r) {
			add(end)
		}
	}
	return ends
}

// lineBreak steps over what breaks base64 into lines, escaped or not.
func lineBreak(text []byte, at int) int {
	for at < len(text) {
		switch c := text[at]; {
		case c == '\n' || c == '\r' || c == ' ' || c == '\t':
			at++
		case c == '\\' && at+1 < len(text) && (text[at+1] == 'n' || text[at+1] == 'r'):
			at += 2
		default:
			return at
		}
	}
	return at
}

// percent returns the end of a character that is percent-encoded, once or several times over; 0 if it isn't there.
func percent(text []byte, at int, raw string) int {
	for i := range len(raw) {
		if at >= len(text) || text[at] != '%' {
			return 0
		}
		at++
		for range 4 {
			if c, ok := hexByte(text, at); !ok || c == raw[i] || c != '%' {
				break
			}
			at += 2
		}
		if c, ok := hexByte(text, at); !ok || c != raw[i] {
			return 0
		}
		at += 2
	}
	return at
}

func hexByte(text []byte, at int) (byte, bool) {
	n, ok := hexDigits(text, at, 2)
	return byte(n), ok //nolint:gosec // two digits
}

func hexDigits(text []byte, at, count int) (n rune, ok bool) {
	if at+count > len(text) {
		return 0, false
	}
	for _, c := range text[at : at+count] {
		switch c = lower(c); {
		case '0' <= c && c <= '9':
			n = n<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | rune(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// entity returns the end of a character of HTML; 0 if it isn't there.
func entity(text []byte, at int, r rune) int {
	word, _, ok := strings.Cut(string(text[at:min(len(text), at+12)]), ";")
	if !ok {
		return 0
	}
	end := at + len(word) + 1
	switch named := map[string]rune{"&amp": '&', "&lt": '<', "&gt": '>', "&quot": '"', "&apos": '\'', "&nbsp": ' '}; {
	case named[word] != 0:
		if named[word] == r {
			return end
		}
		return 0
	case strings.HasPrefix(word, "&#x"), strings.HasPrefix(word, "&#X"):
		if n, ok := hexDigits([]byte(word), 3, len(word)-3); ok && n == r {
			return end
		}
	case strings.HasPrefix(word, "&#"):
		n := rune(0)
		for _, c := range []byte(word[2:]) {
			if c < '0' || c > '9' {
				return 0
			}
			n = n*10 + rune(c-'0')
		}
		if n == r {
			return end
		}
	}
	return 0
}

// maxSlashes is how many backslashes an escape may have before it: three times over there are eight.
const maxSlashes = 16

// backslash returns the ends of the ways to write a character behind backslashes.
func backslash(text []byte, at int, r rune) []int {
	count := 0
	for at+count < len(text) && count < maxSlashes && text[at+count] == '\\' {
		count++
	}
	if r == '\\' {
		var out []int
		for n := 2; n <= count; n *= 2 {
			out = append(out, at+n)
		}
		return out
	}
	at += count
	if at >= len(text) {
		return nil
	}
	switch c := text[at]; {
	case c == 'u':
		n, ok := hexDigits(text, at+1, 4)
		end := at + 5
		if ok && utf16.IsSurrogate(n) {
			for end < len(text) && text[end] == '\\' {
				end++
			}
			low, paired := hexDigits(text, end+1, 4)
			if !paired || text[end] != 'u' {
				return nil
			}
			n, end = utf16.DecodeRune(n, low), end+5
		}
		if ok && n == r {
			return []int{end}
		}
	case c == 'x':
		if n, ok := hexDigits(text, at+1, 2); ok && n == r {
			return []int{at + 3}
		}
	case rune(c) == r && c < 0x80 && !isBase64Letter(c):
		return []int{at + 1}
	}
	return nil
}

func isBase64Letter(c byte) bool { return isBase64(c) && strings.IndexByte("+/-_=", c) < 0 }
