package counterfoil_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

// tomorrow is long after everything has ended: a bundle is verified years later.
func tomorrow() time.Time { return now().AddDate(3, 0, 0) }

func TestVerifyBundle(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	req := request()
	req.Reason = "looks right"
	l.x.Approval = mustApprove(t, l.x.DryRun, req, approverKey(t))
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		l.clock = at(20, 0, 20, 0)
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	b := l.bundle()
	rep, err := counterfoil.VerifyBundle(b.Encode(), allKeys(t), tomorrow())
	noError(t, err)
	params, err := counterfoil.ParseArguments(canonical(operation()["parameters"]))
	noError(t, err)
	want := &counterfoil.Report{
		Tenant: "acme", Audience: "log.example.test", ExecutionID: "execution-1", Actor: "agent:planner", Tool: "query",
		Effect: counterfoil.EffectRead, Source: "incidents", Arguments: params.Canonical(), ArgumentsDigest: params.Digest(),
		Authority: counterfoil.AuthorityPerson, Approvers: []string{reviewer}, ApprovalKeys: []counterfoil.PublicKey{approverKey(t).Public()},
		Reason: "looks right", ApprovedAt: now(), ConsumedAt: now(), CompletedAt: at(20, 0, 20, 0), Outcome: counterfoil.OutcomeSucceeded,
		Rows: 1, Bytes: int64(len(rawResult)), ResultDigest: counterfoil.ResultDigest([]byte(rawResult)), ReceiptDigest: b.Receipt.Digest(),
		Checked: []string{
			"form", "dry run rebuilt from plan and policy", "approval is for this plan and no wider", "operation is the one that was approved",
			"receipt is for this use and within its limits", "policy allowed it at the instant of the use",
			"use is signed by the ledger, inside the approval's window", "approval is signed by every approver", "receipt is signed",
		},
		Unchecked: []string{
			"logged: no; the bundle has no inclusion proof, so that it can't show that this is the only use",
			"revocations: that nothing it rests on was revoked before the use, nor a key after the ring was exported", "the source as it was at the time of execution", "the result itself; its digest is bound",
		},
	}
	if d := cmp.Diff(want, rep, cmp.Comparer(func(a, b counterfoil.PublicKey) bool { return a.ID == b.ID && a.Owner == b.Owner })); d != "" {
		t.Error(d)
	}
	rep.ApprovalKeys[0].Tenants[0] = "other"
	again, err := b.Verify(allKeys(t), tomorrow())
	noError(t, err)
	if again.ApprovalKeys[0].Tenants[0] != "acme" {
		t.Error("the ring can be changed through a report")
	}
	parsed, err := counterfoil.ParseBundle(b.Encode())
	noError(t, err)
	if !bytes.Equal(parsed.Encode(), b.Encode()) {
		t.Error("the bundle read back prints otherwise")
	}
}

// Without the operation the arguments stay secret; their digest is bound all the same.
func TestVerifyBundle_redacted(t *testing.T) {
	t.Parallel()
	b := newLab(t).bundle()
	full := b.Encode()
	b.Operation = nil
	redacted := b.Encode()
	if bytes.Contains(redacted, []byte("status = 'open'")) || len(redacted) >= len(full) {
		t.Error("the arguments are still there")
	}
	rep, err := counterfoil.VerifyBundle(redacted, allKeys(t), tomorrow())
	noError(t, err)
	if rep.Arguments != nil || rep.ArgumentsDigest.String() != digestOf("parameters", operation()["parameters"]) ||
		!strings.HasPrefix(rep.Unchecked[0], "arguments:") || slices.Contains(rep.Checked, "operation is the one that was approved") {
		t.Errorf("got %+v", rep)
	}
}

