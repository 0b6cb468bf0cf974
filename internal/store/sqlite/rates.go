package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
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
				append(rateKey(keys[i]), rowscan.Millis(r.Until), r.State)...); err != nil {
				return err
			}
		}
		return nil
	})
}

const selectRates = `SELECT ` + rowscan.RateColumns + ` FROM rates`

// Rates implements ratelimit.Store.
func (s *Store) Rates(ctx context.Context, after ratelimit.Subject, limit int) ([]ratelimit.Row, error) {
	return list(ctx, s, selectRates+` WHERE kind = 'request' AND (tenant, principal) > (?, ?) ORDER BY tenant, principal LIMIT ?`,
		[]any{after.Tenant, after.Principal, min(max(limit, 0), maxPage)}, rowscan.Rate)
}

// TenantRates implements ratelimit.Store.
func (s *Store) TenantRates(ctx context.Context, tenant, after string, limit int) ([]ratelimit.Row, error) {
	return list(ctx, s, selectRates+` WHERE kind = 'request' AND tenant = ? AND principal > ? ORDER BY principal LIMIT ?`,
		[]any{tenant, after, min(max(limit, 0), maxPage)}, rowscan.Rate)
}

// ForgetRates implements ratelimit.Store.
func (s *Store) ForgetRates(ctx context.Context, tenant string) error {
	return s.commit(ctx, func(t *tx) error { return second(t.exec(`DELETE FROM rates WHERE tenant = ?`, tenant)) })
}

// ExpireRates implements ratelimit.Store.
func (s *Store) ExpireRates(ctx context.Context, now time.Time) error {
	return s.commit(ctx, func(t *tx) error { return second(t.exec(`DELETE FROM rates WHERE until <= ?`, rowscan.Millis(now))) })
}
