package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What "make run" does: a first call waits, the pages are up, and a decision made elsewhere lets the call run.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "state")}
	must(t, os.Mkdir(f.dir, 0o700))
	f.console = "127.0.0.1:" + strconv.Itoa(freePort(t))
	write(t, filepath.Join(f.dir, configFile), "console: "+f.console+"\n")
	cmd := exec.Command(built.counterfoil, "quickstart", "--state-dir", f.dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	await := func(part string) string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return lines.Text()
			}
		}
		t.Fatalf("no line with %q", part)
		return ""
	}
	await("/login?code=")
	f.awaitConsole()
	f.passFile = filepath.Join(f.dir, "sample-passphrase")
	s := f.open()
	f.approveNext(s)
	receipt := strings.Fields(await("Approved and done. Receipt"))[4]
	f.verify(strings.TrimSuffix(receipt, ";"))
	if b, err := os.ReadFile(filepath.Join(f.dir, "sample-notes", "hello.txt")); err != nil || !strings.Contains(string(b), "written by an agent") {
		t.Fatalf("the note: %q %v", b, err)
	}
	must(t, cmd.Process.Signal(syscall.SIGINT))
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("interrupted: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not stop")
	}
}
