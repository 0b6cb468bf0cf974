package governance

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxProblems bounds the list of what is wrong with one call's arguments.
const maxProblems = 20

// A Problem is one thing that is wrong with a call's arguments.
type Problem struct {
	Pointer string // JSON pointer into the arguments, "" for the whole, bounded and safe to print
	Msg     string // one lower-case phrase of ours; never repeats a value
}

// problems keeps the first maxProblems of all that are added, in the order of their pointers.
type problems struct{ list []Problem }

func (p *problems) add(at []string, msg string) {
	x := Problem{Pointer: pointer(at), Msg: msg}
	i, found := slices.BinarySearchFunc(p.list, x, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Msg, b.Msg))
	})
	if found || i == maxProblems {
		return
	}
	p.list = slices.Insert(p.list, i, x)
	p.list = p.list[:min(len(p.list), maxProblems)]
}

// check validates decoded arguments.
func (s *schema) check(v any, st stats) (found []Problem) {
	if _, ok := v.(map[string]any); !ok {
		return []Problem{{Msg: "the arguments must be an object"}}
	}
	if !s.cost.affordable(st) {
		return []Problem{{Msg: "the arguments are too large to be checked against the tool's schema"}}
	}
	defer func() {
		// As when compiling: a fault of the validator refuses the call.
		if recover() != nil {
			found = []Problem{{Msg: "the arguments can't be checked against the tool's schema"}}
		}
	}()
	err := s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var p problems
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		p.collect(e)
	}
	if len(p.list) == 0 {
		p.add(nil, "doesn't match the tool's schema")
	}
	return p.list
}

// collect goes down to the errors that a caller can act on. Of alternatives none of which fits only that is said: what
// each of them wants would contradict the others.
func (p *problems) collect(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		for _, c := range e.Causes {
			p.collect(c)
		}
	case *kind.Required:
		p.missing(at, k.Missing)
	case *kind.Dependency:
		p.missing(at, k.Missing)
	case *kind.DependentRequired:
		p.missing(at, k.Missing)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			p.add(append(slices.Clone(at), name), "is not a known argument")
		}
	default:
		p.add(at, message(e.ErrorKind))
	}
}

func (p *problems) missing(at, names []string) {
	for _, name := range names {
		p.add(append(slices.Clone(at), name), "is missing")
	}
}

// message says what is wrong in words of ours: the validator's own repeat values.
func message(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ") + ", not " + k.Got
	case *kind.Enum, *kind.Const:
		return "is not one of the allowed values"
	case *kind.AnyOf:
		return "matches none of the allowed forms"
	case *kind.OneOf:
		return "must match exactly one of the allowed forms"
	case *kind.MinLength:
		return "must have at least " + strconv.Itoa(k.Want) + " characters"
	case *kind.MaxLength:
		return "must have at most " + strconv.Itoa(k.Want) + " characters"
	case *kind.MinItems:
		return "must have at least " + strconv.Itoa(k.Want) + " elements"
	case *kind.MaxItems:
		return "must have at most " + strconv.Itoa(k.Want) + " elements"
	case *kind.MinProperties:
		return "must have at least " + strconv.Itoa(k.Want) + " members"
	case *kind.MaxProperties:
		return "must have at most " + strconv.Itoa(k.Want) + " members"
	case *kind.Minimum, *kind.ExclusiveMinimum:
		return "is too small"
	case *kind.Maximum, *kind.ExclusiveMaximum:
		return "is too large"
	case *kind.MultipleOf:
		return "is not a multiple of what the schema asks"
	case *kind.Pattern:
		return "doesn't match the pattern that the schema asks"
	case *kind.Format:
		return "doesn't have the format that the schema asks"
	case *kind.UniqueItems:
		return "has the same element twice"
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return "doesn't have the elements that the schema asks"
	case *kind.AdditionalItems:
		return "has too many elements"
	case *kind.PropertyNames:
		return "has a member whose name is not allowed"
	case *kind.FalseSchema, *kind.Not:
		return "is not allowed here"
	}
	return "doesn't match the tool's schema"
}

// maxPointer bounds a pointer in bytes: member names come from the caller.
const maxPointer = 256

// pointer writes an RFC 6901 pointer that is safe to print: bounded, one line, nothing invisible.
func pointer(at []string) string {
	var b strings.Builder
	for _, name := range at {
		b.WriteByte('/')
		for _, r := range name {
			switch {
			case b.Len() >= maxPointer:
				return b.String() + "…"
			case r == '~':
				b.WriteString("~0")
			case r == '/':
				b.WriteString("~1")
			case !unicode.IsPrint(r):
				b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + "}")
			default:
				b.WriteRune(r)
			}
		}
		if b.Len() >= maxPointer {
			return b.String() + "…"
		}
	}
	return b.String()
}
