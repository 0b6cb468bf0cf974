//go:build linux

package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

func start(t *testing.T, mode string, o upstream.Options) *upstream.Process {
	t.Helper()
	o.Argv = fakeArgv(mode)
	p, err := upstream.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// alive reports whether the process exists and is not a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	return !bytes.HasPrefix(b[bytes.LastIndexByte(b, ')')+1:], []byte(" Z"))
}

// mark is what a test's processes carry in their environment, unlike those of another run.
func mark(t *testing.T) string { return t.Name() + ":" + strconv.Itoa(os.Getpid()) + ";" }

// marked lists the processes whose environment says that they belong to this test.
func marked(t *testing.T) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte("MARK="+mark(t))) {
			out = append(out, filepath.Dir(f))
		}
	}
	return out
}

func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func TestStart_rejects(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{"nothing": nil, "empty": {""}, "unknown": {"no-such-command-here"}, "path": {"/no/such/file"}} {
		p, err := upstream.Start(t.Context(), upstream.Options{Argv: argv})
		if err == nil {
			_ = p.Close()
			t.Errorf("%s: started", name)
		}
		if c := counterfoil.CodeOf(err); c != counterfoil.CodeInvalidInput && c != counterfoil.CodeUnavailable {
			t.Errorf("%s: code %s", name, c)
		}
	}
}

