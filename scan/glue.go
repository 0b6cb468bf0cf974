package scan

import (
	"strings"
	"unicode/utf8"
)

// joint reports how many bytes join the word that ends at e to the one after it, 0 if they are two words. single says
// that the word before is one character.
func (t *tokenizer) joint(e int, single bool) int {
	if e >= len(t.s) {
		return 0
	}
	n := 0
	c := t.s[e]
	if len(t.pieces) > 1 && c != t.joiner && (c == ' ' || t.joiner == ' ') {
		return 0 // spaces between letters, or spaces between words of letters with something else between them
	}
	switch c {
	case '.', '-', '_', '*', '`', '~', '|', '\\', '/', '+', ',', '^', '$', '@', '!':
		for n = 1; n < 2 && e+n < len(t.s) && t.s[e+n] == c; n++ {
		}
		if c == '-' && e+1 < len(t.s) && t.s[e+1] == '\n' { // a word broken at the end of a line
			for n = 2; n < 16 && e+n < len(t.s) && t.s[e+n] == ' '; n++ {
			}
		}
	case '"', '\'':
		n = literalGap(t.s[e:])
	case '<':
		if n = tagLength(t.s[e:]); n > 0 && !t.parts {
			t.marker(c, e, e+1)
		}
	case ' ':
		if single && t.alone(e+1) {
			n = 1
		}
	}
	if n == 0 || !t.wordAt(e+n) {
		return 0
	}
	t.joiner = c
	t.escaped = c == '\\' && n == 1 && strings.IndexByte("nrt", t.s[e+1]) >= 0
	return n
}

// literalGap returns the length of what joins two string literals of a program, or of the one quotation mark, that s begins with.
func literalGap(s string) int {
	const most = 16
	for n := 1; n < len(s) && n < most; n++ {
		switch s[n] {
		case ' ', '+', '.', '&', '\n', '\t':
		case s[0]:
			return n + 1
		default:
			return 1
		}
	}
	return 1
}

// tagLength returns the length of the HTML tag or comment that s begins with, 0 if it begins with none that is short.
func tagLength(s string) int {
	const most = 64
	s = s[:min(len(s), most)]
	if len(s) < 3 || !alnum(s[1]) && s[1] != '/' && s[1] != '!' {
		return 0
	}
	if end := strings.IndexByte(s, '>'); end > 0 && strings.IndexByte(s[1:end], '<') < 0 {
		return end + 1
	}
	return 0
}

// wordAt reports whether a word begins at i.
func (t *tokenizer) wordAt(i int) bool {
	if i >= len(t.s) {
		return false
	}
	if c := t.s[i]; c < utf8.RuneSelf {
		return alnum(c)
	}
	r, _ := utf8.DecodeRuneInString(t.s[i:])
	k, out := t.foldRune(t.buf[:0], r)
	t.buf = out
	return k == kindWord
}

// alone reports whether a word of a single character stands at i.
func (t *tokenizer) alone(i int) bool {
	if !t.wordAt(i) {
		return false
	}
	_, n := utf8.DecodeRuneInString(t.s[i:])
	return !t.wordAt(i + n)
}

// glue takes the pieces for the letters of one word, or of several if each is a single letter, and if that makes sense
// puts those words in the place of the pieces.
func (t *tokenizer) glue() {
	if t.single || t.letters <= 2*t.dict.longest {
		t.gather(t.pieces)
		last := t.pieces[len(t.pieces)-1].to
		if m, ok := t.whole(); ok {
			t.rewind()
			t.emit(m, t.pieces[0].from, last)
			t.token++
			return
		}
		if t.single && len(t.buf) > 5 {
			t.rewind()
			t.segment(last)
			return
		}
	}
	if len(t.hits[plain]) == t.runHits[plain] {
		t.token = t.runToken + 1 // one word, whichever
	}
}

