package translog_test

import (
	"encoding/binary"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// grow fills a store with a published log of synthetic leaves, through the code of the publisher.
func (w *world) grow(size int64) {
	w.t.Helper()
	l, e := w.store.log(tenant), &translog.Edge{}
	put := func(t translog.Tile) { l.tiles[t.TileID] = t.Hashes }
	for i := range size {
		e.Add(leafHash(binary.BigEndian.AppendUint64(nil, uint64(i))), put)
	}
	for _, t := range e.Grown(0) {
		put(t)
	}
	root, err := e.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	l.root, l.state.Size, l.state.Published = root, size, size
	l.state.Note = w.sign(size, root).Note()
}

// BenchmarkProve proves leaves of a log of ten million. The store is in memory; it counts what it is asked for.
func BenchmarkProve(b *testing.B) {
	const size = 10_000_000
	w := setup(b)
	w.grow(size)
	c := w.published()
	hashes, tiles, reads := 0, 0, 0
	for n := int64(0); b.Loop(); n++ {
		before := w.store.reads
		names := w.store.names
		path, err := translog.ProveLeaf(b.Context(), w.store, tenant, c, n*7_919_993%size)
		if err != nil {
			b.Fatal(err)
		}
		hashes, tiles, reads = max(hashes, len(path)), max(tiles, w.store.names-names), max(reads, w.store.reads-before)
	}
	b.ReportMetric(float64(hashes*32), "proof-bytes")
	b.ReportMetric(float64(tiles), "tiles")
	b.ReportMetric(float64(reads), "reads")
	if hashes*32 > 1024 {
		b.Errorf("a proof has %d bytes", hashes*32)
	}
}

// BenchmarkCheck checks a log: canonical form, leaf hashes, links, tree, checkpoint.
func BenchmarkCheck(b *testing.B) {
	for _, tiles := range []bool{false, true} {
		b.Run(fmt.Sprintf("tiles=%v", tiles), func(b *testing.B) {
			w := setup(b)
			events := w.fullEvents(5000)
			w.publish()
			c := w.check()
			if tiles {
				c.Tiles = w.store
			}
			bytes := 0
			for _, e := range events {
				bytes += len(e.Body)
			}
			n := 0
			start := time.Now()
			for b.Loop() {
				r, err := c.Run(b.Context(), seq(events))
				if err != nil || !r.OK() {
					b.Fatal(err, r.Findings)
				}
				n += len(events)
			}
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "events/s")
			b.ReportMetric(float64(bytes)/float64(len(events)), "bytes/event")
		})
	}
}

func seq(events []translog.Event) iter.Seq2[translog.Event, error] {
	return func(yield func(translog.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// fullEvents makes events that have every member, as an execution's have.
func (w *world) fullEvents(executions int) []translog.Event {
	w.t.Helper()
	d := counterfoil.ResultDigest([]byte("x"))
	for i := range executions {
		p := counterfoil.EventParams{
			Tenant: tenant, Audience: audience, ExecutionID: fmt.Sprintf("01J2ZK8Q6V0000000000%06d", i), Actor: "agent", Tool: "files/read",
			Source: "files", Step: "tools/call", Plan: "p", Effect: counterfoil.EffectRead, PlanDigest: d, PolicyDigest: d, BindingsDigest: d,
			ApprovalDigest: d, InputDigest: d, UseDigest: d,
		}
		w.clock = w.clock.Add(time.Millisecond)
		w.store.append(w.event(counterfoil.PhaseStarted, p), w.clock)
		p.ReceiptDigest, p.ResultDigest, p.Rows, p.Bytes = d, d, 1, 300
		w.store.append(w.event(counterfoil.PhaseCompleted, p), w.clock)
	}
	return w.store.log(tenant).events
}

// BenchmarkPublish grows a log by a step.
func BenchmarkPublish(b *testing.B) {
	leaves := someLeaves(1 << 16)
	for b.Loop() {
		e := &translog.Edge{}
		for _, leaf := range leaves {
			e.Add(leaf, func(translog.Tile) {})
		}
		if _, err := e.Root(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(leaves)), "ns/leaf")
}
