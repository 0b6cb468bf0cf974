package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// A request as a web server sees it.
type seen struct {
	Verb    string
	Header  http.Header
	Method  string
	ID      json.RawMessage
	Params  json.RawMessage
	Session string
}

// A web is an MCP server over HTTP that does what it is told.
type web struct {
	t      *testing.T
	url    string
	modern bool
	mu     sync.Mutex
	seen   []seen
	on     map[string]func(w http.ResponseWriter, r *http.Request, s seen) // by method or HTTP verb
}

func newWeb(t *testing.T, modern bool) *web {
	t.Helper()
	x := &web{t: t, modern: modern, on: map[string]func(http.ResponseWriter, *http.Request, seen){}}
	srv := httptest.NewServer(x)
	t.Cleanup(srv.Close)
	x.url = srv.URL + "/mcp"
	return x
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func result(s seen, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, s.ID, result)
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
		_ = http.NewResponseController(w).Flush()
	}
}

func (x *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s := seen{Verb: r.Method, Header: r.Header}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &s); err != nil {
			x.t.Errorf("the upstream was sent %q", b)
		}
	}
	key := s.Method
	if r.Method != http.MethodPost {
		key = r.Method
	}
	x.mu.Lock()
	x.seen = append(x.seen, s)
	on := x.on[key]
	x.mu.Unlock()
	switch {
	case on != nil:
		on(w, r, s)
	case key == "server/discover" && x.modern:
		text(w, 200, result(s, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`))
	case key == "server/discover":
		http.Error(w, "what?", http.StatusBadRequest)
	case key == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		text(w, 200, result(s, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{}}`))
	case key == "tools/list":
		text(w, 200, result(s, `{"tools":[{"name":"t"},{"name":"m","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}},`+
			`{"name":"bad","inputSchema":{"properties":{"r":{"type":"number","x-mcp-header":"R"}}}}],"ttlMs":60000}`))
	case key == "tools/call":
		text(w, 200, result(s, `{"content":[]}`))
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (x *web) answer(method string, f func(w http.ResponseWriter, r *http.Request, s seen)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.on[method] = f
}

// all returns what came with this method.
func (x *web) all(method string) []seen {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(x.seen), func(s seen) bool { return s.Method != method && s.Verb != method })
}

