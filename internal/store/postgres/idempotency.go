package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

var _ idempotency.Store = (*Store)(nil)

const selectKey = `SELECT ` + rowscan.RepeatColumns + ` FROM idempotency WHERE tenant = $1 AND id = $2 FOR UPDATE`

// BeginKey implements idempotency.Store. Of several that insert one key at once, the others wait for the first and then find
// its row.
func (s *Store) BeginKey(ctx context.Context, r idempotency.Row, now time.Time, most int) (row idempotency.Row, mine bool, err error) {
	if err := names(r.Tenant, r.ID, r.Principal); err != nil {
		return idempotency.Row{}, false, err
	}
	if !r.Whole() {
		return idempotency.Row{}, false, fail(counterfoil.CodeInvalidInput, "the key is not complete", nil)
	}
	err = s.transact(ctx, nil, func(t *tx) (err error) {
		row, mine, err = t.beginKey(r, now, most)
		return err
	})
	if err != nil {
		return idempotency.Row{}, false, err
	}
	return row, mine, nil
}

func (t *tx) beginKey(r idempotency.Row, now time.Time, most int) (row idempotency.Row, mine bool, err error) {
	if _, err := t.exec(`DELETE FROM idempotency WHERE tenant = $1 AND principal = $2 AND until <= $3`, r.Tenant, r.Principal, rowscan.Millis(now)); err != nil {
		return row, false, err
	}
	n, err := t.exec(`INSERT INTO idempotency (tenant, id, principal, body, running, until) SELECT $1, $2, $3, $4, true, $5
		WHERE (SELECT count(*) FROM idempotency WHERE tenant = $1 AND principal = $3) < $6 ON CONFLICT DO NOTHING`,
		r.Tenant, r.ID, r.Principal, r.Body, rowscan.Millis(r.Until), most)
	if err != nil {
		return row, false, err
	}
	if n == 0 {
		n, err = t.exec(`UPDATE idempotency SET running = true, until = $4 WHERE tenant = $1 AND id = $2 AND body = $3 AND NOT running AND answer IS NULL`,
			r.Tenant, r.ID, r.Body, rowscan.Millis(r.Until))
		if err != nil {
			return row, false, err
		}
	}
	row, err = one(rows(t, selectKey, []any{r.Tenant, r.ID}, rowscan.Repeat))
	if errors.Is(err, gateway.ErrNotFound) {
		return row, false, idempotency.ErrTooMany
	}
	return row, n == 1, err
}

// EndKey implements idempotency.Store.
func (s *Store) EndKey(ctx context.Context, tenant, id string, answer []byte) error {
	if err := names(tenant, id); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(t *tx) error {
		n, err := t.exec(`UPDATE idempotency SET running = false, answer = $3 WHERE tenant = $1 AND id = $2 AND running`, tenant, id, orNull(answer))
		if err == nil && n == 0 {
			err = idempotency.ErrNotFound
		}
		return err
	})
}
