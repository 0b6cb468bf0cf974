// Package reach says what a call would touch, paths and hosts, and whether an allowance covers it; and it opens the
// connections of the gateway, so that the host that was judged is the one that is dialled.
//
// Judging is pure: it reads texts, never a file system or a name server. So a path says nothing of symbolic links: whoever
// opens a file must do so through a handle that can't leave the allowed directory, or leave the last word to the server that
// opens it. What a name resolves to is checked by [Dialer] when it is dialled. Every zero value covers nothing.
package reach

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil"
)

// The longest path and the longest name in it, in bytes: what Linux and macOS accept.
const (
	maxPath = 4096
	maxName = 255
)

// A Path is an absolute POSIX path in its one canonical form: "/" or "/name/name". The zero Path is no path.
type Path struct{ text string }

// ParsePath reads an absolute POSIX path. It doesn't clean: "//", "/./" and ".." are refused, so what is checked is what
// the tool gets. The one tolerance is a single slash at the end, which is dropped ("/data/" is "/data").
//
// Refused too, on every system: relative paths ("a", "~/a", "file:///a"), Windows forms (a drive, a backslash, "\\host"),
// look-alikes of separators, control characters, line and paragraph separators, bidirectional overrides, text that isn't
// UTF-8, names over 255 and paths over 4096 bytes. A percent sign is a percent sign: nothing is decoded.
// Errors carry [counterfoil.CodeInvalidInput] and never repeat the path.
func ParsePath(s string) (Path, error) {
	if err := checkText(s); err != nil {
		return Path{}, err
	}
	if s[0] != '/' {
		return Path{}, bad("the path isn't absolute: it must begin with /")
	}
	if s == "/" {
		return Path{text: s}, nil
	}
	s = strings.TrimSuffix(s, "/")
	if err := checkNames(s[1:]); err != nil {
		return Path{}, err
	}
	return Path{text: s}, nil
}

// Join returns the path of rel below p. rel is relative and held to the same rules as an absolute path: "..", "." and
// empty names are refused, so the result lies below p.
func (p Path) Join(rel string) (Path, error) {
	if p.text == "" {
		return Path{}, bad("there is no directory that the path could be relative to")
	}
	if err := checkText(rel); err != nil {
		return Path{}, err
	}
	if rel[0] == '/' {
		return Path{}, bad("the path must be relative")
	}
	if rel[0] == '~' {
		return Path{}, bad("the path must not begin with ~")
	}
	rel = strings.TrimSuffix(rel, "/")
	if err := checkNames(rel); err != nil {
		return Path{}, err
	}
	joined := strings.TrimSuffix(p.text, "/") + "/" + rel
	if len(joined) > maxPath {
		return Path{}, bad("the path is too long")
	}
	return Path{text: joined}, nil
}

// String returns the canonical form, "" for the zero Path.
func (p Path) String() string { return p.text }

// IsZero reports whether p is no path.
func (p Path) IsZero() bool { return p.text == "" }

// names returns the names between the slashes; "/" has none.
func (p Path) names() []string {
	if len(p.text) < 2 {
		return nil
	}
	return strings.Split(p.text[1:], "/")
}

// checkText refuses what no part of a path may contain.
func checkText(s string) error {
	switch {
	case s == "":
		return bad("the path is empty")
	case len(s) > maxPath:
		return bad("the path is too long")
	case !utf8.ValidString(s):
		return bad("the path isn't valid UTF-8")
	}
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Cc, r), r == '\u2028', r == '\u2029':
			return bad("the path contains a control character or a line separator")
		case r == '\\':
			return bad("the path contains a backslash")
		case isSlashLike(r):
			return bad("the path contains a character that looks like a separator")
		case unicode.Is(unicode.Bidi_Control, r) && r != '\u200E' && r != '\u200F' && r != '\u061C':
			// Marks (LRM, RLM, ALM) stay legal: they are part of real names and reorder nothing by themselves.
			return bad("the path contains a character that changes the direction of writing")
		}
	}
	return nil
}

func isSlashLike(r rune) bool {
	switch r {
	case '\u2044', '\u2215', '\u29F5', '\u29F8', '\u29F9', '\uFE68', '\uFF0F', '\uFF3C':
		return true
	}
	return false
}

// checkNames checks what stands between the slashes. A drive is refused at the beginning alone: elsewhere a colon is an
// ordinary character of a name.
func checkNames(s string) error {
	for i, name := range strings.Split(s, "/") {
		switch {
		case name == "":
			return bad("the path has an empty name between two slashes")
		case name == "." || name == "..":
			return bad("the path contains . or .. as a name")
		case len(name) > maxName:
			return bad("a name in the path is too long")
		case i == 0 && isDrive(name):
			return bad("the path begins with a drive letter")
		}
	}
	return nil
}

// isDrive reports whether a name begins with a letter and a colon.
func isDrive(name string) bool {
	return len(name) >= 2 && name[1] == ':' && ('a' <= name[0]|0x20 && name[0]|0x20 <= 'z')
}

func bad(msg string) error { return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg} }
