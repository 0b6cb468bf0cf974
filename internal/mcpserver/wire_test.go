package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
)

// A stub is an upstream in memory.
type stub struct {
	name  string
	tools []string
	lists map[string][]string
	err   error
	send  func(gateway.Request) (gateway.Answer, error)
}

func (s *stub) Identity() []byte { return []byte(`{"stub":"` + s.name + `"}`) }
func (s *stub) Name() string     { return s.name }

func raws(list []string) [][]byte {
	var out [][]byte
	for _, x := range list {
		out = append(out, []byte(x))
	}
	return out
}

func (s *stub) Definitions(context.Context, []byte, bool) ([][]byte, error) {
	return raws(s.tools), s.err
}

func (s *stub) List(_ context.Context, method string) ([][]byte, error) {
	return raws(s.lists[method]), s.err
}

func (s *stub) Send(_ context.Context, r gateway.Request) (gateway.Answer, error) {
	if s.send != nil {
		return s.send(r)
	}
	return gateway.Answer{Result: fmt.Appendf(nil, `{"tool":%q,"arguments":%s}`, r.Tool, r.Arguments)}, nil
}

const mirrored = `{"name":"sql","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
	`"n":{"type":"integer","x-mcp-header":"N"},"deep":{"type":"object","properties":{"ok":{"type":"boolean","x-mcp-header":"Ok"}}}}}}`

func stubs() []mcpserver.Mount {
	return []mcpserver.Mount{{Name: "db", Upstream: &stub{name: "db", tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`, mirrored}}}}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func modernHeaders(method, name string) map[string]string {
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		h["Mcp-Name"] = name
	}
	return h
}

func echo(params string) string {
	if params != "" {
		params = "," + params
	}
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"db.echo","arguments":{}` + params + `}}`
}

func sql(arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"db.sql","arguments":` + arguments + `,` + meta + `}}`
}

// A row of the tables below: what is changed in a request that is well, and what must come of it.
type wireRow struct {
	method  string // HTTP; "" is POST
	headers map[string]string
	body    string // "" is the call that is well
	status  int
	number  int
	part    string // of the body
}

func runWire(t *testing.T, rows map[string]wireRow, well map[string]string, body string) {
	e := endpointWith(t, func(o *mcpserver.HandlerOptions) { o.MaxBytes = 4096 }, stubs()...)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := maps.Clone(well)
			for k, v := range row.headers {
				if v == "-" {
					delete(h, k)
					continue
				}
				h[k] = v
			}
			if row.method == "" {
				row.method = "POST"
			}
			if row.body == "" && row.method == "POST" {
				row.body = body
			}
			got := e.raw(row.method, row.body, h)
			if got.Status != row.status || !strings.Contains(got.Body, row.part) {
				t.Errorf("status %d, body %s", got.Status, got.Body)
			}
			if row.status != 202 && row.status != 204 {
				if n := got.number(t); n != row.number {
					t.Errorf("error %d, body %s", n, got.Body)
				}
			} else if got.Body != "" {
				t.Errorf("there is a body: %s", got.Body)
			}
		})
	}
}