func connect(t *testing.T, url string, change func(*upstream.HTTPOptions)) *upstream.Client {
	t.Helper()
	o := upstream.HTTPOptions{
		Name: "web", URL: url, Version: "1", Now: time.Now,
		Ready: func(context.Context) (upstream.Ready, error) {
			return upstream.Ready{Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, nil
		},
	}
	if change != nil {
		change(&o)
	}
	c, err := upstream.NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func toolCall(arguments string) gateway.Request {
	return gateway.Request{Method: "tools/call", Tool: "m", Arguments: []byte(arguments), Meta: []byte(`{"traceparent":"00-1","progressToken":1,"io.modelcontextprotocol/x":1,"vendor":2}`)}
}

// A modern server gets requests that describe themselves, with headers that say the same, and nothing of the caller's but
// its trace.
func TestHTTP_modern(t *testing.T) {
	t.Parallel()
	x := newWeb(t, true)
	c := connect(t, x.url, nil)
	tools, err := c.Definitions(t.Context(), []byte(`{"a":1}`), false)
	if err != nil || len(tools) != 2 {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	a, err := c.Send(t.Context(), toolCall(`{"r":"é"}`))
	if err != nil || string(a.Result) != `{"content":[]}` {
		t.Fatalf("%s, %v", a.Result, err)
	}
	if n := len(x.all("tools/list")); n != 1 {
		t.Errorf("listed %d times", n)
	}
	got := x.all("tools/call")[0]
	want := `{"name":"m","arguments":{"r":"é"},"_meta":{"traceparent":"00-1","io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"counterfoil","version":"1"}}}`
	if string(got.Params) != want {
		t.Errorf("params\n%s\nwant\n%s", got.Params, want)
	}
	for name, value := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "m", "Mcp-Param-R": "=?base64?w6k=?=",
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": "", "Idempotency-Key": "",
	} {
		if got.Header.Get(name) != value {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if items, err := c.List(t.Context(), "prompts/list"); err != nil || items != nil {
		t.Errorf("what is not offered was listed: %q, %v", items, err)
	}
	if _, err := c.Send(t.Context(), toolCall(`{"r":5.5}`)); !errors.Is(err, gateway.ErrUnsent) {
		t.Errorf("an argument that can't be in a header: %v", err)
	}
}

// An older server gets a session, which is begun anew when it has ended, but a call is never repeated.
func TestHTTP_session(t *testing.T) {
	t.Parallel()
	x := newWeb(t, false)
	c := connect(t, x.url, nil)
	if _, err := c.Send(t.Context(), toolCall(`{}`)); err != nil {
		t.Fatal(err)
	}
	got := x.all("tools/call")[0]
	if got.Header.Get("Mcp-Session-Id") != "s1" || got.Header.Get("Mcp-Protocol-Version") != "2025-06-18" || got.Header.Get("Mcp-Method") != "" ||
		string(got.Params) != `{"name":"m","arguments":{},"_meta":{"traceparent":"00-1"}}` {
		t.Errorf("headers %v, params %s", got.Header, got.Params)
	}
	if len(x.all("notifications/initialized")) != 1 {
		t.Error("the session was not begun in full")
	}
	gone := func(w http.ResponseWriter, r *http.Request, s seen) {
		if r.Header.Get("Mcp-Session-Id") == "s1" {
			http.Error(w, "no session", http.StatusNotFound)
			return
		}
		text(w, 200, result(s, `{"tools":[],"content":[1]}`))
	}
	x.answer("tools/call", gone)
	x.answer("tools/list", gone)
	x.answer("initialize", func(w http.ResponseWriter, _ *http.Request, s seen) {
		w.Header().Set("Mcp-Session-Id", "s2")
		text(w, 200, result(s, `{"protocolVersion":"2025-11-25","capabilities":{}}`))
	})
	a, err := c.Send(t.Context(), toolCall(`{}`))
	if err != nil || !strings.Contains(string(a.Error), "404") || len(x.all("tools/call")) != 2 {
		t.Errorf("answer %s, %v", a.Error, err)
	}
	if a, err = c.Send(t.Context(), toolCall(`{}`)); err != nil || a.Result == nil {
		t.Errorf("in the new session: %s, %v", a.Error, err)
	}
	lost := true // as a server that was started anew says it
	x.answer("tools/list", func(w http.ResponseWriter, _ *http.Request, s seen) {
		if lost {
			lost = false
			text(w, 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
			return
		}
		text(w, 200, result(s, `{"tools":[]}`))
	})
	if _, err := c.Definitions(t.Context(), nil, true); err != nil || len(x.all("initialize")) != 3 {
		t.Errorf("after %d sessions: %v", len(x.all("initialize")), err)
	}
	x.answer("initialize", nil) // s1 again, which is refused: once anew, then it is an error
	x.answer("tools/list", func(w http.ResponseWriter, _ *http.Request, _ seen) { http.Error(w, "no", http.StatusNotFound) })
	before := len(x.all("tools/list"))
	if _, err := c.Definitions(t.Context(), nil, true); err == nil || len(x.all("tools/list")) != before+2 {
		t.Errorf("listed %d times, %v", len(x.all("tools/list"))-before, err)
	}
	if err := c.Close(); err != nil || len(x.all("DELETE")) > 1 {
		t.Errorf("closing: %v", err)
	}
}

// What comes of a call, by what the server does with it. "unsent" and "unknown" are how the error is told; a text is part
// of the answer.
func TestHTTP_outcomes(t *testing.T) {
	t.Parallel()
	on := func(f func(w http.ResponseWriter, s seen)) func(http.ResponseWriter, *http.Request, seen) {
		return func(w http.ResponseWriter, _ *http.Request, s seen) { f(w, s) }
	}
	status := func(n int, body string) func(http.ResponseWriter, *http.Request, seen) {
		return on(func(w http.ResponseWriter, _ seen) { text(w, n, body) })
	}
	data := func(s seen, r string) string { return "data: " + result(s, r) + "\n\n" }
	rows := map[string]struct {
		do   func(http.ResponseWriter, *http.Request, seen)
		want string
	}{
		"lossless": {on(func(w http.ResponseWriter, s seen) { text(w, 200, result(s, `{"n":12345678901234567890, "x":1.10}`)) }), `{"n":12345678901234567890, "x":1.10}`},
		"an error": {on(func(w http.ResponseWriter, s seen) {
			text(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"m","x":1.0}}`, s.ID))
		}), `{"code":-1,"message":"m","x":1.0}`},
		"an error with status 400": {status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"m"}}`), `"code":-32602`},
		"status 401":               {status(401, ``), "HTTP status 401"},
		"status 403, other text":   {status(403, `{"error":"no"}`), "HTTP status 403"},
		"status 413":               {status(413, strings.Repeat("x", 70_000)), "HTTP status 413"},
		"status 500":               {status(500, ``), "unknown"},
		"status 503 with an error": {status(503, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`), "unknown"},
		"status 202":               {status(202, ``), "unknown"},
		"a redirect": {on(func(w http.ResponseWriter, _ seen) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}), "unknown"},
		"another id": {status(200, `{"jsonrpc":"2.0","id":99,"result":{}}`), "unknown"},
		"the id as a text": {on(func(w http.ResponseWriter, s seen) {
			text(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":{}}`, s.ID))
		}), "unknown"},
		"no JSON":  {status(200, `<html>`), "unknown"},
		"an array": {on(func(w http.ResponseWriter, s seen) { text(w, 200, "["+result(s, `{}`)+"]") }), "unknown"},
		"a page": {on(func(w http.ResponseWriter, _ seen) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "hi")
		}), "unknown"},
		"too large":     {on(func(w http.ResponseWriter, s seen) { text(w, 200, result(s, `"`+strings.Repeat("x", 5000)+`"`)) }), "unknown"},
		"far too large": {on(func(w http.ResponseWriter, s seen) { text(w, 200, result(s, `"`+strings.Repeat("x", 500_000)+`"`)) }), "unknown"},
		"hung up":       {on(func(http.ResponseWriter, seen) { panic(http.ErrAbortHandler) }), "unknown"},
		"hung up in the middle": {on(func(w http.ResponseWriter, _ seen) {
			w.Header().Set("Content-Length", "100")
			text(w, 200, `{"jsonrpc"`)
		}), "unknown"},
		"an unknown kind of result": {on(func(w http.ResponseWriter, s seen) { text(w, 200, result(s, `{"resultType":"task","taskId":"x"}`)) }), "unknown"},
		"input wanted":              {on(func(w http.ResponseWriter, s seen) { text(w, 200, result(s, `{"resultType":"input_required"}`)) }), "unknown"},
		"a stream": {on(func(w http.ResponseWriter, s seen) {
			stream(w, ": hello\n\n", "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"notifications/progress\"}\r\n\r\n", "id: 7\n\n", data(s, `{"streamed":1.0}`))
		}), `{"streamed":1.0}`},
		"a stream that asks": {on(func(w http.ResponseWriter, s seen) {
			stream(w, `data: {"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}`+"\n\n", data(s, `{}`))
		}), `{}`},
		"a stream that ends":     {on(func(w http.ResponseWriter, _ seen) { stream(w, ": hello\n\n") }), "unknown"},
		"a stream that is cut":   {on(func(w http.ResponseWriter, s seen) { stream(w, "data: "+result(s, `{}`)+"\n") }), "unknown"},
		"a stream of another id": {on(func(w http.ResponseWriter, s seen) { s.ID = []byte("99"); stream(w, data(s, `{}`)) }), "unknown"},
		"an event too large":     {on(func(w http.ResponseWriter, s seen) { stream(w, data(s, `"`+strings.Repeat("x", 500_000)+`"`)) }), "unknown"},
		"events of nothing":      {on(func(w http.ResponseWriter, _ seen) { stream(w, "data: x\n\n") }), "unknown"},
	}
	for _, modern := range []bool{true, false} {
		for name, row := range rows {
			t.Run(fmt.Sprint(name, " ", modern), func(t *testing.T) {
				t.Parallel()
				x := newWeb(t, modern)
				x.answer("tools/call", row.do)
				r := toolCall(`{}`)
				r.MaxBytes = 4096
				a, err := connect(t, x.url, nil).Send(t.Context(), r)
				switch got := string(a.Result) + string(a.Error); {
				case row.want == "unknown":
					if counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome || errors.Is(err, gateway.ErrUnsent) || got != "" {
						t.Errorf("answer %s, error %v", got, err)
					}
				case err != nil || !strings.Contains(got, row.want):
					t.Errorf("answer %s, error %v", got, err)
				}
				if n := len(x.all("tools/call")); n != 1 {
					t.Errorf("it was sent %d times", n)
				}
			})
		}
	}
}

