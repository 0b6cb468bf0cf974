package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// eventOf makes an event of any tenant.
func eventOf(t testing.TB, tenant string, phase counterfoil.Phase, id string) counterfoil.Event {
	t.Helper()
	e, err := counterfoil.NewEvent(phase, Names(), counterfoil.EventParams{Tenant: tenant, Audience: Audience, ExecutionID: id, Actor: actor, Tool: tool})
	must(t, err)
	return e
}

// record appends n events, a second apart, the first of them now.
func record(t testing.TB, s Store, clock *Clock, n int) {
	t.Helper()
	for i := range n {
		must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, fmt.Sprint("call-", i))))
		clock.Move(time.Second)
	}
}

// The log is read in pages from any place, with its leaves, by whoever asks.
func testLog(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	if x, err := s.Log(t.Context(), Tenant); err != nil || !cmp.Equal(x, translog.State{}) {
		t.Fatalf("the log of nobody: %+v, %v", x, err)
	}
	record(t, s, clock, 3)
	record(t, other, clock, 2)
	all := events(t, other, Tenant)
	if x, err := s.Log(t.Context(), Tenant); err != nil || !cmp.Equal(x, translog.State{Tenant: Tenant, Size: 5}) {
		t.Fatalf("%+v, %v", x, err)
	}
	for _, row := range []struct {
		after int64
		limit int
		want  []translog.Event
	}{
		{0, 2, all[:2]},
		{2, 2, all[2:4]},
		{4, 2, all[4:]},
		{0, 100_000, all},
		{5, 2, nil},
		{math.MaxInt64, 2, nil},
		{0, 0, nil},
		{0, -1, nil},
	} {
		page, err := s.Events(t.Context(), Tenant, row.after, row.limit)
		if err != nil || len(page) != len(row.want) || len(page) > 0 && !cmp.Equal(page, row.want) {
			t.Errorf("after %d, %d: %v, %v", row.after, row.limit, page, err)
		}
		bare := slices.Clone(row.want)
		for i := range bare {
			bare[i].Body = nil
		}
		leaves, err := s.Leaves(t.Context(), Tenant, row.after, row.limit)
		if err != nil || len(leaves) != len(bare) || len(leaves) > 0 && !cmp.Equal(leaves, bare) {
			t.Errorf("leaves after %d, %d: %v, %v", row.after, row.limit, leaves, err)
		}
	}
	must(t, s.Close())
	s = b.Open(t, clock.Now, nil)
	if again := events(t, s, Tenant); !cmp.Equal(again, all) {
		t.Fatal("after a restart it is another log")
	}
	record(t, s, clock, 1)
	check(t, s)
}

// Each tenant has a log of its own. They are listed in the order of the bytes of their names.
func testLogTenants(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	names := []string{"A", "B", "Z", "a", "a b", "a-b", "a.b", "a_b", "ab", "b", "local", "ß", "é", "z", "Å", "日本", "😀"}
	for i, name := range names {
		for range i%3 + 1 {
			must(t, s.Record(t.Context(), eventOf(t, name, counterfoil.PhaseRefused, "call")))
		}
	}
	slices.Sort(names)
	for _, limit := range []int{1, 5, 1000} {
		all, err := pages(func(last translog.State) ([]translog.State, error) { return s.Logs(t.Context(), last.Tenant, limit) })
		must(t, err)
		var got []string
		for _, x := range all {
			got = append(got, x.Tenant)
			one, err := s.Log(t.Context(), x.Tenant)
			if err != nil || !cmp.Equal(one, x) || x.Published != 0 || x.Note != nil {
				t.Errorf("%+v, and alone %+v: %v", x, one, err)
			}
			if log := events(t, s, x.Tenant); int64(len(log)) != x.Size || log[0].Sequence != 1 {
				t.Errorf("%s has %d events, not %d", x.Tenant, len(log), x.Size)
			}
		}
		if !cmp.Equal(got, names) {
			t.Fatalf("%d at once: %q", limit, got)
		}
	}
	for _, none := range []int{0, -1} {
		if x, err := s.Logs(t.Context(), "", none); err != nil || len(x) != 0 {
			t.Errorf("%d: %v, %v", none, x, err)
		}
	}
	if x, err := s.Logs(t.Context(), names[len(names)-1], 5); err != nil || len(x) != 0 {
		t.Errorf("after the last: %v, %v", x, err)
	}
}

