package governance

import (
	"errors"
	"strings"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

// A Status says whether a tool can be called.
type Status string

// The statuses.
const (
	StatusActive      Status = "active"
	StatusQuarantined Status = "quarantined" // its definition isn't the pinned one
	StatusUnusable    Status = "unusable"    // its name or definition can't be used
)

// A Tool is one tool of an upstream as the gate sees it. It is shared: its fields must not be changed.
type Tool struct {
	Name       string
	Definition []byte             // canonical
	Digest     counterfoil.Digest // of Definition; what is pinned
	Status     Status
	Class      counterfoil.Effect // the tool's effect; a call can only be worse: see Effect
	Classified bool               // a person or a profile said so, for this very definition
	Why        string             // one phrase: where Class comes from, or why the tool can't be called

	schema  *schema
	spec    *profileTool // what a profile knows of its arguments
	extract bool         // the launch runs the profile's package, so its paths mean what the profile says
	base    string       // how paths are meant
	roots   []reach.Path
}

// A Touch is a path that a call would read or write.
type Touch struct {
	Path    reach.Path
	Write   bool
	Pointer string // where in the arguments it is named
}

// Check validates a call's arguments, canonical JSON, against the tool's schema; nil bytes stand for no arguments. It
// returns at most 20 problems in the order of their pointers, none if the arguments match.
func (t *Tool) Check(args []byte) []Problem {
	v, measured, err := arguments(args)
	if err != nil {
		return []Problem{{Msg: "the arguments aren't strict JSON"}}
	}
	if t.schema == nil {
		return []Problem{{Msg: "the tool has no schema to check arguments against"}}
	}
	return t.schema.check(v, measured)
}

// Effect returns the effect of one call: the tool's own, or destructive when the arguments hold something that the
// effect wasn't judged with. why says which.
func (t *Tool) Effect(args []byte) (effect counterfoil.Effect, why string) {
	switch {
	case t.Class.Class() == counterfoil.ClassDestructive:
		return counterfoil.EffectDestructive, t.Why
	case t.schema == nil || t.schema.unchecked:
		return counterfoil.EffectDestructive, "its schema has a pattern that can't be checked here"
	case t.spec == nil:
		return t.Class, t.Why
	}
	v, _, err := arguments(args)
	if err != nil {
		return counterfoil.EffectDestructive, "the arguments aren't strict JSON"
	}
	if at, found := t.spec.unnamed(v); found {
		return counterfoil.EffectDestructive, "the profile doesn't know the argument " + at
	}
	return t.Class, t.Why
}

// Reach returns the paths that a call would touch, as far as a profile knows. An error means that the call must not
// run: a path can't be read (invalid-input) or leads outside what the server was launched for (policy-denied).
func (t *Tool) Reach(args []byte) ([]Touch, error) {
	if t.spec == nil || !t.extract {
		return nil, nil
	}
	v, _, err := arguments(args)
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the arguments aren't strict JSON", Err: err}
	}
	var out []Touch
	extract := func(names []string, write bool) error {
		for _, name := range names {
			err := find(v, strings.Split(name, "/"), nil, func(at []string, v any) error {
				p, err := t.path(v)
				if err != nil {
					err.Path = pointer(at)
					return err
				}
				out = append(out, Touch{Path: p, Write: write, Pointer: pointer(at)})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := extract(t.spec.Reads, false); err != nil {
		return nil, err
	}
	if err := extract(t.spec.Writes, true); err != nil {
		return nil, err
	}
	return out, nil
}

// path reads one argument as a path within the roots.
func (t *Tool) path(v any) (reach.Path, *counterfoil.Error) {
	s, ok := v.(string)
	if !ok {
		return reach.Path{}, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "a path must be text"}
	}
	if len(t.roots) == 0 {
		return reach.Path{}, &counterfoil.Error{
			Code: counterfoil.CodePolicyDenied, Msg: "the server's launch command names no directory that paths may lie in",
		}
	}
	read := reach.ParsePath
	if t.base == pathsRelative {
		read = t.roots[0].Join
	}
	p, err := read(s)
	if e, ok := errors.AsType[*counterfoil.Error](err); ok {
		return reach.Path{}, &counterfoil.Error{Code: e.Code, Msg: e.Msg}
	}
	if err != nil {
		return reach.Path{}, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the path can't be read", Err: err}
	}
	if !reach.Below(t.roots...).Covers(p) {
		return reach.Path{}, &counterfoil.Error{
			Code: counterfoil.CodePolicyDenied, Msg: "the path lies outside the directories that the server was launched for",
		}
	}
	return p, nil
}

// arguments decodes canonical arguments; no bytes are no arguments.
func arguments(args []byte) (any, stats, error) {
	if len(args) == 0 {
		return map[string]any{}, stats{values: 1}, nil
	}
	return decode(args)
}
