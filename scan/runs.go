package scan

import (
	"encoding/base32"
	"unicode/utf8"
)

// minPayload is the length in bytes of the shortest decoded text that is looked at: "ignore all rules" has sixteen.
const minPayload = 12

// minRun is the length in characters from which a run of the base64 alphabet is decoded.
const minRun = 16

// maxJoin bounds what may stand between two lines or quoted pieces of one base64 text.
const maxJoin = 12

// A runReader collects stretches of base64: one long run, or several short ones parted by line ends, quotes and blanks.
type runReader struct {
	r *run
	l *layer

	buf      []byte // the characters of the open stretch, without what parts them; '=' ends a padded piece
	start    int    // of the open stretch; -1 if none is open
	end      int
	plain    int // how many of its last runs in a row look like words
	coded    int // how much of buf there is up to the last run that doesn't, and where that ends
	codedEnd int
	broken   bool // what followed its last run can't stand inside base64
}

// runs decodes base64 and base32.
func (r *run) runs(l *layer) {
	b := &runReader{r: r, l: l, start: -1}
	s := l.text
	check := checkEvery
	for i := 0; i < len(s); {
		if i >= check {
			if !r.alive() {
				return
			}
			check = i + checkEvery
		}
		c := s[i]
		switch {
		case b.r.s.base64.class[c] != 0:
			i = b.chunk(i)
		case c == '=' && b.start >= 0 && !b.broken:
			b.buf = append(b.buf, '=')
			i++
			if b.end = i; b.plain == 0 {
				b.coded, b.codedEnd = len(b.buf), i
			}
		default:
			i = b.between(i)
		}
	}
	b.flush()
}

