package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil/internal/store/pgtest"
)

// ways are the ways of sending a transaction that inserts n.
func ways() map[string]func(ctx context.Context, c *pgx.Conn, n int) error {
	return map[string]func(ctx context.Context, c *pgx.Conn, n int) error{
		"statements": func(ctx context.Context, c *pgx.Conn, n int) error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO a VALUES ($1)", n)
				return err
			})
		},
		"prepared": func(ctx context.Context, c *pgx.Conn, n int) error {
			for name, text := range map[string]string{"b": "begin", "i": "insert into a values ($1)", "c": "commit"} {
				if _, err := c.Prepare(ctx, name, text); err != nil {
					return err
				}
			}
			if _, err := c.Exec(ctx, "b"); err != nil {
				return err
			}
			if _, err := c.Exec(ctx, "i", n); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "c")
			return err
		},
		"pipeline": func(ctx context.Context, c *pgx.Conn, n int) error {
			b := &pgx.Batch{}
			b.Queue("BEGIN")
			b.Queue("SAVEPOINT s")
			b.Queue("INSERT INTO a VALUES (-$1::int)", n)
			b.Queue("ROLLBACK TO SAVEPOINT s")
			b.Queue("INSERT INTO a VALUES ($1)", n)
			b.Queue("COMMIT")
			return c.SendBatch(ctx, b).Close()
		},
		"implicit pipeline": func(ctx context.Context, c *pgx.Conn, n int) error {
			b := &pgx.Batch{}
			b.Queue("SELECT b FROM a WHERE b < $1", n)
			b.Queue("INSERT INTO a VALUES ($1)", n)
			return c.SendBatch(ctx, b).Close()
		},
		"implicit": func(ctx context.Context, c *pgx.Conn, n int) error {
			_, err := c.Exec(ctx, "INSERT INTO a VALUES ($1)", n)
			return err
		},
		"one text": func(ctx context.Context, c *pgx.Conn, n int) error {
			_, err := c.Exec(ctx, "BEGIN; INSERT INTO a VALUES ($1); COMMIT", pgx.QueryExecModeSimpleProtocol, n)
			return err
		},
	}
}

// The second commit is cut: what the server has of it is nothing, or all.
func TestWire_cut(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		for _, after := range []bool{false, true} {
			t.Run(map[bool]string{false: "before ", true: "after "}[after]+name, func(t *testing.T) {
				t.Parallel()
				url := server.Fresh(t)
				direct := connect(t, url)
				exec(t, direct, "CREATE TABLE a (b int)")
				w := pgtest.NewWire(t, url)
				conn := connect(t, w.URL())
				if w.Commits() != 0 {
					t.Fatalf("%d commits before the first", w.Commits())
				}
				set, want := w.CutBefore, 10
				if after {
					set, want = w.CutAfter, 30
				}
				sprung := set(2, "")
				if err := way(t.Context(), conn, 10); err != nil {
					t.Fatal(err)
				}
				if err := way(t.Context(), conn, 20); err == nil {
					t.Fatal("the second was not cut")
				}
				<-sprung
				if got := sum(t, direct); got != want {
					t.Fatalf("the server has %d, not %d", got, want)
				}
				if w.Commits() != 2 {
					t.Fatalf("%d commits", w.Commits())
				}
				// What comes next is let through.
				if err := way(t.Context(), connect(t, w.URL()), 100); err != nil {
					t.Fatal(err)
				}
				if got := sum(t, direct); got != want+100 {
					t.Fatalf("the server has %d", got)
				}
			})
		}
	}
}

func sum(t *testing.T, c *pgx.Conn) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), "SELECT coalesce(sum(b), 0) FROM a").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Commits can be told apart by what their transactions say; reads and rollbacks are none.
func TestWire_having(t *testing.T) {
	t.Parallel()
	url := server.Fresh(t)
	direct := connect(t, url)
	exec(t, direct, "CREATE TABLE a (b int)")
	w := pgtest.NewWire(t, url)
	conn := connect(t, w.URL())
	sprung := w.CutBefore(1, "INTO a")
	exec(t, conn, "CREATE TABLE c (b int)")
	exec(t, conn, "BEGIN")
	exec(t, conn, "INSERT INTO c VALUES (1)")
	exec(t, conn, "COMMIT")
	exec(t, conn, "BEGIN")
	exec(t, conn, "INSERT INTO a VALUES (1)")
	exec(t, conn, "ROLLBACK")
	sum(t, conn)
	if w.Commits() != 2 {
		t.Fatalf("%d commits", w.Commits())
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO a VALUES (1)"); err == nil {
		t.Fatal("it was not cut")
	}
	<-sprung
	if got := sum(t, direct); got != 0 {
		t.Fatalf("the server has %d", got)
	}
}

func TestWire_refuse(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWire(t, server.Fresh(t))
	conn := connect(t, w.URL())
	w.Refuse(true)
	if _, err := pgx.Connect(t.Context(), w.URL()); err == nil {
		t.Fatal("a new connection was let through")
	}
	exec(t, conn, "SELECT 1")
	w.Cut()
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Fatal("the old connection is still there")
	}
	w.Refuse(false)
	exec(t, connect(t, w.URL()), "SELECT 1")
}

func TestWire_delay(t *testing.T) {
	t.Parallel()
	url := server.Fresh(t)
	exec(t, connect(t, url), "CREATE TABLE a (b int)")
	w := pgtest.NewWire(t, url)
	conn := connect(t, w.URL())
	const delay = 300 * time.Millisecond
	w.Delay(delay)
	begin := time.Now()
	exec(t, conn, "INSERT INTO a VALUES (1)")
	if d := time.Since(begin); d < delay {
		t.Fatalf("held up for %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), delay/10)
	defer cancel()
	if _, err := conn.Exec(ctx, "INSERT INTO a VALUES (1)"); err == nil {
		t.Fatal("it came back in time")
	}
}
