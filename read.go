package counterfoil

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of single values.
const (
	maxIdentityBytes = 512
	maxTextBytes     = 65_536
	maxSafeInteger   = 1<<53 - 1
	timeLayout       = "2006-01-02T15:04:05.000Z"
)

// A reader takes typed values out of a document. The first fault sticks and every later call returns a zero value, so
// that parsing code reads as a list of what a document holds. A missing member is node -1.
type reader struct {
	doc    *document
	err    error
	signed bool // the document is signed as it stands: a list that is not sorted is refused, not sorted
}

func (r *reader) fail(n int, msg string) {
	if r.err == nil {
		path := ""
		if n >= 0 {
			path = r.doc.pointer(n)
		}
		r.err = failAt(CodeInvalidInput, path, msg)
	}
}

// members checks that node n is an object with exactly the named members and puts their nodes into out, -1 for an
// absent one. Names are in canonical order; one that ends in "?" may be absent.
func (r *reader) members(n int, out []int, names ...string) {
	for i := range out {
		out[i] = -1
	}
	if !r.is(n, '{', "an object") {
		return
	}
	kids := r.doc.children(n)
	k := 0
	for i, want := range names {
		optional := strings.HasSuffix(want, "?")
		want = strings.TrimSuffix(want, "?")
		switch {
		case k < len(kids) && string(r.doc.nameOf(kids[k])) == want:
			out[i] = kids[k]
			k++
		case !optional:
			// Either it is missing, or an unknown name stands before it.
			if k < len(kids) && compareUTF16(string(r.doc.nameOf(kids[k])), want) < 0 {
				r.fail(kids[k], "this member is not known")
			} else {
				r.fail(n, `the member "`+want+`" is missing`)
			}
			return
		}
	}
	if k < len(kids) {
		r.fail(kids[k], "this member is not known")
	}
}

func (r *reader) is(n int, kind byte, what string) bool {
	if r.err != nil || n < 0 {
		return false
	}
	if byte(r.doc.nodes[n].kind) != kind {
		r.fail(n, "this must be "+what)
		return false
	}
	return true
}

func (r *reader) elements(n, atMost int) []int {
	if !r.is(n, '[', "an array") {
		return nil
	}
	kids := r.doc.children(n)
	if len(kids) > atMost {
		r.fail(n, "this array has more than "+strconv.Itoa(atMost)+" entries")
		return nil
	}
	return kids
}

// text reads any string of 1 to 65,536 bytes without C0 controls or DEL.
func (r *reader) text(n int) string {
	if !r.is(n, '"', "a string") {
		return ""
	}
	s := r.doc.str(r.doc.nodes[n].text)
	if msg := faultInText(s); msg != "" {
		r.fail(n, msg)
		return ""
	}
	return s
}

func faultInText(s string) string {
	if s == "" || len(s) > maxTextBytes {
		return "this text must have 1 to 65536 bytes"
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return "this text has a control character"
		}
	}
	return ""
}

// identity reads a name: of a person, a tool, a key, a version. See faultInIdentity.
func (r *reader) identity(n int) string {
	if !r.is(n, '"', "a string") {
		return ""
	}
	s := r.doc.str(r.doc.nodes[n].text)
	if msg := faultInIdentity(s); msg != "" {
		r.fail(n, msg)
		return ""
	}
	return s
}

// CheckIdentity reports whether s may serve as a name (an id, an actor, an approver, a tool, a scope, a version): NFC,
// 1 to 512 bytes, and nothing that looks like nothing or like something else: no control, format, default-ignorable or
// line-separating characters, no space at either end.
func CheckIdentity(s string) error {
	if msg := faultInIdentity(s); msg != "" {
		return fail(CodeInvalidInput, msg)
	}
	return nil
}

