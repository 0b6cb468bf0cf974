package jsonrpc

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of every message, whatever its size.
const (
	maxDepth = 64
	maxNodes = 1_000_000
)

// walker reads the tokens of one text within the bounds. Its decoder refuses duplicate names and invalid UTF-8.
type walker struct {
	b     []byte
	dec   *jsontext.Decoder
	nodes int
}

func newWalker(b []byte) *walker {
	return &walker{b: b, dec: jsontext.NewDecoder(bytes.NewBuffer(b))}
}

// value reads one value and returns its text.
func (w *walker) value() ([]byte, error) {
	w.dec.PeekKind() // moves over the white space and the colon or comma before the value
	from := w.start()
	base := w.dec.StackDepth()
	for {
		parent, n := w.dec.StackIndex(w.dec.StackDepth())
		tok, err := w.dec.ReadToken()
		if err != nil {
			return nil, syntax(err)
		}
		kind := tok.Kind()
		if isName := parent == '{' && n%2 == 0; !isName && kind != '}' && kind != ']' {
			w.nodes++
		}
		if w.nodes > maxNodes {
			return nil, invalid("the message has too many values")
		}
		if (kind == '{' || kind == '[') && w.dec.StackDepth() > maxDepth {
			return nil, invalid("the message is nested too deeply")
		}
		if w.dec.StackDepth() <= base {
			return w.b[from:w.dec.InputOffset()], nil
		}
	}
}

// start returns the offset of the next token: the decoder's own offset is the end of the one before.
func (w *walker) start() int {
	at := int(w.dec.InputOffset())
	for at < len(w.b) && strings.IndexByte(" \t\r\n:,", w.b[at]) >= 0 {
		at++
	}
	return at
}

// end checks that nothing follows.
func (w *walker) end() error {
	if len(bytes.Trim(w.b[w.dec.InputOffset():], " \t\r\n")) != 0 {
		return &FormError{Number: ParseError, Msg: "there is something after the message"}
	}
	return nil
}

func syntax(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid("an object has the same member name twice")
	}
	return &FormError{Number: ParseError, Msg: "this is not strict JSON"}
}

// A Member is one member of an object. Its texts point into the object's bytes.
type Member struct {
	Name    string // decoded
	RawName []byte // as it was written, with its quotes
	Value   []byte // as it was written
}

// Members returns the members of the JSON object in raw, in their order. It fails for anything else than one object.
func Members(raw []byte) ([]Member, error) {
	w := newWalker(raw)
	m, err := w.members()
	if err != nil {
		return nil, err
	}
	return m, w.end()
}

func (w *walker) members() ([]Member, error) {
	if w.dec.PeekKind() != '{' {
		if _, err := w.value(); err != nil {
			return nil, err
		}
		return nil, invalid("this is not an object")
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	var out []Member
	for w.dec.PeekKind() != '}' {
		rawName, err := w.dec.ReadValue()
		if err != nil {
			return nil, syntax(err)
		}
		rawName = slices.Clone(rawName)
		name, err := jsontext.AppendUnquote(nil, rawName)
		if err != nil {
			return nil, syntax(err)
		}
		v, err := w.value()
		if err != nil {
			return nil, err
		}
		out = append(out, Member{Name: string(name), RawName: rawName, Value: v})
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	return out, nil
}

// Elements returns the elements of the JSON array in raw, in their order. It fails for anything else than one array.
func Elements(raw []byte) ([][]byte, error) {
	w := newWalker(raw)
	if w.dec.PeekKind() != '[' {
		return nil, invalid("this is not an array")
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	var out [][]byte
	for w.dec.PeekKind() != ']' {
		v, err := w.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	return out, w.end()
}

// Object writes members as one object, names and values as they were written.
func Object(members []Member) []byte {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		if m.RawName != nil {
			b = append(b, m.RawName...)
		} else {
			b = append(b, Quote(m.Name)...)
		}
		b = append(b, ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return []byte(`""`)
	}
	return b
}

// Unquote returns the content of the JSON string in raw, and false if raw is anything else.
func Unquote(raw []byte) (string, bool) {
	raw = bytes.Trim(raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	return string(s), err == nil
}

// Ambiguous reports whether readers could disagree about which member is which: two names that differ in letter case
// alone (many readers ignore it) or a name with a control character (some end a name there).
func Ambiguous(members []Member, reserved ...string) bool {
	seen := make(map[string]string, len(members)+len(reserved))
	for _, n := range reserved {
		seen[fold(n)] = n
	}
	for _, m := range members {
		if strings.IndexFunc(m.Name, unicode.IsControl) >= 0 {
			return true
		}
		f := fold(m.Name)
		if n, ok := seen[f]; ok && n != m.Name {
			return true
		}
		seen[f] = m.Name
	}
	return false
}

// fold maps all spellings that strings.EqualFold calls equal to one.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}
