package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

var _ credential.Store = (*Store)(nil)

// absent says in the words of package credential that there is no such row.
func absent(err error) error {
	if errors.Is(err, gateway.ErrNotFound) {
		return credential.ErrNotFound
	}
	return err
}

// home refuses a change to a tenant that isn't there: no log is made for it.
func (s *Store) home(ctx context.Context, tenant string, e counterfoil.Event) error {
	if err := errors.Join(names(tenant), proper(tenant, e)); err != nil {
		return err
	}
	_, err := s.Tenant(ctx, tenant)
	if errors.Is(err, gateway.ErrNotFound) {
		return fail(counterfoil.CodeInvalidInput, "there is no such tenant", identity.ErrNoTenant)
	}
	return err
}

// move raises a tenant's epoch: what is remembered of it elsewhere is worth nothing from now on.
func (t *tx) move(tenant string) error {
	_, err := t.exec(`UPDATE marks SET value = value + 1 WHERE tenant = $1 AND name = $2`, tenant, tenancy.MarkEpoch)
	return err
}

// addKey writes a key, under the lock of its tenant's log.
func (t *tx) addKey(k credential.KeyRow, scopes string) error {
	if _, err := t.exec(`INSERT INTO key_subjects (tenant, kind, subject, owner) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		k.Tenant, string(k.Kind), k.Subject, k.Owner); err != nil {
		return err
	}
	var owner string
	if err := t.get(`SELECT owner FROM key_subjects WHERE tenant = $1 AND kind = $2 AND subject = $3`,
		[]any{k.Tenant, string(k.Kind), k.Subject}, &owner); err != nil {
		return err
	}
	if owner != k.Owner {
		return credential.ErrTaken
	}
	_, err := t.exec(`INSERT INTO api_keys (tenant, id, hash, subject, kind, owner, scopes, label, created, created_by, expires)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, k.Tenant, k.ID, k.Hash[:], k.Subject, string(k.Kind), k.Owner, scopes, k.Label,
		rowscan.Millis(k.Created), k.CreatedBy, rowscan.Millis(k.Expires))
	return err
}

// wholeKey refuses a key that is not whole, and returns its scopes as they are kept.
func wholeKey(k *credential.KeyRow) (string, error) {
	scopes, err := credential.JoinNames(k.Scopes)
	return scopes, errors.Join(names(k.Tenant, k.ID, k.Subject, k.Owner, k.CreatedBy), texts(k.Label, scopes), k.Check(), err)
}

// AddKey implements credential.KeyStore.
func (s *Store) AddKey(ctx context.Context, k credential.KeyRow, e counterfoil.Event) error {
	scopes, err := wholeKey(&k)
	if err != nil {
		return err
	}
	if err := s.home(ctx, k.Tenant, e); err != nil {
		return err
	}
	return s.transactIn(ctx, k.Tenant, func(t *tx) error {
		if err := t.addKey(k, scopes); err != nil {
			return err
		}
		return t.append(k.Tenant, e, s.o.Now())
	})
}

