package counterfoiltest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// The test of a host: when the ledger's answer is lost, nothing runs, although the use is spent; trying again does not help;
// and what is recorded still fits together.
func ExampleFaultyLedger() {
	clock := counterfoiltest.NewClock(time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC))
	book := counterfoiltest.NewLedger("log.example.test", key(counterfoil.RoleLedger), clock.Now)
	tool := &counterfoiltest.Executor{Name: "delete_file", Does: counterfoil.EffectDestructive}
	x := deletion(clock.Now) // approved, ready to be executed: what the host under test would make
	x.Executor = tool
	x.Ledger = counterfoiltest.NewFaultyLedger(book, counterfoiltest.Fault{
		At: counterfoiltest.AtSpend, Call: 1, Do: counterfoiltest.FailAfter, // the commit happens, its answer is lost
	})

	_, _, err := counterfoil.Execute(context.Background(), x)
	fmt.Println("first:", counterfoil.CodeOf(err))
	_, _, err = counterfoil.Execute(context.Background(), x)
	fmt.Println("again:", counterfoil.CodeOf(err))
	fmt.Println(len(tool.Effects()), "effects,", book.Uses(), "use")
	fmt.Println("check:", counterfoiltest.Check(book, tool))
	// Output:
	// first: unknown-outcome
	// again: already-used
	// 0 effects, 1 use
	// check: <nil>
}

// key makes a key that signs for the tenant acme.
func key(role counterfoil.Role) *counterfoil.PrivateKey {
	seed := make([]byte, 32)
	copy(seed, role)
	return value(counterfoil.NewPrivateKey(seed, counterfoil.KeyParams{
		Role: role, Owner: string(role), Custody: counterfoil.CustodyHolder, Tenants: []string{"acme"}, NotBefore: time.Unix(0, 0),
	}))
}

// value returns v; there must be no error.
func value[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// deletion makes an approved execution, without an executor and a ledger.
func deletion(clock func() time.Time) counterfoil.Execution {
	now := time.Date(2026, 7, 10, 20, 0, 0, 0, time.UTC)
	call := &counterfoil.Call{
		PlanID: "plan-1", Tenant: "acme", Audience: "log.example.test", Actor: "agent:cleaner",
		Tool: "delete_file", Method: "tools/call", Effect: counterfoil.EffectDestructive,
		Arguments: value(counterfoil.ParseArguments([]byte(`{"path":"/data/old.txt"}`))), Rows: 10, Bytes: 1024,
		Source: counterfoil.Source{
			ID: "files", SchemaVersion: "1", SourceVersion: "1", Scopes: []string{"tools:call"}, DataMode: counterfoil.DataLive, ObservedAt: now,
			Attribution: "file-server",
		},
	}
	policy := value(counterfoil.ParsePolicy(call.Policy(counterfoil.ResultDigest(nil), time.Hour)))
	dry := value(value(counterfoil.ParsePlan(call.Plan())).DryRun(policy, now))
	approver, ledger, receipts := key(counterfoil.RoleApprover), key(counterfoil.RoleLedger), key(counterfoil.RoleReceipt)
	approval := value(counterfoil.Approve(context.Background(), dry, counterfoil.ApprovalRequest{
		ID: "approval-1", Authority: counterfoil.AuthorityPerson, IssuedAt: now, ExpiresAt: now.Add(time.Minute),
	}, approver, now))
	return counterfoil.Execution{
		ID: "execution-1", Nonce: [16]byte{1}, DryRun: dry, Approval: approval, Context: value(counterfoil.NewContext(call.Source)),
		StepID: counterfoil.CallStep, Operation: value(counterfoil.ParseOperation(call.Operation(), policy)),
		Keys:   value(counterfoil.NewKeyRing(approver.Public(), ledger.Public(), receipts.Public())),
		Signer: receipts, Pseudonyms: value(counterfoil.NewPseudonyms("1", make([]byte, 32))), Now: clock,
	}
}
