package counterfoil_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// The fixture: one step that reads incidents, a policy that allows just that, and everybody's keys.

type doc = map[string]any
type list = []any

func at(hour, minute, second, ms int) time.Time {
	return time.Date(2026, 7, 10, hour, minute, second, ms*1e6, time.UTC)
}

func now() time.Time     { return at(20, 0, 0, 0) }
func expires() time.Time { return at(21, 0, 0, 0) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// canonical writes a value as RFC 8785 text without any code of ours.
func canonical(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out := jsontext.Value(b)
	if err := out.Canonicalize(); err != nil {
		panic(err)
	}
	return out
}

// digestOf is the digest of the specification, without any code of ours.
func digestOf(role string, v any) string { return digestOfBytes(role, canonical(v)) }

func digestOfBytes(role string, b []byte) string {
	sum := sha256.Sum256(append([]byte("counterfoil/v1/"+role+"\n"), b...))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func provenance() doc {
	return doc{
		"attribution": "Incident service", "citations": list{}, "dataMode": "live", "observedAt": stamp(at(19, 59, 30, 0)),
	}
}

func source() doc {
	return doc{
		"id": "incidents", "schemaVersion": "schema-7", "sourceVersion": "snapshot-9",
		"authorizationScope": list{"incidents:read"}, "provenance": provenance(),
	}
}

func operation() doc {
	op := doc{
		"tool": "query", "effect": "read", "sourceId": "incidents", "fields": list{"OBJECTID", "status"},
		"parameters": doc{"where": "status = 'open'"}, "queryPlan": doc{"id": "tools/call"},
	}
	refreshOperation(op)
	return op
}

func refreshOperation(op doc) {
	asDoc(op["queryPlan"])["fingerprint"] = digestOf("arguments", doc{"tool": op["tool"], "arguments": op["parameters"]})
}

// step makes the plan's step out of the operation.
func step(op doc) doc {
	s := doc{
		"id": "query-incidents", "tool": op["tool"], "effect": op["effect"], "source": source(), "fields": op["fields"],
		"queryPlan": maps.Clone(asDoc(op["queryPlan"])), "parametersDigest": digestOf("parameters", op["parameters"]),
		"limits": doc{"rows": 100, "bytes": 50_000},
	}
	refreshStep(s)
	return s
}

// refreshStep sets the step's inputDigest to what the step says.
func refreshStep(s doc) {
	fields := slices.Clone(asList(s["fields"]))
	slices.SortFunc(fields, func(a, b any) int { return compareStrings(asString(a), asString(b)) })
	input := doc{
		"tool": s["tool"], "effect": s["effect"], "sourceId": asDoc(s["source"])["id"], "queryPlan": s["queryPlan"],
		"fields": fields, "parametersDigest": s["parametersDigest"],
	}
	if e, bound := s["evidenceDigest"]; bound {
		input["evidenceDigest"] = e
	}
	s["inputDigest"] = digestOf("input", input)
}

func compareStrings(a, b string) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

func plan() doc {
	return doc{
		"kind": "counterfoil.plan", "version": "1.0", "id": "plan-1", "tenant": "acme", "audience": "log.example.test",
		"actor": "agent:planner", "provider": "fixture", "steps": list{step(operation())},
	}
}

func sourcePolicy() doc {
	return doc{
		"fields": list{"OBJECTID", "status"}, "authorizationScope": list{"incidents:read"},
		"schemaVersions": list{"schema-7"}, "sourceVersions": list{"snapshot-9"}, "dataModes": list{"live"},
		"maxProvenanceAgeMs": 60_000,
	}
}

func policy() doc {
	return doc{
		"kind": "counterfoil.policy", "version": "1.0", "allowedTools": list{"query"}, "sources": doc{"incidents": sourcePolicy()},
		"maxSteps": 1, "maxRows": 100, "maxBytes": 50_000, "maxFieldsPerStep": 16, "maxAuthorizationScopesPerSource": 8,
		"maxOperationParameterBytes": 4096, "maxOperationParameterNodes": 128, "maxOperationParameterDepth": 8,
		"rulesDigest": digestOf("policy", doc{"rules": "of the tenant"}),
	}
}

func sources() doc { return doc{"sources": doc{"incidents": source()}} }

// inside returns the object or array at a path of names and indexes.
func inside(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = asDoc(v)[p]
		case int:
			v = asList(v)[p]
		}
	}
	return v
}

