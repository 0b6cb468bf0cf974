package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

const npmDir = "../../testdata/npm"

// npmServer returns the command of a pinned server, and skips the test when the servers are not installed.
func npmServer(t *testing.T, name string, args ...string) []string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(npmDir, "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js"))
	must(t, err)
	if !exists(script) {
		t.Skipf("the pinned servers are not installed (scripts/prereqs): %s", script)
	}
	return append([]string{"node", script}, args...)
}

func (f *fixture) fake(t *testing.T, mode string) (server []string, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "effects")
	return []string{"env", fakeMode + "=" + mode, os.Args[0], file}, file
}

func effects(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return 0
	}
	must(t, err)
	return bytes.Count(b, []byte("\n"))
}

// The main job, with a client that we did not write on either side: the Go SDK's and the TypeScript SDK's.
func TestWrap_filesystem(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	server := npmServer(t, "filesystem", notes)
	must(t, os.WriteFile(filepath.Join(notes, "a.txt"), []byte("alpha"), 0o600))
	f := setup(t, "hold: 20s")
	s := f.open()
	c := f.connect(server...)

	tools, err := c.ListTools(t.Context(), nil)
	must(t, err)
	if len(tools.Tools) < 10 {
		t.Fatalf("%d tools", len(tools.Tools))
	}
	text, code, err := c.call(t.Context(), "read_text_file", map[string]any{"path": filepath.Join(notes, "a.txt")})
	if err != nil || code != "" || text != "alpha" {
		t.Fatalf("read: %q %q %v", text, code, err)
	}
	if _, code, _ = c.call(t.Context(), "read_text_file", map[string]any{"path": "/etc/passwd"}); code != "denied_by_policy" {
		t.Fatalf("a read outside of the folder: %q", code)
	}

	out := filepath.Join(notes, "b.txt")
	done := make(chan string, 1)
	go func() {
		_, code, err := c.call(t.Context(), "write_file", map[string]any{"path": out, "content": "beta"})
		done <- fmt.Sprint(code, err)
	}()
	id := f.awaitPending(s)
	if exists(out) {
		t.Fatal("written before anybody approved")
	}
	f.awaitConsole()
	b := f.signIn()
	page := b.get("/approvals/" + id)
	if !strings.Contains(page, "beta") || !strings.Contains(page, "b.txt") {
		t.Fatalf("the page does not show the arguments:\n%s", page)
	}
	if status, page := b.submit(page, "/approve", map[string]string{"passphrase": testPassphrase, "reason": "looks right"}); status >= 400 {
		t.Fatalf("approving: %d\n%s", status, page)
	}
	if got := <-done; got != "<nil>" {
		t.Fatalf("write: %s", got)
	}
	if written, err := os.ReadFile(out); err != nil || string(written) != "beta" {
		t.Fatalf("on disk: %q %v", written, err)
	}
	p, err := s.gate.Approval(t.Context(), tenant, id)
	must(t, err)
	if p.State != gateway.Spent || p.Outcome != "succeeded" {
		t.Fatalf("request: %s %s", p.State, p.Outcome)
	}
	report := f.verify(p.Receipt)
	for _, want := range []string{"VERIFIED", "write_file", "person:ada", "looks right", "succeeded", "not checked", `"content":"beta"`} {
		if !strings.Contains(report, want) {
			t.Errorf("the verifier does not say %q:\n%s", want, report)
		}
	}
}

