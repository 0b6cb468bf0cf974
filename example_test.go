package counterfoil_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// files is the executor of the example: the one thing that touches the world.
type files struct{}

func (files) Tool() string               { return "delete_file" }
func (files) Effect() counterfoil.Effect { return counterfoil.EffectDestructive }

func (files) Execute(_ context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	work, err := c.Redeem() // works once
	if err != nil {
		return counterfoil.Result{}, err
	}
	fmt.Printf("executing %s with %s\n", work.Operation.Tool(), work.Operation.Parameters())
	return counterfoil.Result{Value: []byte(`{"deleted":1}`), Rows: 1}, nil
}

// newKey makes a key. A program takes the seed from crypto/rand and keeps it.
func newKey(seed byte, role counterfoil.Role, owner string, since time.Time) *counterfoil.PrivateKey {
	k, err := counterfoil.NewPrivateKey([]byte{31: seed}, counterfoil.KeyParams{
		Role: role, Owner: owner, Custody: counterfoil.CustodyGateway, Tenants: []string{"acme"}, NotBefore: since,
	})
	check(err)
	return k
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The whole life of a call: what the agent proposes becomes a plan, a dry run shows what it would do, a person approves
// exactly that, it runs once, and a bundle proves it to anybody who has the public keys.
func Example() {
	ctx := context.Background()
	clock := func() time.Time { return time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC) }
	now := clock()
	person := newKey(1, counterfoil.RoleApprover, "reviewer@example.test", now)
	ledger := newKey(2, counterfoil.RoleLedger, "gateway", now)
	receipts := newKey(3, counterfoil.RoleReceipt, "gateway", now)
	keys, err := counterfoil.NewKeyRing(person.Public(), ledger.Public(), receipts.Public())
	check(err)

	// The agent's bytes are parsed once. From here on there is only their canonical form.
	arguments, err := counterfoil.ParseArguments([]byte(`{ "path": "/data/old.txt", "force": true }`))
	check(err)
	definition, err := counterfoil.DefinitionDigest([]byte(`{"name":"delete_file"}`))
	check(err)
	upstream, err := counterfoil.UpstreamDigest([]byte(`{"command":["file-server"]}`))
	check(err)
	rules, err := counterfoil.RulesDigest([]byte(`{"ask":["delete_file"]}`))
	check(err)
	call := &counterfoil.Call{
		PlanID: "plan-7f3a", Tenant: "acme", Audience: "log.example.test", Actor: "agent:cleaner",
		Tool: "delete_file", Method: "tools/call", Effect: counterfoil.EffectDestructive, Arguments: arguments,
		Rows: 10, Bytes: 1 << 20, Source: counterfoil.Source{
			ID: "files", SchemaVersion: definition.String(), SourceVersion: upstream.String(), Scopes: []string{"tools:call"},
			DataMode: counterfoil.DataLive, ObservedAt: now, Attribution: "file-server",
		},
	}

	// Plan and policy are documents. The dry run says what would happen, and runs nothing.
	plan, err := counterfoil.ParsePlan(call.Plan())
	check(err)
	policy, err := counterfoil.ParsePolicy(call.Policy(rules, time.Hour))
	check(err)
	dry, err := plan.DryRun(policy, now)
	check(err)

	// A person looks at the dry run and signs.
	approval, err := counterfoil.Approve(ctx, dry, counterfoil.ApprovalRequest{
		ID: "approval-19", Authority: counterfoil.AuthorityPerson, Reason: "no longer needed",
		IssuedAt: now, ExpiresAt: now.Add(10 * time.Minute),
	}, person, now)
	check(err)

	// It runs once.
	operation, err := counterfoil.ParseOperation(call.Operation(), policy)
	check(err)
	current, err := counterfoil.NewContext(call.Source)
	check(err)
	names, err := counterfoil.NewPseudonyms("2026-07", []byte("0123456789abcdef0123456789abcdef"))
	check(err)
	book := &recording{Ledger: counterfoiltest.NewLedger("log.example.test", ledger, clock)}
	execution := counterfoil.Execution{
		ID: "execution-1", Nonce: [16]byte{1}, DryRun: dry, Approval: approval, Context: current, StepID: counterfoil.CallStep,
		Operation: operation, Keys: keys, Ledger: book, Executor: files{}, Signer: receipts, Pseudonyms: names, Now: clock,
	}
	result, receipt, err := counterfoil.Execute(ctx, execution)
	check(err)
	fmt.Printf("result %s, outcome %s\n", result.Value, receipt.Outcome())
	_, _, err = counterfoil.Execute(ctx, execution)
	fmt.Println("again:", counterfoil.CodeOf(err))

	// The bundle is all that an auditor needs, years later, with public keys alone.
	bundle := (&counterfoil.Bundle{
		Receipt: receipt, Approval: approval, Consumption: book.consumption, DryRun: dry, Operation: operation,
	}).Encode()
	report, err := counterfoil.VerifyBundle(bundle, keys, now.AddDate(3, 0, 0))
	check(err)
	fmt.Printf("%s ran %s for %s, approved by %s: %s\n", report.Actor, report.Tool, report.Tenant, report.Approvers, report.Reason)
	bundle[len(bundle)/2] ^= 1
	_, err = counterfoil.VerifyBundle(bundle, keys, now.AddDate(3, 0, 0))
	fmt.Println("changed:", err != nil)

	// Output:
	// executing delete_file with {"force":true,"path":"/data/old.txt"}
	// result {"deleted":1}, outcome succeeded
	// again: already-used
	// agent:cleaner ran delete_file for acme, approved by [reviewer@example.test]: no longer needed
	// changed: true
}

