package counterfoil

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// limits bounds one document while its tokens are read, before memory is taken for what they hold.
type limits struct {
	bytes int // of the text as it arrived
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
// as RFC 8785 prints them; [ParseArguments] refuses those that would change by it. The bounds are those of arguments.
func Canonicalize(b []byte) ([]byte, error) {
	d, err := parseDocument(b, argumentLimits(), numbersRounded)
	if err != nil {
		return nil, err
	}
	return d.canonical(), nil
}

// Arguments are a tool's arguments as the call carries them: parsed once, then used by their canonical bytes alone.
type Arguments struct {
	canon  []byte
	digest Digest
}

// ParseArguments reads a call's arguments: any JSON value whose numbers RFC 8785 prints without loss. A number whose
// shortest double has another decimal value than was written (9007199254740993) is refused, and so is -0.
func ParseArguments(b []byte) (*Arguments, error) {
	d, err := parseDocument(b, argumentLimits(), numbersExact)
	if err != nil {
		return nil, err
	}
	c := d.canonical()
	return &Arguments{canon: c, digest: digest(domainParameters, c)}, nil
}

// Canonical returns a copy of the canonical bytes.
func (a *Arguments) Canonical() []byte { return slices.Clone(a.canon) }

// Digest returns the digest of the canonical bytes.
func (a *Arguments) Digest() Digest { return a.digest }

// A numberRule says what happens to a number that a double can't hold exactly as written.
type numberRule byte

const (
	numbersExact numberRule = iota + 1
	numbersRounded
)

// A span is a piece of one of a document's buffers.
type span struct{ from, to int }

// A node is one value of a document. Nodes live in one slice and name each other by index.
type node struct {
	kind   jsontext.Kind
	parent int
	name   span // the member's name, when the parent is an object
	text   span // of a string: its content; of a number: its canonical form
	kids   span // into document.kids
	canon  span // into document.canon, once written
	index  int  // position among the parent's elements as they arrived
	depth  int
}

// A document is a parsed JSON text. It owns its memory: nothing in it points into the caller's bytes.
type document struct {
	nodes []node
	kids  []int
	text  []byte
	canon []byte
}

// parser reads tokens into a document.
type parser struct {
	dec    *jsontext.Decoder
	lim    limits
	rule   numberRule
	doc    *document
	stack  []int
	parent int
}

// parseDocument reads one strict JSON document within lim. The root is node 0.
func parseDocument(b []byte, lim limits, rule numberRule) (*document, error) {
	if len(b) > lim.bytes {
		return nil, fail(CodeInvalidInput, "the document is larger than "+strconv.Itoa(lim.bytes)+" bytes")
	}
	// Hints only: a short text can't hold many nodes, and the budgets bound what a long one takes.
	d := &document{
		nodes: make([]node, 0, min(8+len(b)/12, lim.nodes)),
		kids:  make([]int, 0, min(8+len(b)/12, lim.nodes)),
		text:  make([]byte, 0, len(b)),
	}
	p := &parser{dec: jsontext.NewDecoder(bytes.NewBuffer(b)), lim: lim, rule: rule, doc: d, parent: -1}
	if err := p.value(span{}, 0, 0); err != nil {
		return nil, err
	}
	if p.dec.PeekKind() != 0 || !onlySpace(b[p.dec.InputOffset():]) {
		return nil, fail(CodeInvalidInput, "there is something after the document")
	}
	return d, nil
}

func onlySpace(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

func (p *parser) value(name span, index, depth int) error {
	if len(p.doc.nodes) >= p.lim.nodes {
		return p.fail("the document has more than " + strconv.Itoa(p.lim.nodes) + " values")
	}
	if depth > p.lim.depth {
		return p.fail("the document is nested deeper than " + strconv.Itoa(p.lim.depth))
	}
	at := len(p.doc.nodes)
	kind := p.dec.PeekKind()
	p.doc.nodes = append(p.doc.nodes, node{kind: kind, parent: p.parent, name: name, index: index, depth: depth})
	switch kind {
	case '{', '[':
		return p.container(at, depth)
	case '"':
		raw, err := p.dec.ReadValue()
		if err != nil {
			return p.syntax(err)
		}
		s, err := p.unquote(raw)
		if err != nil {
			return err
		}
		p.doc.nodes[at].text = s
		return nil
	case '0':
		raw, err := p.dec.ReadValue()
		if err != nil {
			return p.syntax(err)
		}
		return p.number(at, raw)
	default: // literals, or an error that ReadValue names
		if _, err := p.dec.ReadValue(); err != nil {
			return p.syntax(err)
		}
		return nil
	}
}

func (p *parser) unquote(raw []byte) (span, error) {
	from := len(p.doc.text)
	var err error
	if p.doc.text, err = jsontext.AppendUnquote(p.doc.text, raw); err != nil {
		return span{}, p.syntax(err)
	}
	return span{from, len(p.doc.text)}, nil
}

func (p *parser) container(at, depth int) error {
	object := p.doc.nodes[at].kind == '{'
	if _, err := p.dec.ReadToken(); err != nil {
		return p.syntax(err)
	}
	outer := p.parent
	p.parent = at
	base := len(p.stack)
	for i := 0; ; i++ {
		k := p.dec.PeekKind()
		if k == '}' || k == ']' {
			break
		}
		if i >= p.lim.width {
			return p.fail("an object or array has more than " + strconv.Itoa(p.lim.width) + " entries")
		}
		var name span
		if object {
			raw, err := p.dec.ReadValue()
			if err != nil {
				return p.syntax(err)
			}
			if name, err = p.unquote(raw); err != nil {
				return err
			}
		}
		p.stack = append(p.stack, len(p.doc.nodes))
		if err := p.value(name, i, depth+1); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return p.syntax(err)
	}
	p.parent = outer
	from := len(p.doc.kids)
	p.doc.kids = append(p.doc.kids, p.stack[base:]...)
	p.stack = p.stack[:base]
	p.doc.nodes[at].kids = span{from, len(p.doc.kids)}
	if object {
		slices.SortFunc(p.doc.kids[from:], func(a, b int) int { return compareUTF16(p.doc.nameOf(a), p.doc.nameOf(b)) })
	}
	return nil
}

// number checks a number against the rule and keeps its canonical form.
func (p *parser) number(at int, raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(f, 0) {
		return p.failNode(at, "a number is too large for a double")
	}
	from := len(p.doc.text)
	p.doc.text = appendNumber(p.doc.text, f)
	p.doc.nodes[at].text = span{from, len(p.doc.text)}
	if p.rule == numbersExact {
		if f == 0 && raw[0] == '-' {
			return p.failNode(at, "minus zero is not accepted")
		}
		if !sameDecimal(raw, p.doc.text[from:]) {
			return p.failNode(at, "a number has more digits than a double can hold; send it as a string")
		}
	}
	return nil
}

// syntax turns the tokenizer's error into ours: its text may repeat the input, so only its place is kept.
func (p *parser) syntax(cause error) error {
	msg := "this is not strict JSON"
	if se, ok := cause.(*jsontext.SyntacticError); ok {
		if se.Err == jsontext.ErrDuplicateName {
			msg = "an object has the same member name twice"
		}
		return &Error{Code: CodeInvalidInput, Path: escapePath(string(se.JSONPointer)), Msg: msg, Err: cause}
	}
	return &Error{Code: CodeInvalidInput, Msg: msg, Err: cause}
}

func (p *parser) fail(msg string) error {
	return failAt(CodeInvalidInput, escapePath(string(p.dec.StackPointer())), msg)
}

func (p *parser) failNode(at int, msg string) error {
	return failAt(CodeInvalidInput, p.doc.pointer(at), msg)
}

func (d *document) str(s span) string { return string(d.text[s.from:s.to]) }

func (d *document) nameOf(n int) []byte {
	s := d.nodes[n].name
	return d.text[s.from:s.to]
}

func (d *document) children(n int) []int {
	k := d.nodes[n].kids
	return d.kids[k.from:k.to]
}

// pointer returns the RFC 6901 pointer to node n, escaped for printing.
func (d *document) pointer(n int) string {
	var parts []string
	for d.nodes[n].parent >= 0 {
		parent := d.nodes[n].parent
		if d.nodes[parent].kind == '{' {
			parts = append(parts, strings.NewReplacer("~", "~0", "/", "~1").Replace(string(d.nameOf(n))))
		} else {
			parts = append(parts, strconv.Itoa(d.nodes[n].index))
		}
		n = parent
	}
	var b strings.Builder
	for _, p := range slices.Backward(parts) {
		b.WriteByte('/')
		b.WriteString(p)
	}
	return escapePath(b.String())
}

// canonical writes the whole document once and returns it; raw then names every node's piece of it.
func (d *document) canonical() []byte {
	if d.canon == nil {
		d.canon = make([]byte, 0, len(d.text)+4*len(d.nodes)+2)
		d.write(0)
	}
	return d.canon
}

// raw returns the canonical bytes of node n. canonical must have run.
func (d *document) raw(n int) []byte {
	s := d.nodes[n].canon
	return d.canon[s.from:s.to:s.to]
}

func (d *document) write(n int) {
	from := len(d.canon)
	nd := &d.nodes[n]
	switch nd.kind {
	case '{', '[':
		d.canon = append(d.canon, byte(nd.kind))
		for i, k := range d.children(n) {
			if i > 0 {
				d.canon = append(d.canon, ',')
			}
			if nd.kind == '{' {
				d.canon = appendString(d.canon, d.nameOf(k))
				d.canon = append(d.canon, ':')
			}
			d.write(k)
		}
		d.canon = append(d.canon, byte(nd.kind)+2) // '}' and ']' follow their openers by two
	case '"':
		d.canon = appendString(d.canon, d.text[nd.text.from:nd.text.to])
	case '0':
		d.canon = append(d.canon, d.text[nd.text.from:nd.text.to]...)
	case 'n':
		d.canon = append(d.canon, "null"...)
	case 't':
		d.canon = append(d.canon, "true"...)
	case 'f':
		d.canon = append(d.canon, "false"...)
	}
	nd.canon = span{from, len(d.canon)}
}

// measure returns how many values the subtree at n holds and how deep it goes below n. A node's descendants follow it in
// one run.
func (d *document) measure(n int) (nodes, depth int) {
	nodes = 1
	for i := n + 1; i < len(d.nodes) && d.nodes[i].depth > d.nodes[n].depth; i++ {
		nodes++
		depth = max(depth, d.nodes[i].depth-d.nodes[n].depth)
	}
	return nodes, depth
}

// appendString appends the RFC 8785 form of a string (section 3.2.2.2). The content is valid UTF-8: the parser and the
// typed writers admit nothing else.
func appendString[S ~[]byte | ~string](dst []byte, s S) []byte {
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		panic("counterfoil: invalid UTF-8 reached the canonical writer")
	}
	return dst
}

// compareUTF16 orders two UTF-8 texts by their UTF-16 code units, as RFC 8785 section 3.2.3 asks.
func compareUTF16[S ~[]byte | ~string](a, b S) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n {
		return len(a) - len(b)
	}
	for i > 0 && !utf8.RuneStart(a[i]) || i > 0 && !utf8.RuneStart(b[i]) {
		i--
	}
	ra, _ := utf8.DecodeRuneInString(string(a[i:min(len(a), i+utf8.UTFMax)]))
	rb, _ := utf8.DecodeRuneInString(string(b[i:min(len(b), i+utf8.UTFMax)]))
	// Beyond the BMP a character begins with a surrogate, which sorts before U+E000 and above.
	if (ra > 0xFFFF) != (rb > 0xFFFF) {
		return int(firstUnit(ra)) - int(firstUnit(rb))
	}
	return int(ra) - int(rb)
}