func TestWrap_typescript(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	server := npmServer(t, "filesystem", notes)
	f := setup(t, "hold: 20s")
	s := f.open()
	steps, err := json.Marshal([]any{
		map[string]any{"op": "serverInfo"},
		map[string]any{"op": "listTools"},
		map[string]any{"op": "callTool", "name": "list_directory", "arguments": map[string]any{"path": notes}},
		map[string]any{"op": "callTool", "name": "write_file", "arguments": map[string]any{"path": filepath.Join(notes, "ts.txt"), "content": "from ts"}},
		map[string]any{"op": "callTool", "name": "read_text_file", "arguments": map[string]any{"path": filepath.Join(notes, "ts.txt")}},
		map[string]any{"op": "callTool", "name": "no_such_tool", "arguments": map[string]any{}},
	})
	must(t, err)
	args := append([]string{filepath.Join(npmDir, "client.mjs"), string(steps), "--", built.counterfoil}, f.wrapArgs(nil, server...)...)
	cmd := exec.Command("node", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must(t, cmd.Start())
	f.approveNext(s)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &stdout, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines:\n%s", len(lines), &stdout)
	}
	for i, want := range []string{"filesystem", "write_file", "content", "content", "from ts", `"error"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("step %d: %s", i, lines[i])
		}
	}
	if b, err := os.ReadFile(filepath.Join(notes, "ts.txt")); err != nil || string(b) != "from ts" {
		t.Fatalf("on disk: %q %v", b, err)
	}
}

// A known release works with no configuration: reads pass, writes ask.
func TestWrap_memory(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	f.env = []string{"MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.json")}
	c := f.connect(npmServer(t, "memory")...)
	if _, code, err := c.call(t.Context(), "read_graph", map[string]any{}); err != nil || code != "" {
		t.Fatalf("read: %q %v", code, err)
	}
	entity := map[string]any{"entities": []any{map[string]any{"name": "n", "entityType": "t", "observations": []any{"o"}}}}
	if _, code, _ := c.call(t.Context(), "create_entities", entity); code != "approval_pending" {
		t.Fatalf("write: %q", code)
	}
	f.approveNext(f.open())
	if _, code, err := c.call(t.Context(), "create_entities", entity); err != nil || code != "" {
		t.Fatalf("approved: %q %v", code, err)
	}
	if text, _, err := c.call(t.Context(), "read_graph", map[string]any{}); err != nil || !strings.Contains(text, `"n"`) {
		t.Fatalf("read again: %s %v", text, err)
	}
}

// Another release, or another way to launch it, asks for everything until a person has said once what the tools do.
func TestWrap_unknownRelease(t *testing.T) {
	t.Parallel()
	server := npmServer(t, "memory")
	file := filepath.Join(t.TempDir(), "memory.json")
	f := setup(t, "hold: 20s")
	s := f.open()
	c := f.connect(append([]string{"env", "MEMORY_FILE_PATH=" + file}, server...)...)
	// Behind env the launch command is not a known release: reads ask too, until a person has said once what the tools do.
	go func() { _, _, _ = c.call(t.Context(), "read_graph", map[string]any{}) }()
	f.approveNext(s)
	var servers serverJSON
	must(t, json.Unmarshal([]byte(f.run("servers", "list", "--json")), &servers))
	if servers.Status != "unclassified" {
		t.Fatalf("status %q", servers.Status)
	}
	f.run("servers", "classify", servers.ID, "--as-suggested", "--passphrase-file", f.passFile)
	if _, code, err := c.call(t.Context(), "read_graph", map[string]any{}); err != nil || code != "" {
		t.Fatalf("a read after the classification: %q %v", code, err)
	}
}

func TestWrap_everything(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.connect(npmServer(t, "everything")...)
	if text, code, err := c.call(t.Context(), "echo", map[string]any{"message": "hello"}); err != nil || code != "" || !strings.Contains(text, "hello") {
		t.Fatalf("echo: %q %q %v", text, code, err)
	}
	prompts, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(prompts.Prompts) == 0 {
		t.Fatalf("prompts: %v", err)
	}
	if _, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: prompts.Prompts[0].Name}); err != nil {
		t.Fatalf("prompt: %v", err)
	}
	resources, err := c.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) == 0 {
		t.Fatalf("resources: %v", err)
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resources.Resources[0].URI}); err != nil {
		t.Fatalf("resource: %v", err)
	}
	// Each of the three was a call through the chain with a receipt of its own.
	if list := strings.Count(f.run("receipts", "list"), "succeeded"); list != 3 {
		t.Fatalf("%d receipts", list)
	}
}

// 64 identical calls at once are one request, one effect, and every caller gets its answer.
func TestWrap_identicalCalls(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 30s")
	s := f.open()
	server, file := f.fake(t, "slow")
	one, two := f.connect(server...), f.connect(server...)
	var wg sync.WaitGroup
	codes := make(chan string, 64)
	for i := range 64 {
		c := one
		if i%2 == 1 {
			c = two
		}
		wg.Go(func() {
			text, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"})
			codes <- fmt.Sprint(text, code, err)
		})
	}
	id := f.awaitPending(s)
	// All 64 must be attached before the decision, or a late one rightly becomes a request of its own.
	f.await("64 waiters", func() (string, bool) { return "", f.waiters(id) == 64 })
	f.run("approvals", "approve", id, "--passphrase-file", f.passFile)
	wg.Wait()
	for range 64 {
		if got := <-codes; got != "done<nil>" {
			t.Fatalf("a caller got %q", got)
		}
	}
	if n := effects(t, file); n != 1 {
		t.Fatalf("%d effects", n)
	}
	if list := f.run("receipts", "list"); strings.Count(list, "\n") != 1 {
		t.Fatalf("receipts:\n%s", list)
	}
	// The answer was handed over: the same call is a new one now.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := one.call(ctx, "append", map[string]any{"line": "x"}); err == nil {
		t.Fatal("the right was used twice")
	}
	if n := effects(t, file); n != 1 {
		t.Fatalf("%d effects after the replay", n)
	}
}

// The agent is told to come back, the approval waits for the identical retry, and a changed call gets nothing.
func TestWrap_retry(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	s := f.open()
	server, file := f.fake(t, "plain")
	c := f.connect(server...)
	if _, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "approval_pending" {
		t.Fatalf("first call: %q %v", code, err)
	}
	id := f.approveNext(s)
	if _, code, _ := c.call(t.Context(), "append", map[string]any{"line": "y"}); code != "approval_pending" {
		t.Fatalf("changed call: %q", code)
	}
	if _, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "" || err != nil {
		t.Fatalf("the retry: %q %v", code, err)
	}
	if n := effects(t, file); n != 1 {
		t.Fatalf("%d effects", n)
	}
	if _, stderr, code := f.try("approvals", "approve", id, "--passphrase-file", f.passFile); code != 1 || !strings.Contains(stderr, "spent") {
		t.Fatalf("approving twice: exit %d %s", code, stderr)
	}
}

func TestWrap_denied(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 20s")
	s := f.open()
	server, file := f.fake(t, "plain")
	c := f.connect(server...)
	done := make(chan string, 1)
	call := func() {
		_, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"})
		done <- fmt.Sprint(code, " ", err)
	}
	go call()
	id := f.awaitPending(s)
	f.run("approvals", "deny", id, "--passphrase-file", f.passFile, "--reason", "not today")
	if got := <-done; !strings.HasPrefix(got, "approval_denied") || !strings.Contains(got, "not today") {
		t.Fatalf("got %s", got)
	}
	// The denial stands for the identical call: nobody is asked again at once.
	go call()
	if got := <-done; !strings.HasPrefix(got, "approval_denied") {
		t.Fatalf("again: %s", got)
	}
	if n := effects(t, file); n != 0 {
		t.Fatalf("%d effects", n)
	}
}

// A caller that leaves before it was told anything takes its request along: approving it is refused.
func TestWrap_callerGone(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("kill=%t", kill), func(t *testing.T) {
			t.Parallel()
			f := setup(t, "hold: 30s")
			s := f.open()
			go func() { _ = s.gate.Serve(t.Context(), func() {}) }() // another process that sweeps
			server, file := f.fake(t, "plain")
			c := f.connect(server...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _, _ = c.call(ctx, "append", map[string]any{"line": "x"}) }()
			id := f.awaitPending(s)
			if kill {
				must(t, c.cmd.Process.Kill())
			} else {
				cancel() // the client sends notifications/cancelled
			}
			f.await("a cancelled request", func() (string, bool) {
				p, err := s.gate.Approval(t.Context(), tenant, id)
				must(t, err)
				return "", p.State == gateway.Cancelled
			})
			if _, stderr, code := f.try("approvals", "approve", id, "--passphrase-file", f.passFile); code != 1 || !strings.Contains(stderr, "cancelled") {
				t.Fatalf("exit %d %s", code, stderr)
			}
			if n := effects(t, file); n != 0 {
				t.Fatalf("%d effects", n)
			}
		})
	}
}

// What was approved is void once the tool is another: the definition changed while the call waited.
func TestWrap_drift(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	s := f.open()
	server, file := f.fake(t, "plain")
	c := f.connect(server...)
	if _, code, _ := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "approval_pending" {
		t.Fatalf("first call: %q", code)
	}
	id := f.approveNext(s)
	must(t, os.WriteFile(file+".changed", nil, 0o600))
	_ = c.Close()
	c = f.connect(server...)
	if _, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "tool_quarantined" {
		t.Fatalf("after the change: %q %v", code, err)
	}
	var servers serverJSON
	must(t, json.Unmarshal([]byte(f.run("servers", "list", "--json")), &servers))
	if servers.Status != "quarantined" {
		t.Fatalf("status %q", servers.Status)
	}
	f.run("servers", "classify", servers.ID, "--set", "append=mutation", "--passphrase-file", f.passFile)
	if _, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "approval_void" {
		t.Fatalf("after the acceptance: %q %v", code, err)
	}
	if p, err := s.gate.Approval(t.Context(), tenant, id); err != nil || p.State != gateway.Void || p.VoidCause == "" {
		t.Fatalf("request: %+v %v", p, err)
	}
	if n := effects(t, file); n != 0 {
		t.Fatalf("%d effects", n)
	}
}

func TestWrap_faults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, code, outcome string
		effects             int
	}{
		{"junk", "", "succeeded", 1},
		{"flood", "", "succeeded", 1},
		{"die", "outcome_unknown", "indeterminate", 1},
		{"hang", "outcome_unknown", "indeterminate", 1},
		{"big", "outcome_unknown", "indeterminate", 1},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "hold: 20s", "callTimeout: 2s")
			s := f.open()
			server, file := f.fake(t, c.mode)
			conn := f.connect(server...)
			done := make(chan string, 1)
			go func() {
				_, code, _ := conn.call(t.Context(), "append", map[string]any{"line": "x"})
				done <- code
			}()
			f.approveNext(s)
			if got := <-done; got != c.code {
				t.Fatalf("got %q", got)
			}
			if n := effects(t, file); n != c.effects {
				t.Fatalf("%d effects", n)
			}
			f.await("receipt", func() (string, bool) { return "", strings.Contains(f.run("receipts", "list"), c.outcome) })
		})
	}
}

// waiters counts the callers of a request, as the database has them.
func (f *fixture) waiters(id string) int {
	return countWaiters(f.t, filepath.Join(f.dir, databaseFile), id)
}

// Within five seconds of the gateway's kill nothing of the server is left, not even a grandchild that ignores everything.
func TestWrap_noOrphans(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("descendants are followed on Linux alone")
	}
	f := setup(t, "hold: 100ms")
	server, file := f.fake(t, "orphan")
	c := f.connect(server...)
	b, err := os.ReadFile(file + ".pid")
	must(t, err)
	proc := filepath.Join("/proc", string(b))
	if !exists(proc) {
		t.Fatal("the grandchild does not run")
	}
	must(t, c.cmd.Process.Kill())
	began := time.Now()
	f.await("end of the grandchild", func() (string, bool) { return "", !exists(proc) })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}
