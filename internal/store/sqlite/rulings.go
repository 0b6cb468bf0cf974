package sqlite

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// Rule implements gateway.Rulings.
func (s *Store) Rule(ctx context.Context, r gateway.Ruling) error {
	if (r.To != gateway.Approved && r.To != gateway.Denied) || len(r.Decision) == 0 || r.By == "" || r.At.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "the ruling is not complete", nil)
	}
	if r.To == gateway.Approved && !r.ExpiresAt.After(r.At) {
		return fail(counterfoil.CodeInvalidInput, "the approval ends before it begins", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET state = ?, decision = ?, decided_by = ?, decided = ?, reason = ?,
			expires = CASE ? WHEN 'approved' THEN ? ELSE expires END
			WHERE tenant = ? AND id = ? AND state = 'pending' AND expires > ?`,
			string(r.To), r.Decision, r.By, rowscan.Millis(r.At), r.Reason, string(r.To), rowscan.Millis(r.ExpiresAt), r.Tenant, r.ID, rowscan.Millis(r.At))
		if err != nil {
			return err
		}
		if n == 0 {
			return t.lost(r)
		}
		return second(t.append(r.Tenant, r.Event, s.o.Now()))
	})
}

// lost says why a ruling was not taken: a request that is still pending has run out.
func (t *tx) lost(r gateway.Ruling) error {
	row, err := t.request(r.Tenant, r.ID)
	if err != nil {
		return err
	}
	if row.State == gateway.Pending {
		row.State = gateway.Expired
	}
	return &gateway.ConflictError{State: row.State}
}

// Lapse implements gateway.Rulings.
func (s *Store) Lapse(ctx context.Context, tenant, id string, to gateway.State, cause string, e counterfoil.Event) error {
	if to != gateway.Void && to != gateway.Expired && to != gateway.Cancelled {
		return fail(counterfoil.CodeInvalidInput, "a request does not lapse into that state", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET state = ?, cause = ? WHERE tenant = ? AND id = ? AND state IN ('pending', 'approved')`,
			string(to), cause, tenant, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return t.conflict(tenant, id)
		}
		return second(t.append(tenant, e, s.o.Now()))
	})
}

// Requests implements gateway.Rulings.
func (s *Store) Requests(ctx context.Context, tenant string, state gateway.State, after string, limit int) ([]gateway.RequestRow, error) {
	before, err := s.before(ctx, `SELECT number FROM requests WHERE tenant = ? AND id = ?`, tenant, after)
	if err != nil {
		return nil, err
	}
	query := `SELECT ` + requestColumns + ` FROM requests WHERE tenant = ? AND number < ?`
	args := []any{tenant, before}
	if state != "" {
		query += ` AND state = ?`
		args = append(args, string(state))
	}
	return list(ctx, s, query+` ORDER BY number DESC LIMIT ?`, append(args, page(limit)), scanListed)
}

// causeDied is the cause of a request that lapsed because the process that waited for it died.
const causeDied = "the caller's process ended"

// A ref names a request.
type ref struct{ tenant, id string }

func scanRef(r rowscan.Scanner) (ref, error) {
	var x ref
	err := r.Scan(&x.tenant, &x.id)
	return x, err
}

// Sweep implements gateway.Rulings. It moves at most maxPage requests at once. As it is called all the time, it looks
// first and takes the write lock only when there is something to do.
func (s *Store) Sweep(ctx context.Context, now time.Time) ([]gateway.RequestRow, error) {
	dead, err := s.deadProcesses(ctx, `SELECT DISTINCT process FROM waiters`)
	if err != nil {
		return nil, err
	}
	if len(dead) == 0 {
		var due bool
		err := s.get(ctx, `SELECT EXISTS (SELECT 1 FROM requests WHERE state IN ('pending', 'approved') AND expires <= ?1)
			OR EXISTS (SELECT 1 FROM requests WHERE answer IS NOT NULL AND keep_until <= ?1)
			OR EXISTS (SELECT 1 FROM secrets WHERE expires <= ?1) OR EXISTS (SELECT 1 FROM `+endedKeys+`)`,
			[]any{rowscan.Millis(now), onceGrace.Milliseconds()}, &due)
		if err != nil || !due {
			return nil, err
		}
	}
	var moved []gateway.RequestRow
	err = s.commit(ctx, func(t *tx) (err error) {
		moved, err = s.sweep(t, now, dead)
		return err
	})
	if err != nil {
		return nil, err
	}
	return moved, nil
}

func (s *Store) sweep(t *tx, now time.Time, dead []string) ([]gateway.RequestRow, error) {
	moved, err := rows(t, `SELECT tenant, id FROM requests WHERE state IN ('pending', 'approved') AND expires <= ? LIMIT ?`,
		[]any{rowscan.Millis(now), maxPage}, scanRef)
	if err != nil {
		return nil, err
	}
	for _, r := range moved {
		if err := s.lapse(t, r, gateway.Expired, ""); err != nil {
			return nil, err
		}
	}
	for _, process := range dead {
		left, err := rows(t, `DELETE FROM waiters WHERE process = ? RETURNING tenant, request`, []any{process}, scanRef)
		if err != nil {
			return nil, err
		}
		t.spoiled = t.spoiled || len(left) > 0
		for _, r := range left {
			if gone, err := s.forsake(t, r, causeDied); err != nil {
				return nil, err
			} else if gone {
				moved = append(moved, r)
			}
		}
	}
	for _, statement := range []string{
		`UPDATE requests SET answer = NULL WHERE answer IS NOT NULL AND keep_until <= ?`, `DELETE FROM secrets WHERE expires <= ?`,
	} {
		if _, err := t.exec(statement, rowscan.Millis(now)); err != nil {
			return nil, err
		}
	}
	if err := t.forgetKeys(now); err != nil {
		return nil, err
	}
	var out []gateway.RequestRow
	for _, r := range moved {
		found, err := rows(t, `SELECT `+requestColumns+` FROM requests WHERE tenant = ? AND id = ?`, []any{r.tenant, r.id}, scanListed)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// onceGrace is by how much the log must have passed the end of a once-key.
const onceGrace = time.Minute

// forgetKeys drops once-keys that have ended, by the clock and by the tenant's own log: a clock that is set back can't go
// behind the log, so that what such a key belongs to never comes to life again.
func (t *tx) forgetKeys(now time.Time) error {
	_, err := t.exec(`DELETE FROM once WHERE (tenant, key) IN (SELECT o.tenant, o.key FROM `+endedKeys+` LIMIT ?3)`,
		rowscan.Millis(now), onceGrace.Milliseconds(), maxPage)
	return err
}

// endedKeys are the once-keys that may be forgotten, found tenant by tenant: SQLite keeps the order of a cross join.
const endedKeys = `logs l CROSS JOIN once o ON o.tenant = l.tenant AND o.until <= min(?1, (SELECT at FROM events
	WHERE place BETWEEN l.number << 40 AND ((l.number + 1) << 40) - 1 ORDER BY place DESC LIMIT 1) - ?2)`
