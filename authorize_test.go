package counterfoil_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

func TestParseOperation(t *testing.T) {
	t.Parallel()
	op := mustOperation(t, operation(), mustPolicy(t, policy()))
	if op.Tool() != "query" || op.Effect() != counterfoil.EffectRead || op.Method() != "tools/call" {
		t.Errorf("got %s %s %s", op.Tool(), op.Effect(), op.Method())
	}
	if got := string(op.Parameters()); got != `{"where":"status = 'open'"}` {
		t.Errorf("parameters %s", got)
	}
	if got := op.InputDigest().String(); got != step(operation())["inputDigest"] {
		t.Errorf("input digest %s", got)
	}
	if d := cmp.Diff(string(canonical(operation())), string(op.Canonical())); d != "" {
		t.Error(d)
	}
	op.Parameters()[0], op.Canonical()[0] = 'x', 'x'
	if op.Parameters()[0] != '{' || op.Canonical()[0] != '{' {
		t.Error("the operation can be changed")
	}
	reordered := operation()
	reordered["fields"] = list{"status", "OBJECTID"}
	if mustOperation(t, reordered, mustPolicy(t, policy())).InputDigest() != op.InputDigest() {
		t.Error("the order of fields changed the digest")
	}
	anything := list{nil, true, 1, "x", list{}, doc{}}
	for _, parameters := range anything {
		o := operation()
		o["parameters"] = parameters
		refreshOperation(o)
		if got := mustOperation(t, o, mustPolicy(t, policy())).Parameters(); !bytes.Equal(got, canonical(parameters)) {
			t.Errorf("parameters %s", got)
		}
	}
}

func TestParseOperation_rejects(t *testing.T) {
	t.Parallel()
	deep := func(n int) any { return decode(nested("[", "]", n)) }
	wide := func(n int) any {
		out := list{}
		for range n {
			out = append(out, 0)
		}
		return out
	}
	for _, c := range []struct {
		name       string
		bytes      int
		nodes      int
		depth      int
		parameters any
		ok         bool
	}{
		{"bytes at the limit", 27, 128, 8, doc{"where": "status = 'open'"}, true},
		{"bytes over the limit", 26, 128, 8, doc{"where": "status = 'open'"}, false},
		{"values at the limit", 4096, 101, 8, wide(100), true},
		{"values over the limit", 4096, 100, 8, wide(100), false},
		{"members over the limit", 4096, 2, 8, doc{"a": 1, "b": 2}, false},
		{"members at the limit", 4096, 3, 8, doc{"a": 1, "b": 2}, true},
		{"depth at the limit", 4096, 128, 8, deep(8), true},
		{"depth over the limit", 4096, 128, 8, deep(9), false},
		{"empty containers at the limit", 4096, 128, 1, list{list{}, doc{}}, true},
		{"empty containers over the limit", 4096, 128, 1, list{list{list{}}}, false},
		{"a million values", 4096, 2, 8, wide(100_000), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			p["maxOperationParameterBytes"], p["maxOperationParameterNodes"], p["maxOperationParameterDepth"] = c.bytes, c.nodes, c.depth
			op := operation()
			op["parameters"] = c.parameters
			refreshOperation(op)
			got, err := counterfoil.ParseOperation(canonical(op), mustPolicy(t, p))
			if c.ok {
				noError(t, err)
				return
			}
			wantCode(t, err, counterfoil.CodeInvalidInput)
			if got != nil {
				t.Error("an operation with an error")
			}
		})
	}
	t.Run("a fingerprint of another body", func(t *testing.T) {
		t.Parallel()
		for _, f := range []func(doc){
			func(op doc) { op["parameters"] = doc{"where": "true"} },
			func(op doc) { op["tool"] = "applyEdits" },
			func(op doc) { asDoc(op["queryPlan"])["fingerprint"] = digestOf("arguments", 1) },
		} {
			op := operation()
			f(op)
			_, err := counterfoil.ParseOperation(canonical(op), mustPolicy(t, policy()))
			wantCode(t, err, counterfoil.CodeIntegrityFailed)
		}
	})
	t.Run("numbers that would change", func(t *testing.T) {
		t.Parallel()
		for _, n := range []string{"9007199254740993", "-0", "1e400"} {
			b := bytes.Replace(canonical(operation()), []byte(`"status = 'open'"`), []byte(n), 1)
			wantCode(t, drop(func(b []byte) (*counterfoil.Operation, error) {
				return counterfoil.ParseOperation(b, mustPolicy(t, policy()))
			})(b), counterfoil.CodeInvalidInput)
		}
	})
	t.Run("no policy", func(t *testing.T) {
		t.Parallel()
		_, err := counterfoil.ParseOperation(canonical(operation()), nil)
		wantCode(t, err, counterfoil.CodeInvalidInput)
		_, err = counterfoil.ParseOperation(canonical(operation()), new(counterfoil.Policy))
		wantCode(t, err, counterfoil.CodeInvalidInput)
	})
	t.Run("room for 512 long fields beside few parameters", func(t *testing.T) {
		t.Parallel()
		p, op, fields := policy(), operation(), list{}
		for i := range 512 {
			fields = append(fields, fmt.Sprintf("f%0500d", i))
		}
		op["fields"], p["maxOperationParameterBytes"] = fields, 64
		mustOperation(t, op, mustPolicy(t, p))
	})
}

