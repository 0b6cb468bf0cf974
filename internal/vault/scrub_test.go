package vault_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/vault"
)

// hard has every character that some encoding writes in another way.
const hard = `p"ä\ss+w/ö%r=d&<€>'😀 x_y-z~`

func scrubber(t testing.TB, text string) *vault.Scrubber {
	t.Helper()
	return filled(t, map[string]string{"/headers/X-Key": "{{secret:key}}"}, text).Scrubber()
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSpace(b.String())
}

// ascii writes JSON without any character beyond ASCII, as many servers do.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range quote(s) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\u%04X\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		}
	}
	return b.String()
}

func percentAll(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func inside(s string) string { return s[1 : len(s)-1] }

// forms are a secret as it is written on the way.
func forms(s string) map[string]string {
	lines := base64.StdEncoding.EncodeToString([]byte("before it: " + s + " and after"))
	return map[string]string{
		"raw": s, "JSON": inside(quote(s)), "ASCII JSON": inside(ascii(s)), "JSON in JSON": inside(quote(inside(quote(s)))), "three times": inside(quote(inside(quote(inside(quote(s)))))),
		"slashes": strings.ReplaceAll(inside(quote(s)), "/", `\/`), "query": url.QueryEscape(s), "path": url.PathEscape(s), "percent": percentAll(s),
		"percent twice": url.QueryEscape(url.QueryEscape(s)), "percent in JSON": inside(quote(url.QueryEscape(s))), "JSON in percent": url.QueryEscape(inside(quote(s))),
		"HTML": html.EscapeString(s), "HTML entities": strings.ReplaceAll(html.EscapeString(s), "&#34;", "&quot;"), "hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"base64": base64.StdEncoding.EncodeToString([]byte(s)), "base64 raw": base64.RawStdEncoding.EncodeToString([]byte(s)), "base64 url": base64.URLEncoding.EncodeToString([]byte(s)),
		"base64 of one before": base64.StdEncoding.EncodeToString([]byte("x" + s + "y")), "base64 of two before": base64.RawURLEncoding.EncodeToString([]byte("xy" + s)),
		"base64 of a header": base64.StdEncoding.EncodeToString([]byte("user:" + s)), "base64 in a URL": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("ab" + s))),
		"base64 in lines": lines[:20] + "\r\n" + lines[20:40] + "\n" + lines[40:], "base64 in lines in JSON": inside(quote(lines[:20] + "\n" + lines[20:])),
	}
}

func TestScrub_forms(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{hard, "AKIAIOSFODNN7EXAMPLE", "12345678", "a b c d e f g", "ÿÿÿÿÿÿÿÿ", "~~~???>>>", `C:\new\table\u0041`, "a+b+c+d+e", "100%25%41% and more", "&amp;&lt;&#65;xyzuvw"} {
		s := scrubber(t, secret)
		for name, form := range forms(secret) {
			text := "before " + form + " after"
			out, found := s.Text([]byte(text))
			if len(found) != 1 || found[0].Name != "key" || found[0].Version != 1 || found[0].Count != 1 {
				t.Errorf("%s as %s: found %v in %s", secret, name, found, text)
				continue
			}
			if bytes.Contains(out, []byte(secret)) || !strings.HasPrefix(string(out), "before ") || !strings.HasSuffix(string(out), " after") ||
				!strings.Contains(name, "lines") && string(out) != "before [redacted] after" {
				t.Errorf("%s as %s: %q", secret, name, out)
			}
			if again, found := s.Text(out); found != nil || !bytes.Equal(again, out) {
				t.Errorf("%s as %s: again %v", secret, name, found)
			}
		}
	}
}