func mustPlan(t testing.TB, d doc) *counterfoil.Plan {
	t.Helper()
	p, err := counterfoil.ParsePlan(canonical(d))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustPolicy(t testing.TB, d doc) *counterfoil.Policy {
	t.Helper()
	p, err := counterfoil.ParsePolicy(canonical(d))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustDryRun(t testing.TB, plan, policy doc) *counterfoil.DryRun {
	t.Helper()
	d, err := mustPlan(t, plan).DryRun(mustPolicy(t, policy), now())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustOperation(t testing.TB, d doc, p *counterfoil.Policy) *counterfoil.Operation {
	t.Helper()
	op, err := counterfoil.ParseOperation(canonical(d), p)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func mustContext(t testing.TB, d doc) *counterfoil.Context {
	t.Helper()
	c, err := counterfoil.ParseContext(canonical(d))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantCode fails the test unless err carries the code.
func wantCode(t testing.TB, err error, code counterfoil.Code) {
	t.Helper()
	if !errors.Is(err, code) || counterfoil.CodeOf(err) != code {
		t.Fatalf("got error %v, want code %q", err, code)
	}
	e, ok := errors.AsType[*counterfoil.Error](err)
	if !ok || e.Msg == "" {
		t.Fatalf("error %v is not an *Error with a message", err)
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const reviewer = "reviewer@example.test"

func approverKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleApprover, reviewer, "acme")
}

func policyKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RolePolicy, "gateway", "acme")
}

func ledgerKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleLedger, "gateway", "acme")
}

func receiptKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleReceipt, "gateway", "acme")
}

