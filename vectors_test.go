package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// A vectorFile is one file of testdata/vectors: a header of lines, an empty line, the bytes and a line's end
// (docs/spec.md, section 11).
type vectorFile struct {
	head    map[string]string
	content []byte
}

func readVector(t testing.TB, name string) vectorFile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "vectors", filepath.FromSlash(name)))
	noError(t, err)
	head, content, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok {
		t.Fatalf("%s has no header", name)
	}
	v := vectorFile{head: map[string]string{}, content: bytes.TrimSuffix(content, []byte("\n"))}
	for line := range strings.SplitSeq(string(head), "\n") {
		member, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%s: the header has a line that is none: %s", name, line)
		}
		v.head[member] = value
	}
	return v
}

// writeVector compares the file with what it should be, or writes it. The lines of the header are in the order given.
func writeVector(t testing.TB, name string, content []byte, lines ...string) {
	t.Helper()
	path := filepath.Join("testdata", "vectors", filepath.FromSlash(name))
	want := slices.Concat([]byte(strings.Join(lines, "\n")+"\n\n"), content, []byte("\n"))
	if *update {
		noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		noError(t, os.WriteFile(path, want, 0o644))
		return
	}
	got, err := os.ReadFile(path)
	noError(t, err)
	if d := cmp.Diff(string(got), string(want)); d != "" {
		t.Errorf("%s is another (-file +now): %s", name, d)
	}
}

// vector is a document by itself. Its file's name begins with what it is; a bundle goes with the keys of the same name.
func vector(t testing.TB, name, expect string, content []byte) {
	t.Helper()
	title := strings.TrimSuffix(name, ".txt")
	lines := []string{"expect: " + expect, "what: " + strings.ReplaceAll(title, "-", " ")}
	kinds := []string{
		"discovery", "evidence", "statement", "parameters", "plan", "policy", "dry-run", "operation", "context", "approval", "consumption", "receipt", "decision", "standing-grant",
		"result", "event", "tool-definition", "upstream", "rules", "keys", "bundle",
	}
	for _, kind := range kinds {
		rest, ok := strings.CutPrefix(title, kind)
		if !ok {
			continue
		}
		lines = append(lines, "as: "+kind)
		switch kind {
		case "bundle":
			lines = append(lines, "keys: keys"+rest+".txt", "now: "+stamp(tomorrow()))
		case "dry-run", "operation":
			if !strings.HasPrefix(rest, "-fixture") {
				rest = ""
			}
			lines = append(lines, "policy: policy"+rest+".txt")
		case "decision":
			p := payloadOf(content)
			lines = append(lines, "keys: keys.txt", "tenant: acme", "audience: log.example.test", "verb: "+asString(p["verb"]), "subject: "+asString(p["subject"]))
			if why, ok := p["why"]; ok {
				lines = append(lines, "why: "+asString(why))
			}
		case "discovery":
			lines = append(lines, "definition: tool-definition-discovered.txt")
		case "evidence":
			lines = append(lines, "definition: tool-definition-discovered.txt", "discovery: discovery.txt")
		}
		writeVector(t, name, content, lines...)
		return
	}
	t.Fatalf("%s is no kind of vector", name)
}

