package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// A Ready is what one request to an HTTP upstream goes out with.
type Ready struct {
	// Client sends the request. Its transport fills in the headers that the operator configured, and reaches what it may reach
	// alone. Redirects are never followed, whatever it says.
	Client *http.Client
	// Scrub, if not nil, returns what came back without the secrets that went out, or nil to withhold it.
	Scrub func(answer []byte) []byte
}

// HTTPOptions say how to reach an HTTP upstream.
type HTTPOptions struct {
	Name string // for people
	URL  string // http or https, without user information and fragment
	// Headers is a canonical JSON object that says which headers are filled in and how, without any secret: part of the upstream's
	// identity. Nil for none.
	Headers []byte
	// Ready is called for every request. Its failure is that of a request that was not sent.
	Ready func(ctx context.Context) (Ready, error)

	Version  string           // of the program, told to the upstream
	MaxBytes int              // of one answer; zero is 16 MiB
	Now      func() time.Time // the clock
	Logger   *slog.Logger     // nil for none
}

// NewHTTP makes the client of an MCP server that is reached over Streamable HTTP, of revision 2026-07-28 or an older one.
// It connects when it is first used. Close must be called in the end.
func NewHTTP(o HTTPOptions) (*Client, error) {
	if o.Name == "" || o.Ready == nil || o.Now == nil {
		return nil, errors.New("an upstream needs a name, a client and a clock")
	}
	identity, err := HTTPIdentity(o.URL, o.Headers)
	if err != nil {
		return nil, err
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = jsonrpc.DefaultMaxBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &httpLink{o: o}
	c := newClient(o.Name, identity, o.Version, o.Now, o.Logger, l)
	l.heard = c.notified
	c.overHTTP = true
	c.lister.fit = func(definition []byte) bool {
		_, err := Mirrors(definition)
		return err == nil
	}
	return c, nil
}

// HTTPIdentity returns the canonical document that tells an HTTP upstream from every other, for
// [counterfoil.UpstreamDigest]: its URL, and which headers are filled in and how (a JSON object without secrets, nil for none).
func HTTPIdentity(rawURL string, headers []byte) ([]byte, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the upstream's URL is not a plain one of http or https"}
	}
	if headers == nil {
		headers = []byte("{}")
	}
	doc := struct {
		Headers   jsontext.Value `json:"headers"`
		Transport string         `json:"transport"`
		URL       string         `json:"url"`
	}{Headers: headers, Transport: "http", URL: u.String()}
	b, err := json.Marshal(&doc)
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the upstream's headers are not a JSON object", Err: err}
	}
	return counterfoil.Canonicalize(b)
}

// A StatusError is an HTTP status without an answer of the protocol.
type StatusError struct {
	Status int
	Ended  bool // it says that the session has ended
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the upstream answered with HTTP status %d", e.Status)
}

// The bounds of what an upstream says beside its answer.
const (
	maxErrorBytes  = 64 << 10
	maxStreamBytes = 64 << 20
	maxSessionID   = 1024
	partingTime    = 2 * time.Second // to tell the upstream that a call or the session has ended
)

// httpLink is the way to an HTTP upstream: one POST for each message.
type httpLink struct {
	o      HTTPOptions
	heard  func(m *jsonrpc.Message) // notifications
	lastID atomic.Int64

	mu      sync.Mutex
	session string // "" for none
	version string // of the session; "" before and without
}

// do sends one request and waits for its answer.
func (l *httpLink) do(ctx context.Context, q request) (*jsonrpc.Message, error) {
	id := jsonrpc.IntID(l.lastID.Add(1))
	ready, err := l.o.Ready(ctx)
	if err != nil {
		return nil, unsent("the request could not be made ready", err)
	}
	x := &post{l: l, id: id, q: q, limit: l.o.MaxBytes}
	if q.maxBytes > 0 && q.maxBytes < int64(x.limit) {
		x.limit = int(q.maxBytes)
	}
	m, err := x.send(ctx, ready.Client, jsonrpc.NewRequest(id, q.method, q.params))
	if err != nil {
		if ctx.Err() != nil && !q.modern && x.sent.Load() {
			l.withdraw(ctx, id)
		}
		return nil, err
	}
	if len(m.Result) > x.limit || len(m.Error) > x.limit {
		return nil, unknown("the upstream's answer is too large", ErrTooLarge)
	}
	if q.method == "initialize" && m.Result != nil {
		l.begin(x.session, m.Result)
	}
	return scrubbed(m, ready.Scrub)
}

