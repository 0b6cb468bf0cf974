package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// session starts a server and returns the upstream as the gate sees it.
func session(t *testing.T, f *fake, initialize bool) (*client, gateway.Upstream) {
	t.Helper()
	g := &gate{do: func(context.Context, gateway.Call) (gateway.Answer, error) {
		return gateway.Answer{Result: []byte(`{}`)}, nil
	}}
	c := serve(t, f, g, nil)
	if initialize {
		c.initialize(initializeParams)
	}
	c.ask(`{"jsonrpc":"2.0","id":0,"method":"vendor/x"}`)
	return c, g.last().Upstream
}

// pages answers tools/list with what page returns for a cursor ("-" for none): tools, and a raw next cursor or "".
func pages(f *fake, page func(cursor string) (tools, next string)) *fake {
	return f.on("tools/list", func(f *fake, m message) string {
		cursor := "-"
		if i := strings.Index(string(m.Params), `"cursor":"`); i >= 0 {
			rest := string(m.Params)[i+len(`"cursor":"`):]
			cursor = rest[:strings.Index(rest, `"`)]
		}
		tools, next := page(cursor)
		if next != "" {
			next = `,"nextCursor":` + next
		}
		return f.result(m.ID, `{"tools":`+tools+next+`}`)
	})
}

func someTools(from, n int) string {
	var t []string
	for i := range n {
		t = append(t, fmt.Sprintf(`{"name":"t%d", "x":1.10}`, from+i))
	}
	return "[" + strings.Join(t, ",") + "]"
}

func TestDefinitions_pages(t *testing.T) {
	t.Parallel()
	f := pages(newFake(""), func(cursor string) (string, string) {
		switch cursor {
		case "-":
			return someTools(0, 40), `""` // an empty cursor is one too
		case "":
			return someTools(40, 40), `"p\u0033"`
		default:
			return someTools(80, 40), `null`
		}
	})
	_, s := session(t, f, true)
	got, err := s.Definitions(t.Context(), nil, false)
	if err != nil || len(got) != 120 {
		t.Fatalf("%d tools, error %v", len(got), err)
	}
	for i, d := range got {
		if want := fmt.Sprintf(`{"name":"t%d", "x":1.10}`, i); string(d) != want {
			t.Errorf("tool %d is %s", i, d)
		}
	}
}

func TestDefinitions_rejects(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		page func(cursor string) (tools, next string)
		msg  string
		most int32 // pages that are read
	}{
		"the same cursor for ever": {func(string) (string, string) { return someTools(0, 1), `"a"` }, "does not end", 2},
		"a circle": {func(c string) (string, string) {
			if c == "a" {
				return someTools(0, 1), `"b"`
			}
			return someTools(0, 1), `"a"`
		}, "does not end", 3},
		"pages without end": {func(c string) (string, string) { return `[]`, fmt.Sprintf(`"%sx"`, strings.TrimPrefix(c, "-")) }, "too many pages", 1000},
		"too many tools":    {func(c string) (string, string) { return someTools(0, 5001), fmt.Sprintf(`"%sx"`, c) }, "too long", 2},
		"too many bytes": {func(c string) (string, string) {
			return `["` + strings.Repeat("x", 9<<20) + `"]`, fmt.Sprintf(`"%sx"`, c)
		}, "too long", 2},
		"page 2 fails": {func(c string) (string, string) {
			if c == "-" {
				return someTools(0, 1), `"a"`
			}
			return `5`, ``
		}, "malformed", 2},
		"cursor is a number": {func(string) (string, string) { return someTools(0, 1), `1` }, "does not end", 1},
		"no list":            {func(string) (string, string) { return `null`, `` }, "malformed", 1},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read atomic.Int32
			_, s := session(t, pages(newFake(""), func(c string) (string, string) {
				read.Add(1)
				return row.page(c)
			}), true)
			got, err := s.Definitions(t.Context(), nil, false)
			if err == nil || got != nil || counterfoil.CodeOf(err) != counterfoil.CodeUnavailable || !strings.Contains(err.Error(), row.msg) {
				t.Errorf("%d tools, error %v", len(got), err)
			}
			if n := read.Load(); n > row.most {
				t.Errorf("%d pages were read", n)
			}
		})
	}
	t.Run("error", func(t *testing.T) {
		t.Parallel()
		f := newFake("").on("tools/list", func(f *fake, m message) string {
			return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":1,"message":"m"}}`
		})
		_, s := session(t, f, true)
		if got, err := s.Definitions(t.Context(), nil, false); err == nil || got != nil {
			t.Errorf("%d tools, error %v", len(got), err)
		}
	})
	t.Run("not initialized", func(t *testing.T) {
		t.Parallel()
		_, s := session(t, newFake(""), false)
		if _, err := s.Definitions(t.Context(), nil, false); !errors.Is(err, gateway.ErrUnsent) {
			t.Errorf("error %v", err)
		}
		if _, err := s.Send(t.Context(), gateway.Request{Method: "tools/call", Tool: "x"}); !errors.Is(err, gateway.ErrUnsent) {
			t.Errorf("error %v", err)
		}
	})
}

