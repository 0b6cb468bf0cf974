package ratelimit

import (
	"context"
	"time"
)

// A Row is what a store keeps of a key.
type Row struct {
	Key   Key
	State []byte    // the store's to keep and not to read; never empty
	Until time.Time // when the state says nothing any more
}

// Store keeps rates. Its errors carry codes of the core.
type Store interface {
	// Rate returns the state of a key, nil for one that has none.
	Rate(ctx context.Context, k Key) ([]byte, error)
	// UpdateRates gives f the states of the keys, which are in the order of Key.Compare and differ, and replaces each by the row
	// that f returns for it; one without a state leaves what there is. Nobody else changes them meanwhile: it is atomic over all
	// processes. f has no effect and may be called again. With an error other than unknown-outcome nothing was changed. What it
	// has acknowledged outlives the process; a crash of the database may take its last second.
	UpdateRates(ctx context.Context, keys []Key, f func(states [][]byte) ([]Row, error)) error
	// Rates returns up to limit rows of requests behind the one of a subject, ordered by tenant and principal.
	Rates(ctx context.Context, after Subject, limit int) ([]Row, error)
	// TenantRates does so for one tenant.
	TenantRates(ctx context.Context, tenant, after string, limit int) ([]Row, error)
	// ForgetRates removes all rows of a tenant.
	ForgetRates(ctx context.Context, tenant string) error
	// ExpireRates removes rows whose time is over.
	ExpireRates(ctx context.Context, now time.Time) error
}
