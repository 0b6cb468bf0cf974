package counterfoil_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// hostile returns documents of about n bytes, each of a shape that costs a careless reader dearly.
func hostile(n int) map[string][]byte {
	repeat := func(open, s, last string) []byte {
		return []byte(open + strings.Repeat(s, (n-len(open)-len(last))/len(s)) + last)
	}
	members := func(f func(i int) string) []byte { return membersThen(n, f, `"~":0`) }
	mixed := func(i int) uint32 { return uint32(i) * 2654435761 }
	return map[string][]byte{
		"tiny values":      repeat("[", "0,", "0]"),
		"tiny strings":     repeat("[", `"",`, "0]"),
		"empty objects":    repeat("[", "{},", "0]"),
		"deep nesting":     repeat("[", strings.Repeat("[", 63)+strings.Repeat("]", 63)+",", "0]"),
		"unclosed nesting": repeat("", "[", ""),
		"white space":      repeat("[", " ", "0]"),

		"long string":                   repeat(`"`, "a", `"`),
		"escapes":                       repeat(`"`, `\u0041`, `"`),
		"quotes":                        repeat(`"`, `\"`, `"`),
		"quotes, escaped at length":     repeat(`"`, `\u0022`, `"`),
		"control characters":            repeat(`"`, `\u0001`, `"`),
		"line breaks":                   repeat(`"`, `\n`, `"`),
		"backslashes":                   repeat(`"`, `\\`, `"`),
		"surrogate pairs":               repeat(`"`, `\ud83d\ude00`, `"`),
		"strings of one escape":         repeat("[", `"\n",`, "0]"),
		"strings of one spare escape":   repeat("[", `"\/",`, "0]"),
		"commas in strings":             repeat("[", `",,,,,,,,",`, "0]"),
		"brackets in strings":           repeat("[", `"[[[[[[[[",`, "0]"),
		"text beyond ASCII":             repeat(`"`, "é", `"`),
		"text beyond the BMP":           repeat(`"`, "😀", `"`),
		"bad UTF-8 at the end":          repeat(`["`, "é", "\xff\"]"),
		"bad UTF-8 deep inside":         []byte(strings.Repeat(`{"a":`, 60) + string(repeat(`["`, "é", "\xff\"]"))[600:] + strings.Repeat("}", 60)),
		"surrogate alone at the end":    repeat(`["`, "é", `\ud800"]`),
		"members, then bad UTF-8":       membersThen(n, func(i int) string { return fmt.Sprintf(`"%08x"`, mixed(i)) }, "\"\xff\":0"),
		"members in order but the last": membersThen(n, func(i int) string { return fmt.Sprintf(`"%08d"`, i) }, `"!":0`),
		"tiny values, then wrong":       repeat("[", "0,", ",]"),

		"long number":          repeat("1.", "0", ""),
		"doubles":              repeat("[", "1.7976931348623157e308,", "0]"),
		"doubles, canonical":   repeat("[", "1.7976931348623157e+308,", "0]"),
		"short doubles":        repeat("[", "1e9,", "0]"),
		"long powers":          repeat("[", "1e20,", "0]"),
		"short fractions":      repeat("[", "0.1,", "0]"),
		"short exponents":      repeat("[", "1e-9,", "0]"),
		"long integers":        repeat("[", "123456789012345680000,", "0]"),
		"zeros":                repeat("[", "0e9,", "0]"),
		"huge exponents":       repeat("[", "0e999999999999999999999999,", "0]"),
		"tiniest doubles":      repeat("[", "5e-324,", "0]"),
		"tiny doubles":         repeat("[", "1e-310,", "0]"),
		"tiny doubles, long":   repeat("[", "2.225073858507201e-308,", "0]"),
		"integers":             repeat("[", "9007199254740991,", "0]"),
		"long doubles":         repeat("[", "1."+strings.Repeat("0", 1000)+",", "0]"),
		"long small doubles":   repeat("[", "0."+strings.Repeat("0", 300)+"1,", "0]"),
		"long doubles, padded": repeat("[", "1"+strings.Repeat("0", 300)+",", "0]"),

		"members":               members(func(i int) string { return fmt.Sprintf(`"%08x"`, mixed(i)) }),
		"short members":         members(func(i int) string { return fmt.Sprintf(`"%x"`, mixed(i)&0xfffff^0x5a5a5) }),
		"members backwards":     members(func(i int) string { return fmt.Sprintf(`"%08d"`, 99_999_999-i) }),
		"members alike":         members(func(i int) string { return fmt.Sprintf(`"%s%08x"`, strings.Repeat("a", 50), mixed(i)) }),
		"members alike but one": members(func(i int) string { return fmt.Sprintf(`"%s%08x"`, strings.Repeat("a", 50*min(i, 1)), mixed(i)) }),
		"members alike by groups": members(func(i int) string {
			return fmt.Sprintf(`"%02x%s%08x"`, mixed(i)>>5&0xff, strings.Repeat("a", 40), mixed(i))
		}),
		"members alike by pairs":   members(func(i int) string { return fmt.Sprintf(`"%08x%s%d"`, mixed(i/2), strings.Repeat("a", 20), 1-i%2) }),
		"members alike by windows": members(func(i int) string { return fmt.Sprintf(`"%x%s%x%s%08x"`, i%5, "aaaaaaa", i%7, "bbbbbbbb", mixed(i)) }),
		"members of steps": members(func(i int) string {
			return `"` + strings.Repeat("a", int(mixed(i)%64)) + fmt.Sprintf(`%08x"`, mixed(i))
		}),
		"members of few letters": members(func(i int) string { return `"` + twoLetters(mixed(i)) + `"` }),
		"members that begin others": membersThen(n, func(i int) string {
			return `"` + strings.Repeat("a", 1400-i%1400) + fmt.Sprintf(`%x"`, i/1400)
		}, `"~":0`),
		"members with escapes":       members(func(i int) string { return fmt.Sprintf(`"\u0061\n%08x"`, mixed(i)) }),
		"members of escapes":         members(func(i int) string { return `"` + escaped(fmt.Sprintf("%05x", mixed(i)&0xfffff)) + `"` }),
		"escapes in order":           members(func(i int) string { return fmt.Sprintf(`"\n%08d"`, i) }),
		"members beyond ASCII":       members(func(i int) string { return fmt.Sprintf(`"é😀%08x"`, mixed(i)) }),
		"members of wide characters": members(func(i int) string { return fmt.Sprintf(`"%c%c"`, 0x4e00+mixed(i)>>8&0x3fff, 0x4e00+i&0x3fff) }),
		"members beyond the BMP":     members(func(i int) string { return fmt.Sprintf(`"%c%c"`, 0x10000+mixed(i)>>8&0xffff, 0x10000+i&0x3fff) }),
		"members of mixed characters": members(func(i int) string {
			return fmt.Sprintf(`"%c%08x"`, []rune{0xE000, 0x1F600, 0xD000, 0x41}[i%4], mixed(i))
		}),
		"members alike beyond ASCII": members(func(i int) string {
			return fmt.Sprintf(`"%c%s%08x"`, []rune{0xFFFD, 0x1F600}[i%2], strings.Repeat("é", 9), mixed(i))
		}),
		"duplicates at the end":           members(func(i int) string { return fmt.Sprintf(`"%08x"`, mixed(i/2)) }),
		"one duplicate at the end":        membersThen(n, func(i int) string { return fmt.Sprintf(`"%08x"`, mixed(i)) }, `"00000000":0`),
		"the same name again":             members(func(int) string { return `"aaaaaaaaaaaaaaaaaaaa"` }),
		"objects of few":                  repeat("[", `{"b":0,"a":0},`, "0]"),
		"objects of a dozen":              repeat("[", `{"l":0,"c":0,"a":0,"k":0,"b":0,"e":0,"d":0,"j":0,"h":0,"g":0,"i":0,"f":0},`, "0]"),
		"objects of few, beyond ASCII":    repeat("[", `{"é":0,"à":0},`, "0]"),
		"objects out of order":            repeat("[", layers(60, `"x"`)+",", "0]"),
		"objects out of order about much": []byte(layers(60, `"`+strings.Repeat("a", n-1000)+`"`)),
		"objects out of order about many": []byte(layers(60, "["+strings.Repeat("0,", n/2-500)+"0]")),
	}
}

