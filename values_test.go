package counterfoil_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// A member that says no by its absence may not say it aloud: each statement has one spelling.
func TestParseReceipt_falseIsAbsent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"late", "recovered", "uncounted"} {
		d := receiptPayload()
		d[name] = false
		wantCode(t, drop(counterfoil.ParseReceipt)(envelopeOf("receipt", canonical(d))), counterfoil.CodeInvalidInput)
	}
}

// Texts of every kind, tried in the places that hold them.
func TestParse_texts(t *testing.T) {
	t.Parallel()
	identity := func(s string) error {
		d := consumptionPayload()
		d["tenant"] = s
		return drop(counterfoil.ParseConsumption)(envelopeOf("consumption", canonical(d)))
	}
	text := func(s string) error {
		d := approvalPayload()
		d["reason"] = s
		return drop(counterfoil.ParseApproval)(envelopeOf("approval", canonical(d)))
	}
	for _, c := range []struct {
		name, s        string
		identity, text bool
	}{
		{"one letter", "a", true, true},
		{"empty", "", false, false},
		{"512 bytes", strings.Repeat("a", 512), true, true},
		{"513 bytes", strings.Repeat("a", 513), false, true},
		{"512 bytes in 256 letters", strings.Repeat("é", 256), true, true},
		{"514 bytes in 257 letters", strings.Repeat("é", 257), false, true},
		{"65536 bytes", strings.Repeat("a", 65_536), false, true},
		{"65537 bytes", strings.Repeat("a", 65_537), false, false},
		{"space inside", "a b", true, true},
		{"space before", " a", false, true},
		{"space after", "a ", false, true},
		{"no-break space after", "a\u00a0", false, true},
		{"ideographic space before", "\u3000a", false, true},
		{"quote and backslash", `a"b\c`, true, true},
		{"line feed", "a\nb", false, false},
		{"zero byte", "a\x00", false, false},
		{"escape", "a\x1b[2J", false, false},
		{"DEL", "a\x7f", false, false},
		{"C1 control", "a\u0085", false, true},
		{"composed", "caf\u00e9", true, true},
		{"decomposed", "cafe\u0301", false, true},
		{"right-to-left override", "a\u202eb", false, true},
		{"right-to-left mark", "a\u200fb", false, true},
		{"isolate", "a\u2066b", false, true},
		{"zero width space", "a\u200bb", false, true},
		{"zero width joiner", "a\u200db", false, true},
		{"soft hyphen", "a\u00adb", false, true},
		{"byte order mark", "a\ufeffb", false, true},
		{"Hangul filler", "a\u3164b", false, true},
		{"combining grapheme joiner", "a\u034fb", false, true},
		{"variation selector", "a\ufe0fb", false, true},
		{"tag character", "a\U000e0041b", false, true},
		{"line separator", "a\u2028b", false, true},
		{"paragraph separator", "a\u2029b", false, true},
		{"other scripts", "Łódź-東京-😀", true, true},
	} {
		if err := identity(c.s); (err == nil) != c.identity {
			t.Errorf("%s as a name: %v", c.name, err)
		}
		if err := counterfoil.CheckIdentity(c.s); (err == nil) != c.identity {
			t.Errorf("%s as a name, checked: %v", c.name, err)
		}
		if err := text(c.s); (err == nil) != c.text {
			t.Errorf("%s as text: %v", c.name, err)
		}
	}
	if err := counterfoil.CheckIdentity("a\xff"); err == nil {
		t.Error("a name of bad UTF-8 was accepted")
	}
}