// scrubbed replaces what of an answer must not go on.
func scrubbed(m *jsonrpc.Message, scrub func([]byte) []byte) (*jsonrpc.Message, error) {
	if scrub == nil {
		return m, nil
	}
	out := *m
	if m.Result != nil {
		out.Result = scrub(m.Result)
	} else {
		out.Error = scrub(m.Error)
	}
	if out.Result == nil && out.Error == nil {
		return nil, unknown("the upstream's answer holds a secret and is withheld", ErrBadAnswer)
	}
	return &out, nil
}

// begin takes note of the session that an answer to initialize began.
func (l *httpLink) begin(session string, result []byte) {
	version, _ := jsonrpc.Unquote(lookup(result, "protocolVersion"))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.version = session, version
}

// reset forgets the session.
func (l *httpLink) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.version = "", ""
}

// withdraw tells the upstream of an older revision that nobody waits for a call any more.
func (l *httpLink) withdraw(ctx context.Context, id jsonrpc.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	// If it can't be told, the outcome is unknown all the same.
	_ = l.post(ctx, jsonrpc.NewNotification("notifications/cancelled", jsonrpc.Object([]jsonrpc.Member{
		{Name: "requestId", Value: []byte(id.String())},
		{Name: "reason", Value: jsonrpc.Quote("the call was cancelled")},
	})))
}

// post sends a notification or a response of an older revision.
func (l *httpLink) post(ctx context.Context, message []byte) error {
	ready, err := l.o.Ready(ctx)
	if err != nil {
		return err
	}
	req, err := l.request(ctx, http.MethodPost, message, request{})
	if err != nil {
		return err
	}
	res, err := still(ready.Client).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // nothing more is read from it
	_, _ = io.CopyN(io.Discard, res.Body, maxErrorBytes)
	if res.StatusCode/100 != 2 {
		return &StatusError{Status: res.StatusCode}
	}
	return nil
}

// request composes an HTTP request. It can't be sent twice: the transport would need its body a second time.
func (l *httpLink) request(ctx context.Context, method string, body []byte, q request) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, l.o.URL, r)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	for name, values := range q.header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.modern {
		req.Header.Set("Mcp-Protocol-Version", modernVersion)
		req.Header.Set("Mcp-Method", q.method)
		if name, ok := nameIn(q); ok {
			req.Header.Set("Mcp-Name", EncodeHeader(name))
		}
		return req, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.method == "initialize" {
		return req, nil
	}
	if l.session != "" {
		req.Header.Set("Mcp-Session-Id", l.session)
	}
	if l.version != "" {
		req.Header.Set("Mcp-Protocol-Version", l.version)
	}
	return req, nil
}

// nameIn returns the name that a modern request repeats in a header.
func nameIn(q request) (string, bool) {
	switch q.method {
	case "tools/call", "prompts/get":
		return jsonrpc.Unquote(lookup(q.params, "name"))
	case "resources/read":
		return jsonrpc.Unquote(lookup(q.params, "uri"))
	default:
		return "", false
	}
}

