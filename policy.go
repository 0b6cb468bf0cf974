package counterfoil

import (
	"slices"
	"strconv"
	"time"
)

const (
	kindPolicy = "counterfoil.policy"
	maxList    = 1024
	maxSources = 128

	maxSkewMs           = 300_000
	defaultLifetimeMs   = 24 * 60 * 60 * 1000
	maxApprovalLifetime = 7 * 24 * 60 * 60 * 1000 // the longest lifetime that a policy may grant, in ms
)

// A sourcePolicy bounds what may be done with one source. An absent list is nil and means any.
type sourcePolicy struct {
	fields         []string
	scopes         []string
	schemaVersions []string
	sourceVersions []string
	dataModes      []string
	maxAge         time.Duration // 0 with hasMaxAge false: no bound
	hasMaxAge      bool
}

// A Policy bounds what plans may ask for. ParsePolicy is its only maker. Empty means none: an empty policy allows nothing.
type Policy struct {
	tools        []string
	effects      []string
	sources      map[string]sourcePolicy
	maxSteps     int64
	maxRows      int64 // over all steps
	maxBytes     int64
	stepRows     int64 // per step; maxSafeInteger when absent
	stepBytes    int64
	maxFields    int64
	maxScopes    int64
	lifetime     time.Duration
	skew         time.Duration
	selfApproval bool
	quorum       quorum
	parameters   limits
	rules        Digest
	canon        []byte
	digest       Digest
}

// ParsePolicy reads a policy. Absent allowedEffects means read alone.
func ParsePolicy(b []byte) (*Policy, error) {
	r, err := newReader(b, documentLimits())
	if err != nil {
		return nil, err
	}
	return readPolicy(r, r.root())
}

func readPolicy(r *reader, n value) (*Policy, error) {
	var m [20]value
	r.members(n, m[:], "allowSelfApproval?", "allowedEffects?", "allowedTools", "kind", "maxApprovalLifetimeMs?",
		"maxAuthorizationScopesPerSource", "maxBytes", "maxBytesPerStep?", "maxClockSkewMs?", "maxFieldsPerStep",
		"maxOperationParameterBytes", "maxOperationParameterDepth", "maxOperationParameterNodes", "maxRows",
		"maxRowsPerStep?", "maxSteps", "quorum?", "rulesDigest?", "sources", "version")
	p := &Policy{
		selfApproval: r.boolean(m[0]),
		effects:      []string{string(EffectRead)},
		tools:        r.list(m[2], 1, maxList),
		lifetime:     defaultLifetimeMs * time.Millisecond,
		maxScopes:    r.countBetween(m[5], 1, maxScopes),
		maxBytes:     r.count(m[6]),
		stepBytes:    maxSafeInteger,
		maxFields:    r.countBetween(m[9], 0, maxFields),
		maxRows:      r.count(m[13]),
		stepRows:     maxSafeInteger,
		maxSteps:     r.countBetween(m[15], 1, maxSteps),
		skew:         time.Duration(r.countBetween(m[8], 0, maxSkewMs)) * time.Millisecond,
		rules:        r.digest(m[17]),
	}
	p.parameters = limits{
		bytes: int(r.countBetween(m[10], 1, MaxArgumentBytes)),
		depth: int(r.countBetween(m[11], 1, MaxArgumentDepth)),
		nodes: int(r.countBetween(m[12], 1, MaxArgumentNodes)),
	}
	p.parameters.width = p.parameters.nodes
	if r.has(m[1]) {
		p.effects = words(r, m[1], Effects())
	}
	if r.has(m[4]) {
		p.lifetime = time.Duration(r.countBetween(m[4], 1, maxApprovalLifetime)) * time.Millisecond
	}
	if r.has(m[7]) {
		p.stepBytes = r.count(m[7])
	}
	if r.has(m[14]) {
		p.stepRows = r.count(m[14])
	}
	r.literal(m[3], kindPolicy)
	p.quorum = readQuorum(r, m[16])
	p.sources = readSourcePolicies(r, m[18])
	r.literal(m[19], version)
	if r.err != nil {
		return nil, r.err
	}
	p.canon = r.raw(n)
	p.digest = digest(domainPolicy, p.canon)
	return p, nil
}

