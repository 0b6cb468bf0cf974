package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// refusal fails the test unless err is one that a parser may answer with.
func refusal(t *testing.T, err error, codes ...counterfoil.Code) {
	t.Helper()
	e, ok := errors.AsType[*counterfoil.Error](err)
	if !ok || !slices.Contains(append(codes, counterfoil.CodeInvalidInput), e.Code) || e.Msg == "" {
		t.Fatalf("refused with %v", err)
	}
	for _, r := range e.Path + e.Msg {
		if r < 0x20 || r == 0x7f || r == '\u202e' || r == '\u2028' {
			t.Fatalf("the error can't be printed: %q", e.Error())
		}
	}
	if len(e.Path) > 280 {
		t.Fatalf("the error is %d bytes long", len(e.Path))
	}
}

func FuzzCanonicalize(f *testing.F) {
	for _, s := range []string{
		`{"b":[1,2.50,-0,1e21,1e-7,5e-324],"a":{"\u0061":"\ud83d\ude00","\n":null},"\ufb33":true}`, `[9007199254740993,0.1e1,1E400]`,
		`"\u2028\/\u007f"`, ` [ ] `, `{"a":1,"a":2}`, `"\ud800"`, "\ufeff{}", `{"":{"":{"":0}}}`, `-`, `{"é":1,"é":2}`, `[[[[[]]]],{}]`,
		`{"😀":1,"￮":2,"":3}`, `123456789012345678901234567890`, `1.7976931348623157e308`, `[0.1,1e-400]`, `{"a\\":1,"a\"":2,"a":3}`,
		`{"":[0,-1,1.5,1e+21,1e-7,9007199254740992],"\u0000\t\"\\":{"a":true,"b":false,"c":null},"é":"😀"}`, `NaN`, `-Inf`, `Infinity`, `[0x1p-2]`,
		`"\u001f"`, `"\u001F"`, `"\u0008"`, `"\/"`, `"\u0041"`, `[1_0]`, `-`, `+1`, `"abc\`, `{"a":1,}`, `[1,]`, `{"a"`, `{"a":`, `tru`, `[`, `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := counterfoil.Canonicalize(b)
		args, exact := counterfoil.ParseArguments(b)
		if err != nil {
			refusal(t, err)
			if exact == nil {
				t.Fatalf("arguments accept what %v refuses", err)
			}
		}
		oracle := jsontext.Value(bytes.Clone(b))
		strict := oracle.Canonicalize() == nil
		// The short cut says yes to exactly what the long way leaves as it is.
		long, wrong := counterfoil.Rewrite(b)
		if short := counterfoil.IsCanonical(b); short != (wrong == nil && bytes.Equal(long, b)) {
			t.Fatalf("the short cut says %v to %q, the long way %q, %v", short, b, long, wrong)
		}
		if (wrong == nil) != (err == nil) || !bytes.Equal(long, got) {
			t.Fatalf("the long way ends elsewhere: %q, %v", long, wrong)
		}
		if err == nil {
			if !strict {
				t.Fatalf("%q is not strict JSON", b)
			}
			if !bytes.Equal(oracle, got) {
				t.Fatalf("got  %s\nwant %s", got, oracle)
			}
			again, err := counterfoil.Canonicalize(got)
			if err != nil || !bytes.Equal(again, got) {
				t.Fatalf("%s is no fixed point: %s, %v", got, again, err)
			}
		}
		if exact != nil {
			refusal(t, exact)
			return
		}
		if !bytes.Equal(args.Canonical(), got) || args.Digest().String() != digestOfBytes("parameters", got) {
			t.Fatalf("arguments are %s, %s", args.Canonical(), args.Digest())
		}
		if again, err := counterfoil.ParseArguments(args.Canonical()); err != nil || again.Digest() != args.Digest() {
			t.Fatalf("the canonical arguments differ: %v", err)
		}
	})
}

func FuzzParseArguments(f *testing.F) {
	for _, s := range []string{`0`, `-0`, `{"a":1.0}`, `[1e400]`, `100000000000000000000000`, `0.30000000000000004`, `1e-400`, `"\u0000"`} {
		f.Add(s)
	}
	// Numbers alone, so that the engine spends its time on them: what is accepted is worth exactly what was written.
	f.Fuzz(func(t *testing.T, number string) {
		a, err := counterfoil.ParseArguments([]byte(number))
		if err != nil {
			refusal(t, err)
			return
		}
		if len(number) > 1000 || number == "" || !bytes.ContainsAny([]byte(number[:1]), "-0123456789") {
			return
		}
		if !sameValue(strings.Trim(number, " \t\r\n"), string(a.Canonical())) {
			t.Fatalf("%s became %s", number, a.Canonical())
		}
	})
}

// document is a parser's promise: a value or an error; canonical bytes that parse to the same.
func document[T any](f *testing.F, example []byte, codes []counterfoil.Code, parse func([]byte) (*T, error), canon func(*T) ([]byte, counterfoil.Digest)) {
	f.Helper()
	f.Add(example)
	f.Add([]byte(`{}`))
	f.Add(bytes.ReplaceAll(example, []byte(":"), []byte(" : ")))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parse(b)
		if (v == nil) == (err == nil) {
			t.Fatalf("value %v, error %v", v, err)
		}
		if err != nil {
			refusal(t, err, codes...)
			return
		}
		c, d := canon(v)
		again, err := parse(c)
		if err != nil {
			t.Fatalf("the canonical form does not parse: %v", err)
		}
		if c2, d2 := canon(again); !bytes.Equal(c, c2) || d != d2 {
			t.Fatalf("the canonical form is no fixed point:\n%s\n%s", c, c2)
		}
		if strict, err := counterfoil.Canonicalize(c); err != nil || !bytes.Equal(strict, c) {
			t.Fatalf("the canonical form is not canonical: %s", c)
		}
	})
}

