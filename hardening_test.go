package counterfoil_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// A receipt key that ends while the tool runs makes no receipt that never verifies: the host settles with the next key.
func TestSettle_receiptKeyEnds(t *testing.T) {
	t.Parallel()
	key := func(seed byte, from, until time.Time) *counterfoil.PrivateKey {
		k, err := counterfoil.NewPrivateKey(bytes.Repeat([]byte{seed}, 32), counterfoil.KeyParams{
			Role: counterfoil.RoleReceipt, Owner: "gateway", Custody: counterfoil.CustodyGateway, Tenants: []string{"acme"}, NotBefore: from, NotAfter: until,
		})
		noError(t, err)
		return k
	}
	old, next := key(8, now(), now().Add(10*time.Second)), key(9, now().Add(10*time.Second), time.Time{})
	l := newLab(t)
	l.x.Signer, l.x.Keys = old, mustRing(t, approverKey(t), ledgerKey(t), old, next)
	f, err := counterfoil.Run(t.Context(), l.claim(), l.x.Executor)
	noError(t, err)
	ended := now().Add(20 * time.Second)
	for name, signer := range map[string]counterfoil.Signer{
		"an ended key": old, "a key of another role": ledgerKey(t), "no key": nil,
		"a key of another tenant": counterfoiltest.Key(t, counterfoil.RoleReceipt, "gateway", "other"),
	} {
		r, err := counterfoil.Settle(t.Context(), l.x.Ledger, f, signer, ended)
		if counterfoil.CodeOf(err) != counterfoil.CodeReceiptFailed || r != nil || l.ledger.settles != 0 {
			t.Errorf("%s: receipt %v, %v, %d settles", name, r, err, l.ledger.settles)
		}
	}
	r, err := counterfoil.Settle(t.Context(), l.x.Ledger, f, next, ended)
	noError(t, err)
	b := counterfoil.Bundle{Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun}
	_, err = counterfoil.VerifyBundle(b.Encode(), l.x.Keys, tomorrow())
	noError(t, err)
	_, _, err = counterfoil.Recover(t.Context(), l.x.DryRun, l.x.Approval, l.ledger.consumption, counterfoil.OutcomeIndeterminate, l.x.Pseudonyms, old, ended)
	wantCode(t, err, counterfoil.CodeSignatureInvalid)
}

// What a signer elsewhere returns is verified before anything is recorded with it.
func TestExecute_signersThatDoNotSign(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.x.Signer = &signer{key: receiptKey(t), sig: make([]byte, 64)}
	_, r, err := l.execute()
	wantCode(t, err, counterfoil.CodeReceiptFailed)
	if r != nil || l.ledger.settles != 0 {
		t.Errorf("receipt %v, %d settles", r, l.ledger.settles)
	}
	for name, key := range map[string]counterfoil.Signer{
		"zeros":        &signer{key: ledgerKey(t), sig: make([]byte, 64)},
		"nothing":      &signer{key: ledgerKey(t), sig: []byte{}},
		"another role": &signer{key: receiptKey(t)},
		"another key": &signer{key: ledgerKey(t), public: func() counterfoil.PublicKey {
			return counterfoiltest.Key(t, counterfoil.RoleLedger, "another", "acme").Public()
		}},
	} {
		l := newLab(t)
		l.keyed(key)
		_, r, err := l.execute()
		if counterfoil.CodeOf(err) != counterfoil.CodeUnavailable || r != nil || l.runs != 0 || l.ledger.Uses() != 0 {
			t.Errorf("%s: receipt %v, %v, %d runs", name, r, err, l.runs)
		}
	}
}