// A call is said to be unsent only if there was no connection to send it on.
func TestHTTP_unsent(t *testing.T) {
	t.Parallel()
	x := newWeb(t, true)
	calls := 0
	fail := errors.New("no secret")
	c := connect(t, x.url, func(o *upstream.HTTPOptions) {
		ready := o.Ready
		o.Ready = func(ctx context.Context) (upstream.Ready, error) {
			if calls++; calls > 1 {
				return upstream.Ready{}, fail
			}
			return ready(ctx)
		}
	})
	if _, err := c.Send(t.Context(), gateway.Request{Method: "prompts/get", Arguments: []byte(`{}`)}); !errors.Is(err, gateway.ErrUnsent) || !errors.Is(err, fail) {
		t.Errorf("without its headers: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	if _, err := connect(t, url, nil).Send(t.Context(), toolCall(`{}`)); !errors.Is(err, gateway.ErrUnsent) || counterfoil.CodeOf(err) != counterfoil.CodeUnavailable {
		t.Errorf("nobody listens: %v", err)
	}
	dead := connect(t, x.url, func(o *upstream.HTTPOptions) {
		o.Ready = func(context.Context) (upstream.Ready, error) { return upstream.Ready{}, nil }
	})
	if _, err := dead.Send(t.Context(), toolCall(`{}`)); !errors.Is(err, gateway.ErrUnsent) {
		t.Errorf("without a client: %v", err)
	}
}

// A call that is cancelled after it was sent is unknown; an older server is told.
func TestHTTP_cancel(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{true, false} {
		x := newWeb(t, modern)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		ended := make(chan struct{})
		x.answer("tools/call", func(_ http.ResponseWriter, r *http.Request, _ seen) {
			cancel(why)
			<-r.Context().Done()
			close(ended)
		})
		_, err := connect(t, x.url, nil).Send(ctx, toolCall(`{}`))
		if !errors.Is(err, why) || errors.Is(err, gateway.ErrUnsent) || counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome {
			t.Errorf("modern %v: %v", modern, err)
		}
		<-ended
		told := x.all("notifications/cancelled")
		if id := string(x.all("tools/call")[0].ID); modern != (len(told) == 0) || !modern && !strings.Contains(string(told[0].Params), `"requestId":`+id) {
			t.Errorf("modern %v: the server was told %v", modern, told)
		}
	}
}

// A stream of an older server that breaks off is gone on with where it ended; nothing is sent anew.
func TestHTTP_resume(t *testing.T) {
	t.Parallel()
	x := newWeb(t, false)
	var call seen
	x.answer("tools/call", func(w http.ResponseWriter, _ *http.Request, s seen) {
		call = s
		stream(w, "id: a1\nretry: 10\ndata:\n\n")
	})
	x.answer("GET", func(w http.ResponseWriter, r *http.Request, _ seen) {
		switch r.Header.Get("Last-Event-ID") {
		case "a1":
			stream(w, "id: a2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		case "a2":
			stream(w, "data: "+result(call, `{"resumed":true}`)+"\n\n")
		default:
			http.Error(w, "?", http.StatusBadRequest)
		}
	})
	a, err := connect(t, x.url, nil).Send(t.Context(), toolCall(`{}`))
	if err != nil || string(a.Result) != `{"resumed":true}` || len(x.all("tools/call")) != 1 {
		t.Errorf("answer %s, error %v", a.Result, err)
	}
	x.answer("GET", func(w http.ResponseWriter, _ *http.Request, _ seen) { stream(w, ": nothing\n\n") })
	if _, err := connect(t, x.url, nil).Send(t.Context(), toolCall(`{}`)); counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome {
		t.Errorf("error %v", err)
	}
	if n := len(x.all("GET")); n > 10 {
		t.Errorf("it was gone on with %d times", n)
	}
	y := newWeb(t, true) // a modern stream that breaks off has lost its request
	y.answer("tools/call", func(w http.ResponseWriter, _ *http.Request, _ seen) { stream(w, "id: a1\nretry: 10\ndata:\n\n") })
	if _, err := connect(t, y.url, nil).Send(t.Context(), toolCall(`{}`)); counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome || len(y.all("GET")) != 0 {
		t.Errorf("error %v, gone on with %d times", err, len(y.all("GET")))
	}
}
