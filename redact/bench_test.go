package redact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/redact"
)

const page = `The service answers on https://api.example.test:8443/v1/items?limit=10&sort=name with a list (see
https://docs.example.test/guide#paging). Each item has an id such as 550e8400-e29b-41d4-a716-446655440000, an author, and a
digest: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.

	for i := range items { total += items[i].Count } // author: bob
	if token == nil { return errors.New("no token") }
`

func BenchmarkText(b *testing.B) {
	for name, s := range map[string]string{
		"clean": strings.Repeat(page, 200), "secrets": strings.Repeat(page+"password=hunter2\n", 200), "short": "dial tcp 10.0.0.1:5432: connection refused",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			for b.Loop() {
				redact.Text(s)
			}
		})
	}
}

func BenchmarkValue(b *testing.B) {
	row := map[string]any{"id": 7, "author": "bob", "note": page[:200], "tags": []string{"a", "b"}, "nested": map[string]any{"open": true, "count": 3}}
	for name, n := range map[string]int{"small": 1, "large": 500} {
		rows := make([]any, n)
		for i := range rows {
			rows[i] = row
		}
		doc, err := json.Marshal(map[string]any{"rows": rows})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := redact.Value(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Text made to be looked at again and again costs no more than in proportion to its length.
func TestText_linear(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{
		"a", "=", ":", " ", "/", "//", "://", "x://a:b/", "x://a:b,", "x://a,", "@", "@tcp(", "password=", "password='", `password=\"`, "secret=(", "token=f(",
		"token=f(x", "token: a b ", "tokens:", "tokens:ab", "?key:a", "?key=", "auth: a ", "auth:aaa{", "auth=a;", "cookie: ", "cookie: a=", "sk-", "sk-a",
		"xoxb-", "xoxb-a-", "eyJaaaaaaaa.", "eyJaaaaaaaa.a", "-----BEGIN ", "-----BEGIN PRIVATE KEY", "--token ", "--token f(", "%3D", "token%3D", "%3A%2F%2F",
		"%3A%2F%2Fa%3A", "<token>", "<token>a", "bearer ", "Basic ", "basic a", "curl -u ", "curl -u a:", "machine login x password ", "password ", `\`, `\"`, `\u003d`,
		"token=\"a ", "token='a ", "token=`a ", "a,", "password=a,", "password=a,b", "a.b.c=", "Authorization: Digest a=\"", "hf_", "bot1234567:", "AKIA", "token=\"${",
		"pass=${a", "{", "[", `{"a":`, `{"password":`, "[\"", "x://[", "'x://", "(x://a)", "\xff", "é", "é=", "\\\\\"", "sha256:", "sha256:a", "password: |\n", "password is ", "password is a1", "IDENTIFIED ", "IDENTIFIED BY '", "PASSWORD FOR ", "SharedAccessSignature ", "SharedAccessSignature a=", "mysql -p", "u:p@/d", "@//", "invalid port \":", "invalid port \":a", "password:\n  a1b2c3", "x://a:b1c2d3", "jdbc:oracle:a/b@", "password: |\n ", "\"x://a:b ", "\n  secret: >-\n",
	} {
		// Sixteen times the input; quadratic would be 256 times the time. A machine that is busy with something else gets
		// three chances.
		for try := 1; ; try++ {
			small, large := cost(unit, 1<<15), cost(unit, 1<<19)
			if large <= 80*small || large <= 500*time.Millisecond {
				break
			}
			if try == 3 {
				t.Errorf("%q: %s for 32 KiB, %s for 512 KiB", unit, small, large)
				break
			}
		}
	}
}

func cost(unit string, size int) time.Duration {
	s := strings.Repeat(unit, size/len(unit))
	best := time.Hour
	for range 2 {
		start := time.Now()
		redact.Text(s)
		best = min(best, time.Since(start))
	}
	return best
}
