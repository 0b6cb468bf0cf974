package credential

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// bootstrapLife is how long a bootstrap credential is good.
const bootstrapLife = time.Hour

// Bootstrap is how the first person gets into a server without tenants.
type Bootstrap struct {
	store BootstrapStore
	users *Users
}

// NewBootstrap returns the beginning of a server.
func NewBootstrap(s BootstrapStore, u *Users) (*Bootstrap, error) {
	if s == nil || u == nil {
		return nil, fail("the beginning needs a store and users")
	}
	return &Bootstrap{s, u}, nil
}

// Offer makes a credential with which the first tenant can be made, once, within the hour that it returns the end of, if there
// is no tenant and no other such credential, over all replicas. keep writes it where the operator alone reads it, and is
// called before it is worth anything, so that a crash leaves none that nobody has. If Offer returns the zero time, what keep
// has written is worthless and should be removed. keep is not called when there is nothing to offer.
func (b *Bootstrap) Offer(ctx context.Context, keep func(Secret) error) (until time.Time, err error) {
	now := b.users.o.Recorder.now()
	open, err := b.store.BootstrapOpen(ctx, now)
	if err != nil || !open {
		return time.Time{}, err
	}
	s, err := draw(b.users.o.Recorder.Rand, prefixBootstrap)
	if err != nil {
		return time.Time{}, err
	}
	if err := keep(s); err != nil {
		return time.Time{}, err
	}
	until = now.Add(bootstrapLife)
	taken, err := b.store.OfferBootstrap(ctx, s.hash(), now, until)
	if err != nil || !taken {
		return time.Time{}, err
	}
	return until, nil
}

// Redeem ends a bootstrap credential and makes the first tenant and, in it, the first user, who governs the tenant and the
// system. The user's order has no scopes: they are given. A credential that is not good is *identity.Error with ReasonInvalid.
func (b *Bootstrap) Redeem(ctx context.Context, credential Secret, t FirstTenant, n NewUser) (*User, error) {
	if _, ok := parse(prefixBootstrap, credential.text); !ok {
		return nil, refused("bootstrap")
	}
	now := b.users.o.Recorder.now()
	// Nobody makes this server hash passwords without a good one.
	if good, err := b.store.BootstrapGood(ctx, credential.hash(), now); err != nil {
		return nil, err
	} else if !good {
		return nil, refused("bootstrap")
	}
	if len(n.Scopes) > 0 {
		return nil, failAt("/scopes", "the first user's rights are given")
	}
	if err := counterfoil.CheckIdentity(t.ID); err != nil {
		return nil, err
	}
	n.Scopes = []string{string(identity.ScopeSystemAdmin), string(identity.ScopeTenantAdmin)}
	row, err := b.users.row(ctx, t.ID, n)
	if err != nil {
		return nil, err
	}
	e, err := b.users.o.Recorder.event(t.ID, "bootstrap", "create/tenant")
	if err != nil {
		return nil, err
	}
	err = b.store.RedeemBootstrap(ctx, credential.hash(), now, t, row, e)
	switch {
	case gone(err):
		return nil, refused("bootstrap")
	case err != nil:
		return nil, err
	}
	return &row.User, nil
}
