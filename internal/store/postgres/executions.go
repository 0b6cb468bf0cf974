package postgres

import (
	"context"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

const selectExecution = `SELECT e.tenant, e.id, e.request, e.started, coalesce(r.outcome, ''), e.step,
	e.approved, e.dry_run, p.body, e.operation, e.consumption, r.body
	FROM executions e
	LEFT JOIN policies p ON p.sha256 = e.policy
	LEFT JOIN receipts r ON r.tenant = e.tenant AND r.sequence = e.sequence`

func scanExecution(r rowscan.Scanner) (gateway.Execution, error) {
	var x gateway.Execution
	var started int64
	var step string
	err := r.Scan(&x.Tenant, &x.ID, &x.Request, &started, &x.Outcome, &step,
		&x.Approval, &x.DryRun, &x.Policy, &x.Operation, &x.Consumption, &x.Receipt)
	x.StartedAt = rowscan.Instant(started)
	x.Describe(step)
	return x, err
}

// Execution implements gateway.Executions.
func (s *Store) Execution(ctx context.Context, tenant, id string) (gateway.Execution, error) {
	return one(list(ctx, s, selectExecution+` WHERE e.tenant = $1 AND e.id = $2`, []any{tenant, id}, scanExecution))
}

// Executions implements gateway.Executions.
func (s *Store) Executions(ctx context.Context, tenant, after string, limit int) ([]gateway.Execution, error) {
	before, err := s.before(ctx, `SELECT sequence FROM executions WHERE tenant = $1 AND id = $2`, tenant, after)
	if err != nil {
		return nil, err
	}
	return list(ctx, s, selectExecution+` WHERE e.tenant = $1 AND e.sequence < $2 ORDER BY e.sequence DESC LIMIT $3`,
		[]any{tenant, before, page(limit)}, func(r rowscan.Scanner) (gateway.Execution, error) {
			x, err := scanExecution(r)
			x.Approval, x.DryRun, x.Policy, x.Operation, x.Consumption, x.Receipt = nil, nil, nil, nil, nil, nil
			return x, err
		})
}

// Orphans implements gateway.Uses. It returns at most maxPage at once.
func (s *Store) Orphans(ctx context.Context) ([]gateway.Execution, error) {
	return list(ctx, s, selectExecution+` JOIN running ON running.tenant = e.tenant AND running.sequence = e.sequence
		WHERE NOT EXISTS (SELECT 1 FROM processes p WHERE p.id = running.process AND p.until > `+clock+`)
		ORDER BY running.tenant, running.sequence LIMIT $1`, []any{maxPage}, scanExecution)
}
