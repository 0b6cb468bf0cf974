package gateway_test

import (
	"database/sql"
	"path/filepath"
)

// events reads the log from the database file, beside the gateway.
func (f *fixture) events() [][]byte {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "counterfoil.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	must(f.t, err)
	defer func() { must(f.t, db.Close()) }()
	rows, err := db.QueryContext(f.t.Context(), "SELECT body FROM events ORDER BY number")
	must(f.t, err)
	defer func() { must(f.t, rows.Close()) }()
	var out [][]byte
	for rows.Next() {
		var b []byte
		must(f.t, rows.Scan(&b))
		out = append(out, b)
	}
	must(f.t, rows.Err())
	return out
}
