package mcpserver

import (
	"io"
	"sync"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// out writes whole lines to the client, one after another, from one goroutine: should the client stop reading, that one
// alone is stuck with it.
type out struct {
	w         io.Writer
	lines     chan outLine
	closed    chan struct{}
	closeOnce sync.Once
}

type outLine struct {
	line    []byte
	written chan error // of capacity 1
}

func newOut(w io.Writer) *out {
	return &out{w: w, lines: make(chan outLine), closed: make(chan struct{})}
}

// close ends all writing. What is being written may still be written.
func (o *out) close() { o.closeOnce.Do(func() { close(o.closed) }) }

// run writes until out is closed, and closes it at the first failure, which it returns: the client has gone.
func (o *out) run() error {
	defer o.close()
	for {
		select {
		case l := <-o.lines:
			_, err := o.w.Write(l.line)
			l.written <- err
			if err != nil {
				return err
			}
		case <-o.closed:
			return nil
		}
	}
}

// send writes one message and returns when it is written or won't be.
func (o *out) send(message []byte) error {
	l := outLine{jsonrpc.Frame(message), make(chan error, 1)}
	select {
	case o.lines <- l:
	case <-o.closed:
		return ErrClientGone
	}
	select {
	case err := <-l.written:
		return err
	case <-o.closed:
		return ErrClientGone // it may have been written; whoever wants to be sure is on the safe side
	}
}