// What is presented must be what was planned: another operation is refused before anything is spent.
func TestAuthorize_anotherOperation(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(op doc){
		"other arguments":     func(op doc) { op["parameters"] = doc{"where": "true"} },
		"another tool":        func(op doc) { op["tool"] = "other" },
		"another effect":      func(op doc) { op["effect"] = "mutation" },
		"another source":      func(op doc) { op["sourceId"] = "other" },
		"another method":      func(op doc) { asDoc(op["queryPlan"])["id"] = "tools/other" },
		"other fields":        func(op doc) { op["fields"] = list{"status"} },
		"a decomposed letter": func(op doc) { op["parameters"] = doc{"where": "status = 'o\u0301pen'"} },
		"a zero for an o":     func(op doc) { op["parameters"] = doc{"where": "status = '0pen'"} },
		"one more argument":   func(op doc) { op["parameters"] = doc{"where": "status = 'open'", "x": nil} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			op := operation()
			f(op)
			refreshOperation(op)
			l.x.Operation = mustOperation(t, op, l.x.DryRun.Policy())
			l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) { return counterfoil.Result{}, nil })
			l.refused(counterfoil.CodeIntegrityFailed)
		})
	}
	t.Run("the same in other order and spelling", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		b := bytes.Replace(canonical(operation()), []byte(`"where"`), []byte("\n\"\\u0077here\" "), 1)
		op, err := counterfoil.ParseOperation(b, l.x.DryRun.Policy())
		noError(t, err)
		l.x.Operation = op
		_, _, err = l.execute()
		noError(t, err)
	})
}

