package translog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil"
)

// A checker goes through one log.
type checker struct {
	Check
	ctx    context.Context //nolint:containedctx // of the one call of Run
	report *Report
	marks  []mark // by size
	next   int    // the mark that comes next

	edge    edge
	last    Event
	latest  time.Time // of the events in which nothing was found
	highest int64     // sequence
	shift   int64     // by how much the last event's own sequence differs from its place
	holes   bool      // events are missing
	located bool      // a finding says why roots differ
	phases  phases

	tiles  *tree       // whose leaves the events are compared with, nil for none
	leaves []tlog.Hash // of one of its tiles
	tile   int64       // that tile's index, -1 for none
}

// A mark is a checkpoint that the log is held against.
type mark struct {
	*counterfoil.Checkpoint
	reached, signed, same bool // same: the events have its root
}

func newChecker(ctx context.Context, c Check) (*checker, error) {
	k := &checker{Check: c, ctx: ctx, report: &Report{Tenant: c.Tenant}, phases: newPhases(), tile: -1}
	for _, note := range c.Checkpoints {
		c, err := counterfoil.ParseCheckpoint(note)
		if err != nil {
			return nil, err
		}
		k.marks = append(k.marks, mark{Checkpoint: c})
	}
	slices.SortStableFunc(k.marks, func(a, b mark) int {
		switch {
		case a.Size() < b.Size():
			return -1
		case a.Size() > b.Size():
			return 1
		}
		return 0
	})
	return k, k.findTiles()
}

// findTiles takes the largest checkpoint that the published tiles belong to.
func (k *checker) findTiles() error {
	if k.Tiles == nil || len(k.marks) == 0 {
		return nil
	}
	for _, m := range slices.Backward(k.marks) {
		e, err := readEdge(k.ctx, k.Tiles, k.Tenant, m.Size())
		if errors.Is(err, counterfoil.CodeIntegrityFailed) {
			continue
		} else if err != nil {
			return err
		}
		if root, err := e.root(); err == nil && root == m.Root() {
			k.tiles = &tree{ctx: k.ctx, tiles: k.Tiles, tenant: k.Tenant, size: m.Size(), root: root}
			return nil
		}
	}
	return nil
}

// total returns the size of the largest checkpoint.
func (k *checker) total() int64 {
	if len(k.marks) == 0 {
		return 0
	}
	return k.marks[len(k.marks)-1].Size()
}

func (k *checker) find(kind Kind, sequence int64, msg string) {
	k.findCount(kind, sequence, 0, 0, msg)
}

func (k *checker) findCount(kind Kind, sequence, expected, found int64, msg string) {
	if len(k.report.Findings) >= maxFindings {
		k.report.More++
		return
	}
	k.report.Findings = append(k.report.Findings, Finding{Kind: kind, Sequence: sequence, Expected: expected, Found: found, Msg: msg})
}

// event checks one event where it stands.
func (k *checker) event(e Event) error {
	before := k.findings()
	k.place(e)
	leaf := e.Leaf
	if e.Body == nil {
		k.dropped(e)
	} else {
		leaf = k.body(&e, before)
	}
	if before == k.findings() && k.shift == 0 {
		if err := k.compare(e.Sequence, leaf); err != nil {
			return err
		}
	}
	if before == k.findings() { // of one fault, one finding
		if e.At.Before(k.latest) {
			k.find(KindTime, e.Sequence, fmt.Sprintf("the event %d is older than one before it", e.Sequence))
		}
		k.latest = e.At
	}
	k.edge.add(leaf, nil)
	k.last, k.highest, k.report.Size = e, max(k.highest, e.Sequence), k.edge.size
	if k.Progress != nil && k.edge.size%page == 0 {
		k.Progress(k.edge.size, k.total())
	}
	for k.next < len(k.marks) && k.marks[k.next].Size() <= k.highest {
		k.reach(&k.marks[k.next])
		k.next++
	}
	return nil
}

