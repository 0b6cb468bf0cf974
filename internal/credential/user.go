package credential

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// UsersOptions are what Users are made of. Every field is required.
type UsersOptions struct {
	Store interface {
		UserStore
		TallyStore
	}
	Hasher   *Hasher
	Limits   Limits
	Recorder Recorder
	Logger   *slog.Logger // of what no caller is told
}

// Users are the people with passwords, of all tenants. A name is unique within its tenant.
type Users struct{ o UsersOptions }

// NewUsers returns the users that a store keeps, or says what the options lack.
func NewUsers(o UsersOptions) (*Users, error) {
	if o.Store == nil || o.Hasher == nil || o.Logger == nil {
		return nil, fail("users need a store, a hasher and a logger")
	}
	if err := errors.Join(o.Recorder.check(), o.Limits.check()); err != nil {
		return nil, err
	}
	return &Users{o}, nil
}

// maxUserName is the longest name of a user, in bytes.
const maxUserName = 128

// checkUserName admits plain names alone: none looks like another, and none has the slash that names from OIDC issuers have.
func checkUserName(s string) error {
	if s == "" || len(s) > maxUserName {
		return failAt("/username", "a user's name has 1 to 128 characters")
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-' && c != '+' && c != '@') {
			return failAt("/username", "a user's name has the characters a-z, 0-9, and inside also . _ - + @")
		}
	}
	return nil
}

// A NewUser is the order for a user.
type NewUser struct {
	Name     string
	Password Secret
	Scopes   []string // each of which the maker has
	Groups   []string // of approvers
}

// maxGroups bounds the groups of a user.
const maxGroups = 64

// row checks an order and makes the user of it.
func (u *Users) row(ctx context.Context, tenant string, n NewUser) (UserRow, error) {
	if err := errors.Join(checkUserName(n.Name), checkPassword(n.Name, n.Password.text)); err != nil {
		return UserRow{}, err
	}
	now := u.o.Recorder.now()
	row := UserRow{Version: 1, User: User{Tenant: tenant, Name: n.Name, Scopes: n.Scopes, Groups: n.Groups, Created: now, Changed: now}}
	if err := row.check(); err != nil {
		return UserRow{}, err
	}
	var err error
	row.Password, err = u.o.Hasher.hash(ctx, n.Password)
	return row, err
}

// check puts the rights into their one form.
func (r *UserRow) check() error {
	scopes, err := identity.ParseScopes(r.Scopes)
	if err != nil {
		return err
	}
	if len(r.Groups) > maxGroups {
		return failAt("/groups", "a user is in at most 64 groups")
	}
	r.Scopes = scopes.List()
	p := r.principal(scopes)
	p.Credential = "none" // it gets its own when it is issued
	return p.Check()
}

// principal returns whom a user's tokens speak for.
func (r *UserRow) principal(scopes identity.Scopes) identity.Principal {
	return identity.Principal{Tenant: r.Tenant, Subject: r.Name, Kind: identity.KindPerson, Owner: r.Name, Scopes: scopes, Groups: r.Groups}
}

// govern refuses who may not make or change a user with these rights: nobody gives, or takes over, what they don't have.
func govern(by *identity.Principal, rights ...[]string) error {
	if err := may(by, identity.ScopeUsersWrite); err != nil {
		return err
	}
	if by.Kind == identity.KindAgent {
		return denied("an agent does not govern people")
	}
	for _, list := range rights {
		scopes, err := identity.ParseScopes(list)
		if err != nil {
			return err
		}
		if !scopes.Within(by.Scopes) {
			return denied("this user has, or would get, a right that you don't have")
		}
	}
	return nil
}

// Create makes a user in by's tenant, with no more rights than by has. A name that is taken is CodeInvalidInput with ErrExists
// as the cause.
func (u *Users) Create(ctx context.Context, by *identity.Principal, n NewUser) (*User, error) {
	if err := govern(by, n.Scopes); err != nil {
		return nil, err
	}
	return u.add(ctx, by, by.Tenant, n, false)
}

