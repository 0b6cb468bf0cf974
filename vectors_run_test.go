package counterfoil_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

// vectorNames are the files of testdata/vectors, by slash-separated names.
func vectorNames(t testing.TB) []string {
	t.Helper()
	var out []string
	root := filepath.Join("testdata", "vectors")
	noError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(filepath.ToSlash(path), "testdata/vectors/"))
		}
		return err
	}))
	return out
}

// outcomeOf is what our code makes of a vector.
func outcomeOf(t testing.TB, v vectorFile) string {
	t.Helper()
	said, err := judged(t, v)
	if err != nil {
		return string(counterfoil.CodeOf(err))
	}
	return said
}

// stringer is a document whose outcome is a digest.
type stringer interface{ String() string }

func judged(t testing.TB, v vectorFile) (string, error) {
	t.Helper()
	b := v.content
	switch kind := v.head["as"]; kind {
	case "text":
		c, err := counterfoil.Canonicalize(b)
		return string(c), err
	case "context":
		_, err := counterfoil.ParseContext(b)
		return "accepted", err
	case "keys":
		ring, err := counterfoil.ParseKeyRing(b)
		if err != nil {
			return "", err
		}
		return plural(len(ring.Keys())), nil
	case "decision":
		d, err := counterfoil.ParseDecision(b)
		if err != nil {
			return "", err
		}
		subject, err := counterfoil.ParseDigest(v.head["subject"])
		noError(t, err)
		return "verified", d.Verify(vectorKeys(t, v), counterfoil.DecisionParams{
			Tenant: v.head["tenant"], Audience: v.head["audience"], Verb: counterfoil.Verb(v.head["verb"]), Subject: subject,
			Why: counterfoil.RevocationReason(v.head["why"]),
		})
	case "checkpoint":
		c, err := counterfoil.ParseCheckpoint(b)
		if err != nil {
			return "", err
		}
		when, err := time.Parse(time.RFC3339, v.head["at"])
		noError(t, err)
		ring := vectorKeys(t, v)
		if err := c.Verify(ring, v.head["audience"], v.head["tenant"], when); err != nil {
			return "", err
		}
		seen, err := c.Cosignatures(ring, v.head["tenant"])
		said := "verified"
		for _, w := range seen {
			said += " " + w.Witness
		}
		return said, err
	case "bundle":
		when, err := time.Parse(time.RFC3339, v.head["now"])
		noError(t, err)
		_, err = counterfoil.VerifyBundle(b, vectorKeys(t, v), when)
		return "verified", err
	default:
		d, err := digestOfVector(t, kind, v)
		if err != nil {
			return "", err
		}
		return d.String(), nil
	}
}

func plural(n int) string { return strconv.Itoa(n) + " keys" }

func vectorKeys(t testing.TB, v vectorFile) *counterfoil.KeyRing {
	t.Helper()
	ring, err := counterfoil.ParseKeyRing(readVector(t, v.head["keys"]).content)
	noError(t, err)
	return ring
}

func digestOfVector(t testing.TB, kind string, v vectorFile) (stringer, error) {
	t.Helper()
	b := v.content
	policy := func() *counterfoil.Policy {
		p, err := counterfoil.ParsePolicy(readVector(t, v.head["policy"]).content)
		noError(t, err)
		return p
	}
	switch kind {
	case "parameters":
		return of(counterfoil.ParseArguments(b))((*counterfoil.Arguments).Digest)
	case "tool-definition":
		return counterfoil.DefinitionDigest(b)
	case "upstream":
		return counterfoil.UpstreamDigest(b)
	case "rules":
		return counterfoil.RulesDigest(b)
	case "result":
		return counterfoil.ResultDigest(b), nil
	case "event":
		_, err := counterfoil.ParseEvent(b)
		return counterfoil.EventDigest(b), err
	case "plan":
		return of(counterfoil.ParsePlan(b))((*counterfoil.Plan).Digest)
	case "policy":
		return of(counterfoil.ParsePolicy(b))((*counterfoil.Policy).Digest)
	case "operation":
		return of(counterfoil.ParseOperation(b, policy()))((*counterfoil.Operation).InputDigest)
	case "dry-run":
		return of(counterfoil.ParseDryRun(b, policy()))((*counterfoil.DryRun).Digest)
	case "approval":
		return of(counterfoil.ParseApproval(b))((*counterfoil.Approval).Digest)
	case "consumption":
		return of(counterfoil.ParseConsumption(b))((*counterfoil.Consumption).Digest)
	case "receipt":
		return of(counterfoil.ParseReceipt(b))((*counterfoil.Receipt).Digest)
	case "statement":
		return of(counterfoil.ParseStatement(b))((*counterfoil.Statement).ReceiptDigest)
	case "discovery":
		return of(counterfoil.DeriveEvidence(readVector(t, v.head["definition"]).content, b))((*counterfoil.Evidence).Digest)
	case "evidence":
		definition, record := readVector(t, v.head["definition"]).content, readVector(t, v.head["discovery"]).content
		return of(counterfoil.VerifyEvidence(b, definition, record))((*counterfoil.Evidence).Digest)
	case "standing-grant":
		return of(counterfoil.ParseStandingGrant(b))((*counterfoil.StandingGrant).Digest)
	default:
		t.Fatalf("a vector of unknown kind %q", kind)
		return nil, nil
	}
}

