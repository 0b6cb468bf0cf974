package upstream

import (
	"io"
	"sync"
)

// An outbox writes lines to one writer, in their order, from one goroutine. Putting a line in never waits: a reader that
// does not read must not stop those who talk about other things.
type outbox struct {
	w     io.Writer
	limit int // bytes that may wait

	mu      sync.Mutex
	waiting []*outLine
	bytes   int
	closed  bool
	wake    chan struct{}
	done    chan struct{} // closed when run has ended
}

// An outLine is one line on its way.
type outLine struct {
	line []byte
	// failed, if not nil, is called once when the line could not be written; unsent says that not one byte of it was.
	failed  func(unsent bool, err error)
	started bool // guarded by outbox.mu
}

func newOutbox(w io.Writer, limit int) *outbox {
	return &outbox{w: w, limit: limit, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// put adds a line. It fails when the outbox is closed or too much waits already; then failed is not called.
func (o *outbox) put(l *outLine) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrGone
	}
	if len(o.waiting) > 0 && o.bytes+len(l.line) > o.limit {
		return ErrBusy
	}
	o.waiting = append(o.waiting, l)
	o.bytes += len(l.line)
	o.signal()
	return nil
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// revoke takes back a line of which nothing was written. It returns false if writing it has begun.
func (o *outbox) revoke(l *outLine) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, x := range o.waiting {
		if x == l {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			o.bytes -= len(l.line)
			return true
		}
	}
	return !l.started
}

// close lets no more lines in; run ends when those that wait are written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

// run writes until the outbox is closed and empty, or writing fails.
func (o *outbox) run() {
	defer close(o.done)
	for range o.wake {
		for {
			l, last := o.next()
			if last {
				return
			}
			if l == nil {
				break
			}
			if n, err := o.w.Write(l.line); err != nil {
				o.fail(l, n == 0, err)
				return
			}
		}
	}
}

// next takes the first line; last reports that none will come.
func (o *outbox) next() (l *outLine, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil, o.closed
	}
	l = o.waiting[0]
	o.waiting = o.waiting[1:]
	o.bytes -= len(l.line)
	l.started = true
	return l, false
}

func (o *outbox) fail(l *outLine, unsent bool, err error) {
	o.mu.Lock()
	o.closed = true
	rest := o.waiting
	o.waiting, o.bytes = nil, 0
	o.mu.Unlock()
	if l.failed != nil {
		l.failed(unsent, err)
	}
	for _, x := range rest {
		if x.failed != nil {
			x.failed(true, err)
		}
	}
}
