package counterfoil_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// Each refusal is in the log, once, with its code, digests and pseudonyms, and no word of what was refused (INV-9).
func TestExecute_auditsRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   counterfoil.Code
		change func(*lab)
	}{
		"no clock":            {counterfoil.CodeInvalidInput, func(l *lab) { l.x.Now = nil }},
		"no executor":         {counterfoil.CodeInvalidInput, func(l *lab) { l.x.Executor = nil }},
		"an endless timeout":  {counterfoil.CodeInvalidInput, func(l *lab) { l.x.Timeout = -1 }},
		"no nonce":            {counterfoil.CodeInvalidInput, func(l *lab) { l.x.Nonce = [16]byte{} }},
		"another executor":    {counterfoil.CodeInvalidInput, func(l *lab) { l.x.Executor = &counterfoiltest.Executor{Name: "other"} }},
		"no time":             {counterfoil.CodeClock, func(l *lab) { l.clock = time.Time{}; l.x.Ledger = ledgerAt(l) }},
		"a step that is none": {counterfoil.CodePolicyDenied, func(l *lab) { l.x.StepID = "status = 'open'" }},
		"an old source":       {counterfoil.CodePolicyDenied, func(l *lab) { l.clock = at(20, 5, 0, 0) }},
		"an expired approval": {counterfoil.CodeApprovalExpired, func(l *lab) { l.clock = expires() }},
		"no approval":         {counterfoil.CodeInvalidInput, func(l *lab) { l.x.Approval = nil }},
		"no dry run":          {counterfoil.CodeInvalidInput, func(l *lab) { l.x.DryRun = nil }},
		"no keys":             {counterfoil.CodeSignatureInvalid, func(l *lab) { l.x.Keys = nil }},
		"no signer":           {counterfoil.CodeSignatureInvalid, func(l *lab) { l.x.Signer = nil }},
		"the ledger refuses": {counterfoil.CodeRevoked, func(l *lab) {
			l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { return nil, counterfoil.CodeRevoked }
		}},
		"the ledger can't sign": {counterfoil.CodeUnavailable, func(l *lab) { l.keyed(receiptKey(t)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c.change(l)
			_, _, err := l.execute()
			wantCode(t, err, c.code)
			events := eventsOf(t, l.x.Ledger)
			if l.runs != 0 || len(events) != 1 {
				t.Fatalf("%d runs, events %s", l.runs, events)
			}
			e, err := counterfoil.ParseEvent(events[0])
			noError(t, err)
			got := asDoc(decode(events[0]))
			if e.Phase != counterfoil.PhaseRefused || got["code"] != string(c.code) || got["executionId"] != "execution-1" || got["tenant"] != "acme" || got["tool"] == nil && l.x.Operation != nil {
				t.Errorf("the event is %s", events[0])
			}
			for _, secret := range []string{"open", "planner", "incidents", "query", "reviewer"} {
				if bytes.Contains(events[0], []byte(secret)) {
					t.Errorf("%q is in %s", secret, events[0])
				}
			}
		})
	}
}

// ledgerAt is a ledger with a clock of its own, for labs whose clock fails.
func ledgerAt(l *lab) *spy {
	l.ledger = &spy{Ledger: counterfoiltest.NewLedger("log.example.test", ledgerKey(l.t), now)}
	return l.ledger
}

func eventsOf(t testing.TB, l counterfoil.Ledger) [][]byte {
	t.Helper()
	return as[*spy](l).Events()
}

