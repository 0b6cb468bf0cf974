package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// RevokeCredential implements identity.Store.
func (s *Store) RevokeCredential(ctx context.Context, r identity.Revocation, e counterfoil.Event) error {
	kind, name := r.Target()
	if err := named(r.Tenant, name); err != nil {
		return err
	}
	if kind == "" || r.At.IsZero() || !r.Until.After(r.At) || e.Tenant() != r.Tenant {
		return fail(counterfoil.CodeInvalidInput, "the revocation is not complete", nil)
	}
	if _, err := s.Tenant(ctx, r.Tenant); errors.Is(err, gateway.ErrNotFound) { // no log is made for a tenant that isn't there
		return fail(counterfoil.CodeInvalidInput, "there is no such tenant", identity.ErrNoTenant)
	} else if err != nil {
		return err
	}
	return s.commit(ctx, func(t *tx) error {
		h, err := t.head(r.Tenant)
		if err != nil {
			return err
		}
		n, err := t.exec(`INSERT INTO revoked_credentials (tenant, kind, name, at, until) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (tenant, kind, name) DO UPDATE SET at = excluded.at, until = excluded.until
			WHERE kind = 'subject' AND excluded.at > at`, r.Tenant, kind, name, rowscan.Millis(r.At), rowscan.Millis(r.Until))
		if err != nil || n == 0 {
			return err // nothing but an error, or it is revoked already
		}
		if _, err := t.exec(`DELETE FROM revoked_credentials WHERE tenant = ? AND until <= min(?, ?)`,
			r.Tenant, rowscan.Millis(r.At), rowscan.Millis(h.at)); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE marks SET value = value + 1 WHERE tenant = ? AND name = ?`, r.Tenant, tenancy.MarkEpoch); err != nil {
			return err
		}
		return second(t.append(r.Tenant, e, s.o.Now()))
	})
}

// CredentialRevoked implements identity.Store.
func (s *Store) CredentialRevoked(ctx context.Context, tenant, credential, subject string, issued time.Time) (bool, error) {
	var revoked bool
	err := s.get(ctx, `SELECT EXISTS (SELECT 1 FROM revoked_credentials WHERE tenant = ?1
		AND (kind = 'credential' AND name = ?2 OR kind = 'subject' AND name = ?3 AND at >= ?4))`,
		[]any{tenant, credential, subject, rowscan.Millis(issued)}, &revoked)
	return revoked, err
}