func faultInIdentity(s string) string {
	if s == "" || len(s) > maxIdentityBytes {
		return "this name must have 1 to 512 bytes"
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' {
		return "this name begins or ends with a space"
	}
	ascii := true
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c == 0x7f:
			return "this name has a control character"
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if ascii {
		return ""
	}
	if !utf8.ValidString(s) || !norm.NFC.IsNormalString(s) {
		return "this name is not in Unicode normal form C"
	}
	for _, c := range s {
		if invisible(c) {
			return "this name has a control or invisible character"
		}
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return "this name begins or ends with a space"
	}
	return ""
}

// invisible reports characters that a reader can't see or that rearrange what they see: C0, C1, format characters (all
// bidi controls are among them), default-ignorable code points, and line and paragraph separators.
func invisible(c rune) bool {
	return unicode.IsControl(c) ||
		unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// list reads an array of names without duplicates, sorted by UTF-16 code units. The document's own order is changed
// to the sorted one, so that a list's digest does not depend on how it was written down.
func (r *reader) list(n, atLeast, atMost int) []string {
	kids := r.elements(n, atMost)
	if r.err != nil || n < 0 {
		return nil
	}
	if len(kids) < atLeast {
		r.fail(n, "this array is empty")
		return nil
	}
	content := func(k int) []byte { s := r.doc.nodes[k].text; return r.doc.text[s.from:s.to] }
	out := make([]string, len(kids))
	for _, k := range kids {
		if r.identity(k); r.err != nil {
			return nil
		}
	}
	order := func(a, b int) int { return compareUTF16(content(a), content(b)) }
	if r.signed && !slices.IsSortedFunc(kids, order) {
		r.fail(n, "this array is not sorted")
		return nil
	}
	slices.SortFunc(kids, order)
	for i, k := range kids {
		out[i] = string(content(k))
		if i > 0 && out[i] == out[i-1] {
			r.fail(k, "this entry stands twice")
			return nil
		}
	}
	return out
}

func (r *reader) literal(n int, want string) {
	if s := r.text(n); r.err == nil && n >= 0 && s != want {
		r.fail(n, `this must be "`+want+`"`)
	}
}

func (r *reader) digest(n int) Digest {
	var d Digest
	if s := r.text(n); r.err == nil && n >= 0 && !parseDigest(&d, s) {
		r.fail(n, `a digest is "sha256:" and 64 lower-case hex digits`)
	}
	return d
}

// count reads an integer from 0 to 2^53−1.
func (r *reader) count(n int) int64 {
	if !r.is(n, '0', "a whole number") {
		return 0
	}
	v, err := strconv.ParseInt(r.doc.str(r.doc.nodes[n].text), 10, 64)
	if err != nil || v < 0 || v > maxSafeInteger {
		r.fail(n, "this must be a whole number from 0 to 2^53-1")
		return 0
	}
	return v
}

func (r *reader) countBetween(n int, least, most int64) int64 {
	v := r.count(n)
	if r.err == nil && n >= 0 && (v < least || v > most) {
		r.fail(n, "this must be a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return v
}

func (r *reader) boolean(n int) bool {
	if r.err != nil || n < 0 {
		return false
	}
	k := r.doc.nodes[n].kind
	if k != 't' && k != 'f' {
		r.fail(n, "this must be true or false")
	}
	return k == 't'
}

// time reads the one accepted form, 2006-01-02T15:04:05.000Z.
func (r *reader) time(n int) time.Time {
	s := r.text(n)
	if r.err != nil || n < 0 {
		return time.Time{}
	}
	t, err := time.Parse(timeLayout, s)
	if err != nil || formatTime(t) != s {
		r.fail(n, "a time is written 2006-01-02T15:04:05.000Z, in UTC and with milliseconds")
		return time.Time{}
	}
	return t
}

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// instant cuts a host's time to what documents can hold. Times outside the years 1 to 9999 are refused.
func instant(t time.Time) (time.Time, error) {
	t = t.UTC().Truncate(time.Millisecond)
	if t.Year() < 1 || t.Year() > 9999 || t.IsZero() {
		return time.Time{}, fail(CodeClock, "the time given is not a time of this era")
	}
	return t, nil
}

// addCounts adds two counts, saturating beyond the safe integers so that a sum can't wrap below a limit.
func addCounts(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
