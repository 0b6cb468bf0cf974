package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
)

// start sends a request and returns its response without reading it. Ending ctx closes the connection.
func (e *endpoint) start(ctx context.Context, method, body string, headers map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Who", "acme/bot")
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	return http.DefaultClient.Do(req)
}

// A held gate holds each call until it is let go or cancelled.
type held struct {
	began chan gateway.Call
	ended chan error // why the call ended
	let   chan struct{}
}

func hold(e *endpoint) *held {
	h := &held{began: make(chan gateway.Call, 100), ended: make(chan error, 100), let: make(chan struct{})}
	e.gate.do = func(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
		h.began <- c
		if c.Progress != nil {
			c.Progress(time.Second, "waiting")
		}
		select {
		case <-h.let:
			return gateway.Answer{Result: []byte(`{"done":true}`), Deliver: func(write func() error) error {
				err := write()
				h.ended <- err
				return err
			}}, nil
		case <-ctx.Done():
			h.ended <- context.Cause(ctx)
			return gateway.Answer{}, &gateway.Refusal{Reason: gateway.Internal, Msg: "cancelled"}
		}
	}
	return h
}

func sessionOrAlone(e *endpoint, modern bool) (headers map[string]string, body string) {
	if modern {
		return modernHeaders("tools/call", "db.echo"), echo(strings.Replace(meta, `:{"io.`, `:{"progressToken":"t","io.`, 1))
	}
	return e.open("2025-11-25"), echo(`"_meta":{"progressToken":"t"}`)
}

// A held call is answered by a stream: its progress, signs of life longer than the server's own limits, and the answer.
func TestHandler_heldCall(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"modern": true, "session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpointWith(t, func(o *mcpserver.HandlerOptions) { o.KeepAlive = 100 * time.Millisecond }, stubs()...)
			h := hold(e)
			headers, body := sessionOrAlone(e, modern)
			time.AfterFunc(2500*time.Millisecond, func() { close(h.let) })
			got := e.raw("POST", body, headers)
			if got.Status != 200 || got.Headers.Get("Content-Type") != "text/event-stream" || got.Headers.Get("X-Accel-Buffering") != "no" {
				t.Errorf("status %d, headers %v", got.Status, got.Headers)
			}
			progress := strings.Index(got.Body, `"notifications/progress","params":{"progressToken":"t"`)
			answer := strings.Index(got.Body, `"result":{"done":true`)
			if progress < 0 || answer < progress || strings.Count(got.Body, ":\n\n") < 10 || !strings.HasSuffix(got.Body, "}}") {
				t.Errorf("body %s", got.Body)
			}
			if err := <-h.ended; err != nil {
				t.Errorf("it was not delivered: %v", err)
			}
		})
	}
}

// A client that takes no streams waits in silence and gets a text.
func TestHandler_heldWithoutStream(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, func(o *mcpserver.HandlerOptions) { o.KeepAlive = 20 * time.Millisecond }, stubs()...)
	h := hold(e)
	headers, body := sessionOrAlone(e, true)
	headers["Accept"] = "application/json"
	time.AfterFunc(200*time.Millisecond, func() { close(h.let) })
	if got := e.raw("POST", body, headers); got.Body != `{"jsonrpc":"2.0","id":1,"result":{"done":true,"resultType":"complete"}}` || got.Headers.Get("Content-Type") != "application/json" {
		t.Errorf("body %s", got.Body)
	}
}

// A modern client that closes its stream has cancelled. An older one has not: its call goes on, and the gate learns that
// nobody took the answer.
func TestHandler_disconnect(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"modern": true, "session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpointWith(t, nil, stubs()...)
			h := hold(e)
			headers, body := sessionOrAlone(e, modern)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, err := e.start(ctx, "POST", body, headers)
			if err != nil {
				t.Fatal(err)
			}
			<-h.began
			cancel()
			_ = res.Body.Close()
			if !modern {
				select {
				case err := <-h.ended:
					t.Fatalf("the call ended with %v", err)
				case <-time.After(300 * time.Millisecond):
				}
				close(h.let)
			}
			if err := <-h.ended; !errors.Is(err, mcpserver.ErrClientGone) {
				t.Errorf("the call ended with %v", err)
			}
		})
	}
}

