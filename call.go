package counterfoil

import (
	"slices"
	"strconv"
	"time"
)

// CallStep is the id of the one step of a call's plan.
const CallStep = "call"

// A Call describes one tool call, to be made into a plan of one step. Every field but Fields and Evidence is required.
type Call struct {
	PlanID   string
	Tenant   string
	Audience string
	Actor    string

	Tool      string
	Method    string // how the tool is reached, such as "tools/call": bound as the query plan's id
	Effect    Effect
	Arguments *Arguments
	Fields    []string
	Evidence  Digest // of the tool's Evidence

	Source Source
	Rows   int64
	Bytes  int64
}

// Plan returns the bytes of a plan of one step for the call. They go through ParsePlan like any other plan.
func (c *Call) Plan() []byte {
	s := c.step()
	slices.SortFunc(s.Fields, compareUTF16)
	slices.SortFunc(s.Source.Scopes, compareUTF16)
	w := &writer{b: make([]byte, 0, 1536)}
	w.open('{')
	w.text("actor", c.Actor)
	w.text("audience", c.Audience)
	w.text("id", c.PlanID)
	w.text("kind", kindPlan)
	w.name("steps")
	w.open('[')
	w.open('{')
	w.text("effect", string(s.Effect))
	w.maybeDigest("evidenceDigest", s.EvidenceDigest)
	w.list("fields", s.Fields)
	w.text("id", s.ID)
	w.digest("inputDigest", inputDigest(&s))
	w.name("limits")
	w.open('{')
	w.count("bytes", s.Bytes)
	w.count("rows", s.Rows)
	w.close('}')
	w.digest("parametersDigest", s.ParametersDigest)
	writeQueryPlan(w, &s)
	w.name("source")
	writeSource(w, &s.Source)
	w.text("tool", s.Tool)
	w.close('}')
	w.close(']')
	w.text("tenant", c.Tenant)
	w.text("version", version)
	w.close('}')
	return w.b
}

// Operation returns the bytes of the operation that the call is. They go through ParseOperation.
func (c *Call) Operation() []byte {
	s := c.step()
	slices.SortFunc(s.Fields, compareUTF16)
	w := &writer{b: make([]byte, 0, len(c.arguments().canon)+512)}
	w.open('{')
	w.text("effect", string(s.Effect))
	w.maybeDigest("evidenceDigest", s.EvidenceDigest)
	w.list("fields", s.Fields)
	w.raw("parameters", c.arguments().canon)
	writeQueryPlan(w, &s)
	w.text("sourceId", s.Source.ID)
	w.text("tool", s.Tool)
	w.close('}')
	return w.b
}

// arguments returns the call's arguments; those of a call without any are no JSON and are refused by the parsers.
func (c *Call) arguments() *Arguments {
	if c.Arguments == nil {
		return &Arguments{canon: nil, digest: Digest{}}
	}
	return c.Arguments
}

func (c *Call) step() Step {
	s := Step{
		ID: CallStep, Tool: c.Tool, Effect: c.Effect, Source: c.Source, QueryPlanID: c.Method,
		Fingerprint: fingerprint(c.Tool, c.arguments().canon), ParametersDigest: c.arguments().digest,
		Fields: slices.Clone(c.Fields), Rows: c.Rows, Bytes: c.Bytes, EvidenceDigest: c.Evidence,
	}
	s.Source.Scopes = slices.Clone(c.Source.Scopes)
	return s
}

func writeSource(w *writer, s *Source) {
	w.open('{')
	w.list("authorizationScope", s.Scopes)
	w.text("id", s.ID)
	w.name("provenance")
	w.open('{')
	w.text("attribution", s.Attribution)
	writeCitations(w, s.Citations)
	w.text("dataMode", string(s.DataMode))
	w.time("observedAt", s.ObservedAt)
	w.close('}')
	w.text("schemaVersion", s.SchemaVersion)
	w.text("sourceVersion", s.SourceVersion)
	w.close('}')
}

// An Operation is what a step executes, with its arguments. ParseOperation is its only maker.
type Operation struct {
	tool        string
	effect      Effect
	sourceID    string
	method      string
	fingerprint Digest
	evidence    Digest
	fields      []string
	parameters  []byte
	input       Digest
	canon       []byte
}

// ParseOperation reads an operation within the policy's parameter budgets. Its fingerprint must be the digest of its
// own tool and parameters: a fingerprint that belongs to another body is refused with CodeIntegrityFailed.
func ParseOperation(b []byte, p *Policy) (*Operation, error) {
	if p == nil || p.canon == nil {
		return nil, fail(CodeInvalidInput, "there is no policy")
	}
	r, err := newReader(b, operationLimits(p))
	if err != nil {
		return nil, err
	}
	return readOperation(r, r.root(), p)
}

