package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/internal/vault"
	"github.com/counterfoil/counterfoil/scan"
)

// A Mount is an upstream under the name that the names of its tools begin with: mount.tool.
type Mount struct {
	Name     string // without a dot
	Upstream gateway.Upstream
}

// Options are what an API is made of. Every field is required but MCP, Tracing and Proxies.
type Options struct {
	// The gates.
	Authenticator Authenticator
	Limiter       Limiter
	Addresses     AddressLimiter
	Proxies       ratelimit.Proxies // the zero value believes nobody
	Hooks         Hooks
	Tenants       Tenants

	Gate       *gateway.Gateway
	Executions gateway.Executions
	// Upstreams returns the upstreams of a tenant, each name once.
	Upstreams func(ctx context.Context, tenant string) ([]Mount, error)
	// Signer returns the key that a person decides with, unlocked by their passphrase. A passphrase that is wrong is
	// ErrPassphrase; a person who has no key is CodePolicyDenied.
	Signer func(ctx context.Context, by *identity.Principal, passphrase credential.Secret) (counterfoil.Signer, error)
	// Ring returns the public keys that documents are verified with.
	Ring     func() (*counterfoil.KeyRing, error)
	Audience string

	Tokens    *credential.Tokens
	Bootstrap *credential.Bootstrap
	Keys      *credential.Keys
	Users     *credential.Users
	Secrets   *vault.Secrets
	Directory *tenancy.Directory
	Rates     *ratelimit.Limiter
	HookBook  *hooks.Hooks
	Repeats   *idempotency.Keys // what Idempotency-Key stands for
	Scanner   *scan.Scanner
	Logs      *translog.Logs
	LogStore  translog.Store

	// MCP is mounted at /mcp, behind all gates. Nil is none.
	MCP http.Handler
	// URL is the address that clients know the server by, without a slash at the end.
	URL     string
	Version string
	// Tracing traces requests. Nil is none.
	Tracing *Tracing

	// Hold is the longest that a call waits for a person.
	Hold   time.Duration
	Now    func() time.Time
	Rand   io.Reader
	Logger *slog.Logger
}

// ErrPassphrase says that a passphrase is wrong.
const ErrPassphrase = sentinel("the passphrase is wrong")

type sentinel string

func (s sentinel) Error() string { return string(s) }

// check reports what is missing: a gate that isn't there is never one that lets everybody through.
func (o *Options) check() error {
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch name {
		case "MCP", "Tracing", "Proxies":
			continue
		}
		if f.IsZero() || f.Kind() == reflect.Interface && f.Elem().Kind() == reflect.Pointer && f.Elem().IsNil() {
			return fmt.Errorf("the API lacks %s", name)
		}
	}
	return nil
}

// An API serves the routes of the table. It is safe for concurrent use.
type API struct {
	o        Options
	mux      *http.ServeMux
	routes   []route
	document []byte // the description of the API
	page     []byte // the same, for people
	metrics  *metrics
	stopping atomic.Bool
}

// New returns an API, or says what its options lack.
func New(o Options) (*API, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &API{o: o, mux: http.NewServeMux(), routes: table()}
	if o.MCP == nil {
		a.routes = withoutMCP(a.routes)
	}
	var err error
	if a.metrics, err = newMetrics(o.Version, a.Ready); err != nil {
		return nil, err
	}
	if a.document, err = describe(a.routes, o.URL, o.Version); err != nil {
		return nil, err
	}
	if a.page, err = docsPage(a.routes, o.Version); err != nil {
		return nil, err
	}
	for i := range a.routes {
		rt := &a.routes[i]
		if err := rt.check(); err != nil {
			return nil, err
		}
		a.mux.HandleFunc(rt.pattern(), func(w http.ResponseWriter, r *http.Request) { a.handle(w, r, rt) })
	}
	a.mux.HandleFunc(catchAll, func(w http.ResponseWriter, r *http.Request) { a.handle(w, r, nil) })
	return a, nil
}

// catchAll is where everything ends up that is not in the table.
const catchAll = "/"

// check reports a line of the table that would leave something open.
func (r *route) check() error {
	switch {
	case r.serve == nil, r.path == catchAll, r.summary == "":
		return errors.New("the route " + r.pattern() + " is not whole")
	case r.access == guarded && r.scope == "", r.access != guarded && (r.scope != "" || r.or != ""):
		return errors.New("the route " + r.pattern() + " must name a scope or be public, not both")
	}
	return nil
}

// Ready reports whether calls are taken.
func (a *API) Ready() bool { return !a.stopping.Load() && a.o.Gate.Ready() }

