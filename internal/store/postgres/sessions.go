package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// PutSecret implements gateway.Sessions. A secret that is there gets the new expiry.
func (s *Store) PutSecret(ctx context.Context, kind, hash string, expires time.Time) error {
	if expires.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "a secret has an end", nil)
	}
	if err := names(kind, hash); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`INSERT INTO secrets (kind, hash, expires) VALUES ($1, $2, $3)
			ON CONFLICT (kind, hash) DO UPDATE SET expires = excluded.expires`, kind, hash, rowscan.Millis(expires))
		return err
	})
}

// HasSecret implements gateway.Sessions.
func (s *Store) HasSecret(ctx context.Context, kind, hash string, now time.Time) (bool, error) {
	var there bool
	err := s.get(ctx, `SELECT EXISTS (SELECT 1 FROM secrets WHERE kind = $1 AND hash = $2 AND expires > $3)`,
		[]any{kind, hash, rowscan.Millis(now)}, &there)
	if errors.Is(err, gateway.ErrNotFound) {
		return false, nil
	}
	return there && err == nil, err
}

// TakeSecret implements gateway.Sessions.
func (s *Store) TakeSecret(ctx context.Context, kind, hash string, now time.Time) (bool, error) {
	if names(kind, hash) != nil {
		return false, nil
	}
	var n int64
	err := s.transact(ctx, nil, func(t *tx) (err error) {
		n, err = t.exec(`DELETE FROM secrets WHERE kind = $1 AND hash = $2 AND expires > $3`, kind, hash, rowscan.Millis(now))
		return err
	})
	return n == 1 && err == nil, err
}
