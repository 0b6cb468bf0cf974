package hooks

import (
	"context"

	"github.com/counterfoil/counterfoil"
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

const (
	// ErrNotFound says that the tenant has no such hook. It is the same for a hook of another tenant.
	ErrNotFound = sentinel("there is no such hook")
	// ErrChanged says that another change came first; nothing was recorded.
	ErrChanged = sentinel("the hook has changed meanwhile")
	// ErrTooMany says that the tenant has as many hooks in a phase as there may be; nothing was recorded.
	ErrTooMany = sentinel("there are too many hooks in this phase")
	// ErrReadOnly says that the hook is the system's: tenants see it and can't change it.
	ErrReadOnly = sentinel("the hook is the system's")
)

// MaxPerPhase bounds the hooks of a tenant in one phase, those that are switched off too, and those of the system.
const MaxPerPhase = 20

// A Row is a hook of a tenant as it is stored. Body and Secret are the store's to keep and not to read.
type Row struct {
	Tenant  string
	ID      string
	Phase   Phase
	Version int64 // from 1
	Body    []byte
	Secret  []byte // sealed; empty for compiled-in handlers
}

// Whole reports whether the row can be stored: that it has its members, and a phase that is one.
func (r *Row) Whole() bool {
	return r.Tenant != "" && r.ID != "" && validPhase(r.Phase) && r.Version >= 1 && len(r.Body) > 0
}

// Store keeps the hooks of tenants. Every method that changes something is one transaction with its event, durable when it
// returns nil; errors have a code, or are ErrNotFound, ErrChanged and ErrTooMany. Every query names the tenant.
type Store interface {
	// AddHook adds a hook at version 1. The tenant may then have MaxPerPhase in the phase, over all that add at once.
	AddHook(ctx context.Context, r Row, e counterfoil.Event) error
	// Hook returns one.
	Hook(ctx context.Context, tenant, id string) (Row, error)
	// Hooks returns all of a tenant, by id.
	Hooks(ctx context.Context, tenant string) ([]Row, error)
	// ChangeHook replaces body and secret of the hook that stands at r.Version, and raises the version by one. The phase stays.
	ChangeHook(ctx context.Context, r Row, e counterfoil.Event) error
	// DeleteHook removes a hook.
	DeleteHook(ctx context.Context, tenant, id string, e counterfoil.Event) error
}

// SealKind is the kind that labels of sealed secrets have.
const SealKind = "hook-secret"

// A Sealer seals the secrets of hooks at rest, bound to SealKind, tenant and hook. The vault does it.
type Sealer interface {
	SealHook(tenant, id string, plain []byte) ([]byte, error)
	OpenHook(tenant, id string, sealed []byte) ([]byte, error)
}
