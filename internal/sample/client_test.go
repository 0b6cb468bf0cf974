package sample_test

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil/internal/sample"
)

// TestServe_officialClient drives the server with the official Go SDK's client.
func TestServe_officialClient(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := sample.Serve(t.Context(), dir, toServer, fromServer)
		ended <- errors.Join(err, fromServer.Close())
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"list_notes", "read_note", "write_note", "delete_note"}, names); diff != "" {
		t.Errorf("tools (-want +got)\n%s", diff)
	}
	if err := session.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		tool      string
		arguments any
		want      string
		isError   bool
	}{
		{"write_note", map[string]any{"path": "n.txt", "text": "hello"}, "wrote 5 bytes to n.txt", false},
		{"read_note", map[string]any{"path": "n.txt"}, "hello", false},
		{"read_note", map[string]any{"path": "../outside/secret.txt"}, "the path must be relative, with forward slashes, without .. and control characters", true},
		{"delete_note", map[string]any{"path": "n.txt"}, "deleted n.txt", false},
		{"list_notes", nil, "a/one.txt\nb.txt", false},
	} {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: tt.arguments})
		if err != nil {
			t.Fatalf("%s: %v", tt.tool, err)
		}
		text, ok := res.Content[0].(*mcp.TextContent)
		if !ok || text.Text != tt.want || res.IsError != tt.isError {
			t.Errorf("%s: got %+v, %v", tt.tool, res.Content[0], res.IsError)
		}
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sh"}); err == nil {
		t.Error("an unknown tool was called")
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