func testFind(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	record(t, s, clock, 2)
	record(t, s, clock, 2)
	attach(t, s, clock, "k", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Approved)))
	l := &Ledger{Store: s, Case: Approved(t, "k", clock.Now()), Spending: gateway.Spending{Request: "apr-k1"}}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	find := func(tenant, id string, phase counterfoil.Phase, want int64) {
		t.Helper()
		if n, err := s.Find(t.Context(), tenant, id, phase); err != nil || n != want {
			t.Errorf("%s of %s: at %d, %v", phase, id, n, err)
		}
	}
	find(Tenant, "run-1", counterfoil.PhaseCompleted, 0)
	must(t, second(l.Finish(t.Context(), claim, clock.Now())))
	must(t, s.Record(t.Context(), eventOf(t, OtherTenant, counterfoil.PhaseRefused, "call-9")))
	find(Tenant, "call-0", counterfoil.PhaseRefused, 1) // the first of two
	find(Tenant, "call-1", counterfoil.PhaseRefused, 2)
	find(Tenant, "apr-k1", counterfoil.PhaseRequested, 5)
	find(Tenant, "apr-k1", counterfoil.PhaseApproved, 6)
	find(Tenant, "run-1", counterfoil.PhaseStarted, 7)
	find(Tenant, "run-1", counterfoil.PhaseCompleted, 8)
	find(OtherTenant, "call-9", counterfoil.PhaseRefused, 1)
	for _, id := range []string{"run-1", "apr-k1", "call-0"} {
		find(OtherTenant, id, counterfoil.PhaseStarted, 0)
		find(OtherTenant, id, counterfoil.PhaseRefused, 0)
		find("", id, counterfoil.PhaseRefused, 0)
		find(Tenant, id, counterfoil.PhaseLate, 0)
		find(Tenant, id, "", 0)
	}
	find(Tenant, "call-9", counterfoil.PhaseRefused, 0)
	find(Tenant, "", counterfoil.PhaseRefused, 0)
	find(Tenant, "RUN-1", counterfoil.PhaseStarted, 0)
}

// hash is one of a tree that nobody computes here: the store keeps what it is given.
func hash(level int, n int64, of string) []byte {
	d := counterfoil.ResultDigest(fmt.Appendf(nil, "%d %d %s", level, n, of))
	return d[:]
}

// tile makes a tile of n hashes.
func tile(level int, index int64, n int, of string) translog.Tile {
	x := translog.Tile{TileID: translog.TileID{Level: level, Index: index}}
	for i := range n {
		x.Hashes = append(x.Hashes, hash(level, index*256+int64(i), of)...)
	}
	return x
}

// publication is one of the log at the size.
func publication(size int64, tiles ...translog.Tile) translog.Publication {
	return translog.Publication{
		Tenant: Tenant, Size: size, Root: translog.Hash(hash(-1, size, "root")), Note: fmt.Appendf(nil, "note of %d\n\x00\xff", size), Tiles: tiles,
	}
}

func wantPublished(t testing.TB, s Store, size int64, note string) {
	t.Helper()
	x, err := s.Log(t.Context(), Tenant)
	if err != nil || x.Published != size || string(x.Note) != note {
		t.Fatalf("published is %d with %q, not %d with %q: %v", x.Published, x.Note, size, note, err)
	}
}

