package tenancy

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A Record is a tenant as it is stored. The body is the store's to keep and not to read.
type Record struct {
	ID      string
	Created time.Time
	Epoch   int64 // at least 1
	Body    []byte
}

// MarkEpoch is the name of the tenant's mark that its epoch is: spendings are held against it.
const MarkEpoch = "epoch"

// ErrExists says that there is such a tenant already.
const ErrExists = sentinel("there is such a tenant already")

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

// Store keeps the tenants. Its errors are those of gateway.Store: ErrNotFound for a tenant that is not there, ErrChanged for a
// change that came second.
type Store interface {
	// CreateTenant adds a tenant at epoch 1, with its event, or fails with ErrExists.
	CreateTenant(ctx context.Context, r Record, e counterfoil.Event) error
	// Tenant returns one.
	Tenant(ctx context.Context, id string) (Record, error)
	// Tenants returns up to limit tenants behind the one named, by their ids.
	Tenants(ctx context.Context, after string, limit int) ([]Record, error)
	// ChangeTenant replaces the body of the tenant that stands at r.Epoch, and raises the epoch by one, with its event.
	ChangeTenant(ctx context.Context, r Record, e counterfoil.Event) error
}
