package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

var _ ratelimit.Store = (*Store)(nil)

// Rate implements ratelimit.Store.
func (s *Store) Rate(ctx context.Context, k ratelimit.Key) ([]byte, error) {
	var state []byte
	err := s.get(ctx, selectRate, rateKey(k), &state)
	if errors.Is(err, gateway.ErrNotFound) {
		return nil, nil
	}
	return state, err
}

const selectRate = `SELECT state FROM rates WHERE tenant = ? AND principal = ? AND kind = ? AND tool = ?`

func rateKey(k ratelimit.Key) []any { return []any{k.Tenant, k.Principal, string(k.Kind), k.Tool} }

// UpdateRates implements ratelimit.Store.
func (s *Store) UpdateRates(ctx context.Context, keys []ratelimit.Key, f func([][]byte) ([]ratelimit.Row, error)) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
	}
	return s.commit(ctx, func(t *tx) error {
		states := make([][]byte, len(keys))
		for i, k := range keys {
			if err := t.get(selectRate, rateKey(k), &states[i]); err != nil && !errors.Is(err, gateway.ErrNotFound) {
				return err
			}
		}
		rows, err := f(states)
		if err != nil {
			return err
		}
		if len(rows) != len(keys) {
			return fail(counterfoil.CodeInternal, "each rate has one row", nil)
		}
		for i, r := range rows {
			if len(r.State) == 0 {
				continue
			}
			if _, err := t.exec(`INSERT INTO rates (tenant, principal, kind, tool, until, state) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET until = excluded.until, state = excluded.state`,
				append(rateKey(keys[i]), millis(r.Until), r.State)...); err != nil {
				return err
			}
		}
		return nil
	})
}

const selectRates = `SELECT tenant, principal, kind, tool, until, state FROM rates`

func scanRate(r scanner) (ratelimit.Row, error) {
	var x ratelimit.Row
	var kind string
	var until int64
	err := r.Scan(&x.Key.Tenant, &x.Key.Principal, &kind, &x.Key.Tool, &until, &x.State)
	x.Key.Kind, x.Until = ratelimit.Kind(kind), instant(until)
	return x, err
}

// Rates implements ratelimit.Store.
func (s *Store) Rates(ctx context.Context, after ratelimit.Subject, limit int) ([]ratelimit.Row, error) {
	return list(ctx, s, selectRates+` WHERE kind = 'request' AND (tenant, principal) > (?, ?) ORDER BY tenant, principal LIMIT ?`,
		[]any{after.Tenant, after.Principal, min(max(limit, 0), maxPage)}, scanRate)
}

// TenantRates implements ratelimit.Store.
func (s *Store) TenantRates(ctx context.Context, tenant, after string, limit int) ([]ratelimit.Row, error) {
	return list(ctx, s, selectRates+` WHERE kind = 'request' AND tenant = ? AND principal > ? ORDER BY principal LIMIT ?`,
		[]any{tenant, after, min(max(limit, 0), maxPage)}, scanRate)
}

// ForgetRates implements ratelimit.Store.
func (s *Store) ForgetRates(ctx context.Context, tenant string) error {
	return s.commit(ctx, func(t *tx) error { return second(t.exec(`DELETE FROM rates WHERE tenant = ?`, tenant)) })
}

// ExpireRates implements ratelimit.Store.
func (s *Store) ExpireRates(ctx context.Context, now time.Time) error {
	return s.commit(ctx, func(t *tx) error { return second(t.exec(`DELETE FROM rates WHERE until <= ?`, millis(now))) })
}
