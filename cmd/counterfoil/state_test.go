package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A state that can't be trusted is refused at the start, with a code and a reason, and is left as it was.
func TestState_refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, f *fixture)
		want  string
	}{
		{"unknown configuration key", func(t *testing.T, f *fixture) {
			write(t, filepath.Join(f.dir, configFile), "consle: 127.0.0.1:1\n")
		}, "invalid-input"},
		{"key twice", func(t *testing.T, f *fixture) {
			write(t, filepath.Join(f.dir, configFile), "hold: 1s\nhold: 2s\n")
		}, "invalid-input"},
		{"public console address", func(t *testing.T, f *fixture) {
			write(t, filepath.Join(f.dir, configFile), "console: 0.0.0.0:7373\n")
		}, "invalid-input"},
		{"unknown decision", func(t *testing.T, f *fixture) {
			write(t, filepath.Join(f.dir, configFile), "rules:\n- {tool: x, decision: maybe}\n")
		}, "invalid-input"},
		{"allowance without a server", func(t *testing.T, f *fixture) {
			write(t, filepath.Join(f.dir, configFile), "rules:\n- {tool: x, decision: allow}\n")
		}, "must name its server"},
		{"foreign database", func(t *testing.T, f *fixture) {
			must(t, os.Remove(filepath.Join(f.dir, databaseFile)))
			out, err := exec.Command("sqlite3", filepath.Join(f.dir, databaseFile), "CREATE TABLE t (x)").CombinedOutput()
			if err != nil {
				t.Skipf("no sqlite3 to make one with: %s", out)
			}
		}, databaseFile},
		{"not a database", func(t *testing.T, f *fixture) {
			for _, suffix := range []string{"-wal", "-shm"} {
				_ = os.Remove(filepath.Join(f.dir, databaseFile+suffix))
			}
			write(t, filepath.Join(f.dir, databaseFile), strings.Repeat("not a database\n", 1000))
		}, databaseFile},
		{"newer database", func(t *testing.T, f *fixture) {
			f.tamper(func(db *sql.DB) { f.exec(db, "PRAGMA user_version = 99") })
		}, "use the newer program"},
		{"damaged database", func(t *testing.T, f *fixture) {
			b, err := os.ReadFile(filepath.Join(f.dir, databaseFile))
			must(t, err)
			write(t, filepath.Join(f.dir, databaseFile), string(b[:3*4096])+strings.Repeat("Z", 4*4096)+string(b[7*4096:]))
		}, "is damaged; restore it"},
		{"read-only database", func(t *testing.T, f *fixture) { must(t, os.Chmod(filepath.Join(f.dir, databaseFile), 0o400)) }, "read-only"},
		{"another's database", func(t *testing.T, f *fixture) {
			f.env = append(f.env, storeVariable+"=sqlite://"+filepath.Join(f.dir, databaseFile))
			f.dir = filepath.Join(t.TempDir(), "fresh")
		}, "belongs to other keys"},
		{"shortened log", func(t *testing.T, f *fixture) {
			f.logged(5)
			f.tamper(func(db *sql.DB) { f.exec(db, "DELETE FROM events WHERE "+onlySequence+" > 3") })
		}, "shortened"},
		{"checkpoints gone", func(t *testing.T, f *fixture) {
			f.logged(5)
			must(t, os.RemoveAll(filepath.Join(f.dir, checkpointDir)))
		}, "none is kept outside"},
		{"keys gone", func(t *testing.T, f *fixture) {
			names, err := filepath.Glob(filepath.Join(f.dir, "*.json"))
			must(t, err)
			for _, n := range names {
				must(t, os.Remove(n))
			}
		}, "keys"},
		{"readable by others", func(t *testing.T, f *fixture) { must(t, os.Chmod(f.dir, 0o755)) }, "chmod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c.spoil(t, f)
			_, stderr, code := f.try("approvals", "list")
			if code != 1 || !strings.Contains(stderr, c.want) {
				t.Fatalf("exit %d: %s", code, stderr)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"frobnicate"}, {"approvals", "show"}, {"wrap"}, {"wrap", "--hold", "x", "--", "true"}, {"--nope"}} {
		out, stderr, code := output(t, exec.Command(built.counterfoil, args...))
		if code != exitUsage || out != "" || !strings.HasPrefix(stderr, "counterfoil: error: ") || !strings.Contains(stderr, "counterfoil: hint: ") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, stderr)
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"wrap", "--help"}, {"approvals", "--help"}, {"receipts", "--help"}, {"servers", "classify", "--help"},
		{"audit", "--help"}, {"audit", "verify", "--help"}, {"audit", "export", "--help"}, {"audit", "checkpoint", "--help"}, {"audit", "proof", "--help"},
		{"store", "--help"}, {"store", "status", "--help"}, {"store", "check", "--help"}, {"store", "backup", "--help"}, {"store", "restore", "--help"},
		{"store", "accept-restore", "--help"}, {"store", "retain", "--help"}} {
		out, stderr, code := output(t, exec.Command(built.counterfoil, args...))
		if n := strings.Count(out, "\n"); code != 0 || stderr != "" || n == 0 || n > 30 {
			t.Errorf("%v: exit %d, %d lines, %q", args, code, n, stderr)
		}
	}
}

