package credential

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// maxLife is the longest that a key which ends can live, maxOverlap how long a key may go on beside its successor.
const (
	maxLife    = 10 * 365 * 24 * time.Hour
	maxOverlap = 30 * 24 * time.Hour
)

// KeysOptions are what Keys are made of. Every field is required.
type KeysOptions struct {
	Store KeyStore
	// Epoch returns a tenant's epoch, as it was at most a second ago or an error, and identity.ErrNoTenant for a tenant that
	// isn't there.
	Epoch func(ctx context.Context, tenant string) (int64, error)
	// Remembered is how many keys that were found are kept in memory, by their hashes.
	Remembered int
	Recorder   Recorder
	Logger     *slog.Logger // of what no caller is told
}

// Keys are the API keys of all tenants. They implement identity.APIKeys.
type Keys struct {
	o     KeysOptions
	cache *identity.Memory[heldKey]
	used  *used
}

var _ identity.APIKeys = (*Keys)(nil)

// NewKeys returns the keys that a store keeps, or says what the options lack.
func NewKeys(o KeysOptions) (*Keys, error) {
	if err := o.Recorder.check(); err != nil {
		return nil, err
	}
	if o.Store == nil || o.Epoch == nil || o.Remembered < 1 || o.Logger == nil {
		return nil, fail("API keys need a store, epochs, room for at least one key in memory, and a logger")
	}
	return &Keys{o: o, cache: identity.NewMemory[heldKey](o.Remembered), used: &used{at: map[keyRef]time.Time{}}}, nil
}

// A Lifetime says how long a key lives: for a time, or for ever. Exactly one is set.
type Lifetime struct {
	For   time.Duration // from a second to ten years
	Never bool          // it never ends
}

func (l Lifetime) end(now time.Time) (time.Time, error) {
	switch {
	case l.Never && l.For == 0:
		return time.Time{}, nil
	case l.Never:
		return time.Time{}, fail("a key that never ends has no lifetime beside that")
	case l.For < time.Second || l.For > maxLife:
		return time.Time{}, fail("a key lives for at least a second and at most ten years; to make one that never ends, say so")
	default:
		return now.Add(l.For).Truncate(time.Millisecond), nil
	}
}

// A Mint is the order for a key.
type Mint struct {
	Subject string // whom it speaks for: for a person, the minter
	Kind    identity.Kind
	Scopes  []string // each of which the minter has
	Label   string   // what people know it by; may be empty
	Life    Lifetime
}

// Minted is a new key, with its text: there is no other way to it ever.
type Minted struct {
	Key    Key
	Secret Secret
}

// Mint makes a key that by's owner answers for. It has no right that by doesn't have. A person's key is that person's alone;
// an agent makes keys for agents alone; a program's key ends with the program's own credential at the latest. Its errors are
// CodeInvalidInput, CodePolicyDenied (ErrTaken is among its causes) and those of the store.
func (k *Keys) Mint(ctx context.Context, by *identity.Principal, m Mint) (*Minted, error) {
	if err := may(by, identity.ScopeKeysWrite); err != nil {
		return nil, err
	}
	row := KeyRow{Key: Key{
		Tenant: by.Tenant, Subject: m.Subject, Kind: m.Kind, Owner: by.Owner, Label: m.Label, Scopes: m.Scopes,
	}}
	if err := checkSubject(by, m.Subject, m.Kind); err != nil {
		return nil, err
	}
	secret, err := k.make(by, &row, m.Life)
	if err != nil {
		return nil, err
	}
	e, err := k.o.Recorder.event(by.Tenant, by.Actor(), "create/api-key")
	if err != nil {
		return nil, err
	}
	err = k.o.Store.AddKey(ctx, row, e)
	if errors.Is(err, ErrTaken) {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Path: "/subject", Msg: "another owner's keys speak under this name", Err: ErrTaken}
	}
	if err != nil {
		return nil, err
	}
	return &Minted{row.Key, secret}, nil
}

