package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/api"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/internal/vault"
	"github.com/counterfoil/counterfoil/scan"
)

const (
	acme       = "acme"
	umbrella   = "umbrella"
	passphrase = "correct horse battery staple"
	address    = "https://gate.test"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world is a whole server but for its listener: two tenants, one upstream, nothing pretended.
type world struct {
	t     testing.TB
	opts  api.Options
	api   *api.API
	store *sqlite.Store
	gate  *gateway.Gateway
	up    *upstream
	log   *syncBuffer
	keys  *keystore.Keystore

	mu     sync.Mutex
	tokens map[string]string
	issuer *identity.Issuer
	shift  time.Duration
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.shift)
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shift += d
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// enrolled is a state that an approver has enrolled in, made once: stretching a passphrase takes long.
var enrolled = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "counterfoil-api-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	k, err := keystore.Open(dir, keystore.Options{Now: time.Now, Rand: rand.Reader})
	if err != nil {
		return nil, err
	}
	if err := k.Enrol([]byte(passphrase), "person:ada", acme); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	for _, x := range entries {
		b, readErr := os.ReadFile(filepath.Join(dir, x.Name()))
		files[x.Name()], err = b, errors.Join(err, readErr)
	}
	return files, err
})

// setup makes a world. change may change what the API is made of.
func setup(t testing.TB, change ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, log: &syncBuffer{}, up: newUpstream(), tokens: map[string]string{}}
	dir := filepath.Join(t.TempDir(), "state")
	must(t, os.Mkdir(dir, 0o700))
	files, err := enrolled()
	must(t, err)
	for name, b := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	w.keys, err = keystore.Open(dir, keystore.Options{Now: w.now, Rand: rand.Reader})
	must(t, err)
	w.store, err = sqlite.Open(t.Context(), filepath.Join(dir, "counterfoil.db"), sqlite.Options{
		Audience: w.keys.Audience(), Signer: w.keys.Ledger(), Now: w.now, Names: w.keys.Pseudonyms(),
	})
	must(t, err)
	t.Cleanup(func() { _ = w.store.Close() })
	w.tenants()
	w.credentials()
	w.gateway()
	w.rest()
	for _, c := range change {
		c(w)
	}
	w.api, err = api.New(w.opts)
	must(t, err)
	return w
}

func (w *world) tenants() {
	d := tenancy.New(tenancy.Options{
		Store: w.store, Names: w.keys.Pseudonyms(), Audience: w.keys.Audience(), Now: w.now, Rand: rand.Reader, Lag: 0,
	})
	for _, id := range []string{acme, umbrella} {
		_, err := d.Create(context.Background(), "person:root", id, tenancy.Settings{Tier: string(ratelimit.TierUnlimited)})
		must(w.t, err)
	}
	w.opts.Directory, w.opts.Tenants = d, d
}

func (w *world) epoch(ctx context.Context, tenant string) (int64, error) {
	t, err := w.opts.Directory.Get(ctx, tenant)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, identity.ErrNoTenant
	}
	if err != nil {
		return 0, err
	}
	return t.Epoch, nil
}

