package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("paths of other systems")
	}
	for _, c := range []struct {
		text, file, url string
	}{
		{"", "/state/counterfoil.db", ""},
		{"sqlite:", "/state/counterfoil.db", ""},
		{"sqlite:///var/lib/x.db", "/var/lib/x.db", ""},
		{"sqlite:///var/lib/a%20b%3f.db", "/var/lib/a b?.db", ""},
		{"postgres://u@h/d", "", "postgres://u@h/d"},
		{"postgresql://u:p@h:1,g:2/d?sslmode=verify-full", "", "postgresql://u:p@h:1,g:2/d?sslmode=verify-full"},
	} {
		p, err := parsePlace(c.text, "/state")
		if err != nil || p.file != c.file || p.url != c.url {
			t.Errorf("%q: %+v %v", c.text, p, err)
		}
	}
	for _, text := range []string{
		"x", "file:///x", "sqlite://x.db", "sqlite:x.db", "sqlite://host/x.db", "sqlite:////../x", "sqlite:///a/../b", "sqlite:///",
		"sqlite:///a/", "sqlite:///a?mode=ro", "sqlite:///a?", "sqlite:///a#b", "sqlite://u@/a", "sqlite:///a%00b", "sqlite:///a%0ab", "SQLITE:",
		"postgres:u", "postgres://u@h/d#x", "mysql://u:hunter2@h/d", "postgres://u:hunt er2@h:x/d", "postgres://u:hunter2%@h/d", " postgres://u:hunter2@h/d",
	} {
		if _, err := parsePlace(text, "/state"); err == nil || !strings.HasPrefix(err.Error(), "invalid-input at /store: ") || strings.Contains(err.Error(), "hunt") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Whatever is shown of a store, its password is not.
func TestPlace_redacted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, shown string }{
		{"postgres://u@h/d", "postgres://u@h/d"},
		{"postgres://u:hunter2@h:5432/d?sslmode=disable", "postgres://u:redacted@h:5432/d?sslmode=disable"},
		{"postgres://u:hunter%402:x@h/d", "postgres://u:redacted@h/d"},
		{"postgres://:hunter2@h/d", "postgres://:redacted@h/d"},
		{"postgres://u:@h/d", "postgres://u:redacted@h/d"},
		{"postgres://u@h/d?password=hunter2&sslmode=disable", "postgres://u@h/d?password=redacted&sslmode=disable"},
		{"postgres://u@h/d?pass%77ord=hunter2", "postgres://u@h/d?pass%77ord=redacted"},
		{"postgres://u:hunter2@h?sslpassword=hunter3", "postgres://u:redacted@h?sslpassword=redacted"},
		{"postgres://u:hunter2@a:1,b:2/d", "postgres://u:redacted@a:1,b:2/d"},
	} {
		p, err := parsePlace(c.text, "/state")
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		for _, shown := range []string{p.String(), fmt.Sprint(p), fmt.Sprintf("%v", p), fmt.Sprintf("%+v", p), fmt.Sprintf("%#v", p)} {
			if shown != c.shown || p.secret() != (c.shown != c.text) {
				t.Errorf("%q: %q, secret %v", c.text, shown, p.secret())
			}
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"", "sqlite:", "sqlite:///a/b.db", "postgres://u:hunter2@h/d?password=hunter2", "postgres://u:hunter2@h:x", "x://hunter2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlace(text, "/state")
		if err != nil {
			if p != (place{}) {
				t.Fatalf("a place with an error: %q", text)
			}
			return
		}
		again, err := parsePlace(p.String(), "/state")
		if err != nil {
			t.Fatalf("%q is shown as %q: %v", text, p, err)
		}
		if again.String() != p.String() || again.file != p.file {
			t.Fatalf("%q is shown as %q and then as %q", text, p, again)
		}
	})
}
