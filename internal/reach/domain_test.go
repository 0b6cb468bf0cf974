package reach_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

func domains(t testing.TB, entries ...string) reach.DomainAllowlist {
	t.Helper()
	l, err := reach.ParseDomainAllowlist(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDomainAllowlist_Covers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		list string
		yes  string
		no   string
	}{
		{
			list: "api.example.com *.trusted.io host:8443",
			yes: "http://api.example.com/ https://API.example.com./x https://sub.trusted.io/ http://a.b.trusted.io/ https://host:8443/ http://host:8443/ " +
				"https://api.example.com:443/ http://api.example.com:80",
			no: "http://evil.com/ http://trusted.io/ http://trusted.io./ http://eviltrusted.io/ http://trusted.io.evil.test/ http://api.example.com.evil.test/ " +
				"http://evil.test/?u=api.example.com http://evil.test#@api.example.com/ http://host/ https://host/ http://api.example.com:8443/ http://api.example.com:22/ " +
				"http://api.example.com:443/ https://api.example.com:80/ http://sub.api.example.com/ http://example.com/ http://sub.trusted.io:8080/ http://sub.host:8443/",
		},
		{list: "", no: "http://example.com/ http://localhost/ http://127.0.0.1/"},
		{list: "*", yes: "http://example.com/ https://a/ http://10.0.0.1/ http://[::1]/", no: "http://example.com:8080/ https://example.com:80/"},
		{list: "*:8080", yes: "http://example.com:8080/ https://a:8080/", no: "http://example.com/ https://a/"},
		{list: "* a.test:81 a.test:82", yes: "http://a.test:81/ http://a.test:82 http://a.test", no: "http://a.test:83"},
		{list: "*.x.test:81 x.test", yes: "http://a.x.test:81/ http://x.test/", no: "http://a.x.test/ http://x.test:81/"},
		{list: "10.0.0.1 [2001:db8:0::1]:8443 [::1]", yes: "http://10.0.0.1/ https://[2001:DB8::1]:8443/ http://[0::1]/", no: "http://10.0.0.2/ http://[2001:db8::1]/ http://[::2]/"},
		{list: "K\u00d6LN.example *.xn--kln-sna.test", yes: "http://k\u00f6ln.example/ http://xn--kln-sna.example/ http://a.k\u00f6ln.test/", no: "http://koln.example/ http://k\u00f6ln.test/"},
		{list: "*.io", yes: "http://a.io/ http://a.b.io/", no: "http://io/ http://aio/"},
		{list: "Example.COM.", yes: "http://example.com/ http://example.com./", no: "http://example.co/"},
	} {
		l := domains(t, strings.Fields(tt.list)...)
		for _, s := range strings.Fields(tt.yes) {
			if !l.Covers(mustURL(t, s)) {
				t.Errorf("[%s] doesn't cover %s", tt.list, s)
			}
		}
		for _, s := range strings.Fields(tt.no) {
			if l.Covers(mustURL(t, s)) {
				t.Errorf("[%s] covers %s", tt.list, s)
			}
		}
		if l.Covers(reach.URL{}) {
			t.Errorf("[%s] covers no URL", tt.list)
		}
	}
}

func TestParseDomainAllowlist_rejects(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", " ", "*.", "**", "*.*", "*.*.a", "a.*", "a*.test", "*a.test", "http://a.test", "https://a.test/", "a.test/", "a.test/x", "a.test?x", "a@b", "*:", "*:0", "*:x", "a.test:", "a.test:0",
		"a.test:65536", "a.test:*", "*.10.0.0.1", "*.[::1]", "*.0.1", "127.1", "0x7f.1", ".a.test", "..", ".", "*..a.test", "a b", "a.test ", "c\u043eop.test", "coop\u3002test", "::1", "[::1%lo]",
		"[::ffff:1.2.3.4]", "a,b", `a\b`, "%61.test", "a.test#", strings.Repeat("a.", 126) + "test",
	} {
		l, err := reach.ParseDomainAllowlist([]string{"*", s})
		if !errors.Is(err, counterfoil.CodeInvalidInput) || l.Covers(mustURL(t, "http://a.test/")) {
			t.Errorf("%q is taken: %v", s, err)
		}
	}
	if _, err := reach.ParseDomainAllowlist(make([]string, 1025)); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("too many: %v", err)
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	l := reach.Only(mustURL(t, "https://a.test/x"), reach.URL{}, mustURL(t, "http://b.test:81/"))
	for s, want := range map[string]bool{
		"https://a.test/y": true, "http://a.test:443/": true, "http://a.test/": false, "https://b.test:81/": true, "http://b.test/": false, "https://sub.a.test/": false,
	} {
		if l.Covers(mustURL(t, s)) != want {
			t.Errorf("%s: want %v", s, want)
		}
	}
}

func FuzzParseDomainAllowlist(f *testing.F) {
	for _, s := range []string{"a.test", "*.a.test:81", "*", "*:1", "[::1]:2", "k\u00f6ln.test", "10.0.0.1", "xn--kln-sna.test"} {
		f.Add(s, "http://sub.a.test/")
	}
	f.Fuzz(func(t *testing.T, entry, raw string) {
		l, err := reach.ParseDomainAllowlist([]string{entry})
		u, urlErr := reach.ParseURL(raw)
		if err != nil || urlErr != nil {
			if err != nil && !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Fatal(err)
			}
			return
		}
		if !l.Covers(u) || strings.HasPrefix(entry, "*") {
			return
		}
		// An entry without a star covers one host, which is the same when it is written into a URL.
		if same, err := reach.ParseURL("http://" + entry); err != nil || same.Host() != u.Host() {
			t.Fatalf("%q covers %q", entry, u)
		}
	})
}
