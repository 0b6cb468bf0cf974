package mcpserver

import (
	"net/http"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// writeTime is how long a client may take to read what it was sent.
const writeTime = 30 * time.Second

// A response is the answer to one POST: a JSON text, unless something had to be said before it; then a stream of events
// whose last one it is.
type response struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	now    func() time.Time
	text   bool // the client takes a JSON text
	stream bool // the client takes a stream of events

	mu        sync.Mutex
	streaming bool
	closed    bool // nothing more can be written
}

func newResponse(w http.ResponseWriter, r *http.Request, now func() time.Time) (*response, *httpError) {
	x := &response{w: w, rc: http.NewResponseController(w), now: now}
	if x.text, x.stream = accepted(r); !x.text && !x.stream {
		return nil, &httpError{status: http.StatusNotAcceptable, number: jsonrpc.InvalidRequest, msg: "the client must accept application/json or text/event-stream"}
	}
	return x, nil
}

// begin starts the stream. The lock is held.
func (x *response) begin() {
	if x.streaming {
		return
	}
	x.streaming = true
	beginStream(x.w.Header())
	x.w.WriteHeader(http.StatusOK)
}

func beginStream(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// put writes bytes and sees them off. The lock is held.
func (x *response) put(b []byte) error {
	_ = x.rc.SetWriteDeadline(x.now().Add(writeTime)) // without one, the server's own stays
	_, err := x.w.Write(b)
	if err == nil {
		err = x.rc.Flush()
	}
	if err != nil {
		x.closed = true
	}
	return err
}

// header sets a header of the answer.
func (x *response) header(name, value string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed && !x.streaming {
		x.w.Header().Set(name, value)
	}
}

// event writes a notification, for a client that takes a stream.
func (x *response) event(message []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return ErrClientGone
	}
	if !x.stream {
		return nil
	}
	x.begin()
	return x.put(eventOf(message))
}

// alive tells a client that takes a stream, and all that lies between, that the request is still being worked on.
func (x *response) alive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || !x.stream {
		return
	}
	x.begin()
	_ = x.put([]byte(":\n\n")) // the client's end is noticed by its connection's
}

// finish writes the answer; nil ends the response without one.
func (x *response) finish(status int, message []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return ErrClientGone
	}
	defer func() { x.closed = true }()
	switch {
	case x.streaming && message == nil:
		return nil
	case message == nil:
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	case x.streaming || !x.text:
		x.begin()
		return x.put(eventOf(message))
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Cache-Control", "no-store")
	x.w.Header().Set("X-Content-Type-Options", "nosniff")
	x.w.WriteHeader(status)
	return x.put(message)
}

// abandon says that the client has gone: nothing touches its connection any more.
func (x *response) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
}

// eventOf writes a message as one event. A line break, which can stand between tokens alone, becomes a blank.
func eventOf(message []byte) []byte {
	b := append([]byte("event: message\ndata: "), jsonrpc.Frame(message)...)
	return append(b, '\n')
}
