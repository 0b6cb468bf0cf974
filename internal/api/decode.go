package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

// maxDepth bounds the nesting of what comes in.
const maxDepth = 100

// decode reads a request's JSON body into v: no name twice, none that v doesn't have, no other letter case, nothing behind
// it. The body is as large as its gate has admitted.
func decode(r *http.Request, v any) error {
	b, err := readJSON(r)
	if err != nil {
		return err
	}
	return parse(b, v)
}

// readJSON reads a body that says to be JSON.
func readJSON(r *http.Request) ([]byte, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != typeJSON || len(r.Header.Values("Content-Type")) != 1 {
		return nil, refuse(codeMediaType, "the body must be application/json")
	}
	for name, value := range params {
		if name != "charset" || value != "utf-8" && value != "UTF-8" {
			return nil, refuse(codeMediaType, "the body must be application/json, in UTF-8")
		}
	}
	return readBody(r)
}

func readBody(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		return b, nil
	}
	if _, ok := errors.AsType[*ratelimit.BodyError](err); ok {
		return nil, err
	}
	return nil, &problem{Status: http.StatusBadRequest, Code: codeBody, Detail: "the body ended before it should have", cause: err}
}

// parse reads one JSON document into v. The error never echoes it, but for the path, which is bounded.
func parse(b []byte, v any) error {
	if err := shallow(b); err != nil {
		return err
	}
	err := json.Unmarshal(b, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	p := malformed("", "the body is not one strict JSON document")
	p.cause = nil
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		p.Path = clip(string(e.JSONPointer))
		if errors.Is(err, jsontext.ErrDuplicateName) {
			p.Detail = "a name stands twice in one object"
		}
		return p
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		p.Path, p.Detail = clip(string(e.JSONPointer)), "the value is not of the form that is taken here"
		if errors.Is(err, json.ErrUnknownName) {
			p.Detail = "there is no member of this name here"
		}
	}
	return p
}

// shallow refuses what is nested too deeply, before anything recurses into it.
func shallow(b []byte) error {
	depth, inText := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return malformed("", "the body is nested too deeply")
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// maxEcho bounds what of a request's own words an answer repeats.
const maxEcho = 128

// clip makes a short printable text of one that a caller chose.
func clip(s string) string {
	if len(s) > maxEcho {
		s = s[:maxEcho]
	}
	q := strconv.QuoteToASCII(s)
	return q[1 : len(q)-1]
}

// maxQuery bounds the query of a request.
const maxQuery = 4096

// readQuery reads a query strictly: parameters that the route knows, each once.
func readQuery(raw string, names []string) (url.Values, error) {
	if raw == "" {
		return url.Values{}, nil
	}
	if len(raw) > maxQuery {
		return nil, malformed("", "the query is too long")
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, malformed("", "the query can't be read")
	}
	for name, values := range q {
		if !slices.Contains(names, name) {
			return nil, malformed(clip(name), "there is no parameter of this name here")
		}
		if len(values) != 1 {
			return nil, malformed(clip(name), "the parameter stands more than once")
		}
	}
	return q, nil
}

const (
	defaultPage = 50
	maxPage     = 200
	maxName     = 256 // of an id or a name in a path or query
)

// page returns where a page begins and how long it may be.
func (x *exchange) page() (after string, limit int, err error) {
	if limit, err = x.number("limit", defaultPage, 1, maxPage); err != nil {
		return "", 0, err
	}
	after, err = x.text("after")
	return after, limit, err
}

// number returns a whole number of the query.
func (x *exchange) number(name string, fallback, least, most int) (int, error) {
	if !x.query.Has(name) {
		return fallback, nil
	}
	s := x.query.Get(name)
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most || strconv.Itoa(n) != s {
		return 0, malformed(name, "it must be a whole number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most))
	}
	return n, nil
}

// text returns a name of the query, "" if there is none.
func (x *exchange) text(name string) (string, error) {
	return plainName(name, x.query.Get(name), true)
}

// named returns a name of the path.
func (x *exchange) named(name string) (string, error) {
	return plainName(name, x.r.PathValue(name), false)
}

// flag returns whether the query says yes.
func (x *exchange) flag(name string) (bool, error) {
	switch x.query.Get(name) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "":
		if !x.query.Has(name) {
			return false, nil
		}
	}
	return false, malformed(name, "it must be true or false")
}
