package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// Bounds of what a server issues and remembers.
const (
	epochLag       = time.Second
	accessLife     = 15 * time.Minute
	refreshLife    = 30 * 24 * time.Hour
	tokenLife      = 24 * time.Hour
	remembered     = 10_000
	hashesAtOnce   = 2
	hashesThatWait = 64
)

// services are what a server's tenants are governed with: by its API, and by the commands that run beside it.
type services struct {
	tenants   *tenancy.Directory
	ring      *identity.KeyRing // of access tokens
	auth      *identity.Authenticator
	users     *credential.Users
	keys      *credential.Keys
	tokens    *credential.Tokens
	bootstrap *credential.Bootstrap
	secrets   *vault.Secrets
}

// directory returns the tenants of the state.
func (s *state) directory() *tenancy.Directory {
	return tenancy.New(tenancy.Options{
		Store: s.store, Names: s.keys.Pseudonyms(), Audience: s.keys.Audience(), Now: time.Now, Rand: rand.Reader, Lag: epochLag,
	})
}

// services makes them for a server that is known by an address.
func (s *state) services(d *tenancy.Directory, address string, issuers []identity.OIDC) (*services, error) {
	x := &services{tenants: d}
	names, audience := s.keys.Pseudonyms(), s.keys.Audience()
	signs, err := identity.NewEdDSAKey(s.keys.TokenSeed())
	if err != nil {
		return nil, err
	}
	if x.ring, err = identity.NewKeyRing(signs); err != nil {
		return nil, err
	}
	rules := identity.Rules{Issuer: address, Audiences: []string{address}, Lifetime: tokenLife}
	issuer, err := identity.NewIssuer(identity.IssuerOptions{Rules: rules, Keys: x.ring, Now: time.Now, Rand: rand.Reader})
	if err != nil {
		return nil, err
	}
	r := credential.Recorder{Names: names, Audience: audience, Now: time.Now, Rand: rand.Reader}
	if x.keys, err = credential.NewKeys(credential.KeysOptions{
		Store: s.store, Epoch: x.epoch, Remembered: remembered, Recorder: r, Logger: s.log,
	}); err != nil {
		return nil, err
	}
	if err := x.makeUsers(s, issuer, r); err != nil {
		return nil, err
	}
	if x.secrets, err = vault.NewSecrets(vault.SecretsOptions{
		Vault: s.keys.Vault(), Store: s.store, Names: names, Audience: audience, Now: time.Now, Rand: rand.Reader,
	}); err != nil {
		return nil, err
	}
	x.auth, err = identity.New(identity.Options{
		Rules: rules, Keys: x.ring, OIDC: issuers, APIKeys: x.keys, Store: s.store, Epoch: x.epoch,
		ResourceMetadata: address + "/.well-known/oauth-protected-resource", Remembered: remembered,
		Names: names, Audience: audience, Now: time.Now, Rand: rand.Reader,
	})
	return x, err
}

func (x *services) makeUsers(s *state, issuer *identity.Issuer, r credential.Recorder) error {
	hasher, err := credential.NewHasher(credential.HasherOptions{
		Cost: credential.DefaultCost(), AtOnce: hashesAtOnce, Waiting: hashesThatWait, Rand: rand.Reader,
	})
	if err != nil {
		return err
	}
	if x.users, err = credential.NewUsers(credential.UsersOptions{
		Store: s.store, Hasher: hasher, Limits: credential.DefaultLimits(), Recorder: r, Logger: s.log,
	}); err != nil {
		return err
	}
	if x.tokens, err = credential.NewTokens(credential.TokensOptions{
		Store: s.store, Users: x.users, Issue: issuer.Issue, AccessLife: accessLife, RefreshLife: refreshLife,
	}); err != nil {
		return err
	}
	x.bootstrap, err = credential.NewBootstrap(s.store, x.users)
	return err
}

// epoch returns the epoch of a tenant, for those who remember what they have verified.
func (x *services) epoch(ctx context.Context, tenant string) (int64, error) {
	t, err := x.tenants.Get(ctx, tenant)
	switch {
	case errors.Is(err, gateway.ErrNotFound):
		return 0, identity.ErrNoTenant
	case err != nil:
		return 0, err
	}
	return t.Epoch, nil
}

// hookSealer seals the secrets of hooks.
type hookSealer struct{ v *vault.Vault }

func (h hookSealer) label(tenant, id string) vault.Label {
	return vault.Label{Tenant: tenant, Kind: hooks.SealKind, Name: id, Version: "1"}
}

// SealHook implements hooks.Sealer.
func (h hookSealer) SealHook(tenant, id string, plain []byte) ([]byte, error) {
	return h.v.Seal(h.label(tenant, id), plain)
}

// OpenHook implements hooks.Sealer.
func (h hookSealer) OpenHook(tenant, id string, sealed []byte) ([]byte, error) {
	return h.v.Open(h.label(tenant, id), sealed)
}
