package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// Revoke implements gateway.Revocations.
func (s *Store) Revoke(ctx context.Context, tenant string, subject counterfoil.Digest, decision []byte, e counterfoil.Event) error {
	if subject.IsZero() || len(decision) == 0 {
		return fail(counterfoil.CodeInvalidInput, "the revocation is not complete", nil)
	}
	if err := errors.Join(names(tenant), proper(tenant, e)); err != nil {
		return err
	}
	return s.transactIn(ctx, tenant, func(t *tx) error {
		before, err := rows(t, selectRevocations, []any{tenant, subject[:]}, rowscan.One[[]byte])
		if err != nil {
			return err
		}
		if slices.ContainsFunc(before, func(b []byte) bool { return bytes.Equal(b, decision) }) {
			return nil // the same once more, after an answer that was lost
		}
		if _, err := t.exec(`INSERT INTO revocations (tenant, subject, decision) VALUES ($1, $2, $3)`,
			tenant, subject[:], decision); err != nil {
			return err
		}
		return t.append(tenant, e, s.o.Now())
	})
}

const selectRevocations = `SELECT decision FROM revocations WHERE tenant = $1 AND subject = $2 ORDER BY number`

// Revocations implements gateway.Revocations.
func (s *Store) Revocations(ctx context.Context, tenant string, subject counterfoil.Digest) ([][]byte, error) {
	return list(ctx, s, selectRevocations, []any{tenant, subject[:]}, rowscan.One[[]byte])
}

// Mark implements gateway.Marks.
func (s *Store) Mark(ctx context.Context, tenant, name string) (int64, error) {
	var value int64
	err := s.get(ctx, `SELECT value FROM marks WHERE tenant = $1 AND name = $2`, []any{tenant, name}, &value)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return value, err
}

// Advance implements gateway.Marks.
func (s *Store) Advance(ctx context.Context, tenant, name string, from, to int64, e counterfoil.Event) error {
	if from < 0 || to <= from {
		return fail(counterfoil.CodeInvalidInput, "a mark only rises", nil)
	}
	if err := errors.Join(names(tenant, name), proper(tenant, e)); err != nil {
		return err
	}
	return s.transactIn(ctx, tenant, func(t *tx) error {
		query := `UPDATE marks SET value = $4 WHERE tenant = $1 AND name = $2 AND value = $3`
		if from == 0 {
			query = `INSERT INTO marks (tenant, name, value) SELECT $1, $2, $4 WHERE $3 = 0 ON CONFLICT DO NOTHING`
		}
		n, err := t.exec(query, tenant, name, from, to)
		if err != nil {
			return err
		}
		if n == 0 {
			return fail(counterfoil.CodePolicyDenied, "the mark stands elsewhere", gateway.ErrChanged)
		}
		return t.append(tenant, e, s.o.Now())
	})
}
