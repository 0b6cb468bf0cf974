package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// Faulty returns the options with a function that is asked at every stage of a transaction and makes it fail.
func (o Options) Faulty(f func(storetest.Stage) error) Options {
	o.fault = func(s stage) error { return f(storetest.Stage(s)) }
	return o
}

// SchemaVersion is the number of the current schema.
func SchemaVersion() int { return len(migrations()) }

// Write runs a statement of the test's own in a transaction of the store.
func (s *Store) Write(query string, args ...any) error {
	return s.transact(context.Background(), nil, func(t *tx) error { _, err := t.exec(query, args...); return err })
}

// Kill lets the store die as a killed process does: it says goodbye to nobody, and its lease runs out.
func (s *Store) Kill() {
	s.lease.stop()
	<-s.lease.done
	s.lease.mu.Lock()
	s.lease.drop(context.Background())
	s.lease.id = "" // so that Close gives up nobody's lease
	s.lease.mu.Unlock()
	_ = s.Close()
}

// Setting returns a setting of the session that commits for all.
func (s *Store) Setting(name string) (value string, err error) {
	s.lead <- struct{}{}
	defer func() { <-s.lead }()
	err = s.writer.QueryRow(context.Background(), `SELECT current_setting($1)`, name).Scan(&value)
	return value, err
}

// Exhaust takes every connection of the pool until release.
func (s *Store) Exhaust(ctx context.Context) (release func()) {
	var all []*pgxpool.Conn
	for range s.pool.Config().MaxConns {
		c, err := s.pool.Acquire(ctx)
		if err != nil {
			panic(err)
		}
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			c.Release()
		}
	}
}

// CheckAfter is what Check finds after a change that no trigger stops; the change is taken back.
func (s *Store) CheckAfter(ctx context.Context, change string) (found []string, err error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // that is its end
	for _, q := range []string{`SET LOCAL session_replication_role = replica`, change} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return nil, err
		}
	}
	return findings(ctx, tx)
}
