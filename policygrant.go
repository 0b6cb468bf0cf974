package counterfoil

import "slices"

// A policyGrant is one combination of tools, effects and sources that a policy admits. Lists alone would admit their cross
// product: each tool with each effect on each source.
type policyGrant struct {
	tools, effects, sources []string
	rows, bytes             int64 // of one step
}

// maxGrants bounds a policy's grants.
const maxGrants = 256

// The orders in which the steps of a plan may run.
const (
	orderAny      = "any"
	orderDeclared = "declared" // each step only after the one before it has succeeded
)

func readGrants(r *reader, n value) []policyGrant {
	if !r.has(n) {
		return nil
	}
	var out []policyGrant
	for _, k := range r.elements(n, maxGrants) {
		var m [5]value
		r.members(k, m[:], "effects", "maxBytes", "maxRows", "sources", "tools")
		out = append(out, policyGrant{
			effects: words(r, m[0], Effects()), bytes: r.count(m[1]), rows: r.count(m[2]),
			sources: r.list(m[3], 1, maxSources), tools: r.list(m[4], 1, maxList),
		})
	}
	if len(out) == 0 {
		r.fail(n, "this array is empty")
	}
	return out
}

// grantsStep reports whether the step falls wholly into one of the policy's grants. A policy without grants leaves that to
// its lists.
func (p *Policy) grantsStep(s *Step) bool {
	return p.grants == nil || slices.ContainsFunc(p.grants, func(g policyGrant) bool {
		return slices.Contains(g.tools, s.Tool) && slices.Contains(g.effects, string(s.Effect)) &&
			slices.Contains(g.sources, s.Source.ID) && s.Rows <= g.rows && s.Bytes <= g.bytes
	})
}

// readStepsByEffect reads {effect: how many steps}. An effect that is not named has no bound of its own.
func readStepsByEffect(r *reader, n value) map[Effect]int64 {
	if !r.is(n, '{', "an object") {
		return nil
	}
	out := map[Effect]int64{}
	for name, k := range r.entries(n) {
		e := Effect(unquote(nil, name))
		if !slices.Contains(Effects(), e) {
			r.fail(k, "this effect is not known")
		}
		out[e] = r.countBetween(k, 0, maxSteps)
	}
	if len(out) == 0 {
		r.fail(n, "this object is empty")
	}
	return out
}

// tooManyOfAnEffect returns a sentence if the plan has more steps of one effect than the policy allows.
func (p *Policy) tooManyOfAnEffect(plan *Plan) string {
	if p.byEffect == nil {
		return ""
	}
	count := map[Effect]int64{}
	for i := range plan.steps {
		e := plan.steps[i].Effect
		count[e]++
		if most, bounded := p.byEffect[e]; bounded && count[e] > most {
			return "the plan has more steps of one effect than the policy allows"
		}
	}
	return ""
}
