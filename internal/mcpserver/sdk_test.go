package mcpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// sdkServer is an upstream made with the official Go SDK. Its tool reports progress, asks the user, and tries what it must
// not.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, r *mcp.CallToolRequest, in struct{ Greeting string }) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return nil, nil, err
			}
		}
		if _, err := r.Session.ListRoots(ctx, nil); err == nil { //nolint:staticcheck // deprecated, and not to be let through
			return nil, nil, errors.New("the folders of the client can be seen")
		}
		answer, ok := r.Params.InputResponses["who"].(*mcp.ElicitResult)
		if !ok { // in the older revisions the SDK turns this into a request to the client
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{Message: "Who?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			}}}}, nil, nil
		}
		text, _ := answer.Content["name"].(string)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Greeting + ", " + text}}}, nil, nil
	})
	s.AddResource(&mcp.Resource{URI: "file:///a", Name: "a"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "content"}}}, nil
	})
	return s
}

// The official SDK's client and server understand each other through the relay, in every revision.
func TestServe_officialSDK(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			talk(t, version)
		})
	}
}

func talk(t *testing.T, version string) {
	ours, theirs := net.Pipe()
	upstreamSession, err := sdkServer().Connect(t.Context(), &mcp.IOTransport{Reader: theirs, Writer: theirs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	g := &gate{}
	go func() {
		done <- mcpserver.Serve(t.Context(), mcpserver.Options{
			In: toServer, Out: fromServer, Gate: g, Conn: upstream.NewConn(ours, upstream.ConnOptions{}), Name: "sdk", Now: time.Now,
		})
	}()
	progress, asked := make(chan float64, 10), make(chan string, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- r.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///secret"}) //nolint:staticcheck // deprecated, and not to be let through
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Errorf("they negotiated %s", got)
	}
	params := &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"Greeting": "Hello"}}
	params.SetProgressToken("tok")
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]mcp.Content{&mcp.TextContent{Text: "Hello, Ann"}}, result.Content); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if p, q := <-progress, <-asked; p != 1 || q != "[sdk] Who?" {
		t.Errorf("progress %v, question %q", p, q)
	}
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///a"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "content" {
		t.Errorf("resource %+v, error %v", read, err)
	}
	if c := g.last(); c.Method != "resources/read" || string(c.Arguments) != `{"uri":"file:///a"}` {
		t.Errorf("the gate was asked about %s with %s", c.Method, c.Arguments)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if err := fromClient.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = upstreamSession.Close() // its pipe is closed already
}
