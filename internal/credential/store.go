package credential

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// The stores' errors are coded ones, and the sentinels of this package where a method names them. Every change is one commit
// that is durable when the method returns. Whatever a change ends moves the tenant's epoch with it. An event is of the
// change's tenant; a change to a tenant that isn't there is identity.ErrNoTenant.

// A Key is what is known of an API key.
type Key struct {
	ID        string
	Tenant    string
	Subject   string
	Kind      identity.Kind
	Owner     string // who answers for it
	Scopes    []string
	Label     string
	Created   time.Time
	CreatedBy string    // the actor
	Expires   time.Time // it is refused from then on; zero for never
	LastUsed  time.Time // to the minute or so; zero for not yet
	Successor string    // the id of the key that has replaced it
}

// A KeyRow is an API key as it is stored.
type KeyRow struct {
	Key
	Hash Hash
}

// A HeldKey is a key as it was found by its hash, with what else decides whether it is good: all as of one moment.
type HeldKey struct {
	KeyRow
	Epoch int64 // of the tenant
	// Owner is the local user who owns it, nil if there is none of that name.
	Owner *Owner
}

// An Owner is what of a user bears on the keys that they own.
type Owner struct {
	Disabled bool
	Scopes   []string
}

// A KeyUse says when a key was last used.
type KeyUse struct {
	Tenant, ID string
	At         time.Time
}

// KeyStore keeps API keys.
type KeyStore interface {
	// AddKey adds a key. The name that it speaks under, its kind and subject, belongs from then on to its owner, for good:
	// ErrTaken if it is another's.
	AddKey(ctx context.Context, k KeyRow, e counterfoil.Event) error
	// ReplaceKey adds a key in the place of the one with the id old, which ends at until if it doesn't before. ErrNotFound if
	// there is no such key in next's tenant, ErrChanged if it was replaced already.
	ReplaceKey(ctx context.Context, old string, until time.Time, next KeyRow, e counterfoil.Event) error
	// RemoveKey removes a key of the tenant: ErrNotFound if there is none, or if owner is not "" and not its owner.
	RemoveKey(ctx context.Context, tenant, id, owner string, e counterfoil.Event) error
	// KeyByHash returns the key with the hash, of whichever tenant, or ErrNotFound.
	KeyByHash(ctx context.Context, h Hash) (HeldKey, error)
	// Key returns a key of the tenant, or ErrNotFound.
	Key(ctx context.Context, tenant, id string) (Key, error)
	// Keys returns up to limit keys of the tenant behind the id named, by their ids; those of one owner unless owner is "".
	Keys(ctx context.Context, tenant, owner, after string, limit int) ([]Key, error)
	// UseKeys records when keys were last used. It never moves a time back, and skips keys that are gone.
	UseKeys(ctx context.Context, uses []KeyUse) error
	// SweepKeys removes keys that have ended by now, at most 1,000, and returns how many.
	SweepKeys(ctx context.Context, now time.Time) (int, error)
}

// A User is a person with a password.
type User struct {
	Tenant   string
	Name     string
	Scopes   []string
	Groups   []string
	Disabled bool
	Created  time.Time
	Changed  time.Time
}

// A UserRow is a user as it is stored.
type UserRow struct {
	User
	Password string // what Hasher made of it
	Version  int64  // at least 1; each change raises it by one
}

// UserStore keeps users.
type UserStore interface {
	// AddUser adds a user at version 1: ErrExists if the name is taken. With first it is ErrNotFirst if the tenant has any.
	AddUser(ctx context.Context, u UserRow, first bool, e counterfoil.Event) error
	// User returns a user of the tenant, or ErrNotFound.
	User(ctx context.Context, tenant, name string) (UserRow, error)
	// Users returns up to limit users of the tenant behind the one named, by their names.
	Users(ctx context.Context, tenant, after string, limit int) ([]User, error)
	// ChangeUser replaces the user who stands at u.Version, and ends what they had: their refresh families, and the access
	// tokens that they were issued until u.Changed, or by a replica whose clock is ahead. ErrChanged if they stand elsewhere.
	ChangeUser(ctx context.Context, u UserRow, e counterfoil.Event) error
}

