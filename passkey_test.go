package counterfoil_test

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

func passkeyLab(t testing.TB) *lab {
	t.Helper()
	l := newLab(t)
	l.x.Approval, l.x.Keys = passkeyApprovalOf(t, l.x.DryRun, request()), newAuthenticator(t, reviewer).ring(t)
	return l
}

func TestPasskey(t *testing.T) {
	t.Parallel()
	l := passkeyLab(t)
	b := l.bundle().Encode()
	rep, err := counterfoil.VerifyBundle(b, l.x.Keys, tomorrow())
	noError(t, err)
	if k := rep.ApprovalKeys[0]; k.Passkey == nil || k.Custody != counterfoil.CustodyHolder || k.Owner != reviewer {
		t.Errorf("approved with %+v", k)
	}
	env, sigs := signaturesOf(t, l.x.Approval)
	sig := asDoc(sigs[0])
	if len(sigs) != 1 || len(sig) != 4 || len(asString(sig["sig"])) != 88 || env["payloadType"] != "application/vnd.counterfoil.approval.v1+json" {
		t.Errorf("the envelope has %v", env)
	}
	plain := mustApprove(t, l.x.DryRun, request(), approverKey(t))
	if plain.Digest() != l.x.Approval.Digest() {
		t.Error("the digest depends on the kind of signature")
	}
	if d := reparsed(t, l.x.Approval); !bytes.Equal(d.Envelope(), l.x.Approval.Envelope()) {
		t.Error("the envelope read back prints otherwise")
	}
}

