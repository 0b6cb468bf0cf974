package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// pseudonym is the specification's keyed digest of a name, without any code of ours.
func pseudonym(role, name string) string {
	key := sha256.Sum256([]byte("counterfoiltest\npseudonyms"))
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte("counterfoil/v1/pseudonym\n" + role + "\n" + name))
	return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
}

func TestEvents_ofAnExecution(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, r, err := l.execute()
	noError(t, err)
	events := l.ledger.Events()
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	started := doc{
		"kind": "counterfoil.event", "version": "1.0", "phase": "started", "sequence": 1, "time": stamp(now()),
		"tenant": "acme", "audience": "log.example.test", "executionId": "execution-1", "effect": "read",
		"actor": pseudonym("actor", "agent:planner"), "tool": pseudonym("tool", "query"), "source": pseudonym("source", "incidents"),
		"step": pseudonym("step", "query-incidents"), "plan": pseudonym("plan", "plan-1"), "pseudonymKey": "test",
		"planDigest": digestOf("plan", plan()), "policyDigest": digestOf("policy", policy()),
		"bindingsDigest": digestOf("bindings", list{source()}), "approvalDigest": l.x.Approval.Digest().String(),
		"inputDigest": step(operation())["inputDigest"], "useDigest": l.ledger.consumption.Digest().String(),
	}
	if d := cmp.Diff(string(canonical(started)), string(events[0])); d != "" {
		t.Error(d)
	}
	completed := asDoc(clone(started))
	for k, v := range map[string]any{
		"phase": "completed", "sequence": 2, "outcome": "succeeded", "rows": 1, "bytes": len(rawResult), "observedRows": 1,
		"observedBytes": len(rawResult), "resultDigest": digestOfBytes("result", []byte(rawResult)), "receiptDigest": r.Digest().String(),
	} {
		completed[k] = v
	}
	if d := cmp.Diff(string(canonical(completed)), string(events[1])); d != "" {
		t.Error(d)
	}
	if got := counterfoil.EventDigest(events[0]).String(); got != digestOf("event", started) {
		t.Errorf("digest %s", got)
	}
}

// Whatever is free text or secret in an execution, none of it is in the log.
func TestEvents_holdNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := []string{}
	secret := func(what string) string {
		s := "s3cr3t-" + what
		secrets = append(secrets, s)
		return s
	}
	p, pol, op := plan(), policy(), operation()
	op["tool"], op["sourceId"], asDoc(op["queryPlan"])["id"] = secret("tool"), secret("source"), secret("method")
	op["fields"], op["parameters"] = list{secret("field")}, doc{secret("name"): secret("argument")}
	refreshOperation(op)
	s := step(op)
	s["id"] = secret("step")
	src := asDoc(s["source"])
	src["id"], src["schemaVersion"], src["sourceVersion"] = op["sourceId"], secret("schema"), secret("version")
	src["authorizationScope"], asDoc(src["provenance"])["attribution"] = list{secret("scope")}, secret("attribution")
	refreshStep(s)
	p["id"], p["actor"], p["provider"], p["model"], p["steps"] = secret("plan"), secret("actor"), secret("provider"), secret("model"), list{s}
	srcPolicy := sourcePolicy()
	srcPolicy["fields"], srcPolicy["authorizationScope"] = op["fields"], src["authorizationScope"]
	srcPolicy["schemaVersions"], srcPolicy["sourceVersions"] = list{src["schemaVersion"]}, list{src["sourceVersion"]}
	pol["allowedTools"], pol["sources"] = list{op["tool"]}, doc{asString(src["id"]): srcPolicy}

	dry := mustDryRun(t, p, pol)
	for _, failure := range []error{nil, errors.New(secret("error")), fmt.Errorf("%s: %w", secret("failure"), counterfoil.CodeExecutionFailed)} {
		l := newLab(t)
		l.x.DryRun, l.x.StepID = dry, asString(s["id"])
		l.x.Operation, l.x.Context = mustOperation(t, op, dry.Policy()), mustContext(t, doc{"sources": doc{asString(src["id"]): src}})
		req := request()
		req.Reason, req.Limits = secret("reason"), nil
		l.x.Approval = mustApprove(t, dry, req, counterfoiltest.Key(t, counterfoil.RoleApprover, secret("approver"), "acme"))
		l.x.Keys = mustRing(t, counterfoiltest.Key(t, counterfoil.RoleApprover, "s3cr3t-approver", "acme"), ledgerKey(t), receiptKey(t))
		l.executes(failing(secret("result"), failure))
		_, r, err := l.execute()
		if r == nil {
			t.Fatal(err)
		}
		log := bytes.Join(l.ledger.Events(), []byte("\n"))
		for _, hidden := range append(secrets, "s3cr3t", "01020300", string(l.x.Keys.Keys()[0].ID), "reviewer") {
			if bytes.Contains(log, []byte(hidden)) {
				t.Errorf("%q is in the log:\n%s", hidden, log)
			}
		}
		if strings.Contains(string(r.Envelope()), "s3cr3t") {
			t.Error("a secret is in the receipt's envelope")
		}
	}
}