func TestParse_times(t *testing.T) {
	t.Parallel()
	parse := func(s string) error {
		d := consumptionPayload()
		d["consumedAt"] = s
		return drop(counterfoil.ParseConsumption)(envelopeOf("consumption", canonical(d)))
	}
	for _, s := range []string{"2026-07-10T20:00:00.000Z", "2024-02-29T23:59:59.999Z", "0001-01-01T00:00:00.001Z", "9999-12-31T23:59:59.999Z"} {
		if err := parse(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{
		"2026-07-10T20:00:00Z", "2026-07-10T20:00:00.00Z", "2026-07-10T20:00:00.000000000Z", "2026-07-10T20:00:00.0000Z",
		"2026-07-10T20:00:00.000+00:00", "2026-07-10T22:00:00.000+02:00", "2026-07-10T20:00:00.000z", "2026-07-10t20:00:00.000Z",
		"2026-07-10 20:00:00.000Z", "2026-07-10T24:00:00.000Z", "2026-07-10T20:00:60.000Z", "2026-02-30T20:00:00.000Z",
		"2025-02-29T20:00:00.000Z", "2026-7-10T20:00:00.000Z", "2026-07-10T20:00:00,000Z", "2026-07-10T20:00:00.000", "2026-07-10",
		"+012026-07-10T20:00:00.000Z", "-000001-07-10T20:00:00.000Z", "12026-07-10T20:00:00.000Z", "0000-01-01T00:00:00.000Z",
		"0001-01-01T00:00:00.000Z", " 2026-07-10T20:00:00.000Z", "1783713600", "",
	} {
		if err := parse(s); err == nil {
			t.Errorf("%s was accepted", s)
		}
	}
}

func TestParse_counts(t *testing.T) {
	t.Parallel()
	parse := func(number string) error {
		b := bytes.Replace(canonical(plan()), []byte(`"rows":100`), []byte(`"rows":`+number), 1)
		return drop(counterfoil.ParsePlan)(b)
	}
	for _, s := range []string{"0", "1", "9007199254740991", "1e2", "100.0"} {
		if err := parse(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"-1", "1.5", "9007199254740992", "9007199254740993", "18446744073709551616", "1e21", "1e300", "1e-7", `"1"`} {
		if err := parse(s); err == nil {
			t.Errorf("%s was accepted", s)
		}
	}
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	good := "sha256:" + strings.Repeat("0a", 32)
	d, err := counterfoil.ParseDigest(good)
	noError(t, err)
	if d.String() != good || d.IsZero() || !d.Equal(d) || d.Equal(counterfoil.Digest{}) || !(counterfoil.Digest{}).IsZero() {
		t.Errorf("got %s", d)
	}
	for _, s := range []string{
		"", "sha256:", strings.Repeat("0a", 32), "sha256:" + strings.Repeat("0A", 32), "SHA256:" + strings.Repeat("0a", 32),
		"sha256:" + strings.Repeat("0a", 31), "sha256:" + strings.Repeat("0a", 33), "sha256:" + strings.Repeat("0g", 32),
		"sha512:" + strings.Repeat("0a", 32), " " + good, good + " ", "sha256-" + strings.Repeat("0a", 32),
		"sha256:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("é", 32),
	} {
		d, err := counterfoil.ParseDigest(s)
		wantCode(t, err, counterfoil.CodeInvalidInput)
		if !d.IsZero() {
			t.Errorf("%q: a digest with an error", s)
		}
	}
}

// Digests of different kinds of documents never meet, even over the same bytes.
func TestDigests_haveDomains(t *testing.T) {
	t.Parallel()
	b := []byte(`{}`)
	a, err := counterfoil.ParseArguments(b)
	noError(t, err)
	def, err := counterfoil.DefinitionDigest(b)
	noError(t, err)
	up, err := counterfoil.UpstreamDigest(b)
	noError(t, err)
	rules, err := counterfoil.RulesDigest(b)
	noError(t, err)
	seen := map[counterfoil.Digest]string{}
	for domain, d := range map[string]counterfoil.Digest{
		"parameters": a.Digest(), "tool-definition": def, "upstream": up, "policy": rules,
		"result": counterfoil.ResultDigest(b), "event": counterfoil.EventDigest(b),
	} {
		if d.String() != digestOfBytes(domain, b) {
			t.Errorf("%s: got %s", domain, d)
		}
		if other, twice := seen[d]; twice {
			t.Errorf("%s and %s have one digest", domain, other)
		}
		seen[d] = domain
	}
	reordered, err := counterfoil.DefinitionDigest([]byte(` {"b":1, "a":[2]} `))
	noError(t, err)
	if reordered.String() != digestOf("tool-definition", doc{"a": list{2}, "b": 1}) {
		t.Errorf("a definition is digested as it was written: %s", reordered)
	}
	for _, f := range []func([]byte) (counterfoil.Digest, error){
		counterfoil.DefinitionDigest, counterfoil.UpstreamDigest, counterfoil.RulesDigest,
	} {
		d, err := f([]byte(`{"a":1,"a":2}`))
		wantCode(t, err, counterfoil.CodeInvalidInput)
		if !d.IsZero() {
			t.Error("a digest with an error")
		}
	}
}
