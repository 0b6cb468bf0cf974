package sqlite

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// PutSecret implements gateway.Sessions. A secret that is there gets the new expiry.
func (s *Store) PutSecret(ctx context.Context, kind, hash string, expires time.Time) error {
	if err := named(kind, hash); err != nil {
		return err
	}
	if expires.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "a secret has an end", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		_, err := t.exec(`INSERT INTO secrets (kind, hash, expires) VALUES (?, ?, ?)
			ON CONFLICT (kind, hash) DO UPDATE SET expires = excluded.expires`, kind, hash, rowscan.Millis(expires))
		return err
	})
}

// HasSecret implements gateway.Sessions.
func (s *Store) HasSecret(ctx context.Context, kind, hash string, now time.Time) (bool, error) {
	var there bool
	err := s.get(ctx, `SELECT EXISTS (SELECT 1 FROM secrets WHERE kind = ? AND hash = ? AND expires > ?)`,
		[]any{kind, hash, rowscan.Millis(now)}, &there)
	return there && err == nil, err
}

// TakeSecret implements gateway.Sessions.
func (s *Store) TakeSecret(ctx context.Context, kind, hash string, now time.Time) (bool, error) {
	var n int64
	err := s.commit(ctx, func(t *tx) (err error) {
		n, err = t.exec(`DELETE FROM secrets WHERE kind = ? AND hash = ? AND expires > ?`, kind, hash, rowscan.Millis(now))
		return err
	})
	return err == nil && n == 1, err
}
