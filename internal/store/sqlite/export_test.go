package sqlite

import "database/sql"

// Faulty returns the options with a function that is asked at every stage of a transaction and makes it fail.
func (o Options) Faulty(f func(stage string) error) Options {
	o.fault = func(s stage) error { return f(string(s)) }
	return o
}

// Readers returns the pool of readers.
func (s *Store) Readers() *sql.DB { return s.read }
