package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

func TestServe_rejectsOptions(t *testing.T) {
	t.Parallel()
	if err := mcpserver.Serve(t.Context(), mcpserver.Options{}); err == nil {
		t.Error("a server of nothing was started")
	}
}

func TestServe_initialize(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	got := c.initialize(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"x":1.10},"clientInfo":{"name":"c"}, "extra":[1]}`)
	want := `{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"},` +
		`"sent":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"x":1.10},"clientInfo":{"name":"c"},"extra":[1]}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m := c.fake.next(t, "notifications/initialized"); m.ID != nil {
		t.Errorf("it came as %+v", m)
	}
}

func TestServe_relaysVerbatim(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	for _, method := range []string{
		"resources/list", "resources/templates/list", "prompts/list", "logging/setLevel", "server/discover",
		"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update", "subscriptions/listen",
	} {
		params := `{"n": 12345678901234567890,"s":"\u00e9","_meta":{"vendor/x":[1.10]}}`
		c.want(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`,"vendor":null}`,
			`{"jsonrpc":"2.0","id":1,"result":{"method":"`+method+`","params":`+params+`}}`)
		if !c.fake.sent(`"params":` + params + `,"vendor":null}`) {
			t.Errorf("%s: the request was not relayed as it was", method)
		}
	}
	c.want(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	if len(c.gate.calls) != 0 {
		t.Errorf("the gate was asked about %v", c.gate.calls)
	}
}

func TestServe_relaysErrors(t *testing.T) {
	t.Parallel()
	f := newFake("").on("prompts/list", func(f *fake, m message) string {
		return `{"error":{"code":-32602,"message":"no","data":{"n":1.10}},"vendor":1,"id":` + string(m.ID) + `,"jsonrpc":"2.0"}`
	})
	c := serve(t, f, &gate{}, nil)
	c.want(`{"jsonrpc":"2.0","id":"p","method":"prompts/list"}`,
		`{"error":{"code":-32602,"message":"no","data":{"n":1.10}},"vendor":1,"id":"p","jsonrpc":"2.0"}`)
}

// Ids come back with their type and digits, whoever else uses them.
func TestServe_ids(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	ids := []string{`"1"`, `1`, `"init-1"`, `""`, `0`, `-7`, `9007199254740993`, `"\ud83d\ude00"`}
	want := map[string]string{}
	go func() {
		for i, id := range ids {
			method, params := "tools/call", fmt.Sprintf(`{"name":"echo","arguments":{"n":%d}}`, i)
			if i%2 == 1 {
				method, params = "prompts/list", fmt.Sprintf(`{"n":%d}`, i)
			}
			fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params)
		}
	}()
	for i, id := range ids {
		want[id] = fmt.Sprintf(`"n":%d}`, i)
	}
	for range ids {
		m := c.read()
		n, ok := want[string(m.ID)]
		if !ok || !strings.Contains(string(m.Result), n) {
			t.Errorf("id %s got %s, want %s", m.ID, m.Result, n)
		}
		delete(want, string(m.ID))
	}
	for _, id := range []string{"1.5", "null", "1e3", "true", "-0"} {
		c.wantError(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, "null", -32600)
	}
}

func TestServe_malformed(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, func(o *mcpserver.Options) { o.MaxBytes = 10_000 })
	c.initialize(initializeParams)
	rows := []struct {
		line, id string
		number   int
	}{
		{`hello`, "null", -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"`, "1", -32700},
		{`{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/call"}`, "2", -32600},
		{`{"jsonrpc":"2.0","id":3,"method":"ping","Method":"tools/call"}`, "3", -32600},
		{`{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}`, "4", -32602},
		{`{"id":5,"method":"ping"}`, "5", -32600},
		{`[{"jsonrpc":"2.0","id":6,"method":"ping"}]`, "null", -32600},
		{`{"jsonrpc":"2.0","id":7}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":"8","method":"ping","params":{"a":"` + strings.Repeat("x", 10_000) + `"}}`, `"8"`, -32600},
		{`{"jsonrpc":"2.0","id":9,"result":1,"result":2}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":10,"method":"ping","params":{"a":"\ud800"}}`, "10", -32700},
	}
	for _, row := range rows {
		c.wantError(row.line, row.id, row.number)
	}
	// Nothing of it is answered, and nothing of it reaches the upstream.
	c.send(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, `{"jsonrpc":"2.0","method":"Notifications/x"}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":[1]}`, `{"jsonrpc":"2.0","id":77,"result":{}}`, "", "\r")
	c.want(`{"jsonrpc":"2.0","id":11,"method":"ping"}`+"\r", `{"jsonrpc":"2.0","id":11,"result":{}}`)
	for _, s := range []string{"tools/call", "otifications/x", "77"} {
		if c.fake.sent(s) {
			t.Errorf("the upstream was sent %s", s)
		}
	}
}

