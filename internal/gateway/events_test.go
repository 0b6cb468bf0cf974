package gateway_test

import (
	"database/sql"
	"path/filepath"
)

// query reads the database file, beside the gateway.
func (f *fixture) query(query string, args ...any) (out [][]byte) {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "counterfoil.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	must(f.t, err)
	defer func() { must(f.t, db.Close()) }()
	rows, err := db.QueryContext(f.t.Context(), query, args...)
	must(f.t, err)
	defer func() { must(f.t, rows.Close()) }()
	for rows.Next() {
		var b []byte
		must(f.t, rows.Scan(&b))
		out = append(out, b)
	}
	must(f.t, rows.Err())
	return out
}

// events returns the log.
func (f *fixture) events() [][]byte {
	f.t.Helper()
	return f.query("SELECT body FROM events ORDER BY place")
}

// waiters returns how many callers a request has.
func (f *fixture) waiters(id string) int {
	f.t.Helper()
	return len(f.query("SELECT waiter FROM waiters WHERE request = ?", id))
}

// exec changes the database file, beside the gateway.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "counterfoil.db")+"?_pragma=busy_timeout(5000)")
	must(f.t, err)
	defer func() { must(f.t, db.Close()) }()
	_, err = db.ExecContext(f.t.Context(), query, args...)
	must(f.t, err)
}