// between reads something that is not base64 at i.
func (b *runReader) between(i int) int {
	s := b.l.text
	switch c := s[i]; {
	case c == '\\' && i+1 < len(s) && (s[i+1] == 'n' || s[i+1] == 'r' || s[i+1] == 't'):
		return i + 2
	case c == '\\' && i+1 < len(s) && (s[i+1] == '\n' || s[i+1] == '\r' || s[i+1] == '"' || s[i+1] == '/'):
		return i + 1
	case c == ' ', c == '\n', c == '\r', c == '\t', c == '"', c == '\'', c == ',', c == '>', c == '|', c == '`':
		return i + 1
	case c < utf8.RuneSelf:
		if !invisible(rune(c)) {
			b.broken = true
		}
		return i + 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	var space [64]byte
	if k, _ := b.r.s.fold.fold(space[:0], r); k != kindInvisible {
		b.broken = true
	}
	return i + n
}

// chunk reads one run of base64 characters and decides whether it belongs to a stretch.
func (b *runReader) chunk(i int) int {
	s := b.l.text
	from := i
	var seen byte
	inner := false                          // a capital that doesn't begin the run
	for i < len(s) && i-from < checkEvery { // what is left of a longer one is read as the next
		k := b.r.s.base64.class[s[i]]
		if k == 0 {
			break
		}
		inner = inner || k == classUpper && i > from
		seen |= k
		i++
	}
	coded := i-from >= minRun || inner || seen&(classDigit|classSign) != 0
	if b.start >= 0 && (b.broken || from-b.end > maxJoin || b.plain > 1) {
		b.flush()
	}
	if b.start < 0 {
		if !coded {
			return i
		}
		b.start, b.broken, b.plain = from, false, 0
	}
	if i-from == 1 && s[from] == '+' {
		return i // joins two string literals
	}
	b.buf = append(b.buf, s[from:i]...)
	b.end = i
	if coded {
		b.plain, b.coded, b.codedEnd = 0, len(b.buf), i
	} else {
		b.plain++
	}
	return i
}

// flush decodes the open stretch, with and without the words at its end.
func (b *runReader) flush() {
	buf, start := b.buf, b.start
	b.buf, b.start = b.buf[:0], -1
	if start < 0 || len(buf) < minRun || !b.r.alive() || !b.l.keep(start, b.end) {
		return
	}
	end := b.end
	if b.plain > 0 && b.coded >= minRun {
		b.decode(buf[:b.coded], start, b.codedEnd)
	}
	b.decode(buf, start, end)
}

// decode decodes one stretch: each of its padded pieces, and what they give together.
func (b *runReader) decode(buf []byte, start, end int) {
	var all []byte
	parts := 0
	forEachPart(buf, func(p []byte) {
		parts++
		out := b.r.s.base64.decode(p)
		all = append(all, out...)
		if len(p) < minRun {
			return
		}
		b.r.child(b.l, out, "base64", start, end)
		if len(p) >= minRun32 {
			b.base32(p, start, end)
		}
		if printable(string(out)) {
			return
		}
		// Letters that don't belong to it stand before it, or a piece of it is missing: try the other alignments.
		for skip := 1; skip < 4; skip++ {
			b.r.child(b.l, b.r.s.base64.decode(p[skip:]), "base64", start, end)
		}
	})
	if parts > 1 {
		b.r.child(b.l, all, "base64", start, end)
	}
}

// minRun32 is what minRun is to base32.
const minRun32 = 24

// forEachPart calls f with what stands between padding.
func forEachPart(buf []byte, f func([]byte)) {
	from := 0
	for i, c := range buf {
		if c == '=' {
			if i > from {
				f(buf[from:i])
			}
			from = i + 1
		}
	}
	if from < len(buf) {
		f(buf[from:])
	}
}

// The classes of the base64 alphabets, standard and URL-safe.
const (
	classLower byte = 1 << iota
	classUpper
	classDigit
	classSign
	classDash
)

func base64Class(c byte) byte {
	switch {
	case c-'a' < 26:
		return classLower
	case c-'A' < 26:
		return classUpper
	case c-'0' < 10:
		return classDigit
	case c == '+' || c == '/':
		return classSign
	case c == '-' || c == '_':
		return classDash
	}
	return 0
}

// alphabet64 is both base64 alphabets in one, by tables.
type alphabet64 struct {
	class [256]byte // 0 of what belongs to neither
	value [256]byte
}

func newAlphabet64() *alphabet64 {
	a := &alphabet64{}
	var v byte
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		a.class[c], a.value[c] = base64Class(c), v
		v++
	}
	a.value['-'], a.value['_'] = a.value['+'], a.value['/']
	a.class['-'], a.class['_'] = base64Class('-'), base64Class('_')
	return a
}

// decode decodes characters of the alphabets. What is left over at the end is dropped.
func (a *alphabet64) decode(p []byte) []byte {
	out := make([]byte, 0, len(p)/4*3+3)
	for ; len(p) >= 4; p = p[4:] {
		b, c, d := a.value[p[1]], a.value[p[2]], a.value[p[3]]
		out = append(out, a.value[p[0]]<<2|b>>4, b<<4|c>>2, c<<6|d)
	}
	if len(p) >= 2 {
		out = append(out, a.value[p[0]]<<2|a.value[p[1]]>>4)
	}
	if len(p) == 3 {
		out = append(out, a.value[p[1]]<<4|a.value[p[2]]>>2)
	}
	return out
}

// base32 decodes p if it is of that alphabet and gives text.
func (b *runReader) base32(p []byte, start, end int) {
	up := make([]byte, len(p))
	for i, c := range p {
		if c-'a' < 26 {
			c -= 'a' - 'A'
		}
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return
		}
		up[i] = c
	}
	for len(up) > 0 {
		out, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(string(up))
		if err == nil {
			if utf8.Valid(out) {
				b.r.child(b.l, out, "base32", start, end)
			}
			return
		}
		up = up[:len(up)-1] // an incomplete last group
		if len(up)%8 == 0 {
			return
		}
	}
}
