package sample_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/sample"
)

// setup returns a notes folder with two notes, and beside it a file that no call may reach.
func setup(t testing.TB) (notes, outside string) {
	t.Helper()
	base := t.TempDir()
	notes, outside = filepath.Join(base, "notes"), filepath.Join(base, "outside")
	for name, text := range map[string]string{
		filepath.Join(notes, "b.txt"):        "second",
		filepath.Join(notes, "a", "one.txt"): "first\n",
		filepath.Join(outside, "secret.txt"): "secret",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return notes, outside
}

// talk sends the lines to a new server and returns its answers, without the final line break.
func talk(t testing.TB, dir string, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := sample.Serve(t.Context(), dir, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
}

func TestServe_initialize(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	for offered, agreed := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "": "2025-11-25",
	} {
		want := `{"jsonrpc":"2.0","id":"i","result":{"capabilities":{"tools":{}},"protocolVersion":"` + agreed +
			`","serverInfo":{"name":"counterfoil-sample","version":"1.0.0"}}}`
		if diff := cmp.Diff(want, talk(t, dir, initialize(offered))); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", offered, diff)
		}
	}
}

func TestServe_messages(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	fail := func(id, rest string) string { return `{"jsonrpc":"2.0","id":` + id + `,"error":{` + rest + `}}` }
	for name, tt := range map[string]struct{ in, want string }{
		"ping":                  {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"id is kept as written": {`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`},
		"notification":          {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
		"unknown notification":  {`{"jsonrpc":"2.0","method":"no/such"}`, ``},
		"response":              {`{"jsonrpc":"2.0","id":1,"result":{}}`, ``},
		"empty line":            {"  ", ``},
		"not JSON":              {`{`, fail(`null`, `"code":-32700,"message":"not JSON"`)},
		"duplicate name":        {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, fail(`null`, `"code":-32700,"message":"not JSON"`)},
		"not a message":         {`7`, fail(`null`, `"code":-32600,"message":"not a JSON-RPC 2.0 message"`)},
		"other version":         {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, fail(`null`, `"code":-32600,"message":"not a JSON-RPC 2.0 message"`)},
		"no method":             {`{"jsonrpc":"2.0","id":1}`, fail(`null`, `"code":-32600,"message":"no method"`)},
		"null id":               {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, fail(`null`, `"code":-32600,"message":"the id is neither a string nor an integer"`)},
		"fractional id":         {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, fail(`null`, `"code":-32600,"message":"the id is neither a string nor an integer"`)},
		"unknown method":        {`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, fail(`1`, `"code":-32601,"message":"no such method"`)},
		"bad parameters":        {`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, fail(`1`, `"code":-32602,"message":"the parameters are malformed"`)},
		"cursor":                {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, fail(`1`, `"code":-32602,"message":"no such cursor"`)},
		"unknown tool":          {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sh"}}`, fail(`1`, `"code":-32602,"message":"no such tool"`)},
		"array outside 2025-03": {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, fail(`null`, `"code":-32600,"message":"not a JSON-RPC 2.0 message"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, talk(t, dir, tt.in)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestServe_batch(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	note := `{"jsonrpc":"2.0","method":"notifications/cancelled"}`
	for in, want := range map[string]string{
		"[" + ping + "," + note + "]": `[{"jsonrpc":"2.0","id":1,"result":{}}]`,
		"[" + note + "]":              ``,
		"[]":                          `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not a batch of messages"}}`,
	} {
		_, got, _ := strings.Cut(talk(t, dir, initialize("2025-03-26"), in), "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", in, diff)
		}
	}
}

// call runs one tool and returns the text of its answer and whether it is an error.
func call(t testing.TB, dir, tool, arguments string) (text string, isError bool) {
	t.Helper()
	out := talk(t, dir, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
	var r struct {
		Result struct {
			Content []struct{ Type, Text string }
			IsError bool
		}
	}
	if err := json.Unmarshal([]byte(out), &r, json.MatchCaseInsensitiveNames(true)); err != nil || len(r.Result.Content) != 1 {
		t.Fatalf("unexpected answer: %v: %s", err, out)
	}
	return r.Result.Content[0].Text, r.Result.IsError
}

func TestServe_tools(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	for _, tt := range []struct {
		tool, arguments, want string
		isError               bool
	}{
		{"list_notes", `{}`, "a/one.txt\nb.txt", false},
		{"read_note", `{"path":"a/one.txt"}`, "first\n", false},
		{"write_note", `{"path":"c/d/new.txt","text":"é"}`, "wrote 2 bytes to c/d/new.txt", false},
		{"read_note", `{"path":"c/d/new.txt"}`, "é", false},
		{"write_note", `{"path":"c/d/new.txt","text":""}`, "wrote 0 bytes to c/d/new.txt", false},
		{"read_note", `{"path":"c/d/new.txt"}`, "", false},
		{"delete_note", `{"path":"c/d/new.txt"}`, "deleted c/d/new.txt", false},
		{"delete_note", `{"path":"c/d/new.txt"}`, "no such note", true},
		{"read_note", `{"path":"c/d/new.txt"}`, "no such note", true},
		{"delete_note", `{"path":"c/d"}`, "the path isn't a note's", true},
		{"read_note", `{"path":"a"}`, "the path isn't a note's", true},
		{"write_note", `{"path":"b.txt/x","text":""}`, "the path leads out of the folder or can't be followed", true},
		{"write_note", `{"path":"x","text":"` + strings.Repeat("x", 1<<20+1) + `"}`, "the text is too large", true},
		{"list_notes", `{}`, "a/one.txt\nb.txt", false},
	} {
		text, isError := call(t, dir, tt.tool, tt.arguments)
		if text != tt.want || isError != tt.isError {
			t.Errorf("%s %.80s: got %q, %v; want %q, %v", tt.tool, tt.arguments, text, isError, tt.want, tt.isError)
		}
	}
}

func TestServe_emptyFolder(t *testing.T) {
	t.Parallel()
	if text, isError := call(t, t.TempDir(), "list_notes", `{}`); text != "no notes" || isError {
		t.Errorf("got %q, %v", text, isError)
	}
}

func TestServe_refusesArguments(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	const want = "the arguments don't match the tool's input schema"
	for _, tt := range []struct{ tool, arguments string }{
		{"list_notes", `{"path":"b.txt"}`},
		{"list_notes", `[]`},
		{"list_notes", `null`},
		{"read_note", `{}`},
		{"read_note", `{"path":null}`},
		{"read_note", `{"path":7}`},
		{"read_note", `{"Path":"b.txt"}`},
		{"read_note", `{"path":"b.txt","text":"x"}`},
		{"read_note", `{"path":"b.txt","more":1}`},
		{"write_note", `{"path":"b.txt"}`},
		{"write_note", `{"text":"x"}`},
		{"delete_note", `{"path":["b.txt"]}`},
	} {
		if text, isError := call(t, dir, tt.tool, tt.arguments); text != want || !isError {
			t.Errorf("%s %s: got %q, %v", tt.tool, tt.arguments, text, isError)
		}
	}
}

func TestServe_staysInside(t *testing.T) {
	t.Parallel()
	dir, outside := setup(t)
	secret := filepath.Join(outside, "secret.txt")
	links := map[string]string{"link.txt": secret, "linked": outside, "up.txt": "../outside/secret.txt", "dangling.txt": filepath.Join(outside, "new.txt")}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	for _, p := range []string{
		"../outside/secret.txt", "a/../../outside/secret.txt", filepath.ToSlash(secret), "./b.txt", "a//one.txt", ".", "", "a/", `a\u0000`, `a\nb`,
		"link.txt", "linked/secret.txt", "linked/new.txt", "up.txt", "dangling.txt",
	} {
		for tool, rest := range map[string]string{"read_note": "", "write_note": `,"text":"overwritten"`, "delete_note": ""} {
			if text, isError := call(t, dir, tool, `{"path":"`+p+`"`+rest+`}`); !isError || strings.Contains(text, "secret") {
				t.Errorf("%s %q: got %q, %v; want an error", tool, p, text, isError)
			}
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the file outside is now %q, %v", b, err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder outside now has %d entries, %v", len(entries), err)
	}
	if text, _ := call(t, dir, "list_notes", `{}`); text != "a/one.txt\nb.txt" {
		t.Errorf("links are listed as notes: %q", text)
	}
}

func TestServe_refusesBinary(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	for name, b := range map[string][]byte{"binary": {0xff, 0xfe}, "large": make([]byte, 1<<20+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if text, isError := call(t, dir, "read_note", `{"path":"`+name+`"}`); !isError || len(text) > 100 {
			t.Errorf("%s: got %.100q, %v; want an error", name, text, isError)
		}
	}
}

func TestServe_definitions(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	var r struct {
		Result struct {
			Tools []struct {
				Name        string         `json:"name"`
				InputSchema jsontext.Value `json:"inputSchema"`
				Annotations struct {
					ReadOnlyHint *bool `json:"readOnlyHint"`
				} `json:"annotations"`
			} `json:"tools"`
		} `json:"result"`
	}
	request := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	out := talk(t, dir, request, request)
	first, second, _ := strings.Cut(out, "\n")
	if first != second {
		t.Error("two listings differ")
	}
	if err := json.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, tool := range r.Result.Tools {
		if tool.InputSchema.Kind() != '{' || tool.Annotations.ReadOnlyHint == nil {
			t.Fatalf("%s has no schema or no annotation", tool.Name)
		}
		got[tool.Name] = *tool.Annotations.ReadOnlyHint
	}
	want := map[string]bool{"list_notes": true, "read_note": true, "write_note": false, "delete_note": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestServe_ends(t *testing.T) {
	t.Parallel()
	dir, _ := setup(t)
	t.Run("no folder", func(t *testing.T) {
		t.Parallel()
		err := sample.Serve(t.Context(), filepath.Join(dir, "none"), strings.NewReader(""), io.Discard)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("line too long", func(t *testing.T) {
		t.Parallel()
		err := sample.Serve(t.Context(), dir, strings.NewReader(strings.Repeat(" ", 4<<20+1)), io.Discard)
		if err == nil {
			t.Error("no error")
		}
	})
	t.Run("cancelled while it waits", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		in, _ := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- sample.Serve(ctx, dir, in, io.Discard) }()
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Serve goes on after its context ended")
		}
	})
	t.Run("nobody reads", func(t *testing.T) {
		t.Parallel()
		r, w := io.Pipe()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		err := sample.Serve(t.Context(), dir, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), w)
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzServe sends anything: each answer is one valid JSON-RPC line, and nothing outside the folder is read or written.
func FuzzServe(f *testing.F) {
	f.Add([]byte(initialize("2025-03-26") + "\n" + `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_note","arguments":{"path":"../outside/secret.txt"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_note","arguments":{"path":"a","text":"b"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	dir, outside := setup(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := sample.Serve(t.Context(), dir, bytes.NewReader(in), &out); err != nil {
			return
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !jsontext.Value(line).IsValid() || bytes.Contains(line, []byte(`"secret"`)) {
				t.Fatalf("answer %q", line)
			}
		}
		if b, err := os.ReadFile(filepath.Join(outside, "secret.txt")); err != nil || string(b) != "secret" {
			t.Fatalf("the file outside is now %q, %v", b, err)
		}
	})
}
