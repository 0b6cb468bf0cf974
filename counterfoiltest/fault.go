package counterfoiltest

import (
	"context"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
)

type fault string

func (f fault) Error() string { return string(f) }

// ErrFault is the error of a fault. It carries no code: whoever gets it knows nothing.
const ErrFault = fault("counterfoiltest: the connection was lost")

// A Point is where a ledger fails.
type Point int

// The points.
const (
	AtSpend Point = iota + 1
	AtSettle
	AtRefuse
)

// A Failure is how a ledger fails.
type Failure int

// The failures. A Failure's zero value is none.
const (
	Refuse      Failure = iota + 1 // with Fault.Code; nothing is recorded
	FailBefore                     // an error without a code; nothing is recorded
	FailAfter                      // an error without a code, although it is recorded
	AnswerOther                    // AtSpend: the record of another execution; AtSettle: CodeAlreadyUsed, as for a use with another receipt
	AnswerNone                     // neither a record nor an error; nothing is recorded
	PanicBefore                    // nothing is recorded
	PanicAfter                     // it is recorded
	Block                          // wait until the context ends or Fault.Until is closed; nothing is recorded
	BlockAfter                     // the same, although it is recorded
)

// A Fault is one failure at one point.
type Fault struct {
	At    Point
	Call  int // which call at that point, counted from 1; 0 for every call
	Do    Failure
	Code  counterfoil.Code // of Refuse; CodeUnavailable if empty
	Until <-chan struct{}  // ends Block. Settle's context never ends: a Block there needs it
}

// A FaultyLedger is a ledger that fails where it is told to.
type FaultyLedger struct {
	inner  counterfoil.Ledger
	faults []Fault

	mu    sync.Mutex
	calls map[Point]int
}

// NewFaultyLedger makes a ledger that does what l does, but for the faults. The first fault that fits a call counts. A fault
// that is none is a mistake of the test: it panics.
func NewFaultyLedger(l counterfoil.Ledger, faults ...Fault) *FaultyLedger {
	for _, f := range faults {
		if f.At < AtSpend || f.At > AtRefuse || f.Do < Refuse || f.Do > BlockAfter || f.Call < 0 {
			panic("counterfoiltest: this is not a fault")
		}
	}
	return &FaultyLedger{inner: l, faults: faults, calls: map[Point]int{}}
}

// Calls returns how often the ledger was called at a point.
func (l *FaultyLedger) Calls(p Point) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[p]
}

// Spend implements counterfoil.Ledger.
func (l *FaultyLedger) Spend(ctx context.Context, u counterfoil.Use, started counterfoil.Event) (*counterfoil.Consumption, error) {
	f := l.next(AtSpend)
	if f.Do == AnswerOther {
		u.ExecutionID = "another-" + u.ExecutionID
		return l.inner.Spend(ctx, u, started)
	}
	var c *counterfoil.Consumption
	lost, err := f.around(ctx, func() (err error) {
		c, err = l.inner.Spend(ctx, u, started)
		return err
	})
	if lost {
		return nil, err
	}
	return c, err
}

// Settle implements counterfoil.Ledger.
func (l *FaultyLedger) Settle(ctx context.Context, r *counterfoil.Receipt, completed counterfoil.Event) error {
	f := l.next(AtSettle)
	if f.Do == AnswerOther {
		return counterfoil.CodeAlreadyUsed
	}
	_, err := f.around(ctx, func() error { return l.inner.Settle(ctx, r, completed) })
	return err
}

// Refuse implements counterfoil.Refuser. What the ledger within does not keep is lost.
func (l *FaultyLedger) Refuse(ctx context.Context, refused counterfoil.Event) error {
	f := l.next(AtRefuse)
	_, err := f.around(ctx, func() error {
		if keeper, ok := l.inner.(counterfoil.Refuser); ok {
			return keeper.Refuse(ctx, refused)
		}
		return nil
	})
	return err
}

func (l *FaultyLedger) next(p Point) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[p]++
	for _, f := range l.faults {
		if f.At == p && (f.Call == 0 || f.Call == l.calls[p]) {
			return f
		}
	}
	return Fault{}
}

// around makes the call unless the fault prevents it. lost says that the caller gets no answer.
func (f *Fault) around(ctx context.Context, call func() error) (lost bool, err error) {
	switch f.Do {
	case FailAfter, PanicAfter, BlockAfter:
		if err := call(); err != nil {
			return true, err // it is refused, and recorded by nobody
		}
	case Refuse, FailBefore, AnswerNone, PanicBefore, Block, AnswerOther:
	default:
		return false, call()
	}
	switch f.Do {
	case Refuse:
		if f.Code == "" {
			return true, counterfoil.CodeUnavailable
		}
		return true, f.Code
	case AnswerNone:
		return true, nil
	case PanicBefore, PanicAfter:
		panic("counterfoiltest: the ledger was told to panic")
	case Block, BlockAfter:
		select {
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-f.Until:
		}
		return true, ErrFault
	case FailBefore, FailAfter, AnswerOther:
	}
	return true, ErrFault
}

// A Clock is a clock that a test sets. Each reading moves it by the next of its jumps, which begin anew after the last.
type Clock struct {
	mu    sync.Mutex
	at    time.Time
	jumps []time.Duration
	reads int
}

// NewClock makes a clock that shows at, and jumps after each reading: forth, back where a jump is negative, or not at all
// where there is none.
func NewClock(at time.Time, jumps ...time.Duration) *Clock { return &Clock{at: at, jumps: jumps} }

// Now reads the clock. It is what options named Now take.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.at
	if len(c.jumps) > 0 {
		c.at = c.at.Add(c.jumps[c.reads%len(c.jumps)])
	}
	c.reads++
	return at
}

// Set sets the clock.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}
