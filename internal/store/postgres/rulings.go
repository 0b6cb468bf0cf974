package postgres

import (
	"context"
	"math"
	"slices"
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
	if err := texts(r.By, r.Reason); err != nil {
		return err
	}
	return s.transact(ctx, []string{r.Tenant}, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET state = $1, decision = $2, decided_by = $3, decided = $4, reason = $5,
			expires = CASE $1 WHEN 'approved' THEN $6 ELSE expires END
			WHERE tenant = $7 AND id = $8 AND state = 'pending' AND expires > $4`,
			string(r.To), r.Decision, r.By, rowscan.Millis(r.At), r.Reason, rowscan.Millis(r.ExpiresAt), r.Tenant, r.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			return t.lost(r)
		}
		return t.append(r.Tenant, r.Event, t.s.o.Now())
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
	if err := texts(cause); err != nil {
		return err
	}
	return s.transact(ctx, []string{tenant}, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET state = $1, cause = $2 WHERE tenant = $3 AND id = $4 AND state IN ('pending', 'approved')`,
			string(to), cause, tenant, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return t.conflict(tenant, id)
		}
		return t.append(tenant, e, t.s.o.Now())
	})
}

// Requests implements gateway.Rulings.
func (s *Store) Requests(ctx context.Context, tenant string, state gateway.State, after string, limit int) ([]gateway.RequestRow, error) {
	before, err := s.before(ctx, `SELECT number FROM requests WHERE tenant = $1 AND id = $2`, tenant, after)
	if err != nil {
		return nil, err
	}
	query := `SELECT ` + requestColumns + ` FROM requests WHERE tenant = $1 AND number < $2`
	args := []any{tenant, before, page(limit)}
	if state != "" {
		query += ` AND state = $4`
		args = append(args, string(state))
	}
	return list(ctx, s, query+` ORDER BY number DESC LIMIT $3`, args, scanListed)
}

// before returns the number that a page of a list ends before: that of the row with the id, or one beyond all for "".
func (s *Store) before(ctx context.Context, query, tenant, id string) (int64, error) {
	number := int64(math.MaxInt64)
	if id == "" {
		return number, nil
	}
	return number, s.get(ctx, query, []any{tenant, id}, &number)
}

// causeDied is the cause of a request that lapsed because the process that waited for it died.
const causeDied = "the caller's process ended"

// dead is true of a process that does not count as alive.
const dead = `NOT EXISTS (SELECT 1 FROM processes p WHERE p.id = process AND p.until > ` + clock + `)`

// keptLonger is how long a key that can be taken once outlives its end in the log's time, in milliseconds: the log's clock
// may be set back.
const keptLonger = 60_000

// Sweep implements gateway.Rulings. It moves at most maxPage requests at once. As it is called all the time, it looks
// first and takes locks only when there is something to do.
func (s *Store) Sweep(ctx context.Context, now time.Time) ([]gateway.RequestRow, error) {
	due, err := list(ctx, s, `SELECT tenant, id FROM ((SELECT tenant, id FROM requests WHERE state IN ('pending', 'approved') AND expires <= $1
			ORDER BY expires LIMIT $2) UNION (SELECT tenant, request FROM waiters WHERE `+dead+` LIMIT $2)) AS due ORDER BY tenant, id LIMIT $2`,
		[]any{rowscan.Millis(now), maxPage}, scanName)
	if err != nil {
		return nil, err
	}
	if len(due) == 0 {
		var litter bool
		err := s.get(ctx, `SELECT EXISTS (SELECT 1 FROM requests WHERE answer IS NOT NULL AND keep_until <= $1)
			OR EXISTS (SELECT 1 FROM secrets WHERE expires <= $1)
			OR EXISTS (SELECT 1 FROM logs l WHERE EXISTS (SELECT 1 FROM once o WHERE o.tenant = l.tenant AND o.until <= l.at - $2))
			OR EXISTS (SELECT 1 FROM processes WHERE until <= `+clock+` - 3600000)`, []any{rowscan.Millis(now), keptLonger}, &litter)
		if err != nil || !litter {
			return nil, err
		}
	}
	var tenants []string
	for _, k := range due {
		tenants = append(tenants, k.tenant)
	}
	var moved []gateway.RequestRow
	err = s.transact(ctx, slices.Compact(tenants), func(t *tx) (err error) {
		moved, err = t.sweep(now, due)
		return err
	})
	if err != nil {
		return nil, err
	}
	return moved, nil
}

func scanName(r rowscan.Scanner) (name, error) {
	var k name
	err := r.Scan(&k.tenant, &k.name)
	return k, err
}

// sweep moves those of the requests that are due, and clears away. The logs of their tenants are locked.
func (t *tx) sweep(now time.Time, due []name) ([]gateway.RequestRow, error) {
	var tenants, ids []string
	for _, k := range due {
		tenants, ids = append(tenants, k.tenant), append(ids, k.name)
	}
	locked, err := rows(t, `SELECT `+requestColumns+` FROM requests WHERE (tenant, id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
		ORDER BY tenant, id FOR UPDATE`, []any{tenants, ids}, scanListed)
	if err != nil {
		return nil, err
	}
	// A process that is dead once stays dead: what is not counted out now will be in the next sweep.
	if len(due) > 0 {
		if _, err := t.exec(`DELETE FROM waiters WHERE (tenant, request) IN (SELECT * FROM unnest($1::text[], $2::text[])) AND `+dead,
			tenants, ids); err != nil {
			return nil, err
		}
	}
	var moved []gateway.RequestRow
	for _, row := range locked {
		gone, err := t.sweepOne(&row, now)
		if err != nil {
			return nil, err
		}
		if gone {
			moved = append(moved, row)
		}
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{`UPDATE requests SET answer = NULL WHERE answer IS NOT NULL AND keep_until <= $1`, []any{rowscan.Millis(now)}},
		{`DELETE FROM secrets WHERE expires <= $1`, []any{rowscan.Millis(now)}},
		{`DELETE FROM once USING logs l WHERE once.tenant = l.tenant AND once.until <= l.at - $1`, []any{keptLonger}},
		{`DELETE FROM processes WHERE until <= ` + clock + ` - 3600000`, nil},
	} {
		if _, err := t.exec(step.query, step.args...); err != nil {
			return nil, err
		}
	}
	return moved, nil
}

// sweepOne moves a request that has run out or that only the dead wait for.
func (t *tx) sweepOne(row *gateway.RequestRow, now time.Time) (bool, error) {
	if open(row.State) && !row.ExpiresAt.After(now) {
		err := t.lapse(*row, gateway.Expired, row.Cause)
		row.State = gateway.Expired
		return true, err
	}
	to := gateway.Void
	if row.State == gateway.Pending {
		to = gateway.Cancelled
	}
	gone, err := t.forsake(*row, causeDied)
	if gone {
		row.State, row.Cause = to, causeDied
	}
	return gone, err
}