// Every command is in the overview, and what is there is a command.
func TestOverview(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for line := range strings.Lines(overview) {
		if names, _, ok := strings.Cut(strings.TrimSpace(line), "   "); ok && strings.HasPrefix(line, "  ") && !strings.HasPrefix(names, "counterfoil") {
			for name := range strings.SplitSeq(names, ", ") {
				named[name] = true
			}
		}
	}
	for _, c := range (&app{}).root().Commands() {
		if !c.Hidden && !named[c.Name()] {
			t.Errorf("the overview lacks %s", c.Name())
		}
		delete(named, c.Name())
	}
	for name := range named {
		t.Errorf("%s is no command", name)
	}
}

func TestSetup_wrongPassphrase(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	server, file := f.fake(t, "plain")
	c := f.connect(server...)
	_, code, _ := c.call(t.Context(), "append", map[string]any{"line": "x"})
	if code != "approval_pending" {
		t.Fatal(code)
	}
	id := f.awaitPending(f.open())
	other := filepath.Join(t.TempDir(), "other")
	write(t, other, "a wrong passphrase\n")
	if _, stderr, code := f.try("approvals", "approve", id, "--passphrase-file", other); code != 1 || !strings.Contains(stderr, "passphrase") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var p approvalJSON
	must(t, json.Unmarshal([]byte(f.run("approvals", "show", id, "--json")), &p))
	if p.State != "pending" || effects(t, file) != 0 {
		t.Fatalf("state %s", p.State)
	}
	if _, stderr, code := f.try("setup", "--passphrase-file", f.passFile); code != 1 || !strings.Contains(stderr, "--replace") {
		t.Fatalf("a second setup: exit %d: %s", code, stderr)
	}
}

func TestVerify_usage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, bundle := filepath.Join(dir, "keys.json"), filepath.Join(dir, "bundle.json")
	write(t, keys, `{"keys":[]}`)
	write(t, bundle, `{}`)
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 2}, {[]string{bundle}, 2}, {[]string{bundle, "--keys", dir + "/none"}, 2}, {[]string{dir + "/none", "--keys", keys}, 2},
		{[]string{bundle, bundle, "--keys", keys}, 2}, {[]string{bundle, "--keys", keys}, 1}, {[]string{"--help"}, 0},
		{[]string{bundle, "--keys", keys, "--json"}, 1},
	} {
		if out, stderr, code := output(t, exec.Command(built.verify, c.args...)); code != c.code {
			t.Errorf("%v: exit %d\n%s%s", c.args, code, out, stderr)
		}
	}
}

// The demo is the README's session: its lines are the README's, but for what differs each time.
func TestDemo(t *testing.T) {
	t.Parallel()
	out, stderr, code := output(t, exec.Command(built.counterfoil, "demo"))
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, stderr)
	}
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	_, session, ok := strings.Cut(string(readme), "$ counterfoil demo\n")
	if !ok {
		t.Fatal("the README has no session")
	}
	session, _, _ = strings.Cut(session, "```")
	want, got := strings.Split(strings.TrimSpace(session), "\n"), strings.Split(strings.TrimSpace(out), "\n")
	if len(want) != len(got) {
		t.Fatalf("the README has %d lines, the demo %d:\n%s", len(want), len(got), out)
	}
	for i := range want {
		w, _, _ := strings.Cut(want[i], "apr-")
		if !strings.HasPrefix(got[i], w) {
			t.Errorf("the README says\n%s\nand the demo\n%s", want[i], got[i])
		}
	}
}
