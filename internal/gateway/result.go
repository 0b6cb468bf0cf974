package gateway

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// result is what the gateway reads of an upstream's result.
type result struct {
	kind    string // resultType, "" when absent
	isError bool
	rows    int64 // entries of content, contents or messages; -1 when there is none to count
}

// readResult reads the members at the top of a result, in one pass and without keeping anything of the rest.
func readResult(raw []byte) (result, error) {
	r := result{rows: -1}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	tok, err := d.ReadToken()
	if err != nil || tok.Kind() != '{' {
		return r, damaged(err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return r, damaged(err)
		}
		if err := r.member(d, name.String()); err != nil {
			return r, damaged(err)
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace, or what is wrong instead
		return r, damaged(err)
	}
	return r, nil
}

func (r *result) member(d *jsontext.Decoder, name string) error {
	kind := d.PeekKind()
	switch {
	case name == "isError":
		tok, err := d.ReadToken()
		// Anything but false is taken for a failure.
		r.isError = err == nil && tok.Kind() != 'f'
		if kind == '{' || kind == '[' {
			return errShape
		}
		return err
	case name == "resultType":
		tok, err := d.ReadToken()
		if err == nil && tok.Kind() != '"' {
			return errShape
		}
		r.kind = tok.String()
		if r.kind == "" {
			r.kind = "empty" // a kind that is not known
		}
		return err
	case kind == '[' && (name == "content" || name == "contents" || name == "messages"):
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		r.rows = max(r.rows, 0)
		for d.PeekKind() != ']' {
			if err := d.SkipValue(); err != nil {
				return err
			}
			r.rows++
		}
		_, err := d.ReadToken()
		return err
	default:
		return d.SkipValue()
	}
}

const errShape = sentinel("a member of the result has the wrong type")

func damaged(cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnknownOutcome, Msg: "the upstream's result can't be read", Err: cause}
}