func TestServe_toolCall(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(`{"protocolVersion":"2025-11-25","capabilities":{}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"requestState":"s","_meta":{"progressToken":7,"vendor/x":1,"traceparent":"t","io.modelcontextprotocol/y":2},`+
		`"arguments":{"b":1.50,"a":"\u00e9"},"name":"echo","task":{"ttl":1}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call","params":{"name":"echo","arguments":{"a":"é","b":1.5},"requestState":"s","task":{"ttl":1},`+
			`"_meta":{"progressToken":7,"traceparent":"t","io.modelcontextprotocol/y":2}}}}`)
	got := c.gate.last()
	if got.Progress == nil || got.Upstream == nil {
		t.Error("the call has no progress or no upstream")
	}
	if id := string(got.Upstream.Identity()); id != `{"argv":["fake"]}` || got.Upstream.Name() != "fake" {
		t.Errorf("identity %s, name %s", id, got.Upstream.Name())
	}
	got.Progress, got.Upstream = nil, nil
	want := gateway.Call{
		Tenant: "local", Principal: "agent:test", Run: "run-1", Method: "tools/call", Tool: "echo", Hold: time.Second,
		Arguments: []byte(`{"b":1.50,"a":"\u00e9"}`), Extra: []byte(`{"requestState":"s","task":{"ttl":1}}`),
		Meta: []byte(`{"progressToken":7,"traceparent":"t","io.modelcontextprotocol/y":2}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.want(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"method":"tools/call","params":{"name":"echo"}}}`)
	if c.gate.last().Progress != nil {
		t.Error("there is progress without a token")
	}
}

func TestServe_toolCall_rejects(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	for _, params := range []string{
		`{}`, `{"name":""}`, `{"name":1}`, `{"name":null}`, `{"name":"echo","arguments":null}`, `{"name":"echo","arguments":[1]}`,
		`{"name":"echo","arguments":"x"}`, `{"name":"echo","_meta":1}`, `{"name":"echo","_meta":null}`, `{"name":"echo","_meta":{"progressToken":1.5}}`,
		`{"name":"echo","_meta":{"progressToken":null}}`, `{"name":"echo","Name":"write"}`, `{"Name":"write"}`, `{"name":"echo","ARGUMENTS":{}}`,
		`{"name":"echo","arguments\u0000":{}}`, `{"name":"echo","_META":{}}`, `{"name":"echo","a":1,"A":2}`,
		`{"name":"echo","_meta":{"io.modelcontextprotocol/clientCapabilities":1}}`,
	} {
		c.wantError(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`, "1", -32602)
	}
	c.wantError(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, "1", -32602)
	c.wantError(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a","URI":"b"}}`, "1", -32602)
	if len(c.gate.calls) != 0 || c.fake.sent("echo") {
		t.Errorf("the gate was asked about %v", c.gate.calls)
	}
}

// Every method that is not known to be harmless goes through the gate.
func TestServe_otherMethods(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	for _, method := range []string{
		"resources/read", "prompts/get", "completion/complete", "resources/subscribe", "resources/unsubscribe",
		"Tools/call", "tools/call ", "tools/CALL", "TOOLS/LIST", "ping ", "vendor/do", "notifications/x", "sampling/createMessage",
	} {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":"file:///x","_meta":{"vendor/x":1,"baggage":"b"}}}`, method))
		m := c.read()
		if want := fmt.Sprintf(`{"method":%q,"params":{"uri":"file:///x","_meta":{"baggage":"b"}}}`, method); string(m.Result) != want {
			t.Errorf("%q: got %s%s, want %s", method, m.Result, m.Error, want)
		}
		if got := c.gate.last(); got.Method != method || got.Tool != method || string(got.Arguments) != `{"uri":"file:///x"}` {
			t.Errorf("%q: the gate was asked about %+v", method, got)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"vendor/do"}`)
	c.read()
	if got := c.gate.last(); got.Arguments != nil {
		t.Errorf("arguments are %s", got.Arguments)
	}
}

func TestServe_refusals(t *testing.T) {
	t.Parallel()
	var err error
	g := &gate{do: func(context.Context, gateway.Call) (gateway.Answer, error) { return gateway.Answer{}, err }}
	c := serve(t, newFake(""), g, nil)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	rows := []struct {
		err  error
		want string
	}{
		{&gateway.Refusal{Reason: gateway.DeniedByPolicy, Msg: "no"}, `{"code":7001,"message":"denied_by_policy: no","data":{"code":"denied_by_policy"}}`},
		{
			&gateway.Refusal{Reason: gateway.ApprovalPending, Msg: "wait", Approval: "ap-1", ExpiresAt: at, RetryAfter: 1500 * time.Millisecond, Receipt: "r-1", Err: errors.New("secret")},
			`{"code":7003,"message":"approval_pending: wait [approval ap-1] [receipt r-1] Repeat the identical call in 1 s.",` +
				`"data":{"code":"approval_pending","approval_id":"ap-1","expires_at":"2026-01-02T02:04:05Z","retry_after_ms":1500,"receipt":"r-1"}}`,
		},
		{fmt.Errorf("wrapped: %w", &gateway.Refusal{Reason: gateway.InvalidParams, Msg: "bad"}), `{"code":-32602,"message":"invalid_params: bad","data":{"code":"invalid_params"}}`},
		{errors.New("secret"), `{"code":-32603,"message":"internal error"}`},
		{(*gateway.Refusal)(nil), `{"code":-32603,"message":"internal error"}`},
		{nil, `{"code":-32603,"message":"internal error"}`},
	}
	for _, row := range rows {
		err = row.err
		c.want(`{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{"name":"x"}}`, `{"jsonrpc":"2.0","id":"r","error":`+row.want+`}`)
	}
}

func TestServe_upstreamError(t *testing.T) {
	t.Parallel()
	f := newFake("").on("tools/call", func(f *fake, m message) string {
		return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32042,"message":"url","data":{"elicitations":[1.10]}}}`
	})
	c := serve(t, f, &gate{}, nil)
	c.initialize(initializeParams)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"url","data":{"elicitations":[1.10]}}}`)
}

// Answer.Deliver writes the answer, once, and is not called for one that nobody waits for any more.
func TestServe_delivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delivered := 0
		g := &gate{do: func(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
			if c.Method == "vendor/held" {
				<-ctx.Done()
			}
			return gateway.Answer{Result: []byte(`{}`), Deliver: func(write func() error) error { delivered++; return write() }}, nil
		}}
		c := serve(t, newFake("2025-03-26"), g, nil)
		c.initialize(initializeParams)
		check := func(want int) {
			t.Helper()
			if synctest.Wait(); delivered != want {
				t.Errorf("called %d times, want %d", delivered, want)
			}
		}
		c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
		check(1)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"vendor/held"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		check(1)
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
		c.send(`[` + call + `,{"jsonrpc":"2.0","id":2,"method":"vendor/x"},{"jsonrpc":"2.0","id":3,"method":"vendor/held"}]`)
		check(1) // the array waits for its last message
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		c.line()
		check(3)
	})
}

func TestServe_batch(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake("2025-03-26"), &gate{}, nil)
	c.wantError(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", -32600) // nothing is negotiated yet
	c.initialize(initializeParams)
	var got []message
	line := c.ask(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},5,{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"echo"}},` +
		`{"jsonrpc":"2.0","id":3,"method":"initialize"},{"jsonrpc":"2.0","id":1,"result":{}},{"id":4,"method":"ping"}]`)
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	ids := map[string]string{}
	for _, m := range got {
		ids[string(m.ID)] = string(m.Result) + string(m.Error)
	}
	want := map[string]string{
		"1": `{}`, `"2"`: `{"method":"tools/call","params":{"name":"echo"}}`,
		"3":    `{"code":-32600,"message":"initialize must not be part of a batch"}`,
		"null": `{"code":-32600,"message":"this is not an object"}`,
		"4":    `{"code":-32600,"message":"the member \"jsonrpc\" is not \"2.0\""}`,
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.fake.next(t, "notifications/x")
	c.send(`[{"jsonrpc":"2.0","method":"notifications/y"}]`) // no answer at all
	c.fake.next(t, "notifications/y")
	c.wantError(`[]`, "null", -32600)
	c.wantError(`[`+strings.Repeat(`1,`, 64)+`1]`, "null", -32600)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

func TestServe_cancel(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	g := &gate{do: func(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return gateway.Answer{Result: []byte(`"late"`)}, nil
	}}
	f := newFake("").on("prompts/list", func(*fake, message) string { return "" }).on("initialize", func(*fake, message) string { return "" })
	c := serve(t, f, g, nil)
	c.send(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"r"}}`)
	if err := <-causes; !errors.Is(err, mcpserver.ErrCancelledByClient) {
		t.Errorf("cause %v", err)
	}
	c.send(`{"jsonrpc":"2.0","id":"b","method":"prompts/list"}`)
	id := c.fake.next(t, "prompts/list").ID
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
	if got, want := string(c.fake.next(t, "notifications/cancelled").Params), fmt.Sprintf(`{"requestId":%s,"reason":"the call was cancelled"}`, id); got != want {
		t.Errorf("the upstream was sent %s, want %s", got, want)
	}
	// Unknown ids, and initialize, are not cancelled.
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`)
	for _, params := range []string{`{"requestId":"i"}`, `{"requestId":5}`, `{"requestId":1.5}`, `{}`} {
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	f.say(f.result(f.next(t, "initialize").ID, `{}`))
	if got, want := c.line(), `{"jsonrpc":"2.0","id":"i","result":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Neither cancelled request was answered; the ids are free again.
	c.want(`{"jsonrpc":"2.0","id":"b","method":"ping"}`, `{"jsonrpc":"2.0","id":"b","result":{}}`)
}

func TestServe_end(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	g := &gate{do: func(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return gateway.Answer{}, &gateway.Refusal{Reason: gateway.ApprovalPending, Msg: "gone"}
	}}
	c := serve(t, newFake(""), g, nil)
	c.send(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}}`)
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-causes; !errors.Is(err, mcpserver.ErrClientGone) {
		t.Errorf("cause %v", err)
	}
	c.isError(c.read(), `"a"`, 7003)
	if l, more := <-c.out; more {
		t.Errorf("something more came: %s", l)
	}
	if _, open := <-c.fake.heard; open {
		t.Error("the upstream was sent something")
	}
}

