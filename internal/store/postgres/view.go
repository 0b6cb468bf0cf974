package postgres

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A view is all that a batch's members are judged by, as it was read under the locks of their tenants' logs, and as those
// before them in the batch have changed it.
type view struct {
	t *tx

	heads    map[string]bool // tenants
	alive    bool            // the lease must not have lapsed
	uses     map[useKey]*execution
	ids      map[name]*execution
	revoked  map[subject]bool
	counters map[name]*counter
	once     map[name]*taking
	marks    map[name]int64
	requests map[name]*request
	late     map[lateKey]bool // of this batch

	found map[place]*execution // by its place in the log: one value, however it is found

	spent    spentRows
	settled  settledRows
	policies map[counterfoil.Digest][]byte // new ones
}

// A name is one of a tenant's.
type name struct{ tenant, name string }

type useKey struct {
	expires  int64
	approval counterfoil.Digest
	step     string
}

type subject struct {
	tenant string
	digest counterfoil.Digest
}

type place struct {
	tenant   string
	sequence int64
}

// A lateKey names a receipt that came after another.
type lateKey struct {
	place

	digest [32]byte
}

type execution struct {
	place

	id            string
	approval, use counterfoil.Digest
	step          string
	outcome       string // "" while it runs
	receipt       []byte // SHA-256 of its envelope; nil while it runs
}

type counter struct {
	value int64
	moved bool
}

type taking struct {
	taken bool
	until int64
	moved bool
}

type request struct {
	state     gateway.State // "" for none
	execution string
	spent     string // by which execution, in this batch

	outcome string // of a settling in this batch
	answer  []byte
	keep    int64
	settled bool
}

func newView(t *tx) *view {
	return &view{
		t: t, heads: map[string]bool{}, uses: map[useKey]*execution{}, ids: map[name]*execution{}, revoked: map[subject]bool{},
		counters: map[name]*counter{}, once: map[name]*taking{}, marks: map[name]int64{}, requests: map[name]*request{},
		late: map[lateKey]bool{}, found: map[place]*execution{}, policies: map[counterfoil.Digest][]byte{},
	}
}

func (v *view) tenant(tenant string) { v.heads[tenant] = true }

// tenants are those whose logs are locked, in the order in which they are.
func (v *view) tenants() []string { return slices.Sorted(maps.Keys(v.heads)) }

// columns takes names apart, in the order in which rows are locked.
func columns[V any](m map[name]V) (tenants, names []string) {
	all := slices.SortedFunc(maps.Keys(m), func(a, b name) int {
		return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.name, b.name))
	})
	for _, k := range all {
		tenants, names = append(tenants, k.tenant), append(names, k.name)
	}
	return tenants, names
}

// load begins the transaction, locks the heads and reads what is wanted, all in one message. Each statement sees what was
// committed before it, and so does every one after the lock. While the server is at it, meanwhile is run.
func (v *view) load(meanwhile func()) error {
	b := &pgx.Batch{}
	b.Queue(begin)
	v.t.lock(b, v.tenants())
	if v.alive {
		v.loadLease(b)
	}
	if len(v.uses) > 0 {
		v.loadUses(b)
	}
	if len(v.ids) > 0 {
		v.loadExecutions(b)
	}
	if len(v.revoked) > 0 {
		v.loadRevoked(b)
	}
	v.loadNames(b)
	results := v.t.conn.SendBatch(v.t.ctx, b)
	meanwhile()
	return results.Close()
}

func (v *view) loadLease(b *pgx.Batch) {
	b.Queue(`SELECT EXISTS (SELECT 1 FROM processes WHERE id = $1 AND until > `+clock+`)`, v.t.process()).
		QueryRow(func(row pgx.Row) error {
			var alive bool
			if err := row.Scan(&alive); err != nil {
				return err
			}
			if !alive {
				return errLapsed
			}
			return nil
		})
}

// process is the name under which the transaction writes.
func (t *tx) process() string {
	if t.as == "" {
		t.as = t.s.lease.process()
	}
	return t.as
}

const selectUse = `SELECT e.tenant, e.sequence, e.id, e.approval, e.use, e.step, e.expires, r.outcome, r.digest FROM `

const joinReceipt = ` LEFT JOIN receipts r ON r.tenant = e.tenant AND r.sequence = e.sequence`

// read takes the executions of a query into the view and gives each, with the end of its approval, to f.
func (v *view) read(rows pgx.Rows, f func(x *execution, expires int64)) error {
	for rows.Next() {
		var x execution
		var approval, use []byte
		var expires int64
		var outcome *string
		if err := rows.Scan(&x.tenant, &x.sequence, &x.id, &approval, &use, &x.step, &expires, &outcome, &x.receipt); err != nil {
			return err
		}
		copy(x.approval[:], approval)
		copy(x.use[:], use)
		if outcome != nil {
			x.outcome = *outcome
		}
		if v.found[x.place] == nil {
			v.found[x.place] = &x
		}
		f(v.found[x.place], expires)
	}
	return rows.Err()
}

