package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func exec(t testing.TB, address string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // it goes with the server
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// with returns the URL with a parameter set.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// wantRefused opens the database and expects a refusal in words, that gives no secret away, causes and all.
func wantRefused(t *testing.T, address string, o postgres.Options, code counterfoil.Code, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := postgres.Open(ctx, address, o)
	if err == nil {
		_ = s.Close()
		t.Fatal("it opened")
	}
	if counterfoil.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, not %s with %q", err, code, words)
	}
	said := fmt.Sprintf("%+v %#v %s", err, err, chain(err))
	for _, secret := range []string{"s3cr3t", "w0rd", "%40s3"} {
		if strings.Contains(said, secret) {
			t.Errorf("the error gives %q away: %s", secret, said)
		}
	}
}

// chain says what an error and all its causes say.
func chain(err error) string {
	switch e := err.(type) { //nolint:errorlint // this walks the chain
	case nil:
		return ""
	case interface{ Unwrap() []error }:
		said := err.Error()
		for _, c := range e.Unwrap() {
			said += "\n" + chain(c)
		}
		return said
	default:
		return err.Error() + "\n" + chain(errors.Unwrap(err))
	}
}

func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	o := options(storetest.Start)
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() }) // nobody reads from it
	fresh := server.Fresh(t)
	full := server.Fresh(t)
	exec(t, full, `CREATE SCHEMA counterfoil`, `CREATE TABLE counterfoil.others (n int)`)
	alike := server.Fresh(t)
	exec(t, alike, `CREATE SCHEMA counterfoil`, `CREATE TABLE counterfoil.store (n int)`)
	ascii := server.Fresh(t)
	exec(t, ascii, `CREATE DATABASE ascii ENCODING LATIN1 TEMPLATE template0`)
	exec(t, ascii, `CREATE ROLE weak LOGIN`, `CREATE ROLE locked LOGIN CONNECTION LIMIT 0`)
	u, err := url.Parse(ascii)
	must(t, err)
	u.Path = "/ascii"
	made := func(statements ...string) string {
		address := server.Fresh(t)
		s, err := postgres.Open(t.Context(), address, o)
		must(t, err)
		must(t, s.Close())
		exec(t, address, statements...)
		return address
	}
	for name, row := range map[string]struct {
		address, words string
		code           counterfoil.Code
	}{
		"no URL":              {"", "postgres:// URL", counterfoil.CodeInvalidInput},
		"keywords":            {"host=h user=u password=s3cr3tw0rd dbname=d", "postgres:// URL", counterfoil.CodeInvalidInput},
		"another scheme":      {"mysql://u:s3cr3tw0rd@h/d", "postgres:// URL", counterfoil.CodeInvalidInput},
		"no database":         {"postgres://u:s3cr3tw0rd@127.0.0.1:1", "no database", counterfoil.CodeInvalidInput},
		"a slash in it":       {"postgres://u:s3cr3t/w0rd@h:5432/d", "postgres:// URL", counterfoil.CodeInvalidInput},
		"a percent in it":     {"postgres://u:s3cr3t%zzw0rd@h/d", "postgres:// URL", counterfoil.CodeInvalidInput},
		"a number before it":  {"postgres://u:12/s3cr3tw0rd@h/d?connect_timeout=1", "", counterfoil.CodeUnavailable},
		"a bad parameter":     {"postgres://u:s3cr3tw0rd@h/d?sslmode=s3cr3tw0rd", "%XX", counterfoil.CodeInvalidInput},
		"two schemas":         {with(t, fresh, "search_path", "a,b"), "search_path", counterfoil.CodeInvalidInput},
		"a system's schema":   {with(t, fresh, "search_path", "pg_catalog"), "search_path", counterfoil.CodeInvalidInput},
		"unreachable":         {"postgres://bob:a@s3cr3tw0rd@127.0.0.1:1/d?password=s3cr3tw0rd2&sslpassword=s3cr3tw0rd3", "can't be reached", counterfoil.CodeUnavailable},
		"unknown host":        {"postgres://u:s3cr3tw0rd@nowhere.invalid/d", "can't be reached", counterfoil.CodeUnavailable},
		"silent":              {"postgres://u:s3cr3tw0rd@" + silent.Addr().String() + "/d?connect_timeout=1", "can't be reached", counterfoil.CodeUnavailable},
		"no such database":    {strings.Replace(fresh, "/test_", "/s3cr3tw0rd_", 1), "no such database", counterfoil.CodeUnavailable},
		"no such user":        {with(t, fresh, "user", "s3cr3tw0rd"), "does not accept", counterfoil.CodeUnavailable},
		"no connection left":  {with(t, ascii, "user", "locked"), "no connection left", counterfoil.CodeUnavailable},
		"no right to make it": {with(t, ascii, "user", "weak"), "can't be written", counterfoil.CodeUnavailable},
		"unknown setting":     {with(t, fresh, "nonsense", "s3cr3tw0rd"), "parameter", counterfoil.CodeInvalidInput},
		"read-only":           {server.Fresh(t, "default_transaction_read_only=on"), "read-only", counterfoil.CodeUnavailable},
		"another encoding":    {u.String(), "UTF8", counterfoil.CodeUnavailable},
		"another program":     {full, "another program", counterfoil.CodeIntegrityFailed},
		"looks like ours":     {alike, "another program", counterfoil.CodeIntegrityFailed},
		"newer":               {made(`UPDATE counterfoil.store SET schema = schema + 1`), "newer", counterfoil.CodeIntegrityFailed},
		"emptied":             {made(`DELETE FROM counterfoil.store`), "restore", counterfoil.CodeIntegrityFailed},
		"a table is gone":     {made(`DROP TABLE counterfoil.once`), "lacks tables", counterfoil.CodeIntegrityFailed},
		"another audience":    {made(`UPDATE counterfoil.store SET audience = 'other'`), "another audience", counterfoil.CodeIntegrityFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, row.address, o, row.code, row.words)
		})
	}
	for name, spoil := range map[string]func(*postgres.Options){
		"audience": func(o *postgres.Options) { o.Audience = "" }, "signer": func(o *postgres.Options) { o.Signer = nil },
		"names": func(o *postgres.Options) { o.Names = nil }, "clock": func(o *postgres.Options) { o.Now = nil },
		"lease": func(o *postgres.Options) { o.Lease = time.Millisecond },
	} {
		o := options(storetest.Start)
		spoil(&o)
		if _, err := postgres.Open(t.Context(), fresh, o); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A server that could lose what it has acknowledged, or that can't be written, is refused.
func TestOpen_server(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "fsync=off")
	address := s.Fresh(t)
	wantRefused(t, address, options(storetest.Start), counterfoil.CodeUnavailable, "fsync off")
	s.Crash(t)
	s.Restart(t, "full_page_writes=off")
	wantRefused(t, address, options(storetest.Start), counterfoil.CodeUnavailable, "full_page_writes off")
	data := filepath.Join(dataDir(t, address), "data")
	s.Crash(t)
	must(t, os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600))
	chown(t, filepath.Join(data, "standby.signal"))
	s.Restart(t)
	wantRefused(t, address, options(storetest.Start), counterfoil.CodeUnavailable, "read-only replica")
	s.Crash(t)
	must(t, os.Remove(filepath.Join(data, "standby.signal")))
	s.Restart(t)
	exec(t, address, `CREATE ROLE app LOGIN SUPERUSER PASSWORD 'right'`)
	hba := filepath.Join(data, "pg_hba.conf")
	must(t, os.WriteFile(hba, []byte("local all app scram-sha-256\nlocal all all trust\n"), 0o600))
	chown(t, hba)
	exec(t, address, `SELECT pg_reload_conf()`)
	app := with(t, address, "user", "app")
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(10 * time.Millisecond) { // until it is reloaded
		conn, err := pgx.Connect(t.Context(), app)
		if err != nil {
			break
		}
		must(t, conn.Close(t.Context()))
		if time.Now().After(deadline) {
			t.Fatal("the server believes everybody")
		}
	}
	wantRefused(t, with(t, app, "password", "s3cr3tw0rd"), options(storetest.Start), counterfoil.CodeUnavailable, "does not accept the user or the password")
	open(t, with(t, app, "password", "right"), options(storetest.Start))
}