// Stop makes the API say that it is not ready. It goes on serving: those who ask for its readiness will send no more.
func (a *API) Stop() { a.stopping.Store(true) }

// ServeHTTP serves one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ratelimit.Hold(r)
	// A path in another spelling is another path: nothing is redirected, so that what a proxy in front has judged is what is served.
	if !clean(r) {
		a.handle(w, r, nil)
		return
	}
	a.mux.ServeHTTP(w, r)
}

func clean(r *http.Request) bool {
	p := r.URL.Path
	return r.Method != http.MethodConnect && strings.HasPrefix(p, "/") && path.Clean(p) == p
}

// handle takes a request through everything and records it.
func (a *API) handle(w http.ResponseWriter, r *http.Request, rt *route) {
	x := &exchange{r: r, route: rt, began: a.o.Now(), id: a.newID()}
	rec := &recorder{ResponseWriter: w}
	x.w = rec
	end := a.trace(x)
	a.metrics.begin()
	defer func() {
		v := recover()
		cut := v != nil && a.panicked(x, rec, v)
		end(x, rec)
		a.metrics.end(x, rec, a.o.Now().Sub(x.began))
		a.record(x, rec)
		if cut {
			panic(http.ErrAbortHandler) // net/http's own way to cut a connection
		}
	}()
	head(rec.Header(), x.id)
	if r.Method == http.MethodOptions {
		a.options(x)
		return
	}
	a.answer(x)
}

// panicked answers for a fault of ours, and reports whether the connection is to be cut, because part of another answer is
// out already. What the panic says may have anything in it: its place in the code is logged alone.
func (a *API) panicked(x *exchange, rec *recorder, v any) (cut bool) {
	x.problem = problemOf(errors.New("panic"))
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	a.o.Logger.LogAttrs(x.r.Context(), slog.LevelError, "a handler panicked", slog.String("request", x.id), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		return true
	}
	return a.send(x, x.problem.reply(x.id)) != nil
}

// answer passes the gates, serves and sends.
func (a *API) answer(x *exchange) {
	var reply *reply
	err := a.pass(x)
	if err == nil {
		reply, err = a.served(x)
	}
	if err != nil {
		reply = a.refused(x, err)
	}
	if reply.sent {
		return
	}
	if reply.deliver == nil {
		_ = a.send(x, reply) // a caller who has left is nobody's fault
		return
	}
	// The answer counts as delivered if it could be written.
	_ = reply.deliver(func() error { return a.send(x, reply) })
}

// pass takes the request through the gates that its route has.
func (a *API) pass(x *exchange) (err error) {
	if x.is(open) {
		x.query, err = readQuery(x.r.URL.RawQuery, x.route.query)
		return err
	}
	for _, g := range gates() {
		if err := g.pass(a, x); err != nil {
			x.gate = g.name
			return err
		}
	}
	return nil
}

// served runs the handler, and the hooks after it.
func (a *API) served(x *exchange) (*reply, error) {
	r, err := x.route.serve(a, x)
	if x.principal == nil {
		return r, err
	}
	if err != nil {
		r = a.refused(x, err)
	}
	// The hooks hear of it even when the caller has left.
	if err := a.runHooks(context.WithoutCancel(x.r.Context()), x, hooks.PostRequest, r.status); err != nil && !r.sent {
		x.gate = "hooks"
		return nil, err // the answer is withheld
	}
	return r, nil
}

func (a *API) refused(x *exchange, err error) *reply {
	x.problem = problemOf(err)
	p := x.problem
	if p.reason != "" {
		need := []identity.Scope{}
		if p.challenge != "" {
			need = append(need, p.challenge)
		}
		if c := a.o.Authenticator.Challenge(p.reason, need...); c != "" {
			x.w.Header().Set("WWW-Authenticate", c)
		}
	}
	return p.reply(x.id)
}

// send writes a reply.
func (a *API) send(x *exchange, r *reply) error {
	h := x.w.Header()
	for name, values := range r.header {
		h[name] = values
	}
	if r.kind != "" {
		h.Set("Content-Type", r.kind)
	}
	x.w.WriteHeader(r.status)
	_, err := x.w.Write(r.body)
	return err
}

// options answers OPTIONS for everybody. No origin is allowed anything.
func (a *API) options(x *exchange) {
	x.w.Header().Set("Allow", a.methods(x.r))
	x.w.WriteHeader(http.StatusNoContent)
}

// head sets what every answer has.
func head(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

// newID returns a request's id. It proves nothing; where there is no randomness it is empty.
func (a *API) newID() string {
	var b [12]byte
	if _, err := io.ReadFull(a.o.Rand, b[:]); err != nil {
		return ""
	}
	return "req-" + hex.EncodeToString(b[:])
}
