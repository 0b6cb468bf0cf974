package postgres

import (
	"context"
	"errors"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

const selectHook = `SELECT ` + rowscan.HookColumns + ` FROM hooks WHERE tenant = $1`

// wholeHook refuses a row that can't be stored, or whose event is another tenant's.
func (s *Store) wholeHook(ctx context.Context, r *hooks.Row, e counterfoil.Event) error {
	if err := names(r.Tenant, r.ID); err != nil {
		return err
	}
	if !r.Whole() {
		return fail(counterfoil.CodeInvalidInput, "the hook is not complete", nil)
	}
	return s.home(ctx, r.Tenant, e)
}

// AddHook implements hooks.Store.
func (s *Store) AddHook(ctx context.Context, r hooks.Row, e counterfoil.Event) error {
	if err := s.wholeHook(ctx, &r, e); err != nil {
		return err
	}
	return s.transactIn(ctx, r.Tenant, func(t *tx) error {
		n, err := t.exec(`INSERT INTO hooks (tenant, id, phase, version, body, secret) SELECT $1, $2, $3, 1, $4, $5
			WHERE (SELECT count(*) FROM hooks WHERE tenant = $1 AND phase = $3) < $6`,
			r.Tenant, r.ID, string(r.Phase), r.Body, orNull(r.Secret), hooks.MaxPerPhase)
		if err != nil {
			return err
		}
		if n == 0 {
			return hooks.ErrTooMany
		}
		return t.append(r.Tenant, e, s.o.Now())
	})
}

// orNull stores nothing as NULL.
func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Hook implements hooks.Store.
func (s *Store) Hook(ctx context.Context, tenant, id string) (hooks.Row, error) {
	x, err := one(list(ctx, s, selectHook+` AND id = $2`, []any{tenant, id}, rowscan.Hook))
	if errors.Is(err, gateway.ErrNotFound) {
		return hooks.Row{}, hooks.ErrNotFound
	} else if err != nil {
		return hooks.Row{}, err
	}
	return x, nil
}

// Hooks implements hooks.Store.
func (s *Store) Hooks(ctx context.Context, tenant string) ([]hooks.Row, error) {
	return list(ctx, s, selectHook+` ORDER BY id`, []any{tenant}, rowscan.Hook)
}

// ChangeHook implements hooks.Store.
func (s *Store) ChangeHook(ctx context.Context, r hooks.Row, e counterfoil.Event) error {
	if err := s.wholeHook(ctx, &r, e); err != nil {
		return err
	}
	return s.transactIn(ctx, r.Tenant, func(t *tx) error {
		n, err := t.exec(`UPDATE hooks SET version = version + 1, body = $1, secret = $2 WHERE tenant = $3 AND id = $4 AND phase = $5 AND version = $6`,
			r.Body, orNull(r.Secret), r.Tenant, r.ID, string(r.Phase), r.Version)
		if err != nil {
			return err
		}
		if n == 0 {
			return t.missingHook(r.Tenant, r.ID)
		}
		return t.append(r.Tenant, e, s.o.Now())
	})
}

// missingHook says why a hook was not changed.
func (t *tx) missingHook(tenant, id string) error {
	var there bool
	if err := t.get(`SELECT EXISTS (SELECT 1 FROM hooks WHERE tenant = $1 AND id = $2)`, []any{tenant, id}, &there); err != nil {
		return err
	}
	if there {
		return hooks.ErrChanged
	}
	return hooks.ErrNotFound
}

// DeleteHook implements hooks.Store.
func (s *Store) DeleteHook(ctx context.Context, tenant, id string, e counterfoil.Event) error {
	if err := names(tenant, id); err != nil {
		return err
	}
	if err := s.home(ctx, tenant, e); err != nil {
		return err
	}
	return s.transactIn(ctx, tenant, func(t *tx) error {
		n, err := t.exec(`DELETE FROM hooks WHERE tenant = $1 AND id = $2`, tenant, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return hooks.ErrNotFound
		}
		return t.append(tenant, e, s.o.Now())
	})
}