func readSourcePolicies(r *reader, n value) map[string]sourcePolicy {
	if !r.is(n, '{', "an object") {
		return nil
	}
	out := map[string]sourcePolicy{}
	for name, k := range r.entries(n) {
		id := string(unquote(nil, name))
		if msg := faultInIdentity(id); msg != "" {
			r.fail(k, msg)
		}
		if r.err != nil {
			return nil
		}
		var m [6]value
		r.members(k, m[:], "authorizationScope", "dataModes?", "fields", "maxProvenanceAgeMs?", "schemaVersions?", "sourceVersions?")
		s := sourcePolicy{scopes: r.list(m[0], 1, maxScopes), fields: r.list(m[2], 0, maxFields)}
		if r.has(m[1]) {
			s.dataModes = words(r, m[1], dataModes())
		}
		if r.has(m[3]) {
			s.hasMaxAge, s.maxAge = true, time.Duration(r.countBetween(m[3], 0, maxAgeMs))*time.Millisecond
		}
		if r.has(m[4]) {
			s.schemaVersions = r.list(m[4], 1, maxList)
		}
		if r.has(m[5]) {
			s.sourceVersions = r.list(m[5], 1, maxList)
		}
		out[id] = s
	}
	if len(out) == 0 || len(out) > maxSources {
		r.fail(n, "a policy has 1 to "+strconv.Itoa(maxSources)+" sources")
	}
	return out
}

// words reads a list of words of a closed set.
func words[T ~string](r *reader, n value, known []T) []string {
	out := r.list(n, 1, len(known))
	for _, s := range out {
		if !slices.Contains(known, T(s)) {
			r.fail(n, "this array has a word that is not known")
		}
	}
	return out
}

// maxAgeMs bounds maxProvenanceAgeMs so that it fits a duration: a hundred years.
const maxAgeMs = 100 * 366 * 24 * 60 * 60 * 1000

// Digest returns the policy's digest.
func (p *Policy) Digest() Digest { return p.digest }

// Canonical returns a copy of the policy's canonical bytes.
func (p *Policy) Canonical() []byte { return slices.Clone(p.canon) }

// evaluate checks a plan against the policy at one instant. The first step that fails, in the plan's order, decides.
func (p *Policy) evaluate(plan *Plan, at time.Time) error {
	if int64(len(plan.steps)) > p.maxSteps {
		return failAt(CodePolicyDenied, "/steps", "the plan has more steps than the policy allows")
	}
	var rows, bytes int64
	for i := range plan.steps {
		s := &plan.steps[i]
		if member, msg := p.judge(s, at); msg != "" {
			return failAt(CodePolicyDenied, stepPath(i, member), msg)
		}
		rows, bytes = rows+s.Rows, bytes+s.Bytes
	}
	if rows > p.maxRows {
		return failAt(CodePolicyDenied, "/steps", "the plan asks for more rows than the policy allows")
	}
	if bytes > p.maxBytes {
		return failAt(CodePolicyDenied, "/steps", "the plan asks for more bytes than the policy allows")
	}
	return nil
}

func stepPath(i int, member string) string { return "/steps/" + strconv.Itoa(i) + "/" + member }

