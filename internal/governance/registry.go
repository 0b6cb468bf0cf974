package governance

import (
	"slices"
	"strconv"

	"github.com/counterfoil/counterfoil"
)

// Why a tool can't be called. They are wrapped by the errors of [Registry.Lookup].
const (
	ErrUnknown     = sentinel("the upstream lists no such tool")
	ErrQuarantined = sentinel("the tool's definition isn't the pinned one")
	ErrUnusable    = sentinel("the tool can't be used")
)

// A Classification is a person's decision about one definition of one tool of one upstream. It never follows the name
// to another upstream or another definition.
type Classification struct {
	UpstreamID string // digest of the upstream's identity
	Tool       string
	Definition counterfoil.Digest
	Effect     counterfoil.Effect
}

// A Source is all that a registry is made of.
type Source struct {
	UpstreamID  string   // digest of the upstream's identity
	Launch      Launch   // what its launch command runs
	Definitions [][]byte // its tools, as it lists them
	// Pins are the digests that tools had when they were first seen. A tool without a pin is new.
	Pins            map[string]counterfoil.Digest
	Classifications []Classification
}

// A Registry holds the tools of one upstream as they were listed at one time. It doesn't change and may be shared.
type Registry struct {
	tools   map[string]*Tool
	order   []*Tool
	dropped []string
	profile *profile
	launch  Launch
	defs    map[string]definition
}

// NewRegistry reads an upstream's tools. A tool that can't be used, for its name, its schema or its likeness to another,
// is there with the reason; NewRegistry itself fails only when the list as a whole is beyond the bounds.
func NewRegistry(s Source) (*Registry, error) {
	var total int
	for _, raw := range s.Definitions {
		total += len(raw)
	}
	if len(s.Definitions) > maxTools || total > maxDefinitionsBytes {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the upstream lists more tools than can be governed"}
	}
	profiles, err := loadProfiles()
	if err != nil {
		return nil, err
	}
	r := &Registry{tools: map[string]*Tool{}, launch: s.Launch, defs: map[string]definition{}}
	var defs []definition
	var names []string
	reasons := map[string]string{}
	for i, raw := range s.Definitions {
		d, why := parseDefinition(raw)
		if d.name == "" {
			r.dropped = append(r.dropped, "definition "+strconv.Itoa(i+1)+": "+why)
			continue
		}
		names = append(names, d.name)
		if _, twice := r.defs[d.name]; !twice {
			defs = append(defs, d)
			r.defs[d.name] = d
		}
		if why != "" {
			reasons[d.name] = why
		}
	}
	for name, why := range collisions(names) {
		reasons[name] = why
	}
	// A server that lists anything it shouldn't isn't the release that we know.
	clean := len(r.dropped) == 0 && len(reasons) == 0
	r.profile = match(profiles, s.Launch, defs)
	known := clean && r.profile != nil && r.profile.known(s.Launch, defs)
	left := &budget{values: maxSchemasValues, patterns: maxPatternsSize}
	for _, d := range defs {
		t := r.tool(d, reasons[d.name], left)
		r.classify(t, d, known, s)
		r.tools[d.name] = t
		r.order = append(r.order, t)
	}
	return r, nil
}

// match returns the profile that the launch names, or else one that the tools resemble.
func match(profiles []*profile, l Launch, defs []definition) *profile {
	if i := slices.IndexFunc(profiles, func(p *profile) bool { return p.runs(l) }); i >= 0 {
		return profiles[i]
	}
	if i := slices.IndexFunc(profiles, func(p *profile) bool { return p.resembles(defs) }); i >= 0 {
		return profiles[i]
	}
	return nil
}

// tool makes a tool, unusable if there is a reason.
func (r *Registry) tool(d definition, why string, left *budget) *Tool {
	t := &Tool{Name: d.name, Definition: d.canon, Digest: d.digest, Status: StatusActive}
	if why == "" {
		t.schema, why = compileSchema(d.schema, d.values, left)
	}
	if why != "" {
		t.Status, t.Why = StatusUnusable, why
	}
	if r.profile != nil {
		if spec, ok := r.profile.Tools[d.name]; ok {
			t.spec, t.base, t.extract = &spec, r.profile.Paths, r.profile.runs(r.launch)
			t.roots = r.profile.roots(r.launch)
		}
	}
	return t
}