// whole looks up all the gathered letters as one word.
func (t *tokenizer) whole() (meaning, bool) {
	if len(t.buf) > t.dict.longest {
		return meaning{}, false
	}
	if m, ok := t.dict.find(hashOf(t.buf)); ok {
		return m, true
	}
	return t.leet(string(t.buf))
}

// rewind forgets what the pieces meant each for itself.
func (t *tokenizer) rewind() {
	t.token = t.runToken
	for f, n := range t.runHits {
		t.hits[f] = t.hits[f][:n]
	}
}

// gather puts the folded letters of pieces into buf, and where each byte came from into pos. Between the pieces, a
// mark that stands for a letter counts as that letter.
func (t *tokenizer) gather(pieces []span) {
	buf, pos := t.buf[:0], t.pos[:0]
	for i, p := range pieces {
		if i > 0 {
			if at := pieces[i-1].to; p.from == at+1 {
				if c := symbolLetter(t.s[at]); c != 0 {
					buf, pos = append(buf, c), append(pos, at)
				}
			}
		}
		for at, r := range t.s[p.from:p.to] {
			if r != '\'' && r != '’' {
				_, buf = t.foldRune(buf, r)
			}
			for len(pos) < len(buf) {
				pos = append(pos, p.from+at)
			}
		}
	}
	t.buf, t.pos = buf, pos
}

// symbolLetter returns the letter that c is written for, 0 if none.
func symbolLetter(c byte) byte {
	switch c {
	case '$':
		return 's'
	case '@':
		return 'a'
	case '!':
		return 'i'
	}
	return 0
}

// leetLetter returns the letter that a digit is written for. One is an i or an l.
func leetLetter(c, one byte) byte {
	switch c {
	case '0':
		return 'o'
	case '1':
		return one
	case '3':
		return 'e'
	case '4':
		return 'a'
	case '5':
		return 's'
	case '7':
		return 't'
	case '8':
		return 'b'
	}
	return c
}

// leet looks a word up with its digits read as letters.
func (t *tokenizer) leet(w string) (meaning, bool) {
	if len(w) > 2*t.dict.longest {
		return meaning{}, false
	}
	for _, one := range [...]byte{'i', 'l'} {
		h := hashStart
		for at, r := range w {
			switch {
			case r == '\'' || r == '’':
			case r < utf8.RuneSelf:
				h = h.add(leetLetter(lower(w[at]), one))
			default:
				var space [64]byte
				_, out := t.foldRune(space[:0], r)
				for _, b := range out {
					h = h.add(b)
				}
			}
		}
		if m, ok := t.dict.find(h); ok {
			return m, true
		}
	}
	return meaning{}, false
}

// segment finds the words in the row of letters gathered last, which ends at end in the text.
func (t *tokenizer) segment(end int) {
	unknown := 0
	for i := 0; i < len(t.buf); {
		m, n := t.longestAt(i)
		if n == 0 {
			if unknown++; unknown%5 == 0 {
				t.token++
			}
			i++
			continue
		}
		unknown = 0
		stop := end
		if i+n < len(t.pos) {
			stop = t.pos[i+n]
		}
		t.emit(m, t.pos[i], stop)
		t.token++
		i += n
	}
	t.token++
}

// longestAt returns the longest known word of three letters or more that begins at buf[i], and its length.
func (t *tokenizer) longestAt(i int) (meaning, int) {
	var best meaning
	size := 0
	w := t.buf[i:min(len(t.buf), i+t.dict.longest)]
	if len(w) < 3 {
		return best, 0
	}
	for _, one := range [...]byte{'i', 'l'} {
		if !t.dict.begins(leetLetter(w[0], one), leetLetter(w[1], one), leetLetter(w[2], one)) {
			continue
		}
		h := hashStart
		for n, c := range w {
			h = h.add(leetLetter(c, one))
			if n < 2 || n < size {
				continue
			}
			if m, ok := t.dict.find(h); ok {
				best, size = m, n+1
			}
		}
	}
	return best, size
}

func lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}