// What browsers and authenticators may do is taken; what they may not is refused, at once.
func TestPending_Attach(t *testing.T) {
	t.Parallel()
	a := newAuthenticator(t, reviewer)
	dry := mustDryRun(t, plan(), policy())
	for _, c := range []struct {
		name string
		ok   bool
		f    func(*ceremony)
	}{
		{"as it is", true, func(*ceremony) {}},
		{"the other half", true, func(c *ceremony) { c.der = otherHalf }},
		{"not backed up", true, func(c *ceremony) { c.flags = 0x05 }},
		{"eligible for backup", true, func(c *ceremony) { c.flags = 0x0d }},
		{"with extensions", true, func(c *ceremony) { c.flags, c.more = 0x85, []byte{0xa0} }},
		{"another known origin", true, func(c *ceremony) { c.client["origin"] = "https://admin.gate.example.test:8443" }},
		{"without crossOrigin", true, func(c *ceremony) { delete(c.client, "crossOrigin") }},
		{"members that are not known", true, func(c *ceremony) {
			c.client["other_keys_can_be_added_here"], c.client["x"] = "do not compare clientDataJSON against a template", list{doc{"type": 1.5}, nil}
		}},
		{"white space", true, func(c *ceremony) { c.raw = append(canonical(c.client), ' ') }},
		{"an escaped name", true, func(c *ceremony) {
			c.raw = bytes.Replace(canonical(c.client), []byte(`"type"`), []byte(`"\u0074ype"`), 1)
		}},

		{"a type of registration", false, func(c *ceremony) { c.client["type"] = "webauthn.create" }},
		{"no type", false, func(c *ceremony) { delete(c.client, "type") }},
		{"a type that is no text", false, func(c *ceremony) { c.client["type"] = list{typeGet} }},
		{"another challenge", false, func(c *ceremony) { c.client["challenge"] = base64.RawURLEncoding.EncodeToString(make([]byte, 32)) }},
		{"a padded challenge", false, func(c *ceremony) { c.client["challenge"] = asString(c.client["challenge"]) + "=" }},
		{"no challenge", false, func(c *ceremony) { delete(c.client, "challenge") }},
		{"another origin", false, func(c *ceremony) { c.client["origin"] = "https://evil.example.test" }},
		{"an origin that is near", false, func(c *ceremony) { c.client["origin"] = rpOrigin + "/" }},
		{"an origin in capitals", false, func(c *ceremony) { c.client["origin"] = strings.ToUpper(rpOrigin) }},
		{"no origin", false, func(c *ceremony) { delete(c.client, "origin") }},
		{"inside another page", false, func(c *ceremony) { c.client["crossOrigin"] = true }},
		{"a crossOrigin that is no truth", false, func(c *ceremony) { c.client["crossOrigin"] = "true" }},
		{"with a top origin", false, func(c *ceremony) { c.client["topOrigin"] = rpOrigin }},
		{"a member twice", false, func(c *ceremony) { c.raw = slices.Concat([]byte(`{"type":"webauthn.get",`), canonical(c.client)[1:]) }},
		{"a member twice in disguise", false, func(c *ceremony) {
			c.raw = slices.Concat([]byte(`{"ori\u0067in":"https://evil.example.test",`), canonical(c.client)[1:])
		}},
		{"another letter case", false, func(c *ceremony) { c.client["Type"] = c.client["type"]; delete(c.client, "type") }},
		{"a list", false, func(c *ceremony) { c.raw = []byte(`[]`) }},
		{"no text", false, func(c *ceremony) { c.raw = []byte{} }},
		{"a byte order mark", false, func(c *ceremony) { c.raw = slices.Concat([]byte("\xef\xbb\xbf"), canonical(c.client)) }},
		{"something behind", false, func(c *ceremony) { c.raw = append(canonical(c.client), '{', '}') }},
		{"too long", false, func(c *ceremony) { c.client["x"] = strings.Repeat("a", 4096) }},
		{"too deep", false, func(c *ceremony) { c.client["x"] = list{list{list{list{list{list{list{list{list{}}}}}}}}} }},

		{"another relying party", false, func(c *ceremony) { c.rpID = "example.test" }},
		{"nobody there", false, func(c *ceremony) { c.flags = flagsUsual &^ 0x01 }},
		{"not verified", false, func(c *ceremony) { c.flags = flagsUsual &^ 0x04 }},
		{"backed up but not eligible", false, func(c *ceremony) { c.flags = 0x15 }},
		{"a new credential", false, func(c *ceremony) { c.flags |= 0x40 }},
		{"a reserved flag", false, func(c *ceremony) { c.flags |= 0x02 }},
		{"another reserved flag", false, func(c *ceremony) { c.flags |= 0x20 }},
		{"extensions without flag", false, func(c *ceremony) { c.more = []byte{0xa0} }},
		{"a flag without extensions", false, func(c *ceremony) { c.flags |= 0x80 }},
		{"too much data", false, func(c *ceremony) { c.flags, c.more = 0x85, make([]byte, 1024) }},
		{"a fixed signature", false, func(c *ceremony) {
			c.der = func(der []byte) []byte {
				b, err := counterfoil.FixedSignature(der)
				noError(t, err)
				return b
			}
		}},
		{"no signature", false, func(c *ceremony) { c.der = func([]byte) []byte { return nil } }},
		{"a signature of something else", false, func(c *ceremony) { c.der = func([]byte) []byte { return []byte{0x30, 6, 2, 1, 1, 2, 1, 1} } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := counterfoil.PrepareApproval(dry, request(), a.public, now())
			noError(t, err)
			got, err := p.Attach(a.assert(t, p.Message().Challenge(), c.f))
			if c.ok {
				noError(t, err)
				l := newLab(t)
				l.x.Approval, l.x.Keys = reparsed(t, got), a.ring(t)
				_, _, err = l.execute()
				noError(t, err)
				return
			}
			if code := counterfoil.CodeOf(err); got != nil || code != counterfoil.CodeSignatureInvalid && code != counterfoil.CodeInvalidInput {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	p, err := counterfoil.PrepareApproval(dry, request(), a.public, now())
	noError(t, err)
	good := a.assert(t, p.Message().Challenge())
	short := good
	short.AuthenticatorData = good.AuthenticatorData[:36]
	none := good
	none.AuthenticatorData, none.ClientDataJSON = nil, nil
	for _, bad := range []counterfoil.Assertion{{}, short, none, {Signature: good.Signature}} {
		if out, err := p.Attach(bad); err == nil || out != nil {
			t.Errorf("got %v, %v", out, err)
		}
	}
	if !bytes.Contains(p.Payload(), []byte(`"counterfoil.approval"`)) {
		t.Errorf("the payload is %s", p.Payload())
	}
	out, err := p.Attach(good)
	noError(t, err)
	before := out.Envelope()
	good.AuthenticatorData[0] ^= 1
	if !bytes.Equal(before, out.Envelope()) {
		t.Error("the approval shares memory with the assertion")
	}
}

// An assertion is for one document: of the same person, for any other, it does not fit.
func TestPending_replay(t *testing.T) {
	t.Parallel()
	a, b := newAuthenticator(t, reviewer), newAuthenticator(t, colleague)
	dry := mustDryRun(t, plan(), policy())
	p, err := counterfoil.PrepareApproval(dry, request(), a.public, now())
	noError(t, err)
	good := a.assert(t, p.Message().Challenge())
	req := request()
	req.ID = "approval-2"
	second, err := counterfoil.PrepareApproval(dry, req, a.public, now())
	noError(t, err)
	wantCode(t, drop2(second.Attach(good)), counterfoil.CodeSignatureInvalid)
	no := counterfoil.DecisionParams{Tenant: "acme", Audience: "log.example.test", Verb: counterfoil.VerbDeny, Subject: dry.Digest()}
	deny, err := counterfoil.PrepareDecision(no, a.public, now())
	noError(t, err)
	wantCode(t, drop2(deny.Attach(good)), counterfoil.CodeSignatureInvalid)
	wantCode(t, drop2(p.Attach(b.assert(t, p.Message().Challenge()))), counterfoil.CodeSignatureInvalid)
	said, err := deny.Attach(a.assert(t, deny.Message().Challenge()))
	noError(t, err)
	noError(t, said.Verify(a.ring(t), no))
	wantCode(t, drop2(counterfoil.PrepareDecision(counterfoil.DecisionParams{}, a.public, now())), counterfoil.CodeInvalidInput)
	wantCode(t, drop2(counterfoil.PrepareApproval(nil, req, a.public, now())), counterfoil.CodeInvalidInput)

	// No signer signs with a passkey.
	wantCode(t, drop2(counterfoil.Approve(t.Context(), dry, request(), &signer{
		key: approverKey(t), public: func() counterfoil.PublicKey { return a.public },
	}, now())), counterfoil.CodeSignatureInvalid)

	// A plain key attaches nothing, and neither does a passkey of another role or a public key that nobody made.
	plain := a.public
	plain.Passkey = nil
	role := a.public
	role.Role = counterfoil.RolePolicy
	empty := counterfoil.PublicKey{Owner: reviewer, Role: counterfoil.RoleApprover, Passkey: a.public.Passkey}
	for _, k := range []counterfoil.PublicKey{plain, role, empty} {
		q, err := counterfoil.PrepareApproval(dry, request(), k, now())
		noError(t, err)
		wantCode(t, drop2(q.Attach(good)), counterfoil.CodeSignatureInvalid)
	}
}

// A key is of one kind, by the ring's word: neither kind of signature passes for the other, and what the passkey is bound
// to comes from the ring too.
func TestPasskey_kind(t *testing.T) {
	t.Parallel()
	a := newAuthenticator(t, reviewer)
	same, err := counterfoil.NewES256PrivateKey(scalarOf("passkey of "+reviewer), es256Params(counterfoil.RoleApprover, reviewer))
	noError(t, err)
	if same.Public().ID != a.public.ID {
		t.Fatal("these are two keys")
	}
	l := newLab(t)
	l.x.Keys = a.ring(t)
	own := mustApprove(t, l.x.DryRun, request(), same)
	for name, approval := range map[string]*counterfoil.Approval{"made here": own, "read": reparsed(t, own)} {
		l.x.Approval = approval
		l.refused(counterfoil.CodeSignatureInvalid)
		_ = name
	}
	l.x.Approval = passkeyApproval(t)
	l.x.Keys = mustRing(t, same, ledgerKey(t), receiptKey(t))
	l.refused(counterfoil.CodeSignatureInvalid)
	for _, f := range []func(*counterfoil.PublicKey){
		func(k *counterfoil.PublicKey) { k.Passkey.RPID = "example.test" },
		func(k *counterfoil.PublicKey) { k.Passkey.Origins = []string{"https://other.gate.example.test"} },
		func(k *counterfoil.PublicKey) { k.Owner = colleague },
		func(k *counterfoil.PublicKey) { k.Tenants = []string{"other"} },
	} {
		b := newAuthenticator(t, reviewer)
		f(&b.public)
		l.x.Keys = b.ring(t)
		l.refused(counterfoil.CodeSignatureInvalid)
	}
	l.x.Keys = a.ring(t)
	_, _, err = l.execute()
	noError(t, err)
}

// Parts of two passkey signatures don't mix, and the envelope has one spelling of each.
func TestPasskey_envelope(t *testing.T) {
	t.Parallel()
	one := passkeyApproval(t)
	req := request()
	req.ID = "approval-2"
	_, two := signaturesOf(t, passkeyApprovalOf(t, mustDryRun(t, plan(), policy()), req))
	a := newAuthenticator(t, reviewer)
	for _, member := range []string{"authenticatorData", "clientDataJSON", "sig"} {
		env, sigs := signaturesOf(t, one)
		if member == "authenticatorData" {
			raw, err := base64.StdEncoding.DecodeString(asString(asDoc(sigs[0])[member]))
			noError(t, err)
			raw[36] ^= 1 // the counter alone
			asDoc(sigs[0])[member] = base64.StdEncoding.EncodeToString(raw)
		} else {
			asDoc(sigs[0])[member] = asDoc(two[0])[member]
		}
		l := newLab(t)
		var err error
		l.x.Approval, err = counterfoil.ParseApproval(canonical(env))
		noError(t, err)
		l.x.Keys = a.ring(t)
		l.refused(counterfoil.CodeSignatureInvalid)
	}
	for name, f := range map[string]func(doc){
		"no client data":        func(s doc) { delete(s, "clientDataJSON") },
		"no authenticator data": func(s doc) { delete(s, "authenticatorData") },
		"empty client data":     func(s doc) { s["clientDataJSON"] = "" },
		"base64url":             func(s doc) { s["sig"] = strings.NewReplacer("+", "-", "/", "_").Replace(asString(s["sig"])) + "-" },
		"no padding":            func(s doc) { s["authenticatorData"] = strings.TrimRight(asString(s["authenticatorData"]), "=") },
		"a user handle":         func(s doc) { s["userHandle"] = "AAAA" },
	} {
		env, sigs := signaturesOf(t, one)
		f(asDoc(sigs[0]))
		if err := drop(counterfoil.ParseApproval)(canonical(env)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
