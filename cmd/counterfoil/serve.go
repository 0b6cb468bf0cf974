package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/api"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/reach"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// bootstrapFile has the credential with which the first tenant is made, for as long as there is none.
const bootstrapFile = "bootstrap"

// drainFor is how long calls may go on after the server was told to end.
const drainFor = 20 * time.Second

func (a *app) serveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "serve --config FILE", Short: "Serve many agents and tenants over HTTP", Args: cobra.NoArgs,
		Long: `Serves MCP at /mcp and the REST API beside it, to many agents of many tenants, in
front of many tool servers. Several of them may share one PostgreSQL. The API is
described at /docs.`,
		Example: "  counterfoil serve --config serve.yaml",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("say --config FILE")
			}
			return a.serve(cmd.Context(), file)
		}),
	}
	cmd.Flags().StringVar(&file, "config", "", "the server's configuration (required)")
	return cmd
}

// A server is all that serves.
type server struct {
	*services
	state     *state
	c         *serveConfig
	out       *reach.Transport // to upstreams and issuers
	callbacks *reach.Transport
	limiter   *ratelimit.Limiter
	hooks     *hooks.Hooks
	mounts    *mounts
	mcp       *mcpserver.Handler
	api       *api.API
}

func (a *app) serve(ctx context.Context, file string) (err error) {
	dir, err := a.stateDirectory()
	if err != nil {
		return err
	}
	if !exists(file) {
		return badConfig(file, os.ErrNotExist)
	}
	c, err := a.readServeConfig(file, dir)
	if err != nil {
		return err
	}
	x := &server{c: c}
	var tenants *tenancy.Directory
	x.state, err = a.openWith(ctx, dir, c.config, slog.LevelInfo, func(s *state, g *gateway.Config) {
		tenants = s.directory()
		g.Stands = tenants.Standing
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.state.close()) }()
	if err := x.state.guard(ctx); err != nil {
		return err
	}
	if err := x.build(a, tenants); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	duty, err := x.state.serve(ctx, interrupt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, duty.stop()) }() // the gateway's own work ends after the last call
	duty.work.Go(func() { x.keys.Run(duty.ctx) })
	if err := x.offer(ctx, a); err != nil {
		return err
	}
	return x.listen(ctx, a)
}

// build makes the parts of the server, inside out.
func (x *server) build(a *app, tenants *tenancy.Directory) (err error) {
	s, c := x.state, x.c
	dialer, err := reach.NewDialer(reach.DialOptions{Private: c.private})
	if err != nil {
		return err
	}
	if x.out, err = reach.NewTransport(reach.TransportOptions{Dialer: dialer}); err != nil {
		return err
	}
	for i := range c.issuers {
		u, err := reach.ParseURL(c.issuers[i].Issuer)
		if err != nil {
			return fmt.Errorf("the issuer %q: %w", c.issuers[i].Name, err)
		}
		c.issuers[i].HTTP = x.out.Client(reach.ClientOptions{Domains: reach.Only(u)})
	}
	if x.services, err = s.services(tenants, c.URL, c.issuers); err != nil {
		return err
	}
	if x.limiter, err = ratelimit.New(ratelimit.Options{
		Store: s.store, Shared: c.config.place.url != "", Tier: x.tier, Default: ratelimit.Tier(c.Tier), Now: time.Now, Logger: s.log,
	}); err != nil {
		return err
	}
	// Callbacks of tenants reach nothing private, whatever the server itself may reach.
	outside, err := reach.NewDialer(reach.DialOptions{})
	if err != nil {
		return err
	}
	if x.callbacks, err = reach.NewTransport(reach.TransportOptions{Dialer: outside}); err != nil {
		return err
	}
	if x.hooks, err = hooks.New(hooks.Options{
		Store: s.store, Sealer: hookSealer{s.keys.Vault()}, Names: s.keys.Pseudonyms(), Audience: s.keys.Audience(), Log: s.log, Now: time.Now, Rand: rand.Reader,
		Lag: epochLag, Handlers: map[string]hooks.Maker{"log": hooks.Log(s.log)}, Transport: x.callbacks, CallbackHosts: c.callbacks,
	}); err != nil {
		return err
	}
	if x.mounts, err = a.openMounts(s, c, x.secrets, x.out); err != nil {
		return err
	}
	return x.buildDoors()
}

func (x *server) tier(ctx context.Context, tenant string) (ratelimit.Tier, error) {
	t, err := x.tenants.Get(ctx, tenant)
	if err != nil || t.Tier == "" {
		return "", err
	}
	return ratelimit.ParseTier(t.Tier)
}

