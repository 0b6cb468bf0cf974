package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
)

// database is the PostgreSQL server of the tests that need one.
var database pgtest.Server

// built holds the two programs, made once for all tests by TestMain.
var built struct{ counterfoil, verify string }

// fakeMode makes this test binary an MCP server with faults; see fake_test.go.
const fakeMode = "COUNTERFOIL_TEST_FAKE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" {
		os.Exit(runFake(mode, os.Args[1:]))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "counterfoil-bin-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		cmd := exec.Command("go", "build", "-o", dir+string(os.PathSeparator), "../counterfoil", "../counterfoil-verify")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
			return 1
		}
		built.counterfoil, built.verify = filepath.Join(dir, "counterfoil"), filepath.Join(dir, "counterfoil-verify")
		return database.Run(m)
	}())
}

const testPassphrase = "correct horse battery staple"

// A fixture is a state directory with an approver, and a console address of its own.
type fixture struct {
	t        *testing.T
	dir      string
	passFile string
	console  string
	store    string   // the database's URL, "" for the file in dir
	extra    []string // more flags for every wrap
	env      []string // more environment for every wrap
}

func setup(t *testing.T, config ...string) *fixture {
	t.Helper()
	root := t.TempDir()
	f := &fixture{t: t, dir: filepath.Join(root, "state"), passFile: filepath.Join(root, "pass"), console: "127.0.0.1:" + strconv.Itoa(freePort(t))}
	must(t, os.Mkdir(f.dir, 0o700))
	must(t, os.WriteFile(f.passFile, []byte(testPassphrase+"\n"), 0o600))
	lines := append([]string{"console: " + f.console}, config...)
	must(t, os.WriteFile(filepath.Join(f.dir, configFile), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	enrolled := template()
	must(t, enrolled.err)
	for name, b := range enrolled.files {
		must(t, os.WriteFile(filepath.Join(f.dir, name), b, 0o600))
	}
	return f
}

// onPostgres is setup on a database of its own, with leases of one second.
func onPostgres(t *testing.T, config ...string) *fixture {
	t.Helper()
	f := setup(t, append(config, "lease: 1s")...)
	f.use(database.Fresh(t))
	return f
}

// use makes every program on the fixture use the database.
func (f *fixture) use(url string) {
	f.store = url
	f.env = append(f.env, storeVariable+"="+url)
}

// replica returns the same installation on another machine: a copy of the state directory, the same database, and the same
// directory of checkpoints.
func (f *fixture) replica() *fixture {
	f.t.Helper()
	r := *f
	r.dir = filepath.Join(f.t.TempDir(), "state")
	must(f.t, os.CopyFS(r.dir, os.DirFS(f.dir)))
	must(f.t, os.Chmod(r.dir, 0o700))
	old := r.console
	r.console = "127.0.0.1:" + strconv.Itoa(freePort(f.t))
	config, err := os.ReadFile(filepath.Join(r.dir, configFile))
	must(f.t, err)
	config = bytes.Replace(config, []byte(old), []byte(r.console), 1)
	if !bytes.Contains(config, []byte("checkpoints:")) {
		shared := filepath.Join(f.dir, checkpointDir)
		must(f.t, os.MkdirAll(shared, 0o700))
		config = append(config, "\ncheckpoints: "+shared+"\n"...)
	}
	must(f.t, os.WriteFile(filepath.Join(r.dir, configFile), config, 0o600))
	must(f.t, filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, os.Chmod(path, 0o700))
		}
		return os.Chmod(path, 0o600)
	}))
	return &r
}

// A state that an approver has enrolled in, with the real program. Stretching the passphrase takes long: it is done once.
type enrolledState struct {
	files map[string][]byte
	err   error
}

