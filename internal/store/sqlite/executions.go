package sqlite

import (
	"context"
	"database/sql"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// selectExecution has the documents; the lists' query must have the same columns.
const selectExecution = `SELECT e.tenant, e.id, e.request, e.started, e.outcome, e.step,
	d.approval, d.dry_run, p.body, d.operation, e.consumption, r.body
	FROM executions e
	LEFT JOIN documents d ON d.number = e.number
	LEFT JOIN policies p ON p.sha256 = d.policy
	LEFT JOIN receipts r ON r.number = e.number`

func scanExecution(r rowscan.Scanner) (gateway.Execution, error) {
	var x gateway.Execution
	var request, outcome sql.NullString
	var started int64
	var step string
	err := r.Scan(&x.Tenant, &x.ID, &request, &started, &outcome, &step,
		&x.Approval, &x.DryRun, &x.Policy, &x.Operation, &x.Consumption, &x.Receipt)
	x.Request, x.Outcome, x.StartedAt = request.String, outcome.String, rowscan.Instant(started)
	x.Describe(step)
	return x, err
}

// Execution implements gateway.Executions.
func (s *Store) Execution(ctx context.Context, tenant, id string) (gateway.Execution, error) {
	x, err := scanExecution(s.read.QueryRowContext(ctx, selectExecution+` WHERE e.tenant = ? AND e.id = ?`, tenant, id))
	if err != nil {
		return gateway.Execution{}, readError(err)
	}
	return x, nil
}

// Executions implements gateway.Executions.
func (s *Store) Executions(ctx context.Context, tenant, after string, limit int) ([]gateway.Execution, error) {
	before, err := s.before(ctx, `SELECT number FROM executions WHERE tenant = ? AND id = ?`, tenant, after)
	if err != nil {
		return nil, err
	}
	return list(ctx, s, selectExecution+` WHERE e.tenant = ?1 AND e.number >= (SELECT number << 40 FROM logs WHERE tenant = ?1)
		AND e.number < min(?2, (SELECT (number + 1) << 40 FROM logs WHERE tenant = ?1)) ORDER BY e.number DESC LIMIT ?3`,
		[]any{tenant, before, page(limit)}, func(r rowscan.Scanner) (gateway.Execution, error) {
			x, err := scanExecution(r)
			x.Approval, x.DryRun, x.Policy, x.Operation, x.Consumption, x.Receipt = nil, nil, nil, nil, nil, nil
			return x, err
		})
}

// before returns the number that a page of a list ends before: that of the row with the id, or one beyond all for "".
func (s *Store) before(ctx context.Context, query, tenant, id string) (int64, error) {
	number := int64(1<<63 - 1)
	if id == "" {
		return number, nil
	}
	return number, s.get(ctx, query, []any{tenant, id}, &number)
}

// Orphans implements gateway.Uses.
func (s *Store) Orphans(ctx context.Context) ([]gateway.Execution, error) {
	dead, err := s.deadProcesses(ctx, `SELECT DISTINCT process FROM executions WHERE outcome IS NULL`)
	if err != nil {
		return nil, err
	}
	var all []gateway.Execution
	for _, process := range dead {
		x, err := list(ctx, s, selectExecution+` WHERE e.process = ? AND e.outcome IS NULL ORDER BY e.number`,
			[]any{process}, scanExecution)
		if err != nil {
			return nil, err
		}
		all = append(all, x...)
	}
	return all, nil
}

// deadProcesses returns those of the query's processes that are dead.
func (s *Store) deadProcesses(ctx context.Context, query string) ([]string, error) {
	ids, err := list(ctx, s, query, nil, func(r rowscan.Scanner) (string, error) {
		var id string
		err := r.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, id := range ids {
		gone, err := s.process.dead(id)
		if err != nil {
			return nil, err
		}
		if gone {
			dead = append(dead, id)
		}
	}
	return dead, nil
}
