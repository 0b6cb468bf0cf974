package counterfoil

import (
	"bytes"
	"encoding/base64"
	"iter"
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
	maxSafeInteger   = 1<<53 - 1 // of which a plan adds up 128 at most: an int64 holds the sum
	timeLayout       = "2006-01-02T15:04:05.000Z"
)

// A reader takes typed values out of a canonical document, where a value is the offset at which it begins. The first
// fault sticks and every later call returns a zero value, so that parsing code reads as a list of what a document holds.
// A missing member is -1.
type reader struct {
	b      []byte
	err    error
	signed bool // every byte counts: a list that is not sorted is refused, not sorted
}

// newReader reads a document that need not be in canonical form.
func newReader(b []byte, lim limits) (*reader, error) {
	c, err := canonicalize(b, lim, numbersExact)
	if err != nil {
		return nil, err
	}
	return &reader{b: c}, nil
}

// newSignedReader reads a document that is signed as it stands: only its canonical form is accepted, so that no byte of it
// can change unseen.
func newSignedReader(b []byte, lim limits) (*reader, error) {
	r, err := newReader(b, lim)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(r.b, b) {
		return nil, fail(CodeInvalidInput, "this document must be in canonical form")
	}
	r.signed = true
	return r, nil
}

func (r *reader) fail(n int, msg string) {
	if r.err == nil {
		r.err = failAt(CodeInvalidInput, r.pointer(n), msg)
	}
}

// pointer returns the RFC 6901 pointer to value n, escaped for printing.
func (r *reader) pointer(n int) string {
	path := ""
	for at := 0; at < n; {
		k := 0
		for name, v := range r.entries(at) {
			if n < r.end(v) {
				segment := strconv.Itoa(k)
				if name != nil {
					segment = string(unquote(nil, name))
				}
				path += pathSegment(segment)
				at = v
				break
			}
			k++
		}
	}
	return escapePath(path)
}

func (r *reader) end(n int) int {
	end, _, _ := skipValue(r.b, n)
	return end
}

// raw returns the bytes of value n, which a list that is read later may still put in order.
func (r *reader) raw(n int) []byte {
	end := r.end(n)
	return r.b[n:end:end]
}

// entries yields the members or elements of container n: the quoted name, nil in an array, and the value.
func (r *reader) entries(n int) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		object := r.b[n] == '{'
		for i := n + 1; r.b[i] != '}' && r.b[i] != ']'; {
			var name []byte
			if object {
				end := skipString(r.b, i)
				name, i = r.b[i:end], end+1
			}
			if !yield(name, i) {
				return
			}
			if i = r.end(i); r.b[i] == ',' {
				i++
			}
		}
	}
}

// members checks that value n is an object with exactly the named members and puts their values into out, -1 for an
// absent one. Names are in canonical order; one that ends in "?" may be absent.
func (r *reader) members(n int, out []int, names ...string) {
	for i := range out {
		out[i] = -1
	}
	if !r.is(n, '{', "an object") {
		return
	}
	k := 0
	for quoted, v := range r.entries(n) {
		found := k
		for found < len(names) && string(quoted[1:len(quoted)-1]) != strings.TrimSuffix(names[found], "?") {
			found++
		}
		if found == len(names) {
			r.fail(v, "this member is not known")
			return
		}
		r.absent(n, names[k:found])
		out[found] = v
		k = found + 1
	}
	r.absent(n, names[k:])
}

func (r *reader) absent(n int, names []string) {
	for _, name := range names {
		if !strings.HasSuffix(name, "?") {
			r.fail(n, `the member "`+name+`" is missing`)
		}
	}
}

// is reports whether value n is there and of the kind that begins with the byte given, '0' for numbers.
func (r *reader) is(n int, kind byte, what string) bool {
	if r.err != nil || n < 0 {
		return false
	}
	c := r.b[n]
	if c == '-' || c >= '1' && c <= '9' {
		c = '0'
	}
	if c != kind {
		r.fail(n, "this must be "+what)
	}
	return c == kind
}

func (r *reader) elements(n, atMost int) []int {
	if !r.is(n, '[', "an array") {
		return nil
	}
	var out []int
	for _, v := range r.entries(n) {
		if len(out) == atMost {
			r.fail(n, "this array has more than "+strconv.Itoa(atMost)+" entries")
			return nil
		}
		out = append(out, v)
	}
	return out
}

