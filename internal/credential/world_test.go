package credential_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

const (
	acme     = "acme"
	umbrella = "umbrella"
	pass     = "correct horse battery"
)

func here() netip.Addr { return netip.MustParseAddr("192.0.2.1") }

// A replica is one process of the server: its own handle of the shared database, and its own memory.
type replica struct {
	path   string
	clock  *storetest.Clock
	store  *sqlite.Store
	keys   *credential.Keys
	hasher *credential.Hasher
	users  *credential.Users
	tokens *credential.Tokens
	begin  *credential.Bootstrap
	auth   *identity.Authenticator
	log    *bytes.Buffer
	limits credential.Limits
}

// few are limits that a test reaches soon.
func few() credential.Limits {
	l := credential.DefaultLimits()
	l.Pair.Free, l.Stranger.Free, l.Address.Free = 2, 5, 20
	return l
}

// start makes a server without tenants.
func start(t *testing.T) *replica {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "test.db"), storetest.NewClock(), few())
}

// setup makes a server with two tenants, each with an administrator named root.
func setup(t *testing.T) *replica {
	t.Helper()
	return start(t).settle(t)
}

func (r *replica) settle(t *testing.T) *replica {
	t.Helper()
	d := tenancy.New(tenancy.Options{Store: r.store, Names: storetest.Names(), Audience: storetest.Audience, Now: r.clock.Now, Rand: rand.Reader, Lag: 0})
	for _, id := range []string{acme, umbrella} {
		_, err := d.Create(t.Context(), "person:root", id, tenancy.Settings{})
		must(t, err)
		system := person("root", "system:admin")
		_, err = r.users.CreateFirst(t.Context(), system, id, credential.NewUser{Name: "root", Password: credential.NewSecret(pass), Scopes: []string{"admin"}})
		must(t, err)
	}
	return r
}

// again opens another replica of the same server.
func (r *replica) again(t *testing.T) *replica {
	t.Helper()
	return open(t, r.path, r.clock, r.limits)
}

func cheap() credential.HasherOptions {
	return credential.HasherOptions{Cost: credential.Cost{Memory: 8 << 10, Time: 1, Threads: 1}, AtOnce: 2, Waiting: 100, Rand: rand.Reader}
}

func open(t *testing.T, path string, clock *storetest.Clock, limits credential.Limits) *replica {
	t.Helper()
	r := &replica{path: path, clock: clock, log: &bytes.Buffer{}, limits: limits}
	var err error
	r.store, err = sqlite.Open(t.Context(), path, sqlite.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: clock.Now, Names: storetest.Names(),
	})
	must(t, err)
	t.Cleanup(func() { _ = r.store.Close() })
	logger := r.logger()
	rec := r.recorder()
	r.keys, err = credential.NewKeys(credential.KeysOptions{Store: r.store, Epoch: r.epoch, Remembered: 100, Recorder: rec, Logger: logger})
	must(t, err)
	r.hasher, err = credential.NewHasher(cheap())
	must(t, err)
	r.users, err = credential.NewUsers(credential.UsersOptions{Store: r.store, Hasher: r.hasher, Limits: limits, Recorder: rec, Logger: logger})
	must(t, err)
	signing, err := identity.NewHS256Key("", bytes.Repeat([]byte{7}, 32))
	must(t, err)
	ring, err := identity.NewKeyRing(signing)
	must(t, err)
	rules := identity.Rules{Issuer: "counterfoil", Audiences: []string{"counterfoil"}, Lifetime: time.Hour}
	issuer, err := identity.NewIssuer(identity.IssuerOptions{Rules: rules, Keys: ring, Now: clock.Now, Rand: rand.Reader})
	must(t, err)
	r.tokens, err = credential.NewTokens(credential.TokensOptions{
		Store: r.store, Users: r.users, Issue: issuer.Issue, AccessLife: 15 * time.Minute, RefreshLife: 30 * 24 * time.Hour,
	})
	must(t, err)
	r.begin, err = credential.NewBootstrap(r.store, r.users)
	must(t, err)
	r.auth, err = identity.New(identity.Options{
		Rules: rules, Keys: ring, APIKeys: r.keys, Store: r.store, Epoch: r.epoch, Remembered: 100, Names: storetest.Names(),
		Audience: storetest.Audience, Now: clock.Now, Rand: rand.Reader,
	})
	must(t, err)
	return r
}

func (r *replica) epoch(ctx context.Context, tenant string) (int64, error) {
	n, err := r.store.Mark(ctx, tenant, tenancy.MarkEpoch)
	if err == nil && n == 0 {
		err = identity.ErrNoTenant
	}
	return n, err
}

func scopes(list ...string) identity.Scopes {
	s, err := identity.ParseScopes(list)
	if err != nil {
		panic(err)
	}
	return s
}

// person returns a principal of acme.
func person(name string, rights ...string) *identity.Principal {
	return &identity.Principal{
		Tenant: acme, Subject: name, Kind: identity.KindPerson, Owner: name, Scopes: scopes(rights...), Credential: "token-1", ExpiresAt: storetest.Start().Add(time.Hour),
	}
}

func of(tenant string, p *identity.Principal) *identity.Principal {
	q := *p
	q.Tenant = tenant
	return &q
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

// wantRefused checks that an error is the one answer to a bad credential, for the reason that the log has.
func wantRefused(t testing.TB, err error, why string) {
	t.Helper()
	e, ok := errors.AsType[*identity.Error](err)
	if !ok || e.Reason != identity.ReasonInvalid || e.Why != why || e.Err != nil || e.Error() != "the credential is not valid" {
		t.Fatalf("got %v (%+v), not the refusal for %q", err, e, why)
	}
}

func wantCode(t testing.TB, what string, err error, want counterfoil.Code) {
	t.Helper()
	if counterfoil.CodeOf(err) != want {
		t.Fatalf("%s: got %v, not %s", what, err, want)
	}
}

// mint makes a key of acme for an agent of Ada's.
func (r *replica) mint(t testing.TB) *credential.Minted {
	t.Helper()
	m, err := r.keys.Mint(t.Context(), person("ada", "keys:*", "tools:read"), credential.Mint{
		Subject: "bot-of-ada", Kind: identity.KindAgent, Scopes: []string{"tools:read"}, Life: credential.Lifetime{For: time.Hour},
	})
	must(t, err)
	return m
}

func (r *replica) login(t testing.TB, tenant, name string) *credential.Grant {
	t.Helper()
	g, err := r.tokens.Password(t.Context(), credential.Login{Tenant: tenant, User: name, Password: credential.NewSecret(pass), From: here()})
	must(t, err)
	return g
}

func (r *replica) user(t testing.TB, name string, rights ...string) {
	t.Helper()
	_, err := r.users.Create(t.Context(), person("root", "admin"), credential.NewUser{Name: name, Password: credential.NewSecret(pass), Scopes: rights})
	must(t, err)
}

func (r *replica) recorder() credential.Recorder {
	return credential.Recorder{Names: storetest.Names(), Audience: storetest.Audience, Now: r.clock.Now, Rand: rand.Reader}
}

func (r *replica) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r.log, nil)) }
