package identity_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

const (
	audience = "https://gate.example/mcp"
	issuer   = "https://gate.example"
	metadata = "https://gate.example/.well-known/oauth-protected-resource"
)

// A world is one server: a real store with the tenants acme and globex, and whatever a test makes of it.
type world struct {
	t     testing.TB
	path  string
	clock *storetest.Clock
	store *counting
	dir   *tenancy.Directory
	keys  *identity.KeyRing
	auth  *identity.Authenticator
	issue *identity.Issuer
}

// A counting store counts the look-ups, and fails them while it is told to.
type counting struct {
	*sqlite.Store
	reads atomic.Int64
	fails atomic.Bool
	after func() // if set, is called when a look-up has its answer
}

var errStore = errors.New("the store is away")

func (c *counting) CredentialRevoked(ctx context.Context, tenant, credential, subject string, issued time.Time) (bool, error) {
	c.reads.Add(1)
	if c.fails.Load() {
		return false, errStore
	}
	revoked, err := c.Store.CredentialRevoked(ctx, tenant, credential, subject, issued)
	if c.after != nil {
		c.after()
	}
	return revoked, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rules() identity.Rules {
	return identity.Rules{Issuer: issuer, Audiences: []string{audience, issuer}, Lifetime: time.Hour, Leeway: 0}
}

// seed is 32 bytes that nobody else has.
func seed(name string) []byte { return bytes.Repeat([]byte(name), 32)[:32] }

func edKey(t testing.TB, name string) *identity.Key {
	t.Helper()
	k, err := identity.NewEdDSAKey(seed(name))
	must(t, err)
	return k
}

// newWorld makes a world whose tokens are signed with an Ed25519 key. change may change the options.
func newWorld(t testing.TB, change func(*identity.Options)) *world {
	t.Helper()
	return openWorld(t, filepath.Join(t.TempDir(), "store.db"), storetest.NewClock(), change)
}

func openWorld(t testing.TB, path string, clock *storetest.Clock, change func(*identity.Options)) *world {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{
		Audience: "test", Signer: storetest.Key(counterfoil.RoleLedger), Now: clock.Now, Names: storetest.Names(),
	})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	w := &world{t: t, path: path, clock: clock, store: &counting{Store: store}}
	w.dir = tenancy.New(tenancy.Options{
		Store: store, Names: storetest.Names(), Audience: "test", Now: clock.Now, Rand: rand.Reader, Lag: time.Second,
	})
	for _, id := range []string{"acme", "globex"} {
		if _, err := w.dir.Create(t.Context(), "person:root", id, tenancy.Settings{}); err != nil && !errors.Is(err, tenancy.ErrExists) {
			t.Fatal(err)
		}
	}
	w.keys, err = identity.NewKeyRing(edKey(t, "one"))
	must(t, err)
	o := identity.Options{
		Rules: rules(), Keys: w.keys, Store: w.store, Epoch: w.epoch, ResourceMetadata: metadata, Remembered: 100,
		Names: storetest.Names(), Audience: "test", Now: clock.Now, Rand: rand.Reader,
	}
	if change != nil {
		change(&o)
	}
	w.auth, err = identity.New(o)
	must(t, err)
	w.issue, err = identity.NewIssuer(identity.IssuerOptions{Rules: o.Rules, Keys: o.Keys, Now: clock.Now, Rand: rand.Reader})
	must(t, err)
	return w
}

func (w *world) epoch(ctx context.Context, id string) (int64, error) {
	t, err := w.dir.Get(ctx, id)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, identity.ErrNoTenant
	}
	if err != nil {
		return 0, err
	}
	return t.Epoch, nil
}

func (w *world) principal(list ...string) identity.Principal {
	return identity.Principal{
		Tenant: "acme", Subject: "build", Kind: identity.KindAgent, Owner: "ada", Scopes: scopes(w.t, list...),
	}
}

// token issues a good token.
func (w *world) token() string {
	w.t.Helper()
	text, _, err := w.issue.Issue(w.principal("tools:execute"), time.Minute)
	must(w.t, err)
	return text
}

func request(pairs ...string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://gate.example/v1/tools", nil)
	if err != nil {
		panic(err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

// why returns the rule that a refused token broke, and fails unless the refusal reads like every other.
func why(t testing.TB, p *identity.Principal, err error) string {
	t.Helper()
	e, ok := errors.AsType[*identity.Error](err)
	if !ok || p != nil {
		t.Fatalf("%v, with the principal %v", err, p)
	}
	if e.Reason != identity.ReasonInvalid || err.Error() != "the credential is not valid" {
		t.Fatalf("%s: %s: %v", e.Reason, e.Why, err)
	}
	return e.Why
}

// reason returns the reason of an error, and fails if there is a principal with it.
func reason(t testing.TB, p *identity.Principal, err error) identity.Reason {
	t.Helper()
	if err == nil || p != nil {
		t.Fatalf("%v, with the principal %v", err, p)
	}
	return identity.ReasonOf(err)
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// A forger signs whatever text it is given with a real key.
type forger struct {
	method jwt.SigningMethod
	key    any
}

func (f forger) sign(t testing.TB, header, claims string) string {
	t.Helper()
	signed := b64(header) + "." + b64(claims)
	sig, err := f.method.Sign(signed, f.key)
	must(t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func edForger(name string) forger {
	return forger{jwt.SigningMethodEdDSA, ed25519.NewKeyFromSeed(seed(name))}
}

func ecForger(t testing.TB, name string) forger {
	t.Helper()
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed(name))
	must(t, err)
	return forger{jwt.SigningMethodES256, k}
}

// edited replaces one part of a text, which must be there.
func edited(t testing.TB, text, old, with string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not once in %q", old, text)
	}
	return strings.Replace(text, old, with, 1)
}
