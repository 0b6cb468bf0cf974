package gateway

import (
	"context"
	"time"
)

// A Call is one proposal to touch an upstream. It comes from outside: nothing in it but Upstream, Tenant, Principal and
// Run (which the front door sets) is to be trusted.
type Call struct {
	Tenant    string // the tenant whose rules and records apply
	Principal string // who proposes: "agent:…"
	Owner     string // the person who answers for it, "person:…", who can't approve what it proposes; "" where nobody is told apart
	Run       string // the run that budgets are counted in: one wrap process, one server session

	Upstream Upstream
	Method   string // the MCP method: "tools/call", "resources/read", …
	Tool     string // the tool's name for tools/call; the method itself otherwise
	// Arguments are the raw bytes of the call's arguments, nil for none: params.arguments for tools/call, params without
	// _meta for every other method.
	Arguments []byte
	// Extra is a raw object with the members of a tools/call's params beyond name, arguments and _meta (task,
	// inputResponses, requestState), nil for none. It is shown, digested and approved like the arguments.
	Extra []byte
	// Meta is the raw _meta object to pass on, already reduced to the members that may pass; nil for none. It is not
	// part of what is approved.
	Meta []byte

	// Hold is how long the caller is willing to wait for a person. Zero answers approval_pending at once.
	Hold time.Duration
	// Progress, if not nil, is called now and then while the call waits for a person.
	Progress func(waited time.Duration, message string)
}

// An Answer is what came back from the upstream: exactly one of Result and Error is set, raw as it was relayed.
type Answer struct {
	Result  []byte // the raw JSON-RPC result
	Error   []byte // the raw JSON-RPC error object
	Receipt string // the id of the receipt that proves it
	// Deliver, if set, is to be called with the function that writes the answer to the caller, and returns its error: an
	// identical call that comes once the writing has begun is a new one, unless the writing fails.
	Deliver func(write func() error) error
}

// An Upstream is a server whose tools are behind the gate.
type Upstream interface {
	// Identity returns the canonical document that tells this upstream from every other: argv, working directory, names
	// of environment variables. Its digest is bound into approvals and receipts.
	Identity() []byte
	// Name is short text for people: the command or the host.
	Name() string
	// Definitions returns the raw JSON definitions of the upstream's tools, listed anew when the upstream said that
	// they changed or when refresh is set. meta is the _meta object of the call that asks, for upstreams that demand one.
	// Nobody changes what was returned: not the caller, and not the upstream later.
	Definitions(ctx context.Context, meta []byte, refresh bool) ([][]byte, error)
	// Send sends one approved request and waits for its answer. An error that wraps ErrUnsent says that not one byte
	// reached the upstream; every other error leaves the outcome unknown.
	Send(ctx context.Context, r Request) (Answer, error)
}

// A Request is what an Upstream is told to do, built from approved bytes alone (but for Meta).
type Request struct {
	Method         string
	Tool           string
	Arguments      []byte // canonical
	Extra          []byte // canonical object or nil
	Meta           []byte // raw object or nil
	IdempotencyKey string // the use digest
	MaxBytes       int64  // a larger answer is cut off, not held
}
