package postgres

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// maxForgotten is how many tallies a change forgets.
const maxForgotten = 100

// tallyRows are tallies by columns, in the order of their keys.
type tallyRows struct {
	keys                                 [][]byte
	failures, last, until, known, forget []int64
}

// ChangeTallies implements credential.TallyStore.
func (s *Store) ChangeTallies(ctx context.Context, keys []credential.Hash, now time.Time, change func([]credential.Tally)) error {
	all := make([][]byte, len(keys))
	for i := range keys {
		all[i] = keys[i][:]
	}
	return s.transact(ctx, nil, func(t *tx) error {
		tallies, err := t.tallies(keys, all)
		if err != nil {
			return err
		}
		change(tallies)
		rows := tallyRows{keys: all}
		for i := range tallies {
			x := &tallies[i]
			rows.failures = append(rows.failures, x.Failures)
			rows.last, rows.until = append(rows.last, rowscan.Millis(x.Last)), append(rows.until, rowscan.Millis(x.Until))
			rows.known, rows.forget = append(rows.known, rowscan.Millis(x.Known)), append(rows.forget, rowscan.Millis(x.Forget))
		}
		t.later(`UPDATE login_tallies l SET failures = n.failures, last = n.last, until = n.until, known = n.known, forget = n.forget
			FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
			AS n (key, failures, last, until, known, forget) WHERE l.key = n.key`,
			rows.keys, rows.failures, rows.last, rows.until, rows.known, rows.forget)
		t.later(`DELETE FROM login_tallies WHERE key IN (SELECT key FROM login_tallies WHERE forget <= $1
			ORDER BY forget LIMIT $2 FOR UPDATE SKIP LOCKED)`, rowscan.Millis(now), maxForgotten)
		return nil
	})
}

// tallies locks the tallies with the keys, in the order of their bytes so that nobody waits in a circle, and returns them in
// the order in which they were asked for.
func (t *tx) tallies(keys []credential.Hash, all [][]byte) ([]credential.Tally, error) {
	type keyed struct {
		key credential.Hash
		credential.Tally
	}
	if err := t.s.fault(writing); err != nil {
		return nil, err
	}
	t.wrote = true
	found, err := rows(t, `INSERT INTO login_tallies AS l (key, failures, last, until, known, forget)
		SELECT k, 0, 0, 0, 0, 0 FROM unnest($1::bytea[]) AS k ORDER BY k
		ON CONFLICT (key) DO UPDATE SET forget = l.forget RETURNING key, failures, last, until, known, forget`, []any{all},
		func(r rowscan.Scanner) (keyed, error) {
			var x keyed
			var key []byte
			var last, until, known, forget int64
			err := r.Scan(&key, &x.Failures, &last, &until, &known, &forget)
			copy(x.key[:], key)
			x.Last, x.Until, x.Known, x.Forget = rowscan.Instant(last), rowscan.Instant(until), rowscan.Instant(known), rowscan.Instant(forget)
			return x, err
		})
	if err != nil {
		return nil, err
	}
	out := make([]credential.Tally, len(keys))
	for i, key := range keys {
		for _, x := range found {
			if x.key == key {
				out[i] = x.Tally
			}
		}
	}
	return out, nil
}

// BootstrapOpen implements credential.BootstrapStore.
func (s *Store) BootstrapOpen(ctx context.Context, now time.Time) (bool, error) {
	var open bool
	err := s.get(ctx, `SELECT NOT EXISTS (SELECT 1 FROM tenants) AND NOT EXISTS (SELECT 1 FROM bootstrap WHERE expires > $1)`, []any{rowscan.Millis(now)}, &open)
	return open && err == nil, err
}

// OfferBootstrap implements credential.BootstrapStore.
func (s *Store) OfferBootstrap(ctx context.Context, h credential.Hash, now, until time.Time) (bool, error) {
	if h == (credential.Hash{}) || !until.After(now) {
		return false, fail(counterfoil.CodeInvalidInput, "the offer is not complete", nil)
	}
	var n int64
	err := s.transact(ctx, nil, func(t *tx) (err error) {
		n, err = t.exec(`INSERT INTO bootstrap AS had (id, hash, expires) SELECT 1, $1::bytea, $2::bigint WHERE NOT EXISTS (SELECT 1 FROM tenants)
			ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, expires = excluded.expires WHERE had.expires <= $3`, h[:], rowscan.Millis(until), rowscan.Millis(now))
		return err
	})
	return err == nil && n == 1, err
}

const goodBootstrap = `SELECT NOT EXISTS (SELECT 1 FROM tenants) AND EXISTS (SELECT 1 FROM bootstrap WHERE hash = $1 AND expires > $2)`

// BootstrapGood implements credential.BootstrapStore.
func (s *Store) BootstrapGood(ctx context.Context, h credential.Hash, now time.Time) (bool, error) {
	var good bool
	err := s.get(ctx, goodBootstrap, []any{h[:], rowscan.Millis(now)}, &good)
	return good && err == nil, err
}

// RedeemBootstrap implements credential.BootstrapStore.
func (s *Store) RedeemBootstrap(ctx context.Context, h credential.Hash, now time.Time, f credential.FirstTenant, u credential.UserRow, e counterfoil.Event) error {
	scopes, groups, err := wholeUser(&u)
	if err != nil {
		return err
	}
	if err := proper(f.ID, e); err != nil {
		return err
	}
	if f.ID != u.Tenant || len(f.Body) == 0 || f.Created.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "the first tenant is not complete", nil)
	}
	if good, err := s.BootstrapGood(ctx, h, now); err != nil { // no log is made for whoever has none
		return err
	} else if !good {
		return credential.ErrNotFound
	}
	return s.transactIn(ctx, f.ID, func(t *tx) error {
		n, err := t.exec(`DELETE FROM bootstrap WHERE hash = $1 AND expires > $2 AND NOT EXISTS (SELECT 1 FROM tenants)`, h[:], rowscan.Millis(now))
		if err != nil {
			return err
		}
		if n == 0 {
			return credential.ErrNotFound
		}
		// Another tenant that is being made at the same moment is not seen: only whoever governs the system makes one.
		if _, err := t.exec(`INSERT INTO tenants (id, created, body) VALUES ($1, $2, $3)`, f.ID, rowscan.Millis(f.Created), f.Body); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO marks (tenant, name, value) VALUES ($1, $2, 1)`, f.ID, tenancy.MarkEpoch); err != nil {
			return err
		}
		if err := t.addUser(u, scopes, groups); err != nil {
			return err
		}
		return t.append(f.ID, e, s.o.Now())
	})
}
