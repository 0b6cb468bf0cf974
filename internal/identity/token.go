package identity

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a token. They are checked before anything is decoded.
const (
	maxToken   = 8 << 10 // bytes of the whole text
	maxHeader  = 1 << 10 // bytes of its first part
	maxMembers = 128     // of an object
	maxList    = 256     // elements of a list
)

// A token is a signed one that was read and not yet believed.
type token struct {
	text   string
	signed string // what the signature is over: the first two parts as they came
	alg    string
	typ    string
	kid    string
	claims members
	sig    []byte
}

// parseToken reads the compact form of a signed token (RFC 7515 section 7.1) strictly: three parts, base64url without padding
// in its one spelling, JSON objects without duplicate names, and no header that would bring a key, name a place to fetch one
// from, or change what is signed. The caller has bounded the text.
func parseToken(text string) (*token, error) {
	head, rest, _ := strings.Cut(text, ".")
	body, sig, _ := strings.Cut(rest, ".")
	if len(head) > maxHeader || head == "" || body == "" || sig == "" {
		return nil, invalid("form")
	}
	t := &token{text: text, signed: text[:len(head)+1+len(body)]}
	header, err := object(head)
	if err != nil {
		return nil, err
	}
	if err := t.setHeader(header); err != nil {
		return nil, err
	}
	if t.claims, err = object(body); err != nil {
		return nil, err
	}
	if t.sig, err = segment(sig); err != nil { // a fourth part's dot is none of its characters
		return nil, invalid("form")
	}
	return t, nil
}

func object(part string) (members, error) {
	b, err := segment(part)
	if err != nil {
		return nil, invalid("form")
	}
	m, err := readMembers(b)
	if err != nil {
		return nil, invalid("json")
	}
	return m, nil
}

// setHeader takes over the header. What isn't known is refused, crit among it: then every header means what it says.
func (t *token) setHeader(m members) error {
	for name := range m {
		var ok bool
		switch name {
		case "alg":
			t.alg, ok = m.text(name)
		case "typ":
			t.typ, ok = m.text(name)
		case "kid":
			t.kid, ok = m.text(name)
		case "x5t", "x5t#S256": // a certificate's digest, which some issuers send: it brings nothing along
			_, ok = m.text(name)
		}
		if !ok {
			return invalid("header")
		}
	}
	if t.alg == "" || t.kid == "" || t.typ == "" {
		return invalid("header")
	}
	return nil
}

// segment decodes one part. The decoder of the library skips line breaks and, unless told, stray bits at the end.
func segment(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("a line break")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// members are the members of an object, each as it came.
type members map[string]jsontext.Value

// readMembers reads one JSON object and nothing behind it. Duplicate names at any depth, bad UTF-8 and lone surrogates are
// errors.
func readMembers(b []byte) (members, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if open, err := d.ReadToken(); err != nil {
		return nil, err
	} else if open.Kind() != '{' {
		return nil, errors.New("not an object")
	}
	m := members{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if m[key] = value.Clone(); len(m) > maxMembers {
			return nil, errors.New("too many members")
		}
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something behind the object")
	}
	return m, nil
}

// text returns a member that is a string and not empty.
func (m members) text(name string) (string, bool) { return unquote(m[name]) }

func unquote(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil && len(b) > 0
}

// list returns a member that is a list of strings, none empty.
func (m members) list(name string) ([]string, bool) { return unquoteList(m[name]) }

func unquoteList(v jsontext.Value) ([]string, bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	var out []string
	for d.PeekKind() != ']' {
		element, err := d.ReadValue()
		if err != nil || len(out) == maxList {
			return nil, false
		}
		s, ok := unquote(element)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// maxDate is the end of the year 9999.
const maxDate = 253402300799

// date returns a member that is a NumericDate (RFC 7519 section 2), in whole seconds, after 1970 and before the year 10000.
// Every other spelling of a number is refused: none can be rounded to the wrong side.
func (m members) date(name string) (time.Time, bool) {
	v := m[name]
	if len(v) == 0 || len(v) > 12 {
		return time.Time{}, false
	}
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' {
			return time.Time{}, false
		}
		n = n*10 + int64(c-'0')
	}
	return time.Unix(n, 0).UTC(), n > 0 && n <= maxDate
}
