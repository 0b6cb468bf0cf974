package sqlite

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
	if err := errors.Join(named(u.Tenant, u.Name), u.Check()); err != nil {
		return "", "", err
	}
	scopes, err1 := credential.JoinNames(u.Scopes)
	groups, err2 := credential.JoinNames(u.Groups)
	return scopes, groups, errors.Join(err1, err2)
}

func (t *tx) addUser(u credential.UserRow, scopes, groups string) error {
	n, err := t.exec(`INSERT INTO users (`+rowscan.UserColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING`,
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
	return s.commit(ctx, func(t *tx) error {
		if first {
			var there bool
			if err := t.get(`SELECT EXISTS (SELECT 1 FROM users WHERE tenant = ?)`, []any{u.Tenant}, &there); err != nil {
				return err
			}
			if there {
				return credential.ErrNotFirst
			}
		}
		if err := t.addUser(u, scopes, groups); err != nil {
			return err
		}
		return second(t.append(u.Tenant, e, s.o.Now()))
	})
}

// User implements credential.UserStore.
func (s *Store) User(ctx context.Context, tenant, name string) (credential.UserRow, error) {
	u, err := rowscan.UserRow(s.read.QueryRowContext(ctx, `SELECT `+rowscan.UserColumns+` FROM users WHERE tenant = ? AND name = ?`, tenant, name))
	if err != nil {
		return credential.UserRow{}, absent(readError(err))
	}
	return u, nil
}

// Users implements credential.UserStore.
func (s *Store) Users(ctx context.Context, tenant, after string, limit int) ([]credential.User, error) {
	return list(ctx, s, `SELECT `+rowscan.UserColumns+` FROM users WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?`,
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
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE users SET scopes = ?, groups = ?, disabled = ?, changed = ?, password = ?, version = version + 1
			WHERE tenant = ? AND name = ? AND version = ?`, scopes, groups, u.Disabled, rowscan.Millis(u.Changed), u.Password, u.Tenant, u.Name, u.Version)
		if err != nil {
			return err
		}
		if n == 0 {
			return credential.ErrChanged
		}
		if err := t.endTokens(u.Tenant, u.Name, u.Changed); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM refresh_families WHERE tenant = ? AND name = ?`, u.Tenant, u.Name); err != nil {
			return err
		}
		return second(t.append(u.Tenant, e, s.o.Now()))
	})
}

// endTokens ends the access tokens that a user was issued until at, or later by the clock of whoever issued them, and moves
// the tenant's epoch.
func (t *tx) endTokens(tenant, name string, at time.Time) error {
	var issued int64
	if err := t.get(`SELECT coalesce(max(issued), 0) FROM refresh_families WHERE tenant = ? AND name = ?`, []any{tenant, name}, &issued); err != nil {
		return err
	}
	if last := rowscan.Instant(issued); last.After(at) {
		at = last
	}
	if _, err := t.exec(`INSERT INTO revoked_credentials (tenant, kind, name, at, until) VALUES (?, 'subject', ?, ?, ?)
		ON CONFLICT (tenant, kind, name) DO UPDATE SET at = excluded.at, until = excluded.until WHERE excluded.at > at`,
		tenant, name, rowscan.Millis(at), rowscan.Millis(at.Add(identity.MaxLifetime+time.Hour))); err != nil {
		return err
	}
	return t.move(tenant)
}

// OpenFamily implements credential.FamilyStore.
func (s *Store) OpenFamily(ctx context.Context, o credential.Opening) error {
	if err := errors.Join(named(o.Tenant, o.User), o.Check()); err != nil {
		return err
	}
	return s.commit(ctx, func(t *tx) error {
		var version int64
		err := t.get(`SELECT version FROM users WHERE tenant = ? AND name = ? AND disabled = 0`, []any{o.Tenant, o.User}, &version)
		if errors.Is(err, gateway.ErrNotFound) || err == nil && version != o.Version {
			return credential.ErrChanged
		}
		if err != nil {
			return err
		}
		if o.Rehashed != "" {
			if _, err := t.exec(`UPDATE users SET password = ? WHERE tenant = ? AND name = ?`, o.Rehashed, o.Tenant, o.User); err != nil {
				return err
			}
		}
		if _, err := t.exec(`DELETE FROM refresh_families WHERE id IN (SELECT id FROM refresh_families WHERE expires <= ? LIMIT ?)`,
			rowscan.Millis(o.Created), maxPage); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM refresh_families WHERE id IN (SELECT id FROM refresh_families WHERE tenant = ? AND name = ?
			ORDER BY created DESC, id LIMIT -1 OFFSET ?)`, o.Tenant, o.User, max(o.Most-1, 0)); err != nil {
			return err
		}
		return second(t.exec(`INSERT INTO refresh_families (id, tenant, name, newest, created, expires, issued) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			o.ID[:], o.Tenant, o.User, o.Newest[:], rowscan.Millis(o.Created), rowscan.Millis(o.Expires), rowscan.Millis(o.Issued)))
	})
}

// Family implements credential.FamilyStore.
func (s *Store) Family(ctx context.Context, id credential.Hash) (credential.Family, error) {
	f := credential.Family{ID: id}
	var newest []byte
	var created, expires, issued int64
	err := s.get(ctx, `SELECT tenant, name, newest, created, expires, issued FROM refresh_families WHERE id = ?`, []any{id[:]},
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
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE refresh_families SET newest = ?, issued = max(issued, ?) WHERE id = ? AND tenant = ? AND newest = ? AND expires > ?`,
			r.Next[:], rowscan.Millis(r.Issued), r.ID[:], r.Tenant, r.Was[:], rowscan.Millis(r.Now))
		if err != nil || n == 1 {
			return err
		}
		var there bool
		if err := t.get(`SELECT EXISTS (SELECT 1 FROM refresh_families WHERE id = ? AND tenant = ? AND expires > ?)`,
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
	return s.commit(ctx, func(t *tx) error {
		return second(t.exec(`DELETE FROM refresh_families WHERE id = ? AND tenant = ?`, id[:], tenant))
	})
}

// EndReused implements credential.FamilyStore.
func (s *Store) EndReused(ctx context.Context, tenant string, id credential.Hash, at time.Time, e counterfoil.Event) error {
	if err := s.home(ctx, tenant, e); err != nil {
		return err
	}
	return s.commit(ctx, func(t *tx) error {
		var name string
		if err := t.get(`SELECT name FROM refresh_families WHERE id = ? AND tenant = ?`, []any{id[:], tenant}, &name); err != nil {
			return absent(err)
		}
		if err := t.endTokens(tenant, name, at); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM refresh_families WHERE id = ? AND tenant = ?`, id[:], tenant); err != nil {
			return err
		}
		return second(t.append(tenant, e, s.o.Now()))
	})
}
