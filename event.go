package counterfoil

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const kindEvent = "counterfoil.event"

// A Phase says what an event records.
type Phase string

// The phases.
const (
	PhaseRefused    Phase = "refused"      // a gate said no
	PhaseRequested  Phase = "requested"    // a person was asked
	PhaseApproved   Phase = "approved"     // a person said yes
	PhaseDenied     Phase = "denied"       // a person said no
	PhaseLapsed     Phase = "lapsed"       // a request ended without a decision: expired, cancelled or void
	PhaseClassified Phase = "classified"   // a person said what a server's tools do
	PhaseStarted    Phase = "started"      // the use is spent
	PhaseCompleted  Phase = "completed"    // the receipt is issued
	PhaseLate       Phase = "late-outcome" // an outcome that came after recovery had issued the receipt
	PhaseRevoked    Phase = "revoked"      // a person revoked an approval, a policy, a grant, a key or an actor
	PhaseGoverned   Phase = "governed"     // an administrator changed what the tenant's decisions rest on: the code says what
)

func phases() []Phase {
	return []Phase{
		PhaseRefused, PhaseRequested, PhaseApproved, PhaseDenied, PhaseLapsed, PhaseClassified, PhaseStarted, PhaseCompleted, PhaseLate,
		PhaseRevoked, PhaseGoverned,
	}
}

// Pseudonyms replaces names in the audit log by keyed digests: equal names are equal there, and nobody without the key
// can guess them (INV-9). One key per tenant.
type Pseudonyms struct {
	id  string
	key []byte
}

func (p *Pseudonyms) made() bool { return p != nil && len(p.key) > 0 }

// Format says "redacted" for every verb: the key must not reach a log.
func (p Pseudonyms) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue says "redacted".
func (p Pseudonyms) LogValue() slog.Value { return slog.StringValue(redacted) }

// NewPseudonyms makes pseudonyms under a key of at least 32 random bytes, which events name by id.
func NewPseudonyms(id string, key []byte) (*Pseudonyms, error) {
	if err := CheckIdentity(id); err != nil {
		return nil, err
	}
	if len(key) < sha256.Size {
		return nil, fail(CodeInvalidInput, "a pseudonym key has at least 32 bytes")
	}
	return &Pseudonyms{id: id, key: slices.Clone(key)}, nil
}

const pseudonymPrefix = "hmac-sha256:"

// Of returns the pseudonym of a name in a role ("actor", "tool", …), "" for no name.
func (p *Pseudonyms) Of(role, name string) string {
	if name == "" {
		return ""
	}
	h := hmac.New(sha256.New, p.key)
	h.Write([]byte("counterfoil/v1/pseudonym\n" + role + "\n" + name))
	return string(hex.AppendEncode(append(make([]byte, 0, len(pseudonymPrefix)+2*sha256.Size), pseudonymPrefix...), h.Sum(nil)))
}

// EventParams is what an event says. Names go in as they are and come out as pseudonyms. Absent members are left out.
type EventParams struct {
	Tenant      string
	Audience    string
	ExecutionID string // of an execution or of a request
	Actor       string
	Tool        string
	Source      string
	Step        string
	Plan        string
	Effect      Effect
	Code        string // why, for a refusal: a stable code, never free text
	Outcome     Outcome

	PlanDigest     Digest
	PolicyDigest   Digest
	BindingsDigest Digest
	ApprovalDigest Digest
	InputDigest    Digest
	UseDigest      Digest
	ReceiptDigest  Digest
	ResultDigest   Digest
	DecisionDigest Digest // of the decision that the event records: a denial, a classification, a revocation

	Rows, Bytes                 int64 // accepted
	ObservedRows, ObservedBytes int64
	Late, Recovered, Uncounted  bool
}

// An Event is one record of the audit log, complete but for its place in the log, which the ledger gives it.
type Event struct {
	phase Phase
	key   string      // the id of the pseudonyms' key; "" in the zero Event
	p     EventParams // with pseudonyms for the names, so that sealing it in a ledger's transaction costs little
}

// newEvent puts pseudonyms in the names' places.
func newEvent(phase Phase, names *Pseudonyms, p EventParams) Event {
	p.Actor, p.Tool, p.Source = names.Of("actor", p.Actor), names.Of("tool", p.Tool), names.Of("source", p.Source)
	p.Step, p.Plan = names.Of("step", p.Step), names.Of("plan", p.Plan)
	return Event{phase: phase, key: names.id, p: p}
}

