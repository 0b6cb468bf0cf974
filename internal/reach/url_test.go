package reach_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

func mustURL(t testing.TB, s string) reach.URL {
	t.Helper()
	u, err := reach.ParseURL(s)
	if err != nil {
		t.Fatalf("ParseURL(%q): %v", s, err)
	}
	return u
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://example.com":                              "http://example.com",
		"HTTPS://Example.COM/A?b#c":                       "https://example.com/A?b",
		"https://example.com.:443/":                       "https://example.com/",
		"http://example.com:443/":                         "http://example.com:443/",
		"https://example.com:80?x":                        "https://example.com:80?x",
		"http://example.com#@evil.test/":                  "http://example.com",
		"http://example.com?@evil.test/":                  "http://example.com?@evil.test/",
		"http://example.com/@evil.test":                   "http://example.com/@evil.test",
		"http://localhost:65535/":                         "http://localhost:65535/",
		"http://a_b.example.com/":                         "http://a_b.example.com/",
		"http://r3---sn-4g5e6n7k.example.com/":            "http://r3---sn-4g5e6n7k.example.com/",
		"http://10.0.0.1/":                                "http://10.0.0.1/",
		"http://10.0.0.1.:8080/":                          "http://10.0.0.1:8080/",
		"http://1.example/":                               "http://1.example/",
		"http://0x7f.example/":                            "http://0x7f.example/",
		"http://x.0g/":                                    "http://x.0g/",
		"http://[2001:DB8:0::1]:8080/":                    "http://[2001:db8::1]:8080/",
		"http://[::]/":                                    "http://[::]/",
		"https://K\u00d6LN.example/\u00e4?\u65e5":         "https://xn--kln-sna.example/\u00e4?\u65e5",
		"https://xn--kln-sna.example/":                    "https://xn--kln-sna.example/",
		"https://XN--KLN-SNA.k\u00f6ln.example/":          "https://xn--kln-sna.xn--kln-sna.example/",
		"https://\u65e5\u672c\u306eabc.example/":          "https://xn--abc-kc4b805ycvb.example/",
		"https://\u043f\u0440\u0438\u043c.example":        "https://xn--h1aihe.example",
		"http://example.com/a%20b?c=%zz":                  "",
		"http://example.com/%41?{a|b}=[1]\"<>^`":          "http://example.com/%41?{a|b}=[1]\"<>^`",
		"http://" + strings.Repeat("a", 63) + ".example/": "http://" + strings.Repeat("a", 63) + ".example/",
	} {
		got, err := reach.ParseURL(in)
		if (err != nil) != (want == "") || got.String() != want {
			t.Errorf("ParseURL(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err == nil && mustURL(t, got.String()) != got {
			t.Errorf("%q is not a fixed point", got)
		}
	}
}

func TestURL_parts(t *testing.T) {
	t.Parallel()
	u := mustURL(t, "https://[2001:db8::1]:8443/a?b")
	if u.Scheme() != "https" || u.Host() != "2001:db8::1" || u.Port() != 8443 || u.Origin() != "https://[2001:db8::1]:8443" || u.IsZero() {
		t.Errorf("parts of %q: %q %q %d %q", u, u.Scheme(), u.Host(), u.Port(), u.Origin())
	}
	if zero := (reach.URL{}); !zero.IsZero() || zero.String() != "" || zero.Origin() != "" {
		t.Errorf("the zero URL is %q", zero)
	}
}

