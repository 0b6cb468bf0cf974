package counterfoil

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"
)

// A LogProof shows that a receipt is in its tenant's log: both of its events, under one checkpoint, and with them the
// revocations that came later and would put the receipt in doubt if they had come before.
type LogProof struct {
	Checkpoint         *Checkpoint
	Started, Completed Inclusion
	Revocations        []RevocationProof // in the order of the log
}

// A RevocationProof shows the place of a revocation in the log.
type RevocationProof struct {
	Decision *Decision
	Inclusion
}

// MaxLoggedRevocations is how many revocations a log proof may have.
const MaxLoggedRevocations = 64

const maxProofPath = 64

// complete reports whether the proof has all that it must have, each made by its parser. The events are read when they are
// verified.
func (p *LogProof) complete() bool {
	lacks := func(r RevocationProof) bool { return r.Decision == nil || r.Decision.env == nil }
	return p.Checkpoint != nil && p.Checkpoint.note != nil && !slices.ContainsFunc(p.Revocations, lacks)
}

func (p *LogProof) encode(w *writer) {
	w.name("log")
	w.open('{')
	w.text("checkpoint", string(p.Checkpoint.note))
	w.name("completed")
	w.open('{')
	p.Completed.encode(w)
	if len(p.Revocations) > 0 {
		w.name("revocations")
		w.open('[')
		for i := range p.Revocations {
			w.open('{')
			w.raw("decision", p.Revocations[i].Decision.env.canon)
			p.Revocations[i].encode(w)
		}
		w.close(']')
	}
	w.name("started")
	w.open('{')
	p.Started.encode(w)
	w.close('}')
}

func (i *Inclusion) encode(w *writer) {
	w.raw("event", i.Event)
	w.count("index", i.Index)
	path := make([]string, 0, len(i.Path))
	for _, h := range i.Path {
		path = append(path, base64.StdEncoding.EncodeToString(h[:]))
	}
	w.list("path", path)
	w.close('}')
}

func readLogProof(r *reader, n value) (*LogProof, error) {
	var m [4]value
	r.members(n, m[:], "checkpoint", "completed", "revocations?", "started")
	text := r.content(m[0])
	var in [6]value
	r.members(m[1], in[:3], "event", "index", "path")
	r.members(m[3], in[3:], "event", "index", "path")
	p := &LogProof{Completed: readInclusion(r, in[:3]), Started: readInclusion(r, in[3:])}
	entries := r.elements(m[2], MaxLoggedRevocations)
	if r.has(m[2]) && len(entries) == 0 {
		r.fail(m[2], "this array is empty")
	}
	for _, e := range entries {
		var m [4]value
		r.members(e, m[:], "decision", "event", "index", "path")
		proof := RevocationProof{Inclusion: readInclusion(r, m[1:])}
		if last := len(p.Revocations) - 1; r.err == nil && last >= 0 && p.Revocations[last].Index >= proof.Index {
			r.fail(e, "the revocations are not in the order of the log")
		}
		if r.err != nil {
			break
		}
		d, err := readIn(r, m[0], typeDecision, readDecision)
		if err != nil {
			return nil, err
		}
		proof.Decision = d
		p.Revocations = append(p.Revocations, proof)
	}
	if r.err != nil {
		return nil, r.err
	}
	var err error
	if p.Checkpoint, err = ParseCheckpoint(text); err != nil {
		return nil, err
	}
	return p, nil
}

// readInclusion reads the members event, index and path.
func readInclusion(r *reader, m []value) Inclusion {
	i := Inclusion{Index: r.count(m[1])}
	for _, e := range r.elements(m[2], maxProofPath) {
		h := r.base64(e, base64.StdEncoding.Strict())
		if r.has(e) && len(h) != sha256.Size {
			r.fail(e, "a hash has 32 bytes")
			break
		}
		if r.err == nil {
			i.Path = append(i.Path, [sha256.Size]byte(h))
		}
	}
	if r.has(m[0]) {
		i.Event = r.raw(m[0])
		if _, err := ParseEvent(i.Event); err != nil {
			r.err = err
		}
	}
	return i
}

// A history is what a log proof shows. A nil history shows nothing.
type history struct {
	started   int64             // the place of the use
	revoked   []RevocationProof // proven
	witnesses []Cosignature
}

