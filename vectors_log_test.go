package counterfoil_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// A forgedLog is a log that an attacker with all keys is making, and the proof from it.
type forgedLog struct {
	leaves             []doc
	started, completed int
	revoked            map[int]*counterfoil.Decision // the decisions whose proofs go with it, by their leaves
	tenant             string
	key                counterfoil.Signer
	witnesses          []cosigning
	note               func(string) string // on the checkpoint when all is signed
}

type cosigning struct {
	key counterfoil.Signer
	at  time.Time
}

// chief is a second person, who revokes.
const chief = "chief@example.test"

func chiefKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleApprover, chief, "acme")
}

// logLab is the usual lab with everybody of a log in its ring.
func logLab(t testing.TB) *lab {
	t.Helper()
	l := newLab(t)
	l.x.Keys = mustRing(t, approverKey(t), policyKey(t), ledgerKey(t), receiptKey(t), checkpointKey(t), witnessKey(t), chiefKey(t))
	return l
}

// policyLogLab is logLab with an approval that policy gave.
func policyLogLab(t testing.TB) *lab {
	t.Helper()
	l := logLab(t)
	req := request()
	req.Authority = counterfoil.AuthorityPolicy
	l.x.Approval = reparsed(t, mustApprove(t, l.x.DryRun, req, policyKey(t)))
	return l
}

// grantLogLab is logLab with an approval under a standing grant.
func grantLogLab(t testing.TB) *lab {
	t.Helper()
	l := grantLab(t, mustGrant(t, nil))
	l.x.Keys = logLab(t).x.Keys
	return l
}

// newForgedLog is the log of a lab that has executed, between the events of others.
func newForgedLog(t testing.TB, l *lab) *forgedLog {
	t.Helper()
	g := &forgedLog{tenant: "acme", key: checkpointKey(t), started: 1, completed: 3, revoked: map[int]*counterfoil.Decision{}}
	g.leaves = []doc{otherEvent(t, "other-1"), nil, otherEvent(t, "other-2"), nil, otherEvent(t, "other-3")}
	for i, e := range l.ledger.Events() {
		g.leaves[1+2*i] = asDoc(decode(e))
	}
	return g
}

func otherEvent(t testing.TB, execution string) doc {
	return asDoc(decode(sealedEvent(t, counterfoil.PhaseRefused, counterfoil.EventParams{
		Tenant: "acme", Audience: auditor, ExecutionID: execution, Actor: "agent:planner", Code: "policy-denied",
	})))
}

// revokeAt appends a revocation to the log, or puts it before the leaf at the index.
func (g *forgedLog) revokeAt(t testing.TB, at int, d *counterfoil.Decision) {
	t.Helper()
	e := asDoc(decode(sealedEvent(t, counterfoil.PhaseRevoked, counterfoil.EventParams{
		Tenant: "acme", Audience: auditor, ExecutionID: "revocation", Code: string(d.Why()), DecisionDigest: d.Digest(),
	})))
	e["time"] = stamp(d.At())
	g.leaves = slices.Insert(g.leaves, at, e)
	moved := map[int]*counterfoil.Decision{at: d}
	for i, d := range g.revoked {
		if i >= at {
			i++
		}
		moved[i] = d
	}
	g.revoked = moved
	for _, i := range []*int{&g.started, &g.completed} {
		if *i >= at {
			*i++
		}
	}
}

func (g *forgedLog) revoke(t testing.TB, d *counterfoil.Decision) { g.revokeAt(t, len(g.leaves), d) }

