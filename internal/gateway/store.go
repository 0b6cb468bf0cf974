package gateway

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
)

// The chain's view of the database, in interfaces of few methods. One value implements them all. Every method is one
// transaction, durable when it returns nil. Bytes named sealed are encrypted by the caller; the store never reads them.
// Errors carry a counterfoil.Code: CodeUnavailable when nothing was recorded (busy, full, read-only, closed),
// CodeUnknownOutcome when a commit may or may not have happened. A missing row is ErrNotFound.
//
// Text that is not UTF-8, or holds a NUL, is CodeInvalidInput, and so is a name that rows are found by (of a tenant, a
// request, a counter, …) of more than 1,024 bytes. An event must be about what it is recorded with: the same tenant, the
// same execution or request, and a phase that the method is for.

// ErrNotFound says that there is no such row for that tenant.
const ErrNotFound = sentinel("there is no such record")

// ErrTooMany says that a tenant's cap on pending requests is reached; nothing was recorded.
const ErrTooMany = sentinel("too many requests are pending")

// A ConflictError says that a state move lost: the request stands elsewhere by now.
type ConflictError struct{ State State }

func (e *ConflictError) Error() string { return "the request is " + string(e.State) + " already" }

// A Spending is one use to be spent, with all that happens in the same commit.
type Spending struct {
	Use     counterfoil.Use
	Started counterfoil.Event

	// Request, if set, is moved from approved to spent; any other state refuses with CodeAlreadyUsed (spent) or
	// CodePolicyDenied (void, revoked, …).
	Request string
	// Counters are raised, each within its limit; one that can't be refuses with ErrBudget.
	Counters []Counter
	// Once are keys that no spending of the tenant may have had before; one that was refuses with CodeAlreadyUsed.
	Once []Once
	// Marks are what the decision rests on beside the use's own guards; one that stands elsewhere by now refuses with
	// ErrChanged.
	Marks []Mark

	// What recovery and bundles need. Operation is sealed.
	Approval, DryRun, Policy, Operation []byte
}

// A Counter is one line of a tenant's budget.
type Counter struct {
	Name string
	// Add is what a spending reserves, at least 1, and what a settling corrects that by: the actual less the reservation.
	Add int64
	// Limit is what the line may reach by a spending; below 1 it allows nothing. A settling is recorded whatever the limit,
	// since it happened, and takes no line below zero.
	Limit int64
}

// A Once is a key that can be taken once: the id of a token, the idempotency key of a request. Until is when it may be
// forgotten, since what carries it has ended by then.
type Once struct {
	Key   string
	Until time.Time
}

// A Mark is a named number of a tenant that only rises: the generation of a policy or of a definition, the epoch of a
// freeze. One that was never set is 0.
type Mark struct {
	Name  string
	Value int64
}

// ErrBudget says that a counter has reached its limit; nothing was recorded.
const ErrBudget = sentinel("the budget is used up")

// ErrChanged says that a mark stands elsewhere than the caller saw it; nothing was recorded.
const ErrChanged = sentinel("what the decision rests on has changed")

// A Settling is the end of a spent use.
type Settling struct {
	Receipt   *counterfoil.Receipt
	Completed counterfoil.Event
	// Counters correct what the spending reserved. A late outcome corrects nothing.
	Counters []Counter
	// Request, if set, gets the outcome and, sealed, the answer that waits for its caller until KeepUntil.
	Request   string
	Answer    []byte
	KeepUntil time.Time
}

// A Resolution says what became of a use whose commit was unknown.
type Resolution int

// The resolutions. The zero Resolution is none.
const (
	UseAbsent   Resolution = iota + 1 // not spent
	UseMine                           // spent by this execution id
	UseAnothers                       // spent by another
)