// An upstream that does not answer can't hold up the end, and a gate that goes on without its client can for Drain alone.
func TestServe_drain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		g := &gate{do: func(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
			return pass(context.WithoutCancel(ctx), c)
		}}
		c := serve(t, newFake("").on("tools/call", func(*fake, message) string { return "" }), g, func(o *mcpserver.Options) { o.Drain = 3 * time.Second })
		c.initialize(initializeParams)
		c.send(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}}`)
		c.fake.next(t, "tools/call")
		if err := c.in.Close(); err != nil {
			t.Fatal(err)
		}
		c.isError(c.read(), `"a"`, 7009)
		if d := time.Since(begin); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("the end took %v", d)
		}
	})
}

func TestServe_deadClient(t *testing.T) {
	t.Parallel()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ours := &closedUpstream{closed: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.Serve(t.Context(), mcpserver.Options{In: inR, Out: outW, Gate: &gate{}, Conn: upstream.NewConn(ours, upstream.ConnOptions{}), Now: time.Now})
	}()
	if err := outR.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(inW, "nonsense\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, mcpserver.ErrClientGone) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Serve returned %v", err)
	}
	<-ours.closed
}

// A client that is there but does not read can't hold up the end.
func TestServe_stuckClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		f := newFake("")
		ours, theirs := net.Pipe()
		go f.serve(theirs, theirs)
		done := make(chan error, 1)
		go func() {
			done <- mcpserver.Serve(ctx, mcpserver.Options{In: inR, Out: outW, Gate: &gate{}, Conn: upstream.NewConn(ours, upstream.ConnOptions{}), Now: time.Now})
		}()
		for i := range 3 {
			_, _ = fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":%d,"method":"vendor/x"}`+"\n", i)
		}
		synctest.Wait()
		f.say(`{"jsonrpc":"2.0","method":"notifications/x"}`)
		synctest.Wait()
		begin := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v", err)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("the end took %v", d)
		}
		_ = outR.Close() // lets the one stuck goroutine go
	})
}

