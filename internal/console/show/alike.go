package show

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// variant returns the ASCII text that the character r is another form of (full-width, mathematical, circled, small),
// or could be taken for in a path, an address or a command; "" for every other character. Typographic quotes, dashes
// and the ellipsis are let be: prose is full of them.
func variant(r rune) string {
	switch r {
	case 0x2026, '™':
		return ""
	case 0x0251: // ɑ
		return "a"
	case 0x0261: // ɡ
		return "g"
	case 0x0131: // ı
		return "i"
	case 0x2215, 0x2044, 0x29F8, 0x2571: // division, fraction and big slash, a box diagonal
		return "/"
	case 0x2216, 0x29F5, 0x29F9, 0x2572: // set minus and other back slashes
		return `\`
	case 0x2236, 0x0589, 0x05C3, 0xA789: // ratio, Armenian full stop, sof pasuq, letter colon
		return ":"
	case 0x3002, 0xFF61, 0x06D4, 0xA4F8: // stops that resolvers take for a dot
		return "."
	case 0x2212, 0x2010, 0x2011, 0x02D7: // minus, hyphens, modifier minus
		return "-"
	case 0x2217, 0x204E: // asterisk operator, low asterisk
		return "*"
	case 0x2223, 0x01C0: // divides, dental click
		return "|"
	case 0x037E: // the Greek question mark
		return ";"
	case 0x2039:
		return "<"
	case 0x203A:
		return ">"
	}
	if r < utf8.RuneSelf {
		return ""
	}
	n := norm.NFKC.String(string(r))
	if !isPlainASCII(n) || strings.TrimSpace(n) == "" {
		return ""
	}
	// Super- and subscripts are read as what they are.
	if unicode.Is(unicode.No, r) && n >= "0" && n <= "9" {
		return ""
	}
	return n
}

// latin returns the Latin letter that a letter of another script is drawn like in common fonts, or 0.
func latin(r rune) rune {
	switch {
	case r >= 0x0370 && r <= 0x03FF:
		return latinGreek(r)
	case r >= 0x0400 && r <= 0x052F:
		return latinCyrillic(r)
	case r >= 0x0530 && r <= 0x058F, r >= 0x13A0 && r <= 0x13F5, r >= 0x2C80 && r <= 0x2CFF:
		return latinOther(r)
	}
	return 0
}

// find returns the letter of like at the place where from has r: the two are read side by side.
func find(r rune, from, like string) rune {
	i := strings.IndexRune(from, r)
	if i < 0 {
		return 0
	}
	n := utf8.RuneCountInString(from[:i])
	if n >= len(like) {
		return 0
	}
	return rune(like[n])
}

func latinGreek(r rune) rune {
	return find(r,
		"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺϻϲϳοανγικρτυχωσϱ",
		"ABEZHIKMNOPTYXCMmcjoavyikptuxwop")
}

func latinCyrillic(r rune) rune {
	return find(r,
		"АВЕЅІЈКМНОРСТУХЗаеорсухѕіјһԁԛԝѵѡгкпԍӏҮүԚԜҺӀЬьб",
		"ABESIJKMHOPCTYX3aeopcyxsijhdqwvwrknglYuQWHIbb6")
}

func latinOther(r rune) rune {
	return find(r,
		"ՕՍԼՏօսոհցզգյձԱᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏎᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏴⲞⲟⲤⲥⲢⲣⲦⲬⲭ",
		"OULSounhgqqjduDRTiyAJEWMHYGhZ4bRWSVSLCPKJBOoCcPpTXx")
}