// Uses is the ledger of spent uses.
type Uses interface {
	// Spend records the first use. Exactly one call per (approval, step) ever returns nil.
	Spend(ctx context.Context, s Spending) (*counterfoil.Consumption, error)
	// Settle records a receipt if the use has none yet. The same receipt again is no error and records nothing; another one
	// is not kept: its outcome is recorded as a late-outcome event, once for each receipt, and the error is CodeAlreadyUsed.
	Settle(ctx context.Context, s Settling) error
	// Record appends one event of any other phase.
	Record(ctx context.Context, e counterfoil.Event) error
	// Resolve looks a use up after an unknown outcome. The consumption is set for UseMine.
	Resolve(ctx context.Context, u counterfoil.Use) (Resolution, *counterfoil.Consumption, error)
	// Orphans returns executions that were started by processes that are dead by now and have no receipt.
	Orphans(ctx context.Context) ([]Execution, error)
}

// Marks are a tenant's numbers that spendings are held against.
type Marks interface {
	// Mark returns where the mark stands, 0 for one that was never set.
	Mark(ctx context.Context, tenant, name string) (int64, error)
	// Advance raises the mark, with its event, if it stands at from; ErrChanged if it doesn't. to must be above from.
	Advance(ctx context.Context, tenant, name string, from, to int64, e counterfoil.Event) error
}

// Revocations is the end of authority before its time.
type Revocations interface {
	// Revoke records that the subject is revoked in the tenant, by the decision's envelope, with its event. From then on
	// Spend refuses every use that has the subject among its guards. The same decision again records nothing; another
	// decision on the same subject is recorded too: what was superseded may turn out to be compromised.
	Revoke(ctx context.Context, tenant string, subject counterfoil.Digest, decision []byte, e counterfoil.Event) error
	// Revocations returns the envelopes of the decisions on a subject, oldest first.
	Revocations(ctx context.Context, tenant string, subject counterfoil.Digest) ([][]byte, error)
}

// An Execution is a spent use as it stands in the ledger.
type Execution struct {
	ID                                  string
	Tenant                              string
	Request                             string // "" when policy allowed it
	Approval, DryRun, Policy, Operation []byte // Operation is sealed
	Consumption                         []byte
	Receipt                             []byte // nil while it is not settled
	StartedAt                           time.Time
	Upstream, Tool                      string // of the plan's step: for lists
	Effect                              counterfoil.Effect
	Outcome                             string // of the receipt
}

// Executions reads the ledger, newest first.
type Executions interface {
	Execution(ctx context.Context, tenant, id string) (Execution, error)
	// Executions returns at most limit executions that started before the one with id after ("" for the newest). The
	// documents are left out.
	Executions(ctx context.Context, tenant, after string, limit int) ([]Execution, error)
}

// A RequestRow is an approval request as it is stored.
type RequestRow struct {
	ID        string
	Tenant    string
	Requester string
	Key       string // what makes a retry identical: a digest over tenant, principal, upstream, method, tool, arguments
	State     State
	Answered  bool // the caller was told approval_pending, and may come back
	Upstream  string
	Tool      string
	Effect    string
	Details   []byte // sealed: all that the approver sees and that will be executed

	CreatedAt time.Time
	ExpiresAt time.Time // of the request while it is pending, of the approval once it is approved

	Decision  []byte // the signed envelope: an approval's or a denial's
	DecidedBy string
	DecidedAt time.Time
	Reason    string
	Cause     string // of a void or cancelled request

	Execution string // once spent
	Outcome   string // once settled
	Answer    []byte // sealed; kept until KeepUntil
	Delivered bool
	KeepUntil time.Time
}

// An Attachment is a waiter that asks for the request that its call belongs to.
type Attachment struct {
	New      RequestRow    // inserted as pending when no live request has its tenant and key
	Waiter   string        // unique id of the waiter
	Now      time.Time     // decides what is live
	CoolDown time.Duration // how long a denial stands
	Cap      int           // how many pending requests a tenant may have
	Opened   counterfoil.Event
}

