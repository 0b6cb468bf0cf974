package sqlite

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

var _ idempotency.Store = (*Store)(nil)

const selectKey = `SELECT ` + rowscan.RepeatColumns + ` FROM idempotency WHERE tenant = ? AND id = ?`

// BeginKey implements idempotency.Store.
func (s *Store) BeginKey(ctx context.Context, r idempotency.Row, now time.Time, most int) (row idempotency.Row, mine bool, err error) {
	if err := named(r.Tenant, r.ID, r.Principal); err != nil {
		return idempotency.Row{}, false, err
	}
	if !r.Whole() {
		return idempotency.Row{}, false, fail(counterfoil.CodeInvalidInput, "the key is not complete", nil)
	}
	err = s.commit(ctx, func(t *tx) error {
		mine = false
		if _, err := t.exec(`DELETE FROM idempotency WHERE tenant = ? AND principal = ? AND until <= ?`, r.Tenant, r.Principal, rowscan.Millis(now)); err != nil {
			return err
		}
		n, err := t.exec(`UPDATE idempotency SET running = 1, until = ?4 WHERE tenant = ?1 AND id = ?2 AND body = ?3 AND running = 0 AND answer IS NULL`,
			r.Tenant, r.ID, r.Body, rowscan.Millis(r.Until))
		if err != nil {
			return err
		}
		if n == 0 {
			n, err = t.exec(`INSERT INTO idempotency (tenant, id, principal, body, running, until) SELECT ?1, ?2, ?3, ?4, 1, ?5
				WHERE (SELECT count(*) FROM idempotency WHERE tenant = ?1 AND principal = ?3) < ?6 ON CONFLICT DO NOTHING`,
				r.Tenant, r.ID, r.Principal, r.Body, rowscan.Millis(r.Until), most)
			if err != nil {
				return err
			}
		}
		mine = n == 1
		found, err := rows(t, selectKey, []any{r.Tenant, r.ID}, rowscan.Repeat)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return idempotency.ErrTooMany
		}
		row = found[0]
		return nil
	})
	if err != nil {
		return idempotency.Row{}, false, err
	}
	return row, mine, nil
}

// EndKey implements idempotency.Store.
func (s *Store) EndKey(ctx context.Context, tenant, id string, answer []byte) error {
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE idempotency SET running = 0, answer = ? WHERE tenant = ? AND id = ? AND running = 1`, orNull(answer), tenant, id)
		if err == nil && n == 0 {
			err = idempotency.ErrNotFound
		}
		return err
	})
}
