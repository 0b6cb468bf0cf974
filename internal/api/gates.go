package api

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// An Authenticator says whom a request speaks for. Every error is a no; it reads no body.
type Authenticator interface {
	Authenticate(r *http.Request) (*identity.Principal, error)
	// Challenge returns the WWW-Authenticate header's value for a reason, "" for none.
	Challenge(r identity.Reason, need ...identity.Scope) string
	// RevokeCredential ends an access token before its time, by its id.
	RevokeCredential(ctx context.Context, by, tenant, credential string) error
}

// A Limiter counts requests. An error is a no.
type Limiter interface {
	Take(ctx context.Context, s ratelimit.Subject) (ratelimit.Decision, error)
}

// An AddressLimiter limits addresses before anybody has said who they are.
type AddressLimiter interface {
	Check(addr netip.Addr) ratelimit.Decision
	Take(addr netip.Addr) ratelimit.Decision
}

// Hooks are asked before and after a request. An error is a no.
type Hooks interface {
	Run(ctx context.Context, e hooks.Event) ([]hooks.Result, error)
}

// Tenants says what a tenant allows. An error is a no.
type Tenants interface {
	Get(ctx context.Context, id string) (*tenancy.Tenant, error)
}

// A gate lets a request on, or says why not.
type gate struct {
	name string
	pass func(a *API, x *exchange) error
}

// gates are what a request meets, from top to bottom.
func gates() []gate {
	return []gate{
		{"address", (*API).gateAddress},           // 429, before anybody is known
		{"authenticate", (*API).gateAuthenticate}, // 401, 400 for two credentials
		{"rate", (*API).gateRate},                 // 429; 503 if it can't answer
		{"size", (*API).gateSize},                 // 413, 415, 400
		{"route", (*API).gateRoute},               // 404, 405: what is there is told to who is known
		{"scope", (*API).gateScope},               // 403, 428
		{"hooks", (*API).gateHooks},               // 403, 503
	}
}

// gateAddress stops addresses that have failed too often. A login counts as one that may fail.
func (a *API) gateAddress(x *exchange) error {
	x.addr = a.o.Proxies.Client(x.r.RemoteAddr, x.r.Header)
	d := a.o.Addresses.Check(x.addr)
	if d.Allowed && x.is(public) && x.r.Method == http.MethodPost {
		d = a.o.Addresses.Take(x.addr)
	}
	return limited(x, d)
}

func limited(x *exchange, d ratelimit.Decision) error {
	if d.Allowed {
		return nil
	}
	d.SetHeaders(x.w.Header())
	p := refuse(codeRateLimited, "too many requests: try again later")
	p.RetryAfter = d.RetryAfterSeconds()
	return p
}

func (a *API) gateAuthenticate(x *exchange) error {
	if x.is(public) {
		return nil
	}
	p, err := a.o.Authenticator.Authenticate(x.r)
	if err != nil {
		if identity.ReasonOf(err) != identity.ReasonUnavailable {
			a.o.Addresses.Take(x.addr) // what it says holds from the next request on
		}
		return err
	}
	if p == nil || p.Check() != nil {
		return &identity.Error{Reason: identity.ReasonUnavailable, Why: "principal"}
	}
	t, err := a.o.Tenants.Get(x.r.Context(), p.Tenant)
	if err != nil || t == nil || t.ID != p.Tenant {
		return &identity.Error{Reason: identity.ReasonUnavailable, Why: "tenant", Err: err}
	}
	x.principal, x.tenant = p, t
	x.r = x.r.WithContext(context.WithValue(x.r.Context(), principalKey{}, p))
	return nil
}

func (a *API) gateRate(x *exchange) error {
	if x.is(public) {
		return nil
	}
	d, err := a.o.Limiter.Take(x.r.Context(), ratelimit.Subject{Tenant: x.principal.Tenant, Principal: x.by()})
	if err != nil {
		return &problem{
			Status: http.StatusServiceUnavailable, Code: code(counterfoil.CodeUnavailable), Detail: "the rate can't be told now", RetryAfter: 1, cause: err,
		}
	}
	if d.Allowed {
		d.SetHeaders(x.w.Header())
	}
	return limited(x, d)
}

