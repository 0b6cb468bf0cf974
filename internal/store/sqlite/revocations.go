package sqlite

import (
	"bytes"
	"context"
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// Revoke implements gateway.Revocations.
func (s *Store) Revoke(ctx context.Context, tenant string, subject counterfoil.Digest, decision []byte, e counterfoil.Event) error {
	if tenant == "" || subject.IsZero() || len(decision) == 0 || e.Tenant() != tenant {
		return fail(counterfoil.CodeInvalidInput, "the revocation is not complete", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		before, err := rows(t, selectRevocations, []any{tenant, subject.String()}, scanDecision)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(before, func(b []byte) bool { return bytes.Equal(b, decision) }) {
			return nil // the same once more, after an answer that was lost
		}
		if _, err := t.exec(`INSERT INTO revocations (tenant, subject, decision) VALUES (?, ?, ?)`,
			tenant, subject.String(), decision); err != nil {
			return err
		}
		return t.append(tenant, e, s.o.Now())
	})
}

const selectRevocations = `SELECT decision FROM revocations WHERE tenant = ? AND subject = ? ORDER BY number`

func scanDecision(r scanner) ([]byte, error) {
	var decision []byte
	err := r.Scan(&decision)
	return decision, err
}

// Revocations implements gateway.Revocations.
func (s *Store) Revocations(ctx context.Context, tenant string, subject counterfoil.Digest) ([][]byte, error) {
	return list(ctx, s, selectRevocations, []any{tenant, subject.String()}, scanDecision)
}

// guard refuses a use that rests on something revoked. It asks once for all of them, since most tenants never revoke.
func (t *tx) guard(u *counterfoil.Use) error {
	if len(u.Guards) == 0 {
		return nil
	}
	subjects := append(make([]byte, 0, 80*len(u.Guards)), '[')
	for i, d := range u.Guards {
		if i > 0 {
			subjects = append(subjects, ',')
		}
		subjects = append(append(append(subjects, '"'), d.String()...), '"')
	}
	var revoked bool
	err := t.get(`SELECT EXISTS (SELECT 1 FROM revocations WHERE tenant = ? AND subject IN (SELECT value FROM json_each(?)))`,
		[]any{u.Tenant, string(append(subjects, ']'))}, &revoked)
	if err != nil {
		return err
	}
	if revoked {
		return fail(counterfoil.CodeRevoked, "the approval, or something that it rests on, was revoked", nil)
	}
	return nil
}

var _ gateway.Revocations = (*Store)(nil)

// Mark implements gateway.Marks.
func (s *Store) Mark(context.Context, string, string) (int64, error) {
	return 0, fail(counterfoil.CodeUnavailable, "this store has no marks yet", nil)
}

// Advance implements gateway.Marks.
func (s *Store) Advance(context.Context, string, string, int64, int64, counterfoil.Event) error {
	return fail(counterfoil.CodeUnavailable, "this store has no marks yet", nil)
}