// make fills in what is new about a key.
func (k *Keys) make(by *identity.Principal, row *KeyRow, life Lifetime) (Secret, error) {
	scopes, err := identity.ParseScopes(row.Scopes)
	if err != nil {
		return Secret{}, err
	}
	if !scopes.Within(by.Scopes) {
		return Secret{}, denied("a key can't have a right that its maker doesn't have")
	}
	now := k.o.Recorder.now()
	expires, err := life.end(now)
	if err != nil {
		return Secret{}, err
	}
	if by.Kind != identity.KindPerson && !by.ExpiresAt.IsZero() && (expires.IsZero() || expires.After(by.ExpiresAt)) {
		return Secret{}, denied("a program's key can't make one that outlives it")
	}
	if row.ID, err = k.o.Recorder.id("key_"); err != nil {
		return Secret{}, err
	}
	row.Scopes, row.Created, row.CreatedBy, row.Expires = scopes.List(), now, by.Actor(), expires
	row.LastUsed, row.Successor = time.Time{}, ""
	p := row.principal(scopes)
	if err := p.Check(); err != nil {
		return Secret{}, err
	}
	if err := checkLabel(row.Label); err != nil {
		return Secret{}, err
	}
	secret, err := draw(k.o.Recorder.Rand, prefixKey)
	row.Hash = secret.hash()
	return secret, err
}

func checkSubject(by *identity.Principal, subject string, kind identity.Kind) error {
	switch {
	case by.Kind == identity.KindAgent && kind != identity.KindAgent:
		return denied("an agent makes keys for agents alone")
	case kind == identity.KindPerson && (by.Kind != identity.KindPerson || subject != by.Subject):
		return denied("a person's key is made by that person alone")
	case kind != identity.KindPerson && strings.Contains(subject, "/"): // those are the names that OIDC issuers give
		return failAt("/subject", "a subject's name has no slash")
	default:
		return nil
	}
}

const maxLabel = 128

func checkLabel(s string) error {
	if s == "" {
		return nil
	}
	if len(s) > maxLabel {
		return failAt("/label", "a key's label has at most 128 bytes")
	}
	return counterfoil.CheckIdentity(s)
}

// principal returns whom a key speaks for, with these of its scopes.
func (k *Key) principal(scopes identity.Scopes) identity.Principal {
	return identity.Principal{
		Tenant: k.Tenant, Subject: k.Subject, Kind: k.Kind, Owner: k.Owner, Scopes: scopes, Groups: nil, Credential: k.ID, ExpiresAt: k.Expires,
	}
}

// List returns up to limit keys behind the id named, at most 1,000: all of by's tenant for its administrator, else those that
// by's owner owns.
func (k *Keys) List(ctx context.Context, by *identity.Principal, after string, limit int) ([]Key, error) {
	if err := may(by, identity.ScopeKeysRead); err != nil {
		return nil, err
	}
	return k.o.Store.Keys(ctx, by.Tenant, reachOf(by), after, limit)
}

// reachOf returns whose keys a principal governs: "" for all of its tenant.
func reachOf(by *identity.Principal) string {
	if by.Scopes.Has(identity.ScopeTenantAdmin) {
		return ""
	}
	return by.Owner
}

// Rotate makes a key that takes the place of another: the same subject and rights, its own lifetime. The old one goes on for
// the overlap, at most 30 days, and not longer than it would have. Only its owner does that: nobody else is to learn a text that
// speaks for them. A key that by doesn't govern is ErrNotFound; one that was replaced already is CodePolicyDenied with
// ErrChanged as the cause.
func (k *Keys) Rotate(ctx context.Context, by *identity.Principal, id string, life Lifetime, overlap time.Duration) (*Minted, error) {
	if err := may(by, identity.ScopeKeysWrite); err != nil {
		return nil, err
	}
	if overlap < 0 || overlap > maxOverlap {
		return nil, fail("the overlap is from 0 to 30 days")
	}
	old, err := k.o.Store.Key(ctx, by.Tenant, id)
	if err != nil {
		return nil, err
	}
	switch now := k.o.Recorder.now(); {
	case by.Owner != old.Owner && reachOf(by) != "", ended(old.Expires, now):
		return nil, ErrNotFound
	case by.Owner != old.Owner:
		return nil, denied("only the owner of a key gets another in its place; an administrator revokes it")
	case old.Kind == identity.KindPerson && (by.Kind != identity.KindPerson || by.Subject != old.Subject):
		return nil, denied("a person's key is made by that person alone")
	case by.Kind == identity.KindAgent && old.Kind != identity.KindAgent:
		return nil, denied("an agent makes keys for agents alone")
	}
	next := KeyRow{Key: old}
	secret, err := k.make(by, &next, life)
	if err != nil {
		return nil, err
	}
	e, err := k.o.Recorder.event(by.Tenant, by.Actor(), "rotate/api-key")
	if err != nil {
		return nil, err
	}
	defer k.cache.DropTenant(by.Tenant) // whatever becomes of it
	err = k.o.Store.ReplaceKey(ctx, id, next.Created.Add(overlap).Truncate(time.Millisecond), next, e)
	if errors.Is(err, ErrChanged) {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the key was replaced already", Err: ErrChanged}
	}
	if err != nil {
		return nil, err
	}
	return &Minted{next.Key, secret}, nil
}

