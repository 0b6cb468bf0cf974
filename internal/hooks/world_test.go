package hooks_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/reach"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/vault"
)

const (
	acme   = "acme"
	globex = "globex"
	ada    = "person:ada"
)

// A world is a real store and vault, handlers that do as they are told, and a callback server under example.com.
type world struct {
	t     *testing.T
	clock *storetest.Clock
	store *store
	log   *lines
	o     hooks.Options
	hooks *hooks.Hooks

	mu    sync.Mutex
	ran   []string
	asked []asked
	reply http.HandlerFunc
	url   string
}

// asked is what the callback got.
type asked struct {
	header http.Header
	method string
	body   []byte
}

// store fails when it is told to.
type store struct {
	*sqlite.Store
	down bool
}

func (s *store) Hooks(ctx context.Context, tenant string) ([]hooks.Row, error) {
	if s.down {
		return nil, errors.New("down")
	}
	return s.Store.Hooks(ctx, tenant)
}

// sealer is how the program joins vault and hooks.
type sealer struct{ v *vault.Vault }

func label(tenant, id string) vault.Label {
	return vault.Label{Tenant: tenant, Kind: hooks.SealKind, Name: id, Version: "1"}
}

func (s sealer) SealHook(tenant, id string, plain []byte) ([]byte, error) {
	return s.v.Seal(label(tenant, id), plain)
}

func (s sealer) OpenHook(tenant, id string, sealed []byte) ([]byte, error) {
	return s.v.Open(label(tenant, id), sealed)
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type loopback struct{}

func (loopback) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "inner.example.com" {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T, system ...hooks.SystemHook) *world {
	t.Helper()
	w := &world{t: t, clock: storetest.NewClock(), log: &lines{}}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: w.clock.Now, Names: storetest.Names(),
	})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	w.store = &store{Store: s}
	tenants := tenancy.New(tenancy.Options{
		Store: s, Names: storetest.Names(), Audience: storetest.Audience, Now: w.clock.Now, Rand: rand.Reader, Lag: time.Second,
	})
	for _, id := range []string{acme, globex} {
		_, err := tenants.Create(t.Context(), "person:root", id, tenancy.Settings{})
		must(t, err)
	}
	v, err := vault.New(rand.Reader, vault.Key{ID: "k1", Master: bytes.Repeat([]byte{7}, vault.MasterSize)})
	must(t, err)
	transport := w.serve()
	hosts, err := reach.ParseDomainAllowlist([]string{strings.TrimPrefix(w.url, "https://"), "inner.example.com"})
	must(t, err)
	w.o = hooks.Options{
		Store: w.store, Sealer: sealer{v}, Names: storetest.Names(), Audience: storetest.Audience, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Now: w.clock.Now, Rand: rand.Reader, Lag: time.Second, Handlers: w.handlers(), System: system,
		Transport: transport, CallbackHosts: hosts, SystemTransport: transport,
	}
	w.hooks = w.start()
	return w
}

// start returns hooks as a process of its own would have them.
func (w *world) start() *hooks.Hooks {
	w.t.Helper()
	h, err := hooks.New(w.o)
	must(w.t, err)
	w.t.Cleanup(h.Close)
	return h
}

// serve starts the callback's server.
func (w *world) serve() *reach.Transport {
	w.t.Helper()
	w.reply = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(`{"action":"pass"}`)) }
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		w.mu.Lock()
		w.asked = append(w.asked, asked{r.Header, r.Method, body.Bytes()})
		reply := w.reply
		w.mu.Unlock()
		reply(rw, r)
	}))
	w.t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	w.url = "https://example.com:" + port
	d, err := reach.NewDialer(reach.DialOptions{Resolver: loopback{}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	must(w.t, err)
	transport, err := reach.NewTransport(reach.TransportOptions{Dialer: d, Roots: roots})
	must(w.t, err)
	w.t.Cleanup(transport.Close)
	return transport
}

// handlers are compiled in. "do" does what its configuration says and notes that it ran.
func (w *world) handlers() map[string]hooks.Maker {
	return map[string]hooks.Maker{
		"do": func(c map[string]string) (hooks.Handler, error) {
			if c["bad"] != "" {
				return nil, errors.New("bad configuration")
			}
			return func(ctx context.Context, e hooks.Event) (hooks.Verdict, error) {
				w.note(c["name"])
				return w.do(ctx, c["does"], e)
			}, nil
		},
		"nil": func(map[string]string) (hooks.Handler, error) { return nil, nil }, //nolint:nilnil // what is tested
		"log": hooks.Log(slog.New(slog.NewTextHandler(w.log, nil))),
	}
}

func (w *world) do(ctx context.Context, what string, e hooks.Event) (hooks.Verdict, error) {
	verdict := hooks.Verdict{Action: hooks.Pass, Notes: map[string]string{"seen": string(e.Payload), "for": e.Tenant + " " + string(e.Phase)}}
	switch what {
	case "refuse":
		verdict.Action, verdict.Reason = hooks.Refuse, "not on Fridays"
	case "panic":
		panic("a secret of the handler")
	case "error":
		return verdict, errors.New("it broke")
	case "nothing":
		return hooks.Verdict{}, nil
	case "other":
		verdict.Action = "allow"
	case "long":
		verdict.Reason = strings.Repeat("a", 201)
	case "lines":
		verdict.Reason = "one\ntwo"
	case "note":
		verdict.Notes = map[string]string{"Not A Name": "x"}
	case "notes":
		for i := range 17 {
			verdict.Notes[strings.Repeat("a", i+1)] = ""
		}
	case "slow":
		<-ctx.Done()
	case "deaf": // overstays, whatever its context says
		<-time.NewTimer(200 * time.Millisecond).C
	case "scribble":
		for i := range e.Payload {
			e.Payload[i] = 'X'
		}
	}
	return verdict, nil
}

func (w *world) note(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, name)
}

// took returns the names of the handlers that ran, and forgets them.
func (w *world) took() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.ran, " ")
	w.ran = nil
	return all
}

// calls returns what the callback was asked, and forgets it.
func (w *world) calls() []asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.asked
	w.asked = nil
	return all
}

func (w *world) answer(f http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reply = f
}

// handler is a definition of "do" under a name.
func handler(name, does string) hooks.Params {
	return hooks.Params{
		Name: name, Phase: hooks.PreCall, Priority: hooks.DefaultPriority, Handler: "do", Config: map[string]string{"name": name, "does": does},
		Timeout: 50 * time.Millisecond,
	}
}

func (w *world) create(tenant string, p hooks.Params) (hooks.Hook, string) {
	w.t.Helper()
	h, secret, err := w.hooks.Create(w.t.Context(), ada, tenant, p)
	must(w.t, err)
	return h, secret
}

func event(p hooks.Phase) hooks.Event {
	return hooks.Event{Phase: p, Tenant: acme, ID: "call-1", Principal: "agent:x", Tool: "mail.send", Payload: []byte(`{"to":"ada"}`)}
}
