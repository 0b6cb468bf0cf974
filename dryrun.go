package counterfoil

import (
	"bytes"
	"slices"
	"time"
)

const kindDryRun = "counterfoil.dry-run"

// A DryRun is a plan that the policy allows, with all that an approval will bind. It is the document that a person is
// shown and whose digest they sign.
type DryRun struct {
	plan      *Plan
	policy    *Policy
	evaluated time.Time
	canon     []byte
	digest    Digest
}

// DryRun checks the plan against a policy at now and records what the plan would do. It runs nothing.
func (p *Plan) DryRun(policy *Policy, now time.Time) (*DryRun, error) {
	if p == nil || p.canon == nil || policy == nil || policy.canon == nil {
		return nil, fail(CodeInvalidInput, "a dry run needs a plan and a policy")
	}
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	if err := policy.evaluate(p, at); err != nil {
		return nil, err
	}
	d := &DryRun{plan: p, policy: policy, evaluated: at}
	d.canon = d.encode()
	d.digest = digest(domainDryRun, d.canon)
	return d, nil
}

// made reports whether Plan.DryRun or ParseDryRun made d.
func (d *DryRun) made() bool { return d != nil && d.canon != nil }

func (d *DryRun) encode() []byte {
	w := &writer{b: make([]byte, 0, len(d.plan.canon)+640)}
	w.open('{')
	w.digest("bindingsDigest", d.plan.bindings)
	w.name("effectBudget")
	d.encodeBudget(w)
	w.time("evaluatedAt", d.evaluated)
	w.text("kind", kindDryRun)
	w.raw("plan", d.plan.canon)
	w.digest("planDigest", d.plan.digest)
	w.digest("policyDigest", d.policy.digest)
	w.text("version", version)
	w.close('}')
	return w.b
}

func (d *DryRun) encodeBudget(w *writer) {
	var rows, size int64
	for i := range d.plan.steps {
		rows, size = rows+d.plan.steps[i].Rows, size+d.plan.steps[i].Bytes
	}
	w.open('{')
	w.name("byEffect")
	w.open('{')
	for _, e := range []Effect{
		EffectDestructive, EffectJob, EffectMutation, EffectPublish, EffectRead, EffectRealtime, EffectRender, EffectShare, // all of them
	} {
		var n int64
		for i := range d.plan.steps {
			if d.plan.steps[i].Effect == e {
				n++
			}
		}
		w.count(string(e), n)
	}
	w.close('}')
	w.count("bytes", size)
	w.count("rows", rows)
	w.count("steps", int64(len(d.plan.steps)))
	w.close('}')
}

// ParseDryRun reads a recorded dry run and rebuilds it from its own plan under the policy. A record that differs in one
// byte from what is rebuilt is refused with CodeIntegrityFailed: nothing in it is believed.
func ParseDryRun(b []byte, policy *Policy) (*DryRun, error) {
	r, err := newReader(b, dryRunLimits())
	if err != nil {
		return nil, err
	}
	return readDryRun(r, r.root(), policy)
}

func dryRunLimits() limits {
	lim := documentLimits()
	lim.bytes += 64 << 10 // a dry run holds a whole plan and a little more
	lim.nodes += 32
	lim.depth++
	return lim
}

func readDryRun(r *reader, n value, policy *Policy) (*DryRun, error) {
	var m [8]value
	r.members(n, m[:], "bindingsDigest", "effectBudget", "evaluatedAt", "kind", "plan", "planDigest", "policyDigest", "version")
	at := r.time(m[2])
	r.bound(m[4], documentLimits())
	r.literal(m[3], kindDryRun)
	r.literal(m[7], version)
	if r.err != nil {
		return nil, r.err
	}
	plan, err := readPlan(r, m[4])
	if err != nil {
		return nil, err
	}
	d, err := plan.DryRun(policy, at)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(d.canon, r.raw(n)) {
		return nil, fail(CodeIntegrityFailed, "the dry run is not what its plan and policy give")
	}
	return d, nil
}

// Plan returns the plan.
func (d *DryRun) Plan() *Plan { return d.plan }

// Policy returns the policy.
func (d *DryRun) Policy() *Policy { return d.policy }

// EvaluatedAt returns the instant of the evaluation.
func (d *DryRun) EvaluatedAt() time.Time { return d.evaluated }

// Digest returns the digest of the record: what a person's approval names as its authority.
func (d *DryRun) Digest() Digest { return d.digest }

// Canonical returns a copy of the record's canonical bytes.
func (d *DryRun) Canonical() []byte { return slices.Clone(d.canon) }