// The sources must be what they were, seen recently.
func TestAuthorize_context(t *testing.T) {
	t.Parallel()
	prov := func(s doc) doc { return asDoc(s["provenance"]) }
	for _, c := range []struct {
		name string
		code counterfoil.Code
		f    func(all, s doc)
	}{
		{"another source version", counterfoil.CodeContextMismatch, func(_, s doc) { s["sourceVersion"] = "snapshot-10" }},
		{"another schema version", counterfoil.CodeContextMismatch, func(_, s doc) { s["schemaVersion"] = "schema-8" }},
		{"another scope", counterfoil.CodeContextMismatch, func(_, s doc) { s["authorizationScope"] = list{"incidents:admin"} }},
		{"one more scope", counterfoil.CodeContextMismatch, func(_, s doc) { s["authorizationScope"] = list{"incidents:admin", "incidents:read"} }},
		{"another data mode", counterfoil.CodeContextMismatch, func(_, s doc) { prov(s)["dataMode"] = "cached" }},
		{"the source is gone", counterfoil.CodeContextMismatch, func(all, _ doc) { delete(all, "incidents") }},
		{"a source too many", counterfoil.CodeContextMismatch, func(all, s doc) {
			o := asDoc(clone(s))
			o["id"], all["other"] = "other", o
		}},
		{"seen too long ago", counterfoil.CodePolicyDenied, func(_, s doc) { prov(s)["observedAt"] = stamp(at(19, 58, 59, 999)) }},
		{"seen in the future", counterfoil.CodePolicyDenied, func(_, s doc) { prov(s)["observedAt"] = stamp(at(20, 0, 0, 1)) }},
		{"seen just now by another", "", func(_, s doc) {
			prov(s)["observedAt"], prov(s)["attribution"] = stamp(now()), "Somebody else"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			d := sources()
			c.f(asDoc(d["sources"]), asDoc(inside(d, "sources", "incidents")))
			l.x.Context = mustContext(t, d)
			if c.code == "" {
				_, _, err := l.execute()
				noError(t, err)
				return
			}
			l.refused(c.code)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.x.Context = nil
		l.refused(counterfoil.CodeInvalidInput)
		l.x.Context = new(counterfoil.Context)
		l.refused(counterfoil.CodeContextMismatch)
	})
}

func TestAuthorize_incomplete(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, f := range map[string]func(*counterfoil.Execution){
		"no dry run":         func(x *counterfoil.Execution) { x.DryRun = nil },
		"an empty dry run":   func(x *counterfoil.Execution) { x.DryRun = new(counterfoil.DryRun) },
		"no approval":        func(x *counterfoil.Execution) { x.Approval = nil },
		"no operation":       func(x *counterfoil.Execution) { x.Operation = nil },
		"an empty approval":  func(x *counterfoil.Execution) { x.Approval = new(counterfoil.Approval) },
		"an empty operation": func(x *counterfoil.Execution) { x.Operation = new(counterfoil.Operation) },
	} {
		x := l.x
		f(&x)
		if _, err := counterfoil.Authorize(x.DryRun, x.Approval, x.Context, x.StepID, x.Operation, x.Keys, now()); err == nil {
			t.Errorf("%s: authorized", name)
		}
	}
	_, err := counterfoil.Authorize(l.x.DryRun, l.x.Approval, l.x.Context, l.x.StepID, l.x.Operation, l.x.Keys, time.Time{})
	wantCode(t, err, counterfoil.CodeClock)
	_, err = counterfoil.Authorize(l.x.DryRun, l.x.Approval, l.x.Context, "other", l.x.Operation, l.x.Keys, now())
	wantCode(t, err, counterfoil.CodePolicyDenied)
}

// An approval for one plan serves no equal plan: calls that are alike stay apart by their ids.
func TestAuthorize_anotherPlanOfTheSameCall(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := plan()
	p["id"] = "plan-2"
	l.x.DryRun = mustDryRun(t, p, policy())
	l.refused(counterfoil.CodeIntegrityFailed)
}

// The policy is judged again at the instant of execution, and it is the approved one.
func TestAuthorize_policyChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := policy()
	p["maxRows"] = 200
	l.x.DryRun = mustDryRun(t, plan(), p)
	l.refused(counterfoil.CodeIntegrityFailed)
	l = newLab(t)
	l.clock = at(20, 0, 30, 1) // the planned observation is 60.001 s old
	seen := sources()
	asDoc(inside(seen, "sources", "incidents", "provenance"))["observedAt"] = stamp(now()) // the current one is not
	l.x.Context = mustContext(t, seen)
	l.refused(counterfoil.CodePolicyDenied)
	l.keyed(ledgerKey(t)) // the log of the first has a refusal of a later time
	l.clock = at(20, 0, 30, 0)
	_, _, err := l.execute()
	noError(t, err)
}

