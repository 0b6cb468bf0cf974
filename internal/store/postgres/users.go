package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// wholeUser refuses a user that is not whole, and returns the lists as they are kept.
func wholeUser(u *credential.UserRow) (scopes, groups string, err error) {
	scopes, err1 := credential.JoinNames(u.Scopes)
	groups, err2 := credential.JoinNames(u.Groups)
	return scopes, groups, errors.Join(names(u.Tenant, u.Name), u.Check(), texts(scopes, groups), err1, err2)
}

func (t *tx) addUser(u credential.UserRow, scopes, groups string) error {
	n, err := t.exec(`INSERT INTO users (`+rowscan.UserColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1) ON CONFLICT DO NOTHING`,
		u.Tenant, u.Name, scopes, groups, u.Disabled, rowscan.Millis(u.Created), rowscan.Millis(u.Changed), u.Password)
	if err == nil && n == 0 {
		err = credential.ErrExists
	}
	return err
}

// AddUser implements credential.UserStore.
func (s *Store) AddUser(ctx context.Context, u credential.UserRow, first bool, e counterfoil.Event) error {
	scopes, groups, err := wholeUser(&u)
	if err != nil {
		return err
	}
	if err := s.home(ctx, u.Tenant, e); err != nil {
		return err
	}
	return s.transactIn(ctx, u.Tenant, func(t *tx) error { // under the lock of its log the tenant gets no other user
		if first {
			var there bool
			if err := t.get(`SELECT EXISTS (SELECT 1 FROM users WHERE tenant = $1)`, []any{u.Tenant}, &there); err != nil {
				return err
			}
			if there {
				return credential.ErrNotFirst
			}
		}
		if err := t.addUser(u, scopes, groups); err != nil {
			return err
		}
		return t.append(u.Tenant, e, s.o.Now())
	})
}

// User implements credential.UserStore.
func (s *Store) User(ctx context.Context, tenant, name string) (credential.UserRow, error) {
	u, err := one(list(ctx, s, `SELECT `+rowscan.UserColumns+` FROM users WHERE tenant = $1 AND name = $2`, []any{tenant, name}, rowscan.UserRow))
	return u, absent(err)
}

// Users implements credential.UserStore.
func (s *Store) Users(ctx context.Context, tenant, after string, limit int) ([]credential.User, error) {
	return list(ctx, s, `SELECT `+rowscan.UserColumns+` FROM users WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3`,
		[]any{tenant, after, page(limit)}, rowscan.User)
}

// ChangeUser implements credential.UserStore.
func (s *Store) ChangeUser(ctx context.Context, u credential.UserRow, e counterfoil.Event) error {
	scopes, groups, err := wholeUser(&u)
	if err != nil {
		return err
	}
	if err := s.home(ctx, u.Tenant, e); err != nil {
		return err
	}
	return s.transactIn(ctx, u.Tenant, func(t *tx) error {
		// The user's row comes first: a family that is being opened holds it, and is seen when it is free.
		n, err := t.exec(`UPDATE users SET scopes = $1, groups = $2, disabled = $3, changed = $4, password = $5, version = version + 1
			WHERE tenant = $6 AND name = $7 AND version = $8`, scopes, groups, u.Disabled, rowscan.Millis(u.Changed), u.Password, u.Tenant, u.Name, u.Version)
		if err != nil {
			return err
		}
		if n == 0 {
			return credential.ErrChanged
		}
		var issued int64
		if err := t.write(`WITH gone AS (DELETE FROM refresh_families WHERE tenant = $1 AND name = $2 RETURNING issued)
			SELECT coalesce(max(issued), 0)::bigint FROM gone`, []any{u.Tenant, u.Name}, &issued); err != nil {
			return err
		}
		if err := t.endTokens(u.Tenant, u.Name, u.Changed, issued); err != nil {
			return err
		}
		return t.append(u.Tenant, e, s.o.Now())
	})
}

// endTokens ends the access tokens that a user was issued until at or until issued, whichever is later, and moves the tenant's
// epoch.
func (t *tx) endTokens(tenant, name string, at time.Time, issued int64) error {
	if last := rowscan.Instant(issued); last.After(at) {
		at = last
	}
	if _, err := t.exec(`INSERT INTO revoked_credentials AS had (tenant, kind, name, at, until) VALUES ($1, 'subject', $2, $3, $4)
		ON CONFLICT (tenant, kind, name) DO UPDATE SET at = excluded.at, until = excluded.until WHERE excluded.at > had.at`,
		tenant, name, rowscan.Millis(at), rowscan.Millis(at.Add(identity.MaxLifetime+time.Hour))); err != nil {
		return err
	}
	return t.move(tenant)
}

// OpenFamily implements credential.FamilyStore.
func (s *Store) OpenFamily(ctx context.Context, o credential.Opening) error {
	if err := errors.Join(names(o.Tenant, o.User), texts(o.Rehashed), o.Check()); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(t *tx) error {
		var version int64
		err := t.get(`SELECT version FROM users WHERE tenant = $1 AND name = $2 AND NOT disabled FOR UPDATE`, []any{o.Tenant, o.User}, &version)
		if errors.Is(err, gateway.ErrNotFound) || err == nil && version != o.Version {
			return credential.ErrChanged
		}
		if err != nil {
			return err
		}
		if o.Rehashed != "" {
			t.later(`UPDATE users SET password = $1 WHERE tenant = $2 AND name = $3`, o.Rehashed, o.Tenant, o.User)
		}
		t.later(`DELETE FROM refresh_families WHERE id IN (SELECT id FROM refresh_families WHERE expires <= $1
			ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED)`, rowscan.Millis(o.Created), maxPage)
		t.later(`DELETE FROM refresh_families WHERE id IN (SELECT id FROM refresh_families WHERE tenant = $1 AND name = $2
			ORDER BY created DESC, id OFFSET $3)`, o.Tenant, o.User, max(o.Most-1, 0))
		t.later(`INSERT INTO refresh_families (id, tenant, name, newest, created, expires, issued) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			o.ID[:], o.Tenant, o.User, o.Newest[:], rowscan.Millis(o.Created), rowscan.Millis(o.Expires), rowscan.Millis(o.Issued))
		return nil
	})
}