// classify sets the tool's effect and compares it with its pin. A person's decision comes first, then that of a
// profile; without either the tool is destructive.
func (r *Registry) classify(t *Tool, d definition, known bool, s Source) {
	t.Class = counterfoil.EffectDestructive
	pin, pinned := s.Pins[d.name]
	switch {
	case t.Status != StatusActive:
		return
	case pinned && !pin.Equal(d.digest):
		t.Status, t.Why = StatusQuarantined, "its definition has changed since it was first seen"
		return
	}
	i := slices.IndexFunc(s.Classifications, func(c Classification) bool {
		return s.UpstreamID != "" && c.UpstreamID == s.UpstreamID && c.Tool == d.name && c.Definition.Equal(d.digest)
	})
	switch {
	case i >= 0:
		t.Class, t.Classified, t.Why = s.Classifications[i].Effect, true, "classified by a person"
	case known:
		t.Class, t.Classified, t.Why = t.spec.Effect, true, "profile of "+r.profile.Package+" "+r.launch.Version
	default:
		t.Why = "nobody has classified it yet"
		return
	}
	h := d.hints
	if r.profile != nil && r.profile.reviewed(d) {
		h = hints{} // the profile's effect for this very definition was chosen in view of its annotations
	}
	if e, why := h.raise(t.Class); why != "" {
		t.Class, t.Why = e, why
	}
}

// Lookup returns an active tool. Every other name is an error that wraps ErrUnknown, ErrQuarantined or ErrUnusable.
func (r *Registry) Lookup(name string) (*Tool, error) {
	t, ok := r.tools[name]
	if !ok {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: string(ErrUnknown), Err: ErrUnknown}
	}
	switch t.Status {
	case StatusActive:
		return t, nil
	case StatusQuarantined:
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the tool is quarantined: " + t.Why, Err: ErrQuarantined}
	case StatusUnusable:
	}
	return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the tool can't be used: " + t.Why, Err: ErrUnusable}
}

// Tools returns every tool that has a name, in the order in which the upstream lists them, whatever their status. The
// digests of those without a pin are what the caller pins.
func (r *Registry) Tools() []*Tool { return slices.Clone(r.order) }

// Dropped returns, in words, the definitions that have no usable name.
func (r *Registry) Dropped() []string { return slices.Clone(r.dropped) }

// A Suggestion is what a profile would say about tools that nobody has classified, for a person's one decision.
type Suggestion struct {
	Package  string // the profile's package
	Launched bool   // the launch command names that package; else only the tools' names are like its
	Tools    []SuggestedTool
}

// A SuggestedTool is one line of a suggestion.
type SuggestedTool struct {
	Tool       string
	Definition counterfoil.Digest
	Effect     counterfoil.Effect // destructive for a tool that the profile doesn't know
	Reviewed   bool               // the definition is that of a release that was reviewed
	Why        string             // one phrase, where the effect isn't simply the profile's
}

// Suggest returns a suggestion for the active tools that aren't classified, if there is a profile to make it from.
func (r *Registry) Suggest() (Suggestion, bool) {
	if r.profile == nil {
		return Suggestion{}, false
	}
	s := Suggestion{Package: r.profile.Package, Launched: r.profile.runs(r.launch)}
	for _, t := range r.order {
		if t.Status != StatusActive || t.Classified {
			continue
		}
		d := r.defs[t.Name]
		line := SuggestedTool{
			Tool: t.Name, Definition: t.Digest, Effect: counterfoil.EffectDestructive,
			Reviewed: r.profile.reviewed(d), Why: "the profile doesn't know this tool",
		}
		if t.spec != nil {
			line.Effect, line.Why = t.spec.Effect, ""
			if !line.Reviewed {
				line.Effect, line.Why = d.hints.raise(line.Effect)
			}
		}
		s.Tools = append(s.Tools, line)
	}
	return s, len(s.Tools) > 0
}
