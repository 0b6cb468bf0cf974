package reach_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

func mustPath(t *testing.T, s string) reach.Path {
	t.Helper()
	p, err := reach.ParsePath(s)
	if err != nil {
		t.Fatalf("ParsePath(%q): %v", s, err)
	}
	return p
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/":                      "/",
		"/data":                  "/data",
		"/data/":                 "/data",
		"/data/a.txt":            "/data/a.txt",
		"/data/%2e%2e/etc":       "/data/%2e%2e/etc",
		"/data/~":                "/data/~",
		"/data/a:b":              "/data/a:b",
		"/data/...":              "/data/...",
		"/data/ a ":              "/data/ a ",
		"/data/a\u200eb\u061c":   "/data/a\u200eb\u061c",
		"/data/[a]?*":            "/data/[a]?*",
		"/data/👨‍👩‍👧.png":        "/data/👨‍👩‍👧.png",
		"/d\u00e4ta/\u200fעברית": "/d\u00e4ta/\u200fעברית",
	} {
		got, err := reach.ParsePath(in)
		if err != nil || got.String() != want {
			t.Errorf("ParsePath(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestParsePath_rejects(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":                   "",
		"relative":                "data/a",
		"dot relative":            "./data",
		"home":                    "~/x",
		"home of another":         "~root/x",
		"file URL":                "file:///data/a",
		"double slash":            "//data/a",
		"double slash inside":     "/data//a",
		"two slashes at the end":  "/data//",
		"only slashes":            "//",
		"dot":                     "/data/./a",
		"dot at the end":          "/data/.",
		"dot dot":                 "/data/a/../../etc/passwd",
		"dot dot at the end":      "/data/..",
		"dot dot, slash":          "/data/../",
		"NUL":                     "/data/a\x00.txt",
		"newline":                 "/data/a\n.txt",
		"escape":                  "/data/a\x1b[2J",
		"delete":                  "/data/a\x7f",
		"C1 control":              "/data/a\u0085b",
		"line separator":          "/data/a\u2028b",
		"right-to-left override":  "/data/a\u202egnp.exe",
		"isolate":                 "/data/a\u2066b",
		"invalid UTF-8":           "/data/\xff",
		"surrogate in UTF-8":      "/data/\xed\xa0\x80",
		"drive":                   `C:\data\x`,
		"drive, dot dot":          `C:\data\..\x`,
		"drive, slashes":          "C:/data/.vscode::$DATA",
		"drive of a file URL":     "/C:/data/x",
		"drive alone":             "/c:",
		"blank at the end":        `C:\data\.git. `,
		"device":                  `C:\data\CON`,
		"long form":               `\\?\C:\x`,
		"share":                   `\\host\share`,
		"backslashes":             `/data/..\..\etc\passwd`,
		"fullwidth slash":         "/data/a\uff0fb",
		"fullwidth backslash":     "/data/a\uff3cb",
		"division slash":          "/data/a\u2215b",
		"long name":               "/" + strings.Repeat("a", 256),
		"long path":               strings.Repeat("/abcdefg", 513),
		"long name in multibytes": "/" + strings.Repeat("ä", 128),
	} {
		p, err := reach.ParsePath(in)
		if !errors.Is(err, counterfoil.CodeInvalidInput) || !p.IsZero() {
			t.Errorf("%s: ParsePath(%q) = %q, %v; want an invalid-input error", name, in, p, err)
			continue
		}
		if in != "" && strings.Contains(err.Error(), in) {
			t.Errorf("%s: the error repeats the path: %v", name, err)
		}
	}
}

func TestPath_Join(t *testing.T) {
	t.Parallel()
	dir := mustPath(t, "/notes")
	for in, want := range map[string]string{"a.txt": "/notes/a.txt", "a/b": "/notes/a/b", "a/": "/notes/a", "a~": "/notes/a~"} {
		if got, err := dir.Join(in); err != nil || got.String() != want {
			t.Errorf("Join(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if got, err := mustPath(t, "/").Join("a"); err != nil || got.String() != "/a" {
		t.Errorf("join to the root = %q, %v", got, err)
	}
	for _, in := range []string{"", "/", "/a", "../a", "a/../b", "..", ".", "a//b", "~", "~/a", "C:/a", "c:", `a\b`, "a\x00", strings.Repeat("a/", 2046) + "abcd"} {
		if got, err := dir.Join(in); err == nil || !got.IsZero() {
			t.Errorf("Join(%.40q) = %q, want an error", in, got)
		}
	}
	if got, err := (reach.Path{}).Join("a"); err == nil {
		t.Errorf("join to no path = %q", got)
	}
}

func TestPathAllowlist(t *testing.T) {
	t.Parallel()
	tests := []struct {
		patterns []string
		covered  []string
		not      []string
	}{
		{nil, nil, []string{"/", "/data", "/etc/passwd"}},
		{
			[]string{"/data/**"},
			[]string{"/data", "/data/", "/data/a", "/data/a/b/c", "/data/%2e%2e/etc", "/data/..."},
			[]string{"/", "/database/x", "/data-evil/x", "/dat", "/etc", "/DATA/a", "/x/data/a"},
		},
		{
			[]string{"/tmp/*"},
			[]string{"/tmp/a", "/tmp/.a", "/tmp/a/"},
			[]string{"/tmp", "/tmp/a/b", "/tmpx/a"},
		},
		{[]string{"/a/*/c"}, []string{"/a/b/c"}, []string{"/a/c", "/a/b/b/c", "/a/b/c/d"}},
		{[]string{"/a/x*y*z"}, []string{"/a/xyz", "/a/x1y2z", "/a/xyyzz"}, []string{"/a/xzy", "/a/xy", "/a/x/y/z"}},
		{[]string{"/a/x*/**"}, []string{"/a/x", "/a/xx/b/c"}, []string{"/a", "/a/yx/b"}},
		{[]string{"/a/[bc]/d?"}, []string{"/a/[bc]/d?"}, []string{"/a/b/dx", "/a/c/d1"}},
		{[]string{"/data/Docs/**"}, []string{"/data/Docs/a"}, []string{"/data/docs/a", "/data/DOCS/a", "/data/Do\u200ccs/a", "/data/Ｄocs/a"}},
		{[]string{"/d\u00e4ta/**"}, []string{"/d\u00e4ta/a"}, []string{"/da\u0308ta/a"}},
		{[]string{"/**"}, []string{"/", "/a", "/a/b"}, nil},
		{[]string{"/"}, []string{"/"}, []string{"/a"}},
		{[]string{"/a/b/"}, []string{"/a/b"}, []string{"/a/b/c"}},
		{[]string{"/a", "/b/**"}, []string{"/a", "/b/c"}, []string{"/c", "/a/b"}},
	}
	for _, tt := range tests {
		l, err := reach.ParsePathAllowlist(tt.patterns)
		if err != nil {
			t.Errorf("%q: %v", tt.patterns, err)
			continue
		}
		for _, p := range tt.covered {
			if !l.Covers(mustPath(t, p)) {
				t.Errorf("%q doesn't cover %q", tt.patterns, p)
			}
		}
		for _, p := range tt.not {
			if l.Covers(mustPath(t, p)) {
				t.Errorf("%q covers %q", tt.patterns, p)
			}
		}
		if l.Covers(reach.Path{}) {
			t.Errorf("%q covers the zero path", tt.patterns)
		}
	}
	if (reach.PathAllowlist{}).Covers(mustPath(t, "/")) {
		t.Error("the zero list covers something")
	}
}

func TestParsePathAllowlist_rejects(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"", "data/**", "**", "**/a", "*", "/data/**/a", "/**/a", "/data/a**", "/data/**b", "/data/../etc/**", "/data/./**", "//data/**",
		"/data//**", `C:\data\**`, "C:/data/**", `/data\**`, "~/data/**", "/data/\x00", "/data/*\n", "/data/\uff0f**", "/***", "/**/**",
	} {
		l, err := reach.ParsePathAllowlist([]string{"/ok/**", p})
		if err == nil {
			t.Errorf("the pattern %q was accepted", p)
		}
		if l.Covers(mustPath(t, "/ok/a")) {
			t.Errorf("a refused list covers something (%q)", p)
		}
	}
	if _, err := reach.ParsePathAllowlist(make([]string, 2000)); err == nil {
		t.Error("2000 patterns were accepted")
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	l := reach.Below(mustPath(t, "/data/a*b"), mustPath(t, "/x**"), reach.Path{})
	for p, want := range map[string]bool{
		"/data/a*b": true, "/data/a*b/c": true, "/data/aXb": false, "/data/aXb/c": false, "/x**/y": true, "/xy": false, "/": false, "/data": false,
	} {
		if got := l.Covers(mustPath(t, p)); got != want {
			t.Errorf("Covers(%q) = %v", p, got)
		}
	}
	if !reach.Below(mustPath(t, "/")).Covers(mustPath(t, "/a/b")) {
		t.Error("below the root there is nothing")
	}
	if reach.Below().Covers(mustPath(t, "/")) || reach.Below(reach.Path{}).Covers(mustPath(t, "/")) {
		t.Error("no directory covers something")
	}
}

func TestPathDenylist(t *testing.T) {
	t.Parallel()
	l, err := reach.ParsePathDenylist([]string{"**/.ssh/**", "**/.env", "**/.git/hooks/**", "/etc/**", "/srv/*.KEY", "/pub/a *"})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		"/data/.SSH/id_rsa":               true,
		"/.ssh":                           true,
		"/data/.ssh/":                     true,
		"/data/.Env":                      true,
		"/data/.env/x":                    false,
		"/data/.Git/hooks/post-merge":     true,
		"/data/.g\u200cit/hooks/x":        true,
		"/data/.\ufe0fgit/hoo\u00adks/x":  true,
		"/data/.git./hooks/x":             true,
		"/data/.git . /hooks/x":           true,
		"/data/.git::$INDEX/hooks/x":      true,
		"/data/.env:stream":               true,
		"/data/．env":                      true,
		"/data/.e\u217fv":                 false, // a small roman numeral: m
		"/data/.s\u017fh/id":              true,  // long s folds to s
		"/data/.git/config":               false,
		"/data/git/hooks/x":               false,
		"/pub/a ":                         true, // as written, though dots and blanks at the end don't count
		"/ETC/passwd":                     true,
		"/data/etc/passwd":                false,
		"/srv/a.key":                      true,
		"/srv/b/a.key":                    false,
		"/data/.sshx/id":                  false,
		"/data/x.env":                     false,
		"/a/b/.ssh/c/.git/hooks/d":        true,
		"/data/.git/hooks":                true,
		"/data/\u2060.ssh\u200b/\u2060id": true,
	} {
		if got := l.Denies(mustPath(t, p)); got != want {
			t.Errorf("Denies(%q) = %v", p, got)
		}
	}
	if !l.Denies(reach.Path{}) || !(reach.PathDenylist{}).Denies(reach.Path{}) {
		t.Error("the zero path isn't denied")
	}
	if (reach.PathDenylist{}).Denies(mustPath(t, "/a")) {
		t.Error("the empty list denies")
	}
	for _, p := range []string{"", "**", "**/", "**/**", "a", "**/../x", "**/a/**/b", `**/a\b`, "***/a"} {
		if l, err := reach.ParsePathDenylist([]string{p}); err == nil {
			t.Errorf("the pattern %q was accepted: %v", p, l)
		}
	}
}

// TestMatch_model compares with a slow matcher that tries everything.
func TestMatch_model(t *testing.T) {
	t.Parallel()
	var model func(p, s string) bool
	model = func(p, s string) bool {
		if p == "" {
			return s == ""
		}
		if p[0] == '*' {
			return model(p[1:], s) || s != "" && model(p, s[1:])
		}
		return s != "" && p[0] == s[0] && model(p[1:], s[1:])
	}
	var words func(alphabet string, n int) []string
	words = func(alphabet string, n int) []string {
		if n == 0 {
			return []string{""}
		}
		out := []string{""}
		for _, w := range words(alphabet, n-1) {
			for _, c := range alphabet {
				out = append(out, string(c)+w)
			}
		}
		return out
	}
	for _, p := range words("ab*", 4) {
		if p == "" || strings.Contains(p, "**") {
			continue
		}
		l, err := reach.ParsePathAllowlist([]string{"/" + p})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range words("ab", 5) {
			if s == "" {
				continue
			}
			if got, want := l.Covers(mustPath(t, "/"+s)), model(p, s); got != want {
				t.Fatalf("pattern %q, name %q: %v, want %v", p, s, got, want)
			}
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"/", "/data/a", "/data/../x", "//", "/a/", "~/x", `C:\x`, "/\u200c", "/a\x00", "/data/%2e%2e/etc", "/é"} {
		f.Add(s)
	}
	data, err := reach.ParsePathAllowlist([]string{"/data/**"})
	if err != nil {
		f.Fatal(err)
	}
	deny, err := reach.ParsePathDenylist([]string{"**/.ssh/**"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := reach.ParsePath(s)
		if err != nil {
			if !p.IsZero() {
				t.Fatal("a value with an error")
			}
			return
		}
		again, err := reach.ParsePath(p.String())
		if err != nil || again != p {
			t.Fatalf("not a fixed point: %q, %v", again, err)
		}
		if text := p.String(); text != s && text+"/" != s {
			t.Fatalf("%q became %q", s, text)
		}
		if data.Covers(p) != (p.String() == "/data" || strings.HasPrefix(p.String(), "/data/")) {
			t.Fatalf("covers %q: %v", p, data.Covers(p))
		}
		if strings.Contains(s, "/.ssh/") && !deny.Denies(p) {
			t.Fatalf("%q isn't denied", p)
		}
		if !reach.Below(p).Covers(p) {
			t.Fatalf("%q isn't below itself", p)
		}
		if j, err := mustPath(t, "/n").Join(strings.TrimPrefix(s, "/")); err == nil && !reach.Below(mustPath(t, "/n")).Covers(j) {
			t.Fatalf("%q left its directory", j)
		}
	})
}

func FuzzPathAllowlist(f *testing.F) {
	f.Add("/data/**", "/data/a")
	f.Add("/a*b/*", "/ab/c")
	f.Add("**/.env", "/x/.ENV")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := reach.ParsePath(path)
		if err != nil {
			return
		}
		deny, denyErr := reach.ParsePathDenylist([]string{pattern})
		allow, err := reach.ParsePathAllowlist([]string{pattern})
		if err != nil {
			return
		}
		if denyErr != nil {
			t.Fatalf("%q allows but can't deny: %v", pattern, denyErr)
		}
		if allow.Covers(p) && !deny.Denies(p) {
			t.Fatalf("%q allows %q and doesn't deny it", pattern, p)
		}
		if !strings.Contains(pattern, "*") && allow.Covers(p) && cmp.Diff(strings.TrimSuffix(pattern, "/"), strings.TrimSuffix(p.String(), "/")) != "" {
			t.Fatalf("the literal %q covers %q", pattern, p)
		}
	})
}

func BenchmarkCovers(b *testing.B) {
	l, err := reach.ParsePathAllowlist([]string{"/data/**", "/tmp/*", "/srv/a*b/**"})
	if err != nil {
		b.Fatal(err)
	}
	deny, err := reach.ParsePathDenylist([]string{"**/.ssh/**", "**/.env", "**/.git/hooks/**"})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("allow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := reach.ParsePath("/srv/aXb/some/project/src/main.go")
			if err != nil || !l.Covers(p) {
				b.Fatal(err)
			}
		}
	})
	b.Run("deny", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := reach.ParsePath("/srv/aXb/some/project/src/main.go")
			if err != nil || deny.Denies(p) {
				b.Fatal(err)
			}
		}
	})
}