// Family implements credential.FamilyStore.
func (s *Store) Family(ctx context.Context, id credential.Hash) (credential.Family, error) {
	f := credential.Family{ID: id}
	var newest []byte
	var created, expires, issued int64
	err := s.get(ctx, `SELECT tenant, name, newest, created, expires, issued FROM refresh_families WHERE id = $1`, []any{id[:]},
		&f.Tenant, &f.User, &newest, &created, &expires, &issued)
	if err != nil {
		return credential.Family{}, absent(err)
	}
	copy(f.Newest[:], newest)
	f.Created, f.Expires, f.Issued = rowscan.Instant(created), rowscan.Instant(expires), rowscan.Instant(issued)
	return f, nil
}

// RotateFamily implements credential.FamilyStore.
func (s *Store) RotateFamily(ctx context.Context, r credential.Rotation) error {
	if r.Next == (credential.Hash{}) || r.Next == r.Was || r.Issued.IsZero() {
		return fail(counterfoil.CodeInvalidInput, "the rotation is not complete", nil)
	}
	if err := texts(r.Tenant); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(t *tx) error {
		n, err := t.exec(`UPDATE refresh_families SET newest = $1, issued = greatest(issued, $2::bigint)
			WHERE id = $3 AND tenant = $4 AND newest = $5 AND expires > $6`,
			r.Next[:], rowscan.Millis(r.Issued), r.ID[:], r.Tenant, r.Was[:], rowscan.Millis(r.Now))
		if err != nil || n == 1 {
			return err
		}
		var there bool
		if err := t.get(`SELECT EXISTS (SELECT 1 FROM refresh_families WHERE id = $1 AND tenant = $2 AND expires > $3)`,
			[]any{r.ID[:], r.Tenant, rowscan.Millis(r.Now)}, &there); err != nil {
			return err
		}
		if there {
			return credential.ErrReused
		}
		return credential.ErrNotFound
	})
}

// EndFamily implements credential.FamilyStore.
func (s *Store) EndFamily(ctx context.Context, tenant string, id credential.Hash) error {
	if err := texts(tenant); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`DELETE FROM refresh_families WHERE id = $1 AND tenant = $2`, id[:], tenant)
		return err
	})
}

// EndReused implements credential.FamilyStore.
func (s *Store) EndReused(ctx context.Context, tenant string, id credential.Hash, at time.Time, e counterfoil.Event) error {
	if err := s.home(ctx, tenant, e); err != nil {
		return err
	}
	return s.transactIn(ctx, tenant, func(t *tx) error {
		var name string
		var issued int64
		if err := t.write(`WITH gone AS (DELETE FROM refresh_families WHERE id = $1 AND tenant = $2 RETURNING name, issued)
			SELECT name, greatest(issued, (SELECT coalesce(max(issued), 0) FROM refresh_families f WHERE f.tenant = $2 AND f.name = gone.name))::bigint
			FROM gone`, []any{id[:], tenant}, &name, &issued); err != nil {
			return absent(err)
		}
		if err := t.endTokens(tenant, name, at, issued); err != nil {
			return err
		}
		return t.append(tenant, e, s.o.Now())
	})
}