func TestDefinitions_neverAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, s := session(t, newFake("").on("tools/list", func(*fake, message) string { return "" }), true)
		begin := time.Now()
		var wg sync.WaitGroup
		for range 2 { // the second one waits for its turn
			wg.Go(func() {
				if got, err := s.Definitions(t.Context(), nil, false); err == nil {
					t.Errorf("%d tools", len(got))
				}
			})
		}
		wg.Wait()
		if d := time.Since(begin); d != time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}

func TestDefinitions_cache(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	f := pages(newFake(""), func(string) (string, string) {
		lists.Add(1)
		return someTools(0, 1), ""
	})
	c, s := session(t, f, true)
	check := func(what string, refresh bool, want int32) {
		t.Helper()
		if _, err := s.Definitions(t.Context(), nil, refresh); err != nil {
			t.Fatal(err)
		}
		if n := lists.Load(); n != want {
			t.Errorf("%s: listed %d times, want %d", what, n, want)
		}
	}
	check("first", false, 1)
	check("again", false, 1)
	check("refresh", true, 2)
	f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if got := c.line(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("the client was sent %s", got)
	}
	check("after a change", false, 3)
	c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	check("after the client listed them itself", false, 5)
	check("again", false, 5)
}

// A list that changes while it is read is read again, and in the end given up.
func TestDefinitions_changing(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	f := newFake("").on("tools/list", func(f *fake, m message) string {
		if lists.Add(1) != 2 {
			f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		return f.result(m.ID, `{"tools":`+someTools(0, 1)+`}`)
	})
	_, s := session(t, f, true)
	if _, err := s.Definitions(t.Context(), nil, false); err != nil || lists.Load() != 2 {
		t.Errorf("listed %d times, error %v", lists.Load(), err)
	}
	if _, err := s.Definitions(t.Context(), nil, true); err == nil || lists.Load() != 5 {
		t.Errorf("listed %d times, error %v", lists.Load(), err)
	}
}

func TestDefinitions_modern(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ttl := `,"ttlMs":0`
		var lists int
		f := newFake("").on("tools/list", func(f *fake, m message) string {
			lists++
			if want := `{"_meta":` + modernMeta + `}`; string(m.Params) != want && !strings.Contains(string(m.Params), "other") {
				t.Errorf("params are %s, want %s", m.Params, want)
			}
			return f.result(m.ID, `{"tools":[]`+ttl+`}`)
		})
		_, s := session(t, f, false)
		meta := []byte(modernMeta[:len(modernMeta)-1] + `,"progressToken":1,"traceparent":"t"}`)
		check := func(what string, want int) {
			t.Helper()
			if _, err := s.Definitions(t.Context(), meta, false); err != nil {
				t.Fatal(err)
			}
			if lists != want {
				t.Errorf("%s: listed %d times, want %d", what, lists, want)
			}
		}
		check("first", 1)
		check("not to be kept", 2)
		ttl = `,"ttlMs":60000`
		check("first to be kept", 3)
		check("kept", 3)
		time.Sleep(time.Minute)
		check("a minute later", 4)
		ttl = `,"ttlMs":99999999999`
		time.Sleep(time.Minute)
		check("kept for long", 5)
		time.Sleep(5 * time.Minute)
		check("too long", 6)
		check("kept", 6)
		meta = []byte(strings.Replace(string(meta), "elicitation", "other", 1))
		check("for another client", 7)
	})
}

