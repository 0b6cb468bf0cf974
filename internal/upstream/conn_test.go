//go:build unix

package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// heard collects what an upstream says unasked.
type heard struct{ notes, asks chan *jsonrpc.Message }

func (h heard) Notify(m *jsonrpc.Message) { h.notes <- m }
func (h heard) Ask(m *jsonrpc.Message)    { h.asks <- m }

// syncBuffer is a log that may be written and read at once.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type conn struct {
	*upstream.Conn
	heard
	log *syncBuffer
}

func newConn(t *testing.T, rwc io.ReadWriteCloser, o upstream.ConnOptions) *conn {
	c := &conn{heard: heard{make(chan *jsonrpc.Message, 100), make(chan *jsonrpc.Message, 100)}, log: &syncBuffer{}}
	o.Logger = slog.New(slog.NewTextHandler(c.log, nil))
	c.Conn = upstream.NewConn(rwc, o)
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(t.Context(), c.heard) })
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return c
}

func dial(t *testing.T, mode string, o upstream.ConnOptions) *conn {
	t.Helper()
	p, err := upstream.Start(t.Context(), upstream.Options{Argv: fakeArgv(mode), Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return newConn(t, p, o)
}

// A waiter is a call that was begun.
type waiter struct {
	*upstream.Call
	came chan reply
}

type reply struct {
	m   *jsonrpc.Message
	err error
}

func (w waiter) wait() (*jsonrpc.Message, error) {
	r := <-w.came
	return r.m, r.err
}

func request(params string) func(jsonrpc.ID) []byte {
	return func(id jsonrpc.ID) []byte { return jsonrpc.NewRequest(id, "m", []byte(params)) }
}

func (c *conn) begin(t *testing.T, params string) waiter {
	t.Helper()
	w := waiter{came: make(chan reply, 2)}
	var err error
	if w.Call, err = c.Begin(request(params), 0, func(m *jsonrpc.Message, err error) { w.came <- reply{m, err} }); err != nil {
		t.Fatal(err)
	}
	return w
}

func (c *conn) call(t *testing.T, params string) (*jsonrpc.Message, error) {
	t.Helper()
	return c.Do(t.Context(), request(params), 0)
}

func (c *conn) works(t *testing.T, params string) {
	t.Helper()
	m, err := c.call(t, params)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"method":"m","params":` + params + `}`; string(m.Result) != want {
		t.Fatalf("result is %s, want %s", m.Result, want)
	}
}

func isUnknown(err error) bool {
	return counterfoil.CodeOf(err) == counterfoil.CodeUnknownOutcome && !errors.Is(err, gateway.ErrUnsent)
}

func isUnsent(err error) bool {
	return counterfoil.CodeOf(err) == counterfoil.CodeUnavailable && errors.Is(err, gateway.ErrUnsent)
}

func TestConn_call(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"echo", "banner", "crlf", "stderr"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := dial(t, mode, upstream.ConnOptions{})
			c.works(t, `{"n": 1.10, "a":"\u00e9"}`)
			c.works(t, `{}`)
			if mode == "banner" && !strings.Contains(c.log.String(), "Starting the server") {
				t.Errorf("the junk is not in the log:\n%s", c.log)
			}
		})
	}
}

func TestConn_parallel(t *testing.T) {
	t.Parallel()
	c := dial(t, "echo", upstream.ConnOptions{})
	var wg sync.WaitGroup
	for i := range 200 {
		call := c.begin(t, fmt.Sprintf(`{"n":%d}`, i))
		wg.Go(func() {
			m, err := call.wait()
			if err != nil || string(m.Result) != fmt.Sprintf(`{"method":"m","params":{"n":%d}}`, i) {
				t.Errorf("call %d: %v, %v", i, m, err)
			}
		})
	}
	wg.Wait()
}

func TestConn_sizes(t *testing.T) {
	t.Parallel()
	const limit = 6 << 20
	c := dial(t, "size", upstream.ConnOptions{MaxBytes: limit})
	for _, size := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 5 << 20, limit} {
		if m, err := c.call(t, fmt.Sprintf(`{"size":%d}`, size)); err != nil || len(m.Result) < size-100 {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := c.call(t, fmt.Sprintf(`{"size":%d}`, limit+1)); !errors.Is(err, upstream.ErrTooLarge) || !isUnknown(err) {
		t.Errorf("above the line's bound: %v", err)
	}
	if _, err := c.Do(t.Context(), request(`{"size":2000}`), 1000); !errors.Is(err, upstream.ErrTooLarge) || !isUnknown(err) {
		t.Errorf("above the call's bound: %v", err)
	}
	if _, err := c.Do(t.Context(), request(`{"size":1000}`), 1000); err != nil {
		t.Errorf("within the call's bound, after all this: %v", err)
	}
}

func TestConn_end(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"die", "midline"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := dial(t, mode, upstream.ConnOptions{})
			first, second := c.begin(t, `{}`), c.begin(t, `{}`)
			if m, err := first.wait(); m != nil || !isUnknown(err) {
				t.Errorf("the call that was read: %v, %v", m, err)
			}
			// This line may have been on its way or not when the child ended.
			if m, err := second.wait(); m != nil || !isUnknown(err) && !isUnsent(err) {
				t.Errorf("the call that may have been written: %v, %v", m, err)
			}
			<-c.Ended()
			if _, err := c.call(t, `{}`); !isUnsent(err) || !errors.Is(err, upstream.ErrGone) {
				t.Errorf("a call after the end: %v", err)
			}
		})
	}
}

func TestConn_wrongIDs(t *testing.T) {
	t.Parallel()
	c := dial(t, "wrongid", upstream.ConnOptions{})
	c.works(t, `{"a":1}`)
	c.works(t, `{"a":2}`)
	for _, want := range []string{`id="\"1\""`, `id=11000`, `id=-1`, "an answer to no call"} {
		if !strings.Contains(c.log.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, c.log)
		}
	}
}

func TestConn_badAnswer(t *testing.T) {
	t.Parallel()
	c := dial(t, "duplicate", upstream.ConnOptions{})
	for range 2 {
		if _, err := c.call(t, `{}`); !errors.Is(err, upstream.ErrBadAnswer) || !isUnknown(err) {
			t.Errorf("error %v", err)
		}
	}
}

func TestConn_batch(t *testing.T) {
	t.Parallel()
	c := dial(t, "batch", upstream.ConnOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, request(`{}`), 0); !isUnknown(err) {
		t.Errorf("a batch was read where none is allowed: %v", err)
	}
	c.AllowBatches(true)
	c.works(t, `{}`)
	for { // the notification about the cancelled call comes first
		if n := <-c.notes; len(n.Params) == 0 {
			return
		}
	}
}

func TestConn_unasked(t *testing.T) {
	t.Parallel()
	c := dial(t, "ask", upstream.ConnOptions{})
	c.works(t, `{}`)
	if m := <-c.asks; m.ID.String() != `"q1"` || m.Method != "roots/list" {
		t.Errorf("asked %s", m.Bytes())
	}
	if err := c.Post(jsonrpc.NewNotification("notifications/x", nil)); err != nil {
		t.Fatal(err)
	}
	if m := <-c.notes; !strings.Contains(string(m.Params), `"notifications/x"`) {
		t.Errorf("the upstream saw %s", m.Params)
	}
}

func TestConn_cancel(t *testing.T) {
	t.Parallel()
	c := dial(t, "silent", upstream.ConnOptions{})
	call := c.begin(t, `{}`)
	why := errors.New("why")
	eventuallySent(t, c)
	call.Cancel(why)
	if _, err := call.wait(); !errors.Is(err, why) || !isUnknown(err) {
		t.Fatalf("error %v", err)
	}
	call.Cancel(why) // again: nothing happens
	if len(call.came) > 0 {
		t.Error("the call ended twice")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := c.Do(ctx, request(`{}`), 0); !isUnsent(err) || !errors.Is(err, why) {
		t.Errorf("a call that was cancelled before it began: %v", err)
	}
	for {
		if s := string((<-c.notes).Params); strings.Contains(s, "cancelled") {
			if !strings.Contains(s, `"requestId":1`) {
				t.Errorf("the upstream saw %s", s)
			}
			return
		}
	}
}

// eventuallySent returns when all that was given to c has been written.
func eventuallySent(t *testing.T, c *conn) {
	t.Helper()
	if err := c.Post(jsonrpc.NewNotification("notifications/flush", nil)); err != nil {
		t.Fatal(err)
	}
	<-c.notes
}

// An upstream that does not read: what was not begun is unsent, what was begun is unknown, and nobody waits for it.
func TestConn_deaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := newConn(t, ours, upstream.ConnOptions{MaxQueued: 1000})
		first := c.begin(t, `{"a":"`+strings.Repeat("x", 5000)+`"}`)
		if _, err := theirs.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		second := c.begin(t, `{}`)
		third := c.begin(t, `{}`)
		if _, err := c.call(t, `{"a":"`+strings.Repeat("x", 2000)+`"}`); !isUnsent(err) || !errors.Is(err, upstream.ErrBusy) {
			t.Errorf("the queue has no bound: %v", err)
		}
		second.Cancel(context.Canceled)
		if _, err := second.wait(); !isUnsent(err) {
			t.Errorf("a call that still waited: %v", err)
		}
		first.Cancel(context.Canceled)
		if _, err := first.wait(); !isUnknown(err) {
			t.Errorf("a call in the middle of its line: %v", err)
		}
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := third.wait(); !isUnsent(err) {
			t.Errorf("a call that waited when the upstream ended: %v", err)
		}
	})
}

// The upstream takes no more input but goes on answering.
func TestConn_halfClosed(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	c := newConn(t, halfClosed{r}, upstream.ConnOptions{})
	if _, err := c.call(t, `{}`); !isUnsent(err) {
		t.Errorf("error %v", err)
	}
	if _, err := io.WriteString(w, `{"jsonrpc":"2.0","method":"notifications/x"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-c.notes
	if _, err := c.call(t, `{}`); !isUnsent(err) {
		t.Errorf("error %v", err)
	}
}

type halfClosed struct{ *io.PipeReader }

func (halfClosed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Log lines about what an upstream prints are bounded.
func TestConn_complaints(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	c := newConn(t, halfClosed{r}, upstream.ConnOptions{MaxBytes: 1000})
	for range 200 {
		if _, err := io.WriteString(w, strings.Repeat("junk ", 100)+"\n"+`{"jsonrpc":"2.0","id":5,"result":1}`+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.Ended()
	if n := len(c.log.String()); n > 50*600 || n < 1000 {
		t.Errorf("the log has %d bytes", n)
	}
}

// Whatever an upstream prints, the connection survives it and no call is answered by it.
func FuzzConn(f *testing.F) {
	f.Add([]byte("junk\n[1]\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n"))
	f.Add([]byte("{\"id\":1,\"result\":"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("1")) || bytes.Contains(b, []byte{'\\'}) {
			return // it may name the call
		}
		r, w := io.Pipe()
		c := newConn(t, silentWriter{r}, upstream.ConnOptions{MaxBytes: 1000})
		call := c.begin(t, `{}`)
		go func() {
			for range c.notes {
			}
		}()
		go func() {
			for range c.asks {
			}
		}()
		defer close(c.notes)
		defer close(c.asks)
		_, _ = w.Write(b)
		_, _ = io.WriteString(w, "\n"+`{"jsonrpc":"2.0","id":1,"result":"the answer"}`+"\n")
		m, err := call.wait()
		_ = w.Close()
		<-c.Ended()
		if err != nil || string(m.Result) != `"the answer"` {
			t.Fatalf("%v, %v", m, err)
		}
		runtime.KeepAlive(c)
	})
}

type silentWriter struct{ *io.PipeReader }

func (silentWriter) Write(p []byte) (int, error) { return len(p), nil }