// verify checks the proof against the rest of the bundle, in the order of docs/spec.md, section 9.
func (p *LogProof) verify(b *Bundle, ring *KeyRing, now time.Time) (*history, error) {
	a, c, r := b.Approval, b.Consumption, b.Receipt
	started, err := p.Started.within(p.Checkpoint, stepEvent(PhaseStarted, new(Pseudonyms), b.DryRun, a, c.step, c.id).WithUse(c.digest))
	if err != nil {
		return nil, err
	}
	completed, err := p.Completed.within(p.Checkpoint, r.completedEvent(new(Pseudonyms), b.DryRun, a))
	if err != nil {
		return nil, err
	}
	if p.Completed.Index <= p.Started.Index || started.At.Before(c.at) || completed.At.Before(started.At) {
		return nil, fail(CodeIntegrityFailed, "the log has the events in another order")
	}
	signers, err := p.Checkpoint.Signers(ring, r.audience, r.tenant)
	if err != nil {
		return nil, err
	}
	h := &history{started: p.Started.Index}
	if h.witnesses, err = p.Checkpoint.Cosignatures(ring, r.tenant); err != nil {
		return nil, err
	}
	for _, w := range h.witnesses {
		if w.At.After(now.Add(b.DryRun.policy.skew)) {
			return nil, fail(CodeClock, "a witness's cosignature lies in the future")
		}
	}
	if err := h.anyMayAct(signers, r.tenant, completed.At, now); err != nil {
		return nil, err
	}
	// From the last to the first: who revoked may have been revoked after.
	for _, x := range slices.Backward(p.Revocations) {
		if err := h.prove(x, p.Checkpoint, ring, r); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// within checks that the checkpoint's tree has the event, at the place that it says, and that it says what is wanted. Whose
// names its pseudonyms are can't be seen.
func (i *Inclusion) within(c *Checkpoint, want Event) (*LoggedEvent, error) {
	e, err := ParseEvent(i.Event)
	if err != nil {
		return nil, err
	}
	nameless := func(p EventParams) EventParams {
		p.Actor, p.Tool, p.Source, p.Step, p.Plan = "", "", "", "", ""
		return p
	}
	if e.Phase != want.phase || nameless(e.EventParams) != nameless(want.p) || e.Sequence != i.Index+1 {
		return nil, fail(CodeIntegrityFailed, "the logged event is about something else")
	}
	return e, i.Verify(c)
}

// anyMayAct checks that one of the keys that signed the checkpoint may act at some instant from the event on until now.
func (h *history) anyMayAct(keys []PublicKey, tenant string, from, now time.Time) error {
	var err error
	for _, k := range keys {
		t := k.from(from)
		if t.After(now) {
			err = fail(CodeSignatureInvalid, "the key that signed the checkpoint has not begun")
		} else if err = h.mayAct(&k, tenant, t); err == nil {
			return nil
		}
	}
	return err
}

// prove adds a revocation to the history.
func (h *history) prove(x RevocationProof, c *Checkpoint, ring *KeyRing, r *Receipt) error {
	e, err := ParseEvent(x.Event)
	if err != nil {
		return err
	}
	d := x.Decision
	if e.Phase != PhaseRevoked || e.DecisionDigest != d.Digest() || e.Sequence != x.Index+1 || d.verb != VerbRevoke ||
		e.Tenant != r.tenant || e.Audience != r.audience || d.tenant != r.tenant || d.audience != r.audience {
		return fail(CodeIntegrityFailed, "the logged event is not of this revocation")
	}
	if err := x.Verify(c); err != nil {
		return err
	}
	key, err := d.signer(ring)
	if err != nil {
		return err
	}
	if err := h.mayActAt(key, d.tenant, d.at, x.Index); err != nil {
		return err
	}
	h.revoked = append(h.revoked, x)
	return nil
}

// allows checks that nothing that a use rests on was revoked before it.
func (h *history) allows(dry *DryRun, a *Approval, keys []PublicKey) error {
	if h == nil || len(h.revoked) == 0 {
		return nil
	}
	rests := guards(dry, a, keys)
	for _, x := range h.revoked {
		if x.Index < h.started && slices.Contains(rests, x.Decision.subject) {
			return fail(CodeRevoked, "the log shows that what the use rests on was revoked before it")
		}
	}
	return nil
}

// mayAct is PublicKey.MayAct for what the use rests on, or what the log itself is made of.
func (h *history) mayAct(k *PublicKey, tenant string, t time.Time) error {
	if h == nil {
		return k.MayAct(tenant, t)
	}
	return h.mayActAt(k, tenant, t, h.started)
}

// mayActAt passes over the revocation of a compromised key if the history shows that what it signed was in the log before:
// of approvers and policy by the order of the leaves, which the log's own keys vouch for; of these keys by a witness's word
// from before the revocation. Against a witness nothing helps.
func (h *history) mayActAt(k *PublicKey, tenant string, t time.Time, leaf int64) error {
	v := k.Revoked
	if v == nil || v.Why != RevokedCompromised {
		return k.MayAct(tenant, t)
	}
	shown := false
	switch k.Role {
	case RoleApprover, RolePolicy:
		shown = slices.ContainsFunc(h.revoked, func(x RevocationProof) bool {
			return x.Index > leaf && x.Decision.subject == KeySubject(k.ID) && x.Decision.why == v.Why && x.Decision.at.Equal(v.At)
		})
	case RoleLedger, RoleReceipt, RoleCheckpoint:
		shown = slices.ContainsFunc(h.witnesses, func(w Cosignature) bool { return w.At.Before(v.At) })
	case RoleWitness, RoleToken:
	}
	if !shown {
		return k.MayAct(tenant, t)
	}
	c := k.clone()
	c.Revoked = nil
	return c.MayAct(tenant, t)
}
