package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// requestColumns are a request's, without the sealed ones.
const requestColumns = `tenant, id, requester, key, state, answered, upstream, tool, effect, created, expires, decision, decided_by,
	decided, reason, cause, execution, outcome, delivered, keep_until`

const selectRequest = `SELECT ` + requestColumns + `, details, answer FROM requests`

func scanRequest(r rowscan.Scanner) (gateway.RequestRow, error) {
	return scanRequestRow(r, func(x *gateway.RequestRow) []any { return []any{&x.Details, &x.Answer} })
}

// scanListed reads a request without what is sealed.
func scanListed(r rowscan.Scanner) (gateway.RequestRow, error) {
	return scanRequestRow(r, func(*gateway.RequestRow) []any { return nil })
}

func scanRequestRow(r rowscan.Scanner, more func(*gateway.RequestRow) []any) (gateway.RequestRow, error) {
	var x gateway.RequestRow
	var state string
	var created, expires, decided, keep int64
	err := r.Scan(append([]any{&x.Tenant, &x.ID, &x.Requester, &x.Key, &state, &x.Answered, &x.Upstream, &x.Tool, &x.Effect, &created, &expires,
		&x.Decision, &x.DecidedBy, &decided, &x.Reason, &x.Cause, &x.Execution, &x.Outcome, &x.Delivered, &keep}, more(&x)...)...)
	x.State = gateway.State(state)
	x.CreatedAt, x.ExpiresAt, x.DecidedAt, x.KeepUntil = rowscan.Instant(created), rowscan.Instant(expires), rowscan.Instant(decided), rowscan.Instant(keep)
	return x, err
}

// Request implements gateway.Requests.
func (s *Store) Request(ctx context.Context, tenant, id string) (gateway.RequestRow, error) {
	return one(list(ctx, s, selectRequest+` WHERE tenant = $1 AND id = $2`, []any{tenant, id}, scanRequest))
}

// one is the only row of a list. A missing one is gateway.ErrNotFound.
func one[T any](found []T, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	if len(found) == 0 {
		return none, gateway.ErrNotFound
	}
	return found[0], nil
}

// request reads a request inside a transaction.
func (t *tx) request(tenant, id string) (gateway.RequestRow, error) {
	return one(rows(t, selectRequest+` WHERE tenant = $1 AND id = $2`, []any{tenant, id}, scanRequest))
}

// Attach implements gateway.Requests.
func (s *Store) Attach(ctx context.Context, a gateway.Attachment) (gateway.RequestRow, error) {
	n := &a.New
	if a.Now.IsZero() || !n.ExpiresAt.After(a.Now) {
		return gateway.RequestRow{}, fail(counterfoil.CodeInvalidInput, "the request has ended already", nil)
	}
	if err := errors.Join(names(n.Tenant, n.ID, n.Key, a.Waiter), texts(n.Requester, n.Upstream, n.Tool, n.Effect),
		about(n.Tenant, n.ID, a.Opened)); err != nil {
		return gateway.RequestRow{}, err
	}
	var row gateway.RequestRow
	err := s.transactIn(ctx, n.Tenant, func(t *tx) (err error) {
		row, err = t.attach(a)
		return err
	})
	if err != nil {
		return gateway.RequestRow{}, err
	}
	return row, nil
}

// transactIn runs f in a transaction that appends to the log of a tenant, which is made if it is the first.
func (s *Store) transactIn(ctx context.Context, tenant string, f func(*tx) error) error {
	ensured, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.ensure(ensured, s.pool, []string{tenant}); err != nil {
		return writeError(err)
	}
	return s.transact(ctx, []string{tenant}, f)
}

func (t *tx) attach(a gateway.Attachment) (gateway.RequestRow, error) {
	n := &a.New
	// Only the newest of a key can be live: another is made only when it is not.
	row, err := one(rows(t, selectRequest+` WHERE tenant = $1 AND key = $2 ORDER BY number DESC LIMIT 1 FOR UPDATE`,
		[]any{n.Tenant, n.Key}, scanRequest))
	if err != nil && !errors.Is(err, gateway.ErrNotFound) {
		return row, err
	}
	found := err == nil
	if found && open(row.State) && !row.ExpiresAt.After(a.Now) {
		if err := t.lapse(row, gateway.Expired, row.Cause); err != nil {
			return row, err
		}
		row.State = gateway.Expired
	}
	if found && row.State == gateway.Denied && row.DecidedAt.Add(a.CoolDown).After(a.Now) {
		return row, nil
	}
	if found && live(row, a.Now) {
		return row, t.countIn(row, a.Waiter)
	}
	if err := t.insertRequest(a); err != nil {
		return row, err
	}
	if err := t.append(n.Tenant, a.Opened, t.s.o.Now()); err != nil {
		return row, err
	}
	row = gateway.RequestRow{
		Tenant: n.Tenant, ID: n.ID, Requester: n.Requester, Key: n.Key, State: gateway.Pending, Upstream: n.Upstream, Tool: n.Tool,
		Effect: n.Effect, Details: n.Details, CreatedAt: rowscan.Instant(rowscan.Millis(n.CreatedAt)), ExpiresAt: rowscan.Instant(rowscan.Millis(n.ExpiresAt)),
	}
	return row, t.countIn(row, a.Waiter)
}

func open(s gateway.State) bool { return s == gateway.Pending || s == gateway.Approved }

// live reports whether a caller joins the request. A spent one that has no outcome yet is running.
func live(row gateway.RequestRow, now time.Time) bool {
	if row.State == gateway.Spent {
		return !row.Delivered && (row.Outcome == "" || row.KeepUntil.After(now))
	}
	return open(row.State)
}