// What the ledger answers is held against what a verifier will hold it against, before anything runs.
func TestSpend_recordsThatDoNotVerify(t *testing.T) {
	t.Parallel()
	consume := func(at time.Time, key counterfoil.Signer, change func(*counterfoil.Use)) func(*lab) (*counterfoil.Consumption, error) {
		return func(l *lab) (*counterfoil.Consumption, error) {
			u := l.ledger.use
			change(&u)
			return u.Consume(context.Background(), at, time.Time{}, key)
		}
	}
	same := func(*counterfoil.Use) {}
	for name, c := range map[string]struct {
		answer func(*lab) (*counterfoil.Consumption, error)
		ok     bool
	}{
		"the same again":    {consume(now(), ledgerKey(t), same), true},
		"a stranger's key":  {consume(now(), counterfoiltest.Key(t, counterfoil.RoleLedger, "stranger", "acme"), same), false},
		"after the window":  {consume(expires(), ledgerKey(t), func(u *counterfoil.Use) { u.ExpiresAt, u.FreshUntil = tomorrow(), time.Time{} }), false},
		"no longer fresh":   {consume(at(20, 40, 0, 0), ledgerKey(t), func(u *counterfoil.Use) { u.FreshUntil = time.Time{} }), false},
		"before the window": {consume(at(19, 0, 0, 0), ledgerKey(t), func(u *counterfoil.Use) { u.IssuedAt, u.NotBefore = at(18, 0, 0, 0), at(18, 0, 0, 0) }), false},
		"read from bytes": {func(l *lab) (*counterfoil.Consumption, error) {
			c, err := consume(now(), ledgerKey(t), same)(l)
			noError(t, err)
			return counterfoil.ParseConsumption(c.Envelope())
		}, true},
		"read from bytes that were changed": {func(l *lab) (*counterfoil.Consumption, error) {
			c, err := consume(now(), ledgerKey(t), same)(l)
			noError(t, err)
			d := asDoc(decode(c.Envelope()))
			asDoc(inside(d, "signatures", 0))["sig"] = strings.Repeat("A", 86) + "=="
			return counterfoil.ParseConsumption(canonical(d))
		}, false},
	} {
		l := newLab(t)
		l.ledger.afterSpend = func(*counterfoil.Consumption) (*counterfoil.Consumption, error) { return c.answer(l) }
		_, r, err := l.execute()
		if c.ok != (err == nil) || !c.ok && (counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome || r != nil || l.runs != 0) {
			t.Errorf("%s: receipt %v, %v, %d runs", name, r, err, l.runs)
		}
	}
	// A record of the plan's other step is another use's.
	l := stepsLab(t)
	l.ledger.afterSpend = func(*counterfoil.Consumption) (*counterfoil.Consumption, error) {
		return consume(now(), ledgerKey(t), func(u *counterfoil.Use) {
			u.Step = "first"
			d, err := counterfoil.ParseDigest(asString(inside(payloadOf(l.x.Approval.Envelope()), "steps", 0, "inputDigest")))
			noError(t, err)
			u.Input = d
		})(l)
	}
	_, _, err := l.execute()
	wantCode(t, err, counterfoil.CodeUnknownOutcome)
	if l.runs != 0 {
		t.Error("it ran")
	}
}

// A ledger that is another audience's says so, and nothing is unknown.
func TestSpend_anotherAudience(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { return nil, counterfoil.CodeIntegrityFailed }
	_, r, err := l.execute()
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
	if r != nil || l.runs != 0 {
		t.Error("it ran")
	}
}

// A clock that panics stops what has not begun, and loses nothing that has.
func TestExecute_clockPanics(t *testing.T) {
	t.Parallel()
	for after := 1; after <= 2; after++ {
		l := newLab(t)
		asked := 0
		l.x.Now = func() time.Time {
			if asked++; asked == after {
				panic("secret of the clock")
			}
			return l.clock
		}
		_, r, err := l.execute()
		if after == 1 {
			wantCode(t, err, counterfoil.CodeClock)
			if r != nil || l.ledger.spends != 0 || strings.Contains(err.Error(), "secret") {
				t.Errorf("receipt %v, %d spends, %v", r, l.ledger.spends, err)
			}
			continue
		}
		l.settled(r, err, counterfoil.OutcomeSucceeded, "")
		if !r.CompletedAt().Equal(l.ledger.consumption.At()) {
			t.Errorf("completed at %s", r.CompletedAt())
		}
	}
}