// CreateFirst makes the first user of a tenant that has none, for a system administrator: somebody must govern it. The user
// can't be a system administrator. It fails with ErrNotFirst as the cause once there is a user.
func (u *Users) CreateFirst(ctx context.Context, by *identity.Principal, tenant string, n NewUser) (*User, error) {
	if err := may(by, identity.ScopeSystemAdmin); err != nil {
		return nil, err
	}
	if scopes, err := identity.ParseScopes(n.Scopes); err != nil || scopes.Has(identity.ScopeSystemAdmin) {
		return nil, denied("the first user of a tenant governs that tenant alone")
	}
	if err := counterfoil.CheckIdentity(tenant); err != nil {
		return nil, err
	}
	return u.add(ctx, by, tenant, n, true)
}

func (u *Users) add(ctx context.Context, by *identity.Principal, tenant string, n NewUser, first bool) (*User, error) {
	row, err := u.row(ctx, tenant, n)
	if err != nil {
		return nil, err
	}
	e, err := u.o.Recorder.event(tenant, by.Actor(), "create/user")
	if err != nil {
		return nil, err
	}
	err = u.o.Store.AddUser(ctx, row, first, e)
	switch {
	case errors.Is(err, ErrExists):
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/username", Msg: "there is such a user already", Err: ErrExists}
	case errors.Is(err, ErrNotFirst):
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the tenant has users already; they make the others", Err: ErrNotFirst}
	case err != nil:
		return nil, err
	}
	return &row.User, nil
}

// List returns up to limit users of by's tenant behind the one named, at most 1,000, by their names.
func (u *Users) List(ctx context.Context, by *identity.Principal, after string, limit int) ([]User, error) {
	if err := may(by, identity.ScopeUsersWrite); err != nil {
		return nil, err
	}
	return u.o.Store.Users(ctx, by.Tenant, after, limit)
}

// SetDisabled shuts a user of by's tenant out, or lets them in again. Being shut out ends at once all that they were issued,
// and the keys that they own are refused for as long as it lasts. Nobody shuts themselves out.
func (u *Users) SetDisabled(ctx context.Context, by *identity.Principal, name string, disabled bool) (*User, error) {
	code := "enable/user"
	if disabled {
		code = "disable/user"
	}
	return u.change(ctx, by, name, code, func(row *UserRow) error {
		if disabled && by.Subject == name && by.Kind == identity.KindPerson {
			return denied("nobody disables themselves; another administrator has to")
		}
		row.Disabled = disabled
		return nil
	})
}

// SetRights replaces a user's scopes and groups. Keys that they own lose what they lose.
func (u *Users) SetRights(ctx context.Context, by *identity.Principal, name string, scopes, groups []string) (*User, error) {
	return u.change(ctx, by, name, "change/user", func(row *UserRow) error {
		row.Scopes, row.Groups = scopes, groups
		return row.check()
	})
}

// SetPassword gives a user of by's tenant another password and ends all that they were issued.
func (u *Users) SetPassword(ctx context.Context, by *identity.Principal, name string, password Secret) (*User, error) {
	return u.change(ctx, by, name, "set/password", func(row *UserRow) error { return u.replace(ctx, row, password) })
}

func (u *Users) replace(ctx context.Context, row *UserRow, password Secret) error {
	if err := checkPassword(row.Name, password.text); err != nil {
		return err
	}
	hashed, err := u.o.Hasher.hash(ctx, password)
	row.Password = hashed
	return err
}

// ChangePassword gives by another password, who proves with the old one to be the user, and ends all that they were issued.
// It fails like a login.
func (u *Users) ChangePassword(ctx context.Context, by *identity.Principal, from netip.Addr, old, password Secret) error {
	if by == nil || by.Check() != nil || by.Kind != identity.KindPerson {
		return denied("only a person has a password")
	}
	if err := checkPassword(by.Subject, password.text); err != nil {
		return err
	}
	v, err := u.verify(ctx, Login{Tenant: by.Tenant, User: by.Subject, Password: old, From: from})
	if err != nil {
		return err
	}
	v.succeed(ctx)
	_, err = u.store(ctx, by, v.user, "change/password", func(row *UserRow) error { return u.replace(ctx, row, password) })
	return err
}

