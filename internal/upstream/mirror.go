package upstream

import (
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// annotation is the member of a property's schema that asks for its value in a header.
const annotation = "x-mcp-header"

// A Mirror is an argument whose value a request repeats in a header, so that what stands between can read it.
type Mirror struct {
	Header string   // "Mcp-Param-…"
	Path   []string // of the argument: the names of properties, outermost first
}

// Mirrors returns the arguments that a tool's definition wants in headers. It fails for an annotation that is not as MCP
// has it: no name, one that is no token or is there twice, at something else than a text, an integer or a truth value, or at a
// place that properties alone do not lead to. Nobody may use such a tool over HTTP.
func Mirrors(definition []byte) ([]Mirror, error) {
	schema := lookup(definition, "inputSchema")
	found, err := mirrorsIn(schema, nil, nil)
	if err != nil {
		return nil, err
	}
	for i, m := range found {
		if slices.ContainsFunc(found[:i], func(o Mirror) bool { return strings.EqualFold(o.Header, m.Header) }) {
			return nil, errors.New("two arguments are to be in one header")
		}
	}
	return found, nil
}

func mirrorsIn(schema []byte, path []string, found []Mirror) ([]Mirror, error) {
	for _, m := range members(schema) {
		if m.Name == annotation && len(path) == 0 || m.Name != "properties" && isSchema(m.Name) && annotated(m.Value) {
			return nil, errors.New("an argument that can't be found is to be in a header")
		}
	}
	for _, p := range members(lookup(schema, "properties")) {
		at := append(slices.Clone(path), p.Name)
		if name := lookup(p.Value, annotation); name != nil {
			text, ok := jsonrpc.Unquote(name)
			kind, _ := jsonrpc.Unquote(lookup(p.Value, "type"))
			if !ok || !isToken(text) || kind != "string" && kind != "integer" && kind != "boolean" {
				return nil, errors.New("an argument is to be in a header in a way that can't be")
			}
			found = append(found, Mirror{Header: http.CanonicalHeaderKey("Mcp-Param-" + text), Path: at})
		}
		var err error
		if found, err = mirrorsIn(p.Value, at, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// isSchema reports whether a keyword holds schemas, rather than values that could look like one.
func isSchema(keyword string) bool {
	switch keyword {
	case "items", "prefixItems", "contains", "additionalItems", "additionalProperties", "patternProperties", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$defs",
		"definitions", "contentSchema":
		return true
	}
	return false
}

// annotated reports whether there is an annotation anywhere in raw.
func annotated(raw []byte) bool {
	for _, m := range members(raw) {
		if m.Name == annotation || annotated(m.Value) {
			return true
		}
	}
	if len(raw) == 0 || raw[0] != '[' {
		return false
	}
	elements, err := jsonrpc.Elements(raw)
	return err == nil && slices.ContainsFunc(elements, annotated)
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// value returns an argument as it is written in a header, before it is coded. There is none for an argument that is
// absent or null; ok is false for one that can't be in a header.
func (m Mirror) value(arguments []byte) (text string, number, there, ok bool) {
	raw := arguments
	for _, name := range m.Path {
		if raw = lookup(raw, name); raw == nil {
			return "", false, false, true
		}
	}
	switch raw[0] {
	case 'n':
		return "", false, false, true
	case 't', 'f':
		return string(raw), false, true, true
	case '"':
		text, ok = jsonrpc.Unquote(raw)
		return text, false, true, ok
	default:
		n, ok := integer(string(raw))
		return strconv.FormatInt(n, 10), true, true, ok
	}
}

// integer reads a number that is one exactly, in every reader.
func integer(s string) (int64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53-1 {
		return 0, false
	}
	return int64(f), true
}

// Matches reports whether a header's value, and whether it is there at all, fits the arguments.
func (m Mirror) Matches(header http.Header, arguments []byte) bool {
	values := header[m.Header]
	text, number, there, ok := m.value(arguments)
	if !ok || len(values) > 1 || there != (len(values) == 1) {
		return false
	}
	if !there {
		return true
	}
	said, ok := DecodeHeader(values[0])
	if !ok {
		return false
	}
	if number {
		n, isInteger := integer(said)
		return isInteger && strconv.FormatInt(n, 10) == text
	}
	return said == text
}

// set writes the header for the arguments, if there is to be one.
func (m Mirror) set(header http.Header, arguments []byte) error {
	text, _, there, ok := m.value(arguments)
	if !ok {
		return errors.New("an argument that must be in a header can't be in one")
	}
	if there {
		header[m.Header] = []string{EncodeHeader(text)}
	}
	return nil
}

// The beginning and end of a header's value that is coded.
const (
	codedBegin = "=?base64?"
	codedEnd   = "?="
)

// EncodeHeader returns a text as MCP puts it into a header: as it is, or coded where a header could not hold it so.
func EncodeHeader(s string) string {
	coded := strings.HasPrefix(s, codedBegin) && strings.HasSuffix(s, codedEnd)
	if !coded && strings.Trim(s, " \t") == s && !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c > 0x7e }) {
		return s
	}
	return codedBegin + base64.StdEncoding.EncodeToString([]byte(s)) + codedEnd
}

// DecodeHeader returns the text that a header's value stands for, and false if it is coded wrongly.
func DecodeHeader(s string) (string, bool) {
	inner, begins := strings.CutPrefix(s, codedBegin)
	inner, ends := strings.CutSuffix(inner, codedEnd)
	if !begins || !ends {
		return s, true
	}
	b, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(b), err == nil
}