// Not one byte of a bundle can change unseen, whatever it is changed to.
func TestVerifyBundle_everyByte(t *testing.T) {
	t.Parallel()
	several, second := quorumLab(t)
	several.x.Approval = cosigned(t, several, second)
	for name, c := range map[string]struct {
		l     *lab
		masks []byte
	}{
		"plain":   {newLab(t), []byte{0x01, 0x20, 0x80}},
		"P-256":   {es256Lab(t), []byte{0x04}},
		"passkey": {passkeyLab(t), []byte{0x02}},
		"several": {several, []byte{0x01}},
		"logged":  {nil, []byte{0x01, 0x20}},
		"grant":   {grantLab(t, mustGrant(t, nil)), []byte{0x01}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.l == nil {
				l := logLab(t)
				everyByte(t, loggedBundle(t, l).Encode(), l.x.Keys, c.masks)
				return
			}
			everyByte(t, c.l.bundle().Encode(), c.l.x.Keys, c.masks)
		})
	}
}

func everyByte(t *testing.T, good []byte, keys *counterfoil.KeyRing, masks []byte) {
	t.Helper()
	when := tomorrow()
	_, err := counterfoil.VerifyBundle(good, keys, when)
	noError(t, err)
	refused := func(what string, at int, b []byte) {
		if rep, err := counterfoil.VerifyBundle(b, keys, when); err == nil || rep != nil {
			t.Errorf("%s at %d of %d: it verifies", what, at, len(good))
		}
	}
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			b := slices.Clone(good)
			for i := part; i < len(b); i += 2 {
				for _, m := range masks {
					b[i] ^= m
					refused("a changed byte", i, b)
					b[i] ^= m
				}
				if i%8 > 1 { // these cost a copy each
					continue
				}
				refused("a byte less", i, slices.Delete(slices.Clone(b), i, i+1))
				refused("a byte twice", i, slices.Insert(slices.Clone(b), i, b[i]))
				refused("a space more", i, slices.Insert(slices.Clone(b), i, ' '))
				if i+1 < len(b) && b[i] != b[i+1] {
					b[i], b[i+1] = b[i+1], b[i]
					refused("two bytes exchanged", i, b)
					b[i], b[i+1] = b[i+1], b[i]
				}
			}
		})
	}
	for i := 0; i < len(good); i += 8 {
		refused("cut", i, good[:i])
	}
	wg.Wait()
}

// Pieces of two bundles of equal calls don't mix.
func TestVerifyBundle_mixed(t *testing.T) {
	t.Parallel()
	one := asDoc(decode(newLab(t).bundle().Encode()))
	p := plan()
	p["id"] = "plan-2"
	second := newLabOf(t, p, policy(), operation())
	second.x.ID, second.x.Nonce = "execution-2", [16]byte{2}
	two := asDoc(decode(second.bundle().Encode()))
	third := newLab(t) // the same plan, approved and run once more
	third.x.ID, third.x.Nonce = "execution-3", [16]byte{3}
	req := request()
	req.ID = "approval-3"
	third.x.Approval = mustApprove(t, third.x.DryRun, req, approverKey(t))
	three := asDoc(decode(third.bundle().Encode()))
	for name, other := range map[string]doc{"another plan": two, "another approval": three} {
		for _, member := range []string{"approval", "consumption", "receipt", "dryRun"} {
			mixed := asDoc(clone(one))
			mixed[member] = other[member]
			b := canonical(mixed)
			if bytes.Equal(b, canonical(one)) {
				continue // the dry run is the same for both approvals
			}
			_, err := counterfoil.VerifyBundle(b, allKeys(t), tomorrow())
			if counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
				t.Errorf("%s of %s: got %v", member, name, err)
			}
		}
	}
	// Both the use and the receipt of another approval.
	mixed := asDoc(clone(one))
	mixed["consumption"], mixed["receipt"] = three["consumption"], three["receipt"]
	_, err := counterfoil.VerifyBundle(canonical(mixed), allKeys(t), tomorrow())
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
}

