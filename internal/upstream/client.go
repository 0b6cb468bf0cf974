package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The revisions that we speak as a client.
const (
	modernVersion = "2026-07-28"
	newestLegacy  = "2025-11-25"
	batchVersion  = "2025-03-26" // the oldest, and the one with arrays
)

// Names in _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaProgress     = "progressToken"
)

// The error numbers that only a server of the modern revision has.
const (
	headerMismatch     = -32020
	missingCapability  = -32021
	unsupportedVersion = -32022
)

// probeTime is how long an upstream may take to say which revision it speaks.
const probeTime = 15 * time.Second

// A request is one to an upstream.
type request struct {
	method   string
	params   []byte
	modern   bool        // of the revision in which each request stands alone
	header   http.Header // beside the ones that follow from the rest
	maxBytes int64       // of the answer; zero is the link's own bound
}

// A link is a way to an upstream.
type link interface {
	// do sends a request and waits for its answer. An error that wraps gateway.ErrUnsent says that nothing was sent, a
	// *StatusError that the upstream refused the request without an answer of the protocol; after any other the outcome is
	// unknown.
	do(ctx context.Context, q request) (*jsonrpc.Message, error)
	// post sends a notification or a response.
	post(ctx context.Context, message []byte) error
	// reset forgets the session, before another begins.
	reset()
	close() error
}

// A Client is an upstream that we speak to in our own name, for many callers. It finds out which revision the upstream speaks,
// and offers it nothing: no model, no folders, no questions to a user. It is a gateway.Upstream.
type Client struct {
	name     string
	identity []byte
	version  string
	log      *slog.Logger
	link     link
	lister   *Lister
	overHTTP bool

	turn chan struct{} // holds one token: only one caller opens the conversation

	mu        sync.Mutex
	mode      *mode // nil before, and when the session has ended
	lastToken int64
	progress  map[string]func(params []byte) // by our progress token
}

// mode is what is known of a conversation.
type mode struct {
	modern       bool
	capabilities []byte
}

func newClient(name string, identity []byte, version string, now func() time.Time, log *slog.Logger, l link) *Client {
	c := &Client{name: name, identity: identity, version: version, log: log, link: l, turn: make(chan struct{}, 1), progress: map[string]func([]byte){}}
	c.turn <- struct{}{}
	c.lister = NewLister(now, c.ask)
	return c
}

// Identity returns the upstream's identity document.
func (c *Client) Identity() []byte { return slices.Clone(c.identity) }

// Name returns the upstream's name for people.
func (c *Client) Name() string { return c.name }

// Close ends the conversation.
func (c *Client) Close() error { return c.link.close() }

// notified takes a notification of the upstream's.
func (c *Client) notified(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/tools/list_changed":
		c.lister.Forget()
	case "notifications/progress":
		token, _ := jsonrpc.Unquote(lookup(m.Params, metaProgress))
		c.mu.Lock()
		take := c.progress[token]
		c.mu.Unlock()
		if take != nil {
			take(m.Params)
		}
	}
}

type progressKey struct{}

// WithProgress returns a context for a call whose caller wants to hear of its progress. take is given the params of each
// notification about it, under a token that is ours; it may be called when the call has ended.
func WithProgress(ctx context.Context, take func(params []byte)) context.Context {
	return context.WithValue(ctx, progressKey{}, take)
}

// watch returns the token under which the upstream is to report, nil if nobody wants to hear, and what ends that.
func (c *Client) watch(ctx context.Context) (token []byte, done func()) {
	take, ok := ctx.Value(progressKey{}).(func([]byte))
	if !ok {
		return nil, func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastToken++
	key := strconv.FormatInt(c.lastToken, 10)
	c.progress[key] = take
	return jsonrpc.Quote(key), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.progress, key)
	}
}

// Definitions returns the definitions of the upstream's tools. They are asked for in our own name, whoever calls.
func (c *Client) Definitions(ctx context.Context, _ []byte, refresh bool) ([][]byte, error) {
	m, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if refresh {
		c.lister.Forget()
	}
	keep := KeepBriefly
	if m.modern {
		keep = KeepAsSaid
	}
	return c.lister.Tools(ctx, nil, keep)
}

