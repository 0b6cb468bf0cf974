package translog

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// Tiles are as c2sp.org/tlog-tiles has them: 256 hashes wide, of subtrees eight levels high.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// A TileSource has published tiles, as a Store has them.
type TileSource interface {
	Tiles(ctx context.Context, tenant string, ids []TileID) ([]Tile, error)
}

// An edge is the right edge of a tree: of each level the last tile, unless that is full. It is all that a tree needs to
// grow, and to know its root, whatever its size.
type edge struct {
	size  int64
	tiles [][]byte
}

// edgeTiles names the tiles of the edge of a tree.
func edgeTiles(size int64) []TileID {
	var ids []TileID
	for level := 0; size>>(tileHeight*level) > 0; level++ {
		if width(level, size) > 0 {
			ids = append(ids, TileID{Level: level, Index: size >> (tileHeight * (level + 1))})
		}
	}
	return ids
}

// width returns how many hashes the last tile of a level has in a tree of that size, 0 for one that is full.
func width(level int, size int64) int { return int(size >> (tileHeight * level) & (tileWidth - 1)) }

// add appends a leaf and hands every tile that is full by it to full, which may keep its hashes.
func (e *edge) add(leaf Hash, full func(Tile)) {
	e.size++
	for level := 0; ; level++ {
		if level == len(e.tiles) {
			e.tiles = append(e.tiles, nil)
		}
		t := append(e.tiles[level], leaf[:]...)
		if len(t) < tileWidth*len(leaf) {
			e.tiles[level] = t
			return
		}
		id := TileID{Level: level, Index: e.size>>(tileHeight*(level+1)) - 1}
		leaf = top(id, t)
		if full != nil {
			full(Tile{TileID: id, Hashes: t})
			t = nil
		}
		e.tiles[level] = t[:0]
	}
}

// top returns the root of a full tile, which is a hash of the level above.
func top(id TileID, hashes []byte) Hash {
	t := tlog.Tile{H: tileHeight, L: id.Level, N: id.Index, W: tileWidth}
	half := func(n int64) tlog.Hash {
		h, err := tlog.HashFromTile(t, hashes, tlog.StoredHashIndex(tileHeight*(id.Level+1)-1, 2*id.Index+n))
		if err != nil {
			panic(fmt.Sprintf("translog: a full tile lacks its own half: %v", err)) // an invariant of the line above
		}
		return h
	}
	return Hash(tlog.NodeHash(half(0), half(1)))
}

// root returns the root of the tree.
func (e *edge) root() (Hash, error) {
	h, err := tlog.TreeHash(e.size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			t := tlog.TileForIndex(tileHeight, index)
			t.W = width(t.L, e.size)
			var err error
			if out[i], err = tlog.HashFromTile(t, e.tiles[t.L], index); err != nil {
				return nil, err
			}
		}
		return out, nil
	}))
	return Hash(h), err
}

// grown returns the tiles of the edge that a tree of the size before did not have like that.
func (e *edge) grown(before int64) []Tile {
	var out []Tile
	for _, id := range edgeTiles(e.size) {
		if e.size>>(tileHeight*id.Level) != before>>(tileHeight*id.Level) {
			out = append(out, Tile{TileID: id, Hashes: slices.Clone(e.tiles[id.Level])})
		}
	}
	return out
}

// readEdge reads the edge of a tree from its published tiles. It is the caller's to compare its root with one that is
// signed.
func readEdge(ctx context.Context, s TileSource, tenant string, size int64) (*edge, error) {
	ids := edgeTiles(size)
	e := &edge{size: size}
	if len(ids) == 0 {
		return e, nil
	}
	e.tiles = make([][]byte, ids[len(ids)-1].Level+1)
	found, err := readTiles(ctx, s, tenant, ids, func(id TileID) int { return width(id.Level, size) })
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		e.tiles[id.Level] = slices.Clip(found[i])
	}
	return e, nil
}

// readTiles reads tiles of given widths. A tile may have grown since: its first hashes are what it had.
func readTiles(ctx context.Context, s TileSource, tenant string, ids []TileID, width func(TileID) int) ([][]byte, error) {
	tiles, err := s.Tiles(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(ids))
	for i, id := range ids {
		k := slices.IndexFunc(tiles, func(t Tile) bool { return t.TileID == id })
		want := width(id) * len(Hash{})
		if k < 0 || len(tiles[k].Hashes) < want {
			return nil, broken(tenant, "a published tile of its tree is missing or cut")
		}
		out[i] = tiles[k].Hashes[:want]
	}
	return out, nil
}

// A tree is a published tree.
type tree struct {
	ctx    context.Context //nolint:containedctx // tlog's interface has none
	tiles  TileSource
	tenant string
	size   int64
	root   Hash
}

// reader reads hashes that have been compared with the root.
func (t *tree) reader() tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: t.size, Hash: tlog.Hash(t.root)}, (*tileReader)(t))
}

// rootAt returns the root that the tree had at a smaller size, or at its own.
func (t *tree) rootAt(size int64) (Hash, error) {
	h, err := tlog.TreeHash(size, t.reader())
	return Hash(h), t.failed(err)
}

// prove returns the inclusion proof of the leaf with that index, from one read of at most two tiles a level. The caller
// checks it against the root; the tiles are not.
func (t *tree) prove(index int64) ([][32]byte, error) {
	p, err := tlog.ProveRecord(t.size, index, tlog.HashReaderFunc(t.unchecked))
	return hashes(p), t.failed(err)
}

// unchecked reads hashes without comparing the tiles with the root, which costs more than the proof.
func (t *tree) unchecked(indexes []int64) ([]tlog.Hash, error) {
	var tiles []tlog.Tile
	in := make([]int, len(indexes)) // tiles
	for i, index := range indexes {
		tile := tlog.TileForIndex(tileHeight, index)
		tile.W = int(min(tileWidth, tileHashes(tile, t.size)))
		if in[i] = slices.Index(tiles, tile); in[i] < 0 {
			in[i] = len(tiles)
			tiles = append(tiles, tile)
		}
	}
	data, err := (*tileReader)(t).ReadTiles(tiles)
	if err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if out[i], err = tlog.HashFromTile(tiles[in[i]], data[in[i]], index); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// proveFrom returns the consistency proof from a smaller size. From an empty tree there is nothing to prove.
func (t *tree) proveFrom(size int64) ([][32]byte, error) {
	if size == 0 {
		return nil, nil
	}
	p, err := tlog.ProveTree(t.size, size, t.reader())
	return hashes(p), t.failed(err)
}

// failed gives an error of the tile reader, which has a code already, back as it is. What else fails is a tile that is
// not under the root.
func (t *tree) failed(err error) error {
	if err == nil || hasCode(err) {
		return err
	}
	return brokenBy(t.tenant, "the published tiles are not those of the signed root", err)
}

func hashes[S ~[]tlog.Hash](in S) [][32]byte {
	out := make([][32]byte, len(in))
	for i, h := range in {
		out[i] = h
	}
	return out
}

type tileReader tree

// Height implements tlog.TileReader.
func (*tileReader) Height() int { return tileHeight }

// SaveTiles implements tlog.TileReader.
func (*tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements tlog.TileReader.
func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	ids, widths := make([]TileID, len(tiles)), make(map[TileID]int, len(tiles))
	for i, t := range tiles {
		ids[i] = TileID{Level: t.L, Index: t.N}
		widths[ids[i]] = t.W
	}
	return readTiles(r.ctx, r.tiles, r.tenant, ids, func(id TileID) int { return widths[id] })
}