// lapse ends an open request, whose row is locked, with the event that says so.
func (t *tx) lapse(row gateway.RequestRow, to gateway.State, why string) error {
	n, err := t.exec(`UPDATE requests SET state = $3, cause = $4 WHERE tenant = $1 AND id = $2 AND state IN ('pending', 'approved')`,
		row.Tenant, row.ID, string(to), why)
	if err != nil {
		return err
	}
	if n != 1 {
		return fail(counterfoil.CodeInternal, "the request stands elsewhere than it was read; nothing was recorded", nil)
	}
	p := counterfoil.EventParams{
		Tenant: row.Tenant, Audience: t.s.o.Audience, ExecutionID: row.ID, Actor: row.Requester, Tool: row.Tool, Code: string(to),
	}
	if slices.Contains(counterfoil.Effects(), counterfoil.Effect(row.Effect)) {
		p.Effect = counterfoil.Effect(row.Effect)
	}
	e, err := counterfoil.NewEvent(counterfoil.PhaseLapsed, t.s.o.Names, p)
	if err != nil {
		return err
	}
	return t.append(row.Tenant, e, t.s.o.Now())
}

// insertRequest makes a request, unless the tenant has too many that are pending.
func (t *tx) insertRequest(a gateway.Attachment) error {
	n := &a.New
	made, err := t.exec(`INSERT INTO requests (tenant, id, requester, key, state, upstream, tool, effect, details, created, expires)
		SELECT $1, $2, $3, $4, 'pending', $5, $6, $7, $8, $9, $10
		WHERE (SELECT count(*) FROM requests WHERE tenant = $1 AND state = 'pending' AND expires > $11) < $12`,
		n.Tenant, n.ID, n.Requester, n.Key, n.Upstream, n.Tool, n.Effect, n.Details, rowscan.Millis(n.CreatedAt), rowscan.Millis(n.ExpiresAt),
		rowscan.Millis(a.Now), a.Cap)
	if err == nil && made == 0 {
		return gateway.ErrTooMany
	}
	return err
}

// countIn counts a waiter in, of a process that is alive.
func (t *tx) countIn(row gateway.RequestRow, waiter string) error {
	n, err := t.exec(`INSERT INTO waiters (tenant, request, waiter, process)
		SELECT $1, $2, $3, id FROM processes WHERE id = $4 AND until > `+clock, row.Tenant, row.ID, waiter, t.process())
	if err == nil && n == 0 {
		return errLapsed
	}
	return err
}

// countOut reports whether the waiter was there.
func (t *tx) countOut(tenant, id, waiter string) (bool, error) {
	n, err := t.exec(`DELETE FROM waiters WHERE tenant = $1 AND request = $2 AND waiter = $3`, tenant, id, waiter)
	return n == 1, err
}

// Answer implements gateway.Requests.
func (s *Store) Answer(ctx context.Context, tenant, id, waiter string) (gateway.RequestRow, error) {
	var row gateway.RequestRow
	err := s.transact(ctx, nil, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET answered = true WHERE tenant = $1 AND id = $2 AND state = 'pending'`, tenant, id)
		if err != nil {
			return err
		}
		if n == 1 {
			if _, err := t.countOut(tenant, id, waiter); err != nil {
				return err
			}
		}
		row, err = t.request(tenant, id)
		return err
	})
	if err != nil {
		return gateway.RequestRow{}, err
	}
	return row, nil
}

// Leave implements gateway.Requests. A waiter that was counted out before changes nothing.
func (s *Store) Leave(ctx context.Context, tenant, id, waiter, cause string) error {
	if err := texts(cause); err != nil {
		return err
	}
	return s.transact(ctx, []string{tenant}, func(t *tx) error {
		row, err := one(rows(t, selectRequest+` WHERE tenant = $1 AND id = $2 FOR UPDATE`, []any{tenant, id}, scanRequest))
		if err != nil {
			return err
		}
		there, err := t.countOut(tenant, id, waiter)
		if err != nil || !there {
			return err
		}
		_, err = t.forsake(row, cause)
		return err
	})
}

// forsake ends an open request, whose row is locked, that nobody waits for any more and nobody was told to come back to. It
// reports whether it did.
func (t *tx) forsake(row gateway.RequestRow, why string) (bool, error) {
	if !open(row.State) || row.Answered {
		return false, nil
	}
	var waited bool
	err := t.get(`SELECT EXISTS (SELECT 1 FROM waiters WHERE tenant = $1 AND request = $2)`, []any{row.Tenant, row.ID}, &waited)
	if err != nil || waited {
		return false, err
	}
	to := gateway.Void
	if row.State == gateway.Pending {
		to = gateway.Cancelled
	}
	return true, t.lapse(row, to, why)
}

// Deliver implements gateway.Requests. Delivering again changes nothing.
func (s *Store) Deliver(ctx context.Context, tenant, id string) error {
	return s.transact(ctx, nil, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET delivered = true WHERE tenant = $1 AND id = $2 AND state = 'spent'`, tenant, id)
		if err == nil && n == 0 {
			return t.conflict(tenant, id)
		}
		return err
	})
}

// conflict says where a request stands that could not be moved.
func (t *tx) conflict(tenant, id string) error {
	var state string
	if err := t.get(`SELECT state FROM requests WHERE tenant = $1 AND id = $2`, []any{tenant, id}, &state); err != nil {
		return err
	}
	return &gateway.ConflictError{State: gateway.State(state)}
}