// What can be known to be wrong without asking the host is found before the host is asked (INV-2).
func TestExecute_asksNobodyFirst(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lab){
		"id": func(l *lab) { l.x.ID = "a\nb" }, "nonce": func(l *lab) { l.x.Nonce = [16]byte{} }, "pseudonyms": func(l *lab) { l.x.Pseudonyms = nil },
		"ledger": func(l *lab) { l.x.Ledger = nil }, "timeout": func(l *lab) { l.x.Timeout = -1 },
	} {
		l := newLab(t)
		asked := 0
		l.x.Signer = &signer{key: receiptKey(t), public: func() counterfoil.PublicKey { asked++; return receiptKey(t).Public() }}
		l.x.Now = func() time.Time { asked++; return now() }
		change(l)
		if l.refused(counterfoil.CodeInvalidInput); asked != 0 {
			t.Errorf("%s: the host was asked %d times", name, asked)
		}
	}
}

func TestSpend_checks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*counterfoil.SpendParams){
		"id": func(p *counterfoil.SpendParams) { p.ExecutionID = "" }, "nonce": func(p *counterfoil.SpendParams) { p.Nonce = [16]byte{} },
		"pseudonyms": func(p *counterfoil.SpendParams) { p.Pseudonyms = new(counterfoil.Pseudonyms) },
	} {
		l := newLab(t)
		a, err := l.authorize()
		noError(t, err)
		p := l.spendParams()
		change(&p)
		c, err := counterfoil.Spend(t.Context(), l.x.Ledger, a, p)
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || c != nil || l.ledger.spends != 0 {
			t.Errorf("%s: %v, %d spends", name, err, l.ledger.spends)
		}
	}
}