// of takes the digest out of what was parsed.
func of[T any](v *T, err error) func(func(*T) counterfoil.Digest) (stringer, error) {
	return func(digest func(*T) counterfoil.Digest) (stringer, error) {
		if err != nil {
			return nil, err
		}
		return digest(v), nil
	}
}

// Every vector has the outcome that it says.
func TestVectors_inGo(t *testing.T) {
	t.Parallel()
	accepted, refused := map[string]int{}, map[counterfoil.Code]int{}
	for _, name := range vectorNames(t) {
		v := readVector(t, name)
		got := outcomeOf(t, v)
		if got != v.head["expect"] || v.head["what"] == "" {
			t.Errorf("%s (%s): got %s, want %s", name, v.head["what"], got, v.head["expect"])
		}
		if slices.Contains(counterfoil.Codes(), counterfoil.Code(got)) {
			refused[counterfoil.Code(got)]++
		} else {
			accepted[v.head["as"]]++
		}
	}
	total := 0
	for _, code := range []counterfoil.Code{
		"invalid-input", "policy-denied", "integrity-failed", "approval-expired", "not-yet-valid", "self-approval", "signature-invalid",
		"revoked", "clock", "quorum-missing",
	} {
		if refused[code] == 0 {
			t.Errorf("no vector is refused with %s", code)
		}
		total += refused[code]
	}
	if total < 60 || len(accepted) < 18 {
		t.Errorf("%d refusals; accepted: %v", total, accepted)
	}
}

// An independent verifier, written from docs/spec.md in another language, comes to the same outcomes.
func TestVectors_inPython(t *testing.T) {
	t.Parallel()
	got := inPython(t, filepath.Join("testdata", "vectors"))
	names := vectorNames(t)
	for _, name := range names {
		if want := readVector(t, name).head["expect"]; got[name] != want {
			t.Errorf("%s: the verifier in Python says %q, want %q", name, got[name], want)
		}
	}
	if len(got) != len(names) {
		t.Errorf("it ended after %d of %d files", len(got), len(names))
	}
}

// inPython returns the outcomes of the vectors below a directory, as the verifier in Python sees them.
func inPython(t *testing.T, dir string) map[string]string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("python3 is not installed")
	}
	noError(t, err)
	cmd := exec.CommandContext(t.Context(), python, "-B", filepath.Join("testdata", "verifier", "verify.py"), "--vectors", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, outcome, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		got[name] = outcome
	}
	return got
}

// Both refuse every document with one fault of form, and accept the same ones where a fault is none.
func TestVectors_faultsInPython(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	want := map[string]string{}
	write := func(name string, v vectorFile) {
		var b strings.Builder
		for _, member := range slices.Sorted(maps.Keys(v.head)) {
			b.WriteString(member + ": " + v.head[member] + "\n")
		}
		noError(t, os.WriteFile(filepath.Join(dir, name), append([]byte(b.String()+"\n"), append(v.content, '\n')...), 0o600))
	}
	for _, name := range []string{"policy.txt", "keys-all.txt", "tool-definition-discovered.txt"} {
		v := readVector(t, name)
		want[name] = v.head["expect"]
		write(name, v)
	}
	kinds := map[string]string{
		"plan": "plan", "policy": "policy", "operation": "operation", "context": "context", "approval": "approval",
		"consumption": "consumption", "receipt": "receipt", "standing grant": "standing-grant", "key ring": "keys", "passkey ring": "keys",
		"dry run": "dry-run", "bundle": "bundle", "discovery": "discovery", "statement": "statement", "event": "event",
	}
	for _, f := range forms(t) {
		kind, ok := kinds[f.name]
		if !ok {
			continue
		}
		for _, e := range faults(f.example, f.optional, f.open) {
			v := vectorFile{content: canonical(e.doc), head: map[string]string{
				"as": kind, "what": e.name, "policy": "policy.txt", "keys": "keys-all.txt", "now": stamp(tomorrow()),
				"definition": "tool-definition-discovered.txt",
			}}
			switch kind {
			case "approval", "consumption", "receipt", "standing-grant":
				v.content = envelopeOf(kind, v.content)
			case "statement":
				v.content = canonical(doc{
					"payloadType": inToto, "payload": base64.StdEncoding.EncodeToString(v.content),
					"signatures": list{doc{"keyid": "k", "sig": base64.StdEncoding.EncodeToString(make([]byte, 64))}},
				})
			}
			n++
			name := kind + "-" + strconv.Itoa(n) + ".txt"
			v.head["expect"] = outcomeOf(t, v)
			want[name] = v.head["expect"]
			write(name, v)
		}
	}
	got := inPython(t, dir)
	for name, outcome := range want {
		if got[name] != outcome {
			b, err := os.ReadFile(filepath.Join(dir, name))
			noError(t, err)
			t.Errorf("%s: the verifier in Python says %q, ours %q:\n%s", name, got[name], outcome, b)
		}
	}
	if n < 1000 {
		t.Errorf("%d faults alone", n)
	}
}
