package translog_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil/internal/translog"
)

// plain is a tree as tlog stores it: every hash at its index.
type plain []tlog.Hash

func (p *plain) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = (*p)[index]
	}
	return out, nil
}

func plainTree(t testing.TB, leaves []translog.Hash) *plain {
	t.Helper()
	p := &plain{}
	for i, leaf := range leaves {
		h, err := tlog.StoredHashesForRecordHash(int64(i), tlog.Hash(leaf), p)
		if err != nil {
			t.Fatal(err)
		}
		*p = append(*p, h...)
	}
	return p
}

func plainRoot(t testing.TB, leaves []translog.Hash) translog.Hash {
	t.Helper()
	root, err := tlog.TreeHash(int64(len(leaves)), plainTree(t, leaves))
	if err != nil {
		t.Fatal(err)
	}
	return translog.Hash(root)
}

func someLeaves(n int) []translog.Hash {
	out := make([]translog.Hash, n)
	for i := range out {
		out[i] = leafHash(binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	return out
}

// TestEdge grows a tree step by step and compares its root and tiles with those of tlog.
func TestEdge(t *testing.T) {
	t.Parallel()
	const most = 256*256 + 700
	leaves := someLeaves(most)
	whole := plainTree(t, leaves)
	e, before := &translog.Edge{}, int64(0)
	tiles := map[translog.TileID][]byte{}
	put := func(t translog.Tile) { tiles[t.TileID] = t.Hashes }
	for _, size := range []int64{1, 2, 255, 256, 257, 511, 512, 700, 65_535, 65_536, 65_537, most} {
		for k := before; k < size; k++ {
			e.Add(leaves[k], put)
		}
		got := map[tlog.Tile]bool{}
		for _, tile := range e.Grown(before) {
			put(tile)
			got[tlog.Tile{H: 8, L: tile.Level, N: tile.Index, W: len(tile.Hashes) / 32}] = true
		}
		root, err := e.Root()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := tlog.TreeHash(size, whole); err != nil || root != translog.Hash(want) {
			t.Fatalf("the root of %d leaves differs from tlog's (%v)", size, err)
		}
		for _, want := range tlog.NewTiles(8, before, size) {
			data, err := tlog.ReadTileData(want, whole)
			if err != nil {
				t.Fatal(err)
			}
			if id := (translog.TileID{Level: want.L, Index: want.N}); !bytes.Equal(tiles[id], data) {
				t.Errorf("from %d to %d: tile %v has %d hashes that are not tlog's %d", before, size, id, len(tiles[id])/32, len(data)/32)
			}
			if want.W < 256 && !got[want] {
				t.Errorf("from %d to %d: the partial tile %+v is not among the grown", before, size, want)
			}
		}
		before = size
	}
	if slices.ContainsFunc(e.Grown(most), func(translog.Tile) bool { return true }) {
		t.Error("a tree that did not grow has grown tiles")
	}
}
