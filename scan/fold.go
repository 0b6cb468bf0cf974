package scan

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A kind says what a character means to the tokenizer.
type kind uint8

const (
	kindOther     kind = iota + 1 // separates words
	kindWord                      // belongs to a word
	kindScript                    // belongs to a script written without spaces: every character may begin a word
	kindInvisible                 // shows nothing: left out, or taken for a space in a second look
	kindMark                      // changes the character before it: left out
)

// tableSize is how many code points the folder knows by table. The rest, mostly ideographs and symbols, it works out.
const tableSize = 0x3000

// maxFolded is how many characters of a decomposition are kept; the few longer ones stand for whole phrases.
const maxFolded = 4

// A folder maps every character to the one it is compared as: compatibility decomposition (which implies NFKC's
// foldings), marks dropped, lower case, and look-alikes of Latin letters replaced by those.
type folder struct {
	confusable map[rune]byte
	ascii      [256]byte // of letters and digits: lower case; else 0
	table      [tableSize]folded
}

// folded is one character's form. More than one character after decomposition is rare, and worked out when met.
type folded struct {
	kind kind
	many bool
	out  rune
}

func newFolder() *folder {
	f := &folder{confusable: confusables()}
	for c := range byte(utf8.RuneSelf) {
		if alnum(c) {
			f.ascii[c] = lower(c)
		}
	}
	for r := range rune(tableSize) {
		k, out := f.derive(nil, r)
		e := folded{kind: k}
		if first, n := utf8.DecodeRune(out); len(out) > 0 {
			e.out, e.many = first, n < len(out)
		}
		f.table[r] = e
	}
	return f
}

// fold appends r's folded form to dst and says what r is. Nothing is appended for invisible characters and marks.
func (f *folder) fold(dst []byte, r rune) (kind, []byte) {
	if r < tableSize {
		e := &f.table[r]
		switch {
		case e.many:
			return f.derive(dst, r)
		case e.out == 0:
			return e.kind, dst
		}
		return e.kind, utf8.AppendRune(dst, e.out)
	}
	if r == utf8.RuneError {
		return kindInvisible, dst
	}
	if r >= 0x4E00 && r <= 0x9FFF { // unified ideographs decompose to themselves
		return kindScript, utf8.AppendRune(dst, r)
	}
	if r >= hangulFirst && r <= hangulLast {
		return kindScript, appendJamo(dst, r)
	}
	return f.derive(dst, r)
}

// The Hangul syllables decompose by arithmetic (Unicode, section 3.12).
const (
	hangulFirst, hangulLast       = 0xAC00, 0xD7A3
	jamoLead, jamoVowel, jamoTail = 0x1100, 0x1161, 0x11A7
	vowelCount, tailCount         = 21, 28
)

func appendJamo(dst []byte, r rune) []byte {
	n := r - hangulFirst
	dst = utf8.AppendRune(dst, jamoLead+n/(vowelCount*tailCount))
	dst = utf8.AppendRune(dst, jamoVowel+n%(vowelCount*tailCount)/tailCount)
	if tail := n % tailCount; tail > 0 {
		dst = utf8.AppendRune(dst, jamoTail+tail)
	}
	return dst
}

// derive works out what the table holds.
func (f *folder) derive(dst []byte, r rune) (kind, []byte) {
	switch {
	case invisible(r):
		return kindInvisible, dst
	case unicode.In(r, unicode.Mn, unicode.Me):
		return kindMark, dst
	}
	if c, ok := f.confusable[r]; ok {
		return kindWord, append(dst, c)
	}
	k := kindOther
	var in [utf8.UTFMax]byte
	dec := norm.NFKD.Properties(in[:utf8.EncodeRune(in[:], r)]).Decomposition()
	if dec == nil {
		return f.single(dst, r)
	}
	for range maxFolded {
		if len(dec) == 0 {
			break
		}
		d, n := utf8.DecodeRune(dec)
		dec = dec[n:]
		if unicode.In(d, unicode.Mn, unicode.Me) || invisible(d) {
			continue
		}
		var dk kind
		if dk, dst = f.single(dst, d); dk != kindOther {
			k = dk
		}
	}
	return k, dst
}

// single folds one character that doesn't decompose further.
func (f *folder) single(dst []byte, r rune) (kind, []byte) {
	r = unicode.ToLower(r)
	if c, ok := f.confusable[r]; ok {
		return kindWord, append(dst, c)
	}
	k := kindOther
	switch {
	case spaceless(r):
		k = kindScript
	case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mc, r):
		k = kindWord
	}
	return k, utf8.AppendRune(dst, r)
}

// spaceless reports whether r is of a script that doesn't put spaces between words.
func spaceless(r rune) bool {
	switch {
	case r < 0x0E00:
		return false
	case r <= 0x0EFF: // Thai, Lao
		return unicode.IsLetter(r)
	case r >= jamoLead && r <= 0x11FF:
		return true
	case r >= 0x3041 && r <= 0x30FF: // kana
		return unicode.IsLetter(r)
	case r >= 0x3400 && r <= 0x9FFF, r >= 0xF900 && r <= 0xFAFF, r >= 0x20000 && r <= 0x3FFFF: // ideographs
		return unicode.IsLetter(r)
	}
	return false
}

// invisible reports whether r shows nothing where it stands: the default-ignorable code points of Unicode, controls
// other than the usual spaces, and the characters that fonts draw as nothing.
func invisible(r rune) bool {
	switch {
	case r < 0x20:
		return r != '\t' && r != '\n' && r != '\r' && r != '\f' && r != '\v'
	case r < 0x7F:
		return false
	case r <= 0x9F:
		return r != 0x85
	case r == 0xAD, r == 0x034F, r == 0x061C, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x2800, r == 0x3164,
		r == 0xFEFF, r == 0xFFA0, r == utf8.RuneError:
		return true
	case r >= 0x180B && r <= 0x180F, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F,
		r >= 0xFE00 && r <= 0xFE0F, r >= 0xFFF0 && r <= 0xFFFB,
		r >= 0x1BCA0 && r <= 0x1BCA3, r >= 0x1D173 && r <= 0x1D17A, r >= 0xE0000 && r <= 0xE0FFF:
		return true
	}
	return false
}
