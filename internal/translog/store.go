// Package translog is the transparency log: one Merkle tree for each tenant over its events, with signed checkpoints,
// proofs, and the checks that show when a log was shortened, forked or edited.
package translog

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
)

// ErrStale says that a checkpoint is not newer than the one that is published; nothing was recorded.
const ErrStale = sentinel("a newer checkpoint is published")

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

// A Hash is a node of a tree: SHA-256 as RFC 6962 has it.
type Hash [32]byte

// A State is where a tenant's log stands.
type State struct {
	Tenant string
	Size   int64 // events
	// Published is the size of the newest checkpoint, 0 for none; Note is its signed text.
	Published int64
	Note      []byte
}

// An Event is a leaf of a log: a sealed event at its place.
type Event struct {
	Sequence int64 // from 1, without gaps; the leaf's index in the tree is one less
	At       time.Time
	Leaf     Hash   // RFC 6962 leaf hash of Body
	Body     []byte // canonical; nil once retention has dropped it
}

// A TileID names a tile of a tenant's tree as tlog-tiles does: up to 256 hashes of complete subtrees of 256^Level leaves each.
type TileID struct {
	Level int
	Index int64
}

// A Tile is a tile with the hashes that are known of it, one after the other.
type Tile struct {
	TileID
	Hashes []byte
}

// A Publication is a signed checkpoint with the tiles that have grown since the last one.
type Publication struct {
	Tenant string
	Size   int64
	Root   Hash
	Note   []byte
	Tiles  []Tile
}

// Store is where logs are kept. The ledger appends to them; nothing here does. Every method is one transaction, durable
// when it returns nil, with the errors of the gateway's store. A tenant without events has the zero State.
type Store interface {
	// Logs returns the state of the logs of at most limit tenants whose names come after the one given, in the order of
	// their names.
	Logs(ctx context.Context, after string, limit int) ([]State, error)
	Log(ctx context.Context, tenant string) (State, error)
	// Events returns at most limit events after the one with the sequence after (0 for the first).
	Events(ctx context.Context, tenant string, after int64, limit int) ([]Event, error)
	// Leaves is Events without the bodies.
	Leaves(ctx context.Context, tenant string, after int64, limit int) ([]Event, error)
	// Find returns the sequence of the first event of a phase about an execution or request, 0 for none.
	Find(ctx context.Context, tenant, execution string, phase counterfoil.Phase) (int64, error)
	// Publish records a checkpoint, if it is larger than the published one or of the same size and root (it may have
	// gained signatures), and its tiles: a tile replaces one of the same name that has no more hashes, and nothing else.
	// ErrStale otherwise.
	Publish(ctx context.Context, p Publication) error
	// Tiles returns those of the named tiles that there are, in the order of their names as given.
	Tiles(ctx context.Context, tenant string, ids []TileID) ([]Tile, error)
	// Retire drops the bodies of at most limit published events from before an instant, and the documents, operations and
	// receipts of executions that were completed before it and whose approvals have ended by now. Uses, revocations and
	// leaf hashes stay. It returns how many events it has emptied; 0 means that it is done.
	Retire(ctx context.Context, tenant string, before, now time.Time, limit int) (int, error)
}