// NewEvent makes an event. It admits names only where pseudonyms stand for them, and closed sets of words elsewhere.
func NewEvent(phase Phase, names *Pseudonyms, p EventParams) (Event, error) {
	if !names.made() {
		return Event{}, fail(CodeInvalidInput, "an event needs pseudonyms")
	}
	for _, s := range []string{p.Tenant, p.Audience, p.ExecutionID} {
		if err := CheckIdentity(s); err != nil {
			return Event{}, err
		}
	}
	switch {
	case !slices.Contains(phases(), phase):
		return Event{}, fail(CodeInvalidInput, "the event's phase is not known")
	case p.Effect != "" && !slices.Contains(Effects(), p.Effect):
		return Event{}, fail(CodeInvalidInput, "the event's effect is not known")
	case p.Outcome != "" && !slices.Contains(outcomes(), p.Outcome):
		return Event{}, fail(CodeInvalidInput, "the event's outcome is not known")
	case !isCode(p.Code):
		return Event{}, fail(CodeInvalidInput, badCode)
	case min(p.Rows, p.Bytes, p.ObservedRows, p.ObservedBytes) < 0 || max(p.Rows, p.Bytes, p.ObservedRows, p.ObservedBytes) > maxSafeInteger:
		return Event{}, fail(CodeInvalidInput, "the event's counts are not counts")
	}
	return newEvent(phase, names, p), nil
}

const badCode = "an event's code is at most 128 of the characters a-z, 0-9, -, _ and /"

// isCode keeps free text out of the log.
func isCode(s string) bool {
	return len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_/") == ""
}

// Phase returns what the event records.
func (e Event) Phase() Phase { return e.phase }

// Tenant returns the tenant whose log the event belongs to.
func (e Event) Tenant() string { return e.p.Tenant }

// Audience returns the log that the event belongs to.
func (e Event) Audience() string { return e.p.Audience }

// ExecutionID returns the execution or request that the event is about.
func (e Event) ExecutionID() string { return e.p.ExecutionID }

// WithUse returns the event with its use digest set.
func (e Event) WithUse(d Digest) Event {
	e.p.UseDigest = d
	return e
}

// Late returns a completed event as the record of an outcome that came after recovery had issued the receipt. Of any other
// event it returns the zero Event.
func (e Event) Late() Event {
	if e.phase != PhaseCompleted {
		return Event{}
	}
	e.phase = PhaseLate
	return e
}

// Seal returns the event's canonical bytes at its place in the tenant's log: the sequence counts from 1 without gaps, and
// at never decreases. The zero Event has none.
func (e Event) Seal(sequence int64, at time.Time) []byte {
	if e.key == "" {
		return nil
	}
	w := &writer{b: make([]byte, 0, 1536)}
	w.open('{')
	w.maybe("actor", e.p.Actor)
	w.maybeDigest("approvalDigest", e.p.ApprovalDigest)
	w.text("audience", e.p.Audience)
	w.maybeDigest("bindingsDigest", e.p.BindingsDigest)
	completed := e.phase == PhaseCompleted || e.phase == PhaseLate
	if completed {
		w.count("bytes", e.p.Bytes)
	}
	w.maybe("code", e.p.Code)
	w.maybeDigest("decisionDigest", e.p.DecisionDigest)
	w.maybe("effect", string(e.p.Effect))
	w.text("executionId", e.p.ExecutionID)
	w.maybeDigest("inputDigest", e.p.InputDigest)
	w.text("kind", kindEvent)
	w.truth("late", e.p.Late)
	if completed {
		w.count("observedBytes", e.p.ObservedBytes)
		w.count("observedRows", e.p.ObservedRows)
	}
	w.maybe("outcome", string(e.p.Outcome))
	w.text("phase", string(e.phase))
	w.maybe("plan", e.p.Plan)
	w.maybeDigest("planDigest", e.p.PlanDigest)
	w.maybeDigest("policyDigest", e.p.PolicyDigest)
	w.text("pseudonymKey", e.key)
	w.maybeDigest("receiptDigest", e.p.ReceiptDigest)
	w.truth("recovered", e.p.Recovered)
	w.maybeDigest("resultDigest", e.p.ResultDigest)
	if completed {
		w.count("rows", e.p.Rows)
	}
	w.count("sequence", sequence)
	w.maybe("source", e.p.Source)
	w.maybe("step", e.p.Step)
	w.text("tenant", e.p.Tenant)
	w.time("time", at)
	w.maybe("tool", e.p.Tool)
	w.truth("uncounted", e.p.Uncounted)
	w.maybeDigest("useDigest", e.p.UseDigest)
	w.text("version", version)
	w.close('}')
	return w.b
}

// EventDigest returns the digest of a sealed event's canonical bytes.
func EventDigest(sealed []byte) Digest { return digest(domainEvent, sealed) }

// stepEvent makes the events of an execution. Everything in it comes from parsed documents.
func stepEvent(phase Phase, names *Pseudonyms, dry *DryRun, a *Approval, stepID, executionID string) Event {
	step := dry.plan.step(stepID)
	return newEvent(phase, names, EventParams{
		Tenant: a.tenant, Audience: a.audience, ExecutionID: executionID, Actor: dry.plan.actor, Tool: step.Tool,
		Source: step.Source.ID, Step: step.ID, Plan: dry.plan.id, Effect: step.Effect,
		PlanDigest: dry.plan.digest, PolicyDigest: dry.policy.digest, BindingsDigest: dry.plan.bindings,
		ApprovalDigest: a.digest, InputDigest: step.InputDigest,
	})
}
