package sqlite

import (
	"bytes"
	"context"
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// Revoke implements gateway.Revocations.
func (s *Store) Revoke(ctx context.Context, tenant string, subject counterfoil.Digest, decision []byte, e counterfoil.Event) error {
	if err := named(tenant); err != nil {
		return err
	}
	if subject.IsZero() || len(decision) == 0 || e.Tenant() != tenant {
		return fail(counterfoil.CodeInvalidInput, "the revocation is not complete", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		before, err := rows(t, selectRevocations, []any{tenant, subject[:]}, scanDecision)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(before, func(b []byte) bool { return bytes.Equal(b, decision) }) {
			return nil // the same once more, after an answer that was lost
		}
		if _, err := t.exec(`INSERT INTO revocations (tenant, subject, decision) VALUES (?, ?, ?)`,
			tenant, subject[:], decision); err != nil {
			return err
		}
		if _, err := t.append(tenant, e, s.o.Now()); err != nil {
			return err
		}
		return t.revoked(tenant)
	})
}

// revoked remembers that the tenant's uses must be held against its revocations.
func (t *tx) revoked(tenant string) error {
	h, err := t.head(tenant)
	h.revoked = true
	t.changes.heads[tenant] = h
	return err
}

const selectRevocations = `SELECT decision FROM revocations WHERE tenant = ? AND subject = ? ORDER BY number`

func scanDecision(r rowscan.Scanner) ([]byte, error) {
	var decision []byte
	err := r.Scan(&decision)
	return decision, err
}

// Revocations implements gateway.Revocations.
func (s *Store) Revocations(ctx context.Context, tenant string, subject counterfoil.Digest) ([][]byte, error) {
	return list(ctx, s, selectRevocations, []any{tenant, subject[:]}, scanDecision)
}

// guard refuses a use that rests on something revoked.
func (t *tx) guard(u *counterfoil.Use) error {
	for _, subject := range u.Guards {
		var revoked bool
		err := t.get(`SELECT EXISTS (SELECT 1 FROM revocations WHERE tenant = ? AND subject = ?)`, []any{u.Tenant, subject[:]}, &revoked)
		if err != nil {
			return err
		}
		if revoked {
			return fail(counterfoil.CodeRevoked, "the approval, or something that it rests on, was revoked", nil)
		}
	}
	return nil
}
