package governance

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on the schemas of one server. They keep the time and memory of compiling within what one page of honest
// schemas needs many times over.
const (
	maxSchemaValues  = 4096      // JSON values in one definition
	maxSchemasValues = 128 << 10 // in all definitions
	maxPatternBytes  = 1024      // of one regular expression
	maxPatternSize   = 10_000    // estimated instructions of one regular expression
	maxPatternsSize  = 500_000   // of all of them, with their character tables
)

// schemaURL names the schema to the compiler. Its scheme can't be loaded, so relative references lead nowhere.
const schemaURL = "counterfoil:///input"

// sentinel is an error that is compared, not read.
type sentinel string

func (s sentinel) Error() string { return string(s) }

const (
	errRemote  = sentinel("a document outside the schema")
	errPattern = sentinel("a pattern beyond the bounds")
)

// budget is what is left of the bounds while the definitions of one server are compiled.
type budget struct{ values, patterns int }

// A schema is a compiled argument schema with what it may cost to apply.
type schema struct {
	compiled  *jsonschema.Schema
	cost      *cost
	unchecked bool // it has a pattern that can't be expressed here or is beyond the bounds
}

// compileSchema compiles an inputSchema, dialect 2020-12 when it names none. Nothing is ever fetched.
// why is not "" when the schema can't be used.
func compileSchema(doc any, values int, b *budget) (s *schema, why string) {
	if b.values -= values; values > maxSchemaValues || b.values < 0 {
		return nil, "its definition has too many parts"
	}
	defer func() {
		// The compiler is not ours and this text is hostile: a fault there costs the server its tool, not everyone the gate.
		if recover() != nil {
			s, why = nil, "its input schema can't be compiled"
		}
	}()
	e := &engine{budget: b}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(e.compile)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, "its input schema can't be compiled"
	}
	compiled, err := c.Compile(schemaURL)
	if _, elsewhere := errors.AsType[*jsonschema.LoadURLError](err); elsewhere {
		return nil, "its input schema refers to a document elsewhere"
	}
	if err != nil {
		return nil, "its input schema can't be compiled"
	}
	e.sealed = true
	k, why := newCost(compiled)
	if why != "" {
		return nil, why
	}
	return &schema{compiled: compiled, cost: k, unchecked: e.unchecked}, ""
}

// noLoader refuses every document.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// An engine compiles the regular expressions of one schema. Once sealed it is used by calls in parallel (the format
// "regex" compiles arguments) and changes nothing any more.
type engine struct {
	budget    *budget
	sealed    bool
	unchecked bool
}

// pattern is a compiled regular expression and its size. Without an expression it matches everything: its schema is
// marked as unchecked, and a person sees each call.
type pattern struct {
	re     *regexp.Regexp
	source string
	size   int
}

func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }
func (p *pattern) String() string            { return p.source }

func (e *engine) compile(source string) (jsonschema.Regexp, error) {
	if len(source) > maxPatternBytes {
		return e.skip(source, errPattern)
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil && isForeign(err) {
		return e.skip(source, err)
	}
	if err != nil {
		return nil, err
	}
	size, tables := patternSize(tree)
	if size > maxPatternSize {
		return e.skip(source, errPattern)
	}
	if !e.sealed {
		if e.budget.patterns -= size + tables; e.budget.patterns < 0 {
			return e.skip(source, errPattern)
		}
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &pattern{re: re, source: source, size: size}, nil
}

// skip leaves a pattern of the schema unchecked; one in an argument is refused.
func (e *engine) skip(source string, err error) (jsonschema.Regexp, error) {
	if e.sealed {
		return nil, err
	}
	e.unchecked = true
	return &pattern{source: source}, nil
}

// isForeign reports whether a pattern may be right where JSON Schema comes from, in ECMAScript: lookaround, back
// references, escapes and property names of its own, more than a thousand repetitions.
func isForeign(err error) bool {
	e, ok := errors.AsType[*syntax.Error](err)
	return ok && slices.Contains([]syntax.ErrorCode{
		syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidNamedCapture, syntax.ErrInvalidCharRange, syntax.ErrInvalidRepeatSize,
		syntax.ErrLarge, syntax.ErrNestingDepth,
	}, e.Code)
}

// patternSize estimates, from above and without compiling, the instructions of an expression, and counts the entries of
// its character tables, which repetitions share.
func patternSize(re *syntax.Regexp) (size, tables int) {
	size = 2
	switch re.Op { //nolint:exhaustive // the others have nothing but parts
	case syntax.OpLiteral:
		size += len(re.Rune)
	case syntax.OpCharClass:
		tables = len(re.Rune)
	}
	for _, sub := range re.Sub {
		s, t := patternSize(sub)
		size, tables = size+s, tables+t
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size, tables
}
