package mcpexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil"
)

// session starts the pinned file server over one directory, and skips the test when it is not installed.
func session(t *testing.T, dir string) *mcp.ClientSession {
	t.Helper()
	script, err := filepath.Abs("../testdata/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
	must(t, err)
	if _, err := os.Stat(script); err != nil {
		t.Skipf("the pinned servers are not installed (scripts/prereqs): %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "node", script, dir)
	client := mcp.NewClient(&mcp.Implementation{Name: "mcpexec-test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// through sends calls over a session of the SDK: the adapter that a host writes.
func through(s *mcp.ClientSession) func(context.Context, string, []byte) ([]byte, error) {
	return func(ctx context.Context, tool string, arguments []byte) ([]byte, error) {
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			return nil, fmt.Errorf("tools/call: %w", err)
		}
		return json.Marshal(res)
	}
}

type readArguments struct {
	Path *string `json:"path"`
}

func parseRead(arguments []byte) error {
	var a readArguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return err
	}
	if a.Path == nil {
		return errors.New("there is no path")
	}
	return nil
}

// countText counts a file as one row.
func countText(result []byte) (int64, error) {
	var r struct {
		Content []struct{ Type, Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return 0, err
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" {
		return 0, errors.New("this is not one text")
	}
	return 1, nil
}

// A published server, behind the whole boundary.
func TestExecute_realServer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "note.txt"), []byte("counterfoil\n"), 0o600))
	s := session(t, dir)
	for _, tt := range []struct {
		name, arguments string
		outcome         counterfoil.Outcome
		calls           int
	}{
		{"reads", `{"path":` + quoted(filepath.Join(dir, "note.txt")) + `}`, counterfoil.OutcomeSucceeded, 1},
		{"no such file", `{"path":` + quoted(filepath.Join(dir, "gone.txt")) + `}`, counterfoil.OutcomeFailed, 1},
		{"outside", `{"path":"/etc/passwd"}`, counterfoil.OutcomeFailed, 1},
		{"wrong arguments", `{"file":"note.txt"}`, counterfoil.OutcomeFailed, 0},
	} {
		l := newLab(t, tt.arguments)
		l.call.Tool, l.o.Tool = "read_text_file", "read_text_file"
		l.o.Parse, l.o.CountRows, l.o.Call = parseRead, countText, through(s)
		res, rep, err := l.execute()
		if rep.Outcome != tt.outcome || l.calls != tt.calls || (err == nil) != (tt.outcome == counterfoil.OutcomeSucceeded) {
			t.Errorf("%s: got %v, %s, %d calls, %s", tt.name, err, rep.Outcome, l.calls, res.Value)
		}
		if tt.outcome != counterfoil.OutcomeSucceeded {
			continue
		}
		var got mcp.CallToolResult
		must(t, json.Unmarshal(res.Value, &got))
		text, ok := got.Content[0].(*mcp.TextContent)
		if !ok || text.Text != "counterfoil\n" || rep.Rows != 1 || rep.ResultDigest != counterfoil.ResultDigest(res.Value) {
			t.Errorf("%s: got %s and %+v", tt.name, res.Value, rep)
		}
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// A tool that the server does not have, and a cancelled call.
func TestExecute_realServerRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := session(t, dir)
	l := newLab(t, `{}`)
	l.o.Call = through(s)
	res, rep, err := l.execute()
	if err == nil || res.Rows != 0 || rep.Outcome == counterfoil.OutcomeSucceeded {
		t.Errorf("got %v, %s, %s", err, rep.Outcome, res.Value)
	}
	l = newLab(t, `{"path":`+quoted(dir)+`}`)
	l.call.Tool, l.o.Tool = "list_directory", "list_directory"
	ctx, cancel := context.WithCancel(t.Context())
	l.ctx = ctx
	l.o.Call = func(ctx context.Context, tool string, arguments []byte) ([]byte, error) {
		cancel()
		return through(s)(ctx, tool, arguments)
	}
	_, rep, err = l.execute()
	if !errors.Is(err, counterfoil.CodeExecutionFailed) || rep.Outcome != counterfoil.OutcomeFailed { // it only reads
		t.Errorf("cancelled: got %v, %s", err, rep.Outcome)
	}
}
