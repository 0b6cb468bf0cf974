package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// A watcher sees that anything was committed by any connection to the file but its own, and its own never commits.
type watcher struct {
	db *sql.DB

	mu    sync.Mutex
	conn  *sql.Conn
	epoch int64 // counts the connections: what they report can't be compared
}

func newWatcher(path string) *watcher { return &watcher{db: openPool(path, readOnly, 1)} }

// Version implements gateway.Rulings. It costs a look at the shared memory of the write-ahead log.
func (s *Store) Version(ctx context.Context) (int64, error) {
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		conn, err := w.db.Conn(ctx)
		if err != nil {
			return 0, readError(err)
		}
		w.conn = conn
		w.epoch++
	}
	var v int64
	if err := w.conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&v); err != nil {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = w.conn.Close()
		w.conn = nil
		return 0, readError(err)
	}
	return w.epoch<<32 | v&(1<<32-1), nil
}

func (w *watcher) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.conn != nil {
		err = w.conn.Close()
		w.conn = nil
	}
	return errors.Join(err, w.db.Close())
}
