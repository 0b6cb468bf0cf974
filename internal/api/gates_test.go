package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/api"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// A gate that isn't there is an error of construction, not one that lets everybody through.
func TestNew_lacks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, drop := range map[string]func(*api.Options){
		"Authenticator": func(o *api.Options) { o.Authenticator = nil },
		"a typed nil":   func(o *api.Options) { o.Authenticator = (*identity.Authenticator)(nil) },
		"Limiter":       func(o *api.Options) { o.Limiter = nil },
		"Addresses":     func(o *api.Options) { o.Addresses = nil },
		"Hooks":         func(o *api.Options) { o.Hooks = nil },
		"Tenants":       func(o *api.Options) { o.Tenants = nil },
		"Gate":          func(o *api.Options) { o.Gate = nil },
		"Signer":        func(o *api.Options) { o.Signer = nil },
		"Repeats":       func(o *api.Options) { o.Repeats = nil },
	} {
		o := w.opts
		drop(&o)
		if _, err := api.New(o); err == nil {
			t.Errorf("without %s: made", name)
		}
	}
}

type brokenLimiter struct{ zero bool }

func (b brokenLimiter) Take(context.Context, ratelimit.Subject) (ratelimit.Decision, error) {
	if b.zero {
		return ratelimit.Decision{}, nil
	}
	return ratelimit.Decision{Allowed: true}, errors.New("the store is gone: planted-secret")
}

type brokenHooks struct{ err error }

func (b brokenHooks) Run(context.Context, hooks.Event) ([]hooks.Result, error) { return nil, b.err }

type brokenTenants struct{}

func (brokenTenants) Get(context.Context, string) (*tenancy.Tenant, error) { return nil, nil }

// A gate that can't answer denies.
func TestGates_closed(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		change func(*world)
		status int
	}{
		"the limiter fails":           {func(w *world) { w.opts.Limiter = brokenLimiter{} }, 503},
		"the limiter has no decision": {func(w *world) { w.opts.Limiter = brokenLimiter{zero: true} }, 429},
		"the hooks fail":              {func(w *world) { w.opts.Hooks = brokenHooks{errors.New("planted-secret")} }, 503},
		"there is no tenant":          {func(w *world) { w.opts.Tenants = brokenTenants{} }, 503},
	} {
		w := setup(t, x.change)
		if a := w.want(x.status, "GET", "/v1/tools", w.agent("tools:*"), ""); a.code(t) == "internal" || strings.Contains(a.body, "planted") {
			t.Errorf("%s: %v", name, a)
		}
		w.want(200, "GET", "/healthz", "", "")
	}
}

// 401 comes before everything that needs a principal, and is counted against the address.
func TestGates_addresses(t *testing.T) {
	t.Parallel()
	w := setup(t, func(w *world) {
		a, err := ratelimit.NewAddresses(ratelimit.AddressLimits{PerMinute: 60, Burst: 3}, w.now)
		must(w.t, err)
		w.opts.Addresses = a
	})
	for range 3 {
		w.want(401, "GET", "/v1/tools", "not-a-token", "", "X-Forwarded-For", "198.51.100.9")
	}
	a := w.want(429, "GET", "/v1/tools", "not-a-token", "", "X-Forwarded-For", "198.51.100.10")
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if a.code(t) != "rate-limited" || err != nil || n < 1 {
		t.Fatalf("%v %v", a, a.header)
	}
	w.want(429, "POST", "/v1/auth/token", "", `{"tenant":"acme","user":"ada","password":"x"}`)
	for _, p := range []string{"/healthz", "/readyz", "/docs", "/openapi.json"} {
		w.want(200, "GET", p, "", "")
	}
	w.want(204, "OPTIONS", "/v1/tools", "", "")
	w.advance(time.Duration(n) * time.Second)
	w.want(401, "GET", "/v1/tools", "not-a-token", "")
}

