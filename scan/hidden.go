package scan

import "unicode/utf8"

// Code points that show nothing and can each stand for a byte or a bit.
const (
	tagFirst, tagLast       = 0xE0000, 0xE007F
	blackFlag               = 0x1F3F4
	tagEnd                  = 0xE007F
	tagSize                 = 4 // bytes of UTF-8
	minTags                 = 2 // of the tags block outside a flag
	minSelectors            = 4 // variation selectors that no font uses where they stand, before they count as a payload
	minDecoded              = 8 // of either, in what had to be decoded first: there they were in plain sight
	minZeroWidths           = 8 // zero-width characters in a row
	selectorText, selectorX = 0xFE0E, 0xFE0F
)

// A hiddenReader collects what invisible characters spell.
type hiddenReader struct {
	r *run
	l *layer

	tags      channel // letters of the tags block
	selectors channel // variation selectors as bytes
	zero      []rune  // zero-width characters in a row
	zeroStart int
}

// A channel is a hidden text and the stretch of the layer that carries it.
type channel struct {
	text       []byte
	start, end int
	outlaws    int // characters that nothing but a hidden text would explain
	least      int // how many of them make a finding
}

func (c *channel) add(b byte, at, end int) {
	if len(c.text) == 0 {
		c.start = at
	}
	c.text, c.end = append(c.text, b), end
}

// hidden reports text carried by invisible characters, and scans it.
func (r *run) hidden(l *layer) {
	h := &hiddenReader{r: r, l: l, tags: channel{least: minTags}, selectors: channel{least: minSelectors}}
	if l.parent != nil {
		h.tags.least, h.selectors.least = minDecoded, minDecoded
	}
	var before rune
	for i := 0; i < len(l.text); {
		if l.text[i] < utf8.RuneSelf {
			before = rune(l.text[i])
			h.flush(i)
			i++
			continue
		}
		c, n := utf8.DecodeRuneInString(l.text[i:])
		switch {
		case c >= tagFirst && c <= tagLast:
			i = h.tagRun(i, before == blackFlag)
			continue
		case c >= 0xFE00 && c <= selectorX, c >= 0xE0100 && c <= 0xE01EF:
			h.selector(c, before, i, i+n)
		case zeroWidth(c):
			if len(h.zero) == 0 {
				h.zeroStart = i
			}
			h.zero = append(h.zero, c)
			i += n
			continue
		case c == 0x202D || c == 0x202E:
			r.report(l, Finding{Pattern: "bidi_override", Family: FamilyHiddenText, Severity: SeverityLow}, i, i+n, "")
		}
		h.flush(i)
		before = c
		i += n
	}
	h.flush(len(l.text))
	h.finish("hidden_tags", "tags", &h.tags)
	h.finish("hidden_variation_selectors", "variation-selectors", &h.selectors)
}

// finish reports one channel and scans its text.
func (h *hiddenReader) finish(pattern, by string, c *channel) {
	if c.outlaws >= c.least {
		f := Finding{Pattern: pattern, Family: FamilyHiddenText, Severity: SeverityHigh, Excerpt: excerpt(string(c.text))}
		h.r.report(h.l, f, c.start, c.end, "")
	}
	h.r.child(h.l, c.text, by, c.start, c.end)
}

// tagRun reads a run of the tags block at i. After a black flag, two letters for a country and up to three letters or
// digits for a part of it, and the end tag, are an emoji: the flag of Scotland. Its letters still count as text, so that
// a row of such flags can't spell an instruction unseen.
func (h *hiddenReader) tagRun(i int, afterFlag bool) int {
	start, from := i, len(h.tags.text)
	closed := false
	for i < len(h.l.text) && !closed {
		c, n := utf8.DecodeRuneInString(h.l.text[i:])
		if c < tagFirst || c > tagLast {
			break
		}
		i += n
		if closed = c == tagEnd; !closed {
			h.tags.add(byte(c-tagFirst), start, i) // the tags block has 128 code points
		}
	}
	if !closed || !afterFlag || !region(h.tags.text[min(from, len(h.tags.text)):]) {
		h.tags.outlaws += (i - start) / tagSize
		h.tags.end = max(h.tags.end, i)
		if len(h.tags.text) == 0 {
			h.tags.start = start
		}
	}
	return i
}

// region reports whether b has the form of a country's part in a flag: gbsct, usca.
func region(b []byte) bool {
	if len(b) < 3 || len(b) > 5 {
		return false
	}
	for i, c := range b {
		if (c < 'a' || c > 'z') && (i < 2 || c-'0' > 9) {
			return false
		}
	}
	return true
}

// selector takes a variation selector for a byte, unless it does what it is for: the emoji and text styles, and variants
// of ideographs and of Mongolian.
func (h *hiddenReader) selector(c, before rune, at, end int) {
	if c == selectorText || c == selectorX {
		if h.selectors.outlaws == 0 || h.selectors.end != at {
			return
		}
	}
	if c < selectorText && before >= utf8.RuneSelf && h.selectors.end != at {
		return // the variants of mathematical signs
	}
	ideograph := before >= 0x3400 && before <= 0x9FFF || before >= 0x20000 && before <= 0x3FFFF || before >= 0xF900 && before <= 0xFAFF
	if ideograph && h.selectors.end != at {
		return
	}
	b := c - 0xFE00
	if c >= 0xE0100 {
		b = c - 0xE0100 + 16
	}
	h.selectors.add(byte(b), at, end) //nolint:gosec // both ranges together are 256 selectors
	h.selectors.outlaws++
}

func zeroWidth(c rune) bool {
	return c >= 0x200B && c <= 0x200F || c >= 0x2060 && c <= 0x2064 || c == 0xFEFF || c == 0x180E
}

// flush ends a row of zero-width characters. A long one of two kinds is read as bits, either way round.
func (h *hiddenReader) flush(end int) {
	row := h.zero
	h.zero = h.zero[:0]
	if len(row) < minZeroWidths {
		return
	}
	f := Finding{Pattern: "hidden_zero_width", Family: FamilyHiddenText, Severity: SeverityLow}
	one, two := row[0], rune(0)
	for _, c := range row {
		if c != one && two == 0 {
			two = c
		} else if c != one && c != two {
			two = -1
		}
	}
	if two > 0 {
		for _, zero := range [...]rune{one, two} {
			text := make([]byte, 0, len(row)/8)
			for i := 0; i+8 <= len(row); i += 8 {
				var b byte
				for _, c := range row[i : i+8] {
					b <<= 1
					if c != zero {
						b |= 1
					}
				}
				text = append(text, b)
			}
			if len(text) >= 4 && printable(string(text)) {
				f.Severity, f.Excerpt = SeverityHigh, excerpt(string(text))
				h.r.child(h.l, text, "zero-width", h.zeroStart, end)
			}
		}
	}
	h.r.report(h.l, f, h.zeroStart, end, "")
}
