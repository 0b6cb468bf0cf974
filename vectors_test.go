package counterfoil_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

// vector is one file of testdata/vectors: what is expected of a text, and the text.
func vector(t *testing.T, name, expect string, content []byte) {
	t.Helper()
	path := filepath.Join("testdata", "vectors", name)
	want := []byte("expect: " + expect + "\n" + string(content) + "\n")
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
	vector(t, "bundle.txt", "verified", b.Encode())
	s, err := b.Receipt.Statement(t.Context(), receiptKey(t))
	noError(t, err)
	vector(t, "statement.txt", s.ReceiptDigest().String(), s.Envelope())
	revocation, err := counterfoil.Decide(t.Context(), revokeParams(b.Approval.Digest()), approverKey(t), now())
	noError(t, err)
	vector(t, "revocation.txt", b.Approval.Digest().String(), revocation.Envelope())
	vector(t, "discovery.txt", mustEvidence(t, discovery()).Digest().String(), canonical(discovery()))
	vector(t, "evidence.txt", mustEvidence(t, discovery()).Digest().String(), mustEvidence(t, discovery()).Canonical())
	for i, e := range l.ledger.Events() {
		vector(t, fmt.Sprintf("event-%d.txt", i+1), counterfoil.EventDigest(e).String(), e)
	}
}

// Bundles with the other kinds of keys and signatures, each with its keys.
func TestVectors_signatures(t *testing.T) {
	several, second := quorumLab(t)
	several.x.Approval = cosigned(t, several, second)
	for name, l := range map[string]*lab{
		"p256": es256Lab(t), "quorum-with-passkey": several, "standing-grant": grantLab(t, mustGrant(t, nil)),
	} {
		b := l.bundle().Encode()
		_, err := counterfoil.VerifyBundle(b, l.x.Keys, tomorrow())
		noError(t, err)
		vector(t, "bundle-"+name+".txt", "verified", b)
		vector(t, "keys-"+name+".txt", fmt.Sprintf("%d keys", len(l.x.Keys.Keys())), l.x.Keys.JSON())
	}
	g := mustGrant(t, nil)
	vector(t, "standing-grant.txt", g.Digest().String(), g.Envelope())
}

// The committed bundle verifies with the committed keys, and every digest is what another implementation of the
// specification computes (fixture_test.go).
func TestVectors_stand(t *testing.T) {
	t.Parallel()
	read := func(name string) (expect string, content []byte) {
		b, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
		noError(t, err)
		head, body, _ := strings.Cut(string(b), "\n")
		return strings.TrimPrefix(head, "expect: "), []byte(strings.TrimSuffix(body, "\n"))
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

// Texts and their canonical forms, one pair a file: "expect:" is followed by the canonical form or by "refused".
func TestVectors_canonical(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "vectors", "canonical", "*.txt"))
	noError(t, err)
	if len(files) < 15 {
		t.Fatalf("%d files", len(files))
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		noError(t, err)
		head, in, _ := bytes.Cut(b, []byte("\n"))
		want := string(bytes.TrimPrefix(head, []byte("expect: ")))
		got, err := counterfoil.Canonicalize(in)
		if want == "refused" {
			if err == nil {
				t.Errorf("%s: got %s", path, got)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", path, got, err, want)
		}
	}
}

// The specification names every word that a document can hold.
func TestSpec_namesEveryWord(t *testing.T) {
	t.Parallel()
	spec, err := os.ReadFile(filepath.Join("docs", "spec.md"))
	noError(t, err)
	words := []string{
		string(counterfoil.RoleApprover), string(counterfoil.RolePolicy), string(counterfoil.RoleLedger), string(counterfoil.RoleReceipt),
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