// A Family is a line of refresh credentials, each of which was got for the one before. It begins with a password.
type Family struct {
	ID      Hash // of the part that all its credentials share
	Tenant  string
	User    string
	Newest  Hash // of the only one that is good
	Created time.Time
	Expires time.Time // for good
	Issued  time.Time // when its newest access token was
}

// An Opening is a family that begins.
type Opening struct {
	Family
	Version  int64  // at which the user stood when they were verified
	Rehashed string // what is to be kept of their password from now on, "" to leave it
	Most     int    // families that a user may have; the oldest make room
}

// A Rotation replaces a family's newest credential.
type Rotation struct {
	Tenant    string
	ID        Hash
	Was, Next Hash
	Issued    time.Time
	Now       time.Time
}

// FamilyStore keeps refresh families.
type FamilyStore interface {
	// OpenFamily adds a family: ErrChanged if the user is not there, is disabled, or stands elsewhere by now. What is kept of
	// a password that is the same is no change. It forgets
	// some families that have ended.
	OpenFamily(ctx context.Context, o Opening) error
	// Family returns the family with the id, of whichever tenant, or ErrNotFound.
	Family(ctx context.Context, id Hash) (Family, error)
	// RotateFamily moves a family on. Exactly one call ever succeeds with one Was. ErrReused if the newest is another,
	// ErrNotFound if the family is not there or has ended.
	RotateFamily(ctx context.Context, r Rotation) error
	// EndFamily removes a family of the tenant, if it is there.
	EndFamily(ctx context.Context, tenant string, id Hash) error
	// EndReused removes a family of the tenant, and ends the access tokens that its user was issued until at, or by a replica
	// whose clock is ahead. ErrNotFound, without an event, if the family is not there.
	EndReused(ctx context.Context, tenant string, id Hash, at time.Time, e counterfoil.Event) error
}

// A Tally counts attempts that failed. The zero Tally is of none.
type Tally struct {
	Failures int64
	Last     time.Time // when the last was counted
	Until    time.Time // nothing is tried before
	Known    time.Time // until when the place is known for a success
	Forget   time.Time // when nothing of it matters any more; zero is at once
}

// TallyStore keeps tallies.
type TallyStore interface {
	// ChangeTallies reads the tallies with the keys, which differ from each other, lets change change them in place, and stores
	// what has become of them, while nobody else reads or changes the same. change has no other effect: it may be called
	// again. It forgets some tallies whose Forget is past by now.
	ChangeTallies(ctx context.Context, keys []Hash, now time.Time, change func([]Tally)) error
}

// FirstTenant is the tenant that a server begins with, as package tenancy has it stored.
type FirstTenant struct {
	ID      string
	Created time.Time
	Body    []byte
}

// BootstrapStore keeps the credential that a server without tenants starts with.
type BootstrapStore interface {
	// BootstrapOpen reports whether OfferBootstrap would take an offer now.
	BootstrapOpen(ctx context.Context, now time.Time) (bool, error)
	// OfferBootstrap takes the hash of a credential, good until a time, if there is no tenant yet and no other that is still
	// good. Of all replicas that offer one at a time exactly one is taken.
	OfferBootstrap(ctx context.Context, h Hash, now, until time.Time) (taken bool, err error)
	// BootstrapGood reports whether RedeemBootstrap would take the credential with the hash now.
	BootstrapGood(ctx context.Context, h Hash, now time.Time) (bool, error)
	// RedeemBootstrap ends the credential with the hash and makes the first tenant, at epoch 1, and its first user. It is
	// ErrNotFound if there is no such credential now, or there is a tenant.
	RedeemBootstrap(ctx context.Context, h Hash, now time.Time, t FirstTenant, u UserRow, e counterfoil.Event) error
}

// Store keeps all that this package has.
type Store interface {
	KeyStore
	UserStore
	FamilyStore
	TallyStore
	BootstrapStore
}
