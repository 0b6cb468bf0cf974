package reach

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxPatterns bounds one list.
const maxPatterns = 1024

// A pattern is an absolute path whose names may hold stars, which stand for any run of characters within one name.
// every other character, brackets and question marks included, stands for itself. floating and tree stand for
// "**/" before the names and "/**" after them: any number of names, none included.
type pattern struct {
	floating bool
	names    []string
	tree     bool
}

// A PathAllowlist says which paths may be touched. The zero list, and an empty one, cover nothing.
type PathAllowlist struct{ patterns []pattern }

// ParsePathAllowlist reads absolute patterns: "/data/**" covers /data and all below, "/tmp/*" what lies directly in
// /tmp, "/a/b" itself. "**" is allowed as the whole last name alone.
func ParsePathAllowlist(patterns []string) (PathAllowlist, error) {
	l := PathAllowlist{patterns: make([]pattern, 0, min(len(patterns), maxPatterns))}
	for _, s := range patterns {
		p, err := parsePattern(s)
		if err != nil {
			return PathAllowlist{}, err
		}
		if l.patterns = append(l.patterns, p); len(l.patterns) > maxPatterns {
			return PathAllowlist{}, bad("the list has too many patterns")
		}
	}
	return l, nil
}

// Below returns the list that covers the given directories and all below them. Nothing in their names is a pattern.
func Below(dirs ...Path) PathAllowlist {
	l := PathAllowlist{patterns: make([]pattern, 0, len(dirs))}
	for _, d := range dirs {
		if !d.IsZero() {
			l.patterns = append(l.patterns, pattern{names: literal(d.names()), tree: true})
		}
	}
	return l
}

// Covers reports whether some pattern matches p, name by name, byte by byte: another case or another spelling of the
// same letters is another file.
func (l PathAllowlist) Covers(p Path) bool {
	if p.IsZero() {
		return false
	}
	names := p.names()
	for i := range l.patterns {
		if l.patterns[i].match(names) {
			return true
		}
	}
	return false
}

// A PathDenylist says which paths may not be touched whatever allows them. Its patterns may begin with "**/".
type PathDenylist struct {
	written []pattern
	folded  []pattern
}

// ParsePathDenylist reads patterns such as "**/.ssh/**", "**/.env" and "/etc/**".
func ParsePathDenylist(patterns []string) (PathDenylist, error) {
	var l PathDenylist
	for _, s := range patterns {
		rest, floating := strings.CutPrefix(s, "**/")
		if floating {
			rest = "/" + rest
		}
		p, err := parsePattern(rest)
		if err != nil {
			return PathDenylist{}, err
		}
		if floating && len(p.names) == 0 {
			return PathDenylist{}, bad("a pattern that begins with **/ must name something; /** stands for everything")
		}
		p.floating = floating
		l.written = append(l.written, p)
		p.names = foldAll(p.names)
		if l.folded = append(l.folded, p); len(l.folded) > maxPatterns {
			return PathDenylist{}, bad("the list has too many patterns")
		}
	}
	return l, nil
}

// Denies reports whether some pattern matches p, as written or as the most careless file system would compare: without
// regard to case, compatibility forms, invisible characters, dots and blanks at the end of a name, and what follows a
// colon in it. The zero Path is denied.
func (l PathDenylist) Denies(p Path) bool {
	if p.IsZero() {
		return true
	}
	names := p.names()
	folded := foldAll(names)
	bases := make([]string, len(names))
	for i, n := range names {
		bases[i], _, _ = strings.Cut(n, ":")
		bases[i] = fold(bases[i])
	}
	for i := range l.written {
		if l.written[i].match(names) || l.folded[i].match(folded) || l.folded[i].match(bases) {
			return true
		}
	}
	return false
}

func parsePattern(s string) (pattern, error) {
	if err := checkText(s); err != nil {
		return pattern{}, err
	}
	if s[0] != '/' {
		return pattern{}, bad("a pattern must begin with /")
	}
	s, tree := strings.CutSuffix(s, "/**")
	if s == "" || s == "/" {
		return pattern{tree: tree}, nil
	}
	if !tree {
		s = strings.TrimSuffix(s, "/")
	}
	if err := checkNames(s[1:]); err != nil {
		return pattern{}, err
	}
	if strings.Contains(s, "**") {
		return pattern{}, bad("** is allowed as the whole last name of a pattern alone")
	}
	return pattern{names: strings.Split(s[1:], "/"), tree: tree}, nil
}

// literal protects stars in real names. No pattern can contain NUL, so it can stand for a star that is meant as itself.
func literal(names []string) []string {
	for i, n := range names {
		names[i] = strings.ReplaceAll(n, "*", "\x00")
	}
	return names
}

func (p *pattern) match(names []string) bool {
	last := len(names) - len(p.names)
	switch {
	case last < 0:
		return false
	case !p.floating:
		return (last == 0 || p.tree) && matchNames(p.names, names)
	}
	for at := 0; at <= last; at++ {
		if (at == last || p.tree) && matchNames(p.names, names[at:]) {
			return true
		}
	}
	return false
}

func matchNames(patterns, names []string) bool {
	for i, p := range patterns {
		if !matchName(p, names[i]) {
			return false
		}
	}
	return true
}

// matchName matches one name against one pattern. Going back to the last star alone is enough, so it takes time
// proportional to the product of the lengths at worst.
func matchName(p, s string) bool {
	star, from := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == s[j] || p[i] == '\x00' && s[j] == '*'):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(p[i:], "*") == ""
}

func foldAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fold(n)
	}
	return out
}

// fold returns the form in which deny patterns are compared. Stars survive it; accents are taken apart from their
// letters, so that a star can stand for either.
func fold(name string) string {
	if isPlain(name) {
		return strings.TrimRight(strings.ToLower(name), ". ")
	}
	f := norm.NFKD.String(visible(cases.Fold().String(norm.NFKD.String(name))))
	return strings.TrimRight(f, ". ")
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// visible drops the characters that display as nothing.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, s)
}
