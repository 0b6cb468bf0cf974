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

	// What the source's citations may point at. Absent means that there may be none.
	citationOrigins, citationPrefixes []string
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
	maxCitations int64
	grants       []policyGrant    // nil for none: then the rest alone decides
	byEffect     map[Effect]int64 // how many steps of an effect; no entry is no bound
	ordered      bool             // steps run in the plan's order alone
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
	var m [24]value
	r.members(n, m[:], "allowSelfApproval?", "allowedEffects?", "allowedTools", "grants?", "kind", "maxApprovalLifetimeMs?",
		"maxAuthorizationScopesPerSource", "maxBytes", "maxBytesPerStep?", "maxCitationsPerSource?", "maxClockSkewMs?",
		"maxFieldsPerStep", "maxOperationParameterBytes", "maxOperationParameterDepth", "maxOperationParameterNodes", "maxRows",
		"maxRowsPerStep?", "maxSteps", "maxStepsByEffect?", "quorum?", "rulesDigest?", "sources", "stepOrder?", "version")
	p := &Policy{
		selfApproval: r.boolean(m[0]),
		effects:      []string{string(EffectRead)},
		tools:        r.list(m[2], 1, maxList),
		lifetime:     defaultLifetimeMs * time.Millisecond,
		maxScopes:    r.countBetween(m[6], 1, maxScopes),
		maxBytes:     r.count(m[7]),
		stepBytes:    maxSafeInteger,
		maxCitations: maxCitations,
		maxFields:    r.countBetween(m[11], 0, maxFields),
		maxRows:      r.count(m[15]),
		stepRows:     maxSafeInteger,
		maxSteps:     r.countBetween(m[17], 1, maxSteps),
		skew:         time.Duration(r.countBetween(m[10], 0, maxSkewMs)) * time.Millisecond,
		byEffect:     readStepsByEffect(r, m[18]),
		quorum:       readQuorum(r, m[19]),
		rules:        r.digest(m[20]),
	}
	p.parameters = limits{
		bytes: int(r.countBetween(m[12], 1, MaxArgumentBytes)),
		depth: int(r.countBetween(m[13], 1, MaxArgumentDepth)),
		nodes: int(r.countBetween(m[14], 1, MaxArgumentNodes)),
	}
	p.parameters.width = p.parameters.nodes
	if r.has(m[1]) {
		p.effects = words(r, m[1], Effects())
	}
	p.grants = readGrants(r, m[3])
	if r.has(m[5]) {
		p.lifetime = time.Duration(r.countBetween(m[5], 1, maxApprovalLifetime)) * time.Millisecond
	}
	if r.has(m[8]) {
		p.stepBytes = r.count(m[8])
	}
	if r.has(m[9]) {
		p.maxCitations = r.countBetween(m[9], 1, maxCitations)
	}
	if r.has(m[16]) {
		p.stepRows = r.count(m[16])
	}
	r.literal(m[4], kindPolicy)
	p.sources = readSourcePolicies(r, m[21])
	if r.has(m[22]) {
		p.ordered = oneOf(r, m[22], "step order", orderAny, orderDeclared) == orderDeclared
	}
	r.literal(m[23], version)
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
		out[id] = readSourcePolicy(r, k)
	}
	if len(out) == 0 || len(out) > maxSources {
		r.fail(n, "a policy has 1 to "+strconv.Itoa(maxSources)+" sources")
	}
	return out
}

func readSourcePolicy(r *reader, n value) sourcePolicy {
	var m [8]value
	r.members(n, m[:], "authorizationScope", "citationOrigins?", "citationResourcePrefixes?", "dataModes?", "fields",
		"maxProvenanceAgeMs?", "schemaVersions?", "sourceVersions?")
	s := sourcePolicy{scopes: r.list(m[0], 1, maxScopes), fields: r.list(m[4], 0, maxFields)}
	if r.has(m[1]) || r.has(m[2]) {
		s.citationOrigins, s.citationPrefixes = readCitationRules(r, n, m[1], m[2])
	}
	if r.has(m[3]) {
		s.dataModes = words(r, m[3], dataModes())
	}
	if r.has(m[5]) {
		s.hasMaxAge, s.maxAge = true, time.Duration(r.countBetween(m[5], 0, maxAgeMs))*time.Millisecond
	}
	if r.has(m[6]) {
		s.schemaVersions = r.list(m[6], 1, maxList)
	}
	if r.has(m[7]) {
		s.sourceVersions = r.list(m[7], 1, maxList)
	}
	return s
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
	if msg := p.tooManyOfAnEffect(plan); msg != "" {
		return failAt(CodePolicyDenied, "/steps", msg)
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
	case !p.grantsStep(s):
		return "tool", "no one grant of the policy covers this step's tool, effect, source and limits"
	}
	return "source", p.observed(&s.Source, at)
}

// observed judges how a source was seen: what its observation cites, and when it was.
func (p *Policy) observed(s *Source, at time.Time) string {
	if msg := p.cites(s); msg != "" {
		return msg
	}
	return p.stale(s, at)
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
	if origins, prefixes := citationRules(s.Source.Citations); len(origins) > 0 {
		w.list("citationOrigins", origins)
		w.list("citationResourcePrefixes", prefixes)
	}
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
