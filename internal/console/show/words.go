package show

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func wordRune(r rune) bool {
	if r >= 0 && r < utf8.RuneSelf {
		return wordByte(byte(r))
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// word takes the word that begins here: letters, digits and the combining characters on them. It is plain unless it
// mixes scripts, could be taken for a word of other letters, or is not spelled in normal form C.
func (p *splitter) word() {
	end, ascii := p.at, true
	for end < len(p.s) {
		if c := p.s[end]; c < utf8.RuneSelf {
			if !wordByte(c) {
				break
			}
			end++
			p.stack = 0
			continue
		}
		r, size := utf8.DecodeRuneInString(p.s[end:])
		next := stacked(p.stack, r)
		if !wordRune(r) || unseen(r) != "" || next > maxStack {
			break
		}
		p.stack = next
		ascii = false
		end += size
	}
	if w := p.s[p.at:end]; !ascii {
		if note := p.odd(w); note != "" {
			p.put(end, Segment{Kind: Odd, Text: w, Code: spell(w), Note: note, N: utf8.RuneCountInString(w)})
			return
		}
	}
	p.at = end
}

// odd returns why the word w may not be what it looks like, or "".
func (p *splitter) odd(w string) string {
	var notes []string
	var looks strings.Builder
	scripts := map[string]bool{}
	letters, foreign, variants := 0, 0, 0
	for _, r := range w {
		if unicode.IsLetter(r) {
			letters++
			scripts[p.scripts.of(r)] = true
		}
		if v := variant(r); v != "" {
			variants++
			looks.WriteString(v)
		} else if v := latin(r); v != 0 {
			foreign++
			looks.WriteRune(v)
		} else {
			looks.WriteRune(r)
		}
	}
	delete(scripts, "")
	if mixed(scripts) {
		notes = append(notes, "mixes "+strings.Join(slices.Sorted(maps.Keys(scripts)), " and ")+" letters")
	}
	// A word of another script is as it should be, unless it could be read as Latin from its first letter to its last.
	if variants > 0 || foreign > 0 && (mixed(scripts) || foreign == letters) {
		notes = append(notes, "looks like "+quote(looks.String()))
	}
	if !norm.NFC.IsNormalString(w) {
		notes = append(notes, "accents spelled apart (not in Unicode form NFC)")
	}
	return strings.Join(notes, ", ")
}

// mixed reports whether one word uses scripts that no writing system combines.
func mixed(scripts map[string]bool) bool {
	if len(scripts) < 2 {
		return false
	}
	for _, allowed := range []string{"Latin Han Hiragana Katakana", "Latin Han Bopomofo", "Latin Han Hangul"} {
		within := true
		for s := range scripts {
			within = within && slices.Contains(strings.Fields(allowed), s)
		}
		if within {
			return false
		}
	}
	return true
}

// spell returns w with every character beyond ASCII as its code point: "p U+0430 ypal".
func spell(w string) string {
	var b strings.Builder
	apart := true
	for _, r := range w {
		if r < utf8.RuneSelf {
			if !apart {
				b.WriteByte(' ')
				apart = true
			}
			b.WriteRune(r)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(codePoint(r))
		apart = false
	}
	return b.String()
}

// A scriptCache finds the scripts of letters. It remembers them: a look at all tables takes microseconds.
type scriptCache map[rune]string

func (c scriptCache) of(r rune) string {
	if r < utf8.RuneSelf {
		return "Latin"
	}
	if name, ok := c[r]; ok {
		return name
	}
	c[r] = ""
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
			c[r] = name
			break
		}
	}
	return c[r]
}
