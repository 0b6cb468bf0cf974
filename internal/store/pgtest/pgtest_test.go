package pgtest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil/internal/store/pgtest"
)

var server pgtest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// victim is set where TestKilled_victim is to wait for its death.
const victim = "COUNTERFOIL_TEST_VICTIM"

// TestKilled_victim is a test binary of its own, in the hands of TestKilled.
func TestKilled_victim(t *testing.T) {
	if os.Getenv(victim) == "" {
		t.Skip("TestKilled runs it")
	}
	fmt.Println("url", server.Fresh(t))
	<-t.Context().Done()
}

// A binary that is killed leaves neither a server nor its files.
func TestKilled(t *testing.T) {
	t.Parallel()
	server.Fresh(t) // skips where there is no server
	cmd := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled_victim$")
	cmd.Env = append(os.Environ(), victim+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "url ")
	if !ok {
		t.Fatalf("the victim said %q, %v", line, err)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(config.Host); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(config.Host); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", config.Host)
		}
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		t.Fatal("the server answers", conn.Close(t.Context()))
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func show(t *testing.T, conn *pgx.Conn, name string) (value string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestFresh(t *testing.T) {
	t.Parallel()
	one, two := connect(t, server.Fresh(t)), connect(t, server.Fresh(t, "TimeZone=America/New_York", "DateStyle=German, DMY"))
	for name, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "server_encoding": "UTF8"} {
		if got := show(t, one, name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	if show(t, two, "TimeZone") != "America/New_York" || show(t, two, "DateStyle") != "German, DMY" {
		t.Error("the settings of a database do not hold")
	}
	// The server sorts as people do, which is not how bytes sort: a store that does not say which it means is found out.
	var sorted string
	if err := one.QueryRow(t.Context(), "SELECT string_agg(x, '' ORDER BY x) FROM unnest('{a,B,c}'::text[]) AS x").Scan(&sorted); err != nil {
		t.Fatal(err)
	}
	if sorted != "aBc" {
		t.Logf("this PostgreSQL sorts by bytes: %s", sorted)
	}
	exec(t, one, "CREATE TABLE a (b int)")
	exec(t, two, "CREATE TABLE a (b int)")
}

func TestCopy(t *testing.T) {
	t.Parallel()
	url := server.Fresh(t)
	conn := connect(t, url)
	exec(t, conn, "CREATE TABLE a AS SELECT 1 AS b")
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	older := connect(t, server.Copy(t, url))
	exec(t, connect(t, url), "UPDATE a SET b = 2")
	var b int
	if err := older.QueryRow(t.Context(), "SELECT b FROM a").Scan(&b); err != nil || b != 1 {
		t.Fatal(b, err)
	}
}

// What was committed before a crash is there after it; what was not, is not.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "synchronous_commit=off")
	url := s.Fresh(t)
	conn := connect(t, url)
	if show(t, conn, "synchronous_commit") != "off" {
		t.Error("the settings of a server do not hold")
	}
	exec(t, conn, "CREATE TABLE a (b int)")
	exec(t, conn, "SET synchronous_commit = on")
	exec(t, conn, "INSERT INTO a VALUES (1)")
	exec(t, conn, "BEGIN")
	exec(t, conn, "INSERT INTO a VALUES (2)")
	s.Crash(t)
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Fatal("the server answers")
	}
	s.Restart(t)
	conn = connect(t, url)
	var sum int
	if err := conn.QueryRow(t.Context(), "SELECT sum(b) FROM a").Scan(&sum); err != nil || sum != 1 {
		t.Fatal(sum, err)
	}
	if show(t, conn, "synchronous_commit") != "on" {
		t.Error("a restart keeps old settings")
	}
}
