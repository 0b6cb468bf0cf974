package mcpexec

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

type kind int

const (
	kindNone       kind = iota
	kindAnswer          // the tool's answer
	kindReport          // the tool's report of its own failure
	kindUnfinished      // the tool asks for more, or answers later
)

// kindOf reads the members of a tools/call result that say what it is. The result must be one object of strict JSON:
// another reader could see another kind in anything else. Errors don't repeat the result.
func kindOf(result []byte) (kind, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(result))
	if d.PeekKind() != '{' || !jsontext.Value(result).IsValid() {
		return kindNone, errors.New("the result is not one object of strict JSON")
	}
	if _, err := d.ReadToken(); err != nil {
		return kindNone, errors.New("the result can't be read")
	}
	k := kindAnswer
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return kindNone, errors.New("the result can't be read")
		}
		member := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return kindNone, errors.New("the result can't be read")
		}
		switch member {
		case "isError":
			if value.Kind() != 't' && value.Kind() != 'f' {
				return kindNone, errors.New("isError is neither true nor false")
			}
			if value.Kind() == 't' && k == kindAnswer {
				k = kindReport
			}
		case "resultType":
			if value.Kind() != '"' {
				return kindNone, errors.New("resultType is not a string")
			}
			if s, err := jsontext.AppendUnquote(nil, value); err != nil || string(s) != "complete" {
				k = kindUnfinished
			}
		}
	}
	return k, nil
}
