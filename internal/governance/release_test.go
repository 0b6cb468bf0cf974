package governance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/sample"
)

var update = flag.Bool("update", false, "write testdata and the releases of the profiles anew from the servers that are installed")

// modules is where the servers are installed for the end-to-end tests.
const modules = "../../testdata/npm/node_modules"

// TestReleases compares the shipped releases with what the servers list. With -update it writes them.
func TestReleases(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"filesystem", "memory", "everything"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.Abs(filepath.Join(modules, "@modelcontextprotocol", "server-"+name))
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := os.ReadFile(filepath.Join(dir, "package.json"))
			if errors.Is(err, os.ErrNotExist) {
				t.Skip("the server isn't installed: run npm ci in testdata/npm")
			}
			var m struct{ Version string }
			if err != nil || json.Unmarshal(manifest, &m) != nil {
				t.Fatal(err)
			}
			if _, err := exec.LookPath("node"); err != nil {
				t.Skip("node isn't installed")
			}
			checkRelease(t, name, m.Version, listNode(t, filepath.Join(dir, "dist", "index.js")))
		})
	}
}

// TestReleases_sample is the same for the sample server, which is part of this program.
func TestReleases_sample(t *testing.T) {
	t.Parallel()
	checkRelease(t, "sample", "", listSample(t))
}

func checkRelease(t *testing.T, name, version string, tools []json.RawMessage) {
	t.Helper()
	golden := filepath.Join("testdata", name+".json")
	got := render(t, tools)
	definitions := map[string]string{}
	for _, raw := range tools {
		d, err := counterfoil.DefinitionDigest(raw)
		if err != nil {
			t.Fatal(err)
		}
		definitions[nameOf(t, raw)] = d.String()
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
		writeRelease(t, filepath.Join("profiles", name+".json"), version, definitions)
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the server lists other tools than testdata holds; run with -update (-testdata +server)\n%s", diff)
	}
	for _, r := range readProfile(t, name).Releases {
		if r.Version == version {
			if diff := cmp.Diff(r.Definitions, definitions); diff != "" {
				t.Errorf("release %s (-profile +server)\n%s", version, diff)
			}
			return
		}
	}
	t.Errorf("the profile has no release %q; run with -update", version)
}

// render writes the tools one a line, as they came.
func render(t *testing.T, tools []json.RawMessage) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, raw := range tools {
		if i > 0 {
			b.WriteString(",\n")
		}
		if err := json.Compact(&b, raw); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}

// writeRelease replaces or adds one release at the end of a profile and leaves the rest of the file as it is.
func writeRelease(t *testing.T, file, version string, definitions map[string]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p wireProfile
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	p.Releases = slices.DeleteFunc(p.Releases, func(r wireRelease) bool { return r.Version == version })
	p.Releases = append(p.Releases, wireRelease{Version: version, Definitions: definitions})
	tail, err := json.MarshalIndent(p.Releases, "  ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const member = "  \"releases\": "
	head, _, ok := bytes.Cut(b, []byte(member))
	if !ok {
		t.Fatalf("%s has no releases", file)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s%s%s\n}\n", head, member, tail), 0o600); err != nil {
		t.Fatal(err)
	}
}

type wireProfile struct {
	Kind     governance.Kind
	Package  string
	Commands []string
	Tools    map[string]struct {
		Effect    counterfoil.Effect
		Arguments []string
	}
	Releases []wireRelease
}

type wireRelease struct {
	Version     string            `json:"version"`
	Definitions map[string]string `json:"definitions"`
}

func readProfile(t *testing.T, name string) wireProfile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("profiles", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var p wireProfile
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func nameOf(t *testing.T, raw []byte) string {
	t.Helper()
	var x struct{ Name string }
	if err := json.Unmarshal(raw, &x); err != nil {
		t.Fatal(err)
	}
	return x.Name
}

// readTools returns the raw definitions of testdata.
func readTools(t testing.TB, name string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatal(err)
	}
	out := make([][]byte, len(raw))
	for i := range raw {
		out[i] = raw[i]
	}
	return out
}

// listNode starts a server as a client that can do everything, because some tools are listed to such clients alone.
func listNode(t *testing.T, script string) []json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, "node", script, dir)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "MEMORY_FILE_PATH="+filepath.Join(dir, "memory.json"))
	if strings.Contains(script, "everything") {
		cmd.Args = cmd.Args[:2]
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tools := list(t, in, out)
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	return tools
}

func listSample(t *testing.T) []json.RawMessage {
	t.Helper()
	dir := t.TempDir()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- sample.Serve(t.Context(), dir, toServer, fromServer) }()
	tools := list(t, in, out)
	if err := errors.Join(in.Close(), <-ended); err != nil {
		t.Error(err)
	}
	return tools
}

const capabilities = `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"requests":{"tools":{"call":{}},"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`

// list opens a session and lists tools until two lists in a row are the same: a server may add some while it starts.
func list(t *testing.T, in io.Writer, out io.Reader) []json.RawMessage {
	t.Helper()
	send := func(format string, a ...any) {
		if _, err := fmt.Fprintf(in, format+"\n", a...); err != nil {
			t.Fatal(err)
		}
	}
	send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,`+
		`"clientInfo":{"name":"test","version":"1"}}}`, capabilities)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var last []byte
	for id := 1; lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Result struct {
				Tools      []json.RawMessage
				NextCursor string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		switch {
		case m.Method == "roots/list":
			send(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, m.ID)
			continue
		case m.Method != "":
			continue
		case string(m.ID) == "0":
			send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		case m.Result.NextCursor != "":
			t.Fatal("the server lists its tools in pages")
		default:
			if got := render(t, m.Result.Tools); bytes.Equal(got, last) {
				return m.Result.Tools
			} else {
				last = got
			}
		}
		time.Sleep(300 * time.Millisecond)
		send(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id)
		id++
	}
	t.Fatal("the server ended: ", lines.Err())
	return nil
}