// dataDir is the directory of a server's files, which lies beside its socket.
func dataDir(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Query().Get("host")
}

// Whatever the defaults of the database are, the sessions of the store are as they must be.
func TestOpen_settings(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t, "TimeZone=America/New_York", "DateStyle=German", "statement_timeout=2s", "lock_timeout=1", "synchronous_commit=off",
		"default_transaction_isolation=serializable", "search_path=nowhere", "bytea_output=escape", "IntervalStyle=iso_8601",
		"standard_conforming_strings=off", "enable_indexscan=off", "client_encoding=LATIN1")
	exec(t, address, `CREATE SCHEMA nowhere`)
	clock := storetest.NewClock()
	s := open(t, address, options(clock.Now))
	for _, ns := range []time.Duration{123456789, 999999999, 499} { // at the third the clock is behind
		clock.Move(ns - clock.Now().Sub(clock.Now().Truncate(time.Second)))
		must(t, s.Record(t.Context(), storetest.Refused(t, fmt.Sprint("call-", int64(ns)))))
	}
	_, claim, err := spend(t, s, "\U0001f600 ß", "run-1")
	must(t, err)
	l := &storetest.Ledger{Store: s, Case: storetest.Approved(t, "\U0001f600 ß", storetest.Start())}
	_, err = l.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	must(t, s.Close())
	s = open(t, address, options(clock.Now))
	log := readLog(t, s, storetest.Tenant)
	if len(log) != 5 {
		t.Fatalf("%d events", len(log))
	}
	for i, e := range log {
		if want := `"time":"` + e.At.Format("2006-01-02T15:04:05.000Z") + `"`; !strings.Contains(string(e.Body), want) {
			t.Errorf("event %d lacks %s: %s", i+1, want, e.Body)
		}
	}
	x, err := s.Execution(t.Context(), storetest.Tenant, "run-1")
	must(t, err)
	if string(x.DryRun) != string(l.Case.Dry.Canonical()) {
		t.Error("the dry run has other bytes")
	}
	healthy(t, s)
	for name, want := range map[string]string{
		"TimeZone": "UTC", "synchronous_commit": "on", "search_path": "counterfoil, pg_temp", "client_encoding": "UTF8", "statement_timeout": "30s",
	} {
		if got, err := s.Setting(name); err != nil || got != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// Replicas that start at the same time on an empty database make it once.
func TestOpen_together(t *testing.T) {
	t.Parallel()
	address := with(t, server.Fresh(t), "search_path", "elsewhere")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), address, options(storetest.Start))
			if err != nil {
				t.Error(err)
				return
			}
			_, _, err = spend(t, s, "a", "run-"+s.Process())
			if err != nil && !errors.Is(err, counterfoil.CodeAlreadyUsed) {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, address, options(storetest.Start))
	if n := len(readLog(t, s, storetest.Tenant)); n != 1 {
		t.Fatalf("%d events", n)
	}
	healthy(t, s)
}
