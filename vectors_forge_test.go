package counterfoil_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A forged bundle is one that an attacker with all keys is making: its payloads, who signs them, and the verifier's ring.
type forged struct {
	t          testing.TB
	lab        *lab
	d          doc // the bundle
	a, c, r, g doc // the payloads of approval, consumption record, receipt and standing grant
	signers    map[string][]*counterfoil.PrivateKey
	ring       doc
	now        time.Time
	log        *forgedLog                 // nil for none
	after      func(d doc)                // on the bundle when all is signed
	raw        func(bundle []byte) []byte // on its bytes
}

func newForged(t testing.TB, l *lab) *forged {
	t.Helper()
	f := &forged{
		t: t, lab: l, d: asDoc(decode(l.bundle().Encode())), ring: asDoc(decode(l.x.Keys.JSON())), now: tomorrow(),
		signers: map[string][]*counterfoil.PrivateKey{
			"approval": {approverKey(t)}, "consumption": {ledgerKey(t)}, "receipt": {receiptKey(t)}, "standingGrant": {approverKey(t)},
		},
	}
	f.a, f.c, f.r = f.payload("approval"), f.payload("consumption"), f.payload("receipt")
	if f.d["standingGrant"] != nil {
		f.g = f.payload("standingGrant")
		f.signers["approval"] = []*counterfoil.PrivateKey{policyKey(t)}
	}
	return f
}

func (f *forged) payload(member string) doc {
	raw, err := base64.StdEncoding.DecodeString(asString(inside(f.d, member, "payload")))
	noError(f.t, err)
	return asDoc(decode(raw))
}

// setPayload sets an envelope's payload without signing it.
func setPayload(d doc, member string, payload []byte) {
	asDoc(d[member])["payload"] = base64.StdEncoding.EncodeToString(payload)
}

// signature returns one signature of an envelope.
func signatureIn(d doc, member string) doc { return asDoc(inside(d, member, "signatures", 0)) }

// key returns a key of the ring by its role; nil takes it out.
func (f *forged) key(role string, change func(doc)) {
	all := list{}
	for _, k := range asList(f.ring["keys"]) {
		if asDoc(k)["role"] == role {
			if change == nil {
				continue
			}
			change(asDoc(k))
		}
		all = append(all, k)
	}
	f.ring["keys"] = all
}

// rebind sets a member to the new digest, unless the attacker wants it to be another one.
func rebind(d doc, member, before, after string) {
	if d[member] == before {
		d[member] = after
	}
}

// seal signs what was changed and binds the documents to each other again.
func (f *forged) seal() []byte {
	grant, approval, use := digestOf("standing-grant", f.payloadOrNil("standingGrant")), digestOf("approval", f.payload("approval")), digestOf("use", f.payload("consumption"))
	if f.g != nil {
		rebind(asDoc(f.a["authority"]), "digest", grant, digestOf("standing-grant", f.g))
		f.sign("standingGrant", "standing-grant", f.g)
	}
	rebind(f.c, "approvalDigest", approval, digestOf("approval", f.a))
	rebind(f.r, "approvalDigest", approval, digestOf("approval", f.a))
	rebind(f.r, "useDigest", use, digestOf("use", f.c))
	f.sign("approval", "approval", f.a)
	f.sign("consumption", "consumption", f.c)
	f.sign("receipt", "receipt", f.r)
	if f.log != nil {
		f.d["log"] = f.log.doc(f.t)
	}
	if f.after != nil {
		f.after(f.d)
	}
	b := canonical(f.d)
	if f.raw != nil {
		b = f.raw(b)
	}
	return b
}

func (f *forged) payloadOrNil(member string) any {
	if f.d[member] == nil {
		return nil
	}
	return f.payload(member)
}

// sign leaves an envelope alone whose payload is what it was and whose usual key is to sign.
func (f *forged) sign(member, kind string, payload doc) {
	made := forgeEnvelope(f.t, kind, payload, f.signers[member]...)
	if string(canonical(f.payload(member))) == string(canonical(payload)) && len(asList(inside(f.d, member, "signatures"))) > 1 {
		return
	}
	if signatureIn(f.d, member)["authenticatorData"] != nil && string(canonical(f.payload(member))) == string(canonical(payload)) {
		return
	}
	f.d[member] = decode(made)
}

