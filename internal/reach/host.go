package reach

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The longest host and the longest label in it, in bytes: what DNS can carry. The host's bound holds before anything is
// converted too, because decoding punycode takes quadratic time.
const (
	maxHost  = 253
	maxLabel = 63
)

// parseHost reads a host as it stands in a URL, brackets and port apart, and returns its one spelling: a name in lower
// case ASCII without a dot at the end, or the canonical text of an address.
func parseHost(s string) (string, error) {
	if s == "" || len(s) > maxHost+1 {
		return "", bad("the host is empty or too long")
	}
	if s[0] == '[' {
		return parseIPv6(s)
	}
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxHost {
		return "", bad("the host is empty or too long")
	}
	plain, err := checkHostText(s)
	if err != nil {
		return "", err
	}
	if plain {
		s = strings.ToLower(s)
	} else if s, err = toASCII(strings.Map(lower, s)); err != nil {
		return "", err
	}
	return s, checkLabels(s)
}

func parseIPv6(s string) (string, error) {
	inner, closed := strings.CutSuffix(s[1:], "]")
	addr, err := netip.ParseAddr(inner)
	switch {
	case !closed || err != nil || !addr.Is6():
		return "", bad("the host is not an IPv6 address")
	case addr.Zone() != "":
		return "", bad("the host's address has a zone")
	case addr.Is4In6():
		return "", bad("the host is an IPv4 address in the clothes of IPv6")
	}
	return addr.String(), nil
}

// checkHostText refuses what no name may contain, and reports whether the name is what it seems: ASCII, and no label of
// it stands for other characters.
func checkHostText(s string) (plain bool, err error) {
	plain = true
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			plain = false
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false, bad("the host contains a character that no host has")
		}
	}
	if !plain && !utf8.ValidString(s) {
		return false, bad("the host isn't valid UTF-8")
	}
	for i := 0; plain && i+4 <= len(s); i++ {
		plain = (i != 0 && s[i-1] != '.') || !strings.EqualFold(s[i:i+4], "xn--")
	}
	return plain, nil
}

// checkLabels holds a lower-case ASCII name to the rules of DNS. A name that a browser or an old C library would read as a
// number must be an IPv4 address in its one usual spelling.
func checkLabels(s string) error {
	if len(s) > maxHost {
		return bad("the host is empty or too long")
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		switch {
		case label == "":
			return bad("the host has an empty label")
		case len(label) > maxLabel:
			return bad("a label of the host is too long")
		case label[0] == '-' || label[len(label)-1] == '-':
			return bad("a label of the host begins or ends with a dash")
		}
		last = label
	}
	if !isNumber(last) {
		return nil
	}
	if addr, err := netip.ParseAddr(s); err != nil || !addr.Is4() {
		return bad("the host looks like a number but is no IPv4 address in its usual form")
	}
	return nil
}

// isNumber reports whether some parser takes a label for a number: decimal, octal or hexadecimal.
func isNumber(label string) bool {
	digits, isHex := strings.CutPrefix(label, "0x")
	for i := range len(digits) {
		c := digits[i]
		if (c < '0' || c > '9') && (!isHex || c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// lower maps capitals to their small letters. Signs that only have the same small letter, such as Kelvin's, stay.
func lower(r rune) rune {
	if small := unicode.ToLower(r); unicode.ToUpper(small) == r {
		return small
	}
	return r
}

// toASCII converts a lower-case name by IDNA's rules for lookup. Characters that the rules would replace or drop are
// refused instead: other clients replace other ones, and an approver would see another name than the one asked.
func toASCII(s string) (string, error) {
	ascii, err := idna.Lookup.ToASCII(s)
	if err != nil || len(ascii) > maxHost {
		return "", bad("the host is no valid international name")
	}
	pretty, err := idna.Lookup.ToUnicode(ascii)
	if err != nil {
		return "", bad("the host is no valid international name")
	}
	given, encoded, decoded := strings.Split(s, "."), strings.Split(ascii, "."), strings.Split(pretty, ".")
	if len(given) != len(encoded) || len(given) != len(decoded) {
		return "", bad("the host contains a character that looks like a dot")
	}
	for i := range given {
		if given[i] != encoded[i] && given[i] != decoded[i] {
			return "", bad("the host contains characters that stand for others")
		}
		// An encoded label that decodes to itself, or to ASCII, is a disguise.
		if strings.HasPrefix(encoded[i], "xn--") == isPlain(decoded[i]) {
			return "", bad("the host is no valid international name")
		}
		if !oneScript(decoded[i]) {
			return "", bad("the host has symbols in it, or mixes scripts")
		}
	}
	return ascii, nil
}

// oneScript reports whether a label has but letters, marks, digits and dashes, and these are of one script. The scripts that are written together in Chinese,
// Japanese and Korean count as one, also together with Latin: the "highly restrictive" level of Unicode TS 39.
func oneScript(label string) bool {
	if isPlain(label) {
		return true
	}
	var other *unicode.RangeTable
	var latin, han, kana, hangul, bopomofo bool
	for _, r := range label {
		switch {
		case r < utf8.RuneSelf && !unicode.IsLetter(r):
		case !unicode.In(r, unicode.L, unicode.M, unicode.Nd):
			return false
		case unicode.In(r, unicode.Common, unicode.Inherited):
		case unicode.Is(unicode.Latin, r):
			latin = true
		case unicode.Is(unicode.Han, r):
			han = true
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			kana = true
		case unicode.Is(unicode.Hangul, r):
			hangul = true
		case unicode.Is(unicode.Bopomofo, r):
			bopomofo = true
		case other == nil:
			if other = script(r); other == nil {
				return false
			}
		case !unicode.Is(other, r):
			return false
		}
	}
	east := 0
	for _, used := range []bool{kana, hangul, bopomofo} {
		if used {
			east++
		}
	}
	if other != nil {
		return !latin && !han && east == 0
	}
	return east <= 1
}

func script(r rune) *unicode.RangeTable {
	for _, table := range unicode.Scripts { // disjoint: the order doesn't matter
		if unicode.Is(table, r) {
			return table
		}
	}
	return nil
}
