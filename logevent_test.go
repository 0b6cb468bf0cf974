package counterfoil_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// fullEvent says everything that an event can say.
func fullEvent() counterfoil.EventParams {
	d := func(n string) counterfoil.Digest { return counterfoil.ResultDigest([]byte(n)) }
	return counterfoil.EventParams{
		Tenant: "acme", Audience: auditor, ExecutionID: "execution-1", Actor: "actor", Tool: "tool", Source: "source", Step: "step", Plan: "plan",
		Effect: counterfoil.EffectRead, Code: "policy/denied", Outcome: counterfoil.OutcomeIndeterminate, PlanDigest: d("1"), PolicyDigest: d("2"),
		BindingsDigest: d("3"), ApprovalDigest: d("4"), InputDigest: d("5"), UseDigest: d("6"), ReceiptDigest: d("7"), ResultDigest: d("8"), DecisionDigest: d("9"),
		Rows: 1, Bytes: 2, ObservedRows: 3, ObservedBytes: 4, Late: true, Recovered: true, Uncounted: true,
	}
}

func sealedEvent(t testing.TB, phase counterfoil.Phase, p counterfoil.EventParams) []byte {
	t.Helper()
	e, err := counterfoil.NewEvent(phase, counterfoiltest.Pseudonyms(t), p)
	noError(t, err)
	return e.Seal(7, now())
}

// What is sealed is read back, in every phase, from the fullest to the emptiest.
func TestParseEvent(t *testing.T) {
	t.Parallel()
	empty := counterfoil.EventParams{Tenant: "acme", Audience: auditor, ExecutionID: "execution-1"}
	for _, phase := range counterfoil.Phases() {
		for _, p := range []counterfoil.EventParams{fullEvent(), empty} {
			got, err := counterfoil.ParseEvent(sealedEvent(t, phase, p))
			noError(t, err)
			want := &counterfoil.LoggedEvent{Sequence: 7, At: now(), Phase: phase, PseudonymKey: "test", EventParams: p}
			if p.Actor != "" {
				want.Actor, want.Tool, want.Source = pseudonym("actor", "actor"), pseudonym("tool", "tool"), pseudonym("source", "source")
				want.Step, want.Plan = pseudonym("step", "step"), pseudonym("plan", "plan")
			}
			if phase != counterfoil.PhaseCompleted && phase != counterfoil.PhaseLate {
				want.Rows, want.Bytes, want.ObservedRows, want.ObservedBytes = 0, 0, 0, 0
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", phase, d)
			}
		}
	}
}

func eventDoc(t testing.TB) doc {
	return asDoc(decode(sealedEvent(t, counterfoil.PhaseCompleted, fullEvent())))
}

// optionalInEvents are the members that an event may lack.
func optionalInEvents(t testing.TB) []string {
	needed := []string{"audience", "bytes", "executionId", "kind", "observedBytes", "observedRows", "phase", "pseudonymKey", "rows", "sequence", "tenant", "time", "version"}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(eventDoc(t))) {
		if !slices.Contains(needed, name) {
			out = append(out, "/"+name)
		}
	}
	return out
}

func TestParseEvent_rejects(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(doc){
		"sequence zero":             func(d doc) { d["sequence"] = 0 },
		"a phase that is none":      func(d doc) { d["phase"] = "done" },
		"an effect that is none":    func(d doc) { d["effect"] = "harm" },
		"an outcome that is none":   func(d doc) { d["outcome"] = "fine" },
		"free text for a code":      func(d doc) { d["code"] = "no, never" },
		"an empty code":             func(d doc) { d["code"] = "" },
		"a code without end":        func(d doc) { d["code"] = strings.Repeat("a", 129) },
		"a name in the clear":       func(d doc) { d["actor"] = "agent:planner" },
		"an empty pseudonym":        func(d doc) { d["tool"] = "" },
		"a pseudonym in capitals":   func(d doc) { d["tool"] = strings.ToUpper(asString(d["tool"])) },
		"counts of a start":         func(d doc) { d["phase"] = "started" },
		"an outcome without counts": func(d doc) { delete(d, "rows") },
		"late that is false":        func(d doc) { d["late"] = false },
		"another version":           func(d doc) { d["version"] = "1.1" },
	} {
		d := eventDoc(t)
		change(d)
		if err := drop(counterfoil.ParseEvent)(canonical(d)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, b := range []string{" ", "\n"} {
		if err := drop(counterfoil.ParseEvent)(append(sealedEvent(t, counterfoil.PhaseStarted, fullEvent()), b...)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%q at the end: %v", b, err)
		}
	}
}

// A log of millions of events is read whole.
func BenchmarkParseEvent(b *testing.B) {
	l := newLab(b)
	_, _, err := l.execute()
	noError(b, err)
	sealed := l.ledger.Events()[1]
	b.SetBytes(int64(len(sealed)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := counterfoil.ParseEvent(sealed); err != nil {
			b.Fatal(err)
		}
	}
}

// Who is revoked can't be guessed from the log: the digest there covers the signature too.
func TestDecision_Digest(t *testing.T) {
	t.Parallel()
	d, err := counterfoil.Decide(t.Context(), revokeParams(counterfoil.ActorSubject("agent:planner")), approverKey(t), now())
	noError(t, err)
	if got := d.Digest().String(); got != digestOfBytes("decision", d.Envelope()) {
		t.Errorf("got %s", got)
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, phase := range counterfoil.Phases() {
		f.Add(sealedEvent(f, phase, fullEvent()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := counterfoil.ParseEvent(b)
		if err != nil {
			refusal(t, err)
			return
		}
		if e.Sequence < 1 || e.At.IsZero() || !slices.Contains(counterfoil.Phases(), e.Phase) || e.Tenant == "" || e.Audience == "" || e.ExecutionID == "" {
			t.Fatalf("got %+v", e)
		}
		if string(canonical(decode(b))) != string(b) {
			t.Fatalf("%q is not canonical", b)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	c, err := newTree(f, letters(5)...).checkpoint(5).Cosign(f.Context(), witnessKey(f), now())
	noError(f, err)
	f.Add(c.Note())
	f.Add([]byte("a/b\n1\n" + strings.Repeat("A", 43) + "=\n\n— a/b AAAAAAA=\n"))
	ring, root := mustRing(f, checkpointKey(f), witnessKey(f)), c.Root()
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := counterfoil.ParseCheckpoint(b)
		if err != nil {
			refusal(t, err)
			return
		}
		if string(c.Note()) != string(b) || c.Size() < 1 {
			t.Fatalf("%q became %q", b, c.Note())
		}
		seen, err := c.Cosignatures(ring, "acme")
		if (c.Verify(ring, auditor, "acme", now()) == nil || err == nil && len(seen) > 0) && (c.Size() != 5 || c.Root() != root) {
			t.Fatalf("%q verifies", b)
		}
	})
}
