package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/redact"
)

// FuzzText: masking is done in one go, says so, and never takes more than it says.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"https://bob:a@b9x7@h.test/p?%61pi_key=S&x=1#token=t", `{"password":"a\"b"} x`, "Authorization: Digest a=\"b\", c=d", "--token 'x' y",
		"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----", "a:b@tcp(h)/d", `{\"secret\": \"x\"}`, "Cookie: a=b; c=d", "Basic dXNlcjpwYXNz",
		"password='it''s', next=1", "//u:p@h", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc.def.ghi.jkl", "api_key=https%3A%2F%2Fh%26b", "pwd: x # y",
		"https://h/?key=abcdefgh12345678;sig=1", "\\u0026token=abc", `["--password","x"]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, rep := redact.Text(s)
		if (got == s) != rep.Clean() {
			t.Fatalf("%q became %q, but the report says %+v", s, got, rep)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("%q became %q, which is no UTF-8", s, got)
		}
		if again, rep := redact.Text(got); again != got || !rep.Clean() {
			t.Fatalf("%q became %q, then %q (%+v)", s, got, again, rep)
		}
	})
}

// FuzzValue: the result is JSON of the same shape, and masking it again changes nothing.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`{"apiKey":"k","a":[1,{"token":{"x":"abc123def"}}]}`, `{"https://u:p@h":1,"https://u:***@h":{"kty":"x","d":"y"}}`,
		`[{"name":"API_KEY","value":"x"},"--password","y"]`, `{"t":"{\"secret\":[\"x\"]}"}`, `{"password":{"type":"string","x":"y"}}`, `"Bearer abcdefgh1"`,
		`{"cookie":"a=b1cdef","credentials":[["x"],{"user":"u"}]}`, `{"\u0070wd":1,"x":"\ud83d\ude00 pwd=\u0041"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := string(doc)
		got, rep, err := redact.Value(doc)
		if string(doc) != before {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if got != nil || !rep.Clean() || !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Fatalf("%q: %q, %+v, %v", doc, got, rep, err)
			}
			return
		}
		if (string(got) == before) != rep.Clean() {
			t.Fatalf("%q became %q, but the report says %+v", doc, got, rep)
		}
		var a, b any
		if decode(doc, &a) != nil || decode(got, &b) != nil || !sameShape(a, b) {
			t.Fatalf("%q became %q", doc, got)
		}
		again, rep, err := redact.Value(got)
		if err != nil || string(again) != string(got) || !rep.Clean() {
			t.Fatalf("%q became %q, then %q (%+v, %v)", doc, got, again, rep, err)
		}
	})
}

// decode keeps numbers of any size.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}

// sameShape reports whether b is a with nothing but strings, numbers and names changed.
func sameShape(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && len(a) == len(b)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameShape(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		return reflect.DeepEqual(a, b) || b == redact.Mask
	case string:
		_, ok := b.(string)
		return ok
	}
	return reflect.DeepEqual(a, b)
}

// FuzzSecret: a secret of any form under a secret's name, or before a host, leaves no part of four bytes.
func FuzzSecret(f *testing.F) {
	for _, s := range []string{"s3cretpart", "correct horse battery", "a@b/c:d#e?f%g", "it's,a;b&c|d", "x=y", "\"quoted\"", "пароль-пароль", "{\"a\":\"bcdef\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		if len(secret) < 8 || len(secret) > 200 || !utf8.ValidString(secret) || strings.ContainsAny(secret, "<>{}[]$%*\\/.:…•") || strings.TrimSpace(secret) != secret {
			return
		}
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		doc := `{"outer":{"password":` + string(quoted) + `},"n":1}`
		got, rep, err := redact.Value([]byte(doc))
		if strings.Trim(secret, "*xX.-") == "" || strings.Contains("required|optional|undefined|disabled|redacted|incorrect|secretstr", strings.ToLower(secret)) {
			return
		}
		if err != nil || string(got) != `{"outer":{"password":"***"},"n":1}` || rep.Clean() {
			t.Fatalf("%s became %s, %v", doc, got, err)
		}
		text := "x password=" + string(quoted) + " y"
		if strings.ContainsAny(secret, "\n") {
			return
		}
		if got, rep := redact.Text(text); rep.Clean() || got != `x password="***" y` {
			t.Fatalf("%s became %s", text, got)
		}
		if strings.ContainsAny(secret, " \t\"'<>`?#@,;()\r\v\f\u0085\u00a0") || strings.IndexFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
			return
		}
		text = "dial https://bob:" + secret + "@h.test/p: refused"
		if got, rep := redact.Text(text); rep.Clean() || got != "dial https://bob:***@h.test/p: refused" {
			t.Fatalf("%s became %s", text, got)
		}
	})
}
