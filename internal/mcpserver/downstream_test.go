package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// ask has the fake send a request and returns the answer that it gets.
func (f *fake) ask(t *testing.T, line string) message {
	t.Helper()
	f.say(line)
	for m := range f.heard {
		if m.Method == "" {
			return m
		}
	}
	t.Fatal("no answer")
	return message{}
}

func TestAsk_refused(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(`{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"roots":{}}}`)
	for _, method := range []string{"sampling/createMessage", "roots/list", "elicitation/create", "Elicitation/create", "tools/call", "x"} {
		m := c.fake.ask(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":%q,"params":{"message":"m"}}`, method))
		c.isError(m, `"q"`, -32601)
	}
	m := c.fake.ask(t, `{"jsonrpc":"2.0","id":-5,"method":"ping"}`)
	if string(m.ID) != "-5" || string(m.Result) != `{}` {
		t.Errorf("the answer to ping is %+v", m)
	}
	c.want(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`) // nothing else came
}

func TestAsk_elicitation(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	c.fake.say(`{"jsonrpc":"2.0","id":"one","method":"elicitation/create","params":{"message":"Name\u003f","requestedSchema":{"n":1.10}}}`)
	c.fake.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"Two?"}}`)
	one, two := c.line(), c.line()
	if want := `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"[fake] Name?","requestedSchema":{"n":1.10}}}`; one != want {
		t.Errorf("the client was sent %s, want %s", one, want)
	}
	if want := `{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"message":"[fake] Two?"}}`; two != want {
		t.Errorf("the client was sent %s, want %s", two, want)
	}
	c.send(`{"jsonrpc":"2.0","id":"2","result":"wrong type of id"}`, `{"jsonrpc":"2.0","id":3,"result":"unknown id"}`,
		`{"jsonrpc":"2.0","id":2,"result":{"action":"accept","content":{"n":1.10}}}`, `{"jsonrpc":"2.0","id":2,"result":"twice"}`)
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"n":1.10}}}`} {
		for m := range c.fake.heard {
			if m.Method == "" {
				if !c.fake.sent(want) {
					t.Errorf("the upstream was sent %s", m.Result)
				}
				break
			}
		}
	}
	// The upstream withdraws the first one; the answer is then nobody's.
	c.fake.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"one","reason":"r"}}`)
	if got, want := c.line(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`; got != want {
		t.Errorf("the client was sent %s, want %s", got, want)
	}
	c.send(`{"jsonrpc":"2.0","id":1,"result":"late"}`)
	for _, params := range []string{`{"requestId":"one"}`, `{"requestId":99}`, `{}`} {
		c.fake.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`)
	}
	c.want(`{"jsonrpc":"2.0","id":9,"method":"ping"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`)
	if c.fake.sent("late") || c.fake.sent("twice") || c.fake.sent("wrong type") || c.fake.sent("unknown id") {
		t.Error("an answer to nobody reached the upstream")
	}
}

