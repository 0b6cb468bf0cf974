package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // reads the database beside the program

	"github.com/counterfoil/counterfoil/internal/store/pgtest"
)

// sql changes the database beside the program.
func (f *fixture) sql(query string) {
	f.t.Helper()
	db, err := sql.Open("pgx", f.store)
	must(f.t, err)
	defer func() { must(f.t, db.Close()) }()
	c, err := db.Conn(f.t.Context())
	must(f.t, err)
	defer func() { must(f.t, c.Close()) }()
	for _, q := range append([]string{`SET session_replication_role = replica`}, strings.Split(query, ";")...) { // without triggers
		_, err = c.ExecContext(f.t.Context(), q)
		must(f.t, err)
	}
}

// Two gateways on one database are one gate: what is proposed at one and approved at the other runs once, wherever the
// retry comes.
func TestPostgres_share(t *testing.T) {
	t.Parallel()
	a := onPostgres(t, "hold: 100ms")
	server, file := a.fake(t, "plain")
	s := a.open()
	b := a.replica()
	ca, cb := a.connect(server...), b.connect(server...)
	line := map[string]any{"line": "x"}
	if _, code, _ := ca.call(t.Context(), "append", line); code != "approval_pending" {
		t.Fatal(code)
	}
	id := b.approveNext(s)
	if text, code, err := cb.call(t.Context(), "append", line); code != "" || text != "done" {
		t.Fatalf("the retry: %q %q %v", text, code, err)
	}
	// Until the other gateway has noted that the answer arrived, it is handed to this caller too.
	a.await("the end of the answer", func() (string, bool) {
		_, code, _ := ca.call(t.Context(), "append", line)
		return "", code == "approval_pending"
	})
	if effects(t, file) != 1 {
		t.Fatalf("a replay: %d effects", effects(t, file))
	}
	var p approvalJSON
	must(t, json.Unmarshal([]byte(a.run("approvals", "show", id, "--json")), &p))
	if p.State != "spent" || p.Outcome != "succeeded" {
		t.Fatalf("%+v", p)
	}
	if out := b.verify(p.Receipt); !strings.Contains(out, "VERIFIED") {
		t.Fatal(out)
	}
	var proof proofJSON
	must(t, json.Unmarshal([]byte(a.run("audit", "proof", p.Receipt)), &proof))
	if proof.Started.Index >= proof.Completed.Index || !strings.Contains(string(proof.Completed.Event), p.Receipt) || len(proof.Started.Path) == 0 {
		t.Fatalf("%+v", proof)
	}
	if v := b.verdict(); !v.Verified {
		t.Fatalf("%+v", v)
	}
	for _, f := range []*fixture{a, b} {
		f.run("store", "status")
		f.run("store", "check")
	}
}

// 64 identical calls over two gateways: one person is asked once, and there is one effect.
func TestPostgres_identical(t *testing.T) {
	t.Parallel()
	a := onPostgres(t, "hold: 60s")
	server, file := a.fake(t, "slow")
	s := a.open()
	b := a.replica()
	clients := []*session{a.connect(server...), b.connect(server...)}
	var work sync.WaitGroup
	codes := make([]string, 64)
	for i := range codes {
		work.Go(func() { _, codes[i], _ = clients[i%2].call(t.Context(), "append", map[string]any{"line": "x"}) })
	}
	id := a.awaitPending(s)
	a.await("all callers", func() (string, bool) { return "", a.callers(id) == len(codes) })
	a.run("approvals", "approve", id, "--passphrase-file", a.passFile)
	work.Wait()
	for i, code := range codes {
		if code != "" {
			t.Errorf("call %d: %q", i, code)
		}
	}
	if n := effects(t, file); n != 1 {
		t.Fatalf("%d effects", n)
	}
}

func (f *fixture) callers(id string) (n int) {
	f.t.Helper()
	db, err := sql.Open("pgx", f.store)
	must(f.t, err)
	defer func() { must(f.t, db.Close()) }()
	must(f.t, db.QueryRowContext(f.t.Context(), `SELECT count(*) FROM counterfoil.waiters WHERE request = $1`, id).Scan(&n))
	return n
}

// A gateway that dies in the middle of a call: the other one settles it, once the lease has ended.
func TestPostgres_otherRecovers(t *testing.T) {
	t.Parallel()
	a := onPostgres(t, "hold: 30s")
	server, file := a.fake(t, "hang")
	s := a.open()
	b := a.replica()
	other := b.connect(server...) // with the duty of a gateway, and no call
	c := a.connect(server...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = c.call(t.Context(), "append", map[string]any{"line": "x"})
	}()
	a.approveNext(s)
	a.await("the effect", func() (string, bool) { return "", effects(t, file) == 1 })
	must(t, c.cmd.Process.Kill())
	died := time.Now()
	<-done
	id := a.await("the receipt", func() (string, bool) {
		list, err := s.store.Executions(t.Context(), tenant, "", 10)
		must(t, err)
		return list[0].ID, list[0].Outcome == "indeterminate"
	})
	if took := time.Since(died); took > 10*time.Second {
		t.Errorf("recovery took %v", took)
	}
	if out := b.verify(id); !strings.Contains(out, "recovery found it after a crash") {
		t.Fatal(out)
	}
	must(t, other.Close())
}