// doc seals the log and returns the proof as it stands in a bundle.
func (g *forgedLog) doc(t testing.TB) doc {
	t.Helper()
	var sealed [][]byte
	for i, e := range g.leaves {
		e = maps.Clone(e)
		if e["sequence"] != nil && asNumber(decode(canonical(e["sequence"]))) < 1000 { // others are faults
			e["sequence"] = i + 1
		}
		sealed = append(sealed, canonical(e))
	}
	x := newTree(t, sealed...)
	c, err := counterfoil.SignCheckpoint(t.Context(), auditor, g.tenant, x.n, x.root(x.n), g.key)
	noError(t, err)
	for _, w := range g.witnesses {
		c, err = c.Cosign(t.Context(), w.key, w.at)
		noError(t, err)
	}
	note := string(c.Note())
	if g.note != nil {
		note = g.note(note)
	}
	at := func(i int) doc {
		p, err := tlog.ProveRecord(x.n, int64(i), x)
		noError(t, err)
		path := list{}
		for _, h := range p {
			path = append(path, base64.StdEncoding.EncodeToString(h[:]))
		}
		return doc{"event": decode(sealed[i]), "index": i, "path": path}
	}
	d := doc{"checkpoint": note, "started": at(g.started), "completed": at(g.completed)}
	if len(g.revoked) > 0 {
		all := list{}
		for _, i := range slices.Sorted(maps.Keys(g.revoked)) {
			r := at(i)
			r["decision"] = decode(g.revoked[i].Envelope())
			all = append(all, r)
		}
		d["revocations"] = all
	}
	return d
}

// mustRevoke is a person's word that something was compromised.
func mustRevoke(t testing.TB, subject counterfoil.Digest, key *counterfoil.PrivateKey, at time.Time) *counterfoil.Decision {
	t.Helper()
	d, err := counterfoil.Decide(t.Context(), revokeParams(subject), key, at)
	noError(t, err)
	return d
}

func keySubject(k *counterfoil.PrivateKey) counterfoil.Digest {
	return counterfoil.KeySubject(k.Public().ID)
}

// lost is when keys were revoked: after the use.
func lost() time.Time { return at(20, 30, 0, 0) }

// logged changes the log of a bundle.
func logged(change func(f *forged, g *forgedLog)) func(*forged) {
	return func(f *forged) {
		f.log = newForgedLog(f.t, f.lab)
		change(f, f.log)
	}
}

// compromise marks the keys of a role in the ring, but for the chief's.
func (f *forged) compromise(role string, at time.Time) {
	f.key(role, func(k doc) {
		if k["owner"] != chief {
			k["revoked"] = doc{"at": stamp(at), "why": "compromised"}
		}
	})
}

func (g *forgedLog) witnessed(t testing.TB, at time.Time) {
	g.witnesses = append(g.witnesses, cosigning{witnessKey(t), at})
}

