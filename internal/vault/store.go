package vault

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

const (
	// ErrNotFound says that the tenant has no such secret, or not in that version. It is the same for a secret of another tenant.
	ErrNotFound = sentinel("there is no such secret")
	// ErrChanged says that another version came first; nothing was recorded.
	ErrChanged = sentinel("the secret has changed meanwhile")
	// ErrTooMany says that the tenant has as many secrets, or the secret as many versions, as there may be; nothing was recorded.
	ErrTooMany = sentinel("there are too many secrets, or too many versions of one; delete some versions")
)

// Bounds that the stores keep.
const (
	MaxNames    = 10_000 // of a tenant, with those whose versions are all deleted
	MaxVersions = 100    // of a secret
)

// A SecretRow is one version of a secret as it is stored. Value and Metadata are sealed.
type SecretRow struct {
	Tenant, Name    string
	Version         int64 // from 1
	Created         time.Time
	Value, Metadata []byte
}

// SecretStore keeps the secrets. Every method is one transaction, durable when it returns nil; errors have a code, or are
// those above. Every query names the tenant.
type SecretStore interface {
	// AddSecret adds a version, with its event. It must follow the highest that the name ever had, deleted ones too, or
	// it is ErrChanged: no version ever comes twice, so that no old value can be put in a new one's place.
	AddSecret(ctx context.Context, r SecretRow, e counterfoil.Event) error
	// LastVersion returns the highest version that the name ever had, 0 for none.
	LastVersion(ctx context.Context, tenant, name string) (int64, error)
	// Secret returns one version. 0 is the last; if that one was deleted it is ErrNotFound: nobody gets an older value unasked.
	Secret(ctx context.Context, tenant, name string, version int64) (SecretRow, error)
	// Secrets returns, without their values, the highest version left of each name behind the one given, by name.
	Secrets(ctx context.Context, tenant, after string, limit int) ([]SecretRow, error)
	// SecretVersions returns the versions of a name without their values, newest first.
	SecretVersions(ctx context.Context, tenant, name string) ([]SecretRow, error)
	// DeleteSecret removes one version, or all for 0, with its event. ErrNotFound if there is nothing to remove.
	DeleteSecret(ctx context.Context, tenant, name string, version int64, e counterfoil.Event) error
	// Record appends an event of any other kind to its tenant's log.
	Record(ctx context.Context, e counterfoil.Event) error
}

// A KeyRecord says that values were sealed under a key. Proof is a value sealed under it: it tells the key from another that was
// given the same id.
type KeyRecord struct {
	ID      string
	Proof   []byte
	Created time.Time
}

// A SealedRow is one sealed value of the store, wherever it stands. Place, Tenant and Number are its address there.
type SealedRow struct {
	Place  string
	Number int64
	Label  Label
	Sealed []byte
}

// A SealedPage is a part of the store's sealed values.
type SealedPage struct {
	Rows   []SealedRow
	Looked int    // at so many values, those in Rows among them
	Next   string // where the next page begins, "" after the last
}

// A Resealed value takes the place of the one that was read.
type Resealed struct {
	SealedRow
	New []byte
}

// Records is what the vault keeps in the store, and how it goes through all that was sealed, of every tenant.
type Records interface {
	// VaultKeys returns the keys that values were sealed under, oldest first.
	VaultKeys(ctx context.Context) ([]KeyRecord, error)
	// AddVaultKey records one. What is recorded under its id already stays as it is.
	AddVaultKey(ctx context.Context, r KeyRecord) error
	// DropVaultKey forgets one.
	DropVaultKey(ctx context.Context, id string) error
	// Sealed returns the next values that are not sealed under the key named except. It looks at limit values at most,
	// from where an earlier page ended; "" is the beginning.
	Sealed(ctx context.Context, except, from string, limit int) (SealedPage, error)
	// Reseal replaces values in one transaction, each only if it is still the one that was read, and returns how many
	// it replaced.
	Reseal(ctx context.Context, rows []Resealed) (int, error)
}