func FuzzParsePlan(f *testing.F) {
	document(f, canonical(fullPlan()), nil, counterfoil.ParsePlan, func(p *counterfoil.Plan) ([]byte, counterfoil.Digest) {
		return p.Canonical(), p.Digest()
	})
}

func FuzzParsePolicy(f *testing.F) {
	document(f, canonical(fullPolicy()), nil, counterfoil.ParsePolicy, func(p *counterfoil.Policy) ([]byte, counterfoil.Digest) {
		return p.Canonical(), p.Digest()
	})
}

func FuzzParseDryRun(f *testing.F) {
	allowed := mustPolicy(f, policy())
	codes := []counterfoil.Code{counterfoil.CodePolicyDenied, counterfoil.CodeIntegrityFailed}
	document(f, mustDryRun(f, plan(), policy()).Canonical(), codes,
		func(b []byte) (*counterfoil.DryRun, error) { return counterfoil.ParseDryRun(b, allowed) },
		func(d *counterfoil.DryRun) ([]byte, counterfoil.Digest) { return d.Canonical(), d.Digest() })
}

func FuzzParseOperation(f *testing.F) {
	allowed := mustPolicy(f, policy())
	document(f, canonical(operation()), []counterfoil.Code{counterfoil.CodeIntegrityFailed},
		func(b []byte) (*counterfoil.Operation, error) { return counterfoil.ParseOperation(b, allowed) },
		func(o *counterfoil.Operation) ([]byte, counterfoil.Digest) { return o.Canonical(), o.InputDigest() })
}

func FuzzParseKeyRing(f *testing.F) {
	f.Add(mustPublicRing(f, revokedPasskey(f)).JSON())
	document(f, allKeys(f).JSON(), nil, counterfoil.ParseKeyRing, func(r *counterfoil.KeyRing) ([]byte, counterfoil.Digest) {
		return r.JSON(), counterfoil.Digest{}
	})
}