// notifications/cancelled and the end of the session end a call; a cancelled one gets no answer.
func TestHandler_cancel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"cancelled": mcpserver.ErrCancelledByClient, "DELETE": mcpserver.ErrClientGone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpointWith(t, nil, stubs()...)
			h := hold(e)
			headers, _ := sessionOrAlone(e, false)
			done := make(chan wire, 1)
			go func() { done <- e.raw("POST", echo(""), headers) }()
			<-h.began
			if got := e.raw("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`, headers); got.Status != 202 {
				t.Errorf("status %d", got.Status)
			}
			if got := e.raw("POST", echo(""), headers); got.number(t) != -32600 {
				t.Errorf("the same id once more: %s", got.Body)
			}
			if name == "DELETE" {
				e.raw("DELETE", "", headers)
			} else {
				e.raw("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, headers)
			}
			if err := <-h.ended; !errors.Is(err, want) {
				t.Errorf("the call ended with %v", err)
			}
			if got := <-done; name == "cancelled" && (got.Status != 202 || got.Body != "") {
				t.Errorf("status %d, %s", got.Status, got.Body)
			}
		})
	}
}

// One principal's requests and streams are bounded, and nobody else's by them.
func TestHandler_bounds(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, func(o *mcpserver.HandlerOptions) { o.MaxInFlight, o.MaxStreams = 2, 2 }, stubs()...)
	h := hold(e)
	headers, body := sessionOrAlone(e, true)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { e.raw("POST", body, headers) })
		<-h.began
	}
	if got := e.raw("POST", body, headers); got.Status != 200 || got.number(t) != -32603 || !strings.Contains(got.Body, "busy") {
		t.Errorf("one too many: %d %s", got.Status, got.Body)
	}
	calls.Go(func() { e.rawAs("acme/bob", "POST", body, headers) })
	<-h.began
	close(h.let)
	calls.Wait()
	s := e.open("2025-11-25")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 3 {
		res, err := e.start(ctx, "GET", "", s)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if want := []int{200, 200, 429}[i]; res.StatusCode != want {
			t.Errorf("stream %d: status %d", i, res.StatusCode)
		}
	}
}

// The stream of a session tells that the list of tools has changed, to the tenant that it is about.
func TestHandler_listen(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, func(o *mcpserver.HandlerOptions) { o.KeepAlive = 50 * time.Millisecond }, stubs()...)
	s := e.open("2025-11-25")
	if got := e.raw("GET", "", map[string]string{"Mcp-Session-Id": s["Mcp-Session-Id"], "Accept": "application/json"}); got.Status != 406 {
		t.Errorf("status %d", got.Status)
	}
	res, err := e.start(t.Context(), "GET", "", s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	e.handler.Changed("other")
	e.handler.Changed("acme")
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if text != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
				t.Errorf("message %s", text)
			}
			break
		}
	}
	e.raw("DELETE", "", s)
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Errorf("the stream did not end with its session: %v", err)
	}
}

// Shutting down takes no new request, ends the streams, and waits for what runs before it cancels it; clients that leave by
// themselves at that moment do no harm.
func TestHandler_shutdown(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, nil, stubs()...)
	h := hold(e)
	headers, body := sessionOrAlone(e, true)
	s := e.open("2025-11-25")
	var clients sync.WaitGroup
	for i := range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		res, err := e.start(ctx, "GET", "", s)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			defer cancel()
			if i%2 == 0 {
				cancel()
			}
			_, _ = io.ReadAll(res.Body)
			_ = res.Body.Close()
		})
	}
	for range 2 {
		clients.Go(func() { e.raw("POST", body, headers) })
		<-h.began
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.handler.Shutdown(ctx) }()
	note := modernHeaders("notifications/x", "")
	for {
		got := e.raw("POST", `{"jsonrpc":"2.0","method":"notifications/x"}`, note)
		if got.Status == 503 && got.Headers.Get("Retry-After") != "" {
			break
		}
		if got.Status != 202 {
			t.Fatalf("status %d", got.Status)
		}
	}
	if err := <-stopped; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
	for range 2 {
		if err := <-h.ended; !errors.Is(err, mcpserver.ErrClientGone) {
			t.Errorf("a call ended with %v", err)
		}
	}
	clients.Wait()
}

