package show

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter walks over a text once. plain gathers what needs no mark.
type splitter struct {
	s       string
	json    bool
	out     []Segment
	from    int // where the plain text that was not yet put out begins
	at      int
	stack   int // combining characters in a row
	scripts scriptCache
}

func split(s string, json bool) []Segment {
	if s == "" {
		return nil
	}
	p := &splitter{s: s, json: json, stack: baseless, scripts: scriptCache{}}
	for p.at < len(s) {
		p.step()
	}
	p.flush(len(s))
	return p.out
}

// step takes the next character, or the next word or row of equal characters.
func (p *splitter) step() {
	c := p.s[p.at]
	switch {
	case c == '\\' && p.json:
		p.escape()
		return
	case (c == '\n' || c == '\t') && !p.row(rune(c), rowLength):
		p.blank(c)
		return
	case c == '\n' || c == '\t' || c == ' ' && p.row(' ', spaceLength):
		return
	case c < utf8.RuneSelf && unseen(rune(c)) == "" && !wordByte(c):
		p.at++
		p.stack = baseless
		return
	}
	p.character()
}

// blank draws one line feed or tab.
func (p *splitter) blank(c byte) {
	seg := Segment{Kind: Break, Text: "⏎", Note: "line feed U+000A", N: 1}
	if c == '\t' {
		seg = Segment{Kind: Tab, Text: "⇥", Note: "tab U+0009", N: 1}
	}
	p.put(p.at+1, seg)
}

// character takes what begins with a letter or digit, or is not ASCII, or can't be seen.
func (p *splitter) character() {
	c := p.s[p.at]
	r, size := utf8.DecodeRuneInString(p.s[p.at:])
	switch {
	case r == utf8.RuneError && size == 1:
		p.put(p.at+1, Segment{Kind: Mark, Text: "⟦byte " + strings.ToUpper(strconv.FormatUint(uint64(c), 16)) + "⟧", Note: "not UTF-8", N: 1})
	case unseen(r) != "":
		p.unseen(r)
	case unicode.Is(unicode.M, r) && p.stack >= maxStack:
		p.put(p.at+size, Segment{Kind: Mark, Text: mark(r, 1), Note: "combining character without a base of its own", N: 1})
	case wordRune(r):
		p.word()
	case variant(r) != "":
		p.put(p.at+size, Segment{Kind: Odd, Text: string(r), Code: codePoint(r), Note: "looks like " + quote(variant(r)), N: 1})
	default:
		p.at += size
		p.stack = baseless
	}
}

// put ends the plain text here and adds a segment for the bytes up to end, which is no base for combining characters.
func (p *splitter) put(end int, seg Segment) {
	p.flush(p.at)
	p.out = append(p.out, seg)
	p.at, p.from, p.stack = end, end, baseless
}

func (p *splitter) flush(end int) {
	if p.from < end {
		t := p.s[p.from:end]
		p.out = append(p.out, Segment{Kind: Visible, Text: t, N: utf8.RuneCountInString(t)})
	}
	p.from = end
}

// escape steps over a JSON escape sequence. What follows a backslash without being one is drawn like any other text.
func (p *splitter) escape() {
	n := 1
	switch rest := p.s[p.at+1:]; {
	case len(rest) >= 5 && rest[0] == 'u' && strings.Trim(rest[1:5], "0123456789abcdefABCDEF") == "":
		n = 6
	case rest != "" && strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0:
		n = 2
	}
	p.at += n
	p.stack = baseless
}

// row draws a row of at least n times the character r as one mark and reports whether it did.
func (p *splitter) row(r rune, n int) bool {
	k := 0
	for _, c := range p.s[p.at:] {
		if c != r {
			break
		}
		k++
	}
	if k < n {
		return false
	}
	note := unseen(r)
	switch r {
	case '\n':
		note = "line feeds"
	case '\t':
		note = "tabs"
	case ' ':
		note = "spaces"
	}
	p.put(p.at+k*utf8.RuneLen(r), Segment{Kind: Mark, Text: mark(r, k), Note: note, N: k})
	return true
}

// unseen draws the row of unseen characters that begins with r.
func (p *splitter) unseen(r rune) {
	if p.row(r, rowLength) || p.smuggled(r) {
		return
	}
	p.put(p.at+utf8.RuneLen(r), Segment{Kind: Mark, Text: mark(r, 1), Note: unseen(r), N: 1})
}

// smuggled draws a row of tag characters or variation selectors with the text that they spell out beside it.
func (p *splitter) smuggled(first rune) bool {
	_, note := carried(first)
	if note == "" {
		return false
	}
	var text, codes strings.Builder
	end, n := p.at, 0
	for i, r := range p.s[p.at:] {
		b, why := carried(r)
		if why != note {
			break
		}
		end, n = p.at+i+utf8.RuneLen(r), n+1
		text.WriteByte(b)
		codes.WriteString(mark(r, 1))
	}
	// One selector after an emoji is ordinary; a row of them is a message.
	if n < 4 && !isTag(first) {
		return false
	}
	p.put(end, Segment{Kind: Hidden, Text: codes.String(), Code: Plain(text.String()), Note: note, N: n})
	return true
}

// carried returns the byte that r stands for where text is hidden in characters of its sort, and what sort that is.
func carried(r rune) (byte, string) {
	switch {
	case isTag(r):
		return byte(r & 0x7F), "text hidden in tag characters"
	case r >= 0xFE00 && r <= 0xFE0F:
		return byte(r & 0x0F), "text hidden in variation selectors"
	case r >= 0xE0100 && r <= 0xE01EF:
		return byte((r - 0xE0100 + 16) & 0xFF), "text hidden in variation selectors"
	}
	return 0, ""
}

func isTag(r rune) bool { return r >= 0xE0000 && r <= 0xE007F }

// mark returns "⟦U+202E⟧", or "⟦U+202E ×40⟧" for n of them.
func mark(r rune, n int) string {
	if n == 1 {
		return string(openMark) + codePoint(r) + string(closeMark)
	}
	return string(openMark) + codePoint(r) + " ×" + strconv.Itoa(n) + string(closeMark)
}

func quote(s string) string { return "“" + s + "”" }
