package postgres

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
	if err := errors.Join(names(r.Tenant, name), proper(r.Tenant, e)); err != nil {
		return err
	}
	if kind == "" || r.At.IsZero() || !r.Until.After(r.At) {
		return fail(counterfoil.CodeInvalidInput, "the revocation is not complete", nil)
	}
	if _, err := s.Tenant(ctx, r.Tenant); errors.Is(err, gateway.ErrNotFound) { // no log is made for a tenant that isn't there
		return fail(counterfoil.CodeInvalidInput, "there is no such tenant", identity.ErrNoTenant)
	} else if err != nil {
		return err
	}
	return s.transactIn(ctx, r.Tenant, func(t *tx) error {
		n, err := t.exec(`INSERT INTO revoked_credentials AS had (tenant, kind, name, at, until) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (tenant, kind, name) DO UPDATE SET at = excluded.at, until = excluded.until
			WHERE had.kind = 'subject' AND excluded.at > had.at`, r.Tenant, kind, name, rowscan.Millis(r.At), rowscan.Millis(r.Until))
		if err != nil || n == 0 {
			return err // nothing but an error, or it is revoked already
		}
		log := t.heads[r.Tenant]
		if log == nil {
			return fail(counterfoil.CodeUnavailable, "the tenant's log is not there; nothing was recorded", nil)
		}
		if _, err := t.exec(`DELETE FROM revoked_credentials WHERE tenant = $1 AND until <= least($2::bigint, $3::bigint)`,
			r.Tenant, rowscan.Millis(r.At), rowscan.Millis(log.at)); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE marks SET value = value + 1 WHERE tenant = $1 AND name = $2`, r.Tenant, tenancy.MarkEpoch); err != nil {
			return err
		}
		return t.append(r.Tenant, e, s.o.Now())
	})
}

// CredentialRevoked implements identity.Store.
func (s *Store) CredentialRevoked(ctx context.Context, tenant, credential, subject string, issued time.Time) (bool, error) {
	if err := texts(tenant, credential, subject); err != nil {
		return false, err
	}
	var revoked bool
	err := s.get(ctx, `SELECT EXISTS (SELECT 1 FROM revoked_credentials WHERE tenant = $1
		AND (kind = 'credential' AND name = $2 OR kind = 'subject' AND name = $3 AND at >= $4))`,
		[]any{tenant, credential, subject, rowscan.Millis(issued)}, &revoked)
	return revoked, err
}
