package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "test.db") }

// closeAfter closes when the test has ended.
func closeAfter(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// closed makes a database and closes it.
func closed(t *testing.T) string {
	t.Helper()
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every connection of every pool has every setting, the twentieth too, and again after idle ones were recycled.
func TestOpen_settings(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	open(t, path, options(storetest.Start))
	want := map[string]string{
		"journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000", "foreign_keys": "1", "trusted_schema": "0",
		"fullfsync": "1", "cell_size_check": "1", "application_id": "1128689484", "user_version": fmt.Sprint(sqlite.SchemaVersion()),
	}
	for name, db := range sqlite.Pools(path, 20) {
		closeAfter(t, db)
		want["query_only"] = map[string]string{"readers": "1", "writer": "0"}[name]
		for round := range 2 {
			conns := make([]*sql.Conn, 20)
			for i := range conns {
				c, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				conns[i] = c
				for pragma, value := range want {
					var got string
					if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != value {
						t.Errorf("%s, connection %d of round %d: %s is %q, not %q, %v", name, i, round, pragma, got, value, err)
					}
				}
			}
			for _, c := range conns {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			db.SetMaxIdleConns(0)
			db.SetMaxIdleConns(20)
		}
	}
}

func TestOpen_readersCantWrite(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	open(t, path, options(storetest.Start))
	for name, db := range sqlite.Pools(path, 1) {
		closeAfter(t, db)
		_, err := db.ExecContext(t.Context(), `UPDATE store SET probe = probe`)
		if (err != nil) != (name == "readers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpen_mode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	path := newPath(t)
	open(t, path, options(storetest.Start))
	err := filepath.Walk(filepath.Dir(path), func(name string, info os.FileInfo, err error) error {
		if err == nil && name != filepath.Dir(path) && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each file that is not a healthy database of ours is refused with a clear error, and left as it is.
func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	exec := func(t *testing.T, path, statements string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), statements); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write := func(t *testing.T, path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rows := []struct {
		name string
		code counterfoil.Code
		says string
		make func(t *testing.T, path string) // path is a healthy database
	}{
		{"directory", counterfoil.CodeIntegrityFailed, "not a regular file", func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}},
		{"link", counterfoil.CodeIntegrityFailed, "not a regular file", func(t *testing.T, path string) {
			if err := errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path)); err != nil {
				t.Fatal(err)
			}
		}},
		{"empty", counterfoil.CodeIntegrityFailed, "empty", func(t *testing.T, path string) { write(t, path, "") }},
		{"text", counterfoil.CodeIntegrityFailed, "not a database", func(t *testing.T, path string) { write(t, path, strings.Repeat("hello\n", 1000)) }},
		{"short", counterfoil.CodeIntegrityFailed, "test.db", func(t *testing.T, path string) { write(t, path, "SQLite format 3\x00") }},
		{"zeros", counterfoil.CodeIntegrityFailed, "not a database", func(t *testing.T, path string) { write(t, path, strings.Repeat("\x00", 8192)) }},
		{"cut off", counterfoil.CodeIntegrityFailed, "damaged", func(t *testing.T, path string) {
			if err := os.Truncate(path, 8192); err != nil {
				t.Fatal(err)
			}
		}},
		{"read-only", counterfoil.CodeUnavailable, "read-only", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o400); err != nil {
				t.Fatal(err)
			}
		}},
		{"open to others", counterfoil.CodeIntegrityFailed, "other users", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"another program's", counterfoil.CodeIntegrityFailed, "another program", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			exec(t, path, `CREATE TABLE notes (x); INSERT INTO notes VALUES (1)`)
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"newer", counterfoil.CodeIntegrityFailed, "newer", func(t *testing.T, path string) {
			exec(t, path, fmt.Sprintf(`PRAGMA user_version = %d`, sqlite.SchemaVersion()+1))
		}},
		{"no schema", counterfoil.CodeIntegrityFailed, "no schema", func(t *testing.T, path string) { exec(t, path, `PRAGMA user_version = 0`) }},
		{"other keys'", counterfoil.CodeIntegrityFailed, "other keys", func(t *testing.T, path string) {
			exec(t, path, `UPDATE store SET audience = 'counterfoil-other'`)
		}},
		{"log without database", counterfoil.CodeIntegrityFailed, "missing", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path+"-wal", "x")
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := closed(t)
			row.make(t, path)
			before, _ := os.ReadFile(path)
			s, err := sqlite.Open(t.Context(), path, options(storetest.Start))
			if err == nil {
				t.Fatal("it was opened", s.Close())
			}
			if counterfoil.CodeOf(err) != row.code || !strings.Contains(err.Error(), row.says) {
				t.Errorf("refused with: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			if entries, _ := os.ReadDir(filepath.Join(filepath.Dir(path), "procs")); len(entries) != 0 {
				t.Error("a sign of life was left")
			}
		})
	}
}

func TestOpen_rejects(t *testing.T) {
	t.Parallel()
	whole := options(storetest.Start)
	for name, spoil := range map[string]func(*sqlite.Options){
		"audience": func(o *sqlite.Options) { o.Audience = "" }, "signer": func(o *sqlite.Options) { o.Signer = nil },
		"clock": func(o *sqlite.Options) { o.Now = nil }, "names": func(o *sqlite.Options) { o.Names = nil },
	} {
		o := whole
		spoil(&o)
		if _, err := sqlite.Open(t.Context(), newPath(t), o); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such.db"), whole); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("no directory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Open(ctx, newPath(t), whole); err == nil {
		t.Error("cancelled, and opened")
	}
}

// A crash while the database is being made leaves none, and the next start makes it.
func TestOpen_halfMade(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	for _, leftover := range []string{".new", ".new-wal", ".new-shm", ".new-journal"} {
		if err := os.WriteFile(path+leftover, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, path, options(storetest.Start))
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".new") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func TestOpen_atOnce(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), path, options(storetest.Start))
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(s.Ready(t.Context()), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Names that mean something to URIs and to SQL are names of files and nothing else.
func TestOpen_strangeNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a%20b.db", "a#b.db", "a'b;--.db", ":memory:", "file:x.db", "ü.db"} {
		dir := t.TempDir()
		s := open(t, filepath.Join(dir, name), options(storetest.Start))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The file vanishes while it is open: writing fails, and no empty database takes its place.
func TestOpen_vanishes(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	for _, p := range sqlite.Pools(path, 1) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := p.PingContext(t.Context()); err == nil {
			t.Error("a new connection found a database where there is none")
		}
		closeAfter(t, p)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a new file was made")
	}
	_ = s.Ready(t.Context())
}

// The database's own rules hold against our own mistakes.
func TestSchema_rules(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t), options(storetest.Start))
	c := storetest.Approved(t, "a", storetest.Start())
	l := &storetest.Ledger{Store: s, Case: c}
	claim, err := l.Claim(t.Context(), "run-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Finish(t.Context(), claim, storetest.Start()); err != nil {
		t.Fatal(err)
	}
	for name, statement := range map[string]string{
		"an event changes":       `UPDATE events SET body = x'00'`,
		"an event goes":          `DELETE FROM events`,
		"a place twice":          `INSERT INTO events SELECT * FROM events`,
		"a short leaf":           `INSERT INTO events (place, at, phase, about, leaf) VALUES (99, 1, 'x', 'x', x'00')`,
		"an event about nothing": `INSERT INTO events (place, at, phase, about, leaf) VALUES (99, 1, 'x', '', zeroblob(32))`,
		"an event without place": `INSERT INTO events (place, at, phase, about, leaf) VALUES (2 << 40, 1, 'x', 'x', zeroblob(32))`,
		"a log without a name":   `INSERT INTO logs (tenant) VALUES ('')`,
		"a log goes":             `DELETE FROM logs`,
		"retired, not published": `UPDATE logs SET retired = 1`,
		"half a checkpoint":      `UPDATE logs SET published = 1, note = x'00'`,
		"a large tile":           `INSERT INTO tiles VALUES (1, 0, 0, zeroblob(8224))`,
		"half a hash":            `INSERT INTO tiles VALUES (1, 0, 0, zeroblob(33))`,
		"a tile of nothing":      `INSERT INTO tiles VALUES (99, 0, 0, zeroblob(32))`,
		"a mark of nothing":      `INSERT INTO marks VALUES ('x', 'y', 0)`,
		"a line below zero":      `INSERT INTO counters VALUES ('x', 'y', -1)`,
		"a use goes":             `DELETE FROM executions`,
		"a use twice":            `INSERT INTO executions (number, tenant, id, process, approval, step, use, started, expires, consumption) SELECT number + 1, tenant, 'run-2', process, approval, step, use, started, expires, consumption FROM executions`,
		"an id twice":            `INSERT INTO executions (number, tenant, id, process, approval, step, use, started, expires, consumption) SELECT number + 1, tenant, id, process, approval, 'other', use, started, expires, consumption FROM executions`,
		"settled twice":          `UPDATE executions SET outcome = 'failed'`,
		"an outcome of our own":  `INSERT INTO executions (number, tenant, id, process, approval, step, use, started, expires, outcome, completed, settled, receipt, consumption) VALUES (98, 'x', 'y', 'p', zeroblob(32), 's', zeroblob(32), 1, 1, 'great', 1, 99, zeroblob(32), x'00')`,
		"documents change":       `UPDATE documents SET operation = x'00'`,
		"a receipt changes":      `UPDATE receipts SET body = x'00'`,
		"a receipt of nothing":   `INSERT INTO receipts (number, body) VALUES (99, x'00')`,
		"a waiter for nothing":   `INSERT INTO waiters (tenant, request, waiter, process) VALUES ('local', 'none', 'w', 'p')`,
		"a strange state":        `INSERT INTO requests (tenant, id, requester, key, state, upstream, tool, effect, created, expires) VALUES ('x', 'y', '', 'k', 'great', '', '', '', 1, 1)`,
		"spent by nobody":        `INSERT INTO requests (tenant, id, requester, key, state, upstream, tool, effect, created, expires) VALUES ('x', 'y', '', 'k', 'spent', '', '', '', 1, 1)`,
		"approved by nobody":     `INSERT INTO requests (tenant, id, requester, key, state, upstream, tool, effect, created, expires) VALUES ('x', 'y', '', 'k', 'approved', '', '', '', 1, 1)`,
		"text where a number is": `UPDATE store SET probe = 'x'`,
		"a value of no name":     `INSERT INTO vault_values (tenant, name, version, created, value, metadata) VALUES ('x', 'y', 1, 1, x'00', x'00')`,
		"a version of nothing":   `INSERT INTO vault_names VALUES ('x', 'y', 0)`,
		"a name without tenant":  `INSERT INTO vault_names VALUES ('', 'y', 1)`,
		"a key without proof":    `INSERT INTO vault_keys (id, proof, created) VALUES ('k', x'', 1)`,
		"two stores":             `INSERT INTO store (id, audience, created, probe) VALUES (2, 'x', 1, 1)`,
	} {
		if err := s.Write(statement); counterfoil.CodeOf(err) != counterfoil.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
}