// The documents of one execution with their digests: what a second implementation must reproduce. Keys are those of
// counterfoiltest, so the signatures are always the same. To rewrite them: go test -run TestVectors . -update
func TestVectors(t *testing.T) {
	l := newLab(t)
	req := request()
	req.Reason = "looks right"
	l.x.Approval = mustApprove(t, l.x.DryRun, req, approverKey(t))
	b := l.bundle()
	op, err := counterfoil.ParseArguments(b.Operation.Parameters())
	noError(t, err)
	vector(t, "parameters.txt", op.Digest().String(), op.Canonical())
	vector(t, "operation.txt", b.Operation.InputDigest().String(), b.Operation.Canonical())
	vector(t, "plan.txt", b.DryRun.Plan().Digest().String(), b.DryRun.Plan().Canonical())
	vector(t, "policy.txt", b.DryRun.Policy().Digest().String(), b.DryRun.Policy().Canonical())
	vector(t, "dry-run.txt", b.DryRun.Digest().String(), b.DryRun.Canonical())
	vector(t, "approval.txt", b.Approval.Digest().String(), b.Approval.Envelope())
	vector(t, "consumption.txt", b.Consumption.Digest().String(), b.Consumption.Envelope())
	vector(t, "receipt.txt", b.Receipt.Digest().String(), b.Receipt.Envelope())
	vector(t, "result.txt", counterfoil.ResultDigest([]byte(rawResult)).String(), []byte(rawResult))
	vector(t, "keys.txt", "3 keys", mustRing(t, approverKey(t), ledgerKey(t), receiptKey(t)).JSON())
	vector(t, "keys-of-tokens.txt", "1 keys", mustRing(t, counterfoiltest.Key(t, counterfoil.RoleToken, "gateway", "acme")).JSON())
	vector(t, "bundle.txt", "verified", b.Encode())
	vector(t, "context.txt", "accepted", canonical(sources()))
	for _, d := range []struct {
		name string
		f    func([]byte) (counterfoil.Digest, error)
		text string
	}{
		{"tool-definition.txt", counterfoil.DefinitionDigest, `{"name":"query","inputSchema":{"type":"object","maximum":9007199254740993}}`},
		{"upstream.txt", counterfoil.UpstreamDigest, `{"command":["server","--stdio"],"environment":["HOME"]}`},
		{"rules.txt", counterfoil.RulesDigest, `{"rules":"of the tenant"}`},
	} {
		sum, err := d.f([]byte(d.text))
		noError(t, err)
		vector(t, d.name, sum.String(), []byte(d.text))
	}
	for _, verb := range []counterfoil.Verb{counterfoil.VerbDeny, counterfoil.VerbClassify} {
		said, err := counterfoil.Decide(context.Background(), counterfoil.DecisionParams{
			Tenant: "acme", Audience: "log.example.test", Verb: verb, Subject: b.DryRun.Digest(), Reason: "not today",
		}, approverKey(t), now())
		noError(t, err)
		vector(t, "decision-"+string(verb)+".txt", "verified", said.Envelope())
	}
	revocation, err := counterfoil.Decide(t.Context(), revokeParams(b.Approval.Digest()), approverKey(t), now())
	noError(t, err)
	vector(t, "decision-revoke.txt", "verified", revocation.Envelope())
	s, err := b.Receipt.Statement(t.Context(), receiptKey(t))
	noError(t, err)
	vector(t, "statement.txt", s.ReceiptDigest().String(), s.Envelope())
	defined, err := counterfoil.DefinitionDigest(toolDefinition())
	noError(t, err)
	vector(t, "tool-definition-discovered.txt", defined.String(), toolDefinition())
	vector(t, "discovery.txt", mustEvidence(t, discovery()).Digest().String(), canonical(discovery()))
	vector(t, "evidence.txt", mustEvidence(t, discovery()).Digest().String(), mustEvidence(t, discovery()).Canonical())
	for i, e := range l.ledger.Events() {
		vector(t, fmt.Sprintf("event-%d.txt", i+1), counterfoil.EventDigest(e).String(), e)
	}
}

// Bundles with the other kinds of keys, signatures and outcomes, each with its keys.
func TestVectors_bundles(t *testing.T) {
	for name, l := range vectorLabs(t) {
		x := l.bundle()
		if name == "redacted" {
			x.Operation = nil
		}
		vectorBundle(t, name, x, l)
	}
	l := newLab(t)
	l.ledger.beforeSettle = func() error { return errBroken }
	_, _, err := l.execute()
	wantCode(t, err, counterfoil.CodeReceiptFailed)
	l.clock = at(20, 1, 0, 0)
	r, _, err := counterfoil.Recover(context.Background(), l.x.DryRun, l.x.Approval, l.ledger.consumption,
		counterfoil.OutcomeIndeterminate, l.x.Pseudonyms, l.x.Signer, l.clock)
	noError(t, err)
	vectorBundle(t, "recovered", &counterfoil.Bundle{
		Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun, Operation: l.x.Operation,
	}, l)
	g := mustGrant(t, nil)
	vector(t, "standing-grant.txt", g.Digest().String(), g.Envelope())
}

func vectorBundle(t testing.TB, name string, x *counterfoil.Bundle, l *lab) {
	t.Helper()
	_, err := counterfoil.VerifyBundle(x.Encode(), l.x.Keys, tomorrow())
	noError(t, err)
	vector(t, "bundle-"+name+".txt", "verified", x.Encode())
	vector(t, "keys-"+name+".txt", fmt.Sprintf("%d keys", len(l.x.Keys.Keys())), l.x.Keys.JSON())
}