// The headers of a counted answer, and of one that is denied: waiting as long as they say is enough.
func TestGates_rate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	root := w.as(acme, identity.KindPerson, "root", "system:admin")
	w.want(422, "PUT", "/v1/admin/rate-limits/umbrella/tier", root, `{"tier":"golden"}`)
	w.want(404, "PUT", "/v1/admin/rate-limits/nobody/tier", root, `{"tier":"free"}`)
	w.want(200, "PUT", "/v1/admin/rate-limits/umbrella/tier", root, `{"tier":"free"}`)
	eve := w.as(umbrella, identity.KindPerson, "eve", "tools:read")
	for i := range 5 {
		a := w.want(200, "GET", "/v1/tools", eve, "")
		if h := a.header; h.Get("X-RateLimit-Limit") != "10" || h.Get("X-RateLimit-Remaining") != strconv.Itoa(9-i) || h.Get("X-RateLimit-Reset") < "1700000000" {
			t.Fatalf("%d: %v", i, h)
		}
	}
	a := w.want(429, "GET", "/v1/tools", eve, "")
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || wait < 1 || a.header.Get("X-RateLimit-Remaining") != "0" {
		t.Fatal(a.header)
	}
	w.want(200, "GET", "/healthz", "", "")
	w.want(200, "GET", "/v1/tools", w.as(acme, identity.KindPerson, "eve", "tools:read"), "") // another tenant's of the same name
	w.advance(time.Duration(wait) * time.Second)
	w.want(200, "GET", "/v1/tools", eve, "")
	if a := w.want(200, "GET", "/v1/admin/rate-limits/umbrella", root, ""); !strings.Contains(a.body, `"principal":"person:eve"`) || !strings.Contains(a.body, `"tier":"free"`) {
		t.Fatal(a)
	}
	if a := w.want(200, "GET", "/v1/admin/rate-limits/tiers", root, ""); strings.Count(a.body, "perMinute") != 4 {
		t.Fatal(a)
	}
	w.want(200, "GET", "/v1/admin/rate-limits", root, "")
	w.want(204, "POST", "/v1/admin/rate-limits/umbrella/reset", root, "")
	w.want(200, "PUT", "/v1/admin/rate-limits/umbrella/tier", root, `{"tier":"unlimited"}`)
	if a := w.want(200, "GET", "/v1/tools", eve, ""); a.header.Get("X-RateLimit-Limit") != "unlimited" {
		t.Fatal(a.header)
	}
	w.want(403, "GET", "/v1/admin/rate-limits", w.ada("admin"), "")
}

// What a body says of its length is not believed, and nothing is read for who isn't known.
func TestGates_size(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.opts.Directory.Configure(t.Context(), "person:root", acme, tenancy.Settings{MaxBody: 1000})
	must(t, err)
	bot := w.agent("tools:*")
	long := `{"arguments":{"a":"` + strings.Repeat("x", 1000) + `"}}`
	if a := w.want(413, "POST", callSend, bot, long); a.code(t) != "body-too-large" {
		t.Fatal(a)
	}
	for _, length := range []int64{-1, 10} { // chunked, and a lie
		r := httptest.NewRequestWithContext(t.Context(), "POST", callSend, io.MultiReader(strings.NewReader(long)))
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+bot)
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		if rec.Code != 413 && (length == -1 || rec.Code >= 500) {
			t.Fatalf("length %d: %d %s", length, rec.Code, rec.Body)
		}
	}
	read := &counting{Reader: strings.NewReader(long)}
	r := httptest.NewRequestWithContext(t.Context(), "POST", callSend, read)
	w.api.ServeHTTP(httptest.NewRecorder(), r)
	if read.n != 0 {
		t.Fatalf("%d bytes were read for nobody", read.n)
	}
	if a := w.want(413, "POST", "/v1/auth/token", "", `{"refresh":"`+strings.Repeat("x", 9000)+`"}`); a.code(t) != "body-too-large" {
		t.Fatal(a)
	}
}

type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