func (w *world) credentials() {
	t, names, audience, logger := w.t, w.keys.Pseudonyms(), w.keys.Audience(), slog.New(slog.DiscardHandler)
	signs, err := identity.NewEdDSAKey(w.keys.TokenSeed())
	must(t, err)
	ring, err := identity.NewKeyRing(signs)
	must(t, err)
	rules := identity.Rules{Issuer: address, Audiences: []string{address}, Lifetime: time.Hour}
	w.issuer, err = identity.NewIssuer(identity.IssuerOptions{Rules: rules, Keys: ring, Now: w.now, Rand: rand.Reader})
	must(t, err)
	rec := credential.Recorder{Names: names, Audience: audience, Now: w.now, Rand: rand.Reader}
	w.opts.Keys, err = credential.NewKeys(credential.KeysOptions{Store: w.store, Epoch: w.epoch, Remembered: 100, Recorder: rec, Logger: logger})
	must(t, err)
	hasher, err := credential.NewHasher(credential.HasherOptions{
		Cost: credential.Cost{Memory: 8 << 10, Time: 1, Threads: 1}, AtOnce: 2, Waiting: 100, Rand: rand.Reader,
	})
	must(t, err)
	w.opts.Users, err = credential.NewUsers(credential.UsersOptions{
		Store: w.store, Hasher: hasher, Limits: credential.DefaultLimits(), Recorder: rec, Logger: logger,
	})
	must(t, err)
	w.opts.Tokens, err = credential.NewTokens(credential.TokensOptions{
		Store: w.store, Users: w.opts.Users, Issue: w.issuer.Issue, AccessLife: 15 * time.Minute, RefreshLife: 24 * time.Hour,
	})
	must(t, err)
	w.opts.Bootstrap, err = credential.NewBootstrap(w.store, w.opts.Users)
	must(t, err)
	w.opts.Secrets, err = vault.NewSecrets(vault.SecretsOptions{
		Vault: w.keys.Vault(), Store: w.store, Names: names, Audience: audience, Now: w.now, Rand: rand.Reader,
	})
	must(t, err)
	w.opts.Authenticator, err = identity.New(identity.Options{
		Rules: rules, Keys: ring, APIKeys: w.opts.Keys, Store: w.store, Epoch: w.epoch, ResourceMetadata: address + "/.well-known/oauth-protected-resource",
		Remembered: 100, Names: names, Audience: audience, Now: w.now, Rand: rand.Reader,
	})
	must(t, err)
}

func (w *world) gateway() {
	t := w.t
	ring, err := w.keys.Ring()
	must(t, err)
	logs, err := translog.New(translog.Config{
		Store: w.store, Audience: w.keys.Audience(), Ring: ring, Signer: w.keys.Checkpoint(), Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	c := gateway.DefaultConfig()
	c.Keys, c.Store, c.Scanner, c.Now, c.Rand, c.Log = w.keys, w.store, scan.New(), w.now, rand.Reader, logs
	c.Logger, c.Files, c.Grace, c.Guard, c.Stands = slog.New(slog.DiscardHandler), fstest.MapFS{}, 100*time.Millisecond, w.store.Ready, w.opts.Directory.Standing
	if c.Rules, err = governance.NewRules(nil); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(c)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(ctx, func() { close(ready) })
	}()
	select {
	case <-ready:
	case <-done:
		t.Fatal("the gateway does not serve")
	}
	t.Cleanup(func() { cancel(); <-done })
	w.gate = g
	w.opts.Gate, w.opts.Executions, w.opts.Logs, w.opts.LogStore, w.opts.Scanner = g, w.store, logs, w.store, c.Scanner
}

// sealer seals the secrets of hooks as the server does.
type sealer struct{ v *vault.Vault }

func (s sealer) label(tenant, id string) vault.Label {
	return vault.Label{Tenant: tenant, Kind: hooks.SealKind, Name: id, Version: "1"}
}
func (s sealer) SealHook(tenant, id string, plain []byte) ([]byte, error) {
	return s.v.Seal(s.label(tenant, id), plain)
}
func (s sealer) OpenHook(tenant, id string, sealed []byte) ([]byte, error) {
	return s.v.Open(s.label(tenant, id), sealed)
}

func (w *world) rest() {
	t := w.t
	limiter, err := ratelimit.New(ratelimit.Options{Store: w.store, Now: w.now, Tier: func(ctx context.Context, tenant string) (ratelimit.Tier, error) {
		x, err := w.opts.Directory.Get(ctx, tenant)
		if err != nil {
			return "", err
		}
		return ratelimit.Tier(x.Tier), nil
	}})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close(context.Background()) })
	w.opts.Limiter, w.opts.Rates = limiter, limiter
	w.opts.Addresses, err = ratelimit.NewAddresses(ratelimit.AddressLimits{PerMinute: 100_000, Burst: 100_000}, w.now)
	must(t, err)
	book, err := hooks.New(hooks.Options{
		Store: w.store, Sealer: sealer{w.keys.Vault()}, Names: w.keys.Pseudonyms(), Audience: w.keys.Audience(), Log: slog.New(slog.DiscardHandler),
		Now: w.now, Rand: rand.Reader, Lag: time.Second, Handlers: map[string]hooks.Maker{"block": block},
	})
	must(t, err)
	t.Cleanup(book.Close)
	w.opts.Hooks, w.opts.HookBook = book, book
	w.opts.Repeats, err = idempotency.New(idempotency.Options{Store: w.store, Vault: w.keys.Vault(), Now: w.now})
	must(t, err)
	w.opts.Upstreams = func(_ context.Context, tenant string) ([]api.Mount, error) {
		if tenant != acme {
			return nil, nil
		}
		return []api.Mount{{Name: "files", Upstream: w.up}}, nil
	}
	w.opts.Signer = func(_ context.Context, _ *identity.Principal, p credential.Secret) (counterfoil.Signer, error) {
		s, err := w.keys.Unlock([]byte(p.Reveal()))
		if err != nil {
			return nil, api.ErrPassphrase
		}
		return s, nil
	}
	w.opts.Ring, w.opts.Audience, w.opts.URL, w.opts.Version = w.keys.Ring, w.keys.Audience(), address, "test"
	w.opts.Hold, w.opts.Now, w.opts.Rand = time.Minute, w.now, rand.Reader
	w.opts.Logger = slog.New(slog.NewJSONHandler(w.log, nil))
}

