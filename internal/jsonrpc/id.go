package jsonrpc

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxIDBytes bounds the text of one id.
const maxIDBytes = 1024

// An ID is the id of a request: a string or an integer, as MCP demands. It keeps the text that it was written with, so
// that it goes back with the same type and the same digits. The zero ID is no id; it is written as null.
type ID struct {
	raw string
	key string
}

// ParseID reads the JSON text of an id: any string, or an integer in its one plain spelling (no fraction, no exponent,
// no leading zero, no minus zero) of any size. Texts longer than 1,024 bytes are refused.
func ParseID(raw []byte) (ID, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	switch {
	case len(raw) == 0:
		return ID{}, invalid("there is no id")
	case len(raw) > maxIDBytes:
		return ID{}, invalid("the id is too long")
	case raw[0] == '"':
		s, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return ID{}, invalid("the id is not a string or an integer")
		}
		return ID{raw: string(raw), key: `"` + string(s)}, nil
	case isInteger(raw):
		return ID{raw: string(raw), key: string(raw)}, nil
	default:
		return ID{}, invalid("the id is not a string or an integer")
	}
}

// isInteger reports whether b is 0 or an optional minus, a digit from 1 to 9 and more digits.
func isInteger(b []byte) bool {
	if len(b) == 1 && b[0] == '0' {
		return true
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	if len(b) == 0 || b[0] == '0' {
		return false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// IntID returns the id that is written as the integer n.
func IntID(n int64) ID {
	s := strconv.FormatInt(n, 10)
	return ID{raw: s, key: s}
}

// String returns the JSON text of the id as it came in, and "null" for the zero ID.
func (id ID) String() string {
	if id.IsZero() {
		return "null"
	}
	return id.raw
}

// Key returns the text by which ids are compared: two spellings of one string share it, "1" and 1 do not.
func (id ID) Key() string { return id.key }

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id.raw == "" }

// Int returns the integer that the id is, and false for a string or an integer that an int64 cannot hold.
func (id ID) Int() (int64, bool) {
	if id.IsZero() || id.raw[0] == '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(id.raw, 10, 64)
	return n, err == nil
}