// recording keeps the record that the ledger signed, for the bundle. A durable ledger has it in its tables.
type recording struct {
	*counterfoiltest.Ledger
	consumption *counterfoil.Consumption
}

func (r *recording) Spend(ctx context.Context, u counterfoil.Use, started counterfoil.Event) (*counterfoil.Consumption, error) {
	c, err := r.Ledger.Spend(ctx, u, started)
	if err == nil {
		r.consumption = c
	}
	return c, err
}

// A receipt alone shows that the gateway vouches for how an execution ended. Whoever has more of its record holds the receipt
// against that.
func ExampleVerifyReceipt() {
	now := time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC)
	receipts := newKey(3, counterfoil.RoleReceipt, "gateway", now)
	keys, err := counterfoil.NewKeyRing(receipts.Public())
	check(err)
	receipt, approval := exampleReceipt(now, receipts)

	of := counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test", Approval: approval}
	fmt.Println(receipt.Outcome(), counterfoil.VerifyReceipt(receipt, keys, of, now))
	of.Tenant = "other"
	fmt.Println("for another tenant:", counterfoil.CodeOf(counterfoil.VerifyReceipt(receipt, keys, of, now)))
	// Output:
	// succeeded <nil>
	// for another tenant: integrity-failed
}

// exampleReceipt executes a call without effect.
func exampleReceipt(now time.Time, receipts counterfoil.Signer) (*counterfoil.Receipt, *counterfoil.Approval) {
	clock := func() time.Time { return now }
	person, ledger := newKey(1, counterfoil.RoleApprover, "reviewer@example.test", now), newKey(2, counterfoil.RoleLedger, "gateway", now)
	keys, err := counterfoil.NewKeyRing(person.Public(), ledger.Public(), receipts.Public())
	check(err)
	arguments, err := counterfoil.ParseArguments([]byte(`{}`))
	check(err)
	call := &counterfoil.Call{
		PlanID: "plan-7f3a", Tenant: "acme", Audience: "log.example.test", Actor: "agent:cleaner", Tool: "list_files", Method: "tools/call",
		Effect: counterfoil.EffectRead, Arguments: arguments, Rows: 10, Bytes: 1 << 20, Source: counterfoil.Source{
			ID: "files", SchemaVersion: "1", SourceVersion: "1", Scopes: []string{"tools:call"}, DataMode: counterfoil.DataLive, ObservedAt: now,
			Attribution: "file-server",
		},
	}
	plan, err := counterfoil.ParsePlan(call.Plan())
	check(err)
	policy, err := counterfoil.ParsePolicy(call.Policy(counterfoil.Digest{}, time.Hour))
	check(err)
	dry, err := plan.DryRun(policy, now)
	check(err)
	approval, err := counterfoil.Approve(context.Background(), dry, counterfoil.ApprovalRequest{
		ID: "approval-19", Authority: counterfoil.AuthorityPerson, IssuedAt: now, ExpiresAt: now.Add(time.Minute),
	}, person, now)
	check(err)
	operation, err := counterfoil.ParseOperation(call.Operation(), policy)
	check(err)
	current, err := counterfoil.NewContext(call.Source)
	check(err)
	names, err := counterfoil.NewPseudonyms("2026-07", make([]byte, 32))
	check(err)
	_, receipt, err := counterfoil.Execute(context.Background(), counterfoil.Execution{
		ID: "execution-1", Nonce: [16]byte{1}, DryRun: dry, Approval: approval, Context: current, StepID: counterfoil.CallStep,
		Operation: operation, Keys: keys, Ledger: counterfoiltest.NewLedger("log.example.test", ledger, clock),
		Executor: &counterfoiltest.Executor{Name: "list_files", Does: counterfoil.EffectRead}, Signer: receipts, Pseudonyms: names, Now: clock,
	})
	check(err)
	return receipt, approval
}