// buildDoors makes what requests come through.
func (x *server) buildDoors() (err error) {
	s, c := x.state, x.c
	if x.mcp, err = mcpserver.NewHandler(mcpserver.HandlerOptions{
		Gate: s.gate, Principal: api.PrincipalOf, Upstreams: x.mounts.of, Permit: api.Permit(x.tenants), Hosts: []string{c.host}, SessionKey: s.sessionKey(),
		Metadata: c.URL + "/.well-known/oauth-protected-resource", Version: version(), Hold: c.config.hold, Now: time.Now, Rand: rand.Reader, Logger: s.log,
	}); err != nil {
		return err
	}
	addresses, err := ratelimit.NewAddresses(ratelimit.AddressLimits{}, time.Now)
	if err != nil {
		return err
	}
	proxies, err := ratelimit.ParseProxies(c.TrustedProxies, forwardedHeader)
	if err != nil {
		return err
	}
	repeats, err := idempotency.New(idempotency.Options{Store: s.store, Vault: s.keys.Vault(), Now: time.Now})
	if err != nil {
		return err
	}
	x.api, err = api.New(api.Options{
		Authenticator: x.auth, Limiter: x.limiter, Addresses: addresses, Proxies: proxies, Hooks: x.hooks, Tenants: x.tenants,
		Gate: s.gate, Executions: s.store, Upstreams: x.upstreams, Signer: x.signer, Ring: s.keys.Ring, Audience: s.keys.Audience(),
		Bootstrap: x.bootstrap, Tokens: x.tokens, Keys: x.keys, Users: x.users, Secrets: x.secrets, Directory: x.tenants, Rates: x.limiter, HookBook: x.hooks, Repeats: repeats,
		Scanner: s.gate.Scanner, Logs: s.logs, LogStore: s.store, MCP: x.mcp, URL: c.URL, Version: version(),
		Hold: c.config.hold, Now: time.Now, Rand: rand.Reader, Logger: s.log,
	})
	return err
}

func (x *server) upstreams(ctx context.Context, tenant string) ([]api.Mount, error) {
	list, err := x.mounts.of(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([]api.Mount, len(list))
	for i, m := range list {
		out[i] = api.Mount{Name: m.Name, Upstream: m.Upstream}
	}
	return out, nil
}

// signer opens the approver's key for the person whose it is.
func (x *server) signer(_ context.Context, by *identity.Principal, passphrase credential.Secret) (counterfoil.Signer, error) {
	who, err := x.state.keys.Approver()
	if err != nil || who != by.Actor() {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "you have no key to decide with: counterfoil setup makes one"}
	}
	key, err := x.state.keys.Unlock([]byte(passphrase.Reveal()))
	if errors.Is(err, keystore.ErrWrongPassphrase) {
		return nil, api.ErrPassphrase
	}
	return key, err
}

// sessionKey seals the ids of sessions, alike at every replica that has the keys.
func (s *state) sessionKey() []byte {
	sum := sha256.Sum256(append([]byte("counterfoil/v1/mcp-session\n"), s.keys.TokenSeed()...))
	return sum[:]
}

// offer writes the credential with which the first tenant can be made, if there is none yet. What it has written is removed
// again when it is worth nothing.
func (x *server) offer(ctx context.Context, a *app) (err error) {
	var path string
	until, err := x.bootstrap.Offer(ctx, func(secret credential.Secret) error {
		f, err := os.CreateTemp(x.state.dir, bootstrapFile+"-") // 0600
		if err != nil {
			return err
		}
		path = f.Name()
		_, err = f.WriteString(secret.Reveal() + "\n")
		return errors.Join(err, f.Sync(), f.Close())
	})
	if err == nil && !until.IsZero() {
		_, err = fmt.Fprintf(a.err, "counterfoil: there is no tenant yet. Until %s the first can be made with the credential in %s\n", until.Format(timeFormat), path)
		return err
	}
	if path != "" {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// listen serves until ctx ends, and then ends in order.
func (x *server) listen(ctx context.Context, a *app) error {
	o := api.ServerOptions{
		API: x.api, Listen: x.c.Listen, TLSTerminated: x.c.TLSTerminated, Streams: []func(context.Context) error{x.mcp.Shutdown},
		Grace: drainFor, Logger: x.state.log,
	}
	if x.c.TLS != nil {
		o.Certificate, o.Key = x.c.TLS.Certificate, x.c.TLS.Key
	}
	server, err := api.NewServer(o)
	if err != nil {
		return err
	}
	l, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	stopMetrics, err := x.serveMetrics(ctx)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintf(a.err, "counterfoil: serving %s on %s\n", x.c.URL, l.Addr())
	return errors.Join(server.Serve(ctx, l, nil), stopMetrics())
}

// serveMetrics serves the metrics on a listener of their own, if the configuration has one.
func (x *server) serveMetrics(ctx context.Context) (stop func() error, err error) {
	if x.c.Metrics == "" {
		return func() error { return nil }, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", x.c.Metrics)
	if err != nil {
		return nil, err
	}
	h := api.NewMetricsServer(x.api.Metrics(), x.state.log)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }() // waited for by stop
	return func() error {
		err := h.Close()
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}

func (x *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	x.hooks.Close()
	err := errors.Join(x.limiter.Close(ctx), x.mounts.closeAll())
	x.out.Close()
	x.callbacks.Close()
	return err
}