// Each rule for a request that stands alone, with the status and the number that its breach has.
func TestHandler_modernRules(t *testing.T) {
	t.Parallel()
	b64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	other := func(version string) string { return strings.Replace(echo(meta), "2026-07-28", version, 1) }
	deep := `{"a":` + strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70) + `}`
	name := func(s string) map[string]string { return map[string]string{"Mcp-Name": s} }
	params := func(kv ...string) map[string]string {
		h := name("db.sql")
		for i := 0; i < len(kv); i += 2 {
			h["Mcp-Param-"+kv[i]] = kv[i+1]
		}
		return h
	}
	rows := map[string]wireRow{
		"well": {status: 200, part: `"resultType":"complete"`},
		"GET":  {method: "GET", status: 405, number: -32600}, "DELETE": {method: "DELETE", status: 405, number: -32600},
		"PUT": {method: "PUT", status: 405, number: -32600}, "PATCH": {method: "PATCH", status: 405, number: -32600},

		"foreign origin": {headers: map[string]string{"Origin": "https://evil.example"}, status: 403, number: -32600},
		"null origin":    {headers: map[string]string{"Origin": "null"}, status: 403, number: -32600},
		"listed origin":  {headers: map[string]string{"Origin": "https://app.example"}, status: 200},
		"other port":     {headers: map[string]string{"Origin": "https://app.example:444"}, status: 403, number: -32600},
		"foreign host":   {headers: map[string]string{"Host": "evil.example"}, status: 403, number: -32600},
		"host's suffix":  {headers: map[string]string{"Host": "gate.example.evil.example"}, status: 403, number: -32600},
		"known host":     {headers: map[string]string{"Host": "GATE.example:99"}, status: 200},
		"nobody":         {headers: map[string]string{"X-Who": ""}, status: 401, number: -32600},

		"response":         {body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 400, number: -32600},
		"array":            {body: `[` + echo(meta) + `]`, status: 400, number: -32600},
		"null id":          {body: strings.Replace(echo(meta), `"id":1`, `"id":null`, 1), status: 400, number: -32600},
		"fractional id":    {body: strings.Replace(echo(meta), `"id":1`, `"id":1.5`, 1), status: 400, number: -32600},
		"no JSON":          {body: `{`, status: 400, number: -32700},
		"two messages":     {body: echo(meta) + echo(meta), status: 400, number: -32700},
		"empty":            {body: ` `, status: 400, number: -32700},
		"twice":            {body: echo(meta + `,"a":{"x":1,"x":2}`), status: 400, number: -32600},
		"twice, arguments": {body: sql(`{"n":1,"n":2}`), headers: params("N", "1"), status: 400, number: -32600},
		"too deep":         {body: sql(deep), headers: params(), status: 400, number: -32600},
		"too large":        {body: echo(meta + `,"x":"` + strings.Repeat("x", 4096) + `"`), status: 413, number: -32600},
		"letter case":      {body: echo(`"Arguments":{"x":1},` + meta), status: 400, number: -32602},
		"two metas":        {body: echo(meta + `,"_Meta":{}`), status: 400, number: -32602},

		"no version header":      {headers: map[string]string{"Mcp-Protocol-Version": "-"}, status: 400, number: -32020},
		"other version header":   {headers: map[string]string{"Mcp-Protocol-Version": "2025-11-25"}, status: 400, number: -32020},
		"version header twice":   {headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28\n2026-07-28"}, status: 400, number: -32020},
		"version is a number":    {body: strings.Replace(echo(meta), `"2026-07-28"`, `2026`, 1), status: 400, number: -32020},
		"later version":          {headers: map[string]string{"Mcp-Protocol-Version": "2099-01-01"}, body: other("2099-01-01"), status: 400, number: -32022, part: `"requested":"2099-01-01"`},
		"later version, no meta": {headers: map[string]string{"Mcp-Protocol-Version": "2099-01-01"}, body: echo(""), status: 400, number: -32022, part: `"supported":["2026-07-28"`},
		"old version alone":      {headers: map[string]string{"Mcp-Protocol-Version": "2025-11-25"}, body: other("2025-11-25"), status: 400, number: -32022},
		"no meta":                {body: echo(""), status: 400, number: -32602},
		"no capabilities":        {body: echo(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), status: 400, number: -32602},
		"bad capabilities":       {body: strings.Replace(echo(meta), `Capabilities":{}`, `Capabilities":[]`, 1), status: 400, number: -32602},

		"no method header":    {headers: map[string]string{"Mcp-Method": "-"}, status: 400, number: -32020},
		"other method header": {headers: map[string]string{"Mcp-Method": "tools/list"}, status: 400, number: -32020},
		"method's case":       {headers: map[string]string{"Mcp-Method": "Tools/call"}, status: 400, number: -32020},
		"method twice":        {headers: map[string]string{"Mcp-Method": "tools/call\ntools/list"}, status: 400, number: -32020},
		"no name header":      {headers: name("-"), status: 400, number: -32020},
		"other name header":   {headers: name("db.sql"), status: 400, number: -32020},
		"name's case":         {headers: name("DB.echo"), status: 400, number: -32020},
		"coded name":          {headers: name(b64("db.echo")), status: 200},
		"name twice":          {headers: name("db.echo\ndb.echo"), status: 400, number: -32020},
		"uri header": {
			headers: map[string]string{"Mcp-Method": "resources/read", "Mcp-Name": "db+file:///b"}, status: 400, number: -32020,
			body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db+file:///a",` + meta + `}}`,
		},

		"mirrored":            {headers: params("Region", "eu", "N", "5.0", "Ok", "true"), body: sql(`{"region":"eu","n":5,"deep":{"ok":true}}`), status: 200},
		"mirrored, coded":     {headers: params("Region", b64("é ")), body: sql(`{"region":"é "}`), status: 200},
		"mirrored, none":      {headers: params(), body: sql(`{"region":null}`), status: 200},
		"mirrored, missing":   {headers: params(), body: sql(`{"region":"eu"}`), status: 400, number: -32020},
		"mirrored, too many":  {headers: params("Region", "eu"), body: sql(`{}`), status: 400, number: -32020},
		"mirrored, for null":  {headers: params("Region", "eu"), body: sql(`{"region":null}`), status: 400, number: -32020},
		"mirrored, case":      {headers: params("Region", "EU"), body: sql(`{"region":"eu"}`), status: 400, number: -32020},
		"mirrored, number":    {headers: params("N", "6"), body: sql(`{"n":5}`), status: 400, number: -32020},
		"mirrored, no number": {headers: params("N", "five"), body: sql(`{"n":5}`), status: 400, number: -32020},
		"mirrored, badly":     {headers: params("Region", "=?base64?!?="), body: sql(`{"region":"eu"}`), status: 400, number: -32020},
		"mirrored, twice":     {headers: params("Region", "eu\neu"), body: sql(`{"region":"eu"}`), status: 400, number: -32020},
		"mirrored, object":    {headers: params("Region", "eu"), body: sql(`{"region":{}}`), status: 400, number: -32020},
		"mirrored, unknown":   {headers: params("Other", "x"), body: sql(`{}`), status: 200},

		"unknown method": {headers: map[string]string{"Mcp-Method": "x/y"}, body: `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{` + meta + `}}`, status: 404, number: -32601},
		"ping":           {headers: map[string]string{"Mcp-Method": "ping"}, body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + meta + `}}`, status: 404, number: -32601},
		"tasks":          {headers: map[string]string{"Mcp-Method": "tasks/get"}, body: `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x",` + meta + `}}`, status: 404, number: -32601},
		"listen":         {headers: map[string]string{"Mcp-Method": "subscriptions/listen"}, body: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + meta + `}}`, status: 404, number: -32601},
		"a task":         {body: echo(`"task":{},` + meta), status: 400, number: -32602},
		"another round":  {body: echo(`"requestState":"x",` + meta), status: 400, number: -32602},
		"notification": {
			headers: map[string]string{"Mcp-Method": "notifications/cancelled"}, status: 202,
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		},
		"notification's header": {body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, status: 400, number: -32020},
		"an old session's id":   {headers: map[string]string{"Mcp-Session-Id": "x", "Last-Event-ID": "y"}, status: 200},

		"wrong type":       {headers: map[string]string{"Content-Type": "text/plain"}, status: 415, number: -32600},
		"no type":          {headers: map[string]string{"Content-Type": "-"}, status: 415, number: -32600},
		"charset":          {headers: map[string]string{"Content-Type": "application/json; charset=UTF-8"}, status: 200},
		"wrong charset":    {headers: map[string]string{"Content-Type": "application/json; charset=utf-7"}, status: 415, number: -32600},
		"type twice":       {headers: map[string]string{"Content-Type": "application/json\ntext/plain"}, status: 400, number: -32020},
		"encoded":          {headers: map[string]string{"Content-Encoding": "gzip"}, status: 415, number: -32600},
		"encoded twice":    {headers: map[string]string{"Content-Encoding": "gzip, gzip"}, status: 415, number: -32600},
		"identity":         {headers: map[string]string{"Content-Encoding": "identity"}, status: 200},
		"accepts nothing":  {headers: map[string]string{"Accept": "text/html"}, status: 406, number: -32600},
		"refuses":          {headers: map[string]string{"Accept": "application/json;q=0, text/html"}, status: 406, number: -32600},
		"accepts all":      {headers: map[string]string{"Accept": "*/*"}, status: 200},
		"accepts JSON":     {headers: map[string]string{"Accept": "application/json"}, status: 200},
		"unknown upstream": {headers: name("other.echo"), body: strings.Replace(echo(meta), "db.echo", "other.echo", 1), status: 400, number: -32602},
		"no prefix":        {headers: name("echo"), body: strings.Replace(echo(meta), "db.echo", "echo", 1), status: 400, number: -32602},
	}
	runWire(t, rows, modernHeaders("tools/call", "db.echo"), echo(meta))
}