// A forgery is one bundle that must be refused.
type forgery struct {
	name, code string
	lab        func(testing.TB) *lab // nil for the usual one
	change     func(*forged)
}

// Every bundle here has one fault, and is refused with the code of that fault. To rewrite: go test -run TestVectors . -update
func TestVectors_refused(t *testing.T) {
	usual := string(newLab(t).x.Keys.JSON())
	vector(t, "keys-all.txt", "4 keys", []byte(usual))
	seen := map[string]bool{}
	for _, c := range forgeries() {
		t.Run(c.name, func(t *testing.T) {
			makeLab := c.lab
			if makeLab == nil {
				makeLab = func(t testing.TB) *lab { return newLab(t) }
			}
			f := newForged(t, makeLab(t))
			c.change(f)
			b := f.seal()
			name := fileName(c.name)
			if seen[name] {
				t.Fatalf("two vectors are called %s", name)
			}
			seen[name] = true
			keys := "keys-all.txt"
			if ring := canonical(f.ring); string(ring) != usual {
				keys = "refused/" + name + "-keys.txt"
				writeVector(t, keys, ring, "expect: "+fmt.Sprintf("%d keys", len(asList(f.ring["keys"]))), "what: the keys for: "+c.name, "as: keys")
			}
			writeVector(t, "refused/"+name+".txt", b, "expect: "+c.code, "what: "+c.name, "as: bundle", "keys: "+keys, "now: "+stamp(f.now))
			ring, err := counterfoil.ParseKeyRing(canonical(f.ring))
			noError(t, err)
			_, err = counterfoil.VerifyBundle(b, ring, f.now)
			if string(counterfoil.CodeOf(err)) != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
		})
	}
}

// fileName is a sentence as the name of a file.
func fileName(s string) string {
	out := []byte(s)
	for i, c := range out {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c >= 'A' && c <= 'Z':
			out[i] = c + 'a' - 'A'
		default:
			out[i] = '-'
		}
	}
	return string(out)
}

// Decisions that must be refused: what was asked about is deny, of the dry run.
func TestVectors_decisions(t *testing.T) {
	subject := mustDryRun(t, plan(), policy()).Digest().String()
	good := decisionPayload()
	good["subject"] = subject
	for _, c := range []struct {
		name, code string
		key        *counterfoil.PrivateKey
		change     func(doc)
	}{
		{"a decision of another tenant", "integrity-failed", approverKey(t), func(d doc) { d["tenant"] = "other" }},
		{"a decision about something else", "integrity-failed", approverKey(t), func(d doc) { d["subject"] = otherDigest() }},
		{"a decision with another verb", "integrity-failed", approverKey(t), func(d doc) { d["verb"] = "classify" }},
		{"a decision with a verb that is none", "invalid-input", approverKey(t), func(d doc) { d["verb"] = "approve" }},
		{"a denial that says why it was revoked", "invalid-input", approverKey(t), func(d doc) { d["why"] = "superseded" }},
		{"a revocation that does not say why", "invalid-input", approverKey(t), func(d doc) { d["verb"] = "revoke" }},
		{"a decision in the name of another", "signature-invalid", approverKey(t), func(d doc) { d["approver"] = "mallory@example.test" }},
		{"a decision by the policy key", "signature-invalid", policyKey(t), func(doc) {}},
		{"a decision before its key began", "signature-invalid", approverKey(t), func(d doc) { d["decidedAt"] = "1999-12-31T23:59:59.999Z" }},
	} {
		d := asDoc(clone(good))
		c.change(d)
		writeVector(t, "refused/"+fileName(c.name)+".txt", forgeEnvelope(t, "decision", d, c.key), "expect: "+c.code, "what: "+c.name, "as: decision",
			"keys: keys-all.txt", "tenant: acme", "audience: log.example.test", "verb: deny", "subject: "+subject)
	}
}
