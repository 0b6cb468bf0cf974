package vault

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
)

// A Ref names a secret in a template: {{secret:name}} or {{secret:name@version}}.
type Ref struct {
	Name    string
	Version int64 // 0 for the last
}

// A part of a template is a literal or, if the name is set, a secret's place.
type part struct {
	literal string
	ref     Ref
}

const (
	opening = "{{secret:"
	closing = "}}"

	maxFields   = 256
	maxTemplate = 64 << 10 // bytes of one
	maxParts    = 64
)

// parseTemplate takes a text apart. What only looks like a place for a secret is an error, not a literal: it would be sent as it stands.
func parseTemplate(text string) ([]part, error) {
	if len(text) > maxTemplate || !utf8.ValidString(text) {
		return nil, fail(counterfoil.CodeInvalidInput, "a template is UTF-8 of at most 65536 bytes", nil)
	}
	var parts []part
	for rest := text; ; {
		literal, after, found := strings.Cut(rest, opening)
		if slipped(literal) {
			return nil, badTemplate()
		}
		if literal != "" {
			parts = append(parts, part{literal: literal})
		}
		if !found {
			break
		}
		inner, next, ok := strings.Cut(after, closing)
		ref, valid := parseRef(inner)
		if !ok || !valid || len(parts) >= maxParts {
			return nil, badTemplate()
		}
		parts, rest = append(parts, part{ref: ref}), next
	}
	return parts, nil
}

func badTemplate() error {
	return fail(counterfoil.CodeInvalidInput, "a secret's place is written {{secret:name}} or {{secret:name@version}}", nil)
}

// slipped reports whether a literal has something that was meant to be a place: other letter case, a blank too many.
func slipped(literal string) bool {
	for {
		_, after, found := strings.Cut(literal, "{{")
		if !found {
			return false
		}
		word := strings.TrimLeft(after, " \t{")
		if len(word) >= 6 && strings.EqualFold(word[:6], "secret") {
			return true
		}
		literal = after
	}
}

func parseRef(s string) (Ref, bool) {
	name, version, pinned := strings.Cut(s, "@")
	if CheckName(name) != nil {
		return Ref{}, false
	}
	if !pinned {
		return Ref{Name: name}, true
	}
	n, err := strconv.ParseInt(version, 10, 64)
	return Ref{name, n}, err == nil && n > 0 && strconv.FormatInt(n, 10) == version
}

// A field is where a template stands.
type field struct {
	pointer string
	text    string
	parts   []part
}

// A Sheet is what of one upstream's configuration may hold secrets: the headers that it is sent, or the environment and the arguments
// that it is started with. It holds templates, never a value. Only an operator's configuration is parsed into one: the same text
// in anything that an agent sends stays what it is.
type Sheet struct {
	fields []field // sorted by pointers
	doc    []byte
	digest counterfoil.Digest
}

// ParseSheet reads templates by where they stand: "/headers/NAME", "/env/NAME" or "/args/N". Headers don't mix with the
// others.
func ParseSheet(fields map[string]string) (*Sheet, error) {
	if len(fields) > maxFields {
		return nil, fail(counterfoil.CodeInvalidInput, "an upstream has at most 256 headers, environment variables and arguments", nil)
	}
	s := &Sheet{}
	texts := make(map[string]string, len(fields))
	for p, text := range fields {
		pointer, err := parsePointer(p)
		if err != nil {
			return nil, err
		}
		if _, twice := texts[pointer]; twice {
			return nil, fail(counterfoil.CodeInvalidInput, "a header stands twice in the upstream's configuration", nil)
		}
		f := field{pointer: pointer, text: text}
		if f.parts, err = parseTemplate(text); err != nil {
			return nil, at(pointer, err)
		}
		if strings.ContainsRune(text, 0) || !strings.HasPrefix(pointer, "/args/") && strings.ContainsFunc(text, isControl) {
			return nil, at(pointer, fail(counterfoil.CodeInvalidInput, "a header or environment variable has no control character", nil))
		}
		s.fields, texts[pointer] = append(s.fields, f), text
	}
	slices.SortFunc(s.fields, func(a, b field) int { return strings.Compare(a.pointer, b.pointer) })
	if n := len(s.fields); n > 0 && isHeader(s.fields[0].pointer) != isHeader(s.fields[n-1].pointer) ||
		slices.ContainsFunc(s.fields, func(f field) bool { return isHeader(f.pointer) != isHeader(s.fields[0].pointer) }) {
		return nil, fail(counterfoil.CodeInvalidInput, "an upstream is started or called: it has an environment and arguments, or headers", nil)
	}
	b, err := json.Marshal(texts, json.Deterministic(true))
	if err != nil {
		return nil, fail(counterfoil.CodeInvalidInput, "the templates could not be written down", err)
	}
	if s.doc, err = counterfoil.Canonicalize(b); err != nil {
		return nil, err
	}
	s.digest, err = counterfoil.UpstreamDigest(s.doc)
	return s, err
}

// at says where an error was met.
func at(pointer string, err error) error {
	if e, ok := err.(*counterfoil.Error); ok { //nolint:errorlint // it was made a moment ago
		return &counterfoil.Error{Code: e.Code, Path: pointer, Msg: e.Msg, Err: e.Err}
	}
	return err
}

const headers = "/headers/"

func isHeader(pointer string) bool { return strings.HasPrefix(pointer, headers) }

// parsePointer returns the one spelling of a pointer.
func parsePointer(p string) (string, error) {
	bad := fail(counterfoil.CodeInvalidInput, "a secret's place is /headers/NAME, /env/NAME or /args/N", nil)
	if name, ok := strings.CutPrefix(p, headers); ok {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if !isToken(name) {
			return "", bad
		}
		switch canonical {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Content-Type", "Content-Encoding",
			"Proxy-Connection":
			return "", fail(counterfoil.CodeInvalidInput, "this header is the transport's own", nil)
		}
		return headers + canonical, nil
	}
	if name, ok := strings.CutPrefix(p, "/env/"); ok {
		if name == "" || name[0] >= '0' && name[0] <= '9' || !isToken(name) || strings.ContainsAny(name, "-.") {
			return "", bad
		}
		return p, nil
	}
	if index, ok := strings.CutPrefix(p, "/args/"); ok {
		if n, err := strconv.ParseUint(index, 10, 16); err == nil && strconv.FormatUint(n, 10) == index {
			return p, nil
		}
	}
	return "", bad
}

// isToken knows the names of headers and of environment variables, without the marks that nobody uses in them.
func isToken(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// Canonical returns the canonical document of the templates: an object of pointers and texts. It belongs into the upstream's
// identity, so that an approval covers which secret goes where. No value stands in it.
func (s *Sheet) Canonical() []byte { return slices.Clone(s.doc) }

// Digest returns the digest of [Sheet.Canonical].
func (s *Sheet) Digest() counterfoil.Digest { return s.digest }

// Pointers returns where the templates stand, sorted.
func (s *Sheet) Pointers() []string {
	out := make([]string, len(s.fields))
	for i, f := range s.fields {
		out[i] = f.pointer
	}
	return out
}

// Refs returns the secrets that the templates name, each once.
func (s *Sheet) Refs() []Ref {
	var out []Ref
	for _, f := range s.fields {
		for _, p := range f.parts {
			if p.ref.Name != "" && !slices.Contains(out, p.ref) {
				out = append(out, p.ref)
			}
		}
	}
	return out
}