// vectorLabs are labs that execute to bundles of every kind.
func vectorLabs(t testing.TB) map[string]*lab {
	t.Helper()
	quorum, second := quorumLab(t)
	quorum.x.Approval = cosigned(t, quorum, second)
	byPolicy := newLab(t)
	req := request()
	req.Authority = counterfoil.AuthorityPolicy
	byPolicy.x.Approval = mustApprove(t, byPolicy.x.DryRun, req, policyKey(t))
	late := newLab(t)
	late.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		late.clock = expires()
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	failed := newLab(t)
	failed.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte(`{"error":"no"}`), Failed: true, Uncounted: true}, nil
	})
	delayed := newLab(t)
	req = request()
	req.NotBefore = at(20, 0, 10, 0)
	delayed.x.Approval = mustApprove(t, delayed.x.DryRun, req, approverKey(t))
	delayed.clock = at(20, 0, 10, 0)
	succeeded := newLab(t)
	succeeded.x.Keys = supersededAfter(t)
	shared := newLab(t)
	shared.x.Keys = forAllTenants(t)
	return map[string]*lab{
		"p256": es256Lab(t), "quorum-with-passkey": quorum, "standing-grant": grantLab(t, mustGrant(t, nil)), "passkey": passkeyLab(t),
		"policy": byPolicy, "late": late, "failed": failed, "not-before": delayed, "redacted": newLab(t), "steps": stepsLab(t),
		"superseded-since": succeeded, "keys-of-all-tenants": shared,
	}
}

// supersededAfter is the ring in which every key was superseded just after the act that it signed, and has ended since.
func supersededAfter(t testing.TB) *counterfoil.KeyRing {
	t.Helper()
	var keys []counterfoil.PublicKey
	for _, k := range allKeys(t).Keys() {
		k.Revoked = &counterfoil.Revocation{At: now().Add(time.Millisecond), Why: counterfoil.RevokedSuperseded}
		k.NotAfter = now().Add(time.Millisecond)
		keys = append(keys, k)
	}
	return mustPublicRing(t, keys...)
}

// forAllTenants is the ring of a gateway that serves many tenants: its own keys act for all of them, the approver's for one.
func forAllTenants(t testing.TB) *counterfoil.KeyRing {
	t.Helper()
	var keys []counterfoil.PublicKey
	for _, k := range allKeys(t).Keys() {
		if k.Role != counterfoil.RoleApprover {
			k.Tenants = []string{counterfoil.AllTenants}
		}
		keys = append(keys, k)
	}
	return mustPublicRing(t, keys...)
}

// stepsLab runs the second of two steps with different limits, on two sources whose ids sort the other way.
func stepsLab(t testing.TB) *lab {
	t.Helper()
	first := step(operation())
	first["id"] = "first"
	other := asDoc(first["source"])
	other["id"], other["sourceVersion"] = "zoning", "snapshot-1"
	refreshStep(first)
	pol := policy()
	asDoc(pol["sources"])["zoning"] = clone(inside(pol, "sources", "incidents"))
	asDoc(inside(pol, "sources", "zoning"))["sourceVersions"] = list{"snapshot-1"}
	pol["maxSteps"], pol["maxRows"], pol["maxBytes"] = 2, 200, 100_000
	l := newLabOf(t, onePlanOf(first, step(operation())), pol, operation())
	l.x.Context = mustContext(t, doc{"sources": doc{"incidents": source(), "zoning": other}})
	return l
}