func mustRing(t testing.TB, keys ...*counterfoil.PrivateKey) *counterfoil.KeyRing {
	t.Helper()
	public := make([]counterfoil.PublicKey, 0, len(keys))
	for _, k := range keys {
		public = append(public, k.Public())
	}
	r, err := counterfoil.NewKeyRing(public...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func allKeys(t testing.TB) *counterfoil.KeyRing {
	return mustRing(t, approverKey(t), policyKey(t), ledgerKey(t), receiptKey(t))
}

func request() counterfoil.ApprovalRequest {
	return counterfoil.ApprovalRequest{
		ID: "approval-1", Authority: counterfoil.AuthorityPerson, IssuedAt: now(), ExpiresAt: expires(),
		Limits: map[string]counterfoil.Limit{"query-incidents": {Rows: 80, Bytes: 50_000}},
	}
}

func mustApprove(t testing.TB, dry *counterfoil.DryRun, req counterfoil.ApprovalRequest, key counterfoil.Signer) *counterfoil.Approval {
	t.Helper()
	a, err := counterfoil.Approve(context.Background(), dry, req, key, now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// reparsed returns the approval as a stranger reads it: nothing in it is known to be made here.
func reparsed(t testing.TB, a *counterfoil.Approval) *counterfoil.Approval {
	t.Helper()
	b, err := counterfoil.ParseApproval(a.Envelope())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A lab is all that one execution needs. Tests change one thing in it.
type lab struct {
	t      testing.TB
	x      counterfoil.Execution
	ledger *spy
	runs   int // how often the executor was entered
	clock  time.Time
}

const rawResult = `{"features":[{"id":7,"status":"open"}]}`

func newLab(t testing.TB) *lab { return newLabOf(t, plan(), policy(), operation()) }

func newLabOf(t testing.TB, plan, policy, op doc) *lab {
	t.Helper()
	l := &lab{t: t, clock: now()}
	dry := mustDryRun(t, plan, policy)
	l.ledger = &spy{Ledger: counterfoiltest.NewLedger("log.example.test", ledgerKey(t), l.now)}
	l.x = counterfoil.Execution{
		ID: "execution-1", Nonce: [16]byte{1, 2, 3}, DryRun: dry, Context: mustContext(t, sources()), StepID: "query-incidents",
		Approval: reparsed(t, mustApprove(t, dry, request(), approverKey(t))), Operation: mustOperation(t, op, dry.Policy()),
		Keys: allKeys(t), Ledger: l.ledger, Signer: receiptKey(t), Pseudonyms: counterfoiltest.Pseudonyms(t), Now: l.now,
	}
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
	return l
}

// keyed gives the lab an empty ledger with another key.
func (l *lab) keyed(ledger counterfoil.Signer) {
	l.ledger = &spy{Ledger: counterfoiltest.NewLedger("log.example.test", ledger, l.now)}
	l.x.Ledger = l.ledger
}

func (l *lab) now() time.Time { return l.clock }

// executes sets what the executor does.
func (l *lab) executes(run func(context.Context, counterfoil.Work) (counterfoil.Result, error)) {
	l.x.Executor = &counterfoiltest.Executor{
		Name: l.x.Operation.Tool(), Does: l.x.Operation.Effect(),
		Run: func(ctx context.Context, w counterfoil.Work) (counterfoil.Result, error) {
			l.runs++
			return run(ctx, w)
		},
	}
}

func (l *lab) execute() (counterfoil.Result, *counterfoil.Receipt, error) {
	return counterfoil.Execute(context.Background(), l.x)
}

// bundle executes and returns the whole record.
func (l *lab) bundle() *counterfoil.Bundle {
	l.t.Helper()
	_, r, err := l.execute()
	if r == nil {
		l.t.Fatal(err)
	}
	return &counterfoil.Bundle{
		Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun, Operation: l.x.Operation,
	}
}

// refused executes, and wants a refusal before anything was spent or run.
func (l *lab) refused(code counterfoil.Code) {
	l.t.Helper()
	_, r, err := l.execute()
	wantCode(l.t, err, code)
	if r != nil || l.runs != 0 || l.ledger.spends != 0 {
		l.t.Fatalf("receipt %v, %d runs, %d spends after a refusal", r, l.runs, l.ledger.spends)
	}
}

// authorize does the first of Execute's four steps.
func (l *lab) authorize() (*counterfoil.Authorization, error) {
	return counterfoil.Authorize(l.x.DryRun, l.x.Approval, l.x.Context, l.x.StepID, l.x.Operation, l.x.Keys, l.clock)
}

func (l *lab) spendParams() counterfoil.SpendParams {
	return counterfoil.SpendParams{ExecutionID: l.x.ID, Nonce: l.x.Nonce, Pseudonyms: l.x.Pseudonyms}
}

func (l *lab) claim() *counterfoil.Claim {
	l.t.Helper()
	a, err := l.authorize()
	noError(l.t, err)
	c, err := counterfoil.Spend(context.Background(), l.x.Ledger, a, l.spendParams())
	noError(l.t, err)
	return c
}

// A spy is a ledger that remembers what it was asked, and can be told to fail.
type spy struct {
	*counterfoiltest.Ledger
	spends, settles int
	use             counterfoil.Use
	consumption     *counterfoil.Consumption

	beforeSpend  func() (*counterfoil.Consumption, error) // answers in place of the ledger, unless both are nil
	afterSpend   func(*counterfoil.Consumption) (*counterfoil.Consumption, error)
	beforeSettle func() error
	afterSettle  func() error
}

func (s *spy) Spend(ctx context.Context, u counterfoil.Use, e counterfoil.Event) (*counterfoil.Consumption, error) {
	s.spends++
	s.use = u
	if s.beforeSpend != nil {
		if c, err := s.beforeSpend(); c != nil || err != nil {
			return c, err
		}
	}
	c, err := s.Ledger.Spend(ctx, u, e)
	if err != nil {
		return nil, err
	}
	s.consumption = c
	if s.afterSpend != nil {
		return s.afterSpend(c)
	}
	return c, nil
}

func (s *spy) Settle(ctx context.Context, r *counterfoil.Receipt, e counterfoil.Event) error {
	s.settles++
	if s.beforeSettle != nil {
		if err := s.beforeSettle(); err != nil {
			return err
		}
	}
	if err := s.Ledger.Settle(ctx, r, e); err != nil {
		return err
	}
	if s.afterSettle != nil {
		return s.afterSettle()
	}
	return nil
}

// as takes a value as what the test knows it to be.
func as[T any](v any) T {
	t, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("%v is a %T", v, v))
	}
	return t
}

func asDoc(v any) doc        { return as[doc](v) }
func asList(v any) list      { return as[list](v) }
func asString(v any) string  { return as[string](v) }
func asNumber(v any) float64 { return as[float64](v) }
func asInt(v any) int        { return as[int](v) }

// sameValue compares two JSON numbers as decimals of any size.
func sameValue(a, b string) bool {
	if mantissa, _, _ := strings.Cut(strings.ToLower(a), "e"); strings.Trim(mantissa, "-0.") == "" {
		a = "0" // whatever the exponent
	}
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}
