package sqlite

import (
	"context"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

const selectTenant = `SELECT ` + rowscan.TenantColumns + ` FROM tenants JOIN marks ON tenant = id AND name = '` + tenancy.MarkEpoch + `'`

// CreateTenant implements tenancy.Store.
func (s *Store) CreateTenant(ctx context.Context, r tenancy.Record, e counterfoil.Event) error {
	if err := named(r.ID); err != nil {
		return err
	}
	if r.Epoch != 1 || len(r.Body) == 0 || e.Tenant() != r.ID {
		return fail(counterfoil.CodeInvalidInput, "the tenant's record is not complete", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`INSERT INTO tenants (id, created, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, r.ID, rowscan.Millis(r.Created), r.Body)
		if err != nil {
			return err
		}
		if n == 0 {
			return fail(counterfoil.CodeInvalidInput, "there is such a tenant already", tenancy.ErrExists)
		}
		if _, err := t.exec(`INSERT INTO marks (tenant, name, value) VALUES (?, ?, 1)`, r.ID, tenancy.MarkEpoch); err != nil {
			return err
		}
		return second(t.append(r.ID, e, s.o.Now()))
	})
}

// Tenant implements tenancy.Store.
func (s *Store) Tenant(ctx context.Context, id string) (tenancy.Record, error) {
	x, err := rowscan.Tenant(s.read.QueryRowContext(ctx, selectTenant+` WHERE id = ?`, id))
	if err != nil {
		return tenancy.Record{}, readError(err)
	}
	return x, nil
}

// Tenants implements tenancy.Store.
func (s *Store) Tenants(ctx context.Context, after string, limit int) ([]tenancy.Record, error) {
	return list(ctx, s, selectTenant+` WHERE id > ? ORDER BY id LIMIT ?`, []any{after, min(max(limit, 0), maxPage)}, rowscan.Tenant)
}

// ChangeTenant implements tenancy.Store.
func (s *Store) ChangeTenant(ctx context.Context, r tenancy.Record, e counterfoil.Event) error {
	if err := named(r.ID); err != nil {
		return err
	}
	if r.Epoch < 1 || len(r.Body) == 0 || e.Tenant() != r.ID {
		return fail(counterfoil.CodeInvalidInput, "the tenant's record is not complete", nil)
	}
	if _, err := s.Tenant(ctx, r.ID); err != nil { // no log is made for a tenant that isn't there
		return err
	}
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE marks SET value = value + 1 WHERE tenant = ? AND name = ? AND value = ?`, r.ID, tenancy.MarkEpoch, r.Epoch)
		if err != nil {
			return err
		}
		if n == 0 {
			return fail(counterfoil.CodePolicyDenied, "the tenant stands elsewhere", gateway.ErrChanged)
		}
		if _, err := t.exec(`UPDATE tenants SET body = ? WHERE id = ?`, r.Body, r.ID); err != nil {
			return err
		}
		return second(t.append(r.ID, e, s.o.Now()))
	})
}