// The servers that people use, over PostgreSQL.
func TestPostgres_filesystem(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	server := npmServer(t, "filesystem", notes)
	a := onPostgres(t, "hold: 30s")
	s := a.open()
	c := a.connect(server...)
	out := filepath.Join(notes, "b.txt")
	done := make(chan string, 1)
	go func() {
		_, code, _ := c.call(t.Context(), "write_file", map[string]any{"path": out, "content": "beta"})
		done <- code
	}()
	a.replica().approveNext(s)
	if code := <-done; code != "" {
		t.Fatal(code)
	}
	if text, code, err := c.call(t.Context(), "read_text_file", map[string]any{"path": out}); text != "beta" || code != "" {
		t.Fatalf("%q %q %v", text, code, err)
	}
}

func TestPostgres_demo(t *testing.T) {
	t.Parallel()
	f := onPostgres(t)
	cmd := f.command("demo")
	if out, stderr, code := output(t, cmd); code != 0 || !strings.Contains(out, "9. ") {
		t.Fatalf("exit %d\n%s%s", code, out, stderr)
	}
	if out, _, _ := f.try("store", "status"); out != "" {
		t.Fatalf("the demo used another database: %s", out)
	}
}

// What the database is not fit for is said at the start, with a hint, and nothing is half done.
func TestPostgres_refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, f *fixture)
		want  string
	}{
		{"unreachable", func(_ *testing.T, f *fixture) { f.use("postgres://nobody@127.0.0.1:1/none?connect_timeout=2") }, "unavailable"},
		{"read-only", func(t *testing.T, f *fixture) { f.use(database.Fresh(t, "default_transaction_read_only=on")) }, "read-only"},
		{"foreign", func(t *testing.T, f *fixture) {
			other := setup(t)
			other.use(f.store)
			other.env, other.dir = other.env[len(other.env)-1:], f.dir
			fresh := filepath.Join(t.TempDir(), "fresh")
			must(t, os.Mkdir(fresh, 0o700))
			f.dir = fresh
		}, "integrity-failed"},
		{"newer", func(_ *testing.T, f *fixture) { f.sql(`UPDATE counterfoil.store SET schema = 999`) }, "newer"},
		{"shortened", func(_ *testing.T, f *fixture) {
			f.sql(`DELETE FROM counterfoil.events WHERE sequence > 3; UPDATE counterfoil.logs SET sequence = 3`)
		}, "shortened"},
		{"a file of its own, by mistake", func(_ *testing.T, f *fixture) { f.use("sqlite:") }, "0 events of it"},
		{"emptied", func(t *testing.T, f *fixture) { f.use(database.Fresh(t)) }, "0 events of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := onPostgres(t)
			f.logged(5)
			c.spoil(t, f)
			for _, args := range [][]string{{"approvals", "list"}, {"wrap", "--no-console", "--", "true"}, {"store", "status"}} {
				out, stderr, code := f.try(args...)
				if code != 1 || out != "" && args[0] != "store" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "counterfoil: hint: ") {
					t.Errorf("%v: exit %d: %s%s", args, code, out, stderr)
				}
			}
		})
	}
}

// A database that was set back is refused, by both sizes, until a person accepts it.
func TestPostgres_restored(t *testing.T) {
	t.Parallel()
	f := onPostgres(t)
	f.logged(5)
	old := database.Copy(t, f.store)
	f.logged(4)
	f.use(old)
	if _, stderr, code := f.try("approvals", "list"); code != 1 || !strings.Contains(stderr, "it has 5 events") || !strings.Contains(stderr, "has 9") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	f.run("store", "accept-restore")
	f.run("approvals", "list")
	f.logged(1)
	if v := f.verdict(); !v.Verified || v.Events != 6 {
		t.Fatalf("%+v", v)
	}
}

// While the database is away nothing runs and the caller is told so; when it is back calls go on, and nothing was
// remembered in memory alone.
func TestPostgres_away(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, "hold: 100ms")
	wire := pgtest.NewWire(t, f.store)
	direct := f.store
	server, file := f.fake(t, "plain")
	f.use(wire.URL())
	c := f.connect(server...)
	f.use(direct)
	s := f.open()
	line := map[string]any{"line": "x"}
	if _, code, _ := c.call(t.Context(), "append", line); code != "approval_pending" {
		t.Fatal(code)
	}
	f.approveNext(s)
	wire.Refuse(true)
	wire.Cut()
	for range 3 {
		if _, code, _ := c.call(t.Context(), "append", line); code == "" || code == "approval_pending" || effects(t, file) != 0 {
			t.Fatalf("without its database: %q, %d effects", code, effects(t, file))
		}
	}
	wire.Refuse(false)
	f.await("the approved call to go through", func() (string, bool) {
		_, code, _ := c.call(t.Context(), "append", line)
		return code, code == ""
	})
	if n := effects(t, file); n != 1 {
		t.Fatalf("%d effects", n)
	}
}

// A commit whose answer is lost: the call is not executed, its use is settled as cancelled, and the caller is told.
func TestPostgres_lostCommit(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, "hold: 30s")
	wire := pgtest.NewWire(t, f.store)
	direct := f.store
	server, file := f.fake(t, "plain")
	f.use(wire.URL())
	c := f.connect(server...)
	f.use(direct)
	s := f.open()
	codes := make(chan string, 1)
	go func() {
		_, code, _ := c.call(t.Context(), "append", map[string]any{"line": "x"})
		codes <- code
	}()
	id := f.awaitPending(s)
	wire.CutAfter(1, "executions")
	f.run("approvals", "approve", id, "--passphrase-file", f.passFile)
	if code := <-codes; code != "approval_void" || effects(t, file) != 0 {
		t.Fatalf("%q, %d effects", code, effects(t, file))
	}
	var p approvalJSON
	must(t, json.Unmarshal([]byte(f.run("approvals", "show", id, "--json")), &p))
	if p.State != "spent" || p.Outcome != "cancelled" {
		t.Fatalf("%+v", p)
	}
}