// bundleOf is a bundle whose signed documents an attacker with all keys has changed, and bound to each other again.
func bundleOf(t testing.TB, l *lab, change func(approval, consumption, receipt doc), redigest bool) error {
	t.Helper()
	d := asDoc(decode(l.bundle().Encode()))
	payload := func(name string) doc {
		raw, err := base64.StdEncoding.DecodeString(asString(inside(d, name, "payload")))
		noError(t, err)
		return asDoc(decode(raw))
	}
	a, c, r := payload("approval"), payload("consumption"), payload("receipt")
	change(a, c, r)
	if redigest {
		c["approvalDigest"] = digestOf("approval", a)
		r["approvalDigest"], r["useDigest"] = c["approvalDigest"], digestOf("use", c)
	}
	d["approval"] = decode(forgeEnvelope(t, "approval", a, approverKey(t)))
	d["consumption"] = decode(forgeEnvelope(t, "consumption", c, ledgerKey(t)))
	d["receipt"] = decode(forgeEnvelope(t, "receipt", r, receiptKey(t)))
	_, err := counterfoil.VerifyBundle(canonical(d), allKeys(t), tomorrow())
	return err
}

func TestVerifyBundle_forged(t *testing.T) {
	t.Parallel()
	other := digestOf("plan", "another")
	for _, c := range []struct {
		name     string
		code     counterfoil.Code
		redigest bool
		f        func(a, c, r doc)
	}{
		{"nothing", "", true, func(_, _, _ doc) {}},
		{"receipt of another tenant", "integrity-failed", true, func(_, _, r doc) { r["tenant"] = "other" }},
		{"receipt of another audience", "integrity-failed", true, func(_, _, r doc) { r["audience"] = "other" }},
		{"receipt of another execution", "integrity-failed", true, func(_, _, r doc) { r["id"] = "other" }},
		{"receipt of another plan", "integrity-failed", true, func(_, _, r doc) { r["planDigest"] = other }},
		{"receipt of another policy", "integrity-failed", true, func(_, _, r doc) { r["policyDigest"] = other }},
		{"receipt of other sources", "integrity-failed", true, func(_, _, r doc) { r["bindingsDigest"] = other }},
		{"receipt of another approval", "integrity-failed", false, func(_, _, r doc) { r["approvalDigest"] = other }},
		{"receipt of another operation", "integrity-failed", true, func(_, _, r doc) { r["inputDigest"] = other }},
		{"receipt of another step", "integrity-failed", true, func(_, _, r doc) { r["stepId"] = "other" }},
		{"receipt of another use", "integrity-failed", false, func(_, _, r doc) { r["useDigest"] = other }},
		{"receipt of 81 rows", "policy-denied", true, func(_, _, r doc) { r["rows"], r["observedRows"] = 81, 81 }},
		{"receipt of 50001 bytes", "policy-denied", true, func(_, _, r doc) { r["bytes"], r["observedBytes"] = 50_001, 50_001 }},
		{"completed before the use", "integrity-failed", true, func(_, _, r doc) { r["completedAt"] = stamp(now().Add(-time.Millisecond)) }},
		{"issued before it was completed", "integrity-failed", true, func(_, _, r doc) { r["completedAt"] = stamp(now().Add(time.Millisecond)) }},
		{"late without being it", "integrity-failed", true, func(_, _, r doc) { r["late"] = true }},
		{"late without saying it", "integrity-failed", true, func(_, _, r doc) { r["completedAt"], r["issuedAt"] = stamp(expires()), stamp(expires()) }},
		{"a success without result", "integrity-failed", true, func(_, _, r doc) { delete(r, "resultDigest") }},
		{"a success of fewer rows than seen", "integrity-failed", true, func(_, _, r doc) { r["rows"] = 0 }},
		{"a success of fewer bytes than seen", "integrity-failed", true, func(_, _, r doc) { r["bytes"] = 0 }},
		{"a failure that accepts rows", "integrity-failed", true, func(_, _, r doc) { r["outcome"], r["bytes"] = "failed", 0 }},
		{"a failure that accepts bytes", "integrity-failed", true, func(_, _, r doc) { r["outcome"], r["rows"] = "failed", 0 }},
		{"cancelled with rows", "integrity-failed", true, func(_, _, r doc) {
			r["outcome"], r["rows"], r["bytes"], r["observedBytes"] = "cancelled", 0, 0, 0
			delete(r, "resultDigest")
		}},
		{"cancelled with bytes", "integrity-failed", true, func(_, _, r doc) {
			r["outcome"], r["rows"], r["bytes"], r["observedRows"] = "cancelled", 0, 0, 0
			delete(r, "resultDigest")
		}},
		{"cancelled with a result", "integrity-failed", true, func(_, _, r doc) {
			r["outcome"], r["rows"], r["bytes"], r["observedRows"], r["observedBytes"] = "cancelled", 0, 0, 0, 0
		}},
		{"uncounted with a count", "integrity-failed", true, func(_, _, r doc) { r["uncounted"] = true }},
		{"a success by recovery", "integrity-failed", true, func(_, _, r doc) { r["recovered"] = true }},
		{"use of another tenant", "integrity-failed", true, func(_, c, _ doc) { c["tenant"] = "other" }},
		{"use of another audience", "integrity-failed", true, func(_, c, _ doc) { c["audience"] = "other" }},
		{"use of another operation", "integrity-failed", true, func(_, c, _ doc) { c["inputDigest"] = other }},
		{"use of another step", "integrity-failed", true, func(_, c, r doc) { c["stepId"], r["stepId"] = "other", "other" }},
		{"use of another step than the receipt's", "integrity-failed", true, func(_, c, _ doc) { c["stepId"] = "other" }},
		{"use before the approval", "not-yet-valid", true, func(_, c, _ doc) { c["consumedAt"] = stamp(now().Add(-time.Millisecond)) }},
		{"use at the approval's end", "policy-denied", true, func(_, c, r doc) {
			c["consumedAt"], r["completedAt"], r["issuedAt"], r["late"] = stamp(expires()), stamp(expires()), stamp(expires()), true
		}},
		{"use when the source was too old", "policy-denied", true, func(_, c, r doc) {
			c["consumedAt"], r["completedAt"], r["issuedAt"] = stamp(at(20, 0, 30, 1)), stamp(at(20, 0, 31, 0)), stamp(at(20, 0, 31, 0))
		}},
		{"approval of another tenant", "integrity-failed", true, func(a, c, r doc) { a["tenant"], c["tenant"], r["tenant"] = "other", "other", "other" }},
		{"approval of another person", "signature-invalid", true, func(a, _, _ doc) { a["approvers"] = list{"mallory"} }},
		{"approval by two of whom one signed", "quorum-missing", true, func(a, _, _ doc) { a["approvers"] = list{"mallory", reviewer} }},
		{"approval widened", "policy-denied", true, func(a, _, _ doc) { asDoc(inside(a, "steps", 0))["rows"], a["approvedRows"] = 101, 101 }},
		{"approval without end", "policy-denied", true, func(a, _, _ doc) { a["expiresAt"] = stamp(now().AddDate(1, 0, 0)) }},
		{"approval by the actor", "self-approval", true, func(a, _, _ doc) { a["approvers"] = list{"agent:planner"} }},
		{"approval older than the dry run", "invalid-input", true, func(a, _, _ doc) { a["issuedAt"] = stamp(now().Add(-time.Second)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := bundleOf(t, newLab(t), c.f, c.redigest)
			if counterfoil.CodeOf(err) != c.code {
				t.Errorf("got %v, want %q", err, c.code)
			}
		})
	}
	t.Run("use at the approval's end, whatever the age of the source", func(t *testing.T) {
		t.Parallel()
		err := bundleOf(t, newLabOf(t, plan(), patientPolicy(), operation()), func(_, c, r doc) {
			c["consumedAt"], r["completedAt"], r["issuedAt"], r["late"] = stamp(expires()), stamp(expires()), stamp(expires()), true
		}, true)
		wantCode(t, err, counterfoil.CodeApprovalExpired)
	})
}

// Each key is judged at the instant of its own act, by the ring alone.
func TestVerifyBundle_keys(t *testing.T) {
	t.Parallel()
	good := newLab(t).bundle().Encode()
	keys := map[counterfoil.Role]*counterfoil.PrivateKey{
		counterfoil.RoleApprover: approverKey(t), counterfoil.RoleLedger: ledgerKey(t), counterfoil.RoleReceipt: receiptKey(t),
	}
	ringWith := func(role counterfoil.Role, f func(doc)) *counterfoil.KeyRing {
		d := asDoc(decode(mustRing(t, approverKey(t), ledgerKey(t), receiptKey(t)).JSON()))
		all := list{}
		for _, k := range asList(d["keys"]) {
			if asDoc(k)["kid"] == string(keys[role].Public().ID) {
				if f == nil {
					continue
				}
				f(asDoc(k))
			}
			all = append(all, k)
		}
		d["keys"] = all
		r, err := counterfoil.ParseKeyRing(canonical(d))
		noError(t, err)
		return r
	}
	for _, c := range []struct {
		name string
		ok   bool
		f    func(doc)
	}{
		{"as it is", true, func(doc) {}},
		{"missing", false, nil},
		{"retired since", true, func(k doc) { k["notAfter"] = stamp(now().Add(time.Millisecond)) }},
		{"ended at the act", false, func(k doc) { k["notAfter"] = stamp(now()) }},
		{"begun at the act", true, func(k doc) { k["notBefore"] = stamp(now()) }},
		{"begun after the act", false, func(k doc) { k["notBefore"] = stamp(now().Add(time.Millisecond)) }},
		{"of another tenant", false, func(k doc) { k["tenants"] = list{"other"} }},
		{"of another role", false, func(k doc) { k["role"] = "policy" }},
	} {
		for role := range keys {
			_, err := counterfoil.VerifyBundle(good, ringWith(role, c.f), tomorrow())
			if c.ok && err != nil || !c.ok && counterfoil.CodeOf(err) != counterfoil.CodeSignatureInvalid {
				t.Errorf("%s key %s: got %v", role, c.name, err)
			}
		}
	}
	_, err := counterfoil.VerifyBundle(good, nil, tomorrow())
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
	_, err = counterfoil.VerifyBundle(good, ringWith(counterfoil.RoleApprover, func(k doc) { k["owner"] = "mallory" }), tomorrow())
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
}

// A document with one signer has one signature.
func TestVerifyBundle_oneSignature(t *testing.T) {
	t.Parallel()
	for member, kind := range map[string]string{"consumption": "consumption", "receipt": "receipt"} {
		d := asDoc(decode(newLab(t).bundle().Encode()))
		sigs := asList(inside(d, member, "signatures"))
		asDoc(d[member])["signatures"] = append(sigs, doc{"keyid": "~", "sig": asDoc(sigs[0])["sig"]})
		_, err := counterfoil.VerifyBundle(canonical(d), allKeys(t), tomorrow())
		if counterfoil.CodeOf(err) != counterfoil.CodeSignatureInvalid {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

func TestVerifyBundle_future(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	b := l.bundle().Encode()
	_, err := counterfoil.VerifyBundle(b, allKeys(t), now())
	noError(t, err)
	for _, when := range []time.Time{now().Add(-time.Millisecond), {}} {
		_, err = counterfoil.VerifyBundle(b, allKeys(t), when)
		wantCode(t, err, counterfoil.CodeClock)
	}
	pol := policy()
	pol["maxClockSkewMs"] = 5000
	b = newLabOf(t, plan(), pol, operation()).bundle().Encode()
	_, err = counterfoil.VerifyBundle(b, allKeys(t), now().Add(-5*time.Second))
	noError(t, err)
	_, err = counterfoil.VerifyBundle(b, allKeys(t), now().Add(-5001*time.Millisecond))
	wantCode(t, err, counterfoil.CodeClock)
}

// An approval that this process made is verified here like any other.
func TestVerifyBundle_trustsNothingOfThisProcess(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	own := mustApprove(t, l.x.DryRun, request(), approverKey(t))
	l.x.Approval = own
	b := l.bundle()
	if _, err := b.Verify(allKeys(t), tomorrow()); err != nil {
		t.Fatal(err)
	}
	l.x.ID, l.x.Nonce = "execution-2", [16]byte{2}
	if _, _, err := l.execute(); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
		t.Errorf("verifying changed the approval: %v", err)
	}
}

func TestBundle_incomplete(t *testing.T) {
	t.Parallel()
	good := newLab(t).bundle()
	for name, f := range map[string]func(*counterfoil.Bundle){
		"no receipt":           func(b *counterfoil.Bundle) { b.Receipt = nil },
		"no approval":          func(b *counterfoil.Bundle) { b.Approval = nil },
		"no consumption":       func(b *counterfoil.Bundle) { b.Consumption = nil },
		"no dry run":           func(b *counterfoil.Bundle) { b.DryRun = nil },
		"an empty receipt":     func(b *counterfoil.Bundle) { b.Receipt = new(counterfoil.Receipt) },
		"an empty approval":    func(b *counterfoil.Bundle) { b.Approval = new(counterfoil.Approval) },
		"an empty consumption": func(b *counterfoil.Bundle) { b.Consumption = new(counterfoil.Consumption) },
		"an empty dry run":     func(b *counterfoil.Bundle) { b.DryRun = new(counterfoil.DryRun) },
	} {
		b := *good
		f(&b)
		if b.Encode() != nil {
			t.Errorf("%s: it prints", name)
		}
		if _, err := b.Verify(allKeys(t), tomorrow()); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	b := *good
	b.Operation = new(counterfoil.Operation)
	if _, err := b.Verify(allKeys(t), tomorrow()); counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
		t.Errorf("an empty operation: got %v", err)
	}
}

// What the parts of a bundle refuse, the bundle refuses.
func TestParseBundle_refusesItsParts(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(doc){
		"policy":           func(d doc) { asDoc(d["policy"])["maxSteps"] = 0 },
		"another policy":   func(d doc) { asDoc(d["policy"])["maxRows"] = 101 },
		"policy unsorted":  func(d doc) { asDoc(inside(d, "policy", "sources", "incidents"))["fields"] = list{"status", "OBJECTID"} },
		"plan":             func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "" },
		"dry run":          func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = "today" },
		"dry run's budget": func(d doc) { asDoc(inside(d, "dryRun", "effectBudget"))["rows"] = 1 },
		"operation":        func(d doc) { asDoc(d["operation"])["tool"] = "other" },
		"operation's form": func(d doc) { asDoc(d["operation"])["fields"] = 1 },
		"approval":         func(d doc) { d["approval"] = d["receipt"] },
		"consumption":      func(d doc) { d["consumption"] = d["receipt"] },
		"receipt":          func(d doc) { d["receipt"] = d["approval"] },
		"approval's payload": func(d doc) {
			asDoc(d["approval"])["payload"] = base64.StdEncoding.EncodeToString([]byte("{}"))
		},
		"consumption's payload": func(d doc) {
			asDoc(d["consumption"])["payload"] = base64.StdEncoding.EncodeToString([]byte("[]"))
		},
		"receipt's payload": func(d doc) {
			asDoc(d["receipt"])["payload"] = base64.StdEncoding.EncodeToString([]byte("{"))
		},
		"another version": func(d doc) { d["version"] = "2.0" },
	} {
		d := asDoc(decode(newLab(t).bundle().Encode()))
		f(d)
		if err := drop(counterfoil.ParseBundle)(canonical(d)); err == nil {
			t.Errorf("%s: it parses", name)
		}
	}
	good := newLab(t).bundle().Encode()
	wantCode(t, drop(counterfoil.ParseBundle)(append([]byte(" "), good...)), counterfoil.CodeInvalidInput)
	wantCode(t, drop(counterfoil.ParseBundle)(nil), counterfoil.CodeInvalidInput)
}

// Arguments as large as the policy allows fit into a bundle.
func TestBundle_largeArguments(t *testing.T) {
	t.Parallel()
	op := operation()
	deep := any("x")
	for range counterfoil.MaxArgumentDepth - 1 {
		deep = list{deep}
	}
	op["parameters"] = doc{"deep": deep, "text": strings.Repeat("a", 2<<20)}
	refreshOperation(op)
	pol := policy()
	pol["maxOperationParameterBytes"], pol["maxOperationParameterDepth"] = 16<<20, 64
	l := newLabOf(t, onePlanOf(step(op)), pol, op)
	rep, err := counterfoil.VerifyBundle(l.bundle().Encode(), allKeys(t), tomorrow())
	noError(t, err)
	if len(rep.Arguments) < 2<<20 {
		t.Errorf("%d bytes of arguments", len(rep.Arguments))
	}
}
