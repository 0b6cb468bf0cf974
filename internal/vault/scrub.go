package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Finding says that a secret stood in a text, and how often. It names it and shows nothing of it.
type Finding struct {
	Used
	Count int
}

// A Scrubber finds the secrets that an upstream was given in what it answers: as they are, and in the forms that they take on
// the way: with the escapes of JSON, URLs, forms, HTML and shells, up to several times over, in base64 of either alphabet at any offset, and in
// hexadecimal. An upstream that wants to give a secret away can encode it so that nothing finds it: this is a net for accidents.
// The nil Scrubber finds nothing. It is safe for concurrent use.
type Scrubber struct {
	used []Used
	// What is looked for, or what is left of it if one knows the rest. As of a Value: nothing that prints it finds it.
	table func() *table
}

type table struct {
	needles []needle
	starts  [256][]int // the needles that may begin with a byte
	escaped bool       // a secret is changed by unescape
}

func newScrubber(refs []Ref, values map[Ref]Value, used []Used) *Scrubber {
	t := &table{}
	for _, r := range refs {
		of := slices.IndexFunc(used, func(u Used) bool { return u.Name == r.Name && (r.Version == 0 || u.Version == r.Version) })
		t.add(of, values[r].bytes())
	}
	for i := range t.needles {
		for c := range 256 {
			if t.needles[i].mayBegin(byte(c)) {
				t.starts[c] = append(t.starts[c], i)
			}
		}
	}
	return &Scrubber{used: used, table: func() *table { return t }}
}

// A form is what a needle looks for.
type form int

const (
	rawForm    form = iota + 1 // the secret as it is
	plainForm                  // what unescape makes of it
	hexForm                    // in either letter case
	base64Form                 // in either alphabet, broken into lines
)

type needle struct {
	form form
	text string
	of   int // in Scrubber.used
}

// add makes the needles of a secret.
func (t *table) add(of int, secret []byte) {
	t.plain(of, string(secret))
	t.needles = append(t.needles, needle{hexForm, hex.EncodeToString(secret), of})
	for offset := range 3 {
		t.needles = append(t.needles, needle{base64Form, core(secret, offset), of})
	}
	// What a secret in base64 stands for is as secret, and so is the password of a name and a password.
	if decoded := decodes(string(secret)); len(decoded) >= MinValue {
		t.plain(of, decoded)
		if _, password, ok := strings.Cut(decoded, ":"); ok && len(password) >= MinValue {
			t.plain(of, password)
		}
	}
}

// plain adds a text as it is, and without escapes if enough is left of it to be told from other text. A backslash at its end
// would go with what comes after it.
func (t *table) plain(of int, text string) {
	t.needles = append(t.needles, needle{rawForm, text, of})
	b, at := unescape([]byte(text))
	t.escaped = t.escaped || at != nil
	if b = bytes.TrimRight(b, "\\"); len(bytes.Trim(b, " ")) >= MinValue {
		t.needles = append(t.needles, needle{plainForm, string(b), of})
	}
}

// core returns the characters that the secret has in base64 whatever stands before and after it, if it begins at an offset
// into a group of three bytes.
func core(secret []byte, offset int) string {
	text := base64.RawStdEncoding.EncodeToString(slices.Concat(make([]byte, offset), secret))
	from := [...]int{0, 2, 3}[offset]
	return text[from : (offset+len(secret))*8/6]
}

func decodes(s string) string {
	s = strings.TrimRight(s, "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.Strict().DecodeString(s); err == nil && utf8.Valid(b) {
			return string(b)
		}
	}
	return ""
}

func (n *needle) mayBegin(c byte) bool {
	switch n.form {
	case rawForm:
		return false
	case plainForm:
		return c == n.text[0]
	case hexForm:
		return lower(c) == n.text[0]
	case base64Form:
		return standard(c) == n.text[0]
	}
	return false
}

// Text replaces the secrets in a text by "[redacted]". A text without any comes back as it is.
func (s *Scrubber) Text(text []byte) ([]byte, []Finding) {
	spans := s.find(text)
	if len(spans) == 0 {
		return text, nil
	}
	return replace(text, spans), s.findings(spans)
}

// JSON does the same in the strings and numbers of a JSON document, which stays one. The result is nil if the document can only be
// withheld: a secret is the name of a member, stands across several values, or in something that is no JSON.
func (s *Scrubber) JSON(doc []byte) ([]byte, []Finding) {
	if s == nil || s.table == nil || len(s.used) == 0 {
		return doc, nil
	}
	out, spans, ok := s.document(doc)
	if rest := s.find(out); len(rest) > 0 {
		spans, ok = append(spans, rest...), false
	}
	if !ok && len(spans) > 0 {
		return nil, s.findings(spans)
	}
	return out, s.findings(spans)
}

// document replaces what stands in single values. It is not ok if doc is no JSON, or a member's name holds a secret: then out is
// the document as it was.
func (s *Scrubber) document(doc []byte) (out []byte, all []span, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	kept := 0 // of doc, in out
	for {
		if kind := dec.PeekKind(); kind != '"' && kind != '0' {
			if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
				return append(out, doc[kept:]...), all, true
			} else if err != nil {
				return doc, all, false
			}
			continue
		}
		object, n := dec.StackIndex(dec.StackDepth())
		raw, err := dec.ReadValue()
		if err != nil {
			return doc, all, false
		}
		text, spans := s.inside(raw)
		if len(spans) == 0 {
			continue
		}
		if all = append(all, spans...); object == '{' && n%2 == 0 {
			return doc, all, false
		}
		end := int(dec.InputOffset())
		if out, err = jsontext.AppendQuote(append(out, doc[kept:end-len(raw)]...), text); err != nil {
			return doc, all, false
		}
		kept = end
	}
}

// inside looks into a string or a number, and returns its text without secrets.
func (s *Scrubber) inside(raw []byte) ([]byte, []span) {
	text := raw
	if raw[0] == '"' {
		var err error
		if text, err = jsontext.AppendUnquote(nil, raw); err != nil {
			text = raw[1 : len(raw)-1]
		}
	}
	spans := s.find(text)
	if len(spans) == 0 {
		return nil, nil
	}
	return bytes.ToValidUTF8(replace(text, spans), []byte("\uFFFD")), spans
}

func replace(text []byte, spans []span) []byte {
	out := make([]byte, 0, len(text))
	last := 0
	for _, p := range spans {
		out = append(append(out, text[last:p.from]...), redacted...)
		last = p.to
	}
	return append(out, text[last:]...)
}

func (s *Scrubber) findings(spans []span) []Finding {
	var out []Finding
	for i, u := range s.used {
		n := 0
		for _, p := range spans {
			if p.of == i {
				n++
			}
		}
		if n > 0 {
			out = append(out, Finding{u, n})
		}
	}
	return out
}
