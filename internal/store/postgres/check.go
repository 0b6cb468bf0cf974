package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// checks are the invariants that no constraint of the schema states, each as a query that returns a line for a finding.
func checks() []string {
	return []string{
		`SELECT format('the log of tenant %s has %s events up to %s, and its head says %s', l.tenant, count(e.sequence), coalesce(max(e.sequence), 0), l.sequence)
			FROM logs l LEFT JOIN events e ON e.tenant = l.tenant GROUP BY l.tenant, l.sequence
			HAVING count(e.sequence) <> l.sequence OR coalesce(max(e.sequence), 0) <> l.sequence ORDER BY l.tenant LIMIT 100`,
		`SELECT format('there are events of tenant %s, which has no log', tenant) FROM events e
			WHERE NOT EXISTS (SELECT 1 FROM logs l WHERE l.tenant = e.tenant) GROUP BY tenant ORDER BY tenant LIMIT 100`,
		`SELECT format('event %s of tenant %s has another body than its leaf says', sequence, tenant) FROM events
			WHERE body IS NOT NULL AND sha256('\x00' || body) <> leaf ORDER BY tenant, sequence LIMIT 100`,
		`SELECT format('event %s of tenant %s is of before the event before it', sequence, tenant) FROM (
			SELECT tenant, sequence, at, lag(at) OVER (PARTITION BY tenant ORDER BY sequence) AS earlier FROM events) AS e
			WHERE at < earlier ORDER BY tenant, sequence LIMIT 100`,
		`SELECT format('execution %s of tenant %s has no started event', id, x.tenant) FROM executions x
			WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.tenant = x.tenant AND e.sequence = x.sequence AND e.phase = 'started' AND e.execution = x.id)
			ORDER BY x.tenant, x.sequence LIMIT 100`,
		`SELECT format('the started event %s of tenant %s has no execution', e.sequence, e.tenant) FROM events e
			WHERE e.phase = 'started' AND NOT EXISTS (SELECT 1 FROM executions x WHERE x.tenant = e.tenant AND x.sequence = e.sequence)
			ORDER BY e.tenant, e.sequence LIMIT 100`,
		`SELECT format('execution %s of tenant %s is running and settled at once, or neither', id, x.tenant) FROM executions x
			WHERE EXISTS (SELECT 1 FROM running r WHERE r.tenant = x.tenant AND r.sequence = x.sequence)
				= EXISTS (SELECT 1 FROM receipts r WHERE r.tenant = x.tenant AND r.sequence = x.sequence)
			ORDER BY x.tenant, x.sequence LIMIT 100`,
		`SELECT format('the receipt of execution %s of tenant %s is not the one that was recorded', x.id, x.tenant) FROM receipts r
			JOIN executions x ON x.tenant = r.tenant AND x.sequence = r.sequence
			WHERE r.body IS NOT NULL AND sha256(r.body) <> r.digest ORDER BY x.tenant, x.sequence LIMIT 100`,
		`SELECT format('request %s of tenant %s is spent by an execution that is not there', id, tenant) FROM requests q
			WHERE state = 'spent' AND NOT EXISTS (SELECT 1 FROM executions x WHERE x.tenant = q.tenant AND x.id = q.execution AND x.request = q.id)
			ORDER BY tenant, id LIMIT 100`,
		`SELECT format('the checkpoint of tenant %s has %s events, and the log %s', c.tenant, c.size, coalesce(l.sequence, 0))
			FROM checkpoints c LEFT JOIN logs l ON l.tenant = c.tenant WHERE c.size > coalesce(l.sequence, 0) ORDER BY c.tenant LIMIT 100`,
	}
}

// Check reads the whole database and returns a line for each thing that it finds wrong, at most a hundred of a kind. It sees
// one moment and holds nobody up.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if died(err) {
		s.pool.Reset()
		tx, err = s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	}
	if err != nil {
		return nil, readError(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
	// All of the tables are read: what the settings of a session forbid for the sake of calls is what is wanted here.
	if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true),
		set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)`); err != nil {
		return nil, readError(err)
	}
	return findings(ctx, tx)
}

// findings runs the checks in a transaction.
func findings(ctx context.Context, tx pgx.Tx) ([]string, error) {
	var found []string
	for _, query := range checks() {
		rows, err := tx.Query(ctx, query)
		if err != nil {
			return nil, readError(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, readError(err)
		}
		found = append(found, lines...)
	}
	return found, nil
}