// isFaulty reports whether a hostile shape is no acceptable document: the fault is found as late as can be.
func isFaulty(name string) bool {
	return strings.Contains(name, " at the end") || strings.Contains(name, ", then ") ||
		slices.Contains([]string{"unclosed nesting", "bad UTF-8 deep inside", "the same name again"}, name)
}

// membersThen returns an object of members with zeros, and last.
func membersThen(n int, f func(i int) string, last string) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; b.Len() < n-1500; i++ {
		b.WriteString(f(i))
		b.WriteString(":0,")
	}
	b.WriteString(last + "}")
	return []byte(b.String())
}

// layers returns objects within each other, each out of order so that it must be moved as a whole.
func layers(n int, inner string) string {
	for i := range n {
		inner = fmt.Sprintf(`{"b":%s,"a%d":0}`, inner, i)
	}
	return inner
}

// twoLetters writes a number in few letters.
func twoLetters(n uint32) string {
	return strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%032b", n))
}

// escaped writes each byte as an escape.
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\u%04x`, s[i])
	}
	return b.String()
}

func BenchmarkHostile(b *testing.B) {
	const n = 1 << 20
	honest := arguments(n)
	parse := func(raw []byte) func() {
		return func() {
			if _, err := counterfoil.ParseArguments(raw); err != nil && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
				b.Fatal(err)
			}
		}
	}
	shapes := hostile(n)
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) { cpuRatio(b, "x/honest", parse(shapes[name]), parse(honest), 1) })
	}
}