// Bundles whose logs prove what the bundle alone does not.
func TestVectors_logged(t *testing.T) {
	for name, c := range map[string]struct {
		lab    func(testing.TB) *lab
		change func(f *forged, g *forgedLog)
	}{
		"logged":           {logLab, func(*forged, *forgedLog) {}},
		"logged-witnessed": {logLab, func(f *forged, g *forgedLog) { g.witnessed(f.t, now()) }},
		"logged-by-a-witness-nobody-knows": {logLab, func(f *forged, g *forgedLog) {
			g.witnesses = []cosigning{{namedWitness(f.t, "another.example.test"), now()}}
		}},
		"logged-approver-compromised": {logLab, func(f *forged, g *forgedLog) {
			f.compromise("approver", lost())
			g.revoke(f.t, mustRevoke(f.t, keySubject(approverKey(f.t)), chiefKey(f.t), lost()))
		}},
		"logged-policy-key-compromised": {policyLogLab, func(f *forged, g *forgedLog) {
			f.signers["approval"] = []*counterfoil.PrivateKey{policyKey(f.t)}
			f.compromise("policy", lost())
			g.revoke(f.t, mustRevoke(f.t, keySubject(policyKey(f.t)), chiefKey(f.t), lost()))
		}},
		"logged-giver-of-the-grant-compromised": {grantLogLab, func(f *forged, g *forgedLog) {
			f.compromise("approver", lost())
			g.revoke(f.t, mustRevoke(f.t, keySubject(approverKey(f.t)), chiefKey(f.t), lost()))
		}},
		"logged-while-it-ran-compromised": {logLab, func(f *forged, g *forgedLog) {
			f.compromise("approver", now())
			g.revokeAt(f.t, 2, mustRevoke(f.t, keySubject(approverKey(f.t)), chiefKey(f.t), now()))
		}},
		"logged-who-revoked-compromised": {logLab, func(f *forged, g *forgedLog) {
			f.compromise("approver", lost())
			f.key("approver", func(k doc) {
				if k["owner"] == chief {
					k["revoked"] = doc{"at": stamp(lost().Add(time.Minute)), "why": "compromised"}
				}
			})
			third := counterfoiltest.Key(f.t, counterfoil.RoleApprover, "third@example.test", "acme")
			f.ring["keys"] = append(asList(f.ring["keys"]), inside(decode(mustRing(f.t, third).JSON()), "keys", 0))
			g.revoke(f.t, mustRevoke(f.t, keySubject(approverKey(f.t)), chiefKey(f.t), lost()))
			g.revoke(f.t, mustRevoke(f.t, keySubject(chiefKey(f.t)), third, lost().Add(time.Minute)))
		}},
		"logged-revoked-later": {logLab, func(f *forged, g *forgedLog) {
			g.revoke(f.t, mustRevoke(f.t, f.lab.x.Approval.Digest(), approverKey(f.t), lost()))
			g.revoke(f.t, mustRevoke(f.t, counterfoil.ActorSubject("agent:planner"), approverKey(f.t), lost()))
		}},
		"logged-ledger-compromised": {logLab, func(f *forged, g *forgedLog) {
			f.compromise("ledger", lost())
			g.witnessed(f.t, lost().Add(-time.Second))
		}},
		"logged-receipt-key-compromised": {logLab, func(f *forged, g *forgedLog) {
			f.compromise("receipt", lost())
			g.witnessed(f.t, lost().Add(-time.Second))
		}},
		"logged-checkpoint-key-compromised": {logLab, func(f *forged, g *forgedLog) {
			f.compromise("checkpoint", lost())
			g.witnessed(f.t, lost().Add(-time.Second))
		}},
		"logged-checkpoint-key-began-later": {logLab, func(f *forged, _ *forgedLog) {
			f.key("checkpoint", func(k doc) { k["notBefore"] = stamp(lost()) })
		}},
	} {
		f := newForged(t, c.lab(t))
		logged(c.change)(f)
		b := f.seal()
		ring, err := counterfoil.ParseKeyRing(canonical(f.ring))
		noError(t, err)
		rep, err := counterfoil.VerifyBundle(b, ring, tomorrow())
		if err != nil || !rep.Logged || rep.LogSize != int64(len(f.log.leaves)) || len(rep.Witnesses) > 0 != strings.Contains(strings.Join(rep.Checked, ""), "witness") {
			t.Errorf("%s: %v, %+v", name, err, rep)
		}
		vector(t, "bundle-"+name+".txt", "verified", b)
		vector(t, "keys-"+name+".txt", fmt.Sprintf("%d keys", len(ring.Keys())), ring.JSON())
	}
}