// still returns the client, but one that follows no redirect: a request is for one server.
func still(c *http.Client) *http.Client {
	out := *c
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// close ends the session, as far as the upstream takes it.
func (l *httpLink) close() error {
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	ready, err := l.o.Ready(ctx)
	if err != nil {
		return err
	}
	req, err := l.request(ctx, http.MethodDelete, nil, request{})
	if err != nil {
		return err
	}
	res, err := still(ready.Client).Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// A post is one request on its way.
type post struct {
	l       *httpLink
	id      jsonrpc.ID
	q       request
	limit   int
	sent    atomic.Bool // a connection was there: something may have been written
	session string      // that the answer named
}

// send sends the request and reads its answer.
func (x *post) send(ctx context.Context, client *http.Client, body []byte) (*jsonrpc.Message, error) {
	if client == nil {
		return nil, unsent("there is no client to send the request with", nil)
	}
	client = still(client)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.sent.Store(true) }})
	req, err := x.l.request(traced, http.MethodPost, body, x.q)
	if err != nil {
		return nil, unsent("the request could not be written", err)
	}
	res, err := client.Do(req)
	switch {
	case err != nil && !x.sent.Load():
		return nil, unsent("the upstream could not be reached", cause(ctx, err))
	case err != nil:
		return nil, unknown("the upstream was sent the request and did not answer it", cause(ctx, err))
	}
	defer func() { _ = res.Body.Close() }() // nothing more is read from it
	return x.answer(ctx, client, res)
}

// cause prefers why the context has ended to what that led to.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return errors.Join(c, err)
	}
	return err
}

// answer reads a response.
func (x *post) answer(ctx context.Context, client *http.Client, res *http.Response) (*jsonrpc.Message, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // a type that can't be read is none that is known
	if s := res.Header.Get("Mcp-Session-Id"); s != "" {
		if len(s) > maxSessionID || strings.ContainsFunc(s, func(c rune) bool { return c < 0x21 || c > 0x7e }) {
			return nil, unknown("the upstream's session has no proper id", ErrBadAnswer)
		}
		x.session = s
	}
	switch {
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return x.refusal(res, kind)
	case res.StatusCode != http.StatusOK:
		return nil, unknown("the upstream did not answer the request", &StatusError{Status: res.StatusCode})
	case kind == "application/json":
		return x.text(ctx, res.Body)
	case kind == "text/event-stream":
		return x.events(ctx, client, res.Body)
	default:
		return nil, unknown("the upstream's answer is of an unknown type", ErrBadAnswer)
	}
}

// refusal reads a response that says that the request was refused: with an error of the protocol, or only by its status.
func (x *post) refusal(res *http.Response, kind string) (*jsonrpc.Message, error) {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes+1))
	if err != nil || len(b) > maxErrorBytes || kind != "application/json" {
		b = nil
	}
	// A request that could not be read has no id: the error then comes with null.
	b = bytes.TrimSpace(b)
	id := lookup(b, "id")
	object := lookup(b, "error")
	if res.Request != nil && res.Request.Header.Get("Mcp-Session-Id") != "" {
		// A session that has ended is "not found". Servers that lost theirs say "bad request", with a number of their own.
		number := numberOf(object)
		if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusBadRequest && number <= -32000 && number >= -32019 {
			return nil, &StatusError{Status: res.StatusCode, Ended: true}
		}
	}
	if got, err := jsonrpc.ParseID(id); string(id) != "null" && (err != nil || got.Key() != x.id.Key()) || len(object) == 0 || object[0] != '{' {
		return nil, &StatusError{Status: res.StatusCode}
	}
	return &jsonrpc.Message{Kind: jsonrpc.Response, ID: x.id, Error: object}, nil
}

// text reads an answer that is one JSON text.
func (x *post) text(ctx context.Context, body io.Reader) (*jsonrpc.Message, error) {
	most := x.limit + maxErrorBytes // with what is around the result
	b, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
	switch {
	case err != nil:
		return nil, unknown("the upstream's answer broke off", cause(ctx, err))
	case len(b) > most:
		return nil, unknown("the upstream's answer is too large", ErrTooLarge)
	}
	m, err := jsonrpc.Parse(b, most)
	if err != nil || m.Kind != jsonrpc.Response || m.ID.Key() != x.id.Key() {
		return nil, unknown("the upstream's answer is malformed", ErrBadAnswer)
	}
	return m, nil
}
