package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// maxForgotten is how many tallies a change forgets.
const maxForgotten = 100

// ChangeTallies implements credential.TallyStore.
func (s *Store) ChangeTallies(ctx context.Context, keys []credential.Hash, now time.Time, change func([]credential.Tally)) error {
	return s.commit(ctx, func(t *tx) error {
		tallies := make([]credential.Tally, len(keys))
		for i := range keys {
			x := &tallies[i]
			var last, until, known, forget int64
			err := t.get(`SELECT failures, last, until, known, forget FROM login_tallies WHERE key = ?`, []any{keys[i][:]},
				&x.Failures, &last, &until, &known, &forget)
			if err != nil && !errors.Is(err, gateway.ErrNotFound) {
				return err
			}
			x.Last, x.Until, x.Known, x.Forget = rowscan.Instant(last), rowscan.Instant(until), rowscan.Instant(known), rowscan.Instant(forget)
		}
		change(tallies)
		for i := range tallies {
			x := &tallies[i]
			if _, err := t.exec(`INSERT INTO login_tallies (key, failures, last, until, known, forget) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (key) DO UPDATE SET failures = excluded.failures, last = excluded.last, until = excluded.until,
				known = excluded.known, forget = excluded.forget`,
				keys[i][:], x.Failures, rowscan.Millis(x.Last), rowscan.Millis(x.Until), rowscan.Millis(x.Known), rowscan.Millis(x.Forget)); err != nil {
				return err
			}
		}
		return second(t.exec(`DELETE FROM login_tallies WHERE key IN (SELECT key FROM login_tallies WHERE forget <= ? LIMIT ?)`,
			rowscan.Millis(now), maxForgotten))
	})
}

// BootstrapOpen implements credential.BootstrapStore.
func (s *Store) BootstrapOpen(ctx context.Context, now time.Time) (bool, error) {
	var open bool
	err := s.get(ctx, `SELECT NOT EXISTS (SELECT 1 FROM tenants) AND NOT EXISTS (SELECT 1 FROM bootstrap WHERE expires > ?)`, []any{rowscan.Millis(now)}, &open)
	return open && err == nil, err
}

// OfferBootstrap implements credential.BootstrapStore.
func (s *Store) OfferBootstrap(ctx context.Context, h credential.Hash, now, until time.Time) (bool, error) {
	if h == (credential.Hash{}) || !until.After(now) {
		return false, fail(counterfoil.CodeInvalidInput, "the offer is not complete", nil)
	}
	var n int64
	err := s.commit(ctx, func(t *tx) (err error) {
		n, err = t.exec(`INSERT INTO bootstrap (id, hash, expires) SELECT 1, ?, ? WHERE NOT EXISTS (SELECT 1 FROM tenants)
			ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, expires = excluded.expires WHERE expires <= ?`, h[:], rowscan.Millis(until), rowscan.Millis(now))
		return err
	})
	return err == nil && n == 1, err
}

const goodBootstrap = `SELECT NOT EXISTS (SELECT 1 FROM tenants) AND EXISTS (SELECT 1 FROM bootstrap WHERE hash = ? AND expires > ?)`

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
	if f.ID != u.Tenant || e.Tenant() != f.ID || len(f.Body) == 0 || f.Created.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "the first tenant is not complete", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		var good bool
		if err := t.get(goodBootstrap, []any{h[:], rowscan.Millis(now)}, &good); err != nil {
			return err
		}
		if !good {
			return credential.ErrNotFound
		}
		if _, err := t.exec(`DELETE FROM bootstrap`); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO tenants (id, created, body) VALUES (?, ?, ?)`, f.ID, rowscan.Millis(f.Created), f.Body); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO marks (tenant, name, value) VALUES (?, ?, 1)`, f.ID, tenancy.MarkEpoch); err != nil {
			return err
		}
		if err := t.addUser(u, scopes, groups); err != nil {
			return err
		}
		return second(t.append(f.ID, e, s.o.Now()))
	})
}
