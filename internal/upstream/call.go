package upstream

import (
	"context"
	"math"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// A Call is a request on its way.
type Call struct {
	conn     *Conn
	id       int64
	line     *outLine
	maxBytes int
	done     func(*jsonrpc.Message, error) // called once, by whoever takes the call out of Conn.pending
}

// ID returns the id that the upstream knows the call by.
func (c *Call) ID() jsonrpc.ID { return jsonrpc.IntID(c.id) }

// Begin sends the request that compose writes for the id that it is given; requests go out in the order of Begin. An
// answer whose result or error is larger than maxBytes fails the call; zero means the bound of a line alone.
//
// If Begin fails, nothing was sent, and the error wraps gateway.ErrUnsent. Else done is called exactly once, with the
// upstream's response or with an error: one that wraps gateway.ErrUnsent if not one byte of the request was written; after
// any other the outcome is unknown. A response is handed over in its place among all that the upstream says, so nothing
// more is read until done returns.
func (c *Conn) Begin(compose func(id jsonrpc.ID) []byte, maxBytes int64, done func(*jsonrpc.Message, error)) (*Call, error) {
	call := &Call{conn: c, maxBytes: math.MaxInt, done: done}
	if maxBytes > 0 && maxBytes < math.MaxInt {
		call.maxBytes = int(maxBytes)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	call.id = c.lastID
	call.line = &outLine{line: jsonrpc.Frame(compose(call.ID())), failed: call.notWritten}
	if err := c.out.put(call.line); err != nil {
		return nil, unsent("the upstream does not take requests", err)
	}
	c.pending[call.id] = call
	return call, nil
}

// Do sends a request as Begin does and waits for what comes of it. When ctx ends first, the call is cancelled.
func (c *Conn) Do(ctx context.Context, compose func(id jsonrpc.ID) []byte, maxBytes int64) (*jsonrpc.Message, error) {
	if ctx.Err() != nil {
		return nil, unsent("the call was cancelled before it was sent", context.Cause(ctx))
	}
	type outcome struct {
		message *jsonrpc.Message
		err     error
	}
	came := make(chan outcome, 1)
	call, err := c.Begin(compose, maxBytes, func(m *jsonrpc.Message, err error) { came <- outcome{m, err} })
	if err != nil {
		return nil, err
	}
	select {
	case o := <-came:
		return o.message, o.err
	case <-ctx.Done():
	}
	call.Cancel(context.Cause(ctx))
	o := <-came
	return o.message, o.err
}

// notWritten is called by the outbox.
func (c *Call) notWritten(nothing bool, err error) {
	if c.conn.take(c.ID()) == nil {
		return
	}
	if nothing {
		c.done(nil, unsent("the upstream does not take requests", err))
	} else {
		c.done(nil, unknown("the request was written in part", err))
	}
}

// Cancel ends a call that is still waiting, with an error that wraps cause, and tells the upstream. It does nothing to a
// call that has ended.
func (c *Call) Cancel(cause error) {
	if c.conn.take(c.ID()) == nil {
		return
	}
	if c.conn.out.revoke(c.line) {
		c.done(nil, unsent("the call was cancelled before it was sent", cause))
		return
	}
	// If this can't be sent either, the upstream learns nothing, and the outcome is unknown all the same.
	_ = c.conn.Post(jsonrpc.NewNotification("notifications/cancelled", jsonrpc.Object([]jsonrpc.Member{
		{Name: "requestId", Value: []byte(c.ID().String())},
		{Name: "reason", Value: jsonrpc.Quote("the call was cancelled")},
	})))
	c.done(nil, unknown("the call was cancelled after it was sent", cause))
}