// Equality and skew, to the millisecond. The skew is applied once to each comparison and to nothing else.
func TestAuthorize_window(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		skew     time.Duration
		offset   time.Duration // of the clock from the beginning or the end
		fromEnd  bool
		expected counterfoil.Code
	}{
		{"at the beginning", 0, 0, false, ""},
		{"a millisecond early", 0, -time.Millisecond, false, counterfoil.CodeNotYetValid},
		{"a millisecond before the end", 0, -time.Millisecond, true, ""},
		{"at the end", 0, 0, true, counterfoil.CodeApprovalExpired},
		{"a millisecond after the end", 0, time.Millisecond, true, counterfoil.CodeApprovalExpired},
		{"4 s early with 5 s skew", 5 * time.Second, -4 * time.Second, false, ""},
		{"5 s early with 5 s skew", 5 * time.Second, -5 * time.Second, false, ""},
		{"6 s early with 5 s skew", 5 * time.Second, -6 * time.Second, false, counterfoil.CodeNotYetValid},
		{"4 s late with 5 s skew", 5 * time.Second, 4 * time.Second, true, ""},
		{"4.999 s late with 5 s skew", 5 * time.Second, 4999 * time.Millisecond, true, ""},
		{"5 s late with 5 s skew", 5 * time.Second, 5 * time.Second, true, counterfoil.CodeApprovalExpired},
		{"6 s late with 5 s skew", 5 * time.Second, 6 * time.Second, true, counterfoil.CodeApprovalExpired},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pol := patientPolicy()
			pol["maxClockSkewMs"] = c.skew.Milliseconds()
			l := newLabOf(t, plan(), pol, operation())
			req := request()
			req.NotBefore = at(20, 10, 0, 0) // apart from issuedAt, so that the ledger's clock may be before it
			l.x.Approval = reparsed(t, mustApprove(t, l.x.DryRun, req, approverKey(t)))
			l.clock = req.NotBefore.Add(c.offset)
			if c.fromEnd {
				l.clock = expires().Add(c.offset)
			}
			if c.expected != "" {
				l.refused(c.expected)
				return
			}
			b := l.bundle()
			_, err := b.Verify(allKeys(t), l.clock)
			noError(t, err)
		})
	}
}

// use returns the right of a lab's authorization, as its ledger sees it.
func (l *lab) use() counterfoil.Use {
	l.t.Helper()
	a, err := l.authorize()
	noError(l.t, err)
	_, err = counterfoil.Spend(context.Background(), l.ledger, a, l.spendParams())
	noError(l.t, err)
	return l.ledger.use
}