func forgedLogs() []forgery {
	after := func(change func(log doc)) func(*forged) {
		return func(f *forged) {
			logged(func(*forged, *forgedLog) {})(f)
			f.after = func(d doc) { change(asDoc(d["log"])) }
		}
	}
	note := func(from, to string) func(*forged) {
		return logged(func(_ *forged, g *forgedLog) {
			g.note = func(s string) string { return strings.Replace(s, from, to, 1) }
		})
	}
	started := func(member string, v any) func(*forged) {
		return logged(func(_ *forged, g *forgedLog) { g.leaves[g.started][member] = v })
	}
	completed := func(member string, v any) func(*forged) {
		return logged(func(_ *forged, g *forgedLog) { g.leaves[g.completed][member] = v })
	}
	return []forgery{
		{"a log without a checkpoint", "invalid-input", logLab, after(func(l doc) { delete(l, "checkpoint") })},
		{"a log without the start", "invalid-input", logLab, after(func(l doc) { delete(l, "started") })},
		{"a log with an unknown member", "invalid-input", logLab, after(func(l doc) { l["trusted"] = true })},
		{"an empty list of revocations", "invalid-input", logLab, after(func(l doc) { l["revocations"] = list{} })},
		{"a hash of 31 bytes", "invalid-input", logLab, after(func(l doc) {
			asDoc(l["started"])["path"] = list{base64.StdEncoding.EncodeToString(make([]byte, 31))}
		})},
		{"a hash that is no base64", "invalid-input", logLab, after(func(l doc) { asDoc(l["started"])["path"] = list{"?"} })},
		{"a path of 65 hashes", "invalid-input", logLab, after(func(l doc) {
			asDoc(l["started"])["path"] = slices.Repeat(list{base64.StdEncoding.EncodeToString(make([]byte, 32))}, 65)
		})},
		{"an index below zero", "invalid-input", logLab, after(func(l doc) { asDoc(l["started"])["index"] = -1 })},
		{"an event with a name in the clear", "invalid-input", logLab, started("actor", "agent:planner")},
		{"an event with free text", "invalid-input", logLab, started("reason", "because")},
		{"a checkpoint with an extension", "invalid-input", logLab, note("\n\n", "\nmore\n\n")},
		{"a checkpoint of no leaves", "invalid-input", logLab, note("\n5\n", "\n0\n")},
		{"a checkpoint's size with a zero in front", "invalid-input", logLab, note("\n5\n", "\n05\n")},
		{"a checkpoint without signatures", "invalid-input", logLab, logged(func(_ *forged, g *forgedLog) {
			g.note = func(s string) string { return s[:strings.Index(s, "— ")] }
		})},
		{"a checkpoint with a signature twice", "invalid-input", logLab, logged(func(_ *forged, g *forgedLog) {
			g.note = func(s string) string { return s + s[strings.Index(s, "— "):] }
		})},
		{"a start of another execution", "integrity-failed", logLab, started("executionId", "execution-2")},
		{"a start of another use", "integrity-failed", logLab, started("useDigest", otherDigest())},
		{"a start of another approval", "integrity-failed", logLab, started("approvalDigest", otherDigest())},
		{"a start of another plan", "integrity-failed", logLab, started("planDigest", otherDigest())},
		{"a start of another effect", "integrity-failed", logLab, started("effect", "mutation")},
		{"a start with a code", "integrity-failed", logLab, started("code", "policy-denied")},
		{"a start in another phase", "integrity-failed", logLab, started("phase", "approved")},
		{"a start of another tenant", "integrity-failed", logLab, started("tenant", "other")},
		{"a start of another log", "integrity-failed", logLab, started("audience", "other.example.test")},
		{"a start before the use", "integrity-failed", logLab, started("time", laterBy(-time.Millisecond))},
		{"a start with another sequence", "integrity-failed", logLab, started("sequence", 1003)},
		{"a completion of another receipt", "integrity-failed", logLab, completed("receiptDigest", otherDigest())},
		{"a completion with another outcome", "integrity-failed", logLab, completed("outcome", "failed")},
		{"a completion with other counts", "integrity-failed", logLab, completed("rows", 2)},
		{"a completion that came late", "integrity-failed", logLab, completed("phase", "late-outcome")},
		{"a completion before the start in time", "integrity-failed", logLab, logged(func(_ *forged, g *forgedLog) {
			g.leaves[g.started]["time"] = laterBy(time.Second)
		})},
		{"a completion before the start in the log", "integrity-failed", logLab, logged(func(_ *forged, g *forgedLog) {
			g.leaves[1], g.leaves[3], g.started, g.completed = g.leaves[3], g.leaves[1], 3, 1
		})},
		{"a start that the log does not have", "integrity-failed", logLab, after(func(l doc) {
			asDoc(inside(l, "started", "event"))["actor"] = "hmac-sha256:" + strings.Repeat("0", 64)
		})},
		{"a path of another leaf", "integrity-failed", logLab, after(func(l doc) { asDoc(l["started"])["path"] = inside(l, "completed", "path") })},
		{"a path with a hash more", "integrity-failed", logLab, after(func(l doc) {
			s := asDoc(l["completed"])
			s["path"] = append(asList(s["path"]), base64.StdEncoding.EncodeToString(make([]byte, 32)))
		})},
		{"a leaf beyond the checkpoint", "integrity-failed", logLab, note("\n5\n", "\n2\n")},
		{"a checkpoint of another tenant", "integrity-failed", logLab, logged(func(f *forged, g *forgedLog) {
			g.tenant, g.key = "other", counterfoiltest.Key(f.t, counterfoil.RoleCheckpoint, "gateway", "other")
		})},
		{"a checkpoint of another size", "signature-invalid", logLab, note("\n5\n", "\n6\n")}, // the paths fit that one too
	}
}