// What a tenant denies nobody in it has; what it asks about is not done without a person.
func TestGates_tenantLists(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ada := w.ada("admin")
	w.want(200, "PUT", "/v1/tenant/scopes", ada, `{"deny":["secrets:*"],"ask":["keys:write"]}`)
	w.want(403, "GET", "/v1/secrets", ada, "")
	if a := w.want(428, "POST", "/v1/keys", ada, `{}`); a.code(t) != "approval-required" {
		t.Fatal(a)
	}
	w.want(200, "GET", "/v1/secrets", w.as(umbrella, identity.KindPerson, "eve", "admin"), "")
	w.want(422, "PUT", "/v1/tenant/scopes", ada, `{"deny":["sec*"],"ask":[]}`)
}

// A hook before the request refuses it; one after it withholds the answer.
func TestGates_hooks(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"pre-request", "post-request"} {
		w := setup(t)
		ada := w.ada("admin")
		var h struct {
			ID      string `json:"id"`
			Version int64  `json:"version"`
		}
		w.want(201, "POST", "/v1/hooks", ada, `{"name":"b","phase":"`+phase+`","handler":"block","config":{"path":"/v1/tools"}}`).into(t, &h)
		a := w.want(403, "GET", "/v1/tools", ada, "")
		if a.code(t) != "policy-denied" || !strings.Contains(a.body, "not here") || !strings.Contains(w.log.String(), `"why":"path"`) {
			t.Fatalf("%s: %v", phase, a)
		}
		w.want(200, "GET", "/v1/hooks/"+h.ID, ada, "")
		w.want(200, "POST", "/v1/hooks/"+h.ID+"/test", ada, "")
		w.want(404, "DELETE", "/v1/hooks/"+h.ID, w.as(umbrella, identity.KindPerson, "eve", "admin"), "")
		w.want(409, "PUT", "/v1/hooks/"+h.ID, ada, `{"version":9,"hook":{"name":"b","phase":"`+phase+`","handler":"block"}}`)
		w.want(422, "POST", "/v1/hooks", ada, `{"name":"b","phase":"pre-request","handler":"os.abort"}`)
		w.want(204, "DELETE", "/v1/hooks/"+h.ID, ada, "")
		w.want(200, "GET", "/v1/tools", ada, "")
	}
}

// The address is the peer's: what a header says counts only from a proxy that is trusted.
func TestGates_proxy(t *testing.T) {
	t.Parallel()
	p, err := ratelimit.ParseProxies([]string{"192.0.2.1"}, "")
	must(t, err)
	w := setup(t, func(w *world) { w.opts.Proxies = p })
	w.want(401, "GET", "/v1/tools", "", "", "X-Forwarded-For", "198.51.100.7")
	if want := netip.MustParseAddr("198.51.100.7").String(); !strings.Contains(w.log.String(), `"address":"`+want) {
		t.Fatal(w.log)
	}
	w = setup(t)
	w.want(401, "GET", "/v1/tools", "", "", "X-Forwarded-For", "198.51.100.7")
	if strings.Contains(w.log.String(), "198.51.100.7") {
		t.Fatal(w.log)
	}
}

// A mounted handler is behind all gates and knows the principal.
func TestMCP_mounted(t *testing.T) {
	t.Parallel()
	w := setup(t, func(w *world) {
		w.opts.MCP = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			var b bytes.Buffer
			_, _ = b.ReadFrom(r.Body)
			_, _ = io.WriteString(rw, api.PrincipalOf(r.Context()).Actor()+" "+b.String())
		})
	})
	w.want(401, "POST", "/mcp", "", "{}")
	w.want(403, "POST", "/mcp", w.ada("audit:read"), "{}")
	for _, scope := range []string{"tools:read", "tools:execute"} {
		if a := w.want(200, "POST", "/mcp", w.agent(scope), "{}"); a.body != "agent:bot {}" {
			t.Fatal(a)
		}
	}
	permit := api.Permit(w.opts.Tenants)
	if permit(t.Context(), nil, identity.ScopeToolsRead) != identity.Deny {
		t.Fatal("nobody is permitted something")
	}
}
