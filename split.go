package counterfoil

import (
	"context"
	"time"
)

// A UseBook is the part of a Ledger that knows which uses are spent, in a system of its own.
type UseBook interface {
	// Spend is Ledger.Spend without the event, in one durable commit.
	Spend(ctx context.Context, u Use) (*Consumption, error)
	// Settle is Ledger.Settle without the event.
	Settle(ctx context.Context, r *Receipt) error
}

// An AuditLog is the part of a Ledger that keeps the events, in a system of its own.
type AuditLog interface {
	// Append puts an event in the log of its tenant, durably, with a time that is not before at. An event that the log has
	// already is no error and is not put there again. It has to bound its own time: ctx is never cancelled.
	Append(ctx context.Context, e Event, at time.Time) error
}

// A SplitLedger is a Ledger of two systems, for hosts that have no store that can commit both at once. The use is spent
// first, then the start is recorded, and only then Spend succeeds: both come before the effect.
//
// It is weaker than one atomic commit. A use is still spent at most once, and nothing runs without a record of its start.
// But between the two commits a use can be spent of which the log knows nothing: after a crash or a fault of the log. Spend
// fails with CodeUnknownOutcome then, and what was approved can't run any more. The host finds the use in its UseBook, which
// alone knows of it, and settles it as cancelled (Recover): the log then has an end without a start. In the same way the
// UseBook may have a receipt whose end the log lacks until Settle is called again. The log alone proves nothing about uses.
type SplitLedger struct {
	Uses  UseBook
	Audit AuditLog
}

// Spend implements Ledger. Once the use is spent a cancellation no longer keeps its start from being recorded.
func (l *SplitLedger) Spend(ctx context.Context, u Use, started Event) (*Consumption, error) {
	if l.Uses == nil || l.Audit == nil {
		return nil, fail(CodeUnavailable, notSplit)
	}
	c, err := l.Uses.Spend(ctx, u)
	if err != nil || c == nil {
		return nil, err
	}
	// No code that a log fails with may pass for a refusal of the use, which is spent.
	if err := l.append(ctx, started.WithUse(c.digest), c.at); err != nil {
		return nil, failWith(CodeUnknownOutcome, "the use is spent and its start could not be recorded", err)
	}
	return c, nil
}

// Settle implements Ledger: the receipt first, then the end. Settling again appends the end if it is missing.
func (l *SplitLedger) Settle(ctx context.Context, r *Receipt, completed Event) error {
	if l.Uses == nil || l.Audit == nil {
		return fail(CodeUnavailable, notSplit)
	}
	if err := l.Uses.Settle(ctx, r); err != nil {
		return err
	}
	return l.append(ctx, completed, r.completed)
}

// Refuse implements Refuser.
func (l *SplitLedger) Refuse(ctx context.Context, refused Event) error {
	if l.Audit == nil {
		return fail(CodeUnavailable, notSplit)
	}
	return l.append(ctx, refused, time.Time{})
}

const notSplit = "a split ledger needs a book of uses and a log"

func (l *SplitLedger) append(ctx context.Context, e Event, at time.Time) error {
	return guarded(func() error { return l.Audit.Append(context.WithoutCancel(ctx), e, at) })
}
