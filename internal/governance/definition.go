package governance

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// Bounds on what one server may list.
const (
	maxTools            = 2048
	maxDefinitionBytes  = 256 << 10 // of one definition
	maxDefinitionsBytes = 16 << 20  // of all of them
	maxNameRunes        = 128
)

// A definition is one tool as its server describes it.
type definition struct {
	name   string
	canon  []byte
	digest counterfoil.Digest
	schema any // the inputSchema, decoded from the bytes as they arrived
	values int // JSON values in the definition
	hints  hints
}

// parseDefinition reads one raw tool object. why is not "" when it can't be used; the name is set even then if there is
// a good one, so that the tool can be shown with the reason.
func parseDefinition(raw []byte) (d definition, why string) {
	if len(raw) > maxDefinitionBytes {
		return d, "its definition is too large"
	}
	canon, err := counterfoil.Canonicalize(raw)
	if err != nil {
		return d, "its definition isn't strict JSON"
	}
	if d.digest, err = counterfoil.DefinitionDigest(canon); err != nil {
		return d, "its definition has no digest"
	}
	d.canon = canon
	v, measured, err := decode(raw)
	if err != nil {
		return d, "its definition isn't strict JSON"
	}
	object, ok := v.(map[string]any)
	if !ok {
		return d, "its definition isn't an object"
	}
	d.values = measured.values
	name, ok := object["name"].(string)
	if !ok || !validName(name) {
		return d, "its name isn't 1 to 128 visible characters"
	}
	d.name, d.hints = name, readHints(object)
	if d.schema, ok = object["inputSchema"].(map[string]any); !ok {
		return d, "its input schema is missing or isn't an object"
	}
	return d, ""
}

// validName reports whether a tool's name is 1 to 128 visible characters: no blanks, nothing that displays as nothing.
func validName(name string) bool {
	if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxNameRunes {
		return false
	}
	for i, r := range name {
		if r == ' ' || !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return false
		}
		if i == 0 && unicode.Is(unicode.M, r) {
			return false // a mark alone displays on whatever stands before the name
		}
	}
	return true
}

const errTrailing = sentinel("something after the value")

// stats measures a decoded value, to tell beforehand what validating it may cost.
type stats struct {
	values int   // the root included
	depth  int   // the root is at depth 0
	text   int64 // bytes of all strings and member names
	pairs  int64 // sum over arrays of elements × values below, what finding duplicates costs at worst
}

// decode reads JSON that was already found to be strict and within bounds into what the schema validator takes: numbers
// become int64 or uint64 where they are integers that fit, so that they stay exact, else float64.
func decode(b []byte) (any, stats, error) {
	d := decoder{dec: jsontext.NewDecoder(bytes.NewReader(b))}
	v, err := d.value(0)
	if err != nil {
		return nil, stats{}, err
	}
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, stats{}, errTrailing
	}
	return v, d.stats, nil
}

type decoder struct {
	dec   *jsontext.Decoder
	stats stats
}

func (d *decoder) value(depth int) (any, error) {
	d.stats.values++
	d.stats.depth = max(d.stats.depth, depth)
	if d.dec.PeekKind() == '{' {
		return d.object(depth)
	}
	if d.dec.PeekKind() == '[' {
		return d.array(depth)
	}
	tok, err := d.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() { //nolint:exhaustive // what isn't named here is null: the decoder refuses the rest
	case '"':
		s := tok.String()
		d.stats.text += int64(len(s))
		return s, nil
	case '0':
		return number(tok.String())
	case 't', 'f':
		return tok.Bool(), nil
	}
	return nil, nil
}

func (d *decoder) object(depth int) (any, error) {
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	object := map[string]any{}
	for d.dec.PeekKind() != '}' {
		tok, err := d.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := tok.String()
		d.stats.text += int64(len(name))
		if object[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.dec.ReadToken()
	return object, err
}

func (d *decoder) array(depth int) (any, error) {
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	array, before := []any{}, d.stats.values
	for d.dec.PeekKind() != ']' {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	d.stats.pairs += int64(len(array)) * int64(d.stats.values-before)
	_, err := d.dec.ReadToken()
	return array, err
}

func number(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u, nil
	}
	return strconv.ParseFloat(s, 64)
}
