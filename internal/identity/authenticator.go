package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
)

// APIKeys verifies the keys that come in X-API-Key.
type APIKeys interface {
	// Principal returns whom a key speaks for. A key that is not known, has expired or was revoked is an *Error with
	// ReasonInvalid, each the same; every other error counts as ReasonUnavailable. The Authenticator remembers nothing of it.
	Principal(ctx context.Context, key string) (*Principal, error)
}

// Options are what an Authenticator is made of. APIKeys, OIDC and ResourceMetadata may be missing, the rest is required.
type Options struct {
	Rules Rules
	Keys  *KeyRing
	// OIDC are other issuers whose tokens are taken. Their names and their addresses differ.
	OIDC []OIDC
	// APIKeys verifies API keys; without it there are none.
	APIKeys APIKeys
	// Store keeps what was revoked.
	Store Store
	// Epoch returns a tenant's epoch, as it was at most a second ago or an error, and ErrNoTenant for a tenant that isn't there.
	Epoch func(ctx context.Context, tenant string) (int64, error)
	// ResourceMetadata is the address of our metadata as a protected resource (RFC 9728), for challenges.
	ResourceMetadata string
	// Remembered is how many verified tokens are kept in memory.
	Remembered int

	Names    *counterfoil.Pseudonyms
	Audience string // of the events in the tenants' logs
	Now      func() time.Time
	Rand     io.Reader
}

// An Authenticator says whom a request speaks for. It denies what it can't check. It is safe for concurrent use.
type Authenticator struct {
	o       Options
	foreign map[string]*foreign // by the address that is their "iss"
	cache   *Memory[verified]
}

// New returns an authenticator, or says what its options lack.
func New(o Options) (*Authenticator, error) {
	if o.Keys == nil || o.Keys.keys.Load() == nil || o.Store == nil || o.Epoch == nil || o.Names == nil || o.Now == nil || o.Rand == nil || o.Audience == "" {
		return nil, fail("an authenticator needs keys, a store, epochs, pseudonyms, an audience, a clock and randomness")
	}
	if err := o.Rules.check(); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(o.ResourceMetadata, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return nil, fail("the address of the metadata is not an address")
	}
	if o.Remembered < 1 {
		return nil, fail("at least one verified token is remembered")
	}
	a := &Authenticator{o: o, foreign: map[string]*foreign{}, cache: NewMemory[verified](o.Remembered)}
	names := map[string]bool{}
	for i := range o.OIDC {
		f, err := newForeign(o.OIDC[i], &o.Rules, o.Now)
		if err != nil {
			return nil, err
		}
		if names[f.Name] || a.foreign[f.Issuer] != nil || f.Issuer == o.Rules.Issuer {
			return nil, fail("two issuers have the same name or address")
		}
		names[f.Name], a.foreign[f.Issuer] = true, f
	}
	return a, nil
}

// Authenticate returns whom a request speaks for, by its only credential. Every error is an *Error. It reads headers and the
// query's names, never the body.
func (a *Authenticator) Authenticate(r *http.Request) (*Principal, error) {
	c, err := oneCredential(r)
	if err != nil {
		return nil, err
	}
	if c.isKey {
		return a.apiKey(r.Context(), c.text)
	}
	return a.Token(r.Context(), c.text)
}

// maxAPIKey bounds the text of a key.
const maxAPIKey = 512

func (a *Authenticator) apiKey(ctx context.Context, key string) (*Principal, error) {
	if a.o.APIKeys == nil || len(key) > maxAPIKey {
		return nil, invalid("key")
	}
	p, err := a.o.APIKeys.Principal(ctx, key)
	if _, known := errors.AsType[*Error](err); known {
		return nil, err
	}
	if err != nil {
		return nil, unavailable("keys", err)
	}
	if p == nil {
		return nil, invalid("key")
	}
	if err := p.Check(); err != nil {
		return nil, &Error{Reason: ReasonInvalid, Why: "principal", Err: err}
	}
	return p, nil
}

// Token returns whom an access token speaks for. Every error is an *Error.
func (a *Authenticator) Token(ctx context.Context, text string) (*Principal, error) {
	if len(text) > maxToken {
		return nil, invalid("size")
	}
	key, now := sha256.Sum256([]byte(text)), a.o.Now()
	if v, ok := a.cache.Get(key); ok {
		epoch, err := a.epoch(ctx, v.principal.Tenant)
		if err != nil {
			return nil, err
		}
		if epoch == v.epoch && v.ring == a.o.Keys.keys.Load() && now.Before(v.until) {
			return &v.principal, nil
		}
		a.cache.Drop(key)
	}
	// In this order: what is revoked after the look into the store finds the entry, or keeps it from being made.
	since := a.cache.Begin()
	v, issued, err := a.verify(ctx, text, now)
	if err != nil {
		return nil, err
	}
	if v.epoch, err = a.epoch(ctx, v.principal.Tenant); err != nil {
		return nil, err
	}
	p := &v.principal
	revoked, err := a.o.Store.CredentialRevoked(ctx, p.Tenant, p.Credential, p.Subject, issued)
	switch {
	case err != nil:
		return nil, unavailable("revocations", err)
	case revoked:
		return nil, invalid("revoked")
	}
	a.cache.Put(key, v, since, now)
	return p, nil
}