// maxLogin bounds the bodies of those who are not known.
const maxLogin = 8 << 10

func (a *API) gateSize(x *exchange) error {
	limit := int64(maxLogin)
	if !x.is(public) {
		limit = x.tenant.MaxBody
	}
	if err := ratelimit.Admit(x.w, x.r, limit); err != nil {
		return err
	}
	x.r.Body = &patient{ReadCloser: x.r.Body, control: http.NewResponseController(x.w)}
	if x.r.ContentLength == 0 {
		a.unhurry(x)
	}
	return nil
}

func (a *API) gateRoute(x *exchange) (err error) {
	if x.route == nil {
		if allow := a.methods(x.r); allow != "" {
			p := refuse(codeMethod, "the path has other methods")
			p.allow = allow
			return p
		}
		return refuse(codeNotFound, "there is nothing at this path")
	}
	if x.route.method == "" {
		return nil // what is mounted reads its own query
	}
	x.query, err = readQuery(x.r.URL.RawQuery, x.route.query)
	return err
}

// gateScope asks the registry of scopes. The tenant's lists come first: what it denies nobody has.
func (a *API) gateScope(x *exchange) error {
	if x.is(public) {
		return nil
	}
	need := []identity.Scope{x.route.scope}
	if x.route.or != "" {
		need = append(need, x.route.or)
	}
	best := identity.Deny
	for _, s := range need {
		best = max(best, identity.Decide(s, x.principal.Scopes, x.tenant.Denied, x.tenant.Asked))
	}
	switch best {
	case identity.Allow:
		return nil
	case identity.Ask:
		return refuse(codeApprovalRequired, "the tenant's policy asks a person first: "+string(need[0]))
	case identity.Deny:
	}
	p := problemOf(&identity.Error{Reason: identity.ReasonScope})
	p.Detail, p.challenge = "this takes the scope "+string(need[0]), need[0]
	return p
}

func (a *API) gateHooks(x *exchange) error {
	if x.is(public) {
		return nil
	}
	return a.runHooks(x.r.Context(), x, hooks.PreRequest, 0)
}

// runHooks tells the hooks of a phase of the request. The path has ids and names, and no query.
func (a *API) runHooks(ctx context.Context, x *exchange, phase hooks.Phase, status int) error {
	results, err := a.o.Hooks.Run(ctx, hooks.Event{
		Phase: phase, Tenant: x.principal.Tenant, ID: x.id, Principal: x.by(), Method: x.r.Method, Path: x.r.URL.Path, Status: status,
	})
	for i := range results {
		for name, value := range results[i].Verdict.Notes {
			x.notes = append(x.notes, note{results[i].Hook, name, value})
		}
	}
	if err == nil {
		return nil
	}
	if p := problemOf(err); p.Status != http.StatusInternalServerError {
		return err
	}
	return &problem{Status: http.StatusServiceUnavailable, Code: code(counterfoil.CodeUnavailable), Detail: "the hooks can't be asked now", cause: err}
}

func (x *exchange) is(y access) bool { return x.route != nil && x.route.access == y }

// methods lists the methods that the path of a request has, "" if there is no such path.
func (a *API) methods(r *http.Request) string {
	var list []string
	if !clean(r) {
		return ""
	}
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(probe); pattern != catchAll {
			list = append(list, m)
		}
	}
	if len(list) > 0 {
		list = append(list, http.MethodOptions)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Permit returns the function that says what a principal may do under its tenant's lists. It is for handlers that are
// mounted: an error denies.
func Permit(t Tenants) func(context.Context, *identity.Principal, identity.Scope) identity.Verdict {
	return func(ctx context.Context, p *identity.Principal, need identity.Scope) identity.Verdict {
		if p == nil {
			return identity.Deny
		}
		x, err := t.Get(ctx, p.Tenant)
		if err != nil || x == nil || x.ID != p.Tenant {
			return identity.Deny
		}
		return identity.Decide(need, p.Scopes, x.Denied, x.Asked)
	}
}