// open begins a session and returns the headers of its requests.
func (e *endpoint) open(version string) map[string]string {
	e.t.Helper()
	w := e.raw("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{}}}`,
		map[string]string{"Content-Type": "application/json"})
	id := w.Headers.Get("Mcp-Session-Id")
	if w.Status != 200 || len(id) < 32 || !strings.Contains(w.Body, `"protocolVersion"`) {
		e.t.Fatalf("status %d, id %q, body %s", w.Status, id, w.Body)
	}
	return map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": id}
}

// Each rule for a request in a session.
func TestHandler_sessionRules(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, nil, stubs()...)
	e.mounts["other"] = stubs()
	call := echo("")
	h := e.open("2025-11-25")
	with := func(k, v string) map[string]string {
		c := maps.Clone(h)
		c[k] = v
		if v == "-" {
			delete(c, k)
		}
		return c
	}
	flipped := []byte(h["Mcp-Session-Id"])
	flipped[len(flipped)/2] ^= 1
	for name, row := range map[string]struct {
		who     string
		headers map[string]string
		body    string
		status  int
		number  int
	}{
		"well":             {"acme/bot", h, call, 200, 0},
		"its version":      {"acme/bot", with("Mcp-Protocol-Version", "2025-11-25"), call, 200, 0},
		"another version":  {"acme/bot", with("Mcp-Protocol-Version", "2025-06-18"), call, 400, -32600},
		"no version":       {"acme/bot", with("Mcp-Protocol-Version", "1999-01-01"), call, 400, -32022},
		"no session":       {"acme/bot", with("Mcp-Session-Id", "-"), call, 400, -32600},
		"session twice":    {"acme/bot", with("Mcp-Session-Id", h["Mcp-Session-Id"]+"\n"+h["Mcp-Session-Id"]), call, 400, -32020},
		"unknown session":  {"acme/bot", with("Mcp-Session-Id", "x"), call, 404, -32600},
		"forged session":   {"acme/bot", with("Mcp-Session-Id", string(flipped)), call, 404, -32600},
		"another's":        {"acme/bob", h, call, 404, -32600},
		"another tenant's": {"other/bot", h, call, 404, -32600},
		"array":            {"acme/bot", h, "[" + call + "]", 400, -32600},
		"unknown method":   {"acme/bot", h, `{"jsonrpc":"2.0","id":1,"method":"x/y"}`, 200, -32601},
		"log level":        {"acme/bot", h, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, 200, -32601},
		"ping":             {"acme/bot", h, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, 0},
		"unknown tool":     {"acme/bot", h, strings.Replace(call, "db.", "no.", 1), 200, -32602},
		"params":           {"acme/bot", h, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, 200, -32602},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.rawAs(row.who, "POST", row.body, row.headers)
			if got.Status != row.status || got.number(t) != row.number {
				t.Errorf("status %d, body %s", got.Status, got.Body)
			}
		})
	}
	for name, body := range map[string]string{
		"notification": `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "response": `{"jsonrpc":"2.0","id":9,"result":{}}`,
	} {
		if got := e.raw("POST", body, h); got.Status != 202 || got.Body != "" {
			t.Errorf("%s: status %d, body %s", name, got.Status, got.Body)
		}
	}
	if got := e.rawAs("other/bot", "DELETE", "", h); got.Status != 404 {
		t.Errorf("another tenant ended the session: %d", got.Status)
	}
	if got := e.raw("DELETE", "", h); got.Status != 204 {
		t.Errorf("DELETE: %d %s", got.Status, got.Body)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if got := e.raw(method, call, h); got.Status != 404 {
			t.Errorf("%s in the session that has ended: %d %s", method, got.Status, got.Body)
		}
	}
}

// A session runs out, and one that another replica began is known if it has the same key.
func TestHandler_sessionLife(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", 32))
	begun := time.Now()
	at := func(age time.Duration) func(*mcpserver.HandlerOptions) {
		return func(o *mcpserver.HandlerOptions) {
			o.SessionKey, o.SessionLife = key, time.Hour
			o.Now = func() time.Time { return begun.Add(age) }
		}
	}
	h := endpointWith(t, at(0), stubs()...).open("2025-06-18")
	for age, status := range map[time.Duration]int{59 * time.Minute: 200, 61 * time.Minute: 404} {
		if got := endpointWith(t, at(age), stubs()...).raw("POST", echo(""), h); got.Status != status {
			t.Errorf("after %v: status %d, %s", age, got.Status, got.Body)
		}
	}
	if got := endpointWith(t, nil, stubs()...).raw("POST", echo(""), h); got.Status != 404 {
		t.Errorf("with another key: status %d", got.Status)
	}
}

// Arrays of messages are evaluated one by one, in the one revision that has them.
func TestHandler_batch(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, nil, stubs()...)
	h := e.open("2025-03-26")
	got := e.raw("POST", `[`+echo("")+`,{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"2","method":"ping"},5,`+
		`{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}]`, h)
	var answers []message
	if err := json.Unmarshal([]byte(got.Body), &answers); err != nil || got.Status != 200 || len(answers) != 4 {
		t.Fatalf("status %d, body %s", got.Status, got.Body)
	}
	results := map[string]bool{}
	for _, a := range answers {
		results[string(a.ID)] = a.Result != nil
	}
	if want := map[string]bool{"1": true, `"2"`: true, "3": false, "": false, "null": false}; results["1"] != want["1"] || results[`"2"`] != want[`"2"`] || results["3"] {
		t.Errorf("answers %s", got.Body)
	}
	if got := e.raw("POST", `[{"jsonrpc":"2.0","method":"notifications/x"}]`, h); got.Status != 202 || got.Body != "" {
		t.Errorf("nothing to answer: %d %s", got.Status, got.Body)
	}
	if got := e.raw("POST", `[]`, h); got.Status != 400 {
		t.Errorf("empty: %d %s", got.Status, got.Body)
	}
	if got := e.raw("POST", `[`+strings.Repeat(`5,`, 64)+`5]`, h); got.Status != 400 {
		t.Errorf("too many: %d %s", got.Status, got.Body)
	}
}

// A credential that does not suffice is challenged with what would.
func TestHandler_scope(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, func(o *mcpserver.HandlerOptions) {
		o.Metadata = "https://gate.example/.well-known/oauth-protected-resource"
	}, stubs()...)
	got := e.rawAs("acme/reader", "POST", echo(meta), modernHeaders("tools/call", "db.echo"))
	want := `Bearer error="insufficient_scope", scope="tools:execute", resource_metadata="https://gate.example/.well-known/oauth-protected-resource"`
	if got.Status != 403 || got.Headers.Get("WWW-Authenticate") != want || len(e.gate.calls) != 0 {
		t.Errorf("status %d, %s", got.Status, got.Headers.Get("WWW-Authenticate"))
	}
	if got := e.rawAs("acme/reader", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, modernHeaders("tools/list", "")); got.Status != 200 {
		t.Errorf("status %d, %s", got.Status, got.Body)
	}
}

// What the gate refuses is no failure of HTTP: a 4xx would send the client looking for an older server.
func TestHandler_refusals(t *testing.T) {
	t.Parallel()
	e := endpointWith(t, nil, stubs()...)
	for _, r := range gateway.Reasons() {
		e.gate.do = func(context.Context, gateway.Call) (gateway.Answer, error) {
			return gateway.Answer{}, &gateway.Refusal{Reason: r, Msg: "no", Approval: "apr-1"}
		}
		for name, h := range map[string]map[string]string{"modern": modernHeaders("tools/call", "db.echo"), "session": e.open("2025-11-25")} {
			body := echo("")
			if name == "modern" {
				body = echo(meta)
			}
			if got := e.raw("POST", body, h); got.Status != 200 || got.number(t) != r.Number() || !strings.Contains(got.Body, `"approval_id":"apr-1"`) {
				t.Errorf("%s, %s: status %d, %s", name, r, got.Status, got.Body)
			}
		}
	}
}
