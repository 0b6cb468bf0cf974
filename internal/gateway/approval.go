package gateway

import "time"

// A State is where an approval request stands. Every move is one guarded update in the store.
type State string

// The states. Pending and Approved can move on; the others are final, but that a spent request gets its outcome.
const (
	Pending   State = "pending"
	Approved  State = "approved"
	Denied    State = "denied"
	Expired   State = "expired"
	Cancelled State = "cancelled"
	Void      State = "void"
	Spent     State = "spent"
)

// A Finding is what screening saw in a call's arguments.
type Finding struct {
	Pattern  string // the name of the pattern
	Severity string // "low", "medium", "high", "critical"
	Pointer  string // JSON pointer into the arguments
}

// An Approval is a request for a person's decision, with all that the person must see.
type Approval struct {
	ID        string
	Tenant    string
	Requester string // the principal that proposed the call
	Owner     string // who answers for it, "" if nobody is told apart
	Run       string // the run that it was proposed in first
	State     State

	UpstreamID   string // digest of the upstream's identity
	UpstreamName string
	Method       string
	Tool         string
	Effect       string // "read", "mutation", "destructive", …
	Arguments    []byte // canonical bytes, exactly what will be executed
	Definition   []byte // the tool's pinned definition, canonical; nil for methods that have none

	InputDigest      string // what the call is: tool, effect, source, arguments
	DefinitionDigest string
	RulesDigest      string
	DryRunDigest     string // the digest that the approver signs over

	Rule     string // the rule that asked, in words
	Findings []Finding

	CreatedAt time.Time
	ExpiresAt time.Time

	DecidedBy string // identity of the approver, "" while undecided
	DecidedAt time.Time
	Reason    string // the approver's reason
	VoidCause string // why a void request is void: definition, policy, …
	Receipt   string // id of the receipt, once spent and settled
	Outcome   string // outcome of the receipt
}