var template = sync.OnceValue(func() (e enrolledState) {
	dir, err := os.MkdirTemp("", "counterfoil-state-")
	if err != nil {
		return enrolledState{err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command(built.counterfoil, "setup", "--name", "ada", "--passphrase-file", "-", "--state-dir", dir)
	cmd.Stdin = strings.NewReader(testPassphrase + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return enrolledState{err: fmt.Errorf("%w: %s", err, out)}
	}
	e.files = map[string][]byte{}
	entries, err := os.ReadDir(dir)
	for _, x := range entries {
		if !x.Type().IsRegular() {
			continue
		}
		b, readErr := os.ReadFile(filepath.Join(dir, x.Name()))
		e.files[x.Name()], err = b, errors.Join(err, readErr)
	}
	e.err = err
	return e
})

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(ln.Addr().String())
	must(t, err)
	must(t, ln.Close())
	n, err := strconv.Atoi(port)
	must(t, err)
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs the real program and fails the test unless it exits with 0.
func (f *fixture) run(args ...string) string {
	f.t.Helper()
	out, stderr, code := f.try(args...)
	if code != 0 {
		f.t.Fatalf("counterfoil %s: exit %d\n%s%s", strings.Join(args, " "), code, out, stderr)
	}
	return out
}

func (f *fixture) try(args ...string) (stdout, stderr string, code int) {
	f.t.Helper()
	return output(f.t, f.command(args...))
}

// command is one run of the real program on the fixture's state. The first argument is the command.
func (f *fixture) command(args ...string) *exec.Cmd {
	cmd := exec.Command(built.counterfoil, append([]string{args[0], "--state-dir", f.dir}, args[1:]...)...)
	cmd.Env = append(os.Environ(), f.env...)
	return cmd
}

func output(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// open opens the state in this process, as another counterfoil process would.
func (f *fixture) open() *state {
	f.t.Helper()
	a := &app{out: io.Discard, err: f.t.Output(), stateDir: f.dir, storeURL: f.store}
	s, err := a.open(f.t.Context())
	must(f.t, err)
	f.t.Cleanup(func() { _ = s.close() })
	return s
}

// wrapArgs is the command line that puts the gate before a server.
func (f *fixture) wrapArgs(flags []string, server ...string) []string {
	args := append([]string{"wrap", "--state-dir", f.dir}, f.extra...)
	return append(append(append(args, flags...), "--"), server...)
}

// A session is a real MCP client (the Go SDK's) on a wrap process.
type session struct {
	*mcp.ClientSession
	cmd    *exec.Cmd
	stderr *syncBuffer
}

// connect starts wrap before a server and connects the Go SDK's client to it.
func (f *fixture) connect(server ...string) *session {
	f.t.Helper()
	cmd := exec.Command(built.counterfoil, f.wrapArgs(nil, server...)...)
	cmd.Env = append(os.Environ(), f.env...)
	s := &session{cmd: cmd, stderr: &syncBuffer{}}
	cmd.Stderr = s.stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	cs, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		f.t.Fatalf("connect: %v\n%s", err, s.stderr)
	}
	s.ClientSession = cs
	f.t.Cleanup(func() { _ = cs.Close() })
	return s
}

// call calls a tool. A JSON-RPC error comes back as its code of ours, such as "approval_pending".
func (s *session) call(ctx context.Context, tool string, args any) (text, code string, err error) {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", wireCode(err), err
	}
	for _, c := range res.Content {
		if tc, ok := c.(*mcp.TextContent); ok {
			text += tc.Text
		}
	}
	if res.IsError {
		return text, "tool-error", nil
	}
	return text, "", nil
}

// wireCode returns the code in the data of a JSON-RPC error.
func wireCode(err error) string {
	w, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return ""
	}
	for _, r := range gateway.Reasons() {
		if int64(r.Number()) == w.Code {
			return string(r)
		}
	}
	return strconv.FormatInt(w.Code, 10)
}

// approveNext waits for a pending request and approves it with the program.
func (f *fixture) approveNext(s *state) string {
	f.t.Helper()
	id := f.awaitPending(s)
	f.run("approvals", "approve", id, "--passphrase-file", f.passFile, "--reason", "looks right")
	return id
}

func (f *fixture) awaitPending(s *state) string {
	f.t.Helper()
	return f.await("a pending request", func() (string, bool) {
		list, err := s.gate.Approvals(f.t.Context(), tenant, gateway.Pending, "", 10)
		must(f.t, err)
		if len(list) == 0 {
			return "", false
		}
		return list[0].ID, true
	})
}

func (f *fixture) await(what string, ready func() (string, bool)) string {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if v, ok := ready(); ok {
			return v
		}
	}
	f.t.Fatalf("no %s within 20 s", what)
	return ""
}

// verify exports a receipt with the program and checks it with the other one. It returns what the verifier printed.
func (f *fixture) verify(id string) string {
	f.t.Helper()
	bundle := filepath.Join(f.t.TempDir(), "bundle.json")
	must(f.t, os.WriteFile(bundle, []byte(f.run("receipts", "export", id)), 0o600))
	keys := filepath.Join(f.dir, "keys.json")
	out, stderr, code := output(f.t, exec.Command(built.verify, bundle, "--keys", keys, "--require-log"))
	if code != 0 {
		f.t.Fatalf("counterfoil-verify: exit %d\n%s%s", code, out, stderr)
	}
	return out
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// countWaiters reads the database beside the program: no interface of ours tells how many callers a request has.
func countWaiters(t *testing.T, path, id string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	must(t, err)
	defer func() { must(t, db.Close()) }()
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM waiters WHERE request = ?", id).Scan(&n))
	return n
}