func failing(result string, err error) func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
	return func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte(result)}, err
	}
}

func TestNewEvent(t *testing.T) {
	t.Parallel()
	names := counterfoiltest.Pseudonyms(t)
	good := counterfoil.EventParams{Tenant: "acme", Audience: "log.example.test", ExecutionID: "call-1", Code: "govern/not_allowed"}
	for _, phase := range []counterfoil.Phase{
		counterfoil.PhaseRefused, counterfoil.PhaseRequested, counterfoil.PhaseApproved, counterfoil.PhaseDenied, counterfoil.PhaseLapsed,
		counterfoil.PhaseClassified, counterfoil.PhaseStarted, counterfoil.PhaseCompleted, counterfoil.PhaseLate, counterfoil.PhaseRevoked, counterfoil.PhaseGoverned,
	} {
		e, err := counterfoil.NewEvent(phase, names, good)
		noError(t, err)
		if e.Phase() != phase || e.Tenant() != "acme" || e.ExecutionID() != "call-1" {
			t.Errorf("got %s %s %s", e.Phase(), e.Tenant(), e.ExecutionID())
		}
		got := asDoc(decode(e.Seal(7, at(20, 0, 0, 7).Add(time.Microsecond))))
		want := doc{
			"kind": "counterfoil.event", "version": "1.0", "phase": string(phase), "sequence": 7.0, "time": stamp(at(20, 0, 0, 7)),
			"tenant": "acme", "audience": "log.example.test", "executionId": "call-1", "code": "govern/not_allowed", "pseudonymKey": "test",
		}
		if phase == counterfoil.PhaseCompleted || phase == counterfoil.PhaseLate {
			for _, n := range []string{"rows", "bytes", "observedRows", "observedBytes"} {
				want[n] = 0.0
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	for name, f := range map[string]func(*counterfoil.EventParams){
		"tenant":          func(p *counterfoil.EventParams) { p.Tenant = "" },
		"audience":        func(p *counterfoil.EventParams) { p.Audience = "a\u200b" },
		"execution":       func(p *counterfoil.EventParams) { p.ExecutionID = "x\n2026-11-30 approval a-1 granted by admin" },
		"code":            func(p *counterfoil.EventParams) { p.Code = "the password is secret" },
		"code in capital": func(p *counterfoil.EventParams) { p.Code = "Denied" },
		"code line":       func(p *counterfoil.EventParams) { p.Code = "denied\n" },
		"code long":       func(p *counterfoil.EventParams) { p.Code = strings.Repeat("a", 129) },
		"effect":          func(p *counterfoil.EventParams) { p.Effect = "secret" },
		"outcome":         func(p *counterfoil.EventParams) { p.Outcome = "secret" },
		"rows":            func(p *counterfoil.EventParams) { p.Rows = -1 },
		"bytes":           func(p *counterfoil.EventParams) { p.Bytes = -1 },
		"observed rows":   func(p *counterfoil.EventParams) { p.ObservedRows = -1 },
		"observed bytes":  func(p *counterfoil.EventParams) { p.ObservedBytes = -1 },
	} {
		p := good
		f(&p)
		if _, err := counterfoil.NewEvent(counterfoil.PhaseRefused, names, p); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	longest := good
	longest.Code = strings.Repeat("a", 128)
	_, err := counterfoil.NewEvent(counterfoil.PhaseRefused, names, longest)
	noError(t, err)
	for _, phase := range []counterfoil.Phase{"", "secret", "Started"} {
		_, err := counterfoil.NewEvent(phase, names, good)
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
	for _, names := range []*counterfoil.Pseudonyms{nil, new(counterfoil.Pseudonyms)} {
		_, err := counterfoil.NewEvent(counterfoil.PhaseRefused, names, good)
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
	if b := (counterfoil.Event{}).Seal(1, now()); b != nil {
		t.Errorf("the zero event is %s", b)
	}
}

// Every member that an event can have, and in the canonical order.
func TestEvent_Seal(t *testing.T) {
	t.Parallel()
	d := counterfoil.ResultDigest([]byte("x"))
	e, err := counterfoil.NewEvent(counterfoil.PhaseLate, counterfoiltest.Pseudonyms(t), counterfoil.EventParams{
		Tenant: "acme", Audience: "log.example.test", ExecutionID: "e", Actor: "a", Tool: "t", Source: "s", Step: "st", Plan: "p",
		Effect: counterfoil.EffectDestructive, Code: "c", Outcome: counterfoil.OutcomeFailed, PlanDigest: d, PolicyDigest: d, BindingsDigest: d,
		ApprovalDigest: d, InputDigest: d, ReceiptDigest: d, ResultDigest: d, Rows: 1, Bytes: 2, ObservedRows: 3, ObservedBytes: 4,
		Late: true, Recovered: true, Uncounted: true,
	})
	noError(t, err)
	b := e.WithUse(d).Seal(1, now())
	again, err := counterfoil.Canonicalize(b)
	noError(t, err)
	if !bytes.Equal(again, b) || len(asDoc(decode(b))) != 32 {
		t.Errorf("%d members: %s", len(asDoc(decode(b))), b)
	}
}

func TestPseudonyms(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{0xAB}, 32)
	p, err := counterfoil.NewPseudonyms("p-2026", key)
	noError(t, err)
	q, err := counterfoil.NewPseudonyms("p-2026", bytes.Repeat([]byte{0xAC}, 32))
	noError(t, err)
	one := p.Of("actor", "agent:planner")
	if one != p.Of("actor", "agent:planner") {
		t.Error("one name has two pseudonyms")
	}
	for other, s := range map[string]string{
		"another name": p.Of("actor", "agent:planner2"), "another role": p.Of("tool", "agent:planner"), "another key": q.Of("actor", "agent:planner"),
	} {
		if s == one || !strings.HasPrefix(s, "hmac-sha256:") || len(s) != len("hmac-sha256:")+64 {
			t.Errorf("%s: %s", other, s)
		}
	}
	if p.Of("actor", "") != "" {
		t.Error("nobody has a pseudonym")
	}
	clear(key)
	if p.Of("actor", "agent:planner") != one {
		t.Error("the caller's key is used")
	}
	_, err = counterfoil.NewPseudonyms("", make([]byte, 32))
	wantCode(t, err, counterfoil.CodeInvalidInput)
	_, err = counterfoil.NewPseudonyms("p", make([]byte, 31))
	wantCode(t, err, counterfoil.CodeInvalidInput)
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", slog.Any("p", p), slog.Any("q", *p))
	fmt.Fprintf(&out, "%v %+v %#v %s %x %d", p, *p, p, p, p, p)
	if s := out.String(); strings.Contains(s, "171") || strings.Contains(s, "abab") || strings.Count(s, "redacted") != 8 {
		t.Errorf("printed: %s", s)
	}
}
