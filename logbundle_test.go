package counterfoil_test

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

// loggedBundle is a bundle of a lab that has executed, with the proof of its place in the log.
func loggedBundle(t testing.TB, l *lab, witnesses ...*counterfoil.PrivateKey) *counterfoil.Bundle {
	t.Helper()
	b := l.bundle()
	events := l.ledger.Events()
	x := newTree(t, events...)
	c := x.checkpoint(x.n)
	for _, w := range witnesses {
		var err error
		c, err = c.Cosign(t.Context(), w, now())
		noError(t, err)
	}
	b.Log = &counterfoil.LogProof{Checkpoint: c, Started: x.inclusion(x.n, 0, events[0]), Completed: x.inclusion(x.n, 1, events[1])}
	return b
}

func TestVerifyBundle_logged(t *testing.T) {
	t.Parallel()
	bare, err := logLab(t).bundle().Verify(logLab(t).x.Keys, tomorrow())
	noError(t, err)
	for name, c := range map[string]struct {
		witnesses []*counterfoil.PrivateKey
		checked   []string
		unchecked []string
	}{
		"alone": {nil, []string{"start and receipt are in the log, in this order, under a signed checkpoint"}, []string{
			"that everybody is shown the same log: no witness of the ring has cosigned the checkpoint",
			"that the log has no other use of the approval; whoever reads all of it can see that",
		}},
		"witnessed": {[]*counterfoil.PrivateKey{witnessKey(t)}, []string{
			"start and receipt are in the log, in this order, under a signed checkpoint", "checkpoint is cosigned by a witness",
		}, []string{"that the log has no other use of the approval; whoever reads all of it can see that"}},
	} {
		l := logLab(t)
		b := loggedBundle(t, l, c.witnesses...)
		rep, err := counterfoil.VerifyBundle(b.Encode(), l.x.Keys, tomorrow())
		noError(t, err)
		want := *bare
		want.Logged, want.LogSize = true, 2
		for _, w := range c.witnesses {
			want.Witnesses = append(want.Witnesses, counterfoil.Cosignature{Witness: watcher, Key: w.Public().ID, At: now()})
		}
		want.Checked = slices.Insert(slices.Clone(bare.Checked), 6, c.checked...)
		want.Unchecked = slices.Concat(c.unchecked, bare.Unchecked[1:])
		if d := cmp.Diff(&want, rep, cmp.Comparer(func(a, b counterfoil.PublicKey) bool { return a.ID == b.ID })); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		again, err := counterfoil.ParseBundle(b.Encode())
		noError(t, err)
		if !bytes.Equal(again.Encode(), b.Encode()) {
			t.Errorf("%s: the bundle read back prints otherwise", name)
		}
		if rep, err := again.Verify(l.x.Keys, tomorrow()); err != nil || !rep.Logged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A changed cosignature is refused, or it is a stranger's and counts for nothing.
func TestVerifyBundle_cosignatureChanged(t *testing.T) {
	t.Parallel()
	l := logLab(t)
	good := loggedBundle(t, l, witnessKey(t)).Encode()
	from := bytes.LastIndex(good, []byte("— "+watcher))
	to := from + bytes.IndexByte(good[from:], '"')
	refused := 0
	for i := from; i < to; i++ {
		for _, mask := range []byte{0x01, 0x20} {
			b := slices.Clone(good)
			b[i] ^= mask
			rep, err := counterfoil.VerifyBundle(b, l.x.Keys, tomorrow())
			if err == nil && (len(rep.Witnesses) != 0 || !rep.Logged) {
				t.Errorf("a changed byte at %d of the line counts", i-from)
			}
			if err != nil {
				refused++
			}
		}
	}
	if refused < 100 {
		t.Errorf("%d refused", refused)
	}
}

// What a host puts together is judged as what is parsed.
func TestBundle_logIncomplete(t *testing.T) {
	t.Parallel()
	l := logLab(t)
	good := loggedBundle(t, l)
	d := mustRevoke(t, l.x.Approval.Digest(), chiefKey(t), now())
	for name, change := range map[string]func(*counterfoil.LogProof){
		"no checkpoint":       func(p *counterfoil.LogProof) { p.Checkpoint = nil },
		"an empty checkpoint": func(p *counterfoil.LogProof) { p.Checkpoint = new(counterfoil.Checkpoint) },
		"no decision":         func(p *counterfoil.LogProof) { p.Revocations = []counterfoil.RevocationProof{{}} },
		"an empty decision": func(p *counterfoil.LogProof) {
			p.Revocations = []counterfoil.RevocationProof{{Decision: new(counterfoil.Decision)}}
		},
		"no start":             func(p *counterfoil.LogProof) { p.Started = counterfoil.Inclusion{} },
		"no completion":        func(p *counterfoil.LogProof) { p.Completed.Event = nil },
		"a start with a space": func(p *counterfoil.LogProof) { p.Started.Event = append([]byte(" "), p.Started.Event...) },
		"no event":             func(p *counterfoil.LogProof) { p.Revocations = []counterfoil.RevocationProof{{Decision: d}} },
	} {
		b, p := *good, *good.Log
		change(&p)
		b.Log = &p
		if rep, err := b.Verify(l.x.Keys, tomorrow()); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || rep != nil {
			t.Errorf("%s: got %v", name, err)
		}
		if enc := b.Encode(); enc != nil {
			if v, err := counterfoil.ParseBundle(enc); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || v != nil {
				t.Errorf("%s: parsed %v", name, err)
			}
		}
	}
}

// A document in a bundle has the bounds that it has by itself.
func TestParseBundle_bounds(t *testing.T) {
	t.Parallel()
	good := asDoc(decode(newLab(t).bundle().Encode()))
	many := func(n int) list {
		out := list{}
		for i := range n {
			out = append(out, stamp(now().Add(time.Duration(i)*time.Millisecond)))
		}
		return out
	}
	for name, change := range map[string]func(doc){
		"a policy of too many values": func(d doc) {
			wide := doc{}
			for i := range 10 {
				p := sourcePolicy()
				p["schemaVersions"] = many(1000)
				wide[string(rune('a'+i))] = p
			}
			asDoc(d["policy"])["sources"] = wide
		},
		"a dry run of too many values": func(d doc) {
			var cited list
			for range 64 {
				cited = append(cited, doc{"uri": "https://data.example.test/", "digest": otherDigest()})
			}
			s := asDoc(inside(d, "dryRun", "plan", "steps", 0))
			asDoc(inside(s, "source", "provenance"))["citations"] = cited
			asDoc(inside(d, "dryRun", "plan"))["steps"] = slices.Repeat(list{s}, 64)
		},
		"an operation of too many values": func(d doc) { asDoc(d["operation"])["fields"] = many(700) },
		"a plan of too many bytes": func(d doc) {
			s := asDoc(inside(d, "dryRun", "plan", "steps", 0))
			asDoc(inside(s, "source", "provenance"))["attribution"] = strings.Repeat("a", 65_000)
			asDoc(inside(d, "dryRun", "plan"))["steps"] = slices.Repeat(list{s}, 16)
		},
	} {
		d := asDoc(clone(good))
		change(d)
		_, err := counterfoil.ParseBundle(canonical(d))
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || !strings.Contains(err.Error(), "bounds") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseBundle_log(f *testing.F) {
	l := logLab(f)
	good := loggedBundle(f, l, witnessKey(f))
	f.Add(good.Encode())
	forged := newForged(f, logLab(f))
	forged.log = newForgedLog(f, forged.lab)
	forged.log.revoke(f, mustRevoke(f, keySubject(approverKey(f)), chiefKey(f), lost()))
	f.Add(forged.seal())
	roots := [][32]byte{good.Log.Checkpoint.Root()}
	if b, err := counterfoil.ParseBundle(forged.seal()); err == nil {
		roots = append(roots, b.Log.Checkpoint.Root())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := counterfoil.ParseBundle(b)
		if err != nil {
			refusal(t, err, counterfoil.CodePolicyDenied, counterfoil.CodeIntegrityFailed)
			return
		}
		if got := v.Encode(); !bytes.Equal(got, b) {
			t.Fatalf("printed %s\nread    %s", got, b)
		}
		rep, err := counterfoil.VerifyBundle(b, l.x.Keys, tomorrow())
		if (rep == nil) == (err == nil) {
			t.Fatalf("report %v, error %v", rep, err)
		}
		if err == nil && rep.Logged && !slices.Contains(roots, v.Log.Checkpoint.Root()) {
			t.Fatalf("a log that nobody signed verifies: %s", b)
		}
	})
}

// Checkpoints alone, as files that another implementation reads.
func TestVectors_checkpoints(t *testing.T) {
	x := newTree(t, letters(7)...)
	plain := x.checkpoint(7)
	seen, err := plain.Cosign(t.Context(), witnessKey(t), now())
	noError(t, err)
	stranger, err := seen.Cosign(t.Context(), namedWitness(t, "another.example.test"), now())
	noError(t, err)
	both := mustRing(t, checkpointKey(t), witnessKey(t))
	ended := witnessKey(t).Public()
	ended.NotAfter = now()
	retired := mustPublicRing(t, checkpointKey(t).Public(), ended)
	vector(t, "keys-log.txt", "2 keys", both.JSON())
	vector(t, "keys-log-retired-witness.txt", "2 keys", retired.JSON())
	edit := func(from, to string) string { return strings.Replace(string(seen.Note()), from, to, 1) }
	long := string(plain.Note()) + strings.Repeat("— w.example.test "+base64.StdEncoding.EncodeToString(make([]byte, 3000))+"\n", 1)
	for _, c := range []struct{ name, expect, keys, tenant, note string }{
		{"checkpoint", "verified", "keys-log.txt", "acme", string(plain.Note())},
		{"checkpoint-cosigned", "verified " + watcher, "keys-log.txt", "acme", string(seen.Note())},
		{"checkpoint-cosigned-by-a-stranger-too", "verified " + watcher, "keys-log.txt", "acme", string(stranger.Note())},
		{"checkpoint-cosigned-by-a-retired-key", "verified", "keys-log-retired-witness.txt", "acme", string(seen.Note())},
		{"checkpoint-cosigned-by-an-unknown-kind", "verified", "keys-log.txt", "acme", long},
		{"refused/checkpoint of another log", "integrity-failed", "keys-log.txt", "other", string(plain.Note())},
		{"refused/checkpoint of eight leaves", "signature-invalid", "keys-log.txt", "acme", edit("\n7\n", "\n8\n")},
		{"refused/checkpoint without a line", "invalid-input", "keys-log.txt", "acme", edit("\n7\n", "\n")},
		{"refused/checkpoint with a sign before its size", "invalid-input", "keys-log.txt", "acme", edit("\n7\n", "\n+7\n")},
		{"refused/checkpoint of too many leaves", "invalid-input", "keys-log.txt", "acme", edit("\n7\n", "\n9007199254740992\n")},
		{"refused/checkpoint with a space in its name", "invalid-input", "keys-log.txt", "acme", edit("log.example", "log example")},
		{"refused/checkpoint with a plus in its name", "invalid-input", "keys-log.txt", "acme", edit("log.example", "log+example")},
		{"refused/checkpoint with a wide space in a witness's name", "invalid-input", "keys-log.txt", "acme", edit("— witness", "— wit\u3000ness")},
		{"refused/checkpoint with a carriage return", "invalid-input", "keys-log.txt", "acme", edit("\n7\n", "\r\n7\n")},
		{"refused/checkpoint with a hyphen for the dash", "invalid-input", "keys-log.txt", "acme", edit("— ", "- ")},
		{"refused/checkpoint with something after its signatures", "invalid-input", "keys-log.txt", "acme", string(seen.Note()) + "more\n"},
		{"refused/checkpoint without its last line feed", "invalid-input", "keys-log.txt", "acme", strings.TrimSuffix(string(seen.Note()), "\n")},
		{"refused/checkpoint that only a witness signed", "signature-invalid", "keys-log.txt", "acme", edit("— log.", "— lag.")},
	} {
		name := c.name
		if rest, ok := strings.CutPrefix(name, "refused/"); ok {
			name = "refused/" + fileName(rest)
		}
		writeVector(t, name+".txt", []byte(c.note), "expect: "+c.expect, "what: "+strings.TrimPrefix(strings.ReplaceAll(c.name, "-", " "), "refused/"), "as: checkpoint",
			"keys: "+c.keys, "tenant: "+c.tenant, "audience: "+auditor, "at: "+stamp(now()))
	}
}

// Rings with public keys that must not be in them.
func TestVectors_weakKeys(t *testing.T) {
	good := asDoc(decode(mustRing(t, approverKey(t)).JSON()))
	for name, raw := range weakKeys() {
		d := asDoc(clone(good))
		k := asDoc(inside(d, "keys", 0))
		x := base64.RawURLEncoding.EncodeToString(raw)
		k["x"], k["kid"] = x, thumbprintOf(x)
		writeVector(t, "refused/"+fileName("a key that is "+name)+".txt", canonical(d), "expect: invalid-input", "what: a key that is "+name, "as: keys")
	}
	for name, change := range map[string]func(doc){
		"a witness with a space in its name": func(k doc) { k["owner"] = "my witness" },
		"a witness with a plus in its name":  func(k doc) { k["owner"] = "a+b" },
	} {
		d := asDoc(decode(mustRing(t, witnessKey(t)).JSON()))
		change(asDoc(inside(d, "keys", 0)))
		writeVector(t, "refused/"+fileName(name)+".txt", canonical(d), "expect: invalid-input", "what: "+name, "as: keys")
	}
	for name, port := range map[string]string{"a passkey's origin with its usual port": ":443", "a passkey's origin with a port that is none": ":0"} {
		d := asDoc(decode(passkeyLab(t).x.Keys.JSON()))
		for _, k := range asList(d["keys"]) {
			if p := asDoc(k)["passkey"]; p != nil {
				asDoc(p)["origins"] = list{"https://" + asString(asDoc(p)["rpId"]) + port}
			}
		}
		writeVector(t, "refused/"+fileName(name)+".txt", canonical(d), "expect: invalid-input", "what: "+name, "as: keys")
	}
	for _, role := range []string{"checkpoint", "witness"} {
		d := asDoc(decode(mustRing(t, es256Key(t, "approver", "w")).JSON()))
		asDoc(inside(d, "keys", 0))["role"] = role
		writeVector(t, "refused/a-"+role+"-key-on-p-256.txt", canonical(d), "expect: invalid-input", "what: a "+role+" key on P-256", "as: keys")
	}
}
