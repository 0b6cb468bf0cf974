package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// The two fixtures of the published suite, F of its safety tests and E of its execution tests, under the rules of this
// package: every digest and envelope of their one execution.

// fixtureDocs are a fixture's plan, policy, operation and context.
func fixtureDocs(rows, bytes int, change func(policy doc)) (plan, policy, op, current doc) {
	src := source()
	provenance := asDoc(src["provenance"])
	provenance["citations"] = list{doc{"uri": "https://data.example.test/incidents", "digest": plainDigest([]byte("citation"))}}
	op = operation()
	asDoc(op["queryPlan"])["id"] = "query-plan-1"
	s := step(op)
	s["source"], s["limits"] = src, doc{"rows": rows, "bytes": bytes}
	refreshStep(s)
	plan = onePlanOf(s)
	plan["actor"] = "operator@example.test"
	policy = policyDoc()
	p := asDoc(inside(policy, "sources", "incidents"))
	p["citationOrigins"], p["citationResourcePrefixes"] = list{"https://data.example.test"}, list{"/incidents"}
	policy["maxRows"], policy["maxBytes"] = rows, bytes
	policy["maxCitationsPerSource"] = 4
	change(policy)
	return plan, policy, op, doc{"sources": doc{"incidents": src}}
}

func policyDoc() doc { return policy() }

// plainDigest is SHA-256 alone, as the published values have it.
func plainDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestVectors_fixtures(t *testing.T) {
	for name, c := range map[string]struct {
		rows, bytes int
		approved    counterfoil.Limit
		id          string
		change      func(doc)
		result      counterfoil.Result
	}{
		"f": {
			100, 50_000, counterfoil.Limit{Rows: 80, Bytes: 50_000}, "receipt-1", func(doc) {},
			counterfoil.Result{Value: bytes.Repeat([]byte("x"), 40_000), Rows: 70},
		},
		"e": {
			10, 1024, counterfoil.Limit{Rows: 10, Bytes: 1024}, "execution-1", func(p doc) {
				p["maxFieldsPerStep"], p["maxAuthorizationScopesPerSource"] = 8, 4
				p["maxOperationParameterBytes"], p["maxOperationParameterNodes"], p["maxOperationParameterDepth"] = 1024, 64, 8
			}, counterfoil.Result{Value: []byte(rawResult), Rows: 1},
		},
	} {
		plan, pol, op, current := fixtureDocs(c.rows, c.bytes, c.change)
		dry := mustDryRun(t, plan, pol)
		req := request()
		req.Limits = map[string]counterfoil.Limit{"query-incidents": c.approved}
		l := newLab(t)
		l.x.DryRun, l.x.Operation, l.x.Context, l.x.ID = dry, mustOperation(t, op, dry.Policy()), mustContext(t, current), c.id
		l.x.Approval = reparsed(t, mustApprove(t, dry, req, approverKey(t)))
		l.x.Keys = mustRing(t, approverKey(t), ledgerKey(t), receiptKey(t))
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			if name == "f" {
				l.clock = at(20, 0, 20, 0)
			}
			return c.result, nil
		})
		b := l.bundle()
		write := func(kind, expect string, content []byte) { vector(t, kind+"-fixture-"+name+".txt", expect, content) }
		parameters, err := counterfoil.ParseArguments(b.Operation.Parameters())
		noError(t, err)
		write("parameters", parameters.Digest().String(), parameters.Canonical())
		write("operation", b.Operation.InputDigest().String(), b.Operation.Canonical())
		write("plan", dry.Plan().Digest().String(), dry.Plan().Canonical())
		write("policy", dry.Policy().Digest().String(), dry.Policy().Canonical())
		write("context", "accepted", canonical(current))
		write("dry-run", dry.Digest().String(), dry.Canonical())
		write("approval", b.Approval.Digest().String(), b.Approval.Envelope())
		write("consumption", b.Consumption.Digest().String(), b.Consumption.Envelope())
		write("receipt", b.Receipt.Digest().String(), b.Receipt.Envelope())
		write("result", counterfoil.ResultDigest(c.result.Value).String(), c.result.Value)
		for i, e := range l.ledger.Events() {
			write(fmt.Sprintf("event-%d", i+1), counterfoil.EventDigest(e).String(), e)
		}
		s, err := b.Receipt.Statement(t.Context(), receiptKey(t))
		noError(t, err)
		write("statement", s.ReceiptDigest().String(), s.Envelope())
		write("bundle", "verified", b.Encode())
		write("keys", "3 keys", l.x.Keys.JSON())
		pol["allowedEffects"] = list{"read"}
		explicit := mustPolicy(t, pol)
		vector(t, "policy-fixture-"+name+"-with-its-effects.txt", explicit.Digest().String(), explicit.Canonical())
	}
	// A refusal, as the log has it.
	l := newLab(t)
	l.x.StepID = "other"
	l.refused(counterfoil.CodePolicyDenied)
	e := l.ledger.Events()[0]
	vector(t, "event-refused.txt", counterfoil.EventDigest(e).String(), e)
	e = sealedEvent(t, counterfoil.PhaseGoverned, counterfoil.EventParams{
		Tenant: "acme", Audience: auditor, ExecutionID: "change-1", Actor: "person:ada", Code: "freeze/tool",
	})
	vector(t, "event-governed.txt", counterfoil.EventDigest(e).String(), e)
}

// Canonical texts whose SHA-256 is published: ours are the same bytes.
func TestCanonicalize_published(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"more-numbers": "6a0d81b548b161a1bbce8f270e24a8dab0d6700c8033b6018a7dda9ba5f3533e", "composed-and-decomposed": "9ceccba33ee4e404e87847fc985b5c528fc30e23fee9eaf1e4c720de578b87b4",
		"published-parameters": "58a72e86ed33f874179307c8bc3cdf34c9d077aca1ceb0f9cc5ff712d87c012c", "published-result": "729235c767d5eb8a5198bcb9f73eca6a7496b9b5051bcfb919d75206eb4c4fc3",
		"published-operation": "38763b9450f48fbe5d61f8094c4e426d038f02ae525945cc03a263816575375d",
	} {
		v := readVector(t, "canonical/"+name+".txt")
		got, err := counterfoil.Canonicalize(v.content)
		noError(t, err)
		if plainDigest(got) != "sha256:"+want {
			t.Errorf("%s: %s has another digest", name, got)
		}
	}
}
