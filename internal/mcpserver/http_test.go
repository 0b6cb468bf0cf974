package mcpserver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

type principalKey struct{}

// An endpoint is a handler behind a real server, with two tenants whose agents say who they are in a header.
type endpoint struct {
	t       *testing.T
	url     string
	handler *mcpserver.Handler
	gate    *gate
	log     *syncBuffer
	mu      sync.Mutex
	mounts  map[string][]mcpserver.Mount
}

func scopes(t *testing.T, list ...string) identity.Scopes {
	t.Helper()
	s, err := identity.ParseScopes(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// principal makes "tenant/subject" a principal.
func principal(t *testing.T, who string) *identity.Principal {
	t.Helper()
	tenant, subject, ok := strings.Cut(who, "/")
	if !ok {
		return nil
	}
	s := scopes(t, "tools:read", "tools:execute")
	if subject == "reader" {
		s = scopes(t, "tools:read")
	}
	return &identity.Principal{Tenant: tenant, Subject: subject, Kind: identity.KindAgent, Owner: "ann", Credential: "key-1", Scopes: s}
}

func endpointWith(t *testing.T, change func(*mcpserver.HandlerOptions), mounts ...mcpserver.Mount) *endpoint {
	t.Helper()
	e := &endpoint{t: t, gate: &gate{}, log: &syncBuffer{}, mounts: map[string][]mcpserver.Mount{"acme": mounts}}
	o := mcpserver.HandlerOptions{
		Gate: e.gate,
		Principal: func(ctx context.Context) *identity.Principal {
			p, _ := ctx.Value(principalKey{}).(*identity.Principal)
			return p
		},
		Upstreams: func(_ context.Context, tenant string) ([]mcpserver.Mount, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.mounts[tenant], nil
		},
		Hosts: []string{"127.0.0.1", "gate.example"}, Origins: func(tenant string) []string {
			return map[string][]string{"acme": {"https://app.example"}}[tenant]
		},
		Version: "test", Hold: time.Second, Now: time.Now, Rand: rand.Reader,
		Logger: slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&o)
	}
	var err error
	if e.handler, err = mcpserver.NewHandler(o); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := principal(t, r.Header.Get("X-Who")); p != nil {
			r = r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
		}
		e.handler.ServeHTTP(w, r)
	}))
	s.Config.ReadTimeout, s.Config.WriteTimeout = 2*time.Second, 2*time.Second
	s.Start()
	e.url = s.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if err := e.handler.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v\n%s", err, e.log)
		}
		s.Close()
	})
	return e
}

// who adds the header that says who asks.
type who struct {
	name string
	base http.RoundTripper
}

func (w who) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Who", w.name)
	return w.base.RoundTrip(r)
}

func (e *endpoint) client(name string) *http.Client {
	return &http.Client{Transport: who{name, http.DefaultTransport}}
}

// behind serves an SDK server over HTTP and returns our client of it.
func behind(t *testing.T, s *mcp.Server, stateless bool) *upstream.Client {
	t.Helper()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return reach(t, srv.URL)
}

func reach(t *testing.T, url string) *upstream.Client {
	t.Helper()
	c, err := upstream.NewHTTP(upstream.HTTPOptions{
		Name: "sdk", URL: url, Now: time.Now, Version: "test",
		Ready: func(context.Context) (upstream.Ready, error) { return upstream.Ready{Client: http.DefaultClient}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// plainServer is an upstream made with the official Go SDK, with one of each kind of thing.
func plainServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, r *mcp.CallToolRequest, in struct{ Greeting string }) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 7}); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: in.Greeting + ", you"}, &mcp.ResourceLink{URI: "file:///a", Name: "a"},
		}}, nil, nil
	})
	s.AddResource(&mcp.Resource{URI: "file:///a", Name: "a"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "content"}}}, nil
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "file:///t/{x}", Name: "t"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "templated"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "say it"}}}}, nil
	})
	return s
}

// The official SDK's client finds everything at the endpoint, in every revision, behind which is the official SDK's server,
// in every revision.
func TestHandler_officialSDK(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		for name, stateless := range map[string]bool{"modern": true, "legacy": false} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				e := endpointWith(t, nil, mcpserver.Mount{Name: "one", Upstream: behind(t, plainServer(), stateless)},
					mcpserver.Mount{Name: "two", Upstream: behind(t, plainServer(), stateless)})
				visit(t, e, version)
			})
		}
	}
}

func visit(t *testing.T, e *endpoint, version string) {
	progress := make(chan *mcp.ProgressNotificationParams, 10)
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params },
	})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: e.url, HTTPClient: e.client("acme/bot")},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%v\n%s", err, e.log)
	}
	if got := s.InitializeResult().ProtocolVersion; got != version {
		t.Errorf("they negotiated %s", got)
	}
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 2 || tools.Tools[0].Name != "one.greet" || tools.Tools[1].Name != "two.greet" {
		t.Errorf("tools %+v, error %v\n%s", tools, err, e.log)
	}
	params := &mcp.CallToolParams{Name: "two.greet", Arguments: map[string]any{"Greeting": "Hello"}}
	params.SetProgressToken("tok")
	result, err := s.CallTool(t.Context(), params)
	if err != nil {
		t.Fatalf("%v\n%s", err, e.log)
	}
	text, _ := result.Content[0].(*mcp.TextContent)
	link, _ := result.Content[1].(*mcp.ResourceLink)
	if text == nil || text.Text != "Hello, you" || link == nil || link.URI != "two+file:///a" {
		t.Errorf("result %+v", result.Content)
	}
	if p := <-progress; p.Progress != 7 || p.ProgressToken != "tok" {
		t.Errorf("progress %+v", p)
	}
	if got := e.gate.last(); got.Tool != "greet" || got.Tenant != "acme" || got.Principal != "agent:bot" || !strings.HasPrefix(got.Run, "mcp/key-1/") || got.Owner != "person:ann" {
		t.Errorf("the gate was asked about %+v", got)
	}
	resources, err := s.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 2 || resources.Resources[1].URI != "two+file:///a" {
		t.Errorf("resources %+v, error %v", resources, err)
	}
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 2 || templates.ResourceTemplates[0].URITemplate != "one+file:///t/{x}" {
		t.Errorf("templates %+v, error %v", templates, err)
	}
	for uri, text := range map[string]string{"one+file:///a": "content", "two+file:///t/y": "templated"} {
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != text || read.Contents[0].URI != uri {
			t.Errorf("resource %+v, error %v", read, err)
		}
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "one+file:///nothing"}); err == nil {
		t.Error("a resource that is not there was read")
	}
	prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "one.p"})
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("prompt %+v, error %v", prompt, err)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "three.greet"}); err == nil {
		t.Error("a tool of no upstream was called")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A wire is one raw request and what came back.
type wire struct {
	Status  int
	Headers http.Header
	Body    string
}

// raw sends one request as it is. A header of several lines is sent several times.
func (e *endpoint) raw(method, body string, headers map[string]string) wire {
	e.t.Helper()
	return e.rawAs("acme/bot", method, body, headers)
}

func (e *endpoint) rawAs(name, method, body string, headers map[string]string) wire {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.url, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("X-Who", name)
	for k, v := range headers {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header[http.CanonicalHeaderKey(k)] = strings.Split(v, "\n")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return wire{res.StatusCode, res.Header, string(bytes.TrimSpace(b))}
}

// number returns the number of the error in a body, 0 for none.
func (w wire) number(t *testing.T) int {
	t.Helper()
	var m struct{ Error struct{ Code int } }
	if err := json.Unmarshal([]byte(w.Body), &m); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	return m.Error.Code
}