func TestProcess_streams(t *testing.T) {
	t.Parallel()
	for _, sup := range [][]string{nil, supervisor()} {
		var stderr bytes.Buffer
		p := start(t, "stderr", upstream.Options{Supervisor: sup, Stderr: &stderr})
		if _, err := io.WriteString(p, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(p).ReadString('\n')
		if want := `{"jsonrpc":"2.0","id":1,"result":{"method":"m","params":null}}` + "\n"; err != nil || line != want {
			t.Fatalf("read %q, error %v", line, err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if tail := p.StderrTail(); len(tail) != 64<<10 || !bytes.HasSuffix(tail, []byte("xlast words\n")) {
			t.Errorf("tail of %d bytes ends in %q", len(tail), tail[max(0, len(tail)-20):])
		}
		if stderr.Len() == 0 {
			t.Error("nothing was forwarded")
		}
		if n, err := p.Write([]byte("x")); n != 0 || err == nil {
			t.Errorf("a write after the end: %d, %v", n, err)
		}
		if _, err := p.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a read after the end: %v", err)
		}
	}
}

// blockedWriter never takes anything.
type blockedWriter struct{ until <-chan struct{} }

func (b blockedWriter) Write(p []byte) (int, error) { <-b.until; return len(p), nil }

func TestProcess_stderrForwardBlocks(t *testing.T) {
	t.Parallel()
	until := make(chan struct{})
	p := start(t, "stderr", upstream.Options{Stderr: blockedWriter{until}})
	t.Cleanup(func() { close(until) }) // runs before Close: the forwarder can end
	if _, err := io.WriteString(p, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(p).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

func TestProcess_exitCode(t *testing.T) {
	t.Parallel()
	for _, sup := range [][]string{nil, supervisor()} {
		p := start(t, "die", upstream.Options{Supervisor: sup})
		if p.ExitErr() != nil {
			t.Error("ended before it began")
		}
		if _, err := io.WriteString(p, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
		ee, ok := errors.AsType[*exec.ExitError](p.ExitErr())
		if !ok || ee.ExitCode() != 3 {
			t.Errorf("ended with %v", p.ExitErr())
		}
	}
	p, err := upstream.Start(t.Context(), upstream.Options{Argv: []string{"/no/such/file"}, Supervisor: supervisor()})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if ee, ok := errors.AsType[*exec.ExitError](p.ExitErr()); !ok || ee.ExitCode() != 127 {
		t.Errorf("ended with %v", p.ExitErr())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if tail := string(p.StderrTail()); !strings.Contains(tail, "could not be started") {
		t.Errorf("standard error is %q", tail)
	}
}

func TestProcess_Close_stubborn(t *testing.T) {
	t.Parallel()
	for name, sup := range map[string][]string{"direct": nil, "supervised": supervisor()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "stubborn", upstream.Options{Supervisor: sup, Grace: 100 * time.Millisecond, Env: append(os.Environ(), "MARK="+mark(t))})
			if _, err := bufio.NewReader(p).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if left := marked(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A child is asked to end before it is made to.
func TestProcess_Close_polite(t *testing.T) {
	t.Parallel()
	for _, sup := range [][]string{nil, supervisor()} {
		p := start(t, "polite", upstream.Options{Supervisor: sup, Grace: 300 * time.Millisecond})
		if _, err := bufio.NewReader(p).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if tail := string(p.StderrTail()); tail != "bye\n" || p.ExitErr() != nil {
			t.Errorf("standard error is %q, ended with %v", tail, p.ExitErr())
		}
	}
}

// The supervisor's own pipe is not the child's business.
func TestSupervise_descriptors(t *testing.T) {
	t.Parallel()
	p, err := upstream.Start(t.Context(), upstream.Options{Argv: []string{"readlink", "/proc/self/fd/3"}, Supervisor: supervisor()})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(p); err != nil || len(b) > 0 {
		t.Errorf("descriptor 3 of the child is %q, error %v", b, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProcess_contextEnds(t *testing.T) {
	t.Parallel()
	for name, sup := range map[string][]string{"direct": nil, "supervised": supervisor()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			p, err := upstream.Start(ctx, upstream.Options{Argv: fakeArgv("stubborn"), Supervisor: sup})
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			select {
			case <-p.Exited():
			case <-time.After(10 * time.Second):
				t.Error("still running")
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func grandchild(t *testing.T, p *upstream.Process) int {
	t.Helper()
	if _, err := io.WriteString(p, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(p)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Sscanf(line, `{"jsonrpc":"2.0","id":1,"result":%d}`, &pid); err == nil {
			return pid
		}
	}
}

// A grandchild in a session of its own ends with the child, whoever ends first.
func TestProcess_grandchild(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "forkandleave"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := start(t, mode, upstream.Options{Supervisor: supervisor(), Grace: time.Second})
			pid := grandchild(t, p)
			if mode == "fork" && !alive(pid) { // where the child has left, it may be gone already
				t.Fatalf("the grandchild %d is not there", pid)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if alive(pid) {
				t.Errorf("the grandchild %d is left", pid)
			}
		})
	}
}

func TestSupervise_gatewayKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "stubborn", "silent", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(fakeArgv("")[0], "gateway", mode)
			cmd.Env = append(os.Environ(), "MARK="+mark(t))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"fork": 4}[mode] // gateway, supervisor, child, grandchild
			eventually(t, 10*time.Second, "the processes are there", func() bool { return len(marked(t)) >= max(want, 3) })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			eventually(t, 5*time.Second, "no descendant is left", func() bool { return len(marked(t)) == 0 })
		})
	}
}

// The supervisor's own death takes the child along.
func TestSupervise_supervisorKilled(t *testing.T) {
	t.Parallel()
	p := start(t, "stubborn", upstream.Options{Supervisor: supervisor(), Env: append(os.Environ(), "MARK="+mark(t))})
	if _, err := bufio.NewReader(p).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for _, dir := range marked(t) {
		if b, err := os.ReadFile(dir + "/cmdline"); err == nil && bytes.Contains(b, []byte("__supervise")) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-p.Exited()
	eventually(t, 2*time.Second, "nothing is left", func() bool { return len(marked(t)) == 0 })
}

// Not parallel: it counts goroutines, descriptors and children.
func TestProcess_cycles(t *testing.T) {
	count := func() (goroutines, files int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(entries)
	}
	var g0, f0 int
	for i := range 31 {
		if i == 1 { // the first one makes what the runtime keeps
			g0, f0 = count()
		}
		var sup []string
		if i%2 == 0 {
			sup = supervisor()
		}
		p, err := upstream.Start(t.Context(), upstream.Options{Argv: fakeArgv("echo"), Supervisor: sup, Stderr: io.Discard, Env: append(os.Environ(), "MARK="+mark(t))})
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := io.WriteString(p, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(p).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := marked(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	eventually(t, 2*time.Second, "goroutines and descriptors are as before", func() bool {
		g, f := count()
		return g <= g0 && f <= f0
	})
}
