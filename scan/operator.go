package scan

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// The bounds on patterns of an operator's own. They are matched in time linear in the text and in the size of the
// compiled pattern, so both the sizes and their sum are bounded.
const (
	maxPatterns     = 64
	maxExpression   = 512  // bytes
	maxProgram      = 512  // instructions of one compiled pattern
	maxProgramTotal = 4096 // instructions of all
)

// A Pattern is an operator's own rule: a regular expression in the syntax of Go's regexp package, which has no
// backtracking. It is matched against every text as it arrived, against its normalised form (in which what wasn't ASCII
// is in lower case; write (?i) where case doesn't matter), and against everything decoded from it. The first match in
// each is reported.
type Pattern struct {
	Name     string // a lower-case letter, then letters, digits and underscores, at most 64
	Expr     string // at most 512 bytes
	Severity Severity
}

// Options are what a Scanner can be made with beyond the built-in rules.
type Options struct {
	Patterns []Pattern // at most 64
}

// ErrPattern is what NewWith's errors wrap: a pattern is malformed, too large, or named twice.
var ErrPattern = errors.New("scan: bad pattern")

// compiled is a Pattern ready for use.
type compiled struct {
	Pattern
	re *regexp.Regexp
}

// NewWith returns a Scanner with the built-in rules and the given ones. Nothing is compiled in part: any bad pattern is an
// error that names it.
func NewWith(o Options) (*Scanner, error) {
	if len(o.Patterns) > maxPatterns {
		return nil, fmt.Errorf("%w: more than %d", ErrPattern, maxPatterns)
	}
	s := New()
	seen := map[string]bool{}
	total := 0
	for i, p := range o.Patterns {
		if !patternName(p.Name) {
			return nil, fmt.Errorf("%w: the name of number %d is not lower-case letters, digits and underscores", ErrPattern, i)
		}
		if seen[p.Name] {
			return nil, fmt.Errorf("%w: %s is there twice", ErrPattern, p.Name)
		}
		seen[p.Name] = true
		re, size, err := compile(p)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrPattern, p.Name, err)
		}
		if total += size; total > maxProgramTotal {
			return nil, fmt.Errorf("%w: all of them together are too large", ErrPattern)
		}
		s.operator = append(s.operator, compiled{p, re})
	}
	return s, nil
}

// compile checks one pattern and returns it compiled, with its size.
func compile(p Pattern) (*regexp.Regexp, int, error) {
	if p.Severity < SeverityLow || p.Severity > SeverityCritical {
		return nil, 0, errors.New("the severity is invalid")
	}
	if p.Expr == "" || len(p.Expr) > maxExpression {
		return nil, 0, fmt.Errorf("the expression must have 1 to %d bytes", maxExpression)
	}
	tree, err := syntax.Parse(p.Expr, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("not a regular expression: %w", err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0, fmt.Errorf("not a regular expression: %w", err)
	}
	if len(prog.Inst) > maxProgram {
		return nil, 0, errors.New("the compiled expression is too large; shorten its repetitions")
	}
	re, err := regexp.Compile(p.Expr)
	if err != nil {
		return nil, 0, fmt.Errorf("not a regular expression: %w", err)
	}
	return re, len(prog.Inst), nil
}

func patternName(s string) bool {
	if s == "" || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// operatorPatterns matches the operator's patterns against l as it is and normalised.
func (r *run) operatorPatterns(l *layer) {
	if len(r.s.operator) == 0 || !r.alive() {
		return
	}
	r.matchOperator(l)
	if n := r.normalised(l); n != nil && r.charge(len(n.text)) {
		r.matchOperator(n)
	}
}

func (r *run) matchOperator(l *layer) {
	for _, c := range r.s.operator {
		if !r.alive() {
			return
		}
		at := c.re.FindReaderIndex(&runeReader{r: r, s: l.text})
		if r.stopped == "" && at != nil {
			r.report(l, Finding{Pattern: c.Name, Family: FamilyOperator, Severity: c.Severity}, at[0], max(at[1], at[0]+1), "")
		}
	}
}

// A runeReader feeds a text to a regular expression and ends early when the scan is to stop.
type runeReader struct {
	r         *run
	s         string
	at, check int
}

// ReadRune returns the next character of the text, or io.EOF.
func (rd *runeReader) ReadRune() (rune, int, error) {
	if rd.at >= rd.check {
		if !rd.r.alive() {
			return 0, 0, io.EOF
		}
		rd.check = rd.at + checkEvery
	}
	if rd.at >= len(rd.s) {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRuneInString(rd.s[rd.at:])
	rd.at += n
	return c, n, nil
}

// normalised returns l with its characters beyond ASCII folded and its invisible ones left out; nil if it has none.
func (r *run) normalised(l *layer) *layer {
	u := unescaper{s: l.text}
	var space [64]byte
	for i := 0; i < len(l.text); {
		c, n := utf8.DecodeRuneInString(l.text[i:])
		if c >= utf8.RuneSelf || invisible(c) {
			_, out := r.s.fold.fold(space[:0], c)
			u.replace(i, n, out, 0)
		}
		i += n
	}
	if len(u.pieces) == 0 {
		return nil
	}
	text := string(append(u.out, l.text[u.done:]...))
	return &layer{text: text, path: l.path, depth: l.depth, parent: l, pieces: u.pieces}
}
