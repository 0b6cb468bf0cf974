package translog

import (
	"context"
	"iter"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A Kind names what is wrong with a log.
type Kind string

// The kinds.
const (
	KindShortened   Kind = "shortened"    // it has fewer events than a checkpoint that is believed
	KindHeadless    Kind = "headless"     // it does not begin with its first event
	KindGap         Kind = "gap"          // events are missing between others
	KindReordered   Kind = "reordered"    // an event stands where another should
	KindEdited      Kind = "edited"       // an event is not what was logged
	KindMalformed   Kind = "malformed"    // an event is not in the form that events have
	KindTenant      Kind = "other-tenant" // an event is of another tenant's log
	KindAudience    Kind = "other-audience"
	KindTime        Kind = "time"          // an event is older than the one before it
	KindPhase       Kind = "phase"         // an execution ended without a start, twice, or by another use
	KindDropped     Kind = "dropped"       // a body is gone that retention had no right to
	KindRoot        Kind = "root"          // the events are not those of a checkpoint that is believed
	KindForked      Kind = "forked"        // two checkpoints were signed that contradict each other
	KindSignature   Kind = "signature"     // a checkpoint is signed by no key that may
	KindRetiredKey  Kind = "retired-key"   // a checkpoint is signed by a key that could not: its time was over, or it is compromised
	KindTiles       Kind = "tiles"         // the published tiles are not those of a checkpoint that is believed
	KindNoReference Kind = "no-checkpoint" // there is nothing that the events could be held against
)

// A Finding is one fault of a log.
type Finding struct {
	Kind     Kind
	Sequence int64 // of the event, or the size of the checkpoint; 0 for none
	Expected int64 // events, where a number of them is wrong
	Found    int64
	Msg      string // one sentence, safe to print
}

// A Verdict is what became of one checkpoint.
type Verdict struct {
	Size   int64
	Root   Hash
	Signed bool // by a key that may
	Holds  bool // signed, and the root of the events
}

// A Report is what a check of a log has found. Nothing is proven about what is in none of its lists.
type Report struct {
	Tenant      string
	Size        int64 // events
	Proven      int64 // of them the first that a believed checkpoint covers and that have its root
	Dropped     int64 // bodies that were not checked: dropped by retention; their leaf hashes were
	FirstDrop   int64 // sequence of the first such event, and of the last; 0 for none
	LastDrop    int64
	Checkpoints []Verdict // by size
	Findings    []Finding // the first, at most maxFindings
	More        int64     // findings beyond these
}

// OK reports whether the log is what was signed, in every respect.
func (r *Report) OK() bool { return r != nil && len(r.Findings) == 0 && r.Proven > 0 }

// maxFindings bounds a report.
const maxFindings = 256

// A Check is what a log is held against.
type Check struct {
	Tenant, Audience string
	Ring             *counterfoil.KeyRing
	// Checkpoints are notes that are believed if they are signed: the newest published one, those that auditors and witnesses
	// have kept. Without one, nothing is proven.
	Checkpoints [][]byte
	// Tiles, if set, has the published tiles: they tell which event was edited.
	Tiles TileSource
	// KeptSince is from when on retention drops no bodies; the zero time accepts every body as dropped that has a
	// published leaf.
	KeptSince time.Time
	// Progress, if set, is told now and then how many events were checked, of how many in the largest checkpoint.
	Progress func(done, total int64)
}

// Run checks the events, which come in the order of the log. An error is one of reading them; what is wrong with the log is
// in the report. Memory does not grow with the log.
func (c Check) Run(ctx context.Context, events iter.Seq2[Event, error]) (*Report, error) {
	k, err := newChecker(ctx, c)
	if err != nil {
		return nil, err
	}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if err := context.Cause(ctx); err != nil {
			return nil, &counterfoil.Error{Code: counterfoil.CodeAborted, Msg: "the check was cancelled", Err: err}
		}
		if err := k.event(e); err != nil {
			return nil, err
		}
	}
	return k.end(), nil
}

// Events returns a tenant's events from the store, page by page.
func Events(ctx context.Context, s Store, tenant string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for after := int64(0); ; {
			events, err := s.Events(ctx, tenant, after, eventsAtOnce)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = max(after, e.Sequence)
			}
			if len(events) < eventsAtOnce {
				return
			}
		}
	}
}

// eventsAtOnce is how many events are read at once.
const eventsAtOnce = 512