// place checks that an event comes after the one before it.
func (k *checker) place(e Event) {
	want := k.highest + 1
	switch {
	case e.Sequence > want && want == 1:
		k.findCount(KindHeadless, e.Sequence, 1, e.Sequence,
			fmt.Sprintf("the log begins with the event %d: those before it are missing", e.Sequence))
		k.holes = true
	case e.Sequence > want:
		k.findCount(KindGap, e.Sequence, want, e.Sequence, fmt.Sprintf("the events from %d to %d are missing", want, e.Sequence-1))
		k.holes = true
	case e.Sequence < want:
		// An event that was missed turns up: that is one fault, not two.
		if n := len(k.report.Findings) - 1; n >= 0 {
			f := k.report.Findings[n]
			if (f.Kind == KindGap || f.Kind == KindHeadless) && f.Expected == e.Sequence && f.Found == e.Sequence+1 {
				k.report.Findings = k.report.Findings[:n]
			}
		}
		k.findCount(KindReordered, e.Sequence, want, e.Sequence,
			fmt.Sprintf("the event %d comes after the event %d", e.Sequence, k.last.Sequence))
	default:
		return
	}
	k.located = true
}

// dropped judges an event without a body.
func (k *checker) dropped(e Event) {
	r := k.report
	r.Dropped, r.LastDrop = r.Dropped+1, e.Sequence
	if r.FirstDrop == 0 {
		r.FirstDrop = e.Sequence
	}
	if e.Sequence > k.total() || !k.KeptSince.IsZero() && !e.At.Before(k.KeptSince) {
		k.find(KindDropped, e.Sequence, fmt.Sprintf("the event %d has no body, and is too young for retention to have dropped it", e.Sequence))
	}
}

// body checks an event's body, sets the event's time to the one that is in it, and returns the leaf hash that the log goes
// on with. before is how many findings there were before this event.
func (k *checker) body(e *Event, before int64) Hash {
	leaf := Hash(counterfoil.LeafHash(e.Body))
	if leaf != e.Leaf {
		k.located = true
		k.find(KindEdited, e.Sequence, fmt.Sprintf("the event %d is not what its leaf hash was made of", e.Sequence))
		return e.Leaf // what was signed; the finding stands
	}
	b, err := counterfoil.ParseEvent(e.Body)
	if err != nil {
		k.located = true
		k.find(KindMalformed, e.Sequence, fmt.Sprintf("the event %d is not in the form of events: %v", e.Sequence, err))
		return leaf
	}
	shift := b.Sequence - e.Sequence
	switch {
	case b.Tenant != k.Tenant:
		k.located = true
		k.find(KindTenant, e.Sequence, fmt.Sprintf("the event %d is of the log of another tenant", e.Sequence))
	case b.Audience != k.Audience:
		k.located = true
		k.find(KindAudience, e.Sequence, fmt.Sprintf("the event %d is of another installation", e.Sequence))
	case shift != 0 && shift != k.shift:
		k.located = true
		k.findCount(KindReordered, e.Sequence, e.Sequence, b.Sequence, fmt.Sprintf("in the place of the event %d is the event %d", e.Sequence, b.Sequence))
	case !e.At.IsZero() && !e.At.Equal(b.At):
		k.find(KindEdited, e.Sequence, fmt.Sprintf("the time beside the event %d is not the one in it", e.Sequence))
	}
	k.shift, e.At = shift, b.At
	msg := k.phases.next(b, k.holes || k.report.Dropped > 0)
	if msg != "" && k.findings() == before {
		k.find(KindPhase, e.Sequence, fmt.Sprintf("the event %d: %s", e.Sequence, msg))
	}
	return leaf
}

// findings returns how many there are.
func (k *checker) findings() int64 { return int64(len(k.report.Findings)) + k.report.More }

// compare holds a leaf against the published tiles.
func (k *checker) compare(sequence int64, leaf Hash) error {
	if k.tiles == nil || sequence < 1 || sequence > k.tiles.size {
		return nil
	}
	index := (sequence - 1) % tileWidth
	if tile := (sequence - 1) / tileWidth; tile != k.tile {
		indexes := make([]int64, min(tileWidth, k.tiles.size-tile*tileWidth))
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(0, tile*tileWidth+int64(i))
		}
		leaves, err := k.tiles.reader().ReadHashes(indexes)
		if err := k.tiles.failed(err); errors.Is(err, counterfoil.CodeIntegrityFailed) {
			k.find(KindTiles, sequence, "the published tiles around this event are not those of the checkpoint")
			k.tiles = nil
			return nil
		} else if err != nil {
			return err
		}
		k.leaves, k.tile = leaves, tile
	}
	if Hash(k.leaves[index]) != leaf {
		k.find(KindEdited, sequence, fmt.Sprintf("the event %d is not the one that was published", sequence))
		k.located = true
	}
	return nil
}