// ReplaceKey implements credential.KeyStore.
func (s *Store) ReplaceKey(ctx context.Context, old string, until time.Time, next credential.KeyRow, e counterfoil.Event) error {
	scopes, err := wholeKey(&next)
	if err != nil {
		return err
	}
	if until.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "a key that was replaced has an end", nil)
	}
	if err := errors.Join(names(old), s.home(ctx, next.Tenant, e)); err != nil {
		return err
	}
	return s.transactIn(ctx, next.Tenant, func(t *tx) error {
		var successor string
		if err := t.get(`SELECT successor FROM api_keys WHERE tenant = $1 AND id = $2 FOR UPDATE`, []any{next.Tenant, old}, &successor); err != nil {
			return absent(err)
		}
		if successor != "" {
			return credential.ErrChanged
		}
		if err := t.addKey(next, scopes); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE api_keys SET successor = $1, expires = CASE WHEN expires = 0 THEN $2::bigint ELSE least(expires, $2::bigint) END
			WHERE tenant = $3 AND id = $4`, next.ID, rowscan.Millis(until), next.Tenant, old); err != nil {
			return err
		}
		if err := t.move(next.Tenant); err != nil {
			return err
		}
		return t.append(next.Tenant, e, s.o.Now())
	})
}

// RemoveKey implements credential.KeyStore.
func (s *Store) RemoveKey(ctx context.Context, tenant, id, owner string, e counterfoil.Event) error {
	if err := errors.Join(names(tenant, id), texts(owner)); err != nil {
		return err
	}
	if err := s.home(ctx, tenant, e); err != nil {
		return err
	}
	return s.transactIn(ctx, tenant, func(t *tx) error {
		n, err := t.exec(`DELETE FROM api_keys WHERE tenant = $1 AND id = $2 AND ($3 = '' OR owner = $3)`, tenant, id, owner)
		if err != nil {
			return err
		}
		if n == 0 {
			return credential.ErrNotFound
		}
		if err := t.move(tenant); err != nil {
			return err
		}
		return t.append(tenant, e, s.o.Now())
	})
}

// KeyByHash implements credential.KeyStore.
func (s *Store) KeyByHash(ctx context.Context, h credential.Hash) (credential.HeldKey, error) {
	var x rowscan.KeyScan
	var hash []byte
	var out credential.HeldKey
	var disabled *bool
	var theirs *string
	err := s.get(ctx, `SELECT `+rowscan.KeyColumns+`, k.hash, m.value, u.disabled, u.scopes FROM api_keys k
		JOIN marks m ON m.tenant = k.tenant AND m.name = $1 LEFT JOIN users u ON u.tenant = k.tenant AND u.name = k.owner
		WHERE k.hash = $2`, []any{tenancy.MarkEpoch, h[:]}, x.Dest(&hash, &out.Epoch, &disabled, &theirs)...)
	if err != nil {
		return credential.HeldKey{}, absent(err)
	}
	out.Key = x.Key()
	copy(out.Hash[:], hash)
	if disabled != nil && theirs != nil {
		out.Owner = &credential.Owner{Disabled: *disabled, Scopes: credential.SplitNames(*theirs)}
	}
	return out, nil
}

// Key implements credential.KeyStore.
func (s *Store) Key(ctx context.Context, tenant, id string) (credential.Key, error) {
	k, err := one(list(ctx, s, `SELECT `+rowscan.KeyColumns+` FROM api_keys k WHERE tenant = $1 AND id = $2`, []any{tenant, id}, rowscan.Key))
	return k, absent(err)
}

// Keys implements credential.KeyStore.
func (s *Store) Keys(ctx context.Context, tenant, owner, after string, limit int) ([]credential.Key, error) {
	return list(ctx, s, `SELECT `+rowscan.KeyColumns+` FROM api_keys k WHERE tenant = $1 AND ($2 = '' OR owner = $2) AND id > $3 ORDER BY id LIMIT $4`,
		[]any{tenant, owner, after, page(limit)}, rowscan.Key)
}

// UseKeys implements credential.KeyStore.
func (s *Store) UseKeys(ctx context.Context, uses []credential.KeyUse) error {
	// In one order, so that replicas which write the same keys don't wait for each other in a circle.
	uses = slices.SortedFunc(slices.Values(uses), func(a, b credential.KeyUse) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
	})
	var tenants, ids []string
	var ats []int64
	for _, u := range uses {
		tenants, ids, ats = append(tenants, u.Tenant), append(ids, u.ID), append(ats, rowscan.Millis(u.At))
		if err := texts(u.Tenant, u.ID); err != nil {
			return err
		}
	}
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`UPDATE api_keys k SET last_used = u.at FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (tenant, id, at)
			WHERE k.tenant = u.tenant AND k.id = u.id AND k.last_used < u.at`, tenants, ids, ats)
		return err
	})
}

// SweepKeys implements credential.KeyStore.
func (s *Store) SweepKeys(ctx context.Context, now time.Time) (int, error) {
	var n int64
	err := s.transact(ctx, nil, func(t *tx) (err error) {
		n, err = t.exec(`DELETE FROM api_keys WHERE (tenant, id) IN (SELECT tenant, id FROM api_keys WHERE expires > 0 AND expires <= $1
			ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED)`, rowscan.Millis(now), maxPage)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}
