package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// A Handler takes what the upstream says unasked. Its methods are called one after another, in the order in which the
// messages came; while one runs nothing else is read.
type Handler interface {
	// Notify takes a notification.
	Notify(m *jsonrpc.Message)
	// Ask takes a request. Whoever takes it answers it, with Conn.Post.
	Ask(m *jsonrpc.Message)
}

// ConnOptions bound a Conn. Zero values mean the defaults.
type ConnOptions struct {
	MaxBytes  int          // of one line from the upstream; 16 MiB
	MaxQueued int          // of lines that wait for the upstream to read them, together; 64 MiB
	Logger    *slog.Logger // nil for none
}

const (
	defaultMaxQueued = 64 << 20
	flushTime        = 500 * time.Millisecond // how long Close waits for the last lines to be written
	maxComplaints    = 50                     // about one upstream's output, in the log
	maxClip          = 200                    // bytes of its text in one of them
)

// A Conn is one conversation with an upstream. It numbers the calls itself, whatever ids its callers use.
type Conn struct {
	rwc    io.ReadWriteCloser
	opts   ConnOptions
	out    *outbox
	writer sync.WaitGroup

	batches atomic.Bool
	started atomic.Bool
	ended   chan struct{} // closed when the upstream's output has ended
	endOnce sync.Once
	noise   int // complaints about the upstream's output; Run's own

	mu      sync.Mutex
	lastID  int64
	pending map[int64]*Call

	closeOnce sync.Once
	closeErr  error
}

// NewConn begins a conversation over rwc, which it closes in the end. Close must be called.
func NewConn(rwc io.ReadWriteCloser, o ConnOptions) *Conn {
	if o.MaxBytes <= 0 {
		o.MaxBytes = jsonrpc.DefaultMaxBytes
	}
	if o.MaxQueued <= 0 {
		o.MaxQueued = defaultMaxQueued
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Conn{
		rwc: rwc, opts: o, out: newOutbox(rwc, o.MaxQueued),
		ended: make(chan struct{}), pending: make(map[int64]*Call),
	}
	c.writer.Go(c.out.run)
	return c
}

// AllowBatches says whether arrays of messages are read from now on. They are part of revision 2025-03-26 alone.
func (c *Conn) AllowBatches(yes bool) { c.batches.Store(yes) }

// Ended is closed when the upstream has ended; every call has failed by then.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Post sends a notification or a response, as far as the upstream takes it.
func (c *Conn) Post(message []byte) error {
	return c.out.put(&outLine{line: jsonrpc.Frame(message)})
}

// Close ends the conversation and closes what it runs over. Calls that wait fail. It returns when Run has returned too.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		c.out.close()
		timer := time.NewTimer(flushTime)
		defer timer.Stop()
		select {
		case <-c.out.done:
		case <-timer.C:
		}
		c.closeErr = c.rwc.Close()
		c.writer.Wait()
		if c.started.Load() {
			<-c.ended
		} else {
			c.end()
		}
	})
	return c.closeErr
}

// Run reads from the upstream until its output ends, and hands what it says unasked to h. It must be called once.
func (c *Conn) Run(ctx context.Context, h Handler) {
	c.started.Store(true)
	defer c.end()
	r := jsonrpc.NewReader(c.rwc, c.opts.MaxBytes)
	for {
		line, err := r.Next()
		if tooLong, ok := errors.AsType[*jsonrpc.TooLongError](err); ok {
			c.complain(ctx, "a line from the upstream is too long")
			c.failNamed(tooLong.Envelope, unknown("the upstream's answer is too large", ErrTooLarge))
			continue
		}
		if err != nil {
			c.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "the upstream's output has ended",
				slog.String("cause", err.Error()), slog.Int("complaints", c.noise))
			return
		}
		c.line(ctx, line, h)
	}
}

// line takes one line from the upstream.
func (c *Conn) line(ctx context.Context, line []byte, h Handler) {
	if c.batches.Load() && jsonrpc.IsBatch(line) {
		items, err := jsonrpc.ParseBatch(line, c.opts.MaxBytes)
		if err != nil {
			c.malformed(ctx, line, err)
		}
		for _, item := range items {
			if item.Err != nil {
				c.malformed(ctx, nil, item.Err)
				c.failNamed(item.Envelope, unknown("the upstream's answer is malformed", ErrBadAnswer))
				continue
			}
			c.message(ctx, item.Message, h)
		}
		return
	}
	m, err := jsonrpc.Parse(line, c.opts.MaxBytes)
	if err != nil {
		c.malformed(ctx, line, err)
		c.failNamed(jsonrpc.Sniff(line), unknown("the upstream's answer is malformed", ErrBadAnswer))
		return
	}
	c.message(ctx, m, h)
}

func (c *Conn) message(ctx context.Context, m *jsonrpc.Message, h Handler) {
	switch m.Kind {
	case jsonrpc.Request:
		h.Ask(m)
	case jsonrpc.Notification:
		h.Notify(m)
	case jsonrpc.Response:
		call := c.take(m.ID)
		if call == nil {
			// Never a guess: an answer to another number, or to the number as a text, is nobody's.
			c.complain(ctx, "an answer to no call was dropped", slog.String("id", clip(m.ID.String())))
			return
		}
		if max(len(m.Result), len(m.Error)) > call.maxBytes {
			call.done(nil, unknown("the upstream's answer is too large", ErrTooLarge))
			return
		}
		call.done(m, nil)
	}
}

// malformed logs a text that is no message.
func (c *Conn) malformed(ctx context.Context, line []byte, err error) {
	c.complain(ctx, "a line from the upstream is no message", slog.String("cause", err.Error()), slog.String("line", clip(string(line))))
}

// complain logs what is wrong with the upstream's output, up to a bound: it is the upstream that decides how much there
// is to say.
func (c *Conn) complain(ctx context.Context, msg string, attrs ...slog.Attr) {
	c.noise++
	if c.noise <= maxComplaints {
		c.opts.Logger.LogAttrs(ctx, slog.LevelWarn, msg, attrs...)
	}
}

func clip(s string) string {
	if len(s) > maxClip {
		return strings.ToValidUTF8(s[:maxClip], "") + "…"
	}
	return s
}

// failNamed fails the call that a message names which can't be used. It is not a guess: the upstream could end the call
// with an error just as well.
func (c *Conn) failNamed(e jsonrpc.Envelope, err error) {
	if e.Method {
		return
	}
	if call := c.take(e.ID); call != nil {
		call.done(nil, err)
	}
}

// take removes the pending call with this id, or returns nil.
func (c *Conn) take(id jsonrpc.ID) *Call {
	n, ok := id.Int()
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.pending[n]
	delete(c.pending, n)
	return call
}

// end fails everything that waits. No call can begin any more once the outbox is closed.
func (c *Conn) end() {
	c.out.close()
	c.mu.Lock()
	rest := c.pending
	c.pending = make(map[int64]*Call)
	c.mu.Unlock()
	for _, call := range rest {
		if c.out.revoke(call.line) {
			call.done(nil, unsent("the upstream ended before it was sent the request", ErrGone))
		} else {
			call.done(nil, unknown("the upstream ended before it answered", ErrGone))
		}
	}
	c.endOnce.Do(func() { close(c.ended) })
}