// change changes a user of by's tenant whom by may govern, before and after.
func (u *Users) change(ctx context.Context, by *identity.Principal, name, code string, f func(*UserRow) error) (*User, error) {
	if err := govern(by); err != nil {
		return nil, err
	}
	if checkUserName(name) != nil {
		return nil, ErrNotFound
	}
	row, err := u.o.Store.User(ctx, by.Tenant, name)
	if err != nil {
		return nil, err
	}
	had := row.Scopes
	return u.store(ctx, by, row, code, func(row *UserRow) error {
		if err := f(row); err != nil {
			return err
		}
		return govern(by, had, row.Scopes)
	})
}

func (u *Users) store(ctx context.Context, by *identity.Principal, row UserRow, code string, f func(*UserRow) error) (*User, error) {
	if err := f(&row); err != nil {
		return nil, err
	}
	row.Changed = u.o.Recorder.now()
	e, err := u.o.Recorder.event(row.Tenant, by.Actor(), code)
	if err != nil {
		return nil, err
	}
	err = u.o.Store.ChangeUser(ctx, row, e)
	if errors.Is(err, ErrChanged) {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the user was changed meanwhile; look again", Err: ErrChanged}
	}
	if err != nil {
		return nil, err
	}
	return &row.User, nil
}

// A Login is a person who asks to be let in.
type Login struct {
	Tenant   string
	User     string
	Password Secret
	From     netip.Addr // where the request comes from, as whoever accepts requests knows it
}

// A verified login has proven to be its user.
type verifiedLogin struct {
	users    *Users
	attempt  attempt
	user     UserRow
	rehashed string // what is to be kept of the password from now on, if it isn't what is kept
}

// verify judges a login. Whoever is unknown, disabled or locked, or has another password, costs as much as everybody and gets
// one answer. Only an address that has tried too much is told so: that depends on nothing but itself.
func (u *Users) verify(ctx context.Context, l Login) (*verifiedLogin, error) {
	if !l.From.IsValid() {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "where the login comes from is not known"}
	}
	v := &verifiedLogin{users: u, attempt: newAttempt(u.o.Limits, l.Tenant, l.User, l.From)}
	r, err := v.attempt.begin(ctx, u.o.Store, u.o.Recorder.now())
	switch {
	case err != nil:
		return nil, err
	case r.wait > 0:
		return nil, &LimitedError{RetryAfter: r.wait}
	}
	if checkUserName(l.User) == nil && counterfoil.CheckIdentity(l.Tenant) == nil {
		if v.user, err = u.o.Store.User(ctx, l.Tenant, l.User); err != nil && !gone(err) {
			return nil, err
		}
	}
	ok, current, err := u.o.Hasher.verify(ctx, v.user.Password, l.Password)
	switch {
	case err != nil:
		return nil, err
	case r.locked:
		return nil, refused("locked")
	case v.user.Name == "":
		return nil, refused("unknown")
	case !ok:
		return nil, refused("password")
	case v.user.Disabled:
		return nil, refused("disabled")
	}
	if !current {
		if v.rehashed, err = u.o.Hasher.hash(ctx, l.Password); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// succeed takes back what the attempt was charged. If that fails the attempt stays counted, which does no harm.
func (v *verifiedLogin) succeed(ctx context.Context) {
	if err := v.attempt.succeed(ctx, v.users.o.Store, v.users.o.Recorder.now()); err != nil {
		v.users.o.Logger.LogAttrs(ctx, slog.LevelWarn, "a login that succeeded stays counted", slog.Any("error", err))
	}
}
