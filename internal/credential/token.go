package credential

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// An Issuer makes an access token for a principal and returns its text and the principal with the token's id and end. It is
// what identity.Issuer.Issue does.
type Issuer func(p identity.Principal, life time.Duration) (text string, issued *identity.Principal, err error)

// TokensOptions are what Tokens are made of. Every field is required.
type TokensOptions struct {
	Store FamilyStore
	Users *Users
	Issue Issuer
	// AccessLife is how long an access token lives, in whole seconds, at most an hour; RefreshLife how long after its login a
	// family of refresh credentials ends for good, at most a year.
	AccessLife, RefreshLife time.Duration
}

// Tokens answer POST /v1/auth/token: they let people in and keep them in.
type Tokens struct{ o TokensOptions }

// maxFamilies is how many logins of one user are kept; the oldest make room.
const maxFamilies = 100

// NewTokens returns tokens, or says what their options lack.
func NewTokens(o TokensOptions) (*Tokens, error) {
	switch {
	case o.Store == nil || o.Users == nil || o.Issue == nil:
		return nil, fail("tokens need a store, users and an issuer")
	case o.AccessLife < time.Second || o.AccessLife > time.Hour || o.AccessLife%time.Second != 0:
		return nil, fail("an access token lives for whole seconds, at most an hour")
	case o.RefreshLife < o.AccessLife || o.RefreshLife > 365*24*time.Hour:
		return nil, fail("refresh credentials live at least as long as access tokens and at most a year")
	}
	return &Tokens{o}, nil
}

// A Grant is what whoever was let in gets.
type Grant struct {
	Access    Secret // the access token
	Principal *identity.Principal
	Refresh   Secret    // good once, for the next grant
	Until     time.Time // the end of this and all that follow
}

// familySize is how many of a refresh credential's random bytes name its family. The others are new each time.
const familySize = 16

func familyOf(raw [rawSize]byte) Hash { return sha256.Sum256(raw[:familySize]) }

// Password lets a person in by their password. Refusals are *identity.Error with ReasonInvalid, always the same, and
// *LimitedError; other errors are coded ones.
func (t *Tokens) Password(ctx context.Context, l Login) (*Grant, error) {
	v, err := t.o.Users.verify(ctx, l)
	if err != nil {
		return nil, err
	}
	refresh, err := draw(t.recorder().Rand, prefixRefresh)
	if err != nil {
		return nil, err
	}
	raw, _ := parse(prefixRefresh, refresh.text) // it was made just now
	now := t.recorder().now()
	g := &Grant{Refresh: refresh, Until: now.Add(t.o.RefreshLife)}
	issued, err := t.issue(&v.user, g, now)
	if err != nil {
		return nil, err
	}
	err = t.o.Store.OpenFamily(ctx, Opening{
		Family: Family{
			ID: familyOf(raw), Tenant: l.Tenant, User: l.User, Newest: refresh.hash(), Created: now, Expires: g.Until, Issued: issued,
		},
		Version: v.user.Version, Rehashed: v.rehashed, Most: maxFamilies,
	})
	switch {
	case errors.Is(err, ErrChanged):
		return nil, refused("changed")
	case err != nil:
		return nil, err
	}
	v.succeed(ctx)
	return g, nil
}

func (t *Tokens) recorder() *Recorder { return &t.o.Users.o.Recorder }

// issue makes the access token of a grant, which ends with its family at the latest, and returns when it was issued.
func (t *Tokens) issue(u *UserRow, g *Grant, now time.Time) (time.Time, error) {
	scopes, err := identity.ParseScopes(u.Scopes)
	if err != nil {
		return time.Time{}, refused("scopes")
	}
	life := min(t.o.AccessLife, g.Until.Sub(now)).Truncate(time.Second)
	if life < time.Second {
		return time.Time{}, refused("expired")
	}
	text, p, err := t.o.Issue(u.principal(scopes), life)
	if err != nil {
		return time.Time{}, err
	}
	g.Access, g.Principal = Secret{text}, p
	return p.ExpiresAt.Add(-life), nil
}

// Refresh gives a new grant for a refresh credential, which is good once. One that was used before ends its whole family, and
// all access tokens that its user has: either it or what came after it is in the wrong hands. It refuses like Password does.
func (t *Tokens) Refresh(ctx context.Context, refresh Secret) (*Grant, error) {
	f, raw, err := t.find(ctx, refresh)
	if err != nil {
		return nil, err
	}
	u, err := t.o.Users.o.Store.User(ctx, f.Tenant, f.User)
	switch {
	case gone(err), err == nil && u.Disabled:
		return nil, refused("user")
	case err != nil:
		return nil, err
	}
	now := t.recorder().now()
	if err := fill(t.recorder().Rand, raw[familySize:]); err != nil {
		return nil, err
	}
	g := &Grant{Refresh: format(prefixRefresh, raw), Until: f.Expires}
	issued, err := t.issue(&u, g, now)
	if err != nil {
		return nil, err
	}
	// What was issued is given to nobody unless this succeeds.
	err = t.o.Store.RotateFamily(ctx, Rotation{
		Tenant: f.Tenant, ID: f.ID, Was: f.Newest, Next: g.Refresh.hash(), Issued: issued, Now: now,
	})
	switch {
	case errors.Is(err, ErrReused):
		return nil, t.reused(ctx, f)
	case gone(err):
		return nil, refused("refresh")
	case err != nil:
		return nil, err
	}
	return g, nil
}

// find returns the family of a credential that is its newest.
func (t *Tokens) find(ctx context.Context, refresh Secret) (*Family, [rawSize]byte, error) {
	raw, ok := parse(prefixRefresh, refresh.text)
	if !ok {
		return nil, raw, refused("refresh")
	}
	f, err := t.o.Store.Family(ctx, familyOf(raw))
	switch {
	case gone(err):
		return nil, raw, refused("refresh")
	case err != nil:
		return nil, raw, err
	case ended(f.Expires, t.recorder().now()):
		return nil, raw, refused("expired")
	}
	if h := refresh.hash(); subtle.ConstantTimeCompare(h[:], f.Newest[:]) != 1 {
		return nil, raw, t.reused(ctx, &f)
	}
	return &f, raw, nil
}

// reused ends a family, and is the answer to whoever came with a credential of it that is not its newest.
func (t *Tokens) reused(ctx context.Context, f *Family) error {
	by := identity.Principal{Kind: identity.KindPerson, Subject: f.User}
	e, err := t.recorder().event(f.Tenant, by.Actor(), "revoke/refresh-reuse")
	if err != nil {
		return err
	}
	if err := t.o.Store.EndReused(ctx, f.Tenant, f.ID, t.recorder().now(), e); err != nil && !gone(err) {
		return err
	}
	return refused("reused")
}

// End ends a refresh credential and its family, for whoever logs out. One that is not good is none of its business, and no
// error; one that was used before is dealt with as Refresh does.
func (t *Tokens) End(ctx context.Context, refresh Secret) error {
	f, _, err := t.find(ctx, refresh)
	if refusal, ok := errors.AsType[*identity.Error](err); ok && refusal.Reason == identity.ReasonInvalid {
		return nil
	}
	if err != nil {
		return err
	}
	return t.o.Store.EndFamily(ctx, f.Tenant, f.ID)
}
