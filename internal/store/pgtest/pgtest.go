// Package pgtest gives tests a real PostgreSQL server of their own, and a wire to it that they can cut.
//
// The server is as durable as one in use (fsync and synchronous_commit are on). It listens on a Unix socket in a directory
// of its own, and ends with the test binary however that ends. Where PostgreSQL is missing, tests are skipped, and fail when
// the environment variable CI is "true"; scripts/prereqs installs it. It is the newest one, or that whose programs are in the
// directory that PGTEST_BIN names. The files are in /tmp, or where PGTEST_DIR says: a short path that every user may pass.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// errMissing says that there is no PostgreSQL on this machine.
var errMissing = errors.New("PostgreSQL is not installed: run scripts/prereqs as root")

// patience is how long the server may take for anything.
const patience = time.Minute

// A Server is a PostgreSQL server. The zero Server is one that starts when its first database is asked for; its Run is what
// a TestMain calls.
type Server struct {
	mu      sync.Mutex
	started bool
	err     error // of the start
	c       cluster
	count   int // of databases
}

// Run runs the tests of a binary and ends the server after them. It returns the exit code:
//
//	var server pgtest.Server
//
//	func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
func (s *Server) Run(m *testing.M) int {
	defer s.stop()
	return m.Run()
}

// Start starts a server for one test, with settings of the form "name=value". It ends with the test.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return StartIn(tb, "", settings...)
}

// StartIn starts a server as Start does, with its files in a directory, which has a short path that every user may pass.
func StartIn(tb testing.TB, dir string, settings ...string) *Server {
	tb.Helper()
	s := &Server{}
	s.c.parent = dir
	tb.Cleanup(s.stop)
	s.need(tb, settings...)
	return s
}

// Ended reports whether the server's process has ended by itself. It may start itself anew after a crash: then it has not.
func (s *Server) Ended() bool {
	select {
	case <-s.c.ended:
		return true
	default:
		return false
	}
}

// need starts the server if nobody has yet.
func (s *Server) need(tb testing.TB, settings ...string) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.err = s.c.create(settings)
	}
	switch {
	case s.err == nil:
	case errors.Is(s.err, errMissing) && os.Getenv("CI") != "true":
		tb.Skip(s.err)
	default:
		tb.Fatal(s.err)
	}
}

func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.remove()
	s.err = errors.New("the server has ended")
}

// Fresh makes an empty database and returns its URL. Settings of the form "name=value" hold for every session in it. It
// goes with the server: to drop one flushes every file of the cluster, which costs more than all of the test.
func (s *Server) Fresh(tb testing.TB, settings ...string) string {
	tb.Helper()
	s.need(tb)
	name := s.name()
	statements := []string{"CREATE DATABASE " + name}
	for _, setting := range settings {
		key, value, ok := strings.Cut(setting, "=")
		if !ok {
			tb.Fatalf("setting %q is not name=value", setting)
		}
		statements = append(statements, fmt.Sprintf(`ALTER DATABASE %s SET "%s" = '%s'`, name, key, strings.ReplaceAll(value, "'", "''")))
	}
	s.make(tb, name, statements...)
	return s.url(name)
}

// Copy makes a database with all that another one, of the URL, holds by now, and returns its URL: an older state to go back
// to. Nobody may be connected to the other one.
func (s *Server) Copy(tb testing.TB, of string) string {
	tb.Helper()
	s.need(tb)
	u, err := url.Parse(of)
	if err != nil {
		tb.Fatal(err)
	}
	name := s.name()
	s.make(tb, name, "CREATE DATABASE "+name+" TEMPLATE "+pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize())
	return s.url(name)
}

// Crash ends the server as a power cut would, as far as its files go: nothing is written on the way, and the next start
// recovers from the log.
func (s *Server) Crash(tb testing.TB) {
	tb.Helper()
	s.need(tb)
	if err := s.c.crash(); err != nil {
		tb.Fatal(err)
	}
}

// Restart starts the server after a crash, with settings of the form "name=value". The URLs stay what they are.
func (s *Server) Restart(tb testing.TB, settings ...string) {
	tb.Helper()
	if err := s.c.start(settings); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return fmt.Sprintf("test_%d", s.count)
}

func (s *Server) url(database string) string { return s.c.url(database) }

func (s *Server) make(tb testing.TB, name string, statements ...string) {
	tb.Helper()
	if err := s.c.exec(statements...); err != nil {
		tb.Fatalf("making database %s: %v", name, err)
	}
}

// exec runs statements as the server's administrator.
func (c *cluster) exec(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url("postgres"))
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
	}
	return conn.Close(ctx)
}

// url names a database of the cluster, by its socket.
func (c *cluster) url(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.dir}, "user": {superuser}}.Encode()
}

// superuser is the administrator's name in the database. Whoever reaches the socket is believed: the directory is closed.
const superuser = "postgres"