// listOf asks for a list and returns the names, the next cursor and the upstreams that are missing.
func (e *endpoint) listOf(method, cursor string) (names []string, next string, absent []string) {
	e.t.Helper()
	params := meta
	if cursor != "" {
		params = fmt.Sprintf(`"cursor":%q,`, cursor) + meta
	}
	got := e.raw("POST", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`, modernHeaders(method, ""))
	var m struct {
		Result struct {
			Tools, Prompts, Resources []struct{ Name, URI string }
			NextCursor                string
			CacheScope, ResultType    string
			TTLMs                     *int
			Meta                      map[string][]string `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(got.Body), &m); err != nil || got.Status != 200 || m.Result.CacheScope != "private" || m.Result.TTLMs == nil || m.Result.ResultType != "complete" {
		e.t.Fatalf("status %d, %s: %v", got.Status, got.Body, err)
	}
	for _, x := range m.Result.Tools {
		names = append(names, x.Name)
	}
	for _, x := range m.Result.Prompts {
		names = append(names, x.Name)
	}
	for _, x := range m.Result.Resources {
		names = append(names, x.URI)
	}
	return names, m.Result.NextCursor, m.Result.Meta["counterfoil/absent"]
}

// The list is that of all upstreams: a dead one is missing and named, a name that can't be told apart is nobody's.
func TestHandler_lists(t *testing.T) {
	t.Parallel()
	tool := func(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }
	ops := &stub{name: "ops", tools: []string{tool("search"), tool("_get"), tool("Get"), tool("get"), tool("twice"), tool("twice"), tool("bad name"), tool(""), tool("a.b"),
		`{"name":"x","Name":"y"}`, `5`, tool(strings.Repeat("n", 125))},
		lists: map[string][]string{"prompts/list": {tool("p")}, "resources/list": {`{"uri":"file:///a"}`}}}
	beta := &stub{name: "beta", tools: []string{tool("search")}}
	e := endpointWith(t, nil, mcpserver.Mount{Name: "ops", Upstream: ops}, mcpserver.Mount{Name: "beta", Upstream: beta},
		mcpserver.Mount{Name: "dead", Upstream: &stub{err: errors.New("dead")}}, mcpserver.Mount{Name: "ops-", Upstream: beta},
		mcpserver.Mount{Name: "Bad.Name", Upstream: beta})
	names, _, absent := e.listOf("tools/list", "")
	if got, want := strings.Join(names, " "), "beta.search ops.search ops._get ops.Get ops.get ops.a.b ops-.search"; got != want {
		t.Errorf("tools\n%s\nwant\n%s", got, want)
	}
	if got := strings.Join(absent, " "); got != "Bad.Name dead" {
		t.Errorf("absent %s", got)
	}
	for method, want := range map[string]string{"prompts/list": "ops.p", "resources/list": "ops+file:///a"} {
		if names, _, _ := e.listOf(method, ""); strings.Join(names, " ") != want {
			t.Errorf("%s: %v", method, names)
		}
	}
	for name, want := range map[string]string{"ops.a.b": "a.b", "ops._get": "_get", "ops-.search": "search"} {
		e.raw("POST", strings.Replace(echo(meta), "db.echo", name, 1), modernHeaders("tools/call", name))
		if got := e.gate.last(); got.Tool != want {
			t.Errorf("%s reached %s", name, got.Tool)
		}
	}
	if names, _, _ := e.listOf("tools/list", ""); len(names) != 7 {
		t.Errorf("another look: %v", names)
	}
	e.mounts["acme"] = nil
	if names, _, absent := e.listOf("tools/list", ""); len(names)+len(absent) != 0 {
		t.Errorf("a tenant without upstreams sees %v", names)
	}
}