func (a *Authenticator) epoch(ctx context.Context, tenant string) (int64, error) {
	n, err := a.o.Epoch(ctx, tenant)
	if errors.Is(err, ErrNoTenant) {
		return 0, invalid("tenant")
	}
	if err != nil {
		return 0, unavailable("epoch", err)
	}
	return n, nil
}

// verify reads a token, checks its signature and its claims, and returns what is to be remembered and when it was issued.
func (a *Authenticator) verify(ctx context.Context, text string, now time.Time) (verified, time.Time, error) {
	t, err := parseToken(text)
	if err != nil {
		return verified{}, time.Time{}, err
	}
	iss, _ := t.claims.text("iss")
	if f, ok := a.foreign[iss]; ok {
		v, issued, err := f.verify(ctx, t, now, a.o.Rules.Leeway)
		v.ring = a.o.Keys.keys.Load()
		return v, issued, err
	}
	return a.ours(t, now)
}

// ours verifies a token of our own.
func (a *Authenticator) ours(t *token, now time.Time) (v verified, issued time.Time, err error) {
	v.ring = a.o.Keys.keys.Load()
	held, ok := v.ring.find(t.kid, now)
	switch {
	case !ok:
		return v, issued, invalid("kid")
	case string(held.Key.algorithm) != t.alg:
		return v, issued, invalid("alg")
	case !held.Key.verifies(t.signed, t.sig):
		return v, issued, invalid("signature")
	case !isAccess(t.typ):
		return v, issued, invalid("typ")
	}
	if iss, ok := t.claims.text("iss"); !ok || iss != a.o.Rules.Issuer {
		return v, issued, invalid("issuer")
	}
	if !t.claims.isFor(a.o.Rules.Audiences) {
		return v, issued, invalid("audience")
	}
	issued, expires, err := t.claims.times(now, a.o.Rules.Leeway, a.o.Rules.Lifetime)
	if err != nil {
		return v, issued, err
	}
	p, err := t.claims.principal()
	if err != nil {
		return v, issued, err
	}
	p.ExpiresAt = expires
	v.principal, v.until = *p, expires.Add(a.o.Rules.Leeway)
	if !held.Until.IsZero() && held.Until.Before(v.until) {
		v.until = held.Until
	}
	return v, issued, nil
}

// RevokeCredential ends a token before its time, by its id: here at once, on other replicas within the second that
// Options.Epoch may lag. by is the actor who does it. That the outcome is unknown is an error; the token may be revoked then.
func (a *Authenticator) RevokeCredential(ctx context.Context, by, tenant, credential string) error {
	return a.revoke(ctx, by, Revocation{Tenant: tenant, Credential: credential})
}

// RevokeSubject ends all tokens that a subject was issued up to now. Times in tokens are whole seconds: one that is issued in
// the same second is ended too.
func (a *Authenticator) RevokeSubject(ctx context.Context, by, tenant, subject string) error {
	return a.revoke(ctx, by, Revocation{Tenant: tenant, Subject: subject})
}

func (a *Authenticator) revoke(ctx context.Context, by string, r Revocation) error {
	_, name := r.Target()
	for _, s := range []string{r.Tenant, name, by} {
		if err := counterfoil.CheckIdentity(s); err != nil {
			return err
		}
	}
	var b [12]byte
	if _, err := io.ReadFull(a.o.Rand, b[:]); err != nil {
		return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	e, err := counterfoil.NewEvent(counterfoil.PhaseGoverned, a.o.Names, counterfoil.EventParams{
		Tenant: r.Tenant, Audience: a.o.Audience, ExecutionID: "change-" + hex.EncodeToString(b[:]), Actor: by, Code: "revoke/credential",
	})
	if err != nil {
		return err
	}
	r.At = a.o.Now().UTC().Truncate(time.Millisecond)
	// A token that is valid now or at any later time was issued by now and the leeway, lives for MaxLifetime at most, and is
	// valid for the leeway longer.
	r.Until = r.At.Add(MaxLifetime + 2*maxLeeway)
	// Whatever becomes of the commit: what is remembered of the tenant is looked up anew.
	defer a.cache.DropTenant(r.Tenant)
	return a.o.Store.RevokeCredential(ctx, r, e)
}