func TestAsk_elicitationRejected(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	for _, params := range []string{`{}`, `{"message":1}`, `{"message":"m","mode":"url"}`, `{"message":"m","mode":1}`, `{"message":"m","MESSAGE":"x"}`} {
		c.isError(c.fake.ask(t, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":`+params+`}`), "1", -32602)
	}
	c.isError(c.fake.ask(t, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`), "1", -32602)
	// The client's answer is malformed: the upstream must not wait for ever.
	c.fake.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m"}}`)
	c.line()
	c.send(`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`)
	c.isError(c.read(), "null", -32600)
	for m := range c.fake.heard {
		if m.Method == "" && string(m.ID) == `"q"` {
			c.isError(m, `"q"`, -32603)
			break
		}
	}
	// More than are bearable.
	for i := range 32 {
		c.fake.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"m"}}`, i))
		c.line()
	}
	c.isError(c.fake.ask(t, `{"jsonrpc":"2.0","id":"many","method":"elicitation/create","params":{"message":"m"}}`), `"many"`, -32603)
}

func TestNotify(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info", "data":1.10},"vendor":[1]}`,
		`{"jsonrpc":"2.0","method":"notifications/vendor"}`,
	} {
		c.fake.say(line)
		if got := c.line(); got != line {
			t.Errorf("the client was sent %s, want %s", got, line)
		}
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/x","params":[1]}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"none","progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4711}}}`,
	} {
		c.fake.say(line)
	}
	c.want(`{"jsonrpc":"2.0","id":9,"method":"ping"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`)
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	sub := func(method, id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{"a":1.10,"_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
	}
	f := newFake("").on("subscriptions/listen", func(*fake, message) string { return "" })
	c := serve(t, f, &gate{}, nil)
	listen := func(id string) string {
		c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":` + modernMeta + `}}`)
		return string(f.next(t, "subscriptions/listen").ID)
	}
	id := listen(`"mine"`)
	for _, method := range []string{"subscriptions/acknowledged", "tools/list_changed", "tasks"} {
		f.say(sub(method, id))
		if got, want := c.line(), sub(method, `"mine"`); got != want {
			t.Errorf("the client was sent %s, want %s", got, want)
		}
	}
	// A task's requests for input are checked here too.
	task := func(id, method, message string) string {
		return `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","inputRequests":{"q":{"method":"` + method + `","params":{"message":"` + message + `"}}},` +
			`"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
	}
	f.say(task(id, "sampling/createMessage", "m"))
	f.say(task(id, "elicitation/create", "m"))
	if got, want := c.line(), task(`"mine"`, "elicitation/create", "[fake] m"); got != want {
		t.Errorf("the client was sent %s, want %s", got, want)
	}
	// The upstream ends it by an answer.
	f.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
	if got, want := c.line(), `{"jsonrpc":"2.0","id":"mine","result":{"_meta":{"io.modelcontextprotocol/subscriptionId":"mine"}}}`; got != want {
		t.Errorf("the client was sent %s, want %s", got, want)
	}
	f.say(sub("x", id)) // belongs to no subscription now
	// The upstream ends it by a notification.
	id = listen(`"second"`)
	f.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	if got, want := c.line(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"second"}}`; got != want {
		t.Errorf("the client was sent %s, want %s", got, want)
	}
	// The client ends it; the upstream hears the id that it knows.
	f.next(t, "notifications/cancelled")
	id = listen(`"third"`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"third"}}`)
	if m := f.next(t, "notifications/cancelled"); !strings.Contains(string(m.Params), `"requestId":`+id) {
		t.Errorf("the upstream was sent %s", m.Params)
	}
	c.want(`{"jsonrpc":"2.0","id":9,"method":"ping"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`)
}

// Stateless requests need no initialize, and declare their capabilities anew each time.
func TestServe_modern(t *testing.T) {
	t.Parallel()
	meta := func(capabilities string) string {
		return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `,"io.modelcontextprotocol/logLevel":"info"}`
	}
	c := serve(t, newFake(""), &gate{}, nil)
	all, less := meta(`{"sampling":{},"Roots":{},"elicitation":{"form":{}},"extensions":{"x":1.10}}`), meta(`{"elicitation":{"form":{}},"extensions":{"x":1.10}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":`+all+`}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"server/discover","params":{"_meta":`+less+`}}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":`+all+`}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call","params":{"name":"echo","_meta":`+less+`}}}`)
	// Another spelling of the capabilities does not get around it.
	twice := strings.Replace(all, `"io.modelcontextprotocol/logLevel":"info"`, `"io.modelcontextprotocol/ClientCapabilities":{"sampling":{}}`, 1)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":`+twice+`}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call","params":{"name":"echo","_meta":`+strings.Replace(less, `,"io.modelcontextprotocol/logLevel":"info"`, "", 1)+`}}}`)
	c.wantError(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":[]}}}`, "1", -32602)
	// A legacy request without initialize is refused.
	c.wantError(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, "1", 7012)
	// A task's requests for input are checked.
	c.fake.on("tasks/get", func(f *fake, m message) string {
		return f.result(m.ID, `{"resultType":"complete","status":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{}}}}`)
	})
	c.wantError(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t","_meta":`+all+`}}`, "1", -32603)
}

func progress(token string, n string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":` + n + `}}`
}