// closedUpstream says nothing and takes everything.
type closedUpstream struct{ closed chan struct{} }

func (c *closedUpstream) Read([]byte) (int, error)    { <-c.closed; return 0, io.EOF }
func (c *closedUpstream) Write(b []byte) (int, error) { return len(b), nil }
func (c *closedUpstream) Close() error                { close(c.closed); return nil }

func TestServe_contextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	inR, _ := io.Pipe()
	why := errors.New("why")
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.Serve(ctx, mcpserver.Options{
			In: inR, Out: io.Discard, Gate: &gate{}, Now: time.Now,
			Conn: upstream.NewConn(&closedUpstream{closed: make(chan struct{})}, upstream.ConnOptions{}),
		})
	}()
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("Serve returned %v", err)
	}
}

func TestServe_inFlightBound(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	g := &gate{do: func(context.Context, gateway.Call) (gateway.Answer, error) {
		<-release
		return gateway.Answer{Result: []byte(`{}`)}, nil
	}}
	c := serve(t, newFake(""), g, func(o *mcpserver.Options) { o.MaxInFlight = 3 })
	for i := range 3 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"vendor/x"}`, i))
	}
	c.wantError(`{"jsonrpc":"2.0","id":9,"method":"vendor/x"}`, "9", -32603)
	c.wantError(`{"jsonrpc":"2.0","id":1,"method":"vendor/x"}`, "1", -32600) // the id is in use
	close(release)
	for range 3 {
		c.read()
	}
	c.want(`{"jsonrpc":"2.0","id":1,"method":"vendor/x"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}
