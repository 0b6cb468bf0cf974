package governance

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// A profile is what we found out about one server. It is read from one file of profiles/.
type profile struct {
	Kind     Kind     `json:"kind"`
	Package  string   `json:"package"`
	Commands []string `json:"commands"` // the package's programs, for launches that name one
	// Paths says how paths in arguments are meant: "absolute", within the directories that the launch arguments name;
	// "relative", below the first of them; "" when the server has no paths.
	Paths    string                 `json:"paths"`
	Tools    map[string]profileTool `json:"tools"`
	Releases []release              `json:"releases"`
}

type profileTool struct {
	Effect counterfoil.Effect `json:"effect"`
	// Arguments are those that the effect was judged with, as paths of member names where "*" is any element:
	// "edits/*/oldText". A call with any other argument is destructive.
	Arguments []string `json:"arguments"`
	Reads     []string `json:"reads"`  // of Arguments, those that name a path that is read
	Writes    []string `json:"writes"` // of Arguments, those that name a path that is written, moved or deleted
}

// How paths in arguments are meant.
const (
	pathsAbsolute = "absolute"
	pathsRelative = "relative"
)

// element stands for any element of an array in the path of an argument.
const element = "*"

// A release is a version whose definitions were seen.
type release struct {
	Version     string            `json:"version"`
	Definitions map[string]string `json:"definitions"` // tool → digest
}

// loadProfiles reads the profiles that this program ships.
func loadProfiles() ([]*profile, error) {
	names, err := fs.Glob(profileFiles, "profiles/*.json")
	if err != nil {
		return nil, internal("the profiles can't be listed", err)
	}
	out := make([]*profile, 0, len(names))
	for _, name := range names {
		b, err := profileFiles.ReadFile(name)
		if err != nil {
			return nil, internal("a profile can't be read", err)
		}
		p, err := parseProfile(b)
		if err != nil {
			return nil, internal("the profile "+path.Base(name)+" is damaged", err)
		}
		out = append(out, p)
	}
	return out, nil
}

func internal(msg string, err error) error {
	return &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: msg, Err: err}
}

const errProfile = sentinel("a contradiction in the profile")

func parseProfile(b []byte) (*profile, error) {
	p := new(profile)
	if err := json.Unmarshal(b, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if p.Kind == "" || p.Package == "" || len(p.Tools) == 0 || !slices.Contains([]string{"", pathsAbsolute, pathsRelative}, p.Paths) {
		return nil, errProfile
	}
	for _, t := range p.Tools {
		if !slices.Contains(counterfoil.Effects(), t.Effect) {
			return nil, errProfile
		}
		for _, a := range slices.Concat(t.Reads, t.Writes) {
			if p.Paths == "" || !slices.Contains(t.Arguments, a) {
				return nil, errProfile
			}
		}
	}
	for _, r := range p.Releases {
		if r.Version == "" && p.Kind != KindBuiltin {
			return nil, errProfile // it would match launches that leave the version open
		}
		for tool, digest := range r.Definitions {
			if _, err := counterfoil.ParseDigest(digest); err != nil {
				return nil, err
			}
			if _, ok := p.Tools[tool]; !ok {
				return nil, errProfile
			}
		}
	}
	return p, nil
}

// runs reports whether a launch runs this profile's package by a program that the profile knows.
func (p *profile) runs(l Launch) bool {
	return p.Kind == l.Kind && p.Package == l.Package && (l.Command == "" || slices.Contains(p.Commands, l.Command))
}

// known reports whether the launch names a release of ours exactly and every listed definition is one of that release's.
func (p *profile) known(l Launch, defs []definition) bool {
	if !p.runs(l) || len(defs) == 0 {
		return false
	}
	for _, r := range p.Releases {
		if r.Version == l.Version && !slices.ContainsFunc(defs, func(d definition) bool { return r.Definitions[d.name] != d.digest.String() }) {
			return true
		}
	}
	return false
}

// reviewed reports whether some release has this very definition: its annotations were seen when its effect was judged.
func (p *profile) reviewed(d definition) bool {
	return slices.ContainsFunc(p.Releases, func(r release) bool { return r.Definitions[d.name] == d.digest.String() })
}

// resembles reports whether a server of unknown origin has this profile's tools: no others, and at least half of them.
func (p *profile) resembles(defs []definition) bool {
	for _, d := range defs {
		if _, ok := p.Tools[d.name]; !ok {
			return false
		}
	}
	return len(defs) > 1 && 2*len(defs) >= len(p.Tools)
}

// roots returns the directories that the launch arguments name, as written and with symbolic links followed. An argument
// that isn't a path names none.
func (p *profile) roots(l Launch) []reach.Path {
	var out []reach.Path
	if p.Paths == "" {
		return nil
	}
	for i, a := range l.Args {
		if dir, err := reach.ParsePath(absolute(l.Dir, a)); err == nil {
			out = append(out, dir)
		}
		if i < len(l.Real) && l.Real[i] != "" {
			if dir, err := reach.ParsePath(l.Real[i]); err == nil {
				out = append(out, dir)
			}
		}
	}
	return out
}

// unnamed returns a pointer to the first argument that the profile doesn't name, or false. Order doesn't matter: any one
// is enough.
func (t *profileTool) unnamed(args any) (at string, found bool) {
	patterns := make([][]string, 0, len(t.Arguments))
	for _, a := range t.Arguments {
		patterns = append(patterns, strings.Split(a, "/"))
	}
	return unnamed(args, patterns, nil)
}

// unnamed looks for a leaf below v that no pattern ends at. at is where v is, as many names as were taken off the
// patterns.
func unnamed(v any, patterns [][]string, at []string) (string, bool) {
	into := func(name string, v any) (string, bool) {
		var rest [][]string
		for _, p := range patterns {
			if len(p) > 0 && p[0] == name {
				rest = append(rest, p[1:])
			}
		}
		here := append(slices.Clip(at), name)
		if len(rest) == 0 {
			return pointer(here), true
		}
		return unnamed(v, rest, here)
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if name == element {
				return pointer(append(slices.Clip(at), name)), true
			}
			if p, found := into(name, e); found {
				return p, true
			}
		}
	case []any:
		for _, e := range v {
			if p, found := into(element, e); found {
				return p, true
			}
		}
	default:
		if !slices.ContainsFunc(patterns, func(p []string) bool { return len(p) == 0 }) {
			return pointer(at), true
		}
	}
	return "", false
}

// find calls yield for each value that a pattern of argument names leads to.
func find(v any, pattern, at []string, yield func(at []string, v any) error) error {
	if len(pattern) == 0 {
		return yield(at, v)
	}
	switch v := v.(type) {
	case map[string]any:
		if e, ok := v[pattern[0]]; ok {
			return find(e, pattern[1:], append(slices.Clip(at), pattern[0]), yield)
		}
	case []any:
		if pattern[0] != element {
			return nil
		}
		for i, e := range v {
			if err := find(e, pattern[1:], append(slices.Clip(at), strconv.Itoa(i)), yield); err != nil {
				return err
			}
		}
	}
	return nil
}