// A long list comes in pages, and the cursor is worth nothing once the list is another.
func TestHandler_pages(t *testing.T) {
	t.Parallel()
	s := &stub{name: "db"}
	for i := range 2500 {
		s.tools = append(s.tools, fmt.Sprintf(`{"name":"t%d"}`, i))
	}
	e := endpointWith(t, nil, mcpserver.Mount{Name: "db", Upstream: s})
	seen := map[string]bool{}
	var cursors []string
	for cursor := ""; ; {
		names, next, _ := e.listOf("tools/list", cursor)
		for _, n := range names {
			seen[n] = true
		}
		if next == "" {
			break
		}
		cursor = next
		cursors = append(cursors, next)
	}
	if len(seen) != 2500 || len(cursors) != 2 {
		t.Errorf("%d tools in %d pages", len(seen), len(cursors)+1)
	}
	for name, cursor := range map[string]string{"nonsense": "x", "cut": cursors[0][:20], "of another list": cursors[0]} {
		if name == "of another list" {
			s.tools = s.tools[1:]
		}
		got := e.raw("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":%q,`, cursor)+meta+`}}`, modernHeaders("tools/list", ""))
		if got.Status != 400 || got.number(t) != -32602 {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
}

// What an upstream answers reaches the client as it is, but for what its revision must have or must not have.
func TestHandler_answers(t *testing.T) {
	t.Parallel()
	var answer gateway.Answer
	s := &stub{name: "db", tools: []string{`{"name":"echo"}`}, send: func(gateway.Request) (gateway.Answer, error) { return answer, nil }}
	e := endpointWith(t, nil, mcpserver.Mount{Name: "db", Upstream: s})
	h := e.open("2025-11-25")
	for name, row := range map[string]struct{ result, err, modern, session string }{
		"lossless": {
			`{"n":12345678901234567890,"x":1.10,"Ω":[1,{"isError" : false}]}`, "",
			`"result":{"n":12345678901234567890,"x":1.10,"Ω":[1,{"isError" : false}],"resultType":"complete"}}`,
			`"result":{"n":12345678901234567890,"x":1.10,"Ω":[1,{"isError" : false}]}}`,
		},
		"links": {
			`{"content":[{"type":"text","uri":"x"},{"type":"resource_link","uri":"a:b"},{"type":"resource","resource":{"uri":"a:c","text":""}}]}`, "",
			`{"type":"resource_link","uri":"db+a:b"},{"type":"resource","resource":{"uri":"db+a:c","text":""}}]`, `[{"type":"text","uri":"x"},`,
		},
		"unknown resource": {"", `{"code":-32002,"message":"m","data":1.0}`, `{"code":-32602,"message":"m","data":1.0}`, `{"code":-32002,"message":"m","data":1.0}`},
		"url wanted":       {"", `{"code":-32042,"message":"m"}`, `{"code":-32603,"message":"m"}`, `{"code":-32042,"message":"m"}`},
		"undefined":        {"", `{"code":-32050,"message":"m"}`, `{"code":-32603,"message":"m"}`, `{"code":-32050,"message":"m"}`},
		"own":              {"", `{"code":17,"message":"m"}`, `{"code":17,"message":"m"}`, `{"code":17,"message":"m"}`},
	} {
		answer = gateway.Answer{}
		if row.result != "" {
			answer.Result = []byte(row.result)
		} else {
			answer.Error = []byte(row.err)
		}
		if got := e.raw("POST", echo(meta), modernHeaders("tools/call", "db.echo")); !strings.Contains(got.Body, row.modern) {
			t.Errorf("%s, modern: %d %s", name, got.Status, got.Body)
		}
		if got := e.raw("POST", echo(""), h); got.Status != 200 || !strings.Contains(got.Body, row.session) {
			t.Errorf("%s, session: %d %s", name, got.Status, got.Body)
		}
	}
}
