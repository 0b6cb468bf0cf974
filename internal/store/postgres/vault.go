package postgres

import (
	"context"
	"errors"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/vault"
)

var (
	_ vault.SecretStore = (*Store)(nil)
	_ vault.Records     = (*Store)(nil)
)

// AddSecret implements vault.SecretStore. The lock of the tenant's log orders all who add at once.
func (s *Store) AddSecret(ctx context.Context, r vault.SecretRow, e counterfoil.Event) error {
	if err := errors.Join(names(r.Tenant, r.Name), proper(r.Tenant, e)); err != nil {
		return err
	}
	if r.Version < 1 || r.Created.IsZero() || len(r.Value) == 0 || len(r.Metadata) == 0 {
		return fail(counterfoil.CodeInvalidInput, "the secret's record is not complete", nil)
	}
	return s.transactIn(ctx, r.Tenant, func(t *tx) error {
		if err := t.nextVersion(r); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO vault_values (tenant, name, version, created, value, metadata) VALUES ($1, $2, $3, $4, $5, $6)`,
			r.Tenant, r.Name, r.Version, rowscan.Millis(r.Created), r.Value, r.Metadata); err != nil {
			return err
		}
		return t.append(r.Tenant, e, s.o.Now())
	})
}

// nextVersion raises a name's last version to the row's, if it follows and there is room.
func (t *tx) nextVersion(r vault.SecretRow) error {
	var last int64
	var names, versions int
	err := t.get(`SELECT coalesce((SELECT last FROM vault_names WHERE tenant = $1 AND name = $2), 0),
			(SELECT count(*) FROM vault_names WHERE tenant = $1), (SELECT count(*) FROM vault_values WHERE tenant = $1 AND name = $2)`,
		[]any{r.Tenant, r.Name}, &last, &names, &versions)
	switch {
	case err != nil:
		return err
	case r.Version != last+1:
		return vault.ErrChanged
	case last == 0 && names >= vault.MaxNames || versions >= vault.MaxVersions:
		return vault.ErrTooMany
	}
	_, err = t.exec(`INSERT INTO vault_names (tenant, name, last) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, name) DO UPDATE SET last = excluded.last`, r.Tenant, r.Name, r.Version)
	return err
}

// LastVersion implements vault.SecretStore.
func (s *Store) LastVersion(ctx context.Context, tenant, name string) (int64, error) {
	if err := texts(tenant, name); err != nil {
		return 0, err
	}
	var last int64
	err := s.get(ctx, `SELECT last FROM vault_names WHERE tenant = $1 AND name = $2`, []any{tenant, name}, &last)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return last, err
}

// Secret implements vault.SecretStore.
func (s *Store) Secret(ctx context.Context, tenant, name string, version int64) (vault.SecretRow, error) {
	found, err := list(ctx, s, `SELECT v.tenant, v.name, version, created, value, metadata
		FROM vault_values v JOIN vault_names n ON n.tenant = v.tenant AND n.name = v.name
		WHERE v.tenant = $1 AND v.name = $2 AND version = CASE $3::bigint WHEN 0 THEN last ELSE $3 END`, []any{tenant, name, version}, rowscan.Secret)
	if err == nil && len(found) == 0 {
		err = vault.ErrNotFound
	}
	if err != nil {
		return vault.SecretRow{}, err
	}
	return found[0], nil
}

// Secrets implements vault.SecretStore.
func (s *Store) Secrets(ctx context.Context, tenant, after string, limit int) ([]vault.SecretRow, error) {
	return list(ctx, s, `SELECT tenant, name, version, created, NULL::bytea, metadata FROM vault_values AS v WHERE tenant = $1 AND name > $2
		AND version = (SELECT max(version) FROM vault_values AS w WHERE w.tenant = $1 AND w.name = v.name)
		ORDER BY name LIMIT $3`, []any{tenant, after, page(limit)}, rowscan.Secret)
}

// SecretVersions implements vault.SecretStore.
func (s *Store) SecretVersions(ctx context.Context, tenant, name string) ([]vault.SecretRow, error) {
	return list(ctx, s, `SELECT tenant, name, version, created, NULL::bytea, metadata FROM vault_values WHERE tenant = $1 AND name = $2
		ORDER BY version DESC LIMIT $3`, []any{tenant, name, maxPage}, rowscan.Secret)
}

// DeleteSecret implements vault.SecretStore.
func (s *Store) DeleteSecret(ctx context.Context, tenant, name string, version int64, e counterfoil.Event) error {
	if err := errors.Join(names(tenant, name), proper(tenant, e)); err != nil {
		return err
	}
	if version < 0 {
		return fail(counterfoil.CodeInvalidInput, "the deletion is not complete", nil)
	}
	if last, err := s.LastVersion(ctx, tenant, name); err != nil {
		return err
	} else if last == 0 { // no log is made for a tenant that isn't there
		return vault.ErrNotFound
	}
	return s.transactIn(ctx, tenant, func(t *tx) error {
		n, err := t.exec(`DELETE FROM vault_values WHERE tenant = $1 AND name = $2 AND ($3::bigint = 0 OR version = $3)`, tenant, name, version)
		if err != nil {
			return err
		}
		if n == 0 {
			return vault.ErrNotFound
		}
		return t.append(tenant, e, s.o.Now())
	})
}