// Progress of a held call comes every ten seconds; the upstream's, later, only as far as it grows; none after the end.
func TestProgress(t *testing.T) {
	t.Parallel()
	g := &gate{}
	go_, released := make(chan struct{}), make(chan struct{})
	var late func(time.Duration, string)
	g.do = func(ctx context.Context, c gateway.Call) (gateway.Answer, error) {
		for s := range 31 {
			c.Progress(time.Duration(s)*time.Second-time.Duration(s)*time.Millisecond, `waiting "so"`)
		}
		late = c.Progress
		close(go_)
		<-released
		return pass(ctx, c)
	}
	f := newFake("")
	f.on("tools/call", func(f *fake, m message) string {
		for _, n := range []string{"0", "0.004", "0.004", "-1", "1", "1e0", "2.50", "x"} {
			f.say(strings.Replace(progress(`"tok"`, n), `:x}`, `:"x"}`, 1))
		}
		f.say(progress(`"other"`, "9"))
		return f.result(m.ID, `{}`)
	})
	c := serve(t, f, g, nil)
	c.initialize(initializeParams)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"tok"}}}`)
	for i := range 4 { // 0, 10, 20, 30 s
		want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":0.00%d,"message":"waiting \"so\""}}`, i+1)
		if got := c.line(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	<-go_
	close(released)
	for _, n := range []string{"1", "2.50"} {
		if got, want := c.line(), progress(`"tok"`, n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := c.line(), `{"jsonrpc":"2.0","id":1,"result":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	late(time.Hour, "late")
	f.say(progress(`"tok"`, "7"))
	c.want(`{"jsonrpc":"2.0","id":9,"method":"ping"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`)
}

// The progress of a task goes on after the request that made it.
func TestProgress_task(t *testing.T) {
	t.Parallel()
	c := serve(t, newFake(""), &gate{}, nil)
	c.initialize(initializeParams)
	c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{},"_meta":{"progressToken":5}}}`)
	c.fake.say(progress(`5`, "1"))
	c.fake.say(progress(`5`, "1"))
	c.fake.say(progress(`"5"`, "2"))
	c.fake.say(progress(`5`, "3"))
	for _, n := range []string{"1", "3"} {
		if got, want := c.line(), progress(`5`, n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Whatever a client sends, the relay lives on, every request with a valid id of its own gets exactly one answer, and no
// call reaches the upstream but through the gate.
func FuzzServe(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{},"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"capabilities":{"roots":{}}}}` + "\n" + `[{"jsonrpc":"2.0","id":2,"method":"ping"}]`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "\xff\n{}\n[]\n1",
		`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":1}}}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		if strings.Contains(lines, "cancelled") || len(lines) > 5000 {
			return // a cancelled request has no answer
		}
		c := serve(t, newFake("2025-03-26"), &gate{}, nil)
		want, used := map[string]int{}, map[string]bool{}
		var sent []string
		for l := range strings.SplitSeq(lines, "\n") {
			if strings.HasPrefix(strings.TrimSpace(l), "[") || strings.Contains(l, "end") {
				continue // an answer in an array, or to our last request
			}
			id := jsonrpc.Sniff([]byte(l)).ID
			if !id.IsZero() {
				if used[id.Key()] {
					continue // which answer is whose could not be told
				}
				used[id.Key()] = true
			}
			if parsed, err := jsonrpc.Parse([]byte(l), 1<<20); err == nil && parsed.Kind == jsonrpc.Request {
				want[id.String()] = 1
			}
			sent = append(sent, l)
		}
		go func() {
			for _, l := range sent {
				_, _ = fmt.Fprintln(c.in, l)
			}
			// The calls of the gate end by themselves; this is the last one.
			_, _ = fmt.Fprintln(c.in, `{"jsonrpc":"2.0","id":"end","method":"ping"}`)
		}()
		got := map[string]int{}
		left := len(want)
		for end := false; !end || left > 0; {
			m := c.read()
			if m.Method != "" {
				t.Fatalf("the client was asked %s", m.Method)
			}
			id := string(m.ID)
			end = end || id == `"end"`
			if got[id]++; got[id] == 1 && want[id] == 1 {
				left--
			}
		}
		for id, n := range got {
			if id != "null" && n != 1 {
				t.Errorf("id %s got %d answers", id, n)
			}
		}
		c.gate.mu.Lock()
		gated := map[string]bool{}
		for _, call := range c.gate.calls {
			gated[call.Method] = true
		}
		c.gate.mu.Unlock()
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		for _, l := range c.fake.seen {
			var m message
			if err := json.Unmarshal([]byte(l), &m); err != nil {
				t.Fatal(err)
			}
			if len(m.ID) > 0 && m.Method != "" && !gated[m.Method] && !strings.Contains(" initialize ping tools/list resources/list resources/templates/list prompts/list logging/setLevel "+
				"server/discover tasks/get tasks/result tasks/list tasks/cancel tasks/update subscriptions/listen ", " "+m.Method+" ") {
				t.Errorf("%q reached the upstream past the gate", m.Method)
			}
		}
	})
}
