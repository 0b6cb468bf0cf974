package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// A head is the newest event of a tenant's log, locked. The zero head is that of an empty log.
type head struct {
	sequence int64
	at       time.Time
	moved    bool
}

// ensure makes the rows that stand for the logs of tenants, in a commit of their own: only what is there can be locked.
func (s *Store) ensure(ctx context.Context, db interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
}, tenants []string) error {
	s.mu.Lock()
	var fresh []string
	for _, t := range tenants {
		if !s.known[t] {
			fresh = append(fresh, t)
		}
	}
	s.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	if err := names(fresh...); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		_, err := db.Exec(ctx, `INSERT INTO logs (tenant) SELECT t FROM unnest($1::text[]) AS t ORDER BY t ON CONFLICT DO NOTHING`, fresh)
		if err == nil {
			break
		}
		if attempt == retries || !passing(err) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range fresh {
		s.known[t] = true
	}
	return nil
}

// lock queues what locks the heads of the tenants' logs, in the order of their names. A tenant without a log has nothing
// that could be locked.
func (t *tx) lock(b *pgx.Batch, tenants []string) {
	t.heads = map[string]*head{}
	if len(tenants) == 0 {
		return
	}
	b.Queue(`SELECT tenant, sequence, at FROM logs WHERE tenant = ANY($1::text[]) ORDER BY tenant FOR UPDATE`, tenants).
		Query(func(rows pgx.Rows) error {
			var tenant string
			var sequence, at int64
			_, err := pgx.ForEachRow(rows, []any{&tenant, &sequence, &at}, func() error {
				t.heads[tenant] = &head{sequence: sequence, at: rowscan.Instant(at)}
				return nil
			})
			if err != nil {
				return err
			}
			return t.s.whole(tenants, t.heads)
		})
}

// whole refuses a log that is smaller than one that this process has seen: the database was restored from an older copy, or
// a standby took over that lacks what was acknowledged.
func (s *Store) whole(tenants []string, heads map[string]*head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tenant := range tenants {
		h := heads[tenant]
		if h == nil {
			delete(s.known, tenant)
			h = &head{}
		}
		if h.sequence < s.seen[tenant] {
			return shorter()
		}
	}
	return nil
}

func shorter() error {
	return fail(counterfoil.CodeIntegrityFailed, "the database has a shorter log than it had before; nothing was recorded", nil)
}

// saw remembers how large the logs are.
func (s *Store) saw(heads map[string]*head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, h := range heads {
		s.seen[tenant] = max(s.seen[tenant], h.sequence)
	}
}

// eventRows are events that wait to be written, by columns.
type eventRows struct {
	tenant, phase, execution []string
	sequence, at             []int64
	leaf, body               [][]byte
}

// append gives an event its place in the tenant's log. Times never decrease: one from before the newest event is raised to
// that event's.
func (t *tx) append(tenant string, e counterfoil.Event, at time.Time) error {
	if err := proper(tenant, e); err != nil {
		return err
	}
	h := t.heads[tenant]
	if h == nil {
		return fail(counterfoil.CodeUnavailable, "the tenant's log is not there; nothing was recorded", nil)
	}
	if at = at.UTC().Truncate(time.Millisecond); at.Before(h.at) {
		at = h.at
	}
	body := e.Seal(h.sequence+1, at)
	h.sequence, h.at, h.moved = h.sequence+1, at, true
	leaf := counterfoil.LeafHash(body)
	r := &t.events
	r.tenant, r.phase, r.execution = append(r.tenant, tenant), append(r.phase, string(e.Phase())), append(r.execution, e.ExecutionID())
	r.sequence, r.at = append(r.sequence, h.sequence), append(r.at, rowscan.Millis(at))
	r.leaf, r.body = append(r.leaf, leaf[:]), append(r.body, body)
	return nil
}

// proper refuses an event that is none, or of another tenant.
func proper(tenant string, e counterfoil.Event) error {
	if e.Tenant() != tenant || e.Phase() == "" {
		return fail(counterfoil.CodeInvalidInput, "the event is none, or of another tenant", nil)
	}
	return nil
}

// about refuses an event that is not about an execution or a request of the tenant.
func about(tenant, id string, e counterfoil.Event) error {
	if e.ExecutionID() != id {
		return fail(counterfoil.CodeInvalidInput, "the event is about something else", nil)
	}
	return proper(tenant, e)
}

// queueEvents queues the events and the heads that they moved.
func (t *tx) queueEvents() {
	r := &t.events
	if len(r.tenant) == 0 {
		return
	}
	t.later(`INSERT INTO events (tenant, sequence, at, leaf, phase, execution, body)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::bytea[])`,
		r.tenant, r.sequence, r.at, r.leaf, r.phase, r.execution, r.body)
	var tenants []string
	var sequences, ats []int64
	for tenant, h := range t.heads {
		if h.moved {
			tenants, sequences, ats = append(tenants, tenant), append(sequences, h.sequence), append(ats, rowscan.Millis(h.at))
		}
	}
	t.exactly(len(tenants), `UPDATE logs SET sequence = k.sequence, at = k.at
		FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS k (tenant, sequence, at) WHERE logs.tenant = k.tenant`,
		tenants, sequences, ats)
	t.events = eventRows{}
}

// A recording is an event that nothing else comes with.
type recording struct {
	s *Store
	e counterfoil.Event
}

// Record implements gateway.Uses. What begins or ends an execution is not an event of its own.
func (s *Store) Record(ctx context.Context, e counterfoil.Event) error {
	if err := proper(e.Tenant(), e); err != nil {
		return err
	}
	switch e.Phase() { //nolint:exhaustive // all others may be recorded
	case counterfoil.PhaseStarted, counterfoil.PhaseCompleted, counterfoil.PhaseLate:
		return fail(counterfoil.CodeInvalidInput, "the event belongs to a spending or a settling", nil)
	}
	if err := names(e.Tenant(), e.ExecutionID()); err != nil {
		return err
	}
	return s.group(ctx, &recording{s, e})
}

func (r *recording) want(v *view) { v.tenant(r.e.Tenant()) }

func (*recording) prepare(time.Time) {}

func (r *recording) judge(v *view) (bool, error) {
	err := v.t.append(r.e.Tenant(), r.e, r.s.o.Now())
	return err == nil, err
}

func (r *recording) size() int { return eventSize }

// eventSize is more than most events have.
const eventSize = 2 << 10
