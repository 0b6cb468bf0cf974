package counterfoil_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

const inToto = "application/vnd.in-toto+json"

func mustReceipt(t testing.TB) *counterfoil.Receipt {
	t.Helper()
	return newLab(t).bundle().Receipt
}

func statementPayload(t testing.TB) doc {
	t.Helper()
	s, err := mustReceipt(t).Statement(context.Background(), receiptKey(t))
	noError(t, err)
	return payloadOf(s.Envelope())
}

// A receipt as an in-toto statement: its subjects are the input and the result, its predicate is the receipt.
func TestReceipt_Statement(t *testing.T) {
	t.Parallel()
	r := mustReceipt(t)
	s, err := r.Statement(context.Background(), receiptKey(t))
	noError(t, err)
	env := asDoc(decode(s.Envelope()))
	if env["payloadType"] != inToto {
		t.Errorf("payload type %v", env["payloadType"])
	}
	facts := payloadOf(r.Envelope())
	bare := func(d any) string { return strings.TrimPrefix(asString(d), "sha256:") }
	want := doc{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": counterfoil.StatementPredicateType,
		"predicate": doc{"receipt": facts, "receiptDigest": r.Digest().String()},
		"subject": list{
			doc{"name": "input", "digest": doc{counterfoil.StatementDigestName: bare(facts["inputDigest"])}},
			doc{"name": "result", "digest": doc{counterfoil.StatementDigestName: bare(facts["resultDigest"])}},
		},
	}
	if d := cmp.Diff(decode(canonical(want)), any(payloadOf(s.Envelope()))); d != "" {
		t.Error(d)
	}
	again, err := counterfoil.ParseStatement(s.Envelope())
	noError(t, err)
	for _, s := range []*counterfoil.Statement{s, again} {
		noError(t, s.Verify(allKeys(t)))
		if s.ReceiptDigest() != r.Digest() {
			t.Errorf("it is about %s", s.ReceiptDigest())
		}
	}
	if !bytes.Equal(again.Envelope(), s.Envelope()) {
		t.Error("it prints in other bytes")
	}

	// Without a result there is one subject.
	l := newLab(t)
	a := l.claim()
	r, _, err = counterfoil.Recover(context.Background(), l.x.DryRun, l.x.Approval, a.Consumption(), counterfoil.OutcomeIndeterminate,
		l.x.Pseudonyms, receiptKey(t), now())
	noError(t, err)
	s, err = r.Statement(context.Background(), receiptKey(t))
	noError(t, err)
	if subjects := asList(payloadOf(s.Envelope())["subject"]); len(subjects) != 1 {
		t.Errorf("subjects %v", subjects)
	}
	noError(t, drop(counterfoil.ParseStatement)(s.Envelope()))
}