func forgedHistories() []forgery {
	signedBy := func(key func(testing.TB) *counterfoil.PrivateKey) func(*forged) {
		return logged(func(f *forged, g *forgedLog) { g.key = key(f.t) })
	}
	ringed := func(change func(doc)) func(*forged) {
		return logged(func(f *forged, _ *forgedLog) { f.key("checkpoint", change) })
	}
	// compromised revokes the approver's key in the ring; the log has the decision.
	compromised := func(change func(f *forged, g *forgedLog, d *counterfoil.Decision)) func(*forged) {
		return logged(func(f *forged, g *forgedLog) {
			f.compromise("approver", lost())
			change(f, g, mustRevoke(f.t, keySubject(approverKey(f.t)), chiefKey(f.t), lost()))
		})
	}
	lastEvent := func(member string, v any) func(*forged) {
		return compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) {
			g.revoke(f.t, d)
			g.leaves[len(g.leaves)-1][member] = v
		})
	}
	witnessedAt := func(role string, at time.Time) func(*forged) {
		return logged(func(f *forged, g *forgedLog) {
			f.compromise(role, lost())
			g.witnessed(f.t, at)
		})
	}
	gone := func(subject func(f *forged) counterfoil.Digest) func(*forged) {
		return logged(func(f *forged, g *forgedLog) { g.revokeAt(f.t, 1, mustRevoke(f.t, subject(f), chiefKey(f.t), now())) })
	}
	impostor := func(t testing.TB) *counterfoil.PrivateKey {
		return counterfoiltest.Key(t, counterfoil.RoleCheckpoint, "mallory", "acme")
	}
	return []forgery{
		{"a checkpoint by a key that the ring does not have", "signature-invalid", logLab, signedBy(impostor)},
		{"a checkpoint in the name of another log", "signature-invalid", logLab, logged(func(_ *forged, g *forgedLog) {
			g.note = func(s string) string { return strings.Replace(s, "— "+auditor, "— x"+auditor, 1) }
		})},
		{"a checkpoint whose signature does not fit", "signature-invalid", logLab, logged(func(_ *forged, g *forgedLog) {
			g.note = func(s string) string { return s[:len(s)-12] + "AAAAAAAA" + s[len(s)-4:] }
		})},
		{"checkpoint key of another role", "signature-invalid", logLab, ringed(func(k doc) { k["role"] = "receipt" })},
		{"checkpoint key of another tenant", "signature-invalid", logLab, ringed(func(k doc) { k["tenants"] = list{"other"} })},
		{"checkpoint key that had ended", "signature-invalid", logLab, ringed(func(k doc) { k["notAfter"] = stamp(now()) })},
		{"checkpoint key that has not begun", "signature-invalid", logLab, ringed(func(k doc) {
			k["notBefore"] = stamp(tomorrow().Add(time.Millisecond))
		})},
		{"checkpoint key that was superseded", "revoked", logLab, ringed(func(k doc) { k["revoked"] = doc{"at": stamp(now()), "why": "superseded"} })},
		{"a cosignature at another time", "signature-invalid", logLab, logged(func(f *forged, g *forgedLog) {
			g.witnessed(f.t, now())
			g.note = func(s string) string {
				at := strings.LastIndex(s, " ") + 1
				raw, err := base64.StdEncoding.DecodeString(s[at : len(s)-1])
				noError(f.t, err)
				raw[11] ^= 1
				return s[:at] + base64.StdEncoding.EncodeToString(raw) + "\n"
			}
		})},
		{"a cosignature from the future", "clock", logLab, logged(func(f *forged, g *forgedLog) { g.witnessed(f.t, tomorrow().Add(time.Second)) })},
		{"approver key compromised, and no revocation in the log", "revoked", logLab, compromised(func(*forged, *forgedLog, *counterfoil.Decision) {})},
		{"approver key compromised before the use", "revoked", logLab, compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) { g.revokeAt(f.t, 1, d) })},
		{"approver key compromised at another time", "revoked", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			g.revoke(f.t, mustRevoke(f.t, keySubject(approverKey(f.t)), chiefKey(f.t), lost().Add(time.Millisecond)))
		})},
		{"approver key compromised, and another revoked", "revoked", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			g.revoke(f.t, mustRevoke(f.t, keySubject(policyKey(f.t)), chiefKey(f.t), lost()))
		})},
		{"approver key compromised, and revoked as superseded", "revoked", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			p := revokeParams(keySubject(approverKey(f.t)))
			p.Why = counterfoil.RevokedSuperseded
			d, err := counterfoil.Decide(f.t.Context(), p, chiefKey(f.t), lost())
			noError(f.t, err)
			g.revoke(f.t, d)
		})},
		{"approver key compromised, and revoked with itself", "revoked", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			g.revoke(f.t, mustRevoke(f.t, keySubject(approverKey(f.t)), approverKey(f.t), lost()))
		})},
		{"who revoked was compromised before", "revoked", logLab, compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) {
			f.key("approver", func(k doc) {
				if k["owner"] == chief {
					k["revoked"] = doc{"at": stamp(lost()), "why": "compromised"}
				}
			})
			third := counterfoiltest.Key(f.t, counterfoil.RoleApprover, "third@example.test", "acme")
			f.ring["keys"] = append(asList(f.ring["keys"]), inside(decode(mustRing(f.t, third).JSON()), "keys", 0))
			g.revoke(f.t, mustRevoke(f.t, keySubject(chiefKey(f.t)), third, lost()))
			g.revoke(f.t, d)
		})},
		{"a revocation whose event names another decision", "integrity-failed", logLab, lastEvent("decisionDigest", otherDigest())},
		{"a revocation whose event is another", "integrity-failed", logLab, lastEvent("phase", "denied")},
		{"a revocation whose event is another tenant's", "integrity-failed", logLab, lastEvent("tenant", "other")},
		{"a revocation whose event has another sequence", "integrity-failed", logLab, lastEvent("sequence", 1003)},
		{"a revocation whose event is none", "invalid-input", logLab, lastEvent("version", "2.0")},
		{"a revocation that the log does not have", "integrity-failed", logLab, func(f *forged) {
			compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) { g.revoke(f.t, d) })(f)
			f.after = func(d doc) { asDoc(inside(d, "log", "revocations", 0))["path"] = list{} }
		}},
		{"revocations out of order", "invalid-input", logLab, func(f *forged) {
			compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) { g.revoke(f.t, d); g.revoke(f.t, d) })(f)
			f.after = func(d doc) { slices.Reverse(asList(inside(d, "log", "revocations"))) }
		}},
		{"one revocation twice", "invalid-input", logLab, func(f *forged) {
			compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) { g.revoke(f.t, d) })(f)
			f.after = func(d doc) {
				l := asDoc(d["log"])
				l["revocations"] = list{inside(l, "revocations", 0), inside(l, "revocations", 0)}
			}
		}},
		{"a revocation with a verb that is none", "invalid-input", logLab, func(f *forged) {
			compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) { g.revoke(f.t, d) })(f)
			f.after = func(d doc) {
				r := asDoc(inside(d, "log", "revocations", 0))
				p := payloadOf(canonical(r["decision"]))
				p["verb"] = "approve"
				r["decision"] = decode(forgeEnvelope(f.t, "decision", p, chiefKey(f.t)))
			}
		}},
		{"a denial among the revocations", "integrity-failed", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			d, err := counterfoil.Decide(f.t.Context(), counterfoil.DecisionParams{
				Tenant: "acme", Audience: auditor, Verb: counterfoil.VerbDeny, Subject: f.lab.x.DryRun.Digest(),
			}, chiefKey(f.t), lost())
			noError(f.t, err)
			g.revoke(f.t, d)
		})},
		{"a revocation of another tenant", "integrity-failed", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			p := revokeParams(keySubject(approverKey(f.t)))
			p.Tenant = "other"
			d, err := counterfoil.Decide(f.t.Context(), p, counterfoiltest.Key(f.t, counterfoil.RoleApprover, chief, "other"), lost())
			noError(f.t, err)
			g.revoke(f.t, d)
		})},
		{"a revocation by the policy key", "signature-invalid", logLab, func(f *forged) {
			compromised(func(f *forged, g *forgedLog, d *counterfoil.Decision) {
				g.revoke(f.t, resigned(f.t, d, policyKey(f.t)))
			})(f)
		}},
		{"a revocation by who is not in the ring", "signature-invalid", logLab, compromised(func(f *forged, g *forgedLog, _ *counterfoil.Decision) {
			mallory := counterfoiltest.Key(f.t, counterfoil.RoleApprover, "mallory@example.test", "acme")
			g.revoke(f.t, mustRevoke(f.t, keySubject(approverKey(f.t)), mallory, lost()))
		})},
		{"policy key compromised before the use", "revoked", policyLogLab, logged(func(f *forged, g *forgedLog) {
			f.signers["approval"] = []*counterfoil.PrivateKey{policyKey(f.t)}
			f.compromise("policy", lost())
			g.revokeAt(f.t, 0, mustRevoke(f.t, keySubject(policyKey(f.t)), chiefKey(f.t), lost()))
		})},
		{"the approval was revoked before the use", "revoked", logLab, gone(func(f *forged) counterfoil.Digest { return f.lab.x.Approval.Digest() })},
		{"the policy was revoked before the use", "revoked", logLab, gone(func(f *forged) counterfoil.Digest { return f.lab.x.DryRun.Policy().Digest() })},
		{"the actor was revoked before the use", "revoked", logLab, gone(func(*forged) counterfoil.Digest { return counterfoil.ActorSubject("agent:planner") })},
		{"the approver was revoked before the use", "revoked", logLab, gone(func(*forged) counterfoil.Digest { return counterfoil.ActorSubject(reviewer) })},
		{"the standing grant was revoked before the use", "revoked", grantLogLab, gone(func(f *forged) counterfoil.Digest { return f.lab.x.Approval.Grant().Digest() })},
		{"ledger key compromised, and no witness", "revoked", logLab, logged(func(f *forged, _ *forgedLog) { f.compromise("ledger", lost()) })},
		{"ledger key compromised before the witness signed", "revoked", logLab, witnessedAt("ledger", lost())},
		{"receipt key compromised before the witness signed", "revoked", logLab, witnessedAt("receipt", lost())},
		{"checkpoint key compromised before the witness signed", "revoked", logLab, witnessedAt("checkpoint", lost())},
		{"ledger key compromised, and its revocation in the log", "revoked", logLab, logged(func(f *forged, g *forgedLog) {
			f.compromise("ledger", lost())
			g.revoke(f.t, mustRevoke(f.t, keySubject(ledgerKey(f.t)), chiefKey(f.t), lost()))
		})},
		{"approver key compromised, and a witness from before", "revoked", logLab, witnessedAt("approver", lost().Add(-time.Second))},
		{"ledger key and the witness's compromised", "revoked", logLab, logged(func(f *forged, g *forgedLog) {
			f.compromise("ledger", lost())
			f.compromise("witness", tomorrow())
			g.witnessed(f.t, lost().Add(-time.Second))
		})},
	}
}

// resigned is a decision under another key's signature.
func resigned(t testing.TB, d *counterfoil.Decision, key *counterfoil.PrivateKey) *counterfoil.Decision {
	t.Helper()
	out, err := counterfoil.ParseDecision(forgeEnvelope(t, "decision", payloadOf(d.Envelope()), key))
	noError(t, err)
	return out
}