// content returns the content of string n, nil for what is none.
func (r *reader) content(n int) []byte {
	if !r.is(n, '"', "a string") {
		return nil
	}
	quoted := r.b[n:skipString(r.b, n)]
	if isPlain(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	return unquote(nil, quoted)
}

// text reads any string of 1 to 65,536 bytes without C0 controls or DEL.
func (r *reader) text(n int) string { return r.checked(n, faultInText) }

// identity reads a name: of a person, a tool, a key, a version. See faultInIdentity.
func (r *reader) identity(n int) string { return r.checked(n, faultInIdentity) }

func (r *reader) checked(n int, fault func(string) string) string {
	s := string(r.content(n))
	if r.err != nil || n < 0 {
		return ""
	}
	if msg := fault(s); msg != "" {
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
	if !utf8.ValidString(s) {
		return "this text is not UTF-8"
	}
	return ""
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

// list reads an array of names without duplicates, sorted by UTF-16 code units. The document's own order is changed to
// the sorted one, so that a list's digest does not depend on how it was written down.
func (r *reader) list(n, atLeast, atMost int) []string {
	kids := r.elements(n, atMost)
	if r.err == nil && n >= 0 && len(kids) < atLeast {
		r.fail(n, "this array is empty")
	}
	out := make([]string, len(kids))
	for i, k := range kids {
		out[i] = r.identity(k)
	}
	if r.err != nil || n < 0 {
		return nil
	}
	if !slices.IsSortedFunc(out, compareUTF16) {
		if r.signed {
			r.fail(n, "this array is not sorted")
			return nil
		}
		slices.SortFunc(out, compareUTF16)
		r.rewrite(n, out)
	}
	for i := range out {
		if i > 0 && out[i] == out[i-1] {
			r.fail(n, "this array has an entry twice")
			return nil
		}
	}
	return out
}

// rewrite writes the strings of array n in another order. They take the same room.
func (r *reader) rewrite(n int, entries []string) {
	b := r.b[: n+1 : len(r.b)]
	for i, s := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
}

// oneOf reads one of a closed set of words.
func oneOf[T ~string](r *reader, n int, what string, words ...T) T {
	s := r.content(n)
	for _, w := range words {
		if string(s) == string(w) {
			return w
		}
	}
	if r.err == nil && n >= 0 {
		r.fail(n, "this "+what+" is not known")
	}
	return ""
}

func (r *reader) literal(n int, want string) {
	if s := r.content(n); r.err == nil && n >= 0 && string(s) != want {
		r.fail(n, `this must be "`+want+`"`)
	}
}

func (r *reader) digest(n int) Digest {
	var d Digest
	if s := r.content(n); r.err == nil && n >= 0 && !parseDigest(&d, s) {
		r.fail(n, badDigest)
	}
	return d
}

// count reads an integer from 0 to 2^53−1.
func (r *reader) count(n int) int64 { return r.countBetween(n, 0, maxSafeInteger) }

func (r *reader) countBetween(n int, least, most int64) int64 {
	if !r.is(n, '0', "a whole number") {
		return 0
	}
	v, err := strconv.ParseInt(string(r.b[n:skipScalar(r.b, n)]), 10, 64)
	if err != nil || v < least || v > most {
		r.fail(n, "this must be a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
		return 0
	}
	return v
}

func (r *reader) boolean(n int) bool {
	if r.err != nil || n < 0 {
		return false
	}
	c := r.b[n]
	if c != 't' && c != 'f' {
		r.fail(n, "this must be true or false")
	}
	return c == 't'
}

// onlyTrue reads a member that is either absent or true.
func (r *reader) onlyTrue(n int) bool {
	v := r.boolean(n)
	if r.err == nil && n >= 0 && !v {
		r.fail(n, "this member is left out when it is false")
	}
	return v
}

// time reads the one accepted form, 2006-01-02T15:04:05.000Z.
func (r *reader) time(n int) time.Time {
	s := r.content(n)
	if r.err != nil || n < 0 {
		return time.Time{}
	}
	t, err := time.Parse(timeLayout, string(s))
	var printed [len(timeLayout)]byte
	if err != nil || !validInstant(t) || !bytes.Equal(t.AppendFormat(printed[:0], timeLayout), s) {
		r.fail(n, "a time is written 2006-01-02T15:04:05.000Z, in UTC and with milliseconds")
		return time.Time{}
	}
	return t
}

// base64 reads standard base64 of one spelling: padded, no stray bits, no line breaks (which the decoder would skip; in
// JSON they are escapes).
func (r *reader) base64(n int) []byte {
	if !r.is(n, '"', "a string") {
		return nil
	}
	quoted := r.b[n:skipString(r.b, n)]
	b := make([]byte, base64.StdEncoding.DecodedLen(len(quoted)-2))
	size, err := base64.StdEncoding.Strict().Decode(b, quoted[1:len(quoted)-1])
	if err != nil || size == 0 || !isPlain(quoted) {
		r.fail(n, "this must be standard base64")
		return nil
	}
	return b[:size]
}

// instant cuts a host's time to what documents can hold. Times outside the years 1 to 9999 are refused.
func instant(t time.Time) (time.Time, error) {
	t = t.UTC().Truncate(time.Millisecond)
	if !validInstant(t) {
		return time.Time{}, fail(CodeClock, "the time given is not a time of this era")
	}
	return t, nil
}

// validInstant keeps out the zero time, which means "none" in this package, and years that the text form can't hold.
func validInstant(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 && !t.IsZero() }