// The event names what was refused by digests alone, those of the documents.
func TestExecute_refusedEvent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, err := l.execute()
	noError(t, err)
	_, _, err = l.execute()
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	names := l.x.Pseudonyms
	want := doc{
		"kind": "counterfoil.event", "version": "1.0", "phase": "refused", "code": "already-used", "executionId": "execution-1", "tenant": "acme",
		"audience": "log.example.test", "sequence": 3.0, "time": stamp(now()), "pseudonymKey": "test", "effect": "read",
		"actor": names.Of("actor", "agent:planner"), "tool": names.Of("tool", "query"), "source": names.Of("source", "incidents"),
		"step": names.Of("step", "query-incidents"), "plan": names.Of("plan", "plan-1"),
		"planDigest": l.x.DryRun.Plan().Digest().String(), "policyDigest": l.x.DryRun.Policy().Digest().String(),
		"bindingsDigest": payloadOf(l.x.Approval.Envelope())["bindingsDigest"], "approvalDigest": l.x.Approval.Digest().String(),
		"inputDigest": l.x.Operation.InputDigest().String(),
	}
	if d := cmp.Diff(any(want), decode(l.ledger.Events()[2])); d != "" {
		t.Error(d)
	}
}

// An audit that fails never makes an allowance of a refusal, nor another refusal: its fault is joined to the cause.
func TestExecute_refusalNotRecorded(t *testing.T) {
	t.Parallel()
	broken := errors.New("secret detail")
	for name, refuse := range map[string]func(context.Context, counterfoil.Event) error{
		"fails": func(context.Context, counterfoil.Event) error { return broken }, "panics": func(context.Context, counterfoil.Event) error { panic(broken) },
	} {
		l := newLab(t)
		l.x.Ledger = refuser{l.ledger, refuse}
		l.x.StepID = "other"
		_, r, err := l.execute()
		wantCode(t, err, counterfoil.CodePolicyDenied)
		if r != nil || l.runs != 0 || l.ledger.spends != 0 || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "step") {
			t.Errorf("it %s: %v", name, err)
		}
		if name == "fails" && !errors.Is(err, broken) {
			t.Errorf("%v lost its cause", err)
		}
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := counterfoil.Execute(ctx, l.x)
		wantCode(t, err, counterfoil.CodeAborted)
		if n := len(l.ledger.Events()); n != 1 {
			t.Errorf("%d events", n)
		}
		l.x.Ledger = refuser{l.ledger, func(ctx context.Context, _ counterfoil.Event) error { return ctx.Err() }}
		_, _, err = counterfoil.Execute(ctx, l.x)
		if errors.Is(err, counterfoil.CodeUnavailable) {
			t.Errorf("the cancellation reached the log: %v", err)
		}
	})
	t.Run("nothing to record", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*counterfoil.Execution){
			"nothing parsed": func(x *counterfoil.Execution) { x.DryRun, x.Approval, x.Operation = nil, nil, nil },
			"no pseudonyms":  func(x *counterfoil.Execution) { x.Pseudonyms = nil },
			"no id":          func(x *counterfoil.Execution) { x.ID = "" },
			"no ledger":      func(x *counterfoil.Execution) { x.Ledger = nil },
			"a ledger alone": func(x *counterfoil.Execution) { x.StepID, x.Ledger = "other", struct{ counterfoil.Ledger }{x.Ledger} },
		} {
			l := newLab(t)
			change(&l.x)
			if _, _, err := l.execute(); err == nil || len(l.ledger.Events()) != 0 {
				t.Errorf("%s: %v, %d events", name, err, len(l.ledger.Events()))
			}
		}
	})
	t.Run("an unknown outcome", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { return nil, broken }
		_, _, err := l.execute()
		wantCode(t, err, counterfoil.CodeUnknownOutcome)
		if n := len(l.ledger.Events()); n != 0 {
			t.Errorf("%d events", n)
		}
	})
	t.Run("another audience", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.x.Ledger = counterfoiltest.NewLedger("elsewhere.example.test", ledgerKey(t), l.now)
		_, _, err := l.execute()
		wantCode(t, err, counterfoil.CodeIntegrityFailed)
		if n := len(as[*counterfoiltest.Ledger](l.x.Ledger).Events()); n != 0 {
			t.Errorf("%d events of another log", n)
		}
	})
}

// A refuser keeps refusals as the test says.
type refuser struct {
	*spy
	refuse func(context.Context, counterfoil.Event) error
}

func (r refuser) Refuse(ctx context.Context, e counterfoil.Event) error { return r.refuse(ctx, e) }
