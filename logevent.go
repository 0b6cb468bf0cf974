package counterfoil

import "time"

// A LoggedEvent is a sealed event as it is read from a log.
type LoggedEvent struct {
	Sequence     int64 // from 1
	At           time.Time
	Phase        Phase
	PseudonymKey string // the id of the key under which the names are pseudonyms

	// EventParams is what the event says, with pseudonyms for the names (Actor, Tool, Source, Step, Plan).
	EventParams
}

// ParseEvent reads a sealed event. Only its canonical form is accepted. Whether a log has it is another question
// (Inclusion.Verify).
func ParseEvent(sealed []byte) (*LoggedEvent, error) {
	r, err := newSignedReader(sealed, limits{bytes: maxEventBytes, nodes: maxEventMembers + 1, depth: 1, width: maxEventMembers})
	if err != nil {
		return nil, err
	}
	var m [maxEventMembers]value
	r.members(r.root(), m[:], "actor?", "approvalDigest?", "audience", "bindingsDigest?", "bytes?", "code?", "decisionDigest?", "effect?",
		"executionId", "inputDigest?", "kind", "late?", "observedBytes?", "observedRows?", "outcome?", "phase", "plan?", "planDigest?",
		"policyDigest?", "pseudonymKey", "receiptDigest?", "recovered?", "resultDigest?", "rows?", "sequence", "source?", "step?", "tenant",
		"time", "tool?", "uncounted?", "useDigest?", "version")
	r.literal(m[10], kindEvent)
	r.literal(m[32], version)
	e := &LoggedEvent{Phase: oneOf(r, m[15], "phase", phases()...)}
	e.Actor, e.ApprovalDigest, e.Audience, e.BindingsDigest = r.pseudonym(m[0]), r.digest(m[1]), r.identity(m[2]), r.digest(m[3])
	e.Code, e.DecisionDigest, e.ExecutionID, e.InputDigest = r.code(m[5]), r.digest(m[6]), r.identity(m[8]), r.digest(m[9])
	if r.has(m[7]) {
		e.Effect = oneOf(r, m[7], "effect", Effects()...)
	}
	e.Late, e.Recovered, e.Uncounted = r.onlyTrue(m[11]), r.onlyTrue(m[21]), r.onlyTrue(m[30])
	if r.has(m[14]) {
		e.Outcome = oneOf(r, m[14], "outcome", outcomes()...)
	}
	e.Plan, e.PlanDigest, e.PolicyDigest, e.PseudonymKey = r.pseudonym(m[16]), r.digest(m[17]), r.digest(m[18]), r.identity(m[19])
	e.ReceiptDigest, e.ResultDigest, e.UseDigest = r.digest(m[20]), r.digest(m[22]), r.digest(m[31])
	e.Sequence, e.Source, e.Step, e.Tenant = r.countBetween(m[24], 1, maxSafeInteger), r.pseudonym(m[25]), r.pseudonym(m[26]), r.identity(m[27])
	e.At, e.Tool = r.time(m[28]), r.pseudonym(m[29])
	completed := e.Phase == PhaseCompleted || e.Phase == PhaseLate
	for i, n := range []*int64{&e.Bytes, &e.ObservedBytes, &e.ObservedRows, &e.Rows} {
		v := m[[...]int{4, 12, 13, 23}[i]]
		if r.err == nil && r.has(v) != completed {
			r.fail(r.root(), "an event has counts if it records an outcome, and only then")
		}
		*n = r.count(v)
	}
	if r.err != nil {
		return nil, r.err
	}
	return e, nil
}

// Bounds of a sealed event: three names, a code, and words of fixed length.
const (
	maxEventBytes   = 16_384
	maxEventMembers = 33
)

// pseudonym reads what Pseudonyms.Of writes.
func (r *reader) pseudonym(n value) string {
	s := r.content(n)
	var d Digest
	if r.has(n) && !d.parseHex(s, pseudonymPrefix) {
		r.fail(n, `a pseudonym is "hmac-sha256:" and 64 lower-case hex digits`)
	}
	return string(s)
}

// code reads a stable code.
func (r *reader) code(n value) string {
	s := string(r.content(n))
	if r.has(n) && (s == "" || !isCode(s)) {
		r.fail(n, badCode)
	}
	return s
}
