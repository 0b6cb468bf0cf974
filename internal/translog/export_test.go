package translog

import (
	"context"

	"github.com/counterfoil/counterfoil"
)

// Edge lets tests grow a tree without a store.
type Edge struct{ e edge }

// Add appends a leaf and hands every full tile to full.
func (e *Edge) Add(leaf Hash, full func(Tile)) { e.e.add(leaf, full) }

// Grown returns the tiles of the edge that a tree of the size before did not have.
func (e *Edge) Grown(before int64) []Tile { return e.e.grown(before) }

// Root returns the root.
func (e *Edge) Root() (Hash, error) { return e.e.root() }

// What tests look at.
var (
	Cell       = cell
	ParseLine  = parseLine
	AppendLine = appendLine
)

// ProveLeaf proves one leaf from published tiles.
func ProveLeaf(ctx context.Context, s TileSource, tenant string, c *counterfoil.Checkpoint, index int64) ([][32]byte, error) {
	return (&tree{ctx: ctx, tiles: s, tenant: tenant, size: c.Size(), root: c.Root()}).prove(index)
}
