package credential

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// A heldKey is what is remembered of a key that was found: whom it speaks for, as of the tenant's epoch.
type heldKey struct {
	principal identity.Principal
	epoch     int64
}

// Tenant implements identity.Proof.
func (h heldKey) Tenant() string { return h.principal.Tenant }

// Ended implements identity.Proof.
func (h heldKey) Ended(now time.Time) bool { return ended(h.principal.ExpiresAt, now) }

type keyRef struct{ tenant, id string }

// used gathers when keys were used, until it is written down.
type used struct {
	mu sync.Mutex
	at map[keyRef]time.Time
}

func (u *used) note(p *identity.Principal, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at[keyRef{p.Tenant, p.Credential}] = now
}

func (u *used) take() []KeyUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]KeyUse, 0, len(u.at))
	for ref, at := range u.at {
		out = append(out, KeyUse{ref.tenant, ref.id, at.UTC().Truncate(time.Millisecond)})
	}
	clear(u.at)
	return out
}

const (
	writeEvery = time.Minute
	lastWrite  = 5 * time.Second
)

// Run writes down once a minute when keys were last used and removes those that have ended, until the context ends, and then
// once more. Without it keys are good for as long as they should be, but nobody sees when they were used.
func (k *Keys) Run(ctx context.Context) {
	timer := time.NewTimer(writeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			defer cancel()
			k.write(last)
			return
		case <-timer.C:
			k.write(ctx)
			k.sweep(ctx, k.o.Recorder.Now())
			timer.Reset(writeEvery)
		}
	}
}

// maxUses is how many uses are written at once.
const maxUses = 500

func (k *Keys) write(ctx context.Context) {
	for uses := k.used.take(); len(uses) > 0; {
		n := min(len(uses), maxUses)
		if err := k.o.Store.UseKeys(ctx, uses[:n]); err != nil {
			k.o.Logger.LogAttrs(ctx, slog.LevelWarn, "the last uses of API keys could not be written", slog.Any("error", err))
			return
		}
		uses = uses[n:]
	}
}

// sweep removes keys that have ended. They are refused whether it succeeds or not.
func (k *Keys) sweep(ctx context.Context, now time.Time) {
	if _, err := k.o.Store.SweepKeys(ctx, now); err != nil {
		k.o.Logger.LogAttrs(ctx, slog.LevelWarn, "API keys that have ended could not be removed", slog.Any("error", err))
	}
}
