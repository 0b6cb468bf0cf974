package mcpexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
	"github.com/counterfoil/counterfoil/mcpexec"
)

func now() time.Time { return time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC) }

// A lab is one approved call of search, with an executor that answers with two rows. Tests change one thing in it.
type lab struct {
	t     testing.TB
	ctx   context.Context
	call  counterfoil.Call
	o     mcpexec.Options
	calls int // of Call

	ledger *counterfoiltest.Ledger
	bundle counterfoil.Bundle
}

const answer = `{"content":[],"structuredContent":{"rows":[{"id":7},{"id":8}]}}`

func newLab(t testing.TB, arguments string) *lab {
	t.Helper()
	args, err := counterfoil.ParseArguments([]byte(arguments))
	must(t, err)
	l := &lab{t: t, ctx: t.Context()}
	l.call = counterfoil.Call{
		PlanID: "plan-1", Tenant: "acme", Audience: "log.example.test", Actor: "agent:planner",
		Tool: "search", Method: mcpexec.Method, Effect: counterfoil.EffectRead, Arguments: args, Rows: 2, Bytes: 4096,
		Source: counterfoil.Source{
			ID: "incidents", SchemaVersion: "schema-7", SourceVersion: "snapshot-9", Scopes: []string{"tools:call"},
			DataMode: counterfoil.DataLive, ObservedAt: now(), Attribution: "incident server",
		},
	}
	l.o = mcpexec.Options{
		Tool: "search", Parse: func([]byte) error { return nil }, CountRows: countRows,
		Call: func(context.Context, string, []byte) ([]byte, error) { return []byte(answer), nil },
	}
	l.ledger = counterfoiltest.NewLedger(l.call.Audience, l.key(counterfoil.RoleLedger, "gateway"), now)
	return l
}

// countRows counts the rows of the structured content; a result without any has no count.
func countRows(result []byte) (int64, error) {
	var r struct {
		StructuredContent struct{ Rows []json.RawMessage }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return 0, err
	}
	if r.StructuredContent.Rows == nil {
		return 0, errors.New("there are no rows in it")
	}
	return int64(len(r.StructuredContent.Rows)), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) key(role counterfoil.Role, owner string) *counterfoil.PrivateKey {
	return counterfoiltest.Key(l.t, role, owner, "acme")
}

func (l *lab) ring() *counterfoil.KeyRing {
	l.t.Helper()
	r, err := counterfoil.NewKeyRing(
		l.key(counterfoil.RoleApprover, "reviewer@example.test").Public(),
		l.key(counterfoil.RoleLedger, "gateway").Public(),
		l.key(counterfoil.RoleReceipt, "gateway").Public(),
	)
	must(l.t, err)
	return r
}

func (l *lab) execution() counterfoil.Execution {
	l.t.Helper()
	plan, err := counterfoil.ParsePlan(l.call.Plan())
	must(l.t, err)
	policy, err := counterfoil.ParsePolicy(l.call.Policy(counterfoil.Digest{1}, time.Hour))
	must(l.t, err)
	dry, err := plan.DryRun(policy, now())
	must(l.t, err)
	approval, err := counterfoil.Approve(l.ctx, dry, counterfoil.ApprovalRequest{
		ID: "approval-1", Authority: counterfoil.AuthorityPerson, IssuedAt: now(), ExpiresAt: now().Add(time.Minute),
	}, l.key(counterfoil.RoleApprover, "reviewer@example.test"), now())
	must(l.t, err)
	op, err := counterfoil.ParseOperation(l.call.Operation(), policy)
	must(l.t, err)
	current, err := counterfoil.NewContext(l.call.Source)
	must(l.t, err)
	l.bundle = counterfoil.Bundle{Approval: approval, DryRun: dry, Operation: op}
	return counterfoil.Execution{
		ID: "execution-1", Nonce: [16]byte{1}, DryRun: dry, Approval: approval, Context: current, StepID: counterfoil.CallStep,
		Operation: op, Keys: l.ring(), Ledger: l.ledger, Signer: l.key(counterfoil.RoleReceipt, "gateway"),
		Pseudonyms: counterfoiltest.Pseudonyms(l.t), Now: now,
	}
}

// executor makes the executor of the lab's options, and counts the calls of the tool.
func (l *lab) executor() *mcpexec.Executor {
	l.t.Helper()
	o := l.o
	o.Call = func(ctx context.Context, tool string, arguments []byte) ([]byte, error) {
		l.calls++
		return l.o.Call(ctx, tool, arguments)
	}
	x, err := mcpexec.New(o)
	must(l.t, err)
	return x
}

// execute runs the call through the whole boundary and verifies the receipt as a stranger would.
func (l *lab) execute() (counterfoil.Result, *counterfoil.Report, error) {
	l.t.Helper()
	x := l.execution()
	x.Executor = l.executor()
	book := &recording{Ledger: l.ledger}
	x.Ledger = book
	res, receipt, err := counterfoil.Execute(l.ctx, x)
	if receipt == nil {
		l.t.Fatalf("no receipt: %v", err)
	}
	l.bundle.Receipt, l.bundle.Consumption = receipt, book.consumption
	rep, verr := counterfoil.VerifyBundle(l.bundle.Encode(), l.ring(), now())
	must(l.t, verr)
	return res, rep, err
}

// claim does what Execute does before the executor is entered.
func (l *lab) claim() *counterfoil.Claim {
	l.t.Helper()
	x := l.execution()
	a, err := counterfoil.Authorize(x.DryRun, x.Approval, x.Context, x.StepID, x.Operation, x.Keys, now())
	must(l.t, err)
	c, err := counterfoil.Spend(l.t.Context(), x.Ledger, a, counterfoil.SpendParams{ExecutionID: x.ID, Nonce: x.Nonce, Pseudonyms: x.Pseudonyms})
	must(l.t, err)
	return c
}

type recording struct {
	*counterfoiltest.Ledger
	consumption *counterfoil.Consumption
}

func (r *recording) Spend(ctx context.Context, u counterfoil.Use, e counterfoil.Event) (*counterfoil.Consumption, error) {
	c, err := r.Ledger.Spend(ctx, u, e)
	r.consumption = c
	return c, err
}