// block is a handler that refuses paths that its configuration names.
func block(config map[string]string) (hooks.Handler, error) {
	return func(_ context.Context, e hooks.Event) (hooks.Verdict, error) {
		if e.Path == config["path"] {
			return hooks.Verdict{Action: hooks.Refuse, Reason: "not here", Notes: map[string]string{"why": "path"}}, nil
		}
		return hooks.Verdict{Action: hooks.Pass}, nil
	}, nil
}

// as returns an access token of a principal, with scopes.
func (w *world) as(tenant string, kind identity.Kind, subject string, scopes ...string) string {
	w.t.Helper()
	set, err := identity.ParseScopes(scopes)
	must(w.t, err)
	owner := subject
	if kind != identity.KindPerson {
		owner = "grace" // another than who approves
	}
	text, _, err := w.issuer.Issue(identity.Principal{Tenant: tenant, Subject: subject, Kind: kind, Owner: owner, Scopes: set}, 10*time.Minute)
	must(w.t, err)
	return text
}

func (w *world) agent(scopes ...string) string {
	return w.as(acme, identity.KindAgent, "bot", scopes...)
}
func (w *world) ada(scopes ...string) string {
	return w.as(acme, identity.KindPerson, "ada", scopes...)
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// into reads the body.
func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v: %v", a, err)
	}
}

func (a answer) code(t testing.TB) string {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("%v is no problem: %s", a, got)
	}
	var p struct {
		Code     string `json:"code"`
		Status   int    `json:"status"`
		Instance string `json:"instance"`
	}
	a.into(t, &p)
	if p.Status != a.status || p.Instance != a.header.Get("X-Request-Id") || p.Instance == "" {
		t.Fatalf("the problem does not fit its answer: %v", a)
	}
	return p.Code
}

// send sends a request with a token; body "" is none. Headers come in pairs.
func (w *world) send(method, target, token, body string, headers ...string) answer {
	w.t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, target, b)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header(), rec.Body.String()}
}

// want sends and compares the status.
func (w *world) want(status int, method, target, token, body string, headers ...string) answer {
	w.t.Helper()
	a := w.send(method, target, token, body, headers...)
	if a.status != status {
		w.t.Fatalf("%s %s: %v, want %d", method, target, a, status)
	}
	return a
}

// An upstream counts its effects.
type upstream struct {
	mu   sync.Mutex
	sent []gateway.Request
}

func newUpstream() *upstream { return &upstream{} }

func (u *upstream) Identity() []byte {
	return []byte(`{"argv":["fake"],"dir":"/","env":[],"transport":"stdio"}`)
}
func (u *upstream) Name() string { return "fake" }
func (u *upstream) Definitions(context.Context, []byte, bool) ([][]byte, error) {
	return [][]byte{[]byte(`{"name":"send","description":"sends","inputSchema":{"type":"object"}}`)}, nil
}
func (u *upstream) Send(context.Context, gateway.Request) (gateway.Answer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent = append(u.sent, gateway.Request{})
	return gateway.Answer{Result: []byte(`{"content":[{"type":"text","text":"done"}]}`)}, nil
}

func (u *upstream) effects() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent)
}