func FuzzParseContext(f *testing.F) {
	f.Add(canonical(sources()))
	f.Add([]byte(`{"sources":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := counterfoil.ParseContext(b)
		if (c == nil) == (err == nil) {
			t.Fatalf("value %v, error %v", c, err)
		}
		if err != nil {
			refusal(t, err)
		}
	})
}

// signed is the promise of a signed document's parser: what it accepts, it prints in the same bytes.
func signed[T any](f *testing.F, kind string, payload doc, parse func([]byte) (*T, error), envelope func(*T) []byte) {
	f.Helper()
	f.Add(canonical(payload), false)
	f.Add(envelopeOf(kind, canonical(payload)), true)
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if !whole {
			b = envelopeOf(kind, b)
		}
		v, err := parse(b)
		if (v == nil) == (err == nil) {
			t.Fatalf("value %v, error %v", v, err)
		}
		if err != nil {
			refusal(t, err)
			return
		}
		if got := envelope(v); !bytes.Equal(got, b) {
			t.Fatalf("printed %s\nread    %s", got, b)
		}
	})
}

func FuzzParseApproval(f *testing.F) {
	signed(f, "approval", approvalPayload(), counterfoil.ParseApproval, (*counterfoil.Approval).Envelope)
}

func FuzzParseConsumption(f *testing.F) {
	signed(f, "consumption", consumptionPayload(), counterfoil.ParseConsumption, (*counterfoil.Consumption).Envelope)
}

func FuzzParseReceipt(f *testing.F) {
	signed(f, "receipt", receiptPayload(), counterfoil.ParseReceipt, (*counterfoil.Receipt).Envelope)
}

func FuzzParseStandingGrant(f *testing.F) {
	signed(f, "standing-grant", grantPayload(), counterfoil.ParseStandingGrant, (*counterfoil.StandingGrant).Envelope)
}

// An envelope that parses prints in the same bytes, whatever kinds of signatures it has.
func FuzzParseApproval_signatures(f *testing.F) {
	l, a := quorumLab(f)
	f.Add(cosigned(f, l, a).Envelope())
	f.Add(passkeyApproval(f).Envelope())
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := counterfoil.ParseApproval(b)
		if err != nil {
			refusal(t, err)
			return
		}
		if got := v.Envelope(); !bytes.Equal(got, b) {
			t.Fatalf("printed %s\nread    %s", got, b)
		}
	})
}

// Client data that is taken has each of its members as encoding/json finds it.
func FuzzClientData(f *testing.F) {
	a := newAuthenticator(f, reviewer)
	p, err := counterfoil.PrepareApproval(mustDryRun(f, plan(), policy()), request(), a.public, now())
	noError(f, err)
	challenge := p.Message().Challenge()
	good := a.assert(f, challenge)
	f.Add(good.ClientDataJSON, byte(flagsUsual), []byte(nil))
	f.Add(append([]byte(`{"x":[1e400,"\ud800"],"origin":"",`), good.ClientDataJSON[1:]...), byte(0x85), []byte{0xa0})
	f.Add([]byte(`{"crossOrigin":null,"topOrigin":0}`), byte(0), []byte{0})
	f.Fuzz(func(t *testing.T, client []byte, flags byte, more []byte) {
		raw := a.assert(t, challenge, func(c *ceremony) { c.raw, c.flags, c.more = append([]byte{}, client...), flags, more })
		v, err := p.Attach(raw)
		if err != nil {
			refusal(t, err, counterfoil.CodeSignatureInvalid)
			return
		}
		var c struct {
			Type, Challenge, Origin string
			CrossOrigin             bool
		}
		noError(t, json.Unmarshal(client, &c))
		b64 := base64.RawURLEncoding.EncodeToString(challenge[:])
		if v == nil || c.Type != typeGet || c.Challenge != b64 || !slices.Contains(a.public.Passkey.Origins, c.Origin) || c.CrossOrigin || flags&5 != 5 {
			t.Fatalf("%s with %x is taken", client, flags)
		}
	})
}

// A signature that is read prints as DER of the same numbers, or of the other half's.
func FuzzFixedSignature(f *testing.F) {
	f.Add(derOf(big.NewInt(1), big.NewInt(2)))
	f.Add(derOf(number("80"), elliptic.P256().Params().N))
	f.Add([]byte{0x30, 0x81, 6, 2, 1, 1, 2, 1, 1})
	f.Fuzz(func(t *testing.T, der []byte) {
		sig, err := counterfoil.FixedSignature(der)
		if err != nil {
			refusal(t, err)
			return
		}
		again := derOf(new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
		if len(sig) != 64 || !bytes.Equal(again, der) && !bytes.Equal(otherHalf(again), der) {
			t.Fatalf("%x became %x", der, sig)
		}
	})
}

// A public key that is read is the one that crypto/x509 finds in the same bytes, and no other spelling of it is read.
func FuzzNewPublicKey(f *testing.F) {
	for _, public := range []any{ed25519.PublicKey(make([]byte, 32)), &newAuthenticator(f, reviewer).key.PublicKey} {
		spki, err := x509.MarshalPKIXPublicKey(public)
		noError(f, err)
		f.Add(spki)
	}
	f.Fuzz(func(t *testing.T, spki []byte) {
		k, err := counterfoil.NewPublicKey(spki, keyParams())
		if err != nil {
			refusal(t, err)
			return
		}
		public, err := x509.ParsePKIXPublicKey(spki)
		noError(t, err)
		again, err := x509.MarshalPKIXPublicKey(public)
		noError(t, err)
		if !bytes.Equal(again, spki) || k.ID == "" {
			t.Fatalf("%x is another spelling", spki)
		}
	})
}

func FuzzParseDecision(f *testing.F) {
	signed(f, "decision", decisionPayload(), counterfoil.ParseDecision, (*counterfoil.Decision).Envelope)
}

// A bundle that was changed by one byte does not verify; one that parses prints in the same bytes.
func FuzzParseBundle(f *testing.F) {
	good := newLab(f).bundle()
	f.Add(good.Encode())
	redacted := *good
	redacted.Operation = nil
	f.Add(redacted.Encode())
	known := [][]byte{good.Encode(), redacted.Encode()}
	keys := allKeys(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := counterfoil.ParseBundle(b)
		if (v == nil) == (err == nil) {
			t.Fatalf("value %v, error %v", v, err)
		}
		if err != nil {
			refusal(t, err, counterfoil.CodePolicyDenied, counterfoil.CodeIntegrityFailed)
			return
		}
		if got := v.Encode(); !bytes.Equal(got, b) {
			t.Fatalf("printed %s\nread    %s", got, b)
		}
		rep, err := counterfoil.VerifyBundle(b, keys, tomorrow())
		if (rep == nil) == (err == nil) {
			t.Fatalf("report %v, error %v", rep, err)
		}
		if err == nil && !slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, b) }) {
			t.Fatalf("a bundle that nobody signed verifies: %s", b)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	f.Add(digestOf("plan", 1))
	f.Add("sha256:")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := counterfoil.ParseDigest(s)
		if err != nil {
			refusal(t, err)
			return
		}
		if d.String() != s || d.IsZero() {
			t.Fatalf("%q became %q", s, d)
		}
	})
}

func FuzzCheckIdentity(f *testing.F) {
	for _, s := range []string{"a", " a", "a\u200b", "e\u0301", "é", "\xff", "\u3164", "😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := consumptionPayload()
		p["tenant"] = s
		_, parsed := counterfoil.ParseConsumption(envelopeOf("consumption", canonical(p)))
		checked := counterfoil.CheckIdentity(s)
		if bytes.ToValidUTF8([]byte(s), nil) != nil && string(bytes.ToValidUTF8([]byte(s), nil)) != s {
			if checked == nil {
				t.Fatalf("%q is a name", s)
			}
			return
		}
		if (parsed == nil) != (checked == nil) {
			t.Fatalf("%q: parsed %v, checked %v", s, parsed, checked)
		}
	})
}

// FuzzCall fills a call with anything: nothing panics, and what is accepted is what was said.
func FuzzCall(f *testing.F) {
	f.Add("plan-1", "acme", "agent:planner", "query", "tools/call", "incidents", "v1", "a:read", `{"a":1}`, int64(1), int64(2))
	f.Fuzz(func(t *testing.T, id, tenant, actor, tool, method, source, version, scope, arguments string, rows, size int64) {
		args, err := counterfoil.ParseArguments([]byte(arguments))
		if err != nil {
			args = nil
		}
		c := &counterfoil.Call{
			PlanID: id, Tenant: tenant, Audience: "log", Actor: actor, Tool: tool, Method: method, Effect: counterfoil.EffectMutation,
			Arguments: args, Fields: []string{scope}, Rows: rows, Bytes: size, Source: counterfoil.Source{
				ID: source, SchemaVersion: version, SourceVersion: version, Scopes: []string{scope}, DataMode: counterfoil.DataLive,
				ObservedAt: now(), Attribution: version,
			},
		}
		p, err := counterfoil.ParsePlan(c.Plan())
		if err != nil {
			refusal(t, err)
			return
		}
		s := p.Steps()[0]
		if p.ID() != id || p.Tenant() != tenant || p.Actor() != actor || s.Tool != tool || s.QueryPlanID != method ||
			s.Source.ID != source || s.Source.SchemaVersion != version || s.Source.Scopes[0] != scope || s.Rows != rows || s.Bytes != size {
			t.Fatalf("the plan says something else: %s", p.Canonical())
		}
		pol, err := counterfoil.ParsePolicy(c.Policy(counterfoil.ResultDigest(nil), 1e9))
		if err != nil {
			t.Fatalf("the policy of a good plan: %v", err)
		}
		dry, err := p.DryRun(pol, now())
		if err != nil {
			t.Fatalf("the projected policy denies its own call: %v", err)
		}
		op, err := counterfoil.ParseOperation(c.Operation(), pol)
		if err != nil || op.InputDigest() != s.InputDigest {
			t.Fatalf("the operation of a good plan: %v", err)
		}
		_, err = counterfoil.Approve(context.Background(), dry, counterfoil.ApprovalRequest{
			ID: "a", Authority: counterfoil.AuthorityPolicy, IssuedAt: now(), ExpiresAt: now().Add(1e9),
		}, policyKey(t), now())
		if err != nil && !errors.Is(err, counterfoil.CodeSelfApproval) {
			t.Fatal(err)
		}
	})
}
