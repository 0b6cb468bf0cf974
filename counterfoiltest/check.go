package counterfoiltest

import (
	"errors"
	"fmt"
	"time"

	"github.com/counterfoil/counterfoil"
)

// Check looks at all that a ledger recorded and at all effects of the executors, and returns everything that must never be:
// a use that is not in the log exactly once; a receipt or an end without a started use; two ends of one use; an effect
// without a use, or twice for one; a gap in the log, or times that decrease. A use without a receipt is no fault: its
// process may have died. Recovery has to find it.
func Check(l *Ledger, executors ...*Executor) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := book{started: map[counterfoil.Digest]int{}, ended: map[counterfoil.Digest]counterfoil.Digest{}}
	for i, sealed := range l.events {
		b.read(int64(i+1), sealed)
	}
	known := map[string]int{}
	for id, rec := range l.uses {
		digest := rec.consumption.Digest()
		known[digest.String()] = 0
		if b.started[digest] != 1 {
			b.fault("the use of step %s has %d started events", id.step, b.started[digest])
		}
		delete(b.started, digest)
		end, ended := b.ended[digest]
		switch {
		case rec.receipt == nil && ended, rec.receipt != nil && (!ended || end != rec.receipt.Digest()):
			b.fault("the use of step %s and the log differ about its receipt", id.step)
		case rec.receipt != nil && rec.receipt.UseDigest() != digest:
			b.fault("the receipt of step %s is for another use", id.step)
		}
	}
	for digest := range b.started {
		b.fault("the log has a start of %s, which is not spent", digest)
	}
	for _, x := range executors {
		for _, key := range x.Effects() {
			n, spent := known[key]
			if known[key] = n + 1; !spent {
				b.fault("%s had an effect under %q, which is no use", x.Name, key)
			} else if n > 0 {
				b.fault("%s had an effect again under %s", x.Name, key)
			}
		}
	}
	return errors.Join(b.faults...)
}

// A book is what Check reads in a log.
type book struct {
	started map[counterfoil.Digest]int
	ended   map[counterfoil.Digest]counterfoil.Digest // use to receipt
	last    time.Time
	faults  []error
}

func (b *book) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf("counterfoiltest: "+format, args...))
}

func (b *book) read(sequence int64, sealed []byte) {
	e, err := counterfoil.ParseEvent(sealed)
	if err != nil {
		b.fault("event %d: %w", sequence, err)
		return
	}
	if e.Sequence != sequence || e.At.Before(b.last) {
		b.fault("event %d has the number %d and the time %s", sequence, e.Sequence, e.At)
	}
	b.last = e.At
	if e.Phase == counterfoil.PhaseStarted {
		b.started[e.UseDigest]++
	}
	if e.Phase == counterfoil.PhaseCompleted {
		if b.started[e.UseDigest] == 0 {
			b.fault("event %d ends what never started", sequence)
		}
		if _, twice := b.ended[e.UseDigest]; twice {
			b.fault("event %d ends a use again", sequence)
		}
		b.ended[e.UseDigest] = e.ReceiptDigest
	}
}