// Each is a form that some parser reads as another host than another parser, or that no honest caller writes.
func TestParseURL_rejects(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string][]string{
		"no URL":         {"", "http", "http:", "http:/", "http://", "example.com", "/x", "//evil.test/x", "http:example.com", "http:/example.com", "http:///example.com", "http:////example.com"},
		"scheme":         {"ftp://a.test/", "file:///etc/passwd", "gopher://a.test/", "javascript://a.test/", "data:,x", "ws://a.test/", "httpx://a.test/", " http://a.test/", "\thttp://a.test", "ht\ntp://a.test/", "http ://a.test/"},
		"user info":      {"http://api.example.com@evil.test/", "http://api.example.com:80@evil.test:443/", "http://@evil.test/", "http://a:b@evil.test/", "http://a@b@evil.test/", "http://:@evil.test/", "http://evil.test@/"},
		"backslash":      {`http://api.example.com\@evil.test/`, `http:\\evil.test/`, `http://evil.test\.example.com/`, `http://example.com/\evil`, `http:/\evil.test`},
		"control":        {"http://exa\tmple.com/", "http://exa\nmple.com/", "http://example.com/\r\nX: y", "http://example.com\x00.evil.test/", "http://example.com/\x7f", "http://example.com/\u0085"},
		"blank":          {"http://example.com /", "http://example.com/a b", "http://example.com/ ", "http://example.com/\u00a0", "http://example.com/\u3000", "http://example.com/\u2028"},
		"port":           {"http://a.test:/", "http://a.test:0/", "http://a.test:080/", "http://a.test:65536/", "http://a.test:-1/", "http://a.test:+80/", "http://a.test:8e1/", "http://a.test:80:80/", "http://a.test:\u0668\u0660/", "http://:80/", "http://[::1]:/", "http://a.test:80_0/"},
		"dots":           {"http://./", "http://../", "http://.a.test/", "http://a..test/", "http://a.test../", "http://.../"},
		"labels":         {"http://-a.test/", "http://a-.test/", "http://" + strings.Repeat("a", 64) + ".test/", "http://" + strings.Repeat("a.", 127) + "a/", "http://a.test-/"},
		"characters":     {"http://a,b.test/", "http://a;b.test/", "http://a*.test/", "http://$a.test/", "http://a'b.test/", "http://(a).test/", "http://<a>.test/", "http://a!b.test/", "http://a|b/", "http://a&b.test/", "http://a=b.test/", "http://a~b.test/"},
		"percent":        {"http://%65xample.com/", "http://example%2ecom/", "http://example.com%2f.evil.test/", "http://127.0.0.1%00/", "http://a.test/%", "http://a.test/%4", "http://a.test/%4x", "http://a.test/?%"},
		"odd numbers":    {"http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://127.1/", "http://127.0.1/", "http://0177.0.0.1/", "http://127.0.0.01/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://1.2.3.0x4/", "http://0/", "http://0x/", "http://a.0x/", "http://a.test.1/", "http://a.07/", "http://0X7F.0.0.1/"},
		"IPv6":           {"http://[::1/", "http://::1/", "http://[::1]a/", "http://[]/", "http://[::1%25eth0]/", "http://[::1%eth0]/", "http://[127.0.0.1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[a.test]/", "http://[[::1]]/", "http://[::1]]/", "http://a[::1]/", "http://[v1.a]/", "http://[::1].test/"},
		"look-alikes":    {"http://coop\u3002test/", "http://127\u30020\u30020\u30021/", "http://\uff43oop.test/", "http://coop.test\u200b/", "http://co\u00adop.test/", "http://coop\uff0etest/", "http://coop.test\uff0f.evil.test/", "http://a.test\u2044b/", "http://\u2460.test/", "http://\uff11\uff12\uff17.0.0.1/", "http://\u212a.test/", "http://\u212b.test/", "http://xn--ls8h.test/", "http://ko\u0308ln.test/", "http://coop\u2024test/", "http://a\u200db.test/", "http://\ufe0fa.test/"},
		"mixed scripts":  {"http://c\u043eop.test/", "http://xn--cop-sed.test/", "http://\u03b1bc.test/", "http://\u0561a.test/", "http://\u65e5\u0430.test/", "http://\u3042\uac00.test/", "http://\u0430\u03b1.test/"},
		"false punycode": {"http://xn--.test/", "http://xn--a.test/", "http://xn--coop-.test/", "http://xn--99999999999.test/", "http://xn--zca\u00df.test/", "http://xn--ls8h.test\u200b/", "http://xn--kln-sna-.test/", "http://a.xn--\xff.test/"},
		"UTF-8":          {"http://\xff.test/", "http://a.test/\xff", "http://a.test/\xed\xa0\x80"},
		"invisible":      {"http://a.test/\u200b", "http://a.test/\u202e", "http://a.test/\u2066", "http://a.test/\ufeff", "http://a.test/\ufe0f", "http://a.test/\u00ad", "http://a.test/\u3164", "http://a.test/\u034f", "http://a.test/\u115f", "http://a.test/\uff0fb", "http://a.test/\U000e0041"},
		"long":           {"http://a.test/" + strings.Repeat("a", 8192), "http://" + strings.Repeat("a.", 4000) + "test/", "http://" + strings.Repeat("\u00e4", 126) + "/"},
	} {
		for _, in := range urls {
			u, err := reach.ParseURL(in)
			if !errors.Is(err, counterfoil.CodeInvalidInput) || !u.IsZero() {
				t.Errorf("%s: ParseURL(%.80q) = %q, %v; want an invalid-input error", name, in, u, err)
			} else if len(in) > 8 && strings.Contains(err.Error(), in) {
				t.Errorf("%s: the error repeats the URL: %v", name, err)
			}
		}
	}
}

