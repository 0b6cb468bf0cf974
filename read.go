package counterfoil

import (
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

// A value is one value of a canonical document: where it begins and ends, and its mark. The zero value is a member that is
// not there.
type value struct{ from, to, mark int }

// A reader takes typed values out of a canonical document. The first fault sticks and every later call returns a zero value,
// so that parsing code reads as a list of what a document holds.
type reader struct {
	b      []byte
	marks  []mark
	err    error
	signed bool   // every byte counts: a list that is not sorted is refused, not sorted
	found  limits // the nodes, depth and width of the document: no part of it has more
	edits  *edits // what has to be rewritten; nil where nothing may be
}

// newReader reads a document that need not be in canonical form.
func newReader(b []byte, lim limits) (*reader, error) { return newReaderBy(b, lim, numbersExact) }

// newReaderBy does so under a rule for numbers.
func newReaderBy(b []byte, lim limits, rule numberRule) (*reader, error) {
	c, err := canonicalize(b, lim, rule)
	if err != nil {
		return nil, err
	}
	r, err := newSignedReader(c, lim)
	if err == nil {
		r.signed = false
	}
	return r, err
}

// newSignedReader reads a document that is signed as it stands: only its canonical form is accepted, so that no byte of it
// can change unseen. The reader keeps b.
func newSignedReader(b []byte, lim limits) (*reader, error) {
	c := checker{b: b, lim: lim, marked: true}
	if len(b) <= lim.bytes && c.isCanonical() {
		return &reader{b: b, marks: c.marks, signed: true, found: c.found}, nil
	}
	if _, err := canonicalize(b, lim, numbersExact); err != nil {
		return nil, err
	}
	return nil, fail(CodeInvalidInput, "this document must be in canonical form")
}

func (r *reader) root() value { return value{0, len(r.b), 0} }

// value returns the value that begins at b[i], which has the mark given, and the mark of the value after it.
func (r *reader) value(i, at int) (value, int) {
	m := r.marks[at]
	return value{i, int(m.end), at}, int(m.next)
}

// has reports whether the value is there and nothing has failed.
func (r *reader) has(n value) bool { return r.err == nil && n.to > 0 }

func (r *reader) fail(n value, msg string) {
	if r.err == nil {
		r.err = failAt(CodeInvalidInput, r.pointer(n), msg)
	}
}

// pointer returns the RFC 6901 pointer to value n, escaped for printing.
func (r *reader) pointer(n value) string {
	path := ""
	for at := r.root(); at.from < n.from; {
		k := 0
		for name, v := range r.entries(at) {
			if n.from < v.to {
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

// raw returns the bytes of value n, which a list that is read later may still put in order.
func (r *reader) raw(n value) []byte { return r.b[n.from:n.to:n.to] }

// entries yields the members or elements of container n: the quoted name, nil in an array, and the value.
func (r *reader) entries(n value) iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		object, at := r.b[n.from] == '{', n.mark+1
		for i := n.from + 1; i < n.to-1; i++ {
			var name []byte
			if object {
				end := skipString(r.b, i)
				name, i = r.b[i:end], end+1
			}
			var v value
			v, at = r.value(i, at)
			if !yield(name, v) {
				return
			}
			i = v.to
		}
	}
}

// members checks that value n is an object with exactly the named members and puts their values into out. Names are in
// canonical order; one that ends in "?" may be absent.
func (r *reader) members(n value, out []value, names ...string) {
	if !r.is(n, '{', "an object") {
		return
	}
	k, at := 0, n.mark+1
	for i := n.from + 1; i < n.to-1; i++ {
		found, size := k, 0
		for ; found < len(names); found++ {
			if size = isNamed(r.b[i+1:], strings.TrimSuffix(names[found], "?")); size > 0 {
				break
			}
		}
		if found == len(names) {
			v, _ := r.value(skipString(r.b, i)+1, at)
			r.fail(v, "this member is not known")
			return
		}
		r.absent(n, names[k:found])
		k = found + 1
		out[found], at = r.value(i+1+size+len(":"), at)
		i = out[found].to
	}
	r.absent(n, names[k:])
}

// isNamed returns the length of the name given and its closing quote if they follow, without escapes, and else zero.
func isNamed(b []byte, name string) int {
	if len(b) > len(name) && b[len(name)] == '"' && string(b[:len(name)]) == name {
		return len(name) + 1
	}
	return 0
}

func (r *reader) absent(n value, names []string) {
	for _, name := range names {
		if !strings.HasSuffix(name, "?") {
			r.fail(n, `the member "`+name+`" is missing`)
		}
	}
}

// is reports whether value n is there and of the kind that begins with the byte given, '0' for numbers.
func (r *reader) is(n value, kind byte, what string) bool {
	if !r.has(n) {
		return false
	}
	c := r.b[n.from]
	if c == '-' || c >= '1' && c <= '9' {
		c = '0'
	}
	if c != kind {
		r.fail(n, "this must be "+what)
	}
	return c == kind
}

// bound holds value n, a document inside another, to the bounds that it has by itself.
func (r *reader) bound(n value, lim limits) {
	if r.has(n) && r.exceeds(n, lim) {
		r.fail(n, "this document exceeds its bounds")
	}
}

func (r *reader) exceeds(n value, lim limits) bool {
	within := r.found.nodes <= lim.nodes && r.found.depth <= lim.depth && r.found.width <= lim.width
	return n.to-n.from > lim.bytes || !within && !isCanonical(r.raw(n), lim)
}

func (r *reader) elements(n value, atMost int) []value {
	if !r.is(n, '[', "an array") {
		return nil
	}
	var out []value
	for _, v := range r.entries(n) {
		if len(out) == atMost {
			r.fail(n, tooMany(atMost))
			return nil
		}
		out = append(out, v)
	}
	return out
}

func tooMany(atMost int) string {
	return "this array has more than " + strconv.Itoa(atMost) + " entries"
}

// content returns the content of string n, nil for what is none.
func (r *reader) content(n value) []byte {
	if !r.is(n, '"', "a string") {
		return nil
	}
	quoted := r.raw(n)
	if !r.marks[n.mark].escaped {
		return quoted[1 : len(quoted)-1]
	}
	return unquote(nil, quoted)
}

// text reads any string of 1 to 65,536 bytes without C0 controls or DEL.
func (r *reader) text(n value) string { return r.checked(n, faultInText) }

// identity reads a name: of a person, a tool, a key, a version. See faultInIdentity.
func (r *reader) identity(n value) string { return r.checked(n, faultInIdentity) }

func (r *reader) checked(n value, fault func(string) string) string {
	s := string(r.content(n))
	if !r.has(n) {
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

// invisible reports characters that a reader can't see, that rearrange what they see or that nobody has a meaning for: C0, C1,
// format characters (all bidi controls are among them), private use, code points that are not assigned, default-ignorable
// ones, and line and paragraph separators. What is not assigned might become any of these, or change in form C.
func invisible(c rune) bool {
	return !unicode.IsGraphic(c) || unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// list reads an array of names without duplicates, sorted by UTF-16 code units. The document's own order is changed to
// the sorted one, so that a list's digest does not depend on how it was written down.
func (r *reader) list(n value, atLeast, atMost int) []string {
	if !r.is(n, '[', "an array") {
		return nil
	}
	var out []string
	for _, v := range r.entries(n) {
		if len(out) == atMost {
			r.fail(n, tooMany(atMost))
			return nil
		}
		out = append(out, r.identity(v))
	}
	if len(out) < atLeast {
		r.fail(n, "this array is empty")
	}
	if r.err != nil {
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
func (r *reader) rewrite(n value, entries []string) {
	b := r.b[: n.from+1 : n.to]
	for i, s := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		from := len(b)
		b = appendString(b, s)
		m := &r.marks[n.mark+1+i]
		m.end, m.escaped = place(len(b)), !isPlain(b[from:])
	}
}

// oneOf reads one of a closed set of words.
func oneOf[T ~string](r *reader, n value, what string, words ...T) T {
	s := r.content(n)
	for _, w := range words {
		if string(s) == string(w) {
			return w
		}
	}
	if r.has(n) {
		r.fail(n, "this "+what+" is not known")
	}
	return ""
}

func (r *reader) literal(n value, want string) {
	if s := r.content(n); r.has(n) && string(s) != want {
		r.fail(n, `this must be "`+want+`"`)
	}
}

func (r *reader) digest(n value) Digest {
	var d Digest
	if s := r.content(n); r.has(n) && !parseDigest(&d, s) {
		r.fail(n, badDigest)
	}
	return d
}

// count reads an integer from 0 to 2^53−1.
func (r *reader) count(n value) int64 { return r.countBetween(n, 0, maxSafeInteger) }

func (r *reader) countBetween(n value, least, most int64) int64 {
	if !r.is(n, '0', "a whole number") {
		return 0
	}
	v, err := strconv.ParseInt(string(r.raw(n)), 10, 64)
	if err != nil || v < least || v > most {
		r.fail(n, "this must be a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
		return 0
	}
	return v
}

func (r *reader) boolean(n value) bool {
	if !r.has(n) {
		return false
	}
	c := r.b[n.from]
	if c != 't' && c != 'f' {
		r.fail(n, "this must be true or false")
	}
	return c == 't'
}

// onlyTrue reads a member that is either absent or true.
func (r *reader) onlyTrue(n value) bool {
	v := r.boolean(n)
	if r.has(n) && !v {
		r.fail(n, "this member is left out when it is false")
	}
	return v
}

// time reads the one accepted form, 2006-01-02T15:04:05.000Z.
func (r *reader) time(n value) time.Time {
	s := r.content(n)
	if !r.has(n) {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || !validInstant(t) || !hasForm(s, "0000-00-00T00:00:00.000Z") {
		r.fail(n, "a time is written 2006-01-02T15:04:05.000Z, in UTC and with milliseconds")
		return time.Time{}
	}
	return t
}

// hasForm reports whether s has a digit wherever form has a zero, and is form everywhere else.
func hasForm(s []byte, form string) bool {
	if len(s) != len(form) {
		return false
	}
	for i, c := range s {
		if form[i] == '0' && (c < '0' || c > '9') || form[i] != '0' && c != form[i] {
			return false
		}
	}
	return true
}

// base64 reads standard base64 of one spelling: padded, no stray bits, no line breaks (which the decoder would skip; in
// JSON they are escapes).
func (r *reader) base64(n value, strict *base64.Encoding) []byte {
	if !r.is(n, '"', "a string") {
		return nil
	}
	quoted := r.raw(n)
	b := make([]byte, strict.DecodedLen(len(quoted)-2))
	size, err := strict.Decode(b, quoted[1:len(quoted)-1])
	if err != nil || size == 0 || r.marks[n.mark].escaped {
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
