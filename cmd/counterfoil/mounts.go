package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/reach"
	"github.com/counterfoil/counterfoil/internal/upstream"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// mounts are the upstreams of a server.
type mounts struct{ all []mount }

type mount struct {
	upstreamConfig
	catalog mcpserver.Catalog
	close   func() error
}

// of returns the upstreams of a tenant.
func (m *mounts) of(_ context.Context, tenant string) ([]mcpserver.Mount, error) {
	var out []mcpserver.Mount
	for i := range m.all {
		if u := &m.all[i]; u.serves(tenant) {
			out = append(out, mcpserver.Mount{Name: u.Name, Upstream: u.catalog})
		}
	}
	return out, nil
}

func (m *mounts) closeAll() error {
	var errs []error
	for _, u := range m.all {
		errs = append(errs, u.close())
	}
	return errors.Join(errs...)
}

// openMounts makes the upstreams. None is started or connected to before it is used.
func (a *app) openMounts(s *state, c *serveConfig, secrets *vault.Secrets, out *reach.Transport) (*mounts, error) {
	m := &mounts{}
	for _, u := range c.mounts {
		x, err := a.openMount(s, u, secrets, out)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the upstream %q: %w", u.Name, err), m.closeAll())
		}
		m.all = append(m.all, x)
	}
	return m, nil
}

func (a *app) openMount(s *state, u upstreamConfig, secrets *vault.Secrets, out *reach.Transport) (mount, error) {
	t, err := u.target()
	if err != nil {
		return mount{}, err
	}
	fill := func(ctx context.Context) (*vault.Filled, error) { return secrets.Fill(ctx, u.sheet, t) } // with the secrets of now
	if u.URL != "" {
		return remote(s, u, fill, out)
	}
	return a.program(s, u, fill)
}

// A filler fills in an upstream's settings.
type filler func(context.Context) (*vault.Filled, error)

// target says where the upstream's secrets go: to the places where the operator named them, and nowhere else.
func (u *upstreamConfig) target() (vault.Target, error) {
	t := vault.Target{Upstream: u.Name}
	if len(u.Tenants) > 0 {
		t.Tenant = u.Tenants[0] // with secrets it has no other
	}
	var hosts []string
	if u.URL != "" {
		at, err := url.Parse(u.url.String())
		if err != nil {
			return t, err
		}
		t.URL, hosts = at, []string{at.Host}
	}
	for _, r := range u.sheet.Refs() {
		t.Grants = append(t.Grants, vault.Grant{Tenant: t.Tenant, Secret: r.Name, Upstream: u.Name, Pointers: u.sheet.Pointers(), Hosts: hosts})
	}
	return t, nil
}

// remote is an upstream at a URL.
func remote(s *state, u upstreamConfig, fill filler, out *reach.Transport) (mount, error) {
	client := out.Client(reach.ClientOptions{Domains: reach.Only(u.url), MaxBody: -1, Timeout: -1}) // the upstream counts, and the call ends
	c, err := upstream.NewHTTP(upstream.HTTPOptions{
		Name: u.Name, URL: u.URL, Headers: u.sheet.Canonical(), Version: version(), Now: time.Now, Logger: s.log,
		Ready: func(ctx context.Context) (upstream.Ready, error) {
			f, err := fill(ctx)
			if err != nil {
				return upstream.Ready{}, err
			}
			own := *client
			own.Transport = f.Transport(client.Transport)
			return upstream.Ready{Client: &own, Scrub: func(b []byte) []byte {
				clean, _ := f.Scrubber().JSON(b)
				return clean
			}}, nil
		},
	})
	if err != nil {
		return mount{}, err
	}
	return mount{u, c, c.Close}, nil
}

// program is an upstream that is started here.
func (a *app) program(s *state, u upstreamConfig, fill filler) (mount, error) {
	if u.Dir == "" {
		u.Dir = s.dir
	}
	names := make([]string, 0, len(u.Env))
	for n := range u.Env {
		names = append(names, n)
	}
	identity, err := governance.Identity(u.Command, u.Dir, names)
	if err != nil {
		return mount{}, err
	}
	p := &restarted{name: u.Name, identity: identity, log: s.log, start: func(ctx context.Context) (*upstream.Conn, error) {
		f, err := fill(ctx)
		if err != nil {
			return nil, err
		}
		// What it needs to run at all, and what the operator gave it: nothing else of our own environment.
		env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=" + os.Getenv("LANG")}
		for _, n := range names {
			v, ok := f.Reveal("/env/" + n)
			if !ok {
				return nil, errors.New("a variable of the environment was not filled in")
			}
			env = append(env, n+"="+v)
		}
		return a.startProgram(context.Background(), s, u.Command, u.Dir, env) // it outlives the call that it is started for
	}}
	return mount{u, p, p.Close}, nil
}

// restarted is a program that is started when it is needed, and again when it has ended. A call under way when it ends is not
// repeated: its outcome is unknown.
type restarted struct {
	name     string
	identity []byte
	log      *slog.Logger
	start    func(context.Context) (*upstream.Conn, error)

	mu     sync.Mutex
	client *upstream.Client
	ended  <-chan struct{}
	closed bool
	tried  time.Time
}

// startEvery is how often a program that ends at once is started.
const startEvery = time.Second

func (p *restarted) get(ctx context.Context) (*upstream.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, unsent(errors.New("the server is ending"))
	}
	if p.client != nil {
		select {
		case <-p.ended:
			if err := p.client.Close(); err != nil {
				p.log.LogAttrs(ctx, slog.LevelWarn, "an upstream has ended", slog.String("upstream", p.name), slog.String("error", err.Error()))
			}
			p.client = nil
		default:
			return p.client, nil
		}
	}
	if time.Since(p.tried) < startEvery {
		return nil, unsent(errors.New("the upstream has ended and is started again in a moment"))
	}
	p.tried = time.Now()
	conn, err := p.start(ctx)
	if err != nil {
		return nil, unsent(err)
	}
	c, err := upstream.NewStdio(conn, upstream.StdioOptions{Name: p.name, Identity: p.identity, Version: version(), Now: time.Now, Logger: p.log})
	if err != nil {
		return nil, errors.Join(unsent(err), conn.Close())
	}
	p.client, p.ended = c, conn.Ended()
	return c, nil
}

func unsent(err error) error { return errors.Join(gateway.ErrUnsent, err) }

// Identity implements gateway.Upstream.
func (p *restarted) Identity() []byte { return p.identity }

// Name implements gateway.Upstream.
func (p *restarted) Name() string { return p.name }

// Definitions implements gateway.Upstream.
func (p *restarted) Definitions(ctx context.Context, meta []byte, refresh bool) ([][]byte, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.Definitions(ctx, meta, refresh)
}

// Send implements gateway.Upstream.
func (p *restarted) Send(ctx context.Context, r gateway.Request) (gateway.Answer, error) {
	c, err := p.get(ctx)
	if err != nil {
		return gateway.Answer{}, err
	}
	return c.Send(ctx, r)
}

// List implements mcpserver.Catalog.
func (p *restarted) List(ctx context.Context, method string) ([][]byte, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.List(ctx, method)
}

// Close ends the program.
func (p *restarted) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.client == nil {
		return nil
	}
	return p.client.Close()
}