// The committed bundle verifies with the committed keys, and every digest is what another implementation of the
// specification computes (fixture_test.go).
func TestVectors_stand(t *testing.T) {
	t.Parallel()
	read := func(name string) (expect string, content []byte) {
		v := readVector(t, name)
		return v.head["expect"], v.content
	}
	_, bundle := read("bundle.txt")
	_, keys := read("keys.txt")
	ring, err := counterfoil.ParseKeyRing(keys)
	noError(t, err)
	rep, err := counterfoil.VerifyBundle(bundle, ring, tomorrow())
	noError(t, err)
	if rep.Reason != "looks right" || rep.Outcome != counterfoil.OutcomeSucceeded {
		t.Errorf("got %+v", rep)
	}
	for name, domain := range map[string]string{
		"parameters.txt": "parameters", "plan.txt": "plan", "policy.txt": "policy", "dry-run.txt": "dry-run", "result.txt": "result",
		"event-1.txt": "event", "event-2.txt": "event",
	} {
		if want, content := read(name); digestOfBytes(domain, content) != want {
			t.Errorf("%s: %s", name, digestOfBytes(domain, content))
		}
	}
	for name, domain := range map[string]string{"approval.txt": "approval", "consumption.txt": "use", "receipt.txt": "receipt"} {
		if want, content := read(name); digestOf(domain, payloadOf(content)) != want {
			t.Errorf("%s: %s", name, digestOf(domain, payloadOf(content)))
		}
	}
	public := map[string]ed25519.PublicKey{}
	for _, k := range asList(asDoc(decode(keys))["keys"]) {
		x, err := base64.RawURLEncoding.DecodeString(asString(asDoc(k)["x"]))
		noError(t, err)
		public[asString(asDoc(k)["kid"])] = x
	}
	for _, name := range []string{"approval.txt", "consumption.txt", "receipt.txt"} {
		_, content := read(name)
		env := asDoc(decode(content))
		payload, err := base64.StdEncoding.DecodeString(asString(env["payload"]))
		noError(t, err)
		sig, err := base64.StdEncoding.DecodeString(asString(inside(env, "signatures", 0, "sig")))
		noError(t, err)
		typ := asString(env["payloadType"])
		signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(typ), typ, len(payload), payload)
		if !ed25519.Verify(public[asString(inside(env, "signatures", 0, "keyid"))], []byte(signed), sig) {
			t.Errorf("%s: the signature is not one of the specification", name)
		}
	}
	if want, content := read("operation.txt"); inputDigestOf(asDoc(decode(content))) != want {
		t.Errorf("operation.txt: %s", inputDigestOf(asDoc(decode(content))))
	}
}

// inputDigestOf is an operation's input digest, without any code of ours.
func inputDigestOf(op doc) string {
	return digestOf("input", doc{
		"tool": op["tool"], "effect": op["effect"], "sourceId": op["sourceId"], "queryPlan": op["queryPlan"], "fields": op["fields"],
		"parametersDigest": digestOf("parameters", op["parameters"]),
	})
}

// The specification names every word that a document can hold.
func TestSpec_namesEveryWord(t *testing.T) {
	t.Parallel()
	spec, err := os.ReadFile(filepath.Join("docs", "spec.md"))
	noError(t, err)
	words := []string{
		string(counterfoil.RoleApprover), string(counterfoil.RolePolicy), string(counterfoil.RoleLedger), string(counterfoil.RoleReceipt), string(counterfoil.RoleToken),
		string(counterfoil.CustodyHolder), string(counterfoil.CustodyGateway), string(counterfoil.VerbDeny), string(counterfoil.VerbClassify),
		string(counterfoil.DataCached), string(counterfoil.DataOffline), string(counterfoil.DataReplayed), string(counterfoil.DataLive),
		string(counterfoil.OutcomeSucceeded), string(counterfoil.OutcomeFailed), string(counterfoil.OutcomeCancelled),
		string(counterfoil.OutcomeIndeterminate), string(counterfoil.RevokedSuperseded), string(counterfoil.RevokedCompromised),
		string(counterfoil.AuthorityGrant), string(counterfoil.AlgorithmEdDSA), string(counterfoil.AlgorithmES256), typeGet, string(counterfoil.PhaseLate), counterfoil.BundleMediaType,
	}
	for _, e := range counterfoil.Effects() {
		words = append(words, string(e))
	}
	for _, p := range counterfoil.Phases() {
		words = append(words, string(p))
	}
	words = append(words, counterfoil.Domains()...)
	for _, f := range forms(t) {
		collectNames(f.example, func(name string) {
			if name != "incidents" && name != "where" {
				words = append(words, name)
			}
		})
	}
	for _, w := range words {
		// Members that differ in their ends alone are written together, with an ellipsis.
		if short := "…" + strings.TrimPrefix(w, "maxOperationParameter"); !bytes.Contains(spec, []byte("`"+w+"`")) &&
			!bytes.Contains(spec, []byte("`"+w+"?`")) && !bytes.Contains(spec, []byte(`"`+w+`"`)) && !bytes.Contains(spec, []byte("`"+short+"`")) &&
			!bytes.Contains(spec, []byte("."+w+"`")) {
			t.Errorf("docs/spec.md does not name %q", w)
		}
	}
}

func collectNames(v any, f func(string)) {
	switch v := v.(type) {
	case doc:
		for k, e := range v {
			f(k)
			collectNames(e, f)
		}
	case list:
		for _, e := range v {
			collectNames(e, f)
		}
	}
}