// Secrets of which little is left without escapes are found as they are.
func TestScrub_odd(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{`\\\\\\\\`, "%25%25%25", "++++++++", `ends with \`, `"""""""\`, "&amp;&amp;"} {
		s := scrubber(t, secret)
		for _, text := range []string{secret, "before " + secret + " after", quote(secret) + `\`, "%" + secret, `\` + secret, "&#" + secret} {
			if strings.Contains(text, secret) {
				if out, found := s.Text([]byte(text)); found == nil || strings.Contains(string(out), secret) {
					t.Errorf("%s in %s: %v, %s", secret, text, found, out)
				}
			}
		}
		if out, found := s.JSON([]byte(quote(secret))); found == nil || string(out) != `"[redacted]"` {
			t.Errorf("%s: %s", secret, out)
		}
		if _, found := s.Text([]byte("        \\ %% & ")); found != nil {
			t.Errorf("%s is found everywhere", secret)
		}
	}
}

// What is no secret, or only a part of one, stays byte for byte.
func TestScrub_unchanged(t *testing.T) {
	t.Parallel()
	s := scrubber(t, hard)
	for _, text := range []string{
		"", "x", hard[:len(hard)-1], hard[1:], strings.ToUpper(hard), "{{secret:key}}", strings.Repeat(`\`, 1000), strings.Repeat("%25", 1000), strings.Repeat("&amp;", 100), "&#", "%", `\u`, `\ud800`, "&#x;",
		"\xff\xfe", hard[:10] + "x" + hard[10:],
	} {
		out, found := s.Text([]byte(text))
		if string(out) != text || found != nil {
			t.Errorf("%.40q: %.40q, %v", text, out, found)
		}
	}
	for _, doc := range []string{`{}`, ` [1.50, "x" , null,true] `, `{"a":1,"a":"\u0041"}`, "{", "\xff", "", "[}", `{"x":`, "1 2", strings.Repeat("[", 100_000)} {
		out, found := s.JSON([]byte(doc))
		if string(out) != doc || found != nil {
			t.Errorf("%.40q: %.40q, %v", doc, out, found)
		}
	}
	var none *vault.Scrubber
	if out, found := none.JSON([]byte(hard)); string(out) != hard || found != nil {
		t.Error("no scrubber has found something")
	}
	if out, found := new(vault.Scrubber).Text([]byte(hard)); string(out) != hard || found != nil {
		t.Error("an empty scrubber has found something")
	}
}

func TestScrub_count(t *testing.T) {
	t.Parallel()
	s := secrets(t)
	put(t, s, "one", "secret number one")
	put(t, s, "two", "secret number two")
	put(t, s, "two", "secret number two and more")
	put(t, s, "pair", base64.StdEncoding.EncodeToString([]byte("name:a password")))
	f, err := s.Fill(t.Context(), sheet(t, map[string]string{"/env/A": "{{secret:one}}{{secret:two}}{{secret:two@1}}", "/env/B": "Basic {{secret:pair}}"}),
		target(t, "", anyGrant("one", []string{"/env/A"}, nil), anyGrant("two", []string{"/env/A"}, nil), anyGrant("pair", []string{"/env/B"}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	out, found := f.Scrubber().Text([]byte("secret number one, secret number two, secret number two and more, secret number one, name:a password, a password"))
	if want := "[redacted], [redacted], [redacted], [redacted], [redacted], [redacted]"; string(out) != want {
		t.Errorf("%s", out)
	}
	counts := map[string]int{}
	for _, x := range found {
		counts[fmt.Sprint(x.Name, x.Version)] = x.Count
	}
	if d := cmp.Diff(map[string]int{"one1": 2, "two1": 1, "two2": 1, "pair1": 2}, counts); d != "" {
		t.Error(d)
	}
}

func TestScrub_JSON(t *testing.T) {
	t.Parallel()
	s := scrubber(t, hard)
	for name, form := range forms(hard) {
		doc := `{"a": [1.50, ` + ascii("x "+form+" y") + ` ], "content":[{"text":` + quote(quote(form)) + `}],"b":"\u0041"}`
		out, found := s.JSON([]byte(doc))
		if len(found) != 1 || found[0].Count != 2 {
			t.Errorf("%s: %v in %s", name, found, doc)
		}
		if want := `{"a": [1.50, "x [redacted] y" ], "content":[{"text":"\"[redacted]\""}],"b":"\u0041"}`; string(out) != want {
			t.Errorf("%s: %s", name, out)
		}
	}
	number := scrubber(t, "12345678")
	if out, found := number.JSON([]byte(`{"a":12345678,"b":[0.12345678e3]}`)); len(found) != 1 || string(out) != `{"a":"[redacted]","b":["0.[redacted]e3"]}` {
		t.Errorf("%s, %v", out, found)
	}
	for name, doc := range map[string]string{
		"a name": `{` + quote(hard) + `:1}`, "a name within": `[{"x":1,` + quote("x"+hard) + `:1}]`, "cut off": `{"a":` + quote(hard), "no JSON": hard, "more": quote(hard) + "}",
	} {
		if out, found := s.JSON([]byte(doc)); out != nil || len(found) != 1 {
			t.Errorf("%s: %s, %v", name, out, found)
		}
	}
	across := scrubber(t, `first","second`)
	if out, found := across.JSON([]byte(`["first","second"]`)); out != nil || len(found) != 1 {
		t.Errorf("%s, %v", out, found)
	}
}

func FuzzScrub(f *testing.F) {
	for _, form := range forms(hard) {
		f.Add(hard, "a "+form+" b")
	}
	f.Add("12345678", `{"a":12345678}`)
	f.Add(`\\\\\\\\`, `"\\\\\\\\\\\\\\\\"`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		if _, err := vault.NewValue([]byte(secret)); err != nil || len(secret) > 200 || strings.Contains(secret, "redacted") {
			return
		}
		s := vault.NewScrubber(secret)
		out, found := s.Text([]byte(text))
		if (found == nil) != (string(out) == text) {
			t.Fatalf("found %v, but %q of %q", found, out, text)
		}
		if out, _ := s.Text([]byte(text + secret + text)); strings.Contains(string(out), secret) {
			t.Fatalf("%q", out)
		}
		if strings.ContainsAny(secret, `\&%+`) {
			return // what is left of it without escapes may be found or not
		}
		for name, form := range forms(secret) {
			if out, _ := s.Text([]byte(" " + form + " ")); strings.Contains(string(out), secret) {
				t.Fatalf("%s: %q", name, out)
			}
			if _, found := s.Text([]byte(form)); found == nil {
				t.Fatalf("%q as %s is not found in %q", secret, name, form)
			}
		}
		if doc, found := s.JSON([]byte(text)); json.Valid([]byte(text)) && found != nil && doc != nil && !json.Valid(doc) {
			t.Fatalf("%q became %q", text, doc)
		}
	})
}

func BenchmarkScrub(b *testing.B) {
	s := scrubber(b, "sk-live-0123456789abcdef")
	for name, text := range map[string]string{
		"prose": strings.Repeat("The quick brown fox jumps over the lazy dog, and so on. ", 20_000), "base64": strings.Repeat("c2stbGl2ZS0wMTIzNDU2Nzg", 50_000),
		"backslashes": strings.Repeat(`\`, 1<<20), "percent": strings.Repeat("%25", 1<<18), "near": strings.Repeat("sk-live-0123456789abcde", 50_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, found := s.Text([]byte(text)); found != nil && name != "base64" {
					b.Fatal(found)
				}
			}
		})
	}
}
