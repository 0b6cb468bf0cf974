package postgres

import "github.com/counterfoil/counterfoil/internal/gateway"

// spentRows are the uses that a batch spends, by columns.
type spentRows struct {
	tenant, id, request, step                                       []string
	sequence, started, expires                                      []int64
	approval, use, policy, consumption, approved, dryRun, operation [][]byte
}

// settledRows are the receipts of a batch, by columns.
type settledRows struct {
	tenant, outcome     []string
	sequence, completed []int64
	digest, body        [][]byte
}

// write queues all that the members of a batch have added, one statement for each table.
func (v *view) write() {
	v.writeSpent()
	v.writeSettled()
	var tenants, names []string
	var values []int64
	for k, c := range v.counters {
		if c.moved {
			tenants, names, values = append(tenants, k.tenant), append(names, k.name), append(values, c.value)
		}
	}
	if len(names) > 0 {
		v.t.later(`INSERT INTO counters (tenant, name, value) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
			ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value`, tenants, names, values)
	}
	tenants, names, values = nil, nil, nil
	for k, t := range v.once {
		if t.moved {
			tenants, names, values = append(tenants, k.tenant), append(names, k.name), append(values, t.until)
		}
	}
	if len(names) > 0 {
		v.t.later(`INSERT INTO once (tenant, key, until) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])`,
			tenants, names, values)
	}
	v.writeRequests()
}

func (v *view) writeSpent() {
	r := &v.spent
	if len(r.id) == 0 {
		return
	}
	for sum, body := range v.policies {
		v.t.later(`INSERT INTO policies (sha256, body) VALUES ($1, $2) ON CONFLICT DO NOTHING`, sum[:], body)
	}
	v.t.later(`INSERT INTO executions (tenant, sequence, id, request, process, approval, step, use, started, expires, policy,
			consumption, approved, dry_run, operation)
		SELECT tenant, sequence, id, request, $15, approval, step, use, started, expires, policy, consumption, approved, dry_run, operation
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::bytea[], $8::bigint[], $9::bigint[],
			$10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[])
			AS k (tenant, sequence, id, request, approval, step, use, started, expires, policy, consumption, approved, dry_run, operation)`,
		r.tenant, r.sequence, r.id, r.request, r.approval, r.step, r.use, r.started, r.expires,
		r.policy, r.consumption, r.approved, r.dryRun, r.operation, v.t.process())
	v.t.later(`INSERT INTO running (tenant, sequence, process) SELECT tenant, sequence, $3
		FROM unnest($1::text[], $2::bigint[]) AS k (tenant, sequence)`, r.tenant, r.sequence, v.t.process())
}

func (v *view) writeSettled() {
	r := &v.settled
	if len(r.tenant) == 0 {
		return
	}
	v.t.later(`INSERT INTO receipts (tenant, sequence, outcome, completed, digest, body)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[])`,
		r.tenant, r.sequence, r.outcome, r.completed, r.digest, r.body)
	v.t.exactly(len(r.tenant), `DELETE FROM running USING unnest($1::text[], $2::bigint[]) AS k (tenant, sequence)
		WHERE running.tenant = k.tenant AND running.sequence = k.sequence`, r.tenant, r.sequence)
}

func (v *view) writeRequests() {
	var spent, settled []name
	for k, r := range v.requests {
		if r.spent != "" {
			spent = append(spent, k)
		}
		if r.settled {
			settled = append(settled, k)
		}
	}
	if len(spent) > 0 {
		var tenants, ids, executions []string
		for _, k := range spent {
			tenants, ids, executions = append(tenants, k.tenant), append(ids, k.name), append(executions, v.requests[k].spent)
		}
		v.t.exactly(len(ids), `UPDATE requests SET state = $4, execution = k.execution
			FROM unnest($1::text[], $2::text[], $3::text[]) AS k (tenant, id, execution)
			WHERE requests.tenant = k.tenant AND requests.id = k.id AND requests.state = 'approved'`,
			tenants, ids, executions, string(gateway.Spent))
	}
	if len(settled) == 0 {
		return
	}
	var tenants, ids, outcomes []string
	var answers [][]byte
	var keeps []int64
	for _, k := range settled {
		r := v.requests[k]
		tenants, ids, outcomes = append(tenants, k.tenant), append(ids, k.name), append(outcomes, r.outcome)
		answers, keeps = append(answers, r.answer), append(keeps, r.keep)
	}
	v.t.exactly(len(ids), `UPDATE requests SET outcome = k.outcome, answer = k.answer, keep_until = k.keep
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[]) AS k (tenant, id, outcome, answer, keep)
		WHERE requests.tenant = k.tenant AND requests.id = k.id AND requests.state = 'spent'`, tenants, ids, outcomes, answers, keeps)
}