// What is published only grows.
func testPublish(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	record(t, s, clock, 5)
	three := publication(3, tile(0, 0, 3, ""))
	must(t, s.Publish(t.Context(), three))
	wantPublished(t, other, 3, string(three.Note))
	must(t, other.Publish(t.Context(), three))
	signed := three
	signed.Note = []byte("note of 3, with a cosignature")
	must(t, other.Publish(t.Context(), signed))
	wantPublished(t, s, 3, string(signed.Note))

	forked := publication(3, tile(0, 0, 5, "forked"))
	forked.Root[0] ^= 1
	for name, p := range map[string]translog.Publication{"smaller": publication(2, tile(0, 0, 5, "")), "forked": forked} {
		for _, at := range []Store{s, other} {
			if err := at.Publish(t.Context(), p); !errors.Is(err, translog.ErrStale) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	wantPublished(t, s, 3, string(signed.Note))
	wantTiles(t, s, tile(0, 0, 3, ""))
	five := publication(5, tile(0, 0, 5, ""))
	must(t, other.Publish(t.Context(), five))
	if err := s.Publish(t.Context(), signed); !errors.Is(err, translog.ErrStale) {
		t.Errorf("an old one: %v", err)
	}
	record(t, s, clock, 1)
	must(t, s.Close())
	s = b.Open(t, clock.Now, nil)
	wantPublished(t, s, 5, string(five.Note))
	wantTiles(t, s, tile(0, 0, 5, ""))
	if x, err := s.Logs(t.Context(), "", 5); err != nil || len(x) != 1 || x[0].Published != 5 || x[0].Size != 6 || string(x[0].Note) != string(five.Note) {
		t.Fatalf("%+v, %v", x, err)
	}
	check(t, s)
}

// wantTiles checks that these are the tiles of their names.
func wantTiles(t testing.TB, s Store, want ...translog.Tile) {
	t.Helper()
	var ids []translog.TileID
	for _, x := range want {
		ids = append(ids, x.TileID)
	}
	got, err := s.Tiles(t.Context(), Tenant, ids)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the tiles (-want +got):\n%s", diff)
	}
}

func testPublishRejects(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	if err := s.Publish(t.Context(), publication(1)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("of a log that is not there: %v", err)
	}
	record(t, s, clock, 5)
	ragged := tile(0, 0, 2, "")
	ragged.Hashes = ragged.Hashes[:33]
	for name, spoil := range map[string]func(*translog.Publication){
		"no tenant":      func(p *translog.Publication) { p.Tenant = "" },
		"another tenant": func(p *translog.Publication) { p.Tenant = OtherTenant },
		"nothing":        func(p *translog.Publication) { p.Size = 0 },
		"less":           func(p *translog.Publication) { p.Size = -1 },
		"too large":      func(p *translog.Publication) { p.Size = 6 },
		"no note":        func(p *translog.Publication) { p.Note = nil },
		"an empty note":  func(p *translog.Publication) { p.Note = []byte{} },
		"ragged tile":    func(p *translog.Publication) { p.Tiles = append(p.Tiles, ragged) },
		"empty tile":     func(p *translog.Publication) { p.Tiles = append(p.Tiles, tile(0, 1, 0, "")) },
		"large tile":     func(p *translog.Publication) { p.Tiles = append(p.Tiles, tile(0, 1, 257, "")) },
		"level":          func(p *translog.Publication) { p.Tiles = append(p.Tiles, tile(-1, 0, 1, "")) },
		"index":          func(p *translog.Publication) { p.Tiles = append(p.Tiles, tile(0, -1, 1, "")) },
	} {
		p := publication(5, tile(0, 0, 5, ""))
		spoil(&p)
		if err := s.Publish(t.Context(), p); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantPublished(t, s, 0, "")
	if tiles, err := s.Tiles(t.Context(), Tenant, []translog.TileID{{}, {Index: 1}}); err != nil || len(tiles) != 0 {
		t.Errorf("tiles of what was refused: %v, %v", tiles, err)
	}
}

// A tile grows, and is never another one.
func testTiles(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	record(t, s, clock, 9)
	size := int64(0)
	put := func(tiles ...translog.Tile) {
		t.Helper()
		size++
		must(t, s.Publish(t.Context(), publication(size, tiles...)))
	}
	put(tile(0, 0, 2, "a"), tile(1, 0, 1, "a"), tile(0, 7, 256, "a"))
	put(tile(0, 0, 1, "a")) // it has more by now
	wantTiles(t, other, tile(0, 0, 2, "a"))
	put(tile(0, 0, 2, "b"))                    // another of the same length
	put(tile(0, 0, 3, "b"), tile(0, 1, 1, "")) // a longer one that does not begin so
	wantTiles(t, other, tile(0, 0, 2, "a"), tile(0, 1, 1, ""))
	put(tile(0, 0, 3, "a"))
	put(tile(0, 0, 256, "a"))
	wantTiles(t, s, tile(0, 0, 256, "a"), tile(1, 0, 1, "a"), tile(0, 7, 256, "a"))
	wantTiles(t, s, tile(0, 7, 256, "a"), tile(1, 0, 1, "a"), tile(0, 0, 256, "a"))
	ids := []translog.TileID{{Level: 9}, {Index: 1}, {Index: 99}, {}, {Level: -1, Index: -1}, {Level: 1}}
	got, err := s.Tiles(t.Context(), Tenant, ids)
	if err != nil || len(got) != 3 || got[0].Index != 1 || got[1].Level != 0 || got[1].Index != 0 || got[2].Level != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, tenant := range []string{OtherTenant, "", "LOCAL"} {
		if got, err := s.Tiles(t.Context(), tenant, ids); err != nil || len(got) != 0 {
			t.Errorf("%q has tiles: %v, %v", tenant, got, err)
		}
	}
	if got, err := s.Tiles(t.Context(), Tenant, nil); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
}
