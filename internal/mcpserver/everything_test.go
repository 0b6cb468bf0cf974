package mcpserver_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// everything returns the pinned server of everything, and skips the test when the servers are not installed.
func everything(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs("../../testdata/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(script); err != nil {
		t.Skipf("the pinned servers are not installed (scripts/prereqs): %v", err)
	}
	return script
}

// everythingOverHTTP starts the server and returns its URL.
func everythingOverHTTP(t *testing.T) string {
	t.Helper()
	script := everything(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", script, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 300 {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			return "http://" + addr + "/mcp"
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the server does not listen")
	return ""
}

// A server that we did not write, over HTTP and as a child, behind the endpoint, and a client that we did not write before it.
func TestHandler_everything(t *testing.T) {
	t.Parallel()
	child, err := upstream.Start(t.Context(), upstream.Options{Argv: []string{"node", everything(t), "stdio"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	over, err := upstream.NewStdio(upstream.NewConn(child, upstream.ConnOptions{}), upstream.StdioOptions{Name: "child", Identity: []byte(`{"argv":["node"]}`), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = over.Close() })
	e := endpointWith(t, nil, mcpserver.Mount{Name: "web", Upstream: reach(t, everythingOverHTTP(t))}, mcpserver.Mount{Name: "child", Upstream: over})
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: e.url, HTTPClient: e.client("acme/bot")}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"web", "child"} {
			result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name + ".echo", Arguments: map[string]any{"message": "hello"}})
			if err != nil || len(result.Content) != 1 {
				t.Fatalf("%s: %+v, %v\n%s", name, result, err, e.log)
			}
			if text, _ := result.Content[0].(*mcp.TextContent); text == nil || text.Text != "Echo: hello" {
				t.Errorf("%s said %+v", name, result.Content[0])
			}
		}
		tools, err := s.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 20 {
			t.Fatalf("%d tools, %v", len(tools.Tools), err)
		}
		resources, err := s.ListResources(t.Context(), nil)
		if err != nil || len(resources.Resources) == 0 {
			t.Fatalf("resources %+v, %v", resources, err)
		}
		for _, r := range []*mcp.Resource{resources.Resources[0], resources.Resources[len(resources.Resources)-1]} {
			read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
			if err != nil || len(read.Contents) != 1 || read.Contents[0].URI != r.URI {
				t.Errorf("%s: %+v, %v", r.URI, read, err)
			}
		}
		prompts, err := s.ListPrompts(t.Context(), nil)
		if err != nil || len(prompts.Prompts) == 0 {
			t.Fatalf("prompts %+v, %v", prompts, err)
		}
		completed, err := s.Complete(t.Context(), &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "web.completable-prompt"}, Argument: mcp.CompleteParamsArgument{Name: "department", Value: "E"},
		})
		if err != nil || len(completed.Completion.Values) == 0 {
			t.Errorf("completion %+v, %v", completed, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