func (v *view) loadUses(b *pgx.Batch) {
	var expires []int64
	var approvals [][]byte
	var steps []string
	for k := range v.uses {
		expires, approvals, steps = append(expires, k.expires), append(approvals, k.approval[:]), append(steps, k.step)
	}
	b.Queue(selectUse+`unnest($1::bigint[], $2::bytea[], $3::text[]) AS k (expires, approval, step)
		JOIN executions e ON e.expires = k.expires AND e.approval = k.approval AND e.step = k.step`+joinReceipt, expires, approvals, steps).
		Query(func(rows pgx.Rows) error {
			return v.read(rows, func(x *execution, expires int64) { v.uses[useKey{expires, x.approval, x.step}] = x })
		})
}

func (v *view) loadExecutions(b *pgx.Batch) {
	tenants, ids := columns(v.ids)
	b.Queue(selectUse+`unnest($1::text[], $2::text[]) AS k (tenant, id)
		JOIN executions e ON e.tenant = k.tenant AND e.id = k.id`+joinReceipt, tenants, ids).
		Query(func(rows pgx.Rows) error {
			return v.read(rows, func(x *execution, _ int64) { v.ids[name{x.tenant, x.id}] = x })
		})
}

func (v *view) loadRevoked(b *pgx.Batch) {
	var tenants []string
	var digests [][]byte
	for k := range v.revoked {
		tenants, digests = append(tenants, k.tenant), append(digests, k.digest[:])
	}
	b.Queue(`SELECT k.tenant, k.subject FROM unnest($1::text[], $2::bytea[]) AS k (tenant, subject)
		WHERE EXISTS (SELECT 1 FROM revocations r WHERE r.tenant = k.tenant AND r.subject = k.subject)`, tenants, digests).
		Query(func(rows pgx.Rows) error {
			var k subject
			var digest []byte
			_, err := pgx.ForEachRow(rows, []any{&k.tenant, &digest}, func() error {
				copy(k.digest[:], digest)
				v.revoked[k] = true
				return nil
			})
			return err
		})
}

// loadNames reads what is found by a tenant and a name. The rows of requests are locked, since callers who come and go move
// them without the log.
func (v *view) loadNames(b *pgx.Batch) {
	number := func(query string, tenants, names []string, f func(name, int64)) {
		b.Queue(query, tenants, names).Query(func(rows pgx.Rows) error {
			var k name
			var n int64
			_, err := pgx.ForEachRow(rows, []any{&k.tenant, &k.name, &n}, func() error { f(k, n); return nil })
			return err
		})
	}
	if tenants, names := columns(v.counters); len(names) > 0 {
		number(`SELECT c.tenant, c.name, c.value FROM unnest($1::text[], $2::text[]) AS k (tenant, name)
			JOIN counters c ON c.tenant = k.tenant AND c.name = k.name`, tenants, names,
			func(k name, n int64) { v.counters[k].value = n })
	}
	if tenants, names := columns(v.marks); len(names) > 0 {
		number(`SELECT m.tenant, m.name, m.value FROM unnest($1::text[], $2::text[]) AS k (tenant, name)
			JOIN marks m ON m.tenant = k.tenant AND m.name = k.name`, tenants, names,
			func(k name, n int64) { v.marks[k] = n })
	}
	if tenants, names := columns(v.once); len(names) > 0 {
		number(`SELECT o.tenant, o.key, o.until FROM unnest($1::text[], $2::text[]) AS k (tenant, name)
			JOIN once o ON o.tenant = k.tenant AND o.key = k.name`, tenants, names,
			func(k name, _ int64) { v.once[k].taken = true })
	}
	if tenants, names := columns(v.requests); len(names) > 0 {
		b.Queue(`SELECT r.tenant, r.id, r.state, r.execution FROM unnest($1::text[], $2::text[]) AS k (tenant, name)
			JOIN requests r ON r.tenant = k.tenant AND r.id = k.name ORDER BY r.tenant, r.id FOR UPDATE OF r`, tenants, names).
			Query(func(rows pgx.Rows) error {
				var k name
				var state, execution string
				_, err := pgx.ForEachRow(rows, []any{&k.tenant, &k.name, &state, &execution}, func() error {
					v.requests[k].state, v.requests[k].execution = gateway.State(state), execution
					return nil
				})
				return err
			})
	}
}