// dialled returns the host and port that net/http dials for a URL as it was written.
func dialled(t testing.TB, raw string) (string, string) {
	t.Helper()
	var address string
	stop := errors.New("stop")
	tr := &http.Transport{DialContext: func(_ context.Context, _, a string) (net.Conn, error) {
		address = a
		return nil, stop
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, nil)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", raw, err)
	}
	if resp, err := tr.RoundTrip(req); !errors.Is(err, stop) {
		if err == nil {
			_ = resp.Body.Close()
		}
		t.Fatalf("net/http doesn't dial %q: %v", raw, err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(host, ".")); err == nil {
		host = a.String()
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), port
}

// What was judged is what net/http dials, from the URL as it was written and from its one spelling.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"http://example.com/", "https://k\u00f6ln.example:8443/a?b#c", "http://[2001:db8::1]:80/", "http://1.2.3.4/", "http://xn--kln-sna.example./",
		`http://a\@b/`, "http://a@b/", "http://0x7f.1/", "http://\u65e5\u672c.test", "http://a_b.c-d.e/?%41{}|", "HTTP://A:1#@b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := reach.ParseURL(s)
		if err != nil {
			if !u.IsZero() || !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Fatalf("%q with %v", u, err)
			}
			return
		}
		for _, text := range []string{s, u.String()} {
			host, port := dialled(t, text)
			if host != u.Host() || port != strconv.Itoa(int(u.Port())) {
				t.Fatalf("%q: judged %s, net/http dials %s", text, net.JoinHostPort(u.Host(), strconv.Itoa(int(u.Port()))), net.JoinHostPort(host, port))
			}
		}
		if again, err := reach.ParseURL(u.String()); err != nil || again != u {
			t.Fatalf("%q becomes %q, %v", u, again, err)
		}
		if !reach.Only(u).Covers(u) || (reach.DomainAllowlist{}).Covers(u) {
			t.Fatalf("%q is covered by nothing, or not by itself", u)
		}
	})
}

func BenchmarkURL(b *testing.B) {
	list := make([]string, 0, 1001)
	for i := range 1000 {
		list = append(list, "*.h"+strconv.Itoa(i)+".example.com")
	}
	l, err := reach.ParseDomainAllowlist(append(list, "*.trusted.io"))
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]string{
		"plain":         "https://api.eu.trusted.io/v1/items/42?expand=owner&limit=10",
		"port":          "https://api.eu.trusted.io:443/v1/items/42",
		"international": "https://k\u00f6ln.trusted.io/v1/items",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if u, err := reach.ParseURL(s); err != nil || !l.Covers(u) {
					b.Fatal(err)
				}
			}
		})
	}
}