// The ledger judges the use by its own clock, inside its transaction.
func TestUse_Consume(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ms := time.Millisecond
	for _, c := range []struct {
		name        string
		clock, head time.Time
		f           func(*counterfoil.Use)
		at          time.Time
		code        counterfoil.Code
	}{
		{"the clock's instant", at(20, 0, 1, 0), time.Time{}, nil, at(20, 0, 1, 0), ""},
		{"cut to milliseconds", at(20, 0, 1, 0).Add(999 * time.Microsecond), time.Time{}, nil, at(20, 0, 1, 0), ""},
		{"behind the approval", now().Add(-5 * time.Second), time.Time{}, nil, now(), ""},
		{"too far behind the approval", now().Add(-5*time.Second - ms), time.Time{}, nil, time.Time{}, counterfoil.CodeClock},
		{"behind the head", at(20, 0, 1, 0), at(20, 0, 6, 0), nil, at(20, 0, 6, 0), ""},
		{"too far behind the head", at(20, 0, 1, 0), at(20, 0, 6, 1), nil, time.Time{}, counterfoil.CodeClock},
		{"ahead of the head", at(20, 0, 6, 0), at(20, 0, 1, 0), nil, at(20, 0, 6, 0), ""},
		{"at the end", expires(), time.Time{}, noAge, time.Time{}, counterfoil.CodeApprovalExpired},
		{"the head at the end", expires().Add(-ms), expires(), noAge, time.Time{}, counterfoil.CodeApprovalExpired},
		{"a millisecond before the end", expires().Add(-ms), time.Time{}, noAge, expires().Add(-ms), ""},
		{"at the end, with skew", expires(), time.Time{}, func(u *counterfoil.Use) { noAge(u); u.Skew = ms }, expires(), ""},
		{"before it is valid", at(20, 0, 1, 0), time.Time{}, func(u *counterfoil.Use) { u.NotBefore = at(20, 0, 1, 1) }, time.Time{}, counterfoil.CodeNotYetValid},
		{"at the last fresh instant", at(20, 0, 30, 0), time.Time{}, nil, at(20, 0, 30, 0), ""},
		{"after the last fresh instant", at(20, 0, 30, 1), time.Time{}, nil, time.Time{}, counterfoil.CodePolicyDenied},
		{"before the approver's key", at(20, 0, 1, 0), time.Time{}, func(u *counterfoil.Use) { u.KeysFrom = at(20, 0, 1, 1) }, time.Time{}, counterfoil.CodeSignatureInvalid},
		{"at the end of the approver's key", at(20, 0, 1, 0), time.Time{}, func(u *counterfoil.Use) { u.KeysUntil = at(20, 0, 1, 0) }, time.Time{}, counterfoil.CodeSignatureInvalid},
		{"just within the approver's key", at(20, 0, 1, 0), time.Time{}, func(u *counterfoil.Use) {
			u.KeysFrom, u.KeysUntil = at(20, 0, 1, 0), at(20, 0, 1, 1)
		}, at(20, 0, 1, 0), ""},
		{"for a tenant that the ledger's key does not serve", at(20, 0, 1, 0), time.Time{}, func(u *counterfoil.Use) { u.Tenant = "other" }, time.Time{}, counterfoil.CodeUnavailable},
		{"without a clock", time.Time{}, time.Time{}, nil, time.Time{}, counterfoil.CodeClock},
		{"with a clock of another era", time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}, nil, time.Time{}, counterfoil.CodeClock},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newLab(t).use()
			if c.f != nil {
				c.f(&u)
			}
			got, err := u.Consume(ctx, c.clock, c.head, ledgerKey(t))
			if c.code != "" {
				wantCode(t, err, c.code)
				return
			}
			noError(t, err)
			if !got.At().Equal(c.at) {
				t.Errorf("consumed at %s, want %s", got.At(), c.at)
			}
		})
	}
	u := newLab(t).use()
	for name, key := range map[string]counterfoil.Signer{
		"none": nil, "of another role": receiptKey(t), "that fails": &signer{key: ledgerKey(t), during: func() error { panic("x") }},
		"that does not sign": &signer{key: ledgerKey(t), sig: []byte{1}},
	} {
		_, err := u.Consume(ctx, now(), time.Time{}, key)
		if counterfoil.CodeOf(err) != counterfoil.CodeUnavailable {
			t.Errorf("a ledger key %s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := u.Consume(cancelled, now(), time.Time{}, ledgerKey(t))
	wantCode(t, err, counterfoil.CodeUnavailable) // definite: nothing was recorded
}

func noAge(u *counterfoil.Use) { u.FreshUntil = time.Time{} }

func TestConsumption(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	u := l.use()
	if u.Tenant != "acme" || u.Audience != "log.example.test" || u.Approval != l.x.Approval.Digest() || u.Step != "query-incidents" ||
		u.Input != l.x.Operation.InputDigest() || u.ExecutionID != "execution-1" || u.Nonce != l.x.Nonce ||
		!u.IssuedAt.Equal(now()) || !u.NotBefore.Equal(now()) || !u.ExpiresAt.Equal(expires()) || u.Skew != 0 ||
		!u.FreshUntil.Equal(at(20, 0, 30, 0)) || !u.KeysUntil.IsZero() || u.KeysFrom.IsZero() {
		t.Errorf("got %+v", u)
	}
	c := l.ledger.consumption
	want := doc{
		"kind": "counterfoil.consumption", "version": "1.0", "id": "execution-1", "tenant": "acme", "audience": "log.example.test",
		"approvalDigest": l.x.Approval.Digest().String(), "stepId": "query-incidents", "inputDigest": step(operation())["inputDigest"],
		"consumedAt": stamp(now()), "nonce": "01020300000000000000000000000000",
	}
	if d := cmp.Diff(decode(canonical(want)), decode(canonical(payloadOf(c.Envelope())))); d != "" {
		t.Error(d)
	}
	if c.Digest().String() != digestOf("use", want) || c.ExecutionID() != "execution-1" || !c.At().Equal(now()) {
		t.Errorf("got %s %s %s", c.Digest(), c.ExecutionID(), c.At())
	}
	again, err := counterfoil.ParseConsumption(c.Envelope())
	noError(t, err)
	if again.Digest() != c.Digest() || !bytes.Equal(again.Envelope(), c.Envelope()) {
		t.Error("the record read back is another")
	}
	for _, nonce := range []string{"", "00", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("A", 32), strings.Repeat("g", 32)} {
		p := consumptionPayload()
		p["nonce"] = nonce
		wantCode(t, drop(counterfoil.ParseConsumption)(envelopeOf("consumption", canonical(p))), counterfoil.CodeInvalidInput)
	}
}

// The freshness that the ledger judges by is that of the oldest observation, planned or current.
func TestUse_FreshUntil(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := sources()
	asDoc(inside(d, "sources", "incidents", "provenance"))["observedAt"] = stamp(at(19, 59, 20, 0))
	l.x.Context = mustContext(t, d)
	if u := l.use(); !u.FreshUntil.Equal(at(20, 0, 20, 0)) {
		t.Errorf("fresh until %s", u.FreshUntil)
	}
	pol := policy()
	delete(asDoc(inside(pol, "sources", "incidents")), "maxProvenanceAgeMs")
	if u := newLabOf(t, plan(), pol, operation()).use(); !u.FreshUntil.IsZero() {
		t.Errorf("fresh until %s", u.FreshUntil)
	}
}

// The keys' window that the ledger judges by is the one in which all of them may act.
func TestUse_KeysWindow(t *testing.T) {
	t.Parallel()
	key := func(owner string, from, until time.Time) *counterfoil.PrivateKey {
		k, err := counterfoil.NewPrivateKey(bytes.Repeat([]byte(owner[:1]), 32), counterfoil.KeyParams{
			Role: counterfoil.RoleApprover, Owner: owner, Custody: counterfoil.CustodyHolder, Tenants: []string{"acme"}, NotBefore: from, NotAfter: until,
		})
		noError(t, err)
		return k
	}
	a := key("a", at(19, 0, 0, 0), at(22, 0, 0, 0))
	b := key("b", at(19, 30, 0, 0), at(23, 0, 0, 0))
	c := key("c", at(18, 0, 0, 0), at(21, 30, 0, 0))
	l := newLab(t)
	p := payloadOf(l.x.Approval.Envelope())
	d := key("d", at(17, 0, 0, 0), time.Time{})
	p["approvers"] = list{"a", "b", "c", "d"}
	l.x.Approval = forge(t, p, a, b, c, d)
	l.x.Keys = mustRing(t, a, b, c, d, ledgerKey(t))
	if u := l.use(); !u.KeysFrom.Equal(at(19, 30, 0, 0)) || !u.KeysUntil.Equal(at(21, 30, 0, 0)) {
		t.Errorf("from %s until %s", u.KeysFrom, u.KeysUntil)
	}
}

// A key that ends between authorization and use stops the use: else nobody could verify the bundle.
func TestExecute_keyEndsMeanwhile(t *testing.T) {
	t.Parallel()
	k, err := counterfoil.NewPrivateKey(bytes.Repeat([]byte{9}, 32), counterfoil.KeyParams{
		Role: counterfoil.RoleApprover, Owner: reviewer, Custody: counterfoil.CustodyHolder, Tenants: []string{"acme"},
		NotBefore: at(19, 0, 0, 0), NotAfter: at(20, 0, 0, 2),
	})
	noError(t, err)
	l := newLab(t)
	l.x.Approval = reparsed(t, mustApprove(t, l.x.DryRun, request(), k))
	l.x.Keys = mustRing(t, k, ledgerKey(t), receiptKey(t))
	l.x.Ledger = counterfoiltest.NewLedger("log.example.test", ledgerKey(t), func() time.Time { return at(20, 0, 0, 2) })
	_, r, err := l.execute()
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
	if r != nil || l.runs != 0 {
		t.Error("it ran")
	}
}
