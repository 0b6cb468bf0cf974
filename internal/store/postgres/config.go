package postgres

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/counterfoil/counterfoil"
)

const (
	defaultSchema  = "counterfoil"
	oldestServer   = 140000
	connectTimeout = 5 * time.Second
)

// parseURL reads where the database is. No error of it repeats any part of the URL, which may hold a password.
func parseURL(text string) (cfg *pgxpool.Config, schema string, err error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, "", fail(counterfoil.CodeInvalidInput, "the database's address is not a postgres:// URL", nil)
	}
	if cfg, err = pgxpool.ParseConfig(text); err != nil {
		return nil, "", fail(counterfoil.CodeInvalidInput, "the database's URL can't be read; a special character in a password is written as %XX", nil)
	}
	c := cfg.ConnConfig
	if c.Database == "" || c.User == "" {
		return nil, "", fail(counterfoil.CodeInvalidInput, "the database's URL names no database or no user", nil)
	}
	schema = defaultSchema
	if path, ok := c.RuntimeParams["search_path"]; ok {
		schema = path
		delete(c.RuntimeParams, "search_path")
	}
	if !isSchema(schema) {
		return nil, "", fail(counterfoil.CodeInvalidInput, "search_path names one schema, by lower-case letters, digits and _", nil)
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "counterfoil"
	}
	if !strings.Contains(u.RawQuery, "connect_timeout=") {
		c.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(u.RawQuery, "pool_max_conns=") {
		cfg.MaxConns = poolSize
	}
	want := settings(schema)
	for name := range c.RuntimeParams {
		if strings.HasSuffix(name, "_timeout") {
			delete(want, name) // the operator's own
		}
	}
	first := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if first != nil {
			if err := first(ctx, conn); err != nil {
				return err
			}
		}
		return prepare(ctx, conn, want)
	}
	return cfg, schema, nil
}

func isSchema(s string) bool {
	return len(s) > 0 && len(s) < 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" &&
		(s[0] < '0' || s[0] > '9') && !strings.HasPrefix(s, "pg_")
}

// settings are what every session must have, whatever the server's, the database's or the role's defaults say. Times and
// text don't depend on the place; nothing is acknowledged before it is durable; no lock is waited for, and none held by
// somebody who has gone, for ever; rows are found by index, since plans are made once and those for empty tables live on.
func settings(schema string) map[string]string {
	return map[string]string{
		"search_path": schema + ", pg_temp", "client_encoding": "UTF8", "standard_conforming_strings": "on", "TimeZone": "UTC", "DateStyle": "ISO, MDY",
		"default_transaction_isolation": "read committed", // of single statements
		"lock_timeout":                  "20s", "statement_timeout": "30s", "idle_in_transaction_session_timeout": "20s",
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off", "work_mem": "16MB",
		"plan_cache_mode": "force_generic_plan", // a plan for arrays of any length: planning anew costs more than running
	}
}

// prepare checks the server behind a new connection and makes the session ours.
func prepare(ctx context.Context, conn *pgconn.PgConn, want map[string]string) error {
	var set strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		set.WriteString(`, set_config('` + name + `', '` + want[name] + `', false)`)
	}
	results, err := conn.Exec(ctx, `SELECT current_setting('server_version_num'), pg_is_in_recovery(), current_setting('server_encoding'),
			current_setting('fsync'), current_setting('full_page_writes'), current_setting('default_transaction_read_only'),
			set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)`+
		set.String()).ReadAll()
	if err != nil {
		return err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 7+len(want) {
		return fail(counterfoil.CodeUnavailable, "the server does not answer as PostgreSQL does", nil)
	}
	row := make([]string, 0, 7+len(want))
	for _, v := range results[0].Rows[0] {
		row = append(row, string(v))
	}
	return judge(row)
}

// judge refuses a server that could lose what it has acknowledged, or can't keep it.
func judge(row []string) error {
	version, err := strconv.Atoi(row[0])
	switch {
	case err != nil || version < oldestServer:
		return fail(counterfoil.CodeUnavailable, "the server is older than PostgreSQL 14", nil)
	case row[1] != "f":
		return fail(counterfoil.CodeUnavailable, "the server is a read-only replica", nil)
	case row[2] != "UTF8":
		return fail(counterfoil.CodeUnavailable, "the database's encoding is not UTF8", nil)
	case row[3] != "on":
		return fail(counterfoil.CodeUnavailable, "the server runs with fsync off: it can lose what it has acknowledged", nil)
	case row[4] != "on":
		return fail(counterfoil.CodeUnavailable, "the server runs with full_page_writes off: a power cut can damage it", nil)
	case row[5] != "off":
		return fail(counterfoil.CodeUnavailable, "the database is read-only by its setting default_transaction_read_only", nil)
	case row[6] != "on" && row[6] != "remote_apply":
		return fail(counterfoil.CodeUnavailable, "the server does not take synchronous_commit on", nil)
	}
	return nil
}

// connectError says in words for a person why there is no connection.
func connectError(err error) error {
	if e, ok := errors.AsType[*counterfoil.Error](err); ok {
		return e // of prepare; what the driver wraps it in names parts of the URL
	}
	code, msg := counterfoil.CodeUnavailable, "the database can't be reached"
	switch state := sqlState(err); {
	case strings.HasPrefix(state, "28"):
		msg = "the database does not accept the user or the password"
	case state == "3D000":
		msg = "there is no such database"
	case state == "53300":
		msg = "the database has no connection left"
	case strings.HasPrefix(state, "57P"):
		msg = "the database is starting or stopping"
	case strings.HasPrefix(state, "42"), strings.HasPrefix(state, "22"):
		code, msg = counterfoil.CodeInvalidInput, "the database does not take a parameter of its URL"
	case state != "":
		msg = "the database refuses the connection"
	}
	return fail(code, msg, err)
}

// acquireError tells a pool that has no connection left from a database that can't be reached.
func acquireError(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return connectError(err)
	}
	return fail(counterfoil.CodeUnavailable, "no connection to the database is free; nothing was recorded", err)
}
