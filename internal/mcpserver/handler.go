package mcpserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// A Catalog is an upstream whose lists are part of an endpoint's.
type Catalog interface {
	gateway.Upstream
	// List returns the elements of one whole list, as the upstream wrote them: of "resources/list",
	// "resources/templates/list" or "prompts/list". An upstream that does not offer such things has none.
	List(ctx context.Context, method string) ([][]byte, error)
}

// A Mount is an upstream under its name at the endpoint, which the names of its tools begin with.
type Mount struct {
	// Name is 1 to 32 lower-case letters, digits and hyphens and begins with a letter. It comes from the configuration,
	// never from the upstream.
	Name     string
	Upstream Catalog
}

// HandlerOptions say what a Handler is to serve.
type HandlerOptions struct {
	Gate Gate
	// Principal returns who was authenticated, from the request's context. Nil refuses the request.
	Principal func(context.Context) *identity.Principal
	// Upstreams returns the upstreams of a tenant, each name once. It is asked for every request.
	Upstreams func(ctx context.Context, tenant string) ([]Mount, error)
	// Permit says whether the principal may do what needs the scope. Nil asks its own scopes alone. What would have to be
	// asked for is refused.
	Permit func(ctx context.Context, p *identity.Principal, need identity.Scope) identity.Verdict
	// Visible says whether a tool is listed for a principal. Nil lists all that the upstreams have: what may be called is
	// the gate's to decide.
	Visible func(ctx context.Context, p *identity.Principal, m Mount, definition []byte) bool
	// Run names the run that a principal's calls are counted in. Nil makes one of each credential and day.
	Run func(ctx context.Context, p *identity.Principal) string

	// Hosts are the names that the endpoint is reached by, with a port or for every port: "gate.example.com",
	// "localhost:8080", "[::1]". A request for any other is refused. There must be one.
	Hosts []string
	// Origins are the origins of pages that may send requests for a tenant. Nil allows none.
	Origins func(tenant string) []string
	// Metadata is the URL of the endpoint's OAuth metadata, named in challenges; "" for none.
	Metadata string

	// SessionKey seals the ids of sessions: 32 random bytes, the same for all replicas. Nil makes one.
	SessionKey  []byte
	SessionLife time.Duration // zero is 24 h

	Version     string           // of the program, told to clients
	Hold        time.Duration    // how long a call may wait for a person
	KeepAlive   time.Duration    // between two signs of life of an open stream; zero is 10 s
	ListTime    time.Duration    // how long an upstream may take to list; zero is 15 s
	MaxBytes    int              // of one request's body; zero is 16 MiB
	MaxInFlight int              // requests of one principal that are not answered yet; zero is 256
	MaxStreams  int              // open GET streams of one principal; zero is 32
	Now         func() time.Time // the clock
	Rand        io.Reader        // cryptographic randomness
	Logger      *slog.Logger     // nil for none
}

const (
	defaultSessionLife = 24 * time.Hour
	defaultKeepAlive   = 10 * time.Second
	defaultListing     = 15 * time.Second
	defaultStreams     = 32
)

// A Handler is an endpoint that many clients and many upstreams meet at, over HTTP. It serves revision 2026-07-28, in
// which every request stands alone, and the older ones, which have sessions; a client shows with each request which it
// speaks.
//
// A session is nothing but its id, in which tenant, principal and revision are sealed: it takes no memory, every replica
// that has the key knows it, and it is worth nothing without the principal's credential.
type Handler struct {
	opts    HandlerOptions
	log     *slog.Logger
	seal    sealer
	hosts   map[string]bool
	callers *callers

	mu      sync.Mutex
	closing bool
	open    sync.WaitGroup // requests, and calls whose client has left
	stop    context.Context
	cancel  context.CancelCauseFunc
}

// NewHandler makes an endpoint. Shutdown must be called in the end.
func NewHandler(o HandlerOptions) (*Handler, error) {
	if o.Gate == nil || o.Principal == nil || o.Upstreams == nil || o.Now == nil || o.Rand == nil || len(o.Hosts) == 0 {
		return nil, errors.New("an endpoint needs a gate, principals, upstreams, names, a clock and randomness")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Permit == nil {
		o.Permit = ownScopes
	}
	o.SessionLife = orElse(o.SessionLife, defaultSessionLife)
	o.KeepAlive = orElse(o.KeepAlive, defaultKeepAlive)
	o.ListTime = orElse(o.ListTime, defaultListing)
	o.MaxBytes = orElse(o.MaxBytes, jsonrpc.DefaultMaxBytes)
	o.MaxInFlight = orElse(o.MaxInFlight, defaultInFlight)
	o.MaxStreams = orElse(o.MaxStreams, defaultStreams)
	if o.SessionKey == nil {
		o.SessionKey = make([]byte, sha256.Size)
		if _, err := io.ReadFull(o.Rand, o.SessionKey); err != nil {
			return nil, fmt.Errorf("there is no randomness for a key: %w", err)
		}
	}
	if len(o.SessionKey) != sha256.Size {
		return nil, errors.New("the key of the sessions is not 32 bytes long")
	}
	hosts, err := hostNames(o.Hosts)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		opts: o, log: o.Logger, hosts: hosts, callers: newCallers(o.MaxInFlight, o.MaxStreams),
		seal: sealer{key: o.SessionKey, life: o.SessionLife, rand: o.Rand},
	}
	h.stop, h.cancel = context.WithCancelCause(context.Background())
	return h, nil
}

func orElse[T int | time.Duration](v, fallback T) T {
	if v <= 0 {
		return fallback
	}
	return v
}

func ownScopes(_ context.Context, p *identity.Principal, need identity.Scope) identity.Verdict {
	return identity.Decide(need, p.Scopes, identity.Scopes{}, identity.Scopes{})
}

// enter counts a request in, unless the endpoint is closing.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	h.open.Add(1)
	return true
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		w.Header().Set("Retry-After", "1")
		refuse(w, closingDown())
		return
	}
	defer h.open.Done()
	if !h.knows(r.Host) {
		refuse(w, &httpError{status: http.StatusForbidden, number: jsonrpc.InvalidRequest, msg: "the endpoint is not known by this host name"})
		return
	}
	p := h.opts.Principal(r.Context())
	if p == nil || p.Check() != nil {
		refuse(w, &httpError{status: http.StatusUnauthorized, number: jsonrpc.InvalidRequest, msg: "the request is not authenticated"})
		return
	}
	if err := h.admit(r, p); err != nil {
		refuse(w, err)
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, p)
	case http.MethodGet:
		h.listen(w, r, p)
	case http.MethodDelete:
		h.end(w, r, p)
	default:
		notAllowed(w)
	}
}

// Changed tells the clients of a tenant that listen for it that the list of tools is another one now.
func (h *Handler) Changed(tenant string) {
	h.callers.tell(tenant, jsonrpc.NewNotification("notifications/tools/list_changed", nil))
}

// Shutdown ends the endpoint: new requests get 503, open streams end at once, and calls that run may end until ctx does;
// then they are cancelled. It returns when nothing of the endpoint is left, with ctx's error if calls had to be cancelled.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.callers.close()
	idle := make(chan struct{})
	go func() {
		h.open.Wait()
		close(idle)
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	h.cancel(ErrClientGone)
	<-idle
	return err
}