// A receipt's signature is none for a statement, nor the other way round, although one key makes both.
func TestStatement_keepsRolesApart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := mustReceipt(t)
	s, err := r.Statement(ctx, receiptKey(t))
	noError(t, err)
	env := asDoc(decode(s.Envelope()))
	swapped := asDoc(clone(env))
	swapped["signatures"] = asDoc(decode(r.Envelope()))["signatures"]
	parsed, err := counterfoil.ParseStatement(canonical(swapped))
	noError(t, err)
	wantCode(t, parsed.Verify(allKeys(t)), counterfoil.CodeSignatureInvalid)
	wantCode(t, drop(counterfoil.ParseReceipt)(s.Envelope()), counterfoil.CodeInvalidInput)
	wantCode(t, drop(counterfoil.ParseStatement)(r.Envelope()), counterfoil.CodeInvalidInput)
	raw, err := base64.StdEncoding.DecodeString(asString(env["payload"]))
	noError(t, err)
	for _, k := range []*counterfoil.PrivateKey{approverKey(t), policyKey(t), ledgerKey(t)} {
		_, err := r.Statement(ctx, k)
		wantCode(t, err, counterfoil.CodeSignatureInvalid)
		sig, err := k.Sign(ctx, counterfoil.ForgeMessage(k.Public().Role, inToto, raw))
		noError(t, err)
		env["signatures"] = list{doc{"keyid": string(k.Public().ID), "sig": base64.StdEncoding.EncodeToString(sig)}}
		parsed, err := counterfoil.ParseStatement(canonical(env))
		noError(t, err)
		wantCode(t, parsed.Verify(allKeys(t)), counterfoil.CodeSignatureInvalid)
	}
	foreign := counterfoiltest.Key(t, counterfoil.RoleReceipt, "elsewhere", "other")
	s, err = r.Statement(ctx, foreign)
	noError(t, err)
	wantCode(t, s.Verify(mustRing(t, foreign)), counterfoil.CodeSignatureInvalid)
	wantCode(t, s.Verify(allKeys(t)), counterfoil.CodeSignatureInvalid)
	wantCode(t, s.Verify(nil), counterfoil.CodeSignatureInvalid)

	// Two signatures are one too many.
	env = asDoc(decode(s.Envelope()))
	env["signatures"] = append(asList(env["signatures"]), doc{"keyid": "~", "sig": inside(env, "signatures", 0, "sig")})
	parsed, err = counterfoil.ParseStatement(canonical(env))
	noError(t, err)
	wantCode(t, parsed.Verify(mustRing(t, foreign)), counterfoil.CodeSignatureInvalid)

	wantCode(t, (*counterfoil.Statement)(nil).Verify(allKeys(t)), counterfoil.CodeInvalidInput)
	wantCode(t, new(counterfoil.Statement).Verify(allKeys(t)), counterfoil.CodeInvalidInput)
	for _, r := range []*counterfoil.Receipt{nil, {}} {
		_, err := r.Statement(ctx, receiptKey(t))
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
	_, err = r.Statement(ctx, nil)
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

// Nothing in a statement is believed: whatever is not what its receipt gives is refused, whoever signed it.
func TestParseStatement_rejects(t *testing.T) {
	t.Parallel()
	wrap := func(payload doc) []byte {
		return canonical(doc{
			"payloadType": inToto, "payload": base64.StdEncoding.EncodeToString(canonical(payload)),
			"signatures": list{doc{"keyid": "k", "sig": base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 64))}},
		})
	}
	noError(t, drop(counterfoil.ParseStatement)(wrap(statementPayload(t))))
	loose := append(canonical(statementPayload(t)), ' ')
	wantCode(t, drop(counterfoil.ParseStatement)(bytes.Replace(wrap(statementPayload(t)),
		[]byte(base64.StdEncoding.EncodeToString(loose[:len(loose)-1])), []byte(base64.StdEncoding.EncodeToString(loose)), 1)), counterfoil.CodeInvalidInput)
	const invalid, broken = counterfoil.CodeInvalidInput, counterfoil.CodeIntegrityFailed
	for name, c := range map[string]struct {
		edit func(p doc)
		code counterfoil.Code
	}{
		"another subject": {func(p doc) {
			asDoc(inside(p, "subject", 0, "digest"))[counterfoil.StatementDigestName] = strings.Repeat("a", 64)
		}, broken},
		"another name":            {func(p doc) { asDoc(inside(p, "subject", 1))["name"] = "input" }, broken},
		"a subject less":          {func(p doc) { p["subject"] = asList(p["subject"])[:1] }, broken},
		"a subject more":          {func(p doc) { p["subject"] = append(asList(p["subject"]), asList(p["subject"])...) }, invalid},
		"subjects in other order": {func(p doc) { slices.Reverse(asList(p["subject"])) }, broken},
		"a plain SHA-256":         {func(p doc) { asDoc(inside(p, "subject", 0))["digest"] = doc{"sha256": strings.Repeat("a", 64)} }, broken},
		"another receipt":         {func(p doc) { asDoc(inside(p, "predicate", "receipt"))["rows"] = 2 }, broken},
		"another digest":          {func(p doc) { asDoc(p["predicate"])["receiptDigest"] = digestOf("receipt", 1) }, broken},
		"no digest":               {func(p doc) { asDoc(p["predicate"])["receiptDigest"] = "x" }, invalid},
		"no receipt":              {func(p doc) { asDoc(p["predicate"])["receipt"] = doc{} }, invalid},
		"another type":            {func(p doc) { p["_type"] = "https://in-toto.io/Statement/v0.1" }, invalid},
		"another predicate":       {func(p doc) { p["predicateType"] = "https://slsa.dev/provenance/v1" }, invalid},
	} {
		p := statementPayload(t)
		c.edit(p)
		if err := drop(counterfoil.ParseStatement)(wrap(p)); counterfoil.CodeOf(err) != c.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzParseStatement(f *testing.F) {
	s, err := mustReceipt(f).Statement(context.Background(), receiptKey(f))
	noError(f, err)
	f.Add(s.Envelope())
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := counterfoil.ParseStatement(b)
		if (s == nil) == (err == nil) {
			t.Fatalf("value %v, error %v", s, err)
		}
		if err != nil {
			refusal(t, err, counterfoil.CodeIntegrityFailed)
			return
		}
		if !bytes.Equal(s.Envelope(), b) {
			t.Fatalf("printed %s\nread    %s", s.Envelope(), b)
		}
	})
}
