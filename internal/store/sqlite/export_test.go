package sqlite

import (
	"context"
	"database/sql"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
)

// Faulty returns the options with a function that is asked at every stage of a transaction and makes it fail.
func (o Options) Faulty(f func(stage string) error) Options {
	o.fault = func(s stage) error { return f(string(s)) }
	return o
}

// Pools returns pools of connections as the store's own are, by what they are for.
func Pools(path string, most int) map[string]*sql.DB {
	return map[string]*sql.DB{"readers": openPool(path, readOnly, most), "writer": openPool(path, readWrite, most)}
}

// SchemaVersion is the number of the current schema.
func SchemaVersion() int { return len(migrations()) }

// Stepped returns the options with more steps of migration than there are.
func (o Options) Stepped(more ...string) Options {
	o.steps = append(migrations(), more...)
	return o
}

// Write runs a statement of the test's own in a transaction of the store.
func (s *Store) Write(query string, args ...any) error {
	return s.commit(context.Background(), func(t *tx) error { _, err := t.exec(query, args...); return err })
}

// Kill ends the store's sign of life as the kernel does when a process is killed. It may be closed afterwards.
func (s *Store) Kill() error {
	spare, err := filelock.Try(s.process.file(s.process.id) + ".spare")
	if err != nil {
		return err
	}
	dead := s.process.lock
	s.process.lock = spare
	return dead.Release()
}

// Fail appends an event and then fails, or panics.
func (s *Store) Fail(e counterfoil.Event, panics bool) error {
	return s.commit(context.Background(), func(t *tx) error {
		if _, err := t.append(e.Tenant(), e, s.o.Now()); err != nil {
			return err
		}
		if panics {
			panic("as told")
		}
		return fail(counterfoil.CodeInvalidInput, "as told", nil)
	})
}

// Waiting returns how many members wait for a commit.
func (s *Store) Waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waiting)
}
