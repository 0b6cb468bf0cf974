package counterfoil

import (
	"bytes"
	"slices"
	"time"
)

const (
	version      = "1.0"
	kindPlan     = "counterfoil.plan"
	maxSteps     = 128
	maxFields    = 512
	maxScopes    = 128
	maxCitations = 64
)

// An Effect is what a step does to the world. The zero Effect is none of them.
type Effect string

// The effects.
const (
	EffectRead        Effect = "read"
	EffectRender      Effect = "render"
	EffectMutation    Effect = "mutation"
	EffectPublish     Effect = "publish"
	EffectShare       Effect = "share"
	EffectRealtime    Effect = "realtime"
	EffectJob         Effect = "job"
	EffectDestructive Effect = "destructive" // a mutation that can't be undone
)

// Effects returns all effects in the order of their declaration.
func Effects() []Effect {
	return []Effect{
		EffectRead, EffectRender, EffectMutation, EffectPublish, EffectShare, EffectRealtime, EffectJob, EffectDestructive,
	}
}

// A Class groups effects by what it takes to allow them.
type Class string

// The classes.
const (
	ClassRead        Class = "read"
	ClassWrite       Class = "write"
	ClassDestructive Class = "destructive"
)

// Class returns the effect's class. An effect that is not known is destructive.
func (e Effect) Class() Class {
	switch e {
	case EffectRead, EffectRender:
		return ClassRead
	case EffectMutation, EffectPublish, EffectShare, EffectRealtime, EffectJob:
		return ClassWrite
	case EffectDestructive:
		return ClassDestructive
	default:
		return ClassDestructive
	}
}

func (r *reader) effect(n value) Effect { return oneOf(r, n, "effect", Effects()...) }

// A DataMode says what kind of data a source gives.
type DataMode string

// The data modes.
const (
	DataCached   DataMode = "cached"
	DataOffline  DataMode = "offline"
	DataReplayed DataMode = "replayed"
	DataLive     DataMode = "live"
)

func (r *reader) dataMode(n value) DataMode { return oneOf(r, n, "data mode", dataModes()...) }

func dataModes() []DataMode { return []DataMode{DataCached, DataOffline, DataReplayed, DataLive} }

// A Source is what a step acts on. Its first five fields are its identity, which must not change between planning and
// execution; the others say when, by whom and where it was seen so, and may be newer.
type Source struct {
	ID            string
	SchemaVersion string
	SourceVersion string
	Scopes        []string // sorted
	DataMode      DataMode

	ObservedAt  time.Time
	Attribution string
	Citations   []Citation // at most 64, in the order given
}

func (s *Source) sameIdentity(o *Source) bool {
	return s.ID == o.ID && s.SchemaVersion == o.SchemaVersion && s.SourceVersion == o.SourceVersion &&
		s.DataMode == o.DataMode && slices.Equal(s.Scopes, o.Scopes)
}

// A Step is one tool call of a plan.
type Step struct {
	ID               string
	Tool             string
	Effect           Effect
	Source           Source
	QueryPlanID      string
	Fingerprint      Digest // of the operation's body: tool and arguments
	ParametersDigest Digest // of the arguments alone
	InputDigest      Digest // of all that identifies the operation
	EvidenceDigest   Digest // of the tool's Evidence; zero for none
	Fields           []string
	Rows             int64
	Bytes            int64
}

// A Plan is what an untrusted proposer wants done. ParsePlan is its only maker.
type Plan struct {
	tenant, audience, id, actor string
	steps                       []Step
	canon                       []byte
	digest                      Digest
	bindings                    Digest // of the distinct sources, sorted by id
}

// ParsePlan reads a plan. Every step's inputDigest must be the digest of what the step says; one source named twice must
// be described alike. Citations are taken into their canonical form, which is what the plan's canonical bytes hold.
func ParsePlan(b []byte) (*Plan, error) {
	r, err := newReader(b, documentLimits())
	if err != nil {
		return nil, err
	}
	r.edits = &edits{}
	p, err := readPlan(r, r.root())
	if err != nil || len(*r.edits) == 0 {
		return p, err
	}
	if r, err = newSignedReader(r.edits.apply(r.b), documentLimits()); err != nil {
		return nil, err
	}
	return readPlan(r, r.root())
}

// readPlan reads the plan at value n. Its bytes are taken after reading, when its lists are sorted.
func readPlan(r *reader, n value) (*Plan, error) {
	var m [9]value
	r.members(n, m[:], "actor", "audience", "id", "kind", "model?", "provider?", "steps", "tenant", "version")
	p := &Plan{actor: r.identity(m[0]), audience: r.identity(m[1]), id: r.identity(m[2]), tenant: r.identity(m[7])}
	r.literal(m[3], kindPlan)
	r.identity(m[4])
	r.identity(m[5])
	r.literal(m[8], version)
	steps := r.elements(m[6], maxSteps)
	p.steps = make([]Step, 0, len(steps))
	sources := make([]binding, 0, len(steps))
	for _, k := range steps {
		s, source := readStep(r, k)
		if p.step(s.ID) != nil {
			r.fail(k, "another step has this id")
		}
		if r.err != nil {
			break
		}
		p.steps = append(p.steps, s)
		if !r.edited() { // else the sources are compared on the second reading, in their canonical form
			sources = r.bind(sources, binding{s.Source.ID, r.raw(source)}, source)
		}
	}
	if r.err == nil && len(p.steps) == 0 {
		r.fail(m[6], "a plan has at least one step")
	}
	if r.err != nil {
		return nil, r.err
	}
	p.canon = r.raw(n)
	p.digest = digest(domainPlan, p.canon)
	p.bindings = bindingsDigest(sources)
	return p, nil
}