func firstUnit(r rune) rune {
	if r > 0xFFFF {
		return 0xD800 + (r-0x10000)>>10
	}
	return r
}

// appendNumber appends a finite double as ECMA-262 prints it (Number::toString, base 10), which is RFC 8785's form.
func appendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// strconv writes at least two exponent digits, ECMA-262 no leading zero.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// sameDecimal reports whether two JSON numbers are the same decimal value, without arithmetic that could round.
func sameDecimal(a, b []byte) bool {
	da, ea, okA := decimal(a)
	db, eb, okB := decimal(b)
	return okA && okB && string(da) == string(db) && (len(da) == 0 || ea == eb) && (len(da) == 0 || (a[0] == '-') == (b[0] == '-'))
}

// decimal splits a JSON number into its significant digits, without zeros at either end, and the power of ten of the
// last of them. ok is false for an exponent that no double could need.
func decimal(n []byte) (digits []byte, exp int, ok bool) {
	mantissa := n
	if i := bytes.IndexAny(n, "eE"); i >= 0 {
		mantissa = n[:i]
		e, err := strconv.Atoi(strings.TrimPrefix(string(n[i+1:]), "+"))
		if err != nil || e > 1<<30 || e < -(1<<30) {
			return nil, 0, false
		}
		exp = e
	}
	digits = make([]byte, 0, len(mantissa))
	for i, c := range mantissa {
		switch {
		case c == '.':
			exp -= len(mantissa) - i - 1
		case c != '-':
			digits = append(digits, c)
		}
	}
	digits = bytes.TrimLeft(digits, "0")
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exp++
	}
	return digits, exp, true
}