// However many settle one execution at once, there is one receipt.
func TestSettle_atOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f, err := counterfoil.Run(t.Context(), l.claim(), l.x.Executor)
	noError(t, err)
	var wg sync.WaitGroup
	receipts := make([]*counterfoil.Receipt, 8)
	for i := range receipts {
		wg.Go(func() {
			var err error
			receipts[i], err = counterfoil.Settle(context.Background(), l.ledger.Ledger, f, l.x.Signer, now().Add(time.Duration(i)*time.Millisecond))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range receipts {
		if r == nil || r.Digest() != receipts[0].Digest() {
			t.Errorf("another receipt: %v", r)
		}
	}
}

// A report says that the evidence which the plan binds was not looked at.
func TestVerifyBundle_evidenceUnchecked(t *testing.T) {
	t.Parallel()
	op := operation()
	op["evidenceDigest"] = digestOf("evidence", 1)
	s := step(op)
	s["evidenceDigest"] = op["evidenceDigest"]
	refreshStep(s)
	l := newLabOf(t, onePlanOf(s), policy(), op)
	rep, err := counterfoil.VerifyBundle(l.bundle().Encode(), allKeys(t), tomorrow())
	noError(t, err)
	if !strings.Contains(strings.Join(rep.Unchecked, "\n"), "the evidence on the tool") {
		t.Errorf("not checked: %v", rep.Unchecked)
	}
}

// What an operation is made of, and what it hands out, can be written to: it keeps its own bytes.
func TestExecute_operationOwnsItsMemory(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	raw := canonical(operation())
	op, err := counterfoil.ParseOperation(raw, l.x.DryRun.Policy())
	noError(t, err)
	for i := range raw {
		raw[i] = 'x'
	}
	l.x.Operation = op
	want := string(canonical(operation()["parameters"]))
	l.executes(func(_ context.Context, w counterfoil.Work) (counterfoil.Result, error) {
		p := w.Operation.Parameters()
		if string(p) != want {
			t.Errorf("ran %s", p)
		}
		clear(p)
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	b := l.bundle()
	rep, err := counterfoil.VerifyBundle(b.Encode(), allKeys(t), tomorrow())
	noError(t, err)
	if string(rep.Arguments) != want {
		t.Errorf("the bundle has %s", rep.Arguments)
	}
}

// The same plan and the same observation, at a later clock.
func TestExecute_sourceGrowsOld(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.clock = at(20, 0, 30, 1)
	l.refused(counterfoil.CodePolicyDenied)
	l.keyed(ledgerKey(t)) // the log of the first has a refusal of a later time
	l.clock = at(20, 0, 30, 0)
	_, _, err := l.execute()
	noError(t, err)
	// The observation that was planned with counts, however fresh the current one is.
	l = newLab(t)
	s := sources()
	asDoc(inside(s, "sources", "incidents", "provenance"))["observedAt"] = stamp(now())
	l.x.Context = mustContext(t, s)
	if u := l.use(); !u.FreshUntil.Equal(at(20, 0, 30, 0)) {
		t.Errorf("fresh until %s", u.FreshUntil)
	}
}

// What the host exchanges while it is called changes nothing of what was begun.
func TestExecute_callbacksExchange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := operation()
	other["parameters"] = doc{"where": "1=1"}
	refreshOperation(other)
	exchange := func() {
		l.x.Executor = &counterfoiltest.Executor{Name: "query", Does: counterfoil.EffectRead, Run: func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			t.Error("another executor ran")
			return counterfoil.Result{}, nil
		}}
		l.x.Operation = mustOperation(t, other, l.x.DryRun.Policy())
		l.x.Now = func() time.Time { t.Error("another clock was asked"); return now() }
		l.x.Signer = ledgerKey(t)
	}
	var ran string
	l.executes(func(_ context.Context, w counterfoil.Work) (counterfoil.Result, error) {
		ran = string(w.Operation.Parameters())
		exchange()
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	key := receiptKey(t)
	l.x.Signer = &signer{key: key, public: func() counterfoil.PublicKey { exchange(); return key.Public() }}
	l.ledger.beforeSpend = func() (*counterfoil.Consumption, error) { exchange(); return nil, nil }
	_, r, err := l.execute()
	noError(t, err)
	if r.Outcome() != counterfoil.OutcomeSucceeded || ran != string(canonical(operation()["parameters"])) || l.runs != 1 {
		t.Errorf("%d runs of %s", l.runs, ran)
	}
}

// The executor fails and the end can't be recorded: the error says that it is not recorded, and the log has no word of why.
func TestExecute_failsUnrecorded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte("s3cr3t")}, errors.New("s3cr3t of the tool")
	})
	l.ledger.beforeSettle = func() error { return errors.New("s3cr3t of the disk") }
	res, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeIndeterminate, counterfoil.CodeReceiptFailed)
	log := bytes.Join(l.ledger.Events(), nil)
	if e, ok := errors.AsType[*counterfoil.Error](err); !ok || strings.Contains(e.Error(), "s3cr3t") || bytes.Contains(log, []byte("s3cr3t")) || res.Value != nil || len(l.ledger.Events()) != 1 {
		t.Errorf("%v, result %s, log %s", err, res.Value, log)
	}
}

// The approved rows bound a result, and no other number.
func TestExecute_manyRows(t *testing.T) {
	t.Parallel()
	for rows, want := range map[int64]counterfoil.Outcome{2000: counterfoil.OutcomeSucceeded, 2001: counterfoil.OutcomeFailed} {
		p, pol := plan(), policy()
		asDoc(inside(p, "steps", 0))["limits"], pol["maxRows"] = doc{"rows": 2000, "bytes": 50_000}, 2000
		l := newLabOf(t, p, pol, operation())
		req := request()
		req.Limits = nil
		l.x.Approval = reparsed(t, mustApprove(t, l.x.DryRun, req, approverKey(t)))
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			return counterfoil.Result{Value: []byte("[" + strings.Repeat("1,", int(rows)-1) + "1]"), Rows: rows, JSON: true}, nil
		})
		_, r, err := l.execute()
		code := counterfoil.Code("")
		if want == counterfoil.OutcomeFailed {
			code = counterfoil.CodeExecutionFailed
		}
		if got := l.settled(r, err, want, code); got["observedRows"] != float64(rows) || want == counterfoil.OutcomeSucceeded && got["rows"] != float64(rows) {
			t.Errorf("%d rows: %v", rows, got)
		}
	}
}