// List returns the elements of one whole list, as the upstream wrote them: "resources/list", "resources/templates/list" or
// "prompts/list". An upstream that does not offer such things has none.
func (c *Client) List(ctx context.Context, method string) ([][]byte, error) {
	m, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	capability, name := "resources", "resources"
	switch method {
	case "resources/list":
	case "resources/templates/list":
		name = "resourceTemplates"
	case "prompts/list":
		capability, name = "prompts", "prompts"
	default:
		return nil, listError("there is no such list", nil)
	}
	if lookup(m.capabilities, capability) == nil {
		return nil, nil
	}
	items, _, err := c.lister.All(ctx, method, name, nil)
	return items, err
}

// Send sends an approved request, composed from r alone, and waits for the answer.
func (c *Client) Send(ctx context.Context, r gateway.Request) (gateway.Answer, error) {
	m, err := c.open(ctx)
	if err != nil {
		return gateway.Answer{}, unsent("the upstream could not be reached", err)
	}
	q := request{method: r.Method, modern: m.modern, header: http.Header{}, maxBytes: r.MaxBytes}
	if m.modern && c.overHTTP && r.Method == "tools/call" {
		if err := c.mirror(ctx, r, q.header); err != nil {
			return gateway.Answer{}, unsent("the request's headers could not be written", err)
		}
	}
	token, done := c.watch(ctx)
	defer done()
	r.Meta = c.meta(r.Meta, token, m.modern)
	if q.params, err = Params(r); err != nil {
		return gateway.Answer{}, err
	}
	reply, err := c.link.do(ctx, q)
	if refused, ok := errors.AsType[*StatusError](err); ok && refused.Status/100 == 4 {
		c.refused(refused)
		return gateway.Answer{Error: jsonrpc.ErrorObject(jsonrpc.InternalError, "the upstream refused the request: HTTP status "+strconv.Itoa(refused.Status), nil)}, nil
	}
	if err != nil {
		return gateway.Answer{}, err
	}
	if reply.Error != nil {
		if m.modern && numberOf(reply.Error) == headerMismatch {
			c.lister.Forget() // the tool may have another definition now
		}
		return gateway.Answer{Error: reply.Error}, nil
	}
	if kind := lookup(reply.Result, "resultType"); kind != nil {
		if text, _ := jsonrpc.Unquote(kind); text != "complete" {
			return gateway.Answer{}, unknown("the upstream's result is of a type that was not offered to it", ErrBadAnswer)
		}
	}
	return gateway.Answer{Result: reply.Result}, nil
}

// mirror writes the headers that repeat arguments.
func (c *Client) mirror(ctx context.Context, r gateway.Request, header http.Header) error {
	tools, err := c.lister.Tools(ctx, nil, KeepAsSaid)
	if err != nil {
		return err
	}
	for _, d := range tools {
		if name, _ := jsonrpc.Unquote(lookup(d, "name")); name != r.Tool {
			continue
		}
		mirrors, err := Mirrors(d)
		if err != nil {
			return err
		}
		for _, m := range mirrors {
			if err := m.set(header, r.Arguments); err != nil {
				return err
			}
		}
	}
	return nil
}

// meta returns the _meta of a request: what of a caller's may pass, our progress token if there is one, and, where each
// request stands alone, who we are.
func (c *Client) meta(callers, token []byte, modern bool) []byte {
	var kept []jsonrpc.Member
	for _, m := range members(callers) {
		if m.Name == "traceparent" || m.Name == "tracestate" || m.Name == "baggage" {
			kept = append(kept, m)
		}
	}
	if token != nil {
		kept = append(kept, jsonrpc.Member{Name: metaProgress, Value: token})
	}
	if modern {
		kept = append(kept,
			jsonrpc.Member{Name: metaVersion, Value: jsonrpc.Quote(modernVersion)},
			jsonrpc.Member{Name: metaCapabilities, Value: []byte(`{}`)},
			jsonrpc.Member{Name: metaClient, Value: c.info()},
		)
	}
	if kept == nil {
		return nil
	}
	return jsonrpc.Object(kept)
}

func (c *Client) info() []byte {
	return jsonrpc.Object([]jsonrpc.Member{
		{Name: "name", Value: []byte(`"counterfoil"`)},
		{Name: "version", Value: jsonrpc.Quote(c.version)},
	})
}

