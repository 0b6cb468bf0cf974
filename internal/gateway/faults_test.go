package gateway_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A database that another program holds locked: the call is refused, nothing runs, and the next one works again.
func TestFault_locked(t *testing.T) {
	t.Parallel()
	f, u := setup(t), newUpstream()
	g := f.open(nil)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "counterfoil.db"))
	must(t, err)
	defer func() { must(t, db.Close()) }()
	c, err := db.Conn(t.Context())
	must(t, err)
	_, err = c.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	read := call(u, "resources/read", `{"uri":"x"}`, noHold)
	read.Method = "resources/read"
	g.do(t.Context(), read).want(t, gateway.Internal)
	if u.effects() != 0 {
		t.Fatal("an effect without a record")
	}
	_, err = c.ExecContext(t.Context(), "ROLLBACK")
	must(t, err)
	must(t, c.Close())
	g.do(t.Context(), read).want(t, "")
}

// A full disk: the call is refused, nothing runs, and once there is room again the next one works.
func TestFault_fullDisk(t *testing.T) {
	t.Parallel()
	f, u := setup(t), newUpstream()
	small := filepath.Join(t.TempDir(), "disk")
	must(t, os.Mkdir(small, 0o700))
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", small).CombinedOutput(); err != nil {
		t.Skipf("no small disk to be had: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
	must(t, os.CopyFS(small, os.DirFS(f.dir)))
	f.dir = small
	g := f.open(nil)
	read := call(u, "resources/read", `{"uri":"`+strings.Repeat("x", 20_000)+`"}`, noHold)
	read.Method = "resources/read"
	refused := false
	for range 200 {
		before := u.effects()
		out := g.do(t.Context(), read)
		if out.reason == "" {
			continue
		}
		if out.reason != gateway.Internal && out.reason != gateway.OutcomeUnknown {
			t.Fatal(out.err)
		}
		if out.reason == gateway.Internal && u.effects() != before {
			t.Fatal("an effect, and the caller was told that nothing ran")
		}
		refused = true
		break
	}
	if !refused {
		t.Fatal("the disk never filled up")
	}
	must(t, exec.CommandContext(t.Context(), "mount", "-o", "remount,size=64m", small).Run())
	await(t, "a call that works", func() (string, bool) { return "", g.do(t.Context(), read).reason == "" })
	await(t, "a receipt for every use", func() (string, bool) {
		after := ""
		for {
			list, err := g.store.Executions(t.Context(), tenant, after, 50)
			must(t, err)
			if len(list) == 0 {
				return "", true
			}
			for _, e := range list {
				if after = e.ID; e.Outcome == "" {
					return "", false
				}
			}
		}
	})
}

// A clock that jumps back by more than the log can bear refuses, and goes on when it is right again.
func TestFault_clockBack(t *testing.T) {
	t.Parallel()
	f, u := setup(t), newUpstream()
	g := f.open(nil)
	read := call(u, "resources/read", `{"uri":"x"}`, noHold)
	read.Method = "resources/read"
	g.do(t.Context(), read).want(t, "")
	f.clock.advance(-time.Hour)
	if out := g.do(t.Context(), read); out.reason == "" {
		t.Fatal("a call an hour before its own log")
	}
	f.clock.advance(time.Hour)
	g.do(t.Context(), read).want(t, "")
	if u.effects() != 2 {
		t.Fatalf("%d effects", u.effects())
	}
}
