package counterfoil

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// limits bounds one document. Nodes, depth and width are counted while it is read, before memory is taken for what they
// hold.
type limits struct {
	bytes int // of the text as it arrived, and of its canonical form
	nodes int // values, the root included
	depth int // nesting; the root is at depth 0
	width int // members of one object, elements of one array
}

// The hard limits. A host may lower those of arguments; nothing raises them.
const (
	maxDocumentBytes = 1 << 20
	maxDocumentNodes = 8192
	maxDocumentDepth = 32
	maxDocumentWidth = 1024

	// MaxArgumentBytes, MaxArgumentNodes and MaxArgumentDepth bound the arguments of one call.
	MaxArgumentBytes = 16 << 20
	MaxArgumentNodes = 1_000_000
	MaxArgumentDepth = 64
)

func documentLimits() limits {
	return limits{bytes: maxDocumentBytes, nodes: maxDocumentNodes, depth: maxDocumentDepth, width: maxDocumentWidth}
}

func argumentLimits() limits {
	return limits{bytes: MaxArgumentBytes, nodes: MaxArgumentNodes, depth: MaxArgumentDepth, width: MaxArgumentNodes}
}

// Canonicalize returns the RFC 8785 form of one JSON document. It is strict as RFC 7493 asks: valid UTF-8, no duplicate
// names, no lone surrogates, no byte order mark, nothing after the document. Numbers are rounded to the nearest double,
// as RFC 8785 prints them; [ParseArguments] refuses those that would change by it. The bounds are those of arguments, and 64
// numbers that only long arithmetic rounds: those of more than 17 digits, or below 10^-307, that are no double's own form.
func Canonicalize(b []byte) ([]byte, error) {
	return canonicalize(b, argumentLimits(), numbersRounded)
}

// Arguments are a tool's arguments as the call carries them: parsed once, then used by their canonical bytes alone.
type Arguments struct {
	canon  []byte
	digest Digest
}

// ParseArguments reads a call's arguments: any JSON value whose numbers RFC 8785 prints without loss. A number whose
// shortest double has another decimal value than was written (9007199254740993) is refused, and so is -0.
func ParseArguments(b []byte) (*Arguments, error) {
	c, err := canonicalize(b, argumentLimits(), numbersExact)
	if err != nil {
		return nil, err
	}
	return &Arguments{canon: c, digest: digest(domainParameters, c)}, nil
}

// Canonical returns a copy of the canonical bytes.
func (a *Arguments) Canonical() []byte { return slices.Clone(a.canon) }

// Digest returns the digest of the canonical bytes.
func (a *Arguments) Digest() Digest { return a.digest }

// A canonicalizer rewrites one text that is known to be strict JSON into its canonical form, in one pass.
type canonicalizer struct {
	in    []byte
	lim   limits
	rule  numberRule
	nodes int
	hard  int // numbers

	members []member // of the objects that are open, outermost first
	names   []byte   // their names, unescaped
	ranks   []rank
	scratch []byte
}

// A member is one member of an open object.
type member struct {
	name     span  // in names
	from, to int32 // in the output: the name, the colon and the value
}

// A span is a piece of a buffer.
type span struct{ from, to int32 }

// place is an offset in half the memory: there is one member per six bytes of hostile input.
func place(n int) int32 { return int32(n) } //nolint:gosec // every buffer is bounded far below 2 GiB

// canonicalize returns the canonical form of one strict JSON text within lim. The result shares no memory with b.
func canonicalize(b []byte, lim limits, rule numberRule) ([]byte, error) {
	if len(b) > lim.bytes {
		return nil, tooLong(lim)
	}
	if isCanonical(b, lim) {
		return bytes.Clone(b), nil
	}
	return rewrite(b, lim, rule)
}

func rewrite(b []byte, lim limits, rule numberRule) ([]byte, error) {
	// Duplicate names are found below, where the names are sorted anyway.
	if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, syntaxError(b)
	}
	c := canonicalizer{in: b, lim: lim, rule: rule, members: make([]member, 0, 32), names: make([]byte, 0, 512)}
	out, _, err := c.value(make([]byte, 0, len(b)), skipSpace(b, 0), 0)
	if err != nil {
		err.Path = escapePath(err.Path)
		return nil, err
	}
	if len(out) > lim.bytes {
		return nil, tooLong(lim)
	}
	return out, nil
}

func tooLong(lim limits) *Error {
	return fail(CodeInvalidInput, "the document is larger than "+strconv.Itoa(lim.bytes)+" bytes")
}

// syntaxError says where a text stops being strict JSON. The tokenizer's own words may repeat the input: only the place is
// kept.
func syntaxError(b []byte) error {
	e := fail(CodeInvalidInput, "this is not strict JSON")
	_, err := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true)).ReadValue()
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.Path, e.Err = escapePath(string(at.JSONPointer)), at
	}
	return e
}