// ask sends a request that has no effect. A session that has ended is begun anew for it, once.
func (c *Client) ask(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
	for again := false; ; again = true {
		m, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		full := params
		if m.modern {
			full = jsonrpc.Object(append(members(params), jsonrpc.Member{Name: "_meta", Value: c.meta(nil, nil, true)}))
		}
		reply, err := c.link.do(ctx, request{method: method, params: full, modern: m.modern})
		refused, ok := errors.AsType[*StatusError](err)
		if !ok {
			return reply, err
		}
		if !c.refused(refused) || again {
			return nil, err
		}
	}
}

// refused takes note of a request that was refused, and reports whether it was because the session has ended.
func (c *Client) refused(e *StatusError) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.Ended || c.mode == nil || c.mode.modern {
		return false
	}
	c.mode = nil
	c.link.reset()
	return true
}

// open returns what is known of the conversation, and begins it if need be.
func (c *Client) open(ctx context.Context) (*mode, error) {
	if m := c.current(); m != nil {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, unsent("the upstream took too long to begin", context.Cause(ctx))
	}
	if m := c.current(); m != nil {
		return m, nil
	}
	m, err := c.discover(ctx)
	if err == nil && m == nil {
		m, err = c.initialize(ctx)
	}
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "the conversation with an upstream could not be begun",
			slog.String("upstream", c.name), slog.String("cause", err.Error()))
		return nil, err
	}
	c.lister.Forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = m
	return m, nil
}

func (c *Client) current() *mode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mode
}

// discover asks the upstream as a modern one. It returns nil for one that does not understand, whatever it says instead.
func (c *Client) discover(ctx context.Context) (*mode, error) {
	params := jsonrpc.Object([]jsonrpc.Member{{Name: "_meta", Value: c.meta(nil, nil, true)}})
	probe, cancel := context.WithTimeout(ctx, probeTime/3)
	defer cancel()
	reply, err := c.link.do(probe, request{method: "server/discover", params: params, modern: true})
	if err != nil && !c.overHTTP && probe.Err() != nil && ctx.Err() == nil {
		return nil, nil //nolint:nilnil // an older one, that says nothing to what it does not know
	}
	if refused, ok := errors.AsType[*StatusError](err); ok && refused.Status/100 == 4 {
		return nil, nil //nolint:nilnil // an older one
	}
	if err != nil {
		return nil, err
	}
	if reply.Error == nil {
		if !contains(lookup(reply.Result, "supportedVersions"), modernVersion) {
			return nil, nil //nolint:nilnil // an older one
		}
		return &mode{modern: true, capabilities: lookup(reply.Result, "capabilities")}, nil
	}
	switch numberOf(reply.Error) {
	case headerMismatch, missingCapability:
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the upstream speaks the modern revision, but refuses to be asked what it is"}
	case unsupportedVersion:
		supported := lookup(lookup(reply.Error, "data"), "supported")
		if contains(supported, modernVersion) {
			return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the upstream refuses the revision that it says it speaks"}
		}
	}
	return nil, nil //nolint:nilnil // an older one
}

// initialize begins a session of an older revision.
func (c *Client) initialize(ctx context.Context) (*mode, error) {
	c.link.reset()
	reply, err := c.link.do(ctx, request{method: "initialize", params: jsonrpc.Object([]jsonrpc.Member{
		{Name: "protocolVersion", Value: jsonrpc.Quote(newestLegacy)},
		{Name: "capabilities", Value: []byte(`{}`)},
		{Name: "clientInfo", Value: c.info()},
	})})
	if err != nil {
		return nil, err
	}
	version, _ := jsonrpc.Unquote(lookup(reply.Result, "protocolVersion"))
	if !slices.Contains([]string{newestLegacy, "2025-06-18", batchVersion, "2024-11-05"}, version) {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the upstream speaks no revision of the protocol that we do"}
	}
	if err := c.link.post(ctx, jsonrpc.NewNotification("notifications/initialized", nil)); err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the upstream's session could not be begun", Err: err}
	}
	return &mode{capabilities: lookup(reply.Result, "capabilities")}, nil
}

// contains reports whether the array in raw holds the text.
func contains(raw []byte, text string) bool {
	elements, err := jsonrpc.Elements(raw)
	return err == nil && slices.ContainsFunc(elements, func(e []byte) bool {
		s, ok := jsonrpc.Unquote(e)
		return ok && s == text
	})
}

// numberOf returns the number of an error object, 0 if it has none.
func numberOf(object []byte) int {
	n, err := strconv.Atoi(strings.TrimSpace(string(lookup(object, "code"))))
	if err != nil {
		return 0
	}
	return n
}
