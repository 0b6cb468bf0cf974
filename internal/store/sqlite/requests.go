package sqlite

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
	var created, expires, decided, keep int64
	dest := append([]any{&x.Tenant, &x.ID, &x.Requester, &x.Key, &x.State, &x.Answered, &x.Upstream, &x.Tool, &x.Effect, &created, &expires,
		&x.Decision, &x.DecidedBy, &decided, &x.Reason, &x.Cause, &x.Execution, &x.Outcome, &x.Delivered, &keep}, more(&x)...)
	err := r.Scan(dest...)
	x.CreatedAt, x.ExpiresAt, x.DecidedAt, x.KeepUntil = rowscan.Instant(created), rowscan.Instant(expires), rowscan.Instant(decided), rowscan.Instant(keep)
	return x, err
}

// Request implements gateway.Requests.
func (s *Store) Request(ctx context.Context, tenant, id string) (gateway.RequestRow, error) {
	row, err := scanRequest(s.read.QueryRowContext(ctx, selectRequest+` WHERE tenant = ? AND id = ?`, tenant, id))
	if err != nil {
		return gateway.RequestRow{}, readError(err)
	}
	return row, nil
}

// request reads a request inside a transaction.
func (t *tx) request(tenant, id string) (gateway.RequestRow, error) {
	return t.oneRequest(selectRequest+` WHERE tenant = ? AND id = ?`, tenant, id)
}

func (t *tx) oneRequest(query string, args ...any) (gateway.RequestRow, error) {
	found, err := rows(t, query, args, scanRequest)
	if err != nil {
		return gateway.RequestRow{}, err
	}
	if len(found) == 0 {
		return gateway.RequestRow{}, gateway.ErrNotFound
	}
	return found[0], nil
}

// Attach implements gateway.Requests.
func (s *Store) Attach(ctx context.Context, a gateway.Attachment) (gateway.RequestRow, error) {
	n := &a.New
	if err := named(n.Tenant, n.ID, n.Key, a.Waiter); err != nil {
		return gateway.RequestRow{}, err
	}
	if err := matching(a.Opened, counterfoil.PhaseRequested, n.Tenant, n.ID); err != nil {
		return gateway.RequestRow{}, err
	}
	if a.Now.IsZero() || !n.ExpiresAt.After(a.Now) {
		return gateway.RequestRow{}, fail(counterfoil.CodeInvalidInput, "the request is not complete or has ended already", nil)
	}
	var row gateway.RequestRow
	err := s.commit(ctx, func(t *tx) (err error) {
		row, err = s.attach(t, a)
		return err
	})
	if err != nil {
		return gateway.RequestRow{}, err
	}
	return row, nil
}

func (s *Store) attach(t *tx, a gateway.Attachment) (gateway.RequestRow, error) {
	n := &a.New
	// Only the newest of a key can be live: another is made only when it is not.
	row, err := t.oneRequest(selectRequest+` WHERE tenant = ? AND key = ? ORDER BY number DESC LIMIT 1`, n.Tenant, n.Key)
	if err != nil && !errors.Is(err, gateway.ErrNotFound) {
		return row, err
	}
	found := err == nil
	if found && open(row.State) && !row.ExpiresAt.After(a.Now) {
		if err := s.lapse(t, ref{row.Tenant, row.ID}, gateway.Expired, ""); err != nil {
			return row, err
		}
		row.State = gateway.Expired
	}
	if found && row.State == gateway.Denied && row.DecidedAt.Add(a.CoolDown).After(a.Now) {
		return row, nil
	}
	if found && live(row, a.Now) {
		return row, t.countIn(s.process.id, row, a.Waiter)
	}
	if err := t.insertRequest(a); err != nil {
		return row, err
	}
	if _, err := t.append(n.Tenant, a.Opened, s.o.Now()); err != nil {
		return row, err
	}
	if err := t.countIn(s.process.id, *n, a.Waiter); err != nil {
		return row, err
	}
	return t.request(n.Tenant, n.ID)
}

func open(s gateway.State) bool { return s == gateway.Pending || s == gateway.Approved }

// live reports whether a caller joins the request. A spent one that has no outcome yet is running.
func live(row gateway.RequestRow, now time.Time) bool {
	if row.State == gateway.Spent {
		return !row.Delivered && (row.Outcome == "" || row.KeepUntil.After(now))
	}
	return open(row.State)
}

