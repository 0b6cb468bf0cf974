// Package show makes untrusted text safe to look at: whatever a reader could not see, or could take for something else,
// becomes a visible mark with its code point. It guarantees that two texts that differ in their characters differ on the
// screen, and that nothing of a text is left out. It does not judge what a text means, and it trusts no text: the
// output still has to be escaped for the medium (HTML, CSV) it is put into.
package show

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Kind says how a Segment is to be drawn.
type Kind string

// The kinds of segments.
const (
	Visible Kind = "visible" // Text is what it looks like
	Break   Kind = "break"   // a line feed: Text is a sign for it, and the text goes on in a new line
	Tab     Kind = "tab"     // a tab: Text is a sign for it, and the text goes on at the next stop
	Mark    Kind = "mark"    // Text stands for characters that can't be seen: "⟦U+202E⟧"
	Odd     Kind = "odd"     // Text is visible, but not what it looks like: Code spells it out
	Hidden  Kind = "hidden"  // Text stands for characters that can't be seen and that spell out Code
)

// A Segment is a piece of a text. The segments of a text, in order, account for each of its characters.
type Segment struct {
	Kind Kind
	Text string // what to draw; only printable characters
	Code string // Odd: the word with its unusual characters as code points; Hidden: the hidden text, decoded
	Note string // why this is not Visible, in words: "bidi control", "looks like “paypal”"
	N    int    // how many characters of the text this segment stands for
}

// The lengths from which a row of the same unseen character, or of spaces, is drawn as one mark with a count, so that
// nine kilobytes of empty lines can't push the last line out of sight. Code is seldom indented by more.
const (
	rowLength   = 16
	spaceLength = 80
)

// Text splits s into segments.
func Text(s string) []Segment { return split(s, false) }

// JSON is Text for a JSON document: an escape sequence in it (\n, \u001b) is drawn as it stands and is no part of the
// word beside it.
func JSON(s string) []Segment { return split(s, true) }

// Plain returns s in one line that is safe for a terminal and a log: characters that have no visible form of their own
// become \u{…}, bytes that are not UTF-8 become \x{…}. A backslash before "u{" or "x{" becomes \u{5c}, so that the
// result reads back to one text only.
func Plain(s string) string {
	if isPlainASCII(s) && !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	marks := baseless
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			size = 1
		}
		marks = stacked(marks, r)
		switch {
		case size == 1 && r == utf8.RuneError:
			b.WriteString(`\x{` + strconv.FormatUint(uint64(s[i]), 16) + `}`)
		case r == '\\' && (strings.HasPrefix(s[i+1:], "u{") || strings.HasPrefix(s[i+1:], "x{")):
			b.WriteString(`\u{5c}`)
		case r == '\n' || unseen(r) != "" || marks > maxStack:
			b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + `}`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Plain cut for a cell of a list: beyond limit characters the rest is replaced by the size of the whole.
func Line(s string, limit int) string {
	// Four bytes at most per character, so the cut is made before a long text is escaped.
	head := s
	if len(head) > 4*limit {
		head = head[:4*limit]
		for len(head) > 0 && !utf8.ValidString(head[len(head)-min(len(head), utf8.UTFMax):]) && utf8.ValidString(s) {
			head = head[:len(head)-1]
		}
	}
	out := Plain(head)
	n := 0
	for i := range out {
		if n == limit {
			return out[:i] + "… (" + strconv.Itoa(len(s)) + " bytes)"
		}
		n++
	}
	if len(head) < len(s) {
		return out + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return out
}

func isPlainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// codePoint returns "U+0430".
func codePoint(r rune) string {
	h := strings.ToUpper(strconv.FormatInt(int64(r), 16))
	return "U+" + strings.Repeat("0", max(0, 4-len(h))) + h
}

// unseen returns why r can't be seen as itself, or "" when it can. A line feed and a plain space can.
func unseen(r rune) string {
	switch {
	case r >= ' ' && r <= '~', r == '\n':
		return ""
	case r < ' ', r >= 0x7F && r <= 0x9F && r != 0x85:
		return "control character"
	case r == 0x85, r == 0x2028, r == 0x2029:
		return "line separator"
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C:
		return "bidi control"
	case r >= 0xE0000 && r <= 0xE007F:
		return "tag character"
	case r == openMark, r == closeMark:
		return "the sign that this page draws around marks"
	case unicode.Is(unicode.Variation_Selector, r):
		return "variation selector"
	case invisible(r):
		return "invisible character"
	case unicode.Is(unicode.Zs, r):
		return "unusual space"
	case unicode.Is(unicode.Co, r):
		return "private character"
	case r == 0xFFFC, r == 0xFFFD:
		return "replacement character"
	case overlay(r):
		return "overlay"
	case !unicode.IsPrint(r):
		return "unassigned character"
	}
	return ""
}

const (
	openMark  = '⟦'
	closeMark = '⟧'
)

// invisible reports whether r is a format character, a default ignorable one, or one of those drawn as nothing.
func invisible(r rune) bool {
	switch r {
	case 0x2800, 0x1D159: // the empty Braille cell, the empty note head
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
}

// overlay reports whether r is drawn over the character before it and could strike it out or frame it.
func overlay(r rune) bool {
	switch r {
	case 0x20D2, 0x20D3, 0x20D8, 0x20D9, 0x20DA, 0x20E5, 0x20E6, 0x20EA, 0x20EB:
		return true
	}
	return r >= 0x0334 && r <= 0x0338 || unicode.Is(unicode.Me, r)
}

// maxStack is how many combining characters may sit on one base before the next is marked: more are not a spelling in
// any language, and a high enough stack covers the lines above.
const maxStack = 3

// baseless is what the count of stacked combining characters starts with where there is no letter or digit to put one
// on: there it would sit on a mark, a quote or a slash.
const baseless = maxStack

// stacked counts combining characters in a row: n is the count before r, the result the count with it.
func stacked(n int, r rune) int {
	switch {
	case unicode.Is(unicode.M, r):
		return n + 1
	case wordRune(r):
		return 0
	}
	return baseless
}

// RightToLeft reports whether s has letters that run from right to left, so that a screen may draw it in another order
// than that of its characters.
func RightToLeft(s string) bool {
	for _, r := range s {
		if r >= 0x0590 && r <= 0x08FF || r >= 0xFB1D && r <= 0xFDFF || r >= 0xFE70 && r <= 0xFEFC ||
			r >= 0x10800 && r <= 0x10FFF || r >= 0x1E800 && r <= 0x1EFFF {
			return true
		}
	}
	return false
}