// operationLimits has room for what an operation has beside its parameters.
func operationLimits(p *Policy) limits {
	return limits{
		bytes: p.parameters.bytes + maxDocumentBytes, nodes: p.parameters.nodes + maxFields + 16,
		depth: p.parameters.depth + 1, width: max(p.parameters.width, maxFields),
	}
}

func readOperation(r *reader, n value, p *Policy) (*Operation, error) {
	var m [7]value
	r.members(n, m[:], "effect", "evidenceDigest?", "fields", "parameters", "queryPlan", "sourceId", "tool")
	o := &Operation{
		effect: r.effect(m[0]), evidence: r.digest(m[1]), fields: r.list(m[2], 0, maxFields), sourceID: r.identity(m[5]),
		tool: r.identity(m[6]),
	}
	o.method, o.fingerprint = readQueryPlan(r, m[4])
	if r.err != nil {
		return nil, r.err
	}
	o.parameters, o.canon = r.raw(m[3]), r.raw(n)
	if r.exceeds(m[3], p.parameters) {
		return nil, failAt(CodeInvalidInput, r.pointer(m[3]), "the parameters exceed the policy's budget")
	}
	if fingerprint(o.tool, o.parameters) != o.fingerprint {
		return nil, failAt(CodeIntegrityFailed, r.pointer(m[4]), "the fingerprint belongs to another operation")
	}
	s := Step{
		Tool: o.tool, Effect: o.effect, Source: Source{ID: o.sourceID}, QueryPlanID: o.method, Fingerprint: o.fingerprint,
		ParametersDigest: digest(domainParameters, o.parameters), Fields: o.fields, EvidenceDigest: o.evidence,
	}
	o.input = inputDigest(&s)
	return o, nil
}

// Tool returns the tool's name.
func (o *Operation) Tool() string { return o.tool }

// Effect returns the declared effect.
func (o *Operation) Effect() Effect { return o.effect }

// Method returns how the tool is reached.
func (o *Operation) Method() string { return o.method }

// Parameters returns a copy of the canonical bytes of the arguments: what the tool is to be given.
func (o *Operation) Parameters() []byte { return slices.Clone(o.parameters) }

// InputDigest returns the digest that plans, approvals and receipts bind the operation by.
func (o *Operation) InputDigest() Digest { return o.input }

// Canonical returns a copy of the canonical bytes.
func (o *Operation) Canonical() []byte { return slices.Clone(o.canon) }

// A Context says what the sources are now, at the time of execution.
type Context struct{ sources map[string]Source }

// NewContext makes a context of the sources as they are seen now.
func NewContext(sources ...Source) (*Context, error) {
	sorted := slices.Clone(sources)
	slices.SortFunc(sorted, func(a, b Source) int { return compareUTF16(a.ID, b.ID) })
	w := &writer{}
	w.open('{')
	w.name("sources")
	w.open('{')
	for _, s := range sorted {
		s.Scopes = slices.Clone(s.Scopes)
		slices.SortFunc(s.Scopes, compareUTF16)
		w.name(s.ID)
		writeSource(w, &s)
	}
	w.close('}')
	w.close('}')
	return ParseContext(w.b)
}

// ParseContext reads a context: {"sources": {id: source}}, each source in the form that a plan's steps have it in.
func ParseContext(b []byte) (*Context, error) {
	r, err := newReader(b, documentLimits())
	if err != nil {
		return nil, err
	}
	r.edits = &edits{} // nothing is digested here: citations are compared in their canonical form alone
	var m [1]value
	r.members(r.root(), m[:], "sources")
	c := &Context{sources: map[string]Source{}}
	if r.is(m[0], '{', "an object") {
		for name, n := range r.entries(m[0]) {
			s := readSource(r, n)
			if string(unquote(nil, name)) != s.ID {
				r.fail(n, "the source has another id than its name here")
			}
			c.sources[s.ID] = s
		}
	}
	if len(c.sources) > maxSources {
		r.fail(m[0], "a context has at most "+strconv.Itoa(maxSources)+" sources")
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// match checks that the context holds exactly the plan's sources, the same by identity, seen no later than now allows.
func (c *Context) match(p *Plan, pol *Policy, now time.Time) error {
	if c == nil {
		return fail(CodeInvalidInput, "there is no context")
	}
	seen := map[string]bool{}
	for i := range p.steps {
		planned := &p.steps[i].Source
		current, ok := c.sources[planned.ID]
		if !ok || !planned.sameIdentity(&current) {
			return failAt(CodeContextMismatch, stepPath(i, "source"), "the source is no longer the one that was planned for")
		}
		if msg := pol.observed(&current, now); msg != "" {
			return failAt(CodePolicyDenied, stepPath(i, "source"), msg)
		}
		seen[planned.ID] = true
	}
	if len(seen) != len(c.sources) {
		return fail(CodeContextMismatch, "the context names a source that the plan does not")
	}
	return nil
}