// A binding is one source as the plan describes it, in canonical form.
type binding struct {
	id  string
	raw []byte
}

// bind adds a source to those found. Two descriptions of one source are refused.
func (r *reader) bind(found []binding, b binding, n value) []binding {
	for _, o := range found {
		if o.id == b.id {
			if !bytes.Equal(o.raw, b.raw) {
				r.fail(n, "the plan describes one source in two ways")
			}
			return found
		}
	}
	return append(found, b)
}

// bindingsDigest is the digest of the distinct sources, sorted by id.
func bindingsDigest(sources []binding) Digest {
	slices.SortFunc(sources, func(a, b binding) int { return compareUTF16(a.id, b.id) })
	w := &writer{b: make([]byte, 0, 1024)}
	w.open('[')
	for _, s := range sources {
		w.comma()
		w.b = append(w.b, s.raw...)
	}
	w.close(']')
	return digest(domainBindings, w.b)
}

// readStep reads a step and says where its source is.
func readStep(r *reader, n value) (s Step, source value) {
	var m [10]value
	r.members(n, m[:], "effect", "evidenceDigest?", "fields", "id", "inputDigest", "limits", "parametersDigest", "queryPlan", "source", "tool")
	s = Step{
		Effect: r.effect(m[0]), EvidenceDigest: r.digest(m[1]), Fields: r.list(m[2], 0, maxFields), ID: r.identity(m[3]),
		InputDigest: r.digest(m[4]), ParametersDigest: r.digest(m[6]), Source: readSource(r, m[8]), Tool: r.identity(m[9]),
	}
	var l [2]value
	r.members(m[5], l[:], "bytes", "rows")
	s.Bytes, s.Rows = r.count(l[0]), r.count(l[1])
	s.QueryPlanID, s.Fingerprint = readQueryPlan(r, m[7])
	if r.err == nil && s.InputDigest != inputDigest(&s) {
		r.fail(m[4], "this is not the digest of what the step says")
	}
	return s, m[8]
}

func readQueryPlan(r *reader, n value) (id string, fingerprint Digest) {
	var m [2]value
	r.members(n, m[:], "fingerprint", "id")
	return r.identity(m[1]), r.digest(m[0])
}

func readSource(r *reader, n value) Source {
	var m [5]value
	r.members(n, m[:], "authorizationScope", "id", "provenance", "schemaVersion", "sourceVersion")
	s := Source{
		Scopes: r.list(m[0], 1, maxScopes), ID: r.identity(m[1]),
		SchemaVersion: r.identity(m[3]), SourceVersion: r.identity(m[4]),
	}
	var p [4]value
	r.members(m[2], p[:], "attribution", "citations", "dataMode", "observedAt")
	s.Attribution = r.text(p[0])
	for _, k := range r.elements(p[1], maxCitations) {
		s.Citations = append(s.Citations, readCitation(r, k))
	}
	s.DataMode, s.ObservedAt = r.dataMode(p[2]), r.time(p[3])
	return s
}

// inputDigest is the digest of all that identifies an operation: what the approver approves and the executor is given.
func inputDigest(s *Step) Digest {
	w := &writer{b: make([]byte, 0, 512)}
	w.open('{')
	w.text("effect", string(s.Effect))
	w.maybeDigest("evidenceDigest", s.EvidenceDigest)
	w.list("fields", s.Fields)
	w.digest("parametersDigest", s.ParametersDigest)
	writeQueryPlan(w, s)
	w.text("sourceId", s.Source.ID)
	w.text("tool", s.Tool)
	w.close('}')
	return digest(domainInput, w.b)
}

func writeQueryPlan(w *writer, s *Step) {
	w.name("queryPlan")
	w.open('{')
	w.digest("fingerprint", s.Fingerprint)
	w.text("id", s.QueryPlanID)
	w.close('}')
}

// fingerprint is the digest of an operation's body.
func fingerprint(tool string, arguments []byte) Digest {
	w := &writer{b: make([]byte, 0, len(arguments)+len(tool)+32)}
	w.open('{')
	w.raw("arguments", arguments)
	w.text("tool", tool)
	w.close('}')
	return digest(domainArguments, w.b)
}

// ID returns the plan's id.
func (p *Plan) ID() string { return p.id }

// Tenant returns the tenant that the plan belongs to.
func (p *Plan) Tenant() string { return p.tenant }

// Audience returns the log that the plan's use is to be recorded in.
func (p *Plan) Audience() string { return p.audience }

// Actor returns the principal that proposes the plan.
func (p *Plan) Actor() string { return p.actor }

// Digest returns the plan's digest.
func (p *Plan) Digest() Digest { return p.digest }

// Canonical returns a copy of the plan's canonical bytes.
func (p *Plan) Canonical() []byte { return slices.Clone(p.canon) }

// Steps returns a copy of the steps.
func (p *Plan) Steps() []Step {
	out := slices.Clone(p.steps)
	for i := range out {
		out[i].Fields = slices.Clone(out[i].Fields)
		out[i].Source.Scopes = slices.Clone(out[i].Source.Scopes)
		out[i].Source.Citations = slices.Clone(out[i].Source.Citations)
	}
	return out
}

// before returns the id of the step that stands before the one with the id, "" for the first.
func (p *Plan) before(id string) string {
	i := slices.IndexFunc(p.steps, func(s Step) bool { return s.ID == id })
	if i < 1 {
		return ""
	}
	return p.steps[i-1].ID
}

func (p *Plan) step(id string) *Step {
	for i := range p.steps {
		if p.steps[i].ID == id {
			return &p.steps[i]
		}
	}
	return nil
}
