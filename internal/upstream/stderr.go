package upstream

import (
	"io"
	"os"
	"sync"
	"time"
)

const (
	stderrTail  = 64 << 10
	stderrQueue = 64 // pieces of at most 4 KiB that wait for a slow reader; more are dropped
)

// stderrDrain reads a child's standard error, whatever becomes of what it reads: a child whose error output nobody takes
// stops working.
type stderrDrain struct {
	r       *os.File
	mu      sync.Mutex
	last    []byte // at most 2*stderrTail bytes; the tail is its end
	reading sync.WaitGroup
	forward chan []byte   // nil if there is nobody to forward to
	idle    chan struct{} // closed when the forwarder has ended
}

func drainStderr(r *os.File, to io.Writer) *stderrDrain {
	d := &stderrDrain{r: r, idle: make(chan struct{})}
	if to == nil {
		close(d.idle)
	} else {
		d.forward = make(chan []byte, stderrQueue)
		go d.copyTo(to)
	}
	d.reading.Go(d.run)
	return d
}

func (d *stderrDrain) run() {
	if d.forward != nil {
		defer close(d.forward)
	}
	buf := make([]byte, 4<<10)
	for {
		n, err := d.r.Read(buf)
		if n > 0 {
			d.keep(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (d *stderrDrain) keep(b []byte) {
	d.mu.Lock()
	d.last = append(d.last, b...)
	if len(d.last) > 2*stderrTail {
		d.last = append(d.last[:0], d.last[len(d.last)-stderrTail:]...)
	}
	d.mu.Unlock()
	if d.forward == nil {
		return
	}
	select {
	case d.forward <- append([]byte(nil), b...):
	default: // the reader does not keep up; the child must not wait for it
	}
}

func (d *stderrDrain) copyTo(w io.Writer) {
	defer close(d.idle)
	failed := false
	for b := range d.forward {
		if !failed {
			_, err := w.Write(b)
			failed = err != nil
		}
	}
}

func (d *stderrDrain) tail() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]byte(nil), d.last[max(0, len(d.last)-stderrTail):]...)
}

// close ends the drain. A writer that blocks for good keeps the forwarding goroutine: nothing can end it but the end of
// the process.
func (d *stderrDrain) close() {
	// An ended child's last words are in the pipe already, and reading them does not wait.
	done := make(chan struct{})
	go func() { d.reading.Wait(); close(done) }()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	_ = d.r.Close()
	<-done
	timer.Reset(drainTime)
	select {
	case <-d.idle:
	case <-timer.C:
	}
}