// Revoke ends a key: here at once, on other replicas within the second that KeysOptions.Epoch may lag. A key that by doesn't
// govern is ErrNotFound.
func (k *Keys) Revoke(ctx context.Context, by *identity.Principal, id string) error {
	if err := may(by, identity.ScopeKeysWrite); err != nil {
		return err
	}
	e, err := k.o.Recorder.event(by.Tenant, by.Actor(), "revoke/api-key")
	if err != nil {
		return err
	}
	defer k.cache.DropTenant(by.Tenant) // whatever becomes of it
	return k.o.Store.RemoveKey(ctx, by.Tenant, id, reachOf(by), e)
}

func ended(expires, now time.Time) bool { return !expires.IsZero() && !now.Before(expires) }

// Principal implements identity.APIKeys.
func (k *Keys) Principal(ctx context.Context, key string) (*identity.Principal, error) {
	if _, ok := parse(prefixKey, key); !ok {
		return nil, refused("key")
	}
	hash, now := NewSecret(key).hash(), k.o.Recorder.Now()
	if h, ok := k.cache.Get(hash); ok {
		current, err := k.current(ctx, h)
		if err != nil {
			return nil, err
		}
		if current && !h.Ended(now) {
			k.used.note(&h.principal, now)
			return &h.principal, nil
		}
		k.cache.Drop(hash)
	}
	since := k.cache.Begin()
	held, err := k.o.Store.KeyByHash(ctx, hash)
	switch {
	case gone(err):
		return nil, refused("key")
	case err != nil:
		return nil, unavailable("keys", err)
	case subtle.ConstantTimeCompare(held.Hash[:], hash[:]) != 1:
		return nil, refused("key")
	case ended(held.Expires, now):
		k.sweep(ctx, now)
		return nil, refused("key")
	}
	p, err := held.judge()
	if err != nil {
		return nil, err
	}
	k.cache.Put(hash, heldKey{*p, held.Epoch}, since, now)
	k.used.note(p, now)
	return p, nil
}

// judge returns whom a key speaks for now: it has no right that its owner has lost.
func (h *HeldKey) judge() (*identity.Principal, error) {
	list := h.Scopes
	if h.Owner != nil {
		if h.Owner.Disabled {
			return nil, refused("owner")
		}
		theirs, err := identity.ParseScopes(h.Owner.Scopes)
		if err != nil {
			return nil, refused("scopes")
		}
		list = nil
		for _, s := range h.Scopes {
			if one, err := identity.ParseScopes([]string{s}); err == nil && one.Within(theirs) {
				list = append(list, s)
			}
		}
	}
	scopes, err := identity.ParseScopes(list)
	if err != nil {
		return nil, refused("scopes")
	}
	p := h.principal(scopes)
	if p.Check() != nil {
		return nil, refused("principal")
	}
	return &p, nil
}

// current reports whether nothing has happened in the tenant since the key was read. What is known of the epoch may lag
// behind the key, never the other way round without the key being read again.
func (k *Keys) current(ctx context.Context, h heldKey) (bool, error) {
	epoch, err := k.o.Epoch(ctx, h.principal.Tenant)
	switch {
	case errors.Is(err, identity.ErrNoTenant):
		return false, refused("tenant")
	case err != nil:
		return false, unavailable("epoch", err)
	}
	return epoch <= h.epoch, nil
}