// Requests keeps approval requests. Moves between states are guarded updates: who loses gets *ConflictError.
type Requests interface {
	// Attach returns the live request of the key and counts the waiter in, or inserts the new one (with its event). Live
	// is: pending or approved before its expiry; spent and not delivered before KeepUntil; denied within the cool-down,
	// which takes no waiter. A pending or approved row past its expiry is moved to expired first.
	Attach(ctx context.Context, a Attachment) (row RequestRow, err error)
	// Answer counts the waiter out, to come back later: the request lives on to its expiry. It returns the row as it is
	// in that same transaction; if the row is no longer pending nothing is changed and the waiter stays.
	Answer(ctx context.Context, tenant, id, waiter string) (RequestRow, error)
	// Leave counts the waiter out for good. When it was the last, and no caller was ever told approval_pending, a pending
	// request becomes cancelled and an approved one void, with the given cause.
	Leave(ctx context.Context, tenant, id, waiter, cause string) error
	// Deliver marks a spent request's answer as handed over.
	Deliver(ctx context.Context, tenant, id string) error
	Request(ctx context.Context, tenant, id string) (RequestRow, error)
}

// A Ruling is a person's decision on a pending request.
type Ruling struct {
	Tenant, ID string
	To         State // Approved or Denied
	Decision   []byte
	By, Reason string
	At         time.Time
	ExpiresAt  time.Time // of the approval
	Event      counterfoil.Event
}

// Rulings is the approver's side of the requests.
type Rulings interface {
	// Rule moves a request from pending to Approved or Denied, if it has not expired at r.At.
	Rule(ctx context.Context, r Ruling) error
	// Lapse moves a pending or approved request to Void, Expired or Cancelled, with a cause and an event.
	Lapse(ctx context.Context, tenant, id string, to State, cause string, e counterfoil.Event) error
	// Requests returns at most limit requests in the state ("" for all), newest first, that were created before the
	// one with id after. Details and Answer are left out.
	Requests(ctx context.Context, tenant string, state State, after string, limit int) ([]RequestRow, error)
	// Sweep expires what has expired at now, counts out the waiters of dead processes as Leave does, and drops answers
	// past KeepUntil. It returns the requests that it moved.
	Sweep(ctx context.Context, now time.Time) ([]RequestRow, error)
	// Version changes whenever any process has committed. It is cheap enough to be polled every few milliseconds.
	Version(ctx context.Context) (int64, error)
}

// A ServerRow is an upstream as it was last seen.
type ServerRow struct {
	Tenant   string
	ID       string // the upstream digest
	Name     string
	Identity []byte // canonical identity document
	Tools    []byte // canonical JSON array of the definitions as last listed
	Pins     []byte // canonical JSON object: tool → its definition's canonical text, as first seen or as accepted
	// Classes is the canonical classification document of a person's one decision, and Decision its signature; nil
	// while there is none.
	Classes, Decision []byte
	SeenAt            time.Time
}

// Servers keeps what is known of upstreams.
type Servers interface {
	Server(ctx context.Context, tenant, id string) (ServerRow, error)
	Servers(ctx context.Context, tenant string) ([]ServerRow, error)
	// SeeServer inserts the row, or updates Name, Tools and SeenAt of an existing one; Pins gains the tools it lacks and
	// never changes one that it has.
	SeeServer(ctx context.Context, row ServerRow) (ServerRow, error)
	// ClassifyServer sets Classes, Decision and Pins, with an event.
	ClassifyServer(ctx context.Context, row ServerRow, e counterfoil.Event) error
}

// Sessions keeps the console's sign-in codes and sessions, by the SHA-256 of their secret.
type Sessions interface {
	PutSecret(ctx context.Context, kind, hash string, expires time.Time) error
	HasSecret(ctx context.Context, kind, hash string, now time.Time) (bool, error)
	// TakeSecret removes the secret and reports whether it was there and live: exactly one caller gets true.
	TakeSecret(ctx context.Context, kind, hash string, now time.Time) (bool, error)
}

// Store is all of the database.
type Store interface {
	Uses
	Marks
	Revocations
	Executions
	Requests
	Rulings
	Servers
	Sessions
}