func (t *tx) insertRequest(a gateway.Attachment) error {
	n := &a.New
	var pending int
	err := t.get(`SELECT count(*) FROM requests WHERE tenant = ? AND state = 'pending' AND expires > ?`,
		[]any{n.Tenant, rowscan.Millis(a.Now)}, &pending)
	if err != nil {
		return err
	}
	if pending >= a.Cap {
		return gateway.ErrTooMany
	}
	_, err = t.exec(`INSERT INTO requests (tenant, id, requester, key, state, upstream, tool, effect, details, created, expires)
		VALUES (?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?)`,
		n.Tenant, n.ID, n.Requester, n.Key, n.Upstream, n.Tool, n.Effect, n.Details, rowscan.Millis(n.CreatedAt), rowscan.Millis(n.ExpiresAt))
	return err
}

func (t *tx) countIn(process string, row gateway.RequestRow, waiter string) error {
	_, err := t.exec(`INSERT INTO waiters (tenant, request, waiter, process) VALUES (?, ?, ?, ?)`, row.Tenant, row.ID, waiter, process)
	return err
}

// countOut reports whether the waiter was there.
func (t *tx) countOut(tenant, id, waiter string) (bool, error) {
	n, err := t.exec(`DELETE FROM waiters WHERE tenant = ? AND request = ? AND waiter = ?`, tenant, id, waiter)
	return n == 1, err
}

// Answer implements gateway.Requests.
func (s *Store) Answer(ctx context.Context, tenant, id, waiter string) (gateway.RequestRow, error) {
	var row gateway.RequestRow
	err := s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET answered = 1 WHERE tenant = ? AND id = ? AND state = 'pending'`, tenant, id)
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
	return s.commit(ctx, func(t *tx) error {
		there, err := t.countOut(tenant, id, waiter)
		if err != nil {
			return err
		}
		if !there {
			_, err := t.request(tenant, id)
			return err
		}
		_, err = s.forsake(t, ref{tenant, id}, cause)
		return err
	})
}

// forsake ends an open request that nobody waits for any more and nobody was told to come back to. It reports whether it
// did.
func (s *Store) forsake(t *tx, r ref, cause string) (bool, error) {
	var state gateway.State
	err := t.get(`SELECT state FROM requests WHERE tenant = ? AND id = ? AND state IN ('pending', 'approved') AND answered = 0
		AND NOT EXISTS (SELECT 1 FROM waiters w WHERE w.tenant = requests.tenant AND w.request = requests.id)`, []any{r.tenant, r.id}, &state)
	if errors.Is(err, gateway.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	to := gateway.Void
	if state == gateway.Pending {
		to = gateway.Cancelled
	}
	return true, s.lapse(t, r, to, cause)
}

// lapse ends an open request without anybody's decision, with its event.
func (s *Store) lapse(t *tx, r ref, to gateway.State, cause string) error {
	var requester, tool, effect string
	err := t.write(`UPDATE requests SET state = ?, cause = ? WHERE tenant = ? AND id = ? AND state IN ('pending', 'approved')
		RETURNING requester, tool, effect`, []any{string(to), cause, r.tenant, r.id}, &requester, &tool, &effect)
	if err != nil {
		return err
	}
	p := counterfoil.EventParams{
		Tenant: r.tenant, Audience: s.o.Audience, ExecutionID: r.id, Actor: requester, Tool: tool, Code: string(to),
	}
	if slices.Contains(counterfoil.Effects(), counterfoil.Effect(effect)) {
		p.Effect = counterfoil.Effect(effect)
	}
	e, err := counterfoil.NewEvent(counterfoil.PhaseLapsed, s.o.Names, p)
	if err != nil {
		return err
	}
	return second(t.append(r.tenant, e, s.o.Now()))
}

// Deliver implements gateway.Requests. Delivering again changes nothing.
func (s *Store) Deliver(ctx context.Context, tenant, id string) error {
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE requests SET delivered = 1 WHERE tenant = ? AND id = ? AND state = 'spent'`, tenant, id)
		if err == nil && n == 0 {
			return t.conflict(tenant, id)
		}
		return err
	})
}
