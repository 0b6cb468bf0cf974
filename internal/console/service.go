package console

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A Service is what the console shows and acts on. Errors of the boundary (*counterfoil.Error) are shown with their
// message; any other error but those named here is shown as a fault of ours.
type Service interface {
	// Approvals lists requests, up to limit of them, after the one that the cursor names ("" is the beginning). The
	// state is "pending" (those that expire first come first) or "decided" (all others, the latest first). Entries need
	// no Arguments and no Definition. next is the cursor of the following page, "" after the last.
	Approvals(ctx context.Context, state, after string, limit int) (list []gateway.Approval, next string, err error)
	// Approval returns one request whole, or ErrNotFound.
	Approval(ctx context.Context, id string) (gateway.Approval, error)
	// Approve signs and records the decision, or fails with ErrNotFound, or with a *Conflict when the request is no
	// longer pending.
	Approve(ctx context.Context, id string, key Key, reason string) error
	// Deny is as Approve, for a no.
	Deny(ctx context.Context, id string, key Key, reason string) error
	// Upstreams returns the servers that are known.
	Upstreams(ctx context.Context) ([]Upstream, error)
	// Classify records one decision over all tools of a server: effects maps each tool's name to its effect, digest is
	// Upstream.Digest as it was shown. Fails with a *Conflict when that is no longer the server's digest.
	Classify(ctx context.Context, upstreamID string, effects map[string]string, digest string, key Key) error
	// Receipts lists receipts, the latest first; the cursor is as for Approvals.
	Receipts(ctx context.Context, after string, limit int) (list []Receipt, next string, err error)
	// Receipt returns a receipt's evidence bundle, or ErrNotFound.
	Receipt(ctx context.Context, id string) (bundle []byte, err error)
	// Unlock opens the approver's key, or fails with ErrWrongPassphrase.
	Unlock(ctx context.Context, passphrase string) (Key, error)
	// Redeem takes a one-time code for signing in. It is true at most once for each code.
	Redeem(ctx context.Context, code string) (bool, error)
}

// Sessions remembers who is signed in, over all processes that may serve the console. Only hashes of tokens get there.
type Sessions interface {
	Put(ctx context.Context, hash [sha256.Size]byte, expires time.Time) error
	// Has reports whether the session is known and expires after now.
	Has(ctx context.Context, hash [sha256.Size]byte, now time.Time) (bool, error)
	Delete(ctx context.Context, hash [sha256.Size]byte) error
}

// A Key is an unlocked approver key. The console holds it and hands it back.
type Key interface {
	Owner() string // the identity of the approver
}

// An Upstream is a server whose tools are behind the gate.
type Upstream struct {
	ID       string // digest of its identity
	Name     string
	Identity []byte // canonical: command, working directory, names of variables
	Status   string // "active", "quarantined", "unclassified"
	Digest   string // over all tools as they are here; Classify gets it back
	Tools    []Tool
}

// A Tool is one tool of an Upstream.
type Tool struct {
	Name             string
	Status           string // "active", "quarantined", "unclassified"
	Effect           string // the effect in force, "" for none
	Suggested        string // the effect to fill in
	Why              string // where the suggestion comes from, in words
	Definition       []byte // canonical, as the server lists it now
	DefinitionDigest string
	Pinned           []byte // canonical, as it was classified; nil for a tool that never was
}

// A Receipt is one row of the list of receipts.
type Receipt struct {
	ID           string
	Approval     string // id of the request, "" when policy alone allowed the call
	UpstreamName string // "" when it isn't recorded
	Tool         string
	Effect       string // "" when it isn't recorded
	Outcome      string
	At           time.Time
}

// The errors of a Service.
const (
	ErrNotFound        = sentinel("no such thing")
	ErrWrongPassphrase = sentinel("the passphrase is wrong")
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// A Conflict is the error of a decision that came too late.
type Conflict struct {
	State gateway.State // where the request stands, "" for what is no request
}

func (c *Conflict) Error() string { return "the state is " + string(c.State) }