// judge returns the first fault of one step: the member at fault and a sentence, or "".
func (p *Policy) judge(s *Step, at time.Time) (member, msg string) {
	src, known := p.sources[s.Source.ID]
	switch {
	case !slices.Contains(p.tools, s.Tool):
		return "tool", "the policy does not allow this tool"
	case !slices.Contains(p.effects, string(s.Effect)):
		return "effect", "the policy does not allow this effect"
	case !known:
		return "source", "the policy does not allow this source"
	case int64(len(s.Fields)) > p.maxFields:
		return "fields", "the step names more fields than the policy allows"
	case int64(len(s.Source.Scopes)) > p.maxScopes:
		return "source", "the step uses more scopes than the policy allows"
	case !covers(src.fields, s.Fields):
		return "fields", "the policy does not allow one of these fields"
	case !covers(src.scopes, s.Source.Scopes):
		return "source", "the policy does not allow one of these scopes"
	case src.schemaVersions != nil && !slices.Contains(src.schemaVersions, s.Source.SchemaVersion):
		return "source", "the policy does not allow this schema version"
	case src.sourceVersions != nil && !slices.Contains(src.sourceVersions, s.Source.SourceVersion):
		return "source", "the policy does not allow this source version"
	case src.dataModes != nil && !slices.Contains(src.dataModes, string(s.Source.DataMode)):
		return "source", "the policy does not allow this data mode"
	case s.Rows > p.stepRows:
		return "limits", "the step asks for more rows than the policy allows"
	case s.Bytes > p.stepBytes:
		return "limits", "the step asks for more bytes than the policy allows"
	}
	return "source", p.stale(&s.Source, at)
}

// stale judges when a source was seen. An observation from the future is refused everywhere, beyond the skew.
func (p *Policy) stale(s *Source, at time.Time) string {
	age := at.Sub(s.ObservedAt)
	if age < -p.skew {
		return "the source's observation lies in the future"
	}
	if src := p.sources[s.ID]; src.hasMaxAge && age > src.maxAge {
		return "the source's observation is too old"
	}
	return ""
}

// freshUntil returns the last instant at which every observation, planned and current, is young enough; zero for none.
func (p *Policy) freshUntil(plan *Plan, current *Context) time.Time {
	var until time.Time
	for i := range plan.steps {
		planned := plan.steps[i].Source
		src := p.sources[planned.ID]
		if !src.hasMaxAge {
			continue
		}
		for _, s := range []Source{planned, current.sources[planned.ID]} {
			if end := s.ObservedAt.Add(src.maxAge); until.IsZero() || end.Before(until) {
				until = end
			}
		}
	}
	return until
}

func covers(allowed, asked []string) bool {
	for _, a := range asked {
		if !slices.Contains(allowed, a) {
			return false
		}
	}
	return true
}

// Policy projects a host's rules onto the call: it returns the bytes of a policy that allows the call and nothing else,
// under approvals of at most the given lifetime. They go through ParsePolicy like any other.
func (c *Call) Policy(rules Digest, lifetime time.Duration) []byte {
	s := c.step()
	slices.SortFunc(s.Fields, compareUTF16)
	slices.SortFunc(s.Source.Scopes, compareUTF16)
	w := &writer{b: make([]byte, 0, 1024)}
	w.open('{')
	w.list("allowedEffects", []string{string(s.Effect)})
	w.list("allowedTools", []string{s.Tool})
	w.text("kind", kindPolicy)
	w.count("maxApprovalLifetimeMs", lifetime.Milliseconds())
	w.count("maxAuthorizationScopesPerSource", int64(len(s.Source.Scopes)))
	w.count("maxBytes", s.Bytes)
	w.count("maxFieldsPerStep", int64(len(s.Fields)))
	w.count("maxOperationParameterBytes", MaxArgumentBytes)
	w.count("maxOperationParameterDepth", MaxArgumentDepth)
	w.count("maxOperationParameterNodes", MaxArgumentNodes)
	w.count("maxRows", s.Rows)
	w.count("maxSteps", 1)
	w.maybeDigest("rulesDigest", rules)
	w.name("sources")
	w.open('{')
	w.name(s.Source.ID)
	w.open('{')
	w.list("authorizationScope", s.Source.Scopes)
	w.list("dataModes", []string{string(s.Source.DataMode)})
	w.list("fields", s.Fields)
	w.list("schemaVersions", []string{s.Source.SchemaVersion})
	w.list("sourceVersions", []string{s.Source.SourceVersion})
	w.close('}')
	w.close('}')
	w.text("version", version)
	w.close('}')
	return w.b
}
