package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// Tenant and Audience are those of every record that the suite makes.
const (
	Tenant   = "local"
	Audience = "counterfoil-test"
	// OtherTenant is one that the keys are good for too.
	OtherTenant = "other"
	actor       = "agent:a"
	tool        = "write_file"
)

// Start is when the suite's clocks begin.
func Start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// A Clock stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at Start.
func NewClock() *Clock { return &Clock{now: Start()} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock, back too.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Key returns a fixed key of the role.
func Key(role counterfoil.Role) *counterfoil.PrivateKey {
	seed := sha256.Sum256([]byte("storetest " + role))
	custody := counterfoil.CustodyGateway
	if role == counterfoil.RoleApprover {
		custody = counterfoil.CustodyHolder
	}
	k, err := counterfoil.NewPrivateKey(seed[:], counterfoil.KeyParams{
		Role: role, Owner: string(role) + ":local", Custody: custody, Tenants: []string{Tenant, OtherTenant},
		NotBefore: Start().AddDate(-10, 0, 0), NotAfter: time.Time{},
	})
	if err != nil {
		panic(err)
	}
	return k
}

// Names returns fixed pseudonyms.
func Names() *counterfoil.Pseudonyms {
	n, err := counterfoil.NewPseudonyms("p-test", bytes.Repeat([]byte{1}, 32))
	if err != nil {
		panic(err)
	}
	return n
}

// Ring returns the public keys of all roles.
func Ring() *counterfoil.KeyRing {
	r, err := counterfoil.NewKeyRing(Key(counterfoil.RolePolicy).Public(), Key(counterfoil.RoleLedger).Public(),
		Key(counterfoil.RoleReceipt).Public(), Key(counterfoil.RoleApprover).Public())
	if err != nil {
		panic(err)
	}
	return r
}

// A Case is one approved call, with all the documents that the boundary makes for it.
type Case struct {
	Dry       *counterfoil.DryRun
	Policy    *counterfoil.Policy
	Operation *counterfoil.Operation
	Approval  *counterfoil.Approval
	Auth      *counterfoil.Authorization

	names  *counterfoil.Pseudonyms
	signer counterfoil.Signer // of the receipt
}

// Approved makes a call that a person approved at the given time, for five minutes. Equal names make equal calls.
func Approved(t testing.TB, name string, at time.Time) *Case {
	t.Helper()
	c, err := NewCase(name, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// NewCase does what Approved does, outside of a test.
func NewCase(name string, at time.Time) (*Case, error) {
	return NewMaker(counterfoil.AuthorityPerson).Case(name, at)
}

// A Maker makes cases with keys that were made once: that costs more than all the rest of a case.
type Maker struct {
	authority counterfoil.AuthorityKind
	approver  counterfoil.Signer
	receipts  counterfoil.Signer
	ring      *counterfoil.KeyRing
	names     *counterfoil.Pseudonyms
}

// NewMaker returns a maker of calls that a person has approved, or the policy.
func NewMaker(authority counterfoil.AuthorityKind) *Maker {
	role := counterfoil.RoleApprover
	if authority == counterfoil.AuthorityPolicy {
		role = counterfoil.RolePolicy
	}
	return &Maker{authority: authority, approver: Key(role), receipts: Key(counterfoil.RoleReceipt), ring: Ring(), names: Names()}
}

// Case makes a call that was approved at the given time, for five minutes. Equal names make equal calls.
func (m *Maker) Case(name string, at time.Time) (*Case, error) {
	c, current, err := m.decide(name, at)
	if err != nil {
		return nil, err
	}
	c.Auth, err = counterfoil.Authorize(c.Dry, c.Approval, current, counterfoil.CallStep, c.Operation, m.ring, at)
	return c, err
}

// Govern does a whole call over the store: it is parsed, judged, approved, spent, run and settled.
func (m *Maker) Govern(ctx context.Context, store gateway.Uses, name string, now func() time.Time) error {
	c, current, err := m.decide(name, now())
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte("nonce " + name))
	_, _, err = counterfoil.Execute(ctx, counterfoil.Execution{
		ID: "run-" + name, Nonce: [16]byte(sum[:16]), DryRun: c.Dry, Approval: c.Approval, Context: current, StepID: counterfoil.CallStep,
		Operation: c.Operation, Keys: m.ring, Ledger: &Ledger{Store: store, Case: c}, Executor: executor(done), Signer: m.receipts,
		Pseudonyms: m.names, Now: now, Timeout: 0,
	})
	return err
}

// decide makes a call and all that is decided of it before its use is spent.
func (m *Maker) decide(name string, at time.Time) (*Case, *counterfoil.Context, error) {
	args, err := counterfoil.ParseArguments(fmt.Appendf(nil, `{"path":%q,"text":"hello"}`, name))
	if err != nil {
		return nil, nil, err
	}
	rules, err := counterfoil.RulesDigest([]byte(`{"rules":[]}`))
	if err != nil {
		return nil, nil, err
	}
	source := counterfoil.Source{
		ID: "server", SchemaVersion: "1", SourceVersion: "1", Scopes: []string{"tools:execute"}, DataMode: counterfoil.DataLive,
		ObservedAt: at, Attribution: "server",
	}
	call := counterfoil.Call{
		PlanID: "plan-" + name, Tenant: Tenant, Audience: Audience, Actor: actor, Tool: tool, Method: "tools/call",
		Effect: counterfoil.EffectMutation, Arguments: args, Source: source, Rows: 10, Bytes: 1 << 20,
	}
	c := &Case{names: m.names, signer: m.receipts}
	if c.Policy, err = counterfoil.ParsePolicy(call.Policy(rules, time.Hour)); err != nil {
		return nil, nil, err
	}
	plan, err := counterfoil.ParsePlan(call.Plan())
	if err != nil {
		return nil, nil, err
	}
	if c.Dry, err = plan.DryRun(c.Policy, at); err != nil {
		return nil, nil, err
	}
	if c.Operation, err = counterfoil.ParseOperation(call.Operation(), c.Policy); err != nil {
		return nil, nil, err
	}
	c.Approval, err = counterfoil.Approve(context.Background(), c.Dry, counterfoil.ApprovalRequest{
		ID: "approval-" + name, Authority: m.authority, IssuedAt: at, ExpiresAt: at.Add(5 * time.Minute),
	}, m.approver, at)
	if err != nil {
		return nil, nil, err
	}
	current, err := counterfoil.NewContext(source)
	return c, current, err
}

// A Ledger is a gateway's store as the boundary sees it, for one call.
type Ledger struct {
	Store    gateway.Uses
	Case     *Case
	Spending gateway.Spending // what is spent along: the documents are filled in
	Settling gateway.Settling
	// Operation is the sealed operation; nil for one that is not sealed at all.
	Operation []byte
	Use       counterfoil.Use // set by Spend
}

// Spend implements counterfoil.Ledger.
func (l *Ledger) Spend(ctx context.Context, u counterfoil.Use, started counterfoil.Event) (*counterfoil.Consumption, error) {
	l.Use = u
	s := l.Spending
	s.Use, s.Started = u, started
	s.Approval, s.DryRun, s.Policy = l.Case.Approval.Envelope(), l.Case.Dry.Canonical(), l.Case.Policy.Canonical()
	if s.Operation = l.Operation; s.Operation == nil {
		s.Operation = []byte("sealed " + u.ExecutionID)
	}
	return l.Store.Spend(ctx, s)
}

// Settle implements counterfoil.Ledger.
func (l *Ledger) Settle(ctx context.Context, r *counterfoil.Receipt, completed counterfoil.Event) error {
	s := l.Settling
	s.Receipt, s.Completed = r, completed
	return l.Store.Settle(ctx, s)
}

// Claim spends the case's use as the execution with the id.
func (l *Ledger) Claim(ctx context.Context, id string) (*counterfoil.Claim, error) {
	sum := sha256.Sum256([]byte("nonce " + id))
	return counterfoil.Spend(ctx, l, l.Case.Auth, counterfoil.SpendParams{ExecutionID: id, Nonce: [16]byte(sum[:16]), Pseudonyms: l.Case.names})
}

// executor does what the test says.
type executor func(w counterfoil.Work) (counterfoil.Result, error)

func (executor) Tool() string               { return tool }
func (executor) Effect() counterfoil.Effect { return counterfoil.EffectMutation }

func (x executor) Execute(_ context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	w, err := c.Redeem()
	if err != nil {
		return counterfoil.Result{}, err
	}
	return x(w)
}

func done(counterfoil.Work) (counterfoil.Result, error) {
	return counterfoil.Result{Value: []byte(`{"ok":true}`)}, nil
}

// settle runs the claim and settles it.
func (l *Ledger) settle(ctx context.Context, c *counterfoil.Claim, x executor, now time.Time) (*counterfoil.Receipt, error) {
	f, err := counterfoil.Run(ctx, c, x)
	if err != nil {
		return nil, err
	}
	return counterfoil.Settle(ctx, l, f, l.Case.signer, now)
}

// Finish runs the claim, with success, and settles it.
func (l *Ledger) Finish(ctx context.Context, c *counterfoil.Claim, now time.Time) (*counterfoil.Receipt, error) {
	return l.settle(ctx, c, done, now)
}

// Work runs the claim with an effect, and settles it.
func (l *Ledger) Work(ctx context.Context, c *counterfoil.Claim, now time.Time, effect func() error) (*counterfoil.Receipt, error) {
	return l.settle(ctx, c, func(w counterfoil.Work) (counterfoil.Result, error) {
		if err := effect(); err != nil {
			return counterfoil.Result{}, err
		}
		return done(w)
	}, now)
}

// Recovered makes the receipt of an execution of which only the records are left, as recovery does.
func Recovered(x gateway.Execution, outcome counterfoil.Outcome, now time.Time) (gateway.Settling, error) {
	policy, err := counterfoil.ParsePolicy(x.Policy)
	if err != nil {
		return gateway.Settling{}, err
	}
	dry, err := counterfoil.ParseDryRun(x.DryRun, policy)
	if err != nil {
		return gateway.Settling{}, err
	}
	a, err := counterfoil.ParseApproval(x.Approval)
	if err != nil {
		return gateway.Settling{}, err
	}
	c, err := counterfoil.ParseConsumption(x.Consumption)
	if err != nil {
		return gateway.Settling{}, err
	}
	r, e, err := counterfoil.Recover(context.Background(), dry, a, c, outcome, Names(), Key(counterfoil.RoleReceipt), now)
	return gateway.Settling{Receipt: r, Completed: e, Request: x.Request}, err
}

// event makes an event of a phase.
func event(t testing.TB, phase counterfoil.Phase, id string) counterfoil.Event {
	t.Helper()
	e, err := counterfoil.NewEvent(phase, Names(), counterfoil.EventParams{Tenant: Tenant, Audience: Audience, ExecutionID: id, Actor: actor, Tool: tool})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Refused makes an event of a refusal.
func Refused(t testing.TB, id string) counterfoil.Event {
	return event(t, counterfoil.PhaseRefused, id)
}
