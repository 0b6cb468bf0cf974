package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// The test binary is also a tool server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fake" {
		newFake("").serve(os.Stdin, os.Stdout)
		return
	}
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// A message is any JSON-RPC message, its parts raw.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// A fake is a tool server that can be told what to answer.
type fake struct {
	version string
	mu      sync.Mutex
	answers map[string]func(f *fake, m message) string // by method; "" sends nothing
	seen    []string                                   // lines
	heard   chan message                               // what came, all of it
	out     io.Writer
}

func newFake(version string) *fake {
	if version == "" {
		version = "2025-11-25"
	}
	return &fake{version: version, answers: map[string]func(*fake, message) string{}, heard: make(chan message, 10_000)}
}

func (f *fake) on(method string, answer func(f *fake, m message) string) *fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[method] = answer
	return f
}

// say sends a line.
func (f *fake) say(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = io.WriteString(f.out, line+"\n")
}

func (f *fake) result(id json.RawMessage, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (f *fake) serve(in io.Reader, out io.Writer) {
	f.mu.Lock()
	f.out = out
	f.mu.Unlock()
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			close(f.heard)
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			panic(fmt.Sprintf("the upstream was sent %q: %v", line, err))
		}
		f.mu.Lock()
		f.seen = append(f.seen, strings.TrimSpace(string(line)))
		answer := f.answers[m.Method]
		f.mu.Unlock()
		select {
		case f.heard <- m:
		default:
		}
		if len(m.ID) == 0 || m.Method == "" {
			continue
		}
		if answer == nil {
			answer = (*fake).standard
		}
		if s := answer(f, m); s != "" {
			f.say(s)
		}
	}
}

func (f *fake) standard(m message) string {
	params := string(m.Params)
	if params == "" {
		params = "null"
	}
	switch m.Method {
	case "initialize":
		return f.result(m.ID, `{"protocolVersion":"`+f.version+`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"},"sent":`+params+`}`)
	case "ping":
		return f.result(m.ID, `{}`)
	case "tools/list":
		return f.result(m.ID, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		if strings.Contains(params, `"die"`) {
			os.Exit(3)
		}
	}
	return f.result(m.ID, fmt.Sprintf(`{"method":%q,"params":%s}`, m.Method, params))
}

// next returns the next message with this method that the fake was sent.
func (f *fake) next(t *testing.T, method string) message {
	t.Helper()
	for m := range f.heard {
		if m.Method == method {
			return m
		}
	}
	t.Fatalf("the upstream was never sent %s", method)
	return message{}
}

// sent reports whether the fake was sent a line that contains text.
func (f *fake) sent(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.seen {
		if strings.Contains(l, text) {
			return true
		}
	}
	return false
}

// A gate lets every call pass, or does what it is told.
type gate struct {
	mu    sync.Mutex
	calls []gateway.Call
	do    func(ctx context.Context, c gateway.Call) (gateway.Answer, error) // nil: pass
}

func (g *gate) Do(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
	g.mu.Lock()
	g.calls = append(g.calls, c)
	do := g.do
	g.mu.Unlock()
	if do == nil {
		do = pass
	}
	return do(ctx, c)
}

func (g *gate) last() gateway.Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.calls) == 0 {
		return gateway.Call{}
	}
	return g.calls[len(g.calls)-1]
}

// pass does what the gateway does with a call that policy allows.
func pass(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
	if c.Method == "tools/call" {
		if _, err := c.Upstream.Definitions(ctx, c.Meta, false); err != nil {
			return gateway.Answer{}, &gateway.Refusal{Reason: gateway.UpstreamUnavailable, Msg: err.Error(), Err: err}
		}
	}
	r := gateway.Request{Method: c.Method, Tool: c.Tool, Meta: c.Meta}
	for _, x := range []struct{ from, to *[]byte }{{&c.Arguments, &r.Arguments}, {&c.Extra, &r.Extra}} {
		if *x.from == nil {
			continue
		}
		canonical, err := counterfoil.Canonicalize(*x.from)
		if err != nil {
			return gateway.Answer{}, &gateway.Refusal{Reason: gateway.InvalidParams, Msg: err.Error(), Err: err}
		}
		*x.to = canonical
	}
	a, err := c.Upstream.Send(ctx, r)
	switch {
	case errors.Is(err, gateway.ErrUnsent):
		return a, &gateway.Refusal{Reason: gateway.UpstreamUnavailable, Msg: "unsent", Err: err}
	case err != nil:
		return a, &gateway.Refusal{Reason: gateway.OutcomeUnknown, Msg: "unknown", Err: err}
	}
	return a, nil
}

// A client is the agent's side of a server under test.
type client struct {
	t    *testing.T
	in   io.WriteCloser
	out  chan string // lines; closed in the end
	done chan error  // what Serve returned
	log  *syncBuffer
	fake *fake
	gate *gate
}

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

// serve starts a server between a client and the fake, in memory.
func serve(t *testing.T, f *fake, g *gate, change func(*mcpserver.Options)) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	go f.serve(theirs, theirs)
	return serveOver(t, ours, f, g, change)
}

func serveOver(t *testing.T, rwc io.ReadWriteCloser, f *fake, g *gate, change func(*mcpserver.Options)) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, out: make(chan string, 10_000), done: make(chan error, 1), log: &syncBuffer{}, fake: f, gate: g}
	log := slog.New(slog.NewTextHandler(c.log, nil))
	o := mcpserver.Options{
		In: inR, Out: outW, Gate: g, Conn: upstream.NewConn(rwc, upstream.ConnOptions{Logger: log}), Logger: log,
		Tenant: "local", Principal: "agent:test", Run: "run-1", Name: "fake", Identity: []byte(`{"argv":["fake"]}`),
		Hold: time.Second, Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	go func() {
		err := mcpserver.Serve(context.WithoutCancel(t.Context()), o)
		_ = outW.Close()
		c.done <- err
	}()
	go func() {
		defer close(c.out)
		for r := bufio.NewReaderSize(outR, 1<<20); ; {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.out <- strings.TrimSuffix(l, "\n")
		}
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		if err := <-c.done; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	return c
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// line returns the next line from the server.
func (c *client) line() string {
	c.t.Helper()
	l, ok := <-c.out
	if !ok {
		c.t.Fatalf("no line any more\n%s", c.log)
	}
	return l
}

// read returns the next message from the server.
func (c *client) read() message {
	c.t.Helper()
	var m message
	l := c.line()
	if err := json.Unmarshal([]byte(l), &m); err != nil {
		c.t.Fatalf("%q: %v", l, err)
	}
	return m
}

// ask sends a line and returns the next line.
func (c *client) ask(line string) string {
	c.t.Helper()
	c.send(line)
	return c.line()
}

// want sends a line and compares the next one.
func (c *client) want(line, answer string) {
	c.t.Helper()
	if got := c.ask(line); got != answer {
		c.t.Errorf("to %s\ngot  %s\nwant %s", line, got, answer)
	}
}

// wantError sends a line and checks the id and the number of the error that comes next.
func (c *client) wantError(line, id string, number int) {
	c.t.Helper()
	c.send(line)
	c.isError(c.read(), id, number)
}

func (c *client) isError(m message, id string, number int) {
	c.t.Helper()
	var e struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal(m.Error, &e); err != nil || e.Code != number || string(m.ID) != id {
		c.t.Errorf("got id %s, error %s, result %s; want id %s, error %d", m.ID, m.Error, m.Result, id, number)
	}
}

const initializeParams = `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}`

func (c *client) initialize(params string) string {
	c.t.Helper()
	answer := c.ask(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":` + params + `}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer
}