func TestSend(t *testing.T) {
	t.Parallel()
	c, s := session(t, newFake(""), true)
	rows := []struct {
		r    gateway.Request
		want string // the params that are sent
	}{
		{gateway.Request{Method: "tools/call", Tool: `a"b`}, `{"name":"a\"b"}`},
		{gateway.Request{Method: "tools/call", Tool: "t", Arguments: []byte(`{"a":1}`), Extra: []byte(`{"task":{}}`), Meta: []byte(`{"progressToken":1}`)},
			`{"name":"t","arguments":{"a":1},"task":{},"_meta":{"progressToken":1}}`},
		{gateway.Request{Method: "resources/read", Tool: "resources/read", Arguments: []byte(`{"uri":"x"}`), Meta: []byte(`{"a":1}`)}, `{"uri":"x","_meta":{"a":1}}`},
		{gateway.Request{Method: "x/y", Arguments: []byte(`{}`)}, `{}`},
		{gateway.Request{Method: "x/y", Meta: []byte(`{}`)}, `{"_meta":{}}`},
		{gateway.Request{Method: "x/y"}, `null`},
	}
	for _, row := range rows {
		a, err := s.Send(t.Context(), row.r)
		if want := fmt.Sprintf(`{"method":%q,"params":%s}`, row.r.Method, row.want); err != nil || string(a.Result) != want {
			t.Errorf("got %s, error %v; want %s", a.Result, err, want)
		}
	}
	for _, r := range []gateway.Request{
		{Method: "tools/call", Tool: "t", Extra: []byte(`{"name":"other"}`)}, {Method: "tools/call", Tool: "t", Extra: []byte(`{"NAME":"other"}`)},
		{Method: "tools/call", Tool: "t", Extra: []byte(`{"arguments":{}}`), Arguments: []byte(`{}`)}, {Method: "x/y", Arguments: []byte(`{"_meta":{}}`)},
		{Method: "x/y", Arguments: []byte(`[]`)}, {Method: "tools/call", Tool: "t", Extra: []byte(`{`)}, {Method: "x/y", Arguments: []byte(`{"a":1,"A":2}`)},
	} {
		if a, err := s.Send(t.Context(), r); !errors.Is(err, gateway.ErrUnsent) {
			t.Errorf("%s: got %s, error %v", r.Extra, a.Result, err)
		}
	}
	if c.fake.sent("other") {
		t.Error("a name was overridden")
	}
	if _, err := s.Send(t.Context(), gateway.Request{Method: "x/y", MaxBytes: 3}); counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome {
		t.Errorf("an answer that is too large: %v", err)
	}
}

// What a stateless upstream asks for in a result is held to the rules of a session's requests.
func TestSend_inputs(t *testing.T) {
	t.Parallel()
	question := func(kind, mode string) string {
		return `{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"` + kind + `","params":{"message":"Your name?"` + mode + `,"n":1.10}}}}`
	}
	const withURL = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}`
	rows := map[string]struct{ meta, result, want string }{
		"plain":        {modernMeta, `{"content":[], "x":1.10}`, `{"content":[], "x":1.10}`},
		"complete":     {modernMeta, `{"resultType":"complete","x":1}`, `{"resultType":"complete","x":1}`},
		"task":         {modernMeta, `{"resultType":"task","taskId":"t"}`, `{"resultType":"task","taskId":"t"}`},
		"unknown type": {modernMeta, `{"resultType":"other"}`, ``},
		"type is null": {modernMeta, `{"resultType":null}`, ``},
		"question": {modernMeta, question("elicitation/create", ""),
			`{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"[fake] Your name?","n":1.10}}}}`},
		"sampling":        {modernMeta, question("sampling/createMessage", ""), ``},
		"roots":           {modernMeta, question("roots/list", ""), ``},
		"url undeclared":  {modernMeta, question("elicitation/create", `,"mode":"url"`), ``},
		"form undeclared": {withURL, question("elicitation/create", ""), ``},
		"unknown mode":    {modernMeta, question("elicitation/create", `,"mode":"x"`), ``},
		"no message":      {modernMeta, strings.Replace(question("elicitation/create", ""), "message", "massage", 1), ``},
		"two messages":    {modernMeta, question("elicitation/create", `,"Message":"x"`), ``},
		"list":            {modernMeta, `{"resultType":"input_required","inputRequests":[]}`, ``},
		"legacy":          {`{}`, question("sampling/createMessage", ""), question("sampling/createMessage", "")},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake("").on("tools/call", func(f *fake, m message) string { return f.result(m.ID, row.result) })
			_, s := session(t, f, true)
			a, err := s.Send(t.Context(), gateway.Request{Method: "tools/call", Tool: "t", Meta: []byte(row.meta)})
			if string(a.Result) != row.want || (err != nil) != (row.want == "") {
				t.Errorf("got %s, error %v, want %s", a.Result, err, row.want)
			}
			if err != nil && counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome {
				t.Errorf("error %v", err)
			}
		})
	}
}