// value appends the value that begins at in[i] and returns the offset past it.
func (c *canonicalizer) value(out []byte, i, depth int) ([]byte, int, *Error) {
	c.nodes++
	switch {
	case c.nodes > c.lim.nodes:
		return nil, 0, fail(CodeInvalidInput, "the document has more than "+strconv.Itoa(c.lim.nodes)+" values")
	case depth > c.lim.depth:
		return nil, 0, fail(CodeInvalidInput, "the document is nested deeper than "+strconv.Itoa(c.lim.depth))
	case len(out) > c.lim.bytes:
		return nil, 0, tooLong(c.lim)
	}
	switch c.in[i] {
	case '{':
		return c.object(out, i, depth)
	case '[':
		return c.array(out, i, depth)
	case '"':
		end := skipString(c.in, i)
		raw := c.in[i:end]
		if isPlain(raw) {
			return append(out, raw...), end, nil
		}
		c.scratch = unquote(c.scratch[:0], raw)
		return appendString(out, c.scratch), end, nil
	case 't', 'f', 'n':
		end := skipScalar(c.in, i)
		return append(out, c.in[i:end]...), end, nil
	default:
		if end := skipSmallInteger(c.in, i); end > i {
			return append(out, c.in[i:end]...), end, nil
		}
		end := skipScalar(c.in, i)
		out, err := c.number(room(out, 32), c.in[i:end])
		return out, end, err
	}
}

func (c *canonicalizer) tooWide() *Error {
	return fail(CodeInvalidInput, "an object or array has more than "+strconv.Itoa(c.lim.width)+" entries")
}

func (c *canonicalizer) array(out []byte, i, depth int) ([]byte, int, *Error) {
	out = append(out, '[')
	i = skipSpace(c.in, i+1)
	for k := 0; c.in[i] != ']'; k++ {
		if k >= c.lim.width {
			return nil, 0, c.tooWide()
		}
		if k > 0 {
			out = append(out, ',')
			i = skipSpace(c.in, i+1)
		}
		var err *Error
		if out, i, err = c.value(out, i, depth+1); err != nil {
			return nil, 0, err.under(strconv.Itoa(k))
		}
		i = skipSpace(c.in, i)
	}
	return append(out, ']'), i + 1, nil
}

func (c *canonicalizer) object(out []byte, i, depth int) ([]byte, int, *Error) {
	out = append(out, '{')
	first, names, start, sorted := len(c.members), len(c.names), len(out), true
	i = skipSpace(c.in, i+1)
	for k := first; c.in[i] != '}'; k++ {
		if k-first >= c.lim.width {
			return nil, 0, c.tooWide()
		}
		if k > first {
			out = append(out, ',')
			i = skipSpace(c.in, i+1)
		}
		out, i = c.name(out, i)
		sorted = sorted && (k == first || compareUTF16(c.nameOf(c.members[k-1]), c.nameOf(c.members[k])) < 0)
		var err *Error
		if out, i, err = c.value(out, i, depth+1); err != nil {
			return nil, 0, err.under(string(c.nameOf(c.members[k])))
		}
		c.members[k].to = place(len(out))
		i = skipSpace(c.in, i)
	}
	if !sorted {
		if err := c.sort(out, start, c.members[first:]); err != nil {
			return nil, 0, err
		}
	}
	c.members, c.names = c.members[:first], c.names[:names]
	return append(out, '}'), i + 1, nil
}

// name begins a new member with the name at in[i], appends the name and the colon, and returns where the value begins.
func (c *canonicalizer) name(out []byte, i int) ([]byte, int) {
	from, at := len(c.names), len(out)
	end := skipString(c.in, i)
	c.names, c.members = room(c.names, end-i), room(c.members, 1)
	if raw := c.in[i:end]; isPlain(raw) {
		c.names = append(c.names, raw[1:len(raw)-1]...)
		out = append(out, raw...)
	} else {
		c.names = unquote(c.names, raw)
		out = appendString(out, c.names[from:])
	}
	c.members = append(c.members, member{
		name: span{place(from), place(len(c.names))}, from: place(at), to: 0,
	})
	return append(out, ':'), skipSpace(c.in, skipSpace(c.in, end)+1)
}

// room makes room for n more. It doubles where append would grow by a quarter: an object may have a million members.
func room[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return slices.Grow(s, max(n, len(s)))
}

// sort puts the members of the object that is being written, from out[start] on, into canonical order.
func (c *canonicalizer) sort(out []byte, start int, ms []member) *Error {
	c.ranks = slices.Grow(c.ranks[:0], 2*len(ms))[:2*len(ms)]
	ranks := c.ranks[:len(ms)]
	for k := range ranks {
		ranks[k].of = place(k)
	}
	s := nameSorter{names: c.names, members: ms}
	if !s.sort(ranks, c.ranks[len(ms):], 0) {
		return fail(CodeInvalidInput, "an object has the same member name twice").under(string(s.twice))
	}
	// The largest member is moved once, the others by way of scratch: objects within each other are moved at every level.
	largest := largestOf(ms)
	big, head := out[ms[largest].from:ms[largest].to], 0
	c.scratch = slices.Grow(c.scratch[:0], len(out)-start-len(big))
	for k, r := range ranks {
		if k > 0 {
			c.scratch = append(c.scratch, ',')
		}
		if r.of == largest {
			head = len(c.scratch)
			continue
		}
		c.scratch = append(c.scratch, out[ms[r.of].from:ms[r.of].to]...)
	}
	tail := start + head + copy(out[start+head:], big)
	copy(out[start:], c.scratch[:head])
	copy(out[tail:], c.scratch[head:])
	return nil
}

func largestOf(ms []member) int32 {
	largest := 0
	for k, m := range ms {
		if m.to-m.from > ms[largest].to-ms[largest].from {
			largest = k
		}
	}
	return place(largest)
}

func (c *canonicalizer) nameOf(m member) []byte { return c.names[m.name.from:m.name.to] }
