package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

var _ ratelimit.Store = (*Store)(nil)

// Rate implements ratelimit.Store.
func (s *Store) Rate(ctx context.Context, k ratelimit.Key) ([]byte, error) {
	var state []byte
	err := s.get(ctx, `SELECT state FROM rates WHERE tenant = $1 AND principal = $2 AND kind = $3 AND tool = $4`,
		[]any{k.Tenant, k.Principal, string(k.Kind), k.Tool}, &state)
	if errors.Is(err, gateway.ErrNotFound) {
		err = nil
	}
	return state, err
}

// rateColumns are the keys of rates, by columns.
type rateColumns struct {
	tenant, principal, kind, tool []string
}

func (c *rateColumns) add(k ratelimit.Key) {
	c.tenant, c.principal = append(c.tenant, k.Tenant), append(c.principal, k.Principal)
	c.kind, c.tool = append(c.kind, string(k.Kind)), append(c.tool, k.Tool)
}

// UpdateRates implements ratelimit.Store. It is no commit that a reader of Version has to hear of, and it does not wait for the
// disk: what a crash of the server takes is less than a second of counts.
func (s *Store) UpdateRates(ctx context.Context, keys []ratelimit.Key, f func([][]byte) ([]ratelimit.Row, error)) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
	}
	return s.looseTransact(ctx, func(ctx context.Context, c *pgx.Conn) error { return s.updateRates(ctx, c, keys, f) })
}

// errRateGone says that a row was removed between the two statements that make it and lock it.
const errRateGone = cause("a rate was removed meanwhile")

// updateRates locks the rows in the order of the keys, so that transactions never wait for each other in a circle.
func (s *Store) updateRates(ctx context.Context, c *pgx.Conn, keys []ratelimit.Key, f func([][]byte) ([]ratelimit.Row, error)) error {
	var in rateColumns
	for _, k := range keys {
		in.add(k)
	}
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(`SET LOCAL synchronous_commit TO off`)
	b.Queue(`INSERT INTO rates (tenant, principal, kind, tool, until, state)
		SELECT tenant, principal, kind, tool, 0, '' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
			WITH ORDINALITY AS k (tenant, principal, kind, tool, place) ORDER BY place ON CONFLICT DO NOTHING`,
		in.tenant, in.principal, in.kind, in.tool)
	var states [][]byte
	b.Queue(`SELECT state FROM rates JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[])
			WITH ORDINALITY AS k (tenant, principal, kind, tool, place) USING (tenant, principal, kind, tool)
		ORDER BY place FOR UPDATE OF rates`, in.tenant, in.principal, in.kind, in.tool).Query(func(rows pgx.Rows) (err error) {
		states, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if err := s.fault(writing); err != nil {
		return err
	}
	if len(states) != len(keys) {
		return errRateGone
	}
	rows, err := f(states)
	if err != nil {
		return err
	}
	if len(rows) != len(keys) {
		return fail(counterfoil.CodeInternal, "each rate has one row", nil)
	}
	return s.writeRates(ctx, c, keys, rows)
}

func (s *Store) writeRates(ctx context.Context, c *pgx.Conn, keys []ratelimit.Key, rows []ratelimit.Row) error {
	var out rateColumns
	var until []int64
	var states [][]byte
	for i, r := range rows {
		if len(r.State) > 0 {
			out.add(keys[i])
			until, states = append(until, rowscan.Millis(r.Until)), append(states, r.State)
		}
	}
	if err := s.fault(ending); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(`UPDATE rates SET until = k.until, state = k.state
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[]) AS k (tenant, principal, kind, tool, until, state)
		WHERE rates.tenant = k.tenant AND rates.principal = k.principal AND rates.kind = k.kind AND rates.tool = k.tool`,
		out.tenant, out.principal, out.kind, out.tool, until, states)
	b.Queue(`COMMIT`)
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return commitError(err)
	}
	if err := s.fault(ended); err != nil {
		return unknown(err)
	}
	return nil
}

// looseTransact runs f, which begins and commits, on a connection of the pool, again if the server ended it for the sake of
// another.
func (s *Store) looseTransact(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return closedError()
	}
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for attempt := 0; ; attempt++ {
		err := s.looseTransactOnce(ctx, f)
		gone := errors.Is(err, errRateGone)
		if attempt == 0 && !gone && died(err) && !errors.Is(err, counterfoil.CodeUnknownOutcome) {
			s.pool.Reset() // the others died with it
			continue
		}
		if attempt == retries || !gone && !passing(err) {
			return writeError(err)
		}
	}
}

func (s *Store) looseTransactOnce(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	if err := s.fault(beginning); err != nil {
		return err
	}
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return acquireError(err)
	}
	defer c.Release() // one with a transaction under way is closed, which rolls back
	return f(ctx, c.Conn())
}

const selectRates = `SELECT tenant, principal, kind, tool, until, state FROM rates WHERE kind = 'request' AND state <> '' `

// Rates implements ratelimit.Store.
func (s *Store) Rates(ctx context.Context, after ratelimit.Subject, limit int) ([]ratelimit.Row, error) {
	return list(ctx, s, selectRates+`AND (tenant, principal) > ($1, $2) ORDER BY tenant, principal LIMIT $3`,
		[]any{after.Tenant, after.Principal, page(limit)}, rowscan.Rate)
}

// TenantRates implements ratelimit.Store.
func (s *Store) TenantRates(ctx context.Context, tenant, after string, limit int) ([]ratelimit.Row, error) {
	return list(ctx, s, selectRates+`AND tenant = $1 AND principal > $2 ORDER BY principal LIMIT $3`,
		[]any{tenant, after, page(limit)}, rowscan.Rate)
}

// ForgetRates implements ratelimit.Store.
func (s *Store) ForgetRates(ctx context.Context, tenant string) error {
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`DELETE FROM rates WHERE tenant = $1`, tenant)
		return err
	})
}

// ExpireRates implements ratelimit.Store. Rows that others are busy with stay until the next time.
func (s *Store) ExpireRates(ctx context.Context, now time.Time) error {
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`DELETE FROM rates WHERE until <= $1 AND (tenant, principal, kind, tool) IN (
			SELECT tenant, principal, kind, tool FROM rates WHERE until <= $1 FOR UPDATE SKIP LOCKED)`, rowscan.Millis(now))
		return err
	})
}
