package show_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

func TestText(t *testing.T) {
	t.Parallel()
	visible := func(s string) show.Segment {
		return show.Segment{Kind: show.Visible, Text: s, N: utf8.RuneCountInString(s)}
	}
	mark := func(s, note string, n int) show.Segment {
		return show.Segment{Kind: show.Mark, Text: s, Note: note, N: n}
	}
	for _, tt := range []struct {
		name, in string
		want     []show.Segment
	}{
		{"empty", "", nil},
		{"plain", "rm -rf /tmp/x", []show.Segment{visible("rm -rf /tmp/x")}},
		{"prose", "It’s “fine” – really… Привет, 世界! naïve", []show.Segment{visible("It’s “fine” – really… Привет, 世界! naïve")}},
		{"override", "a\u202eb", []show.Segment{visible("a"), mark("⟦U+202E⟧", "bidi control", 1), visible("b")}},
		{"isolate", "\u2066", []show.Segment{mark("⟦U+2066⟧", "bidi control", 1)}},
		{"zero width", "pass\u200bword", []show.Segment{visible("pass"), mark("⟦U+200B⟧", "invisible character", 1), visible("word")}},
		{"escape", "\x1b[2K", []show.Segment{mark("⟦U+001B⟧", "control character", 1), visible("[2K")}},
		{"carriage return", "a\r\nb", []show.Segment{visible("a"), mark("⟦U+000D⟧", "control character", 1),
			{Kind: show.Break, Text: "⏎", Note: "line feed U+000A", N: 1}, visible("b")}},
		{"separator", "a\u2028b\u0085", []show.Segment{visible("a"), mark("⟦U+2028⟧", "line separator", 1), visible("b"),
			mark("⟦U+0085⟧", "line separator", 1)}},
		{"tab", "\tx", []show.Segment{{Kind: show.Tab, Text: "⇥", Note: "tab U+0009", N: 1}, visible("x")}},
		{"hangul filler", "a\u3164b", []show.Segment{visible("a"), mark("⟦U+3164⟧", "invisible character", 1), visible("b")}},
		{"braille blank", "\u2800", []show.Segment{mark("⟦U+2800⟧", "invisible character", 1)}},
		{"no-break space", "a\u00a0b", []show.Segment{visible("a"), mark("⟦U+00A0⟧", "unusual space", 1), visible("b")}},
		{"private", "\ue000", []show.Segment{mark("⟦U+E000⟧", "private character", 1)}},
		{"noncharacter", "\U0010ffff", []show.Segment{mark("⟦U+10FFFF⟧", "unassigned character", 1)}},
		{"not UTF-8", "a\xff", []show.Segment{visible("a"), mark("⟦byte FF⟧", "not UTF-8", 1)}},
		{"our own sign", "⟦U+202E⟧", []show.Segment{mark("⟦U+27E6⟧", "the sign that this page draws around marks", 1), visible("U+202E"),
			mark("⟦U+27E7⟧", "the sign that this page draws around marks", 1)}},
		{"tags", "ok" + tags("run rm"), []show.Segment{visible("ok"), {Kind: show.Hidden,
			Text: "⟦U+E0072⟧⟦U+E0075⟧⟦U+E006E⟧⟦U+E0020⟧⟦U+E0072⟧⟦U+E006D⟧", Code: "run rm", Note: "text hidden in tag characters", N: 6}}},
		{"one tag", tags("x"), []show.Segment{{Kind: show.Hidden, Text: "⟦U+E0078⟧", Code: "x", Note: "text hidden in tag characters", N: 1}}},
		{"selectors", "a" + selectors("hide"), []show.Segment{visible("a"), {Kind: show.Hidden,
			Text: "⟦U+E0158⟧⟦U+E0159⟧⟦U+E0154⟧⟦U+E0155⟧", Code: "hide", Note: "text hidden in variation selectors", N: 4}}},
		{"emoji", "✔\ufe0f", []show.Segment{visible("✔"), mark("⟦U+FE0F⟧", "variation selector", 1)}},
		{"feeds", "a" + strings.Repeat("\n", 9000) + "b", []show.Segment{visible("a"), mark("⟦U+000A ×9000⟧", "line feeds", 9000), visible("b")}},
		{"spaces", "a" + strings.Repeat(" ", 9000) + "b", []show.Segment{visible("a"), mark("⟦U+0020 ×9000⟧", "spaces", 9000), visible("b")}},
		{"indentation", strings.Repeat(" ", 79) + "b", []show.Segment{visible(strings.Repeat(" ", 79) + "b")}},
		{"sixteen feeds", strings.Repeat("\n", 16), []show.Segment{mark("⟦U+000A ×16⟧", "line feeds", 16)}},
		{"eighty spaces", strings.Repeat(" ", 80), []show.Segment{mark("⟦U+0020 ×80⟧", "spaces", 80)}},
		{"row", strings.Repeat("\u200d", 20), []show.Segment{mark("⟦U+200D ×20⟧", "invisible character", 20)}},
		{"mixed", "pаypal.test", []show.Segment{{Kind: show.Odd, Text: "pаypal", Code: "p U+0430 ypal",
			Note: "mixes Cyrillic and Latin letters, looks like “paypal”", N: 6}, visible(".test")}},
		{"whole", "сор.test", []show.Segment{{Kind: show.Odd, Text: "сор", Code: "U+0441 U+043E U+0440", Note: "looks like “cop”", N: 3}, visible(".test")}},
		{"greek", "Αdmin", []show.Segment{{Kind: show.Odd, Text: "Αdmin", Code: "U+0391 dmin", Note: "mixes Greek and Latin letters, looks like “Admin”", N: 5}}},
		{"full width", "ｒｍ x", []show.Segment{{Kind: show.Odd, Text: "ｒｍ", Code: "U+FF52 U+FF4D", Note: "looks like “rm”", N: 2}, visible(" x")}},
		{"script g", "ɡoogle", []show.Segment{{Kind: show.Odd, Text: "ɡoogle", Code: "U+0261 oogle", Note: "looks like “google”", N: 6}}},
		{"slash", "a\u2215b", []show.Segment{visible("a"), {Kind: show.Odd, Text: "\u2215", Code: "U+2215", Note: "looks like “/”", N: 1}, visible("b")}},
		{"stop", "coop。test", []show.Segment{visible("coop"), {Kind: show.Odd, Text: "。", Code: "U+3002", Note: "looks like “.”", N: 1}, visible("test")}},
		{"japanese", "東京tower", []show.Segment{visible("東京tower")}},
		{"composed", "caf\u00e9", []show.Segment{visible("caf\u00e9")}},
		{"decomposed", "cafe\u0301", []show.Segment{{Kind: show.Odd, Text: "cafe\u0301", Code: "cafe U+0301",
			Note: "accents spelled apart (not in Unicode form NFC)", N: 5}}},
		{"stack", "a\u0316\u0317\u0318\u0319", []show.Segment{visible("a\u0316\u0317\u0318"),
			mark("⟦U+0319⟧", "combining character without a base of its own", 1)}},
		{"baseless", "\u0301a", []show.Segment{mark("⟦U+0301⟧", "combining character without a base of its own", 1), visible("a")}},
		{"strike", "a\u0336b", []show.Segment{visible("a"), mark("⟦U+0336⟧", "overlay", 1), visible("b")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, show.Text(tt.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJSON_escapes_are_no_part_of_words(t *testing.T) {
	t.Parallel()
	in := `{"a":"x\nпривет\u0007да"}`
	want := []show.Segment{{Kind: show.Visible, Text: in, N: utf8.RuneCountInString(in)}}
	if diff := cmp.Diff(want, show.JSON(in)); diff != "" {
		t.Error(diff)
	}
	if got := show.JSON(`\`); len(got) != 1 || got[0].Text != `\` {
		t.Errorf("a lone backslash became %v", got)
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain text", "plain text"},
		{`C:\users\x{1}`, `C:\users\u{5c}x{1}`},
		{`C:\temp`, `C:\temp`},
		{"x\n2026-11-30 granted", `x\u{a}2026-11-30 granted`},
		{"\x1b[1A\x1b[2K", `\u{1b}[1A\u{1b}[2K`},
		{"\u202e\u2028\r\t", `\u{202e}\u{2028}\u{d}\u{9}`},
		{"\x7f\u0085", `\u{7f}\u{85}`},
		{tags("a"), `\u{e0061}`},
		{"a\xffb\ufffd", `a\x{ff}b\u{fffd}`},
		{"é 世界", "é 世界"},
		{`\u{202e}`, `\u{5c}u{202e}`},
		{"\u0301a\u0301", `\u{301}` + "a\u0301"},
		{"a\u0316\u0317\u0318\u0319\u031a", "a\u0316\u0317\u0318" + `\u{319}\u{31a}`},
	} {
		if got := show.Plain(tt.in); got != tt.want {
			t.Errorf("Plain(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"short", "short"},
		{"0123456789", "0123456789"},
		{"0123456789x", "0123456789… (11 bytes)"},
		{strings.Repeat("é", 1<<19), strings.Repeat("é", 10) + "… (1048576 bytes)"},
		{strings.Repeat("世", 11), strings.Repeat("世", 10) + "… (33 bytes)"},
		{"\n\n\n", `\u{a}\u{a}… (3 bytes)`},
	} {
		if got := show.Line(tt.in, 10); got != tt.want {
			t.Errorf("Line(%.20q…) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// FuzzText holds what the package promises: every character is accounted for, in order; what is drawn is printable and
// has no character that could change how its neighbours are drawn; one spelling stands for one text.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "a\u202eb", "cafe\u0301", "\xff\xfe", tags("hi"), selectors("hello"), "\n\n\t ",
		"pаypal", "a\u0336\u0301", `\u{1}`, "👨‍👩‍👧", strings.Repeat(" ", 100), "⟦U+0041⟧"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, segs := range [][]show.Segment{show.Text(s), show.JSON(s)} {
			n := 0
			var rest = s
			for _, seg := range segs {
				n += seg.N
				if seg.Kind == show.Visible || seg.Kind == show.Odd {
					if !strings.HasPrefix(rest, seg.Text) {
						t.Fatalf("%q is not the next of %q", seg.Text, rest)
					}
				}
				for range seg.N {
					_, size := utf8.DecodeRuneInString(rest)
					rest = rest[size:]
				}
				for _, drawn := range []string{seg.Text, seg.Code, seg.Note} {
					if p := show.Plain(strings.NewReplacer("⟦", "", "⟧", "", `\`, "").Replace(drawn)); strings.Contains(p, `\`) {
						t.Fatalf("%q would be drawn", p)
					}
				}
			}
			if rest != "" || n != utf8.RuneCountInString(s) {
				t.Fatalf("%d of %d characters accounted for, left %q", n, utf8.RuneCountInString(s), rest)
			}
		}
		p := show.Plain(s)
		if show.Plain(p) != p && !strings.Contains(p, `\`) {
			t.Fatalf("Plain(%q) = %q is not plain", s, p)
		}
		if got := unplain(p); got != s {
			t.Fatalf("Plain(%q) = %q reads back as %q", s, p, got)
		}
		_ = show.Line(s, 5)
	})
}

// unplain reads what Plain wrote.
func unplain(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); {
		if strings.HasPrefix(p[i:], `\u{`) || strings.HasPrefix(p[i:], `\x{`) {
			end := i + strings.IndexByte(p[i:], '}')
			var v int64
			for _, c := range p[i+3 : end] {
				v = v<<4 + int64(strings.IndexRune("0123456789abcdef", c))
			}
			if p[i+1] == 'u' {
				b.WriteRune(rune(v))
			} else {
				b.WriteByte(byte(v))
			}
			i = end + 1
			continue
		}
		b.WriteByte(p[i])
		i++
	}
	return b.String()
}

func tags(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(0xE0000 + r)
	}
	return b.String()
}

func selectors(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(0xE0100 + rune(s[i]) - 16)
	}
	return b.String()
}
