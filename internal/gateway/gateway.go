package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/vault"
	"github.com/counterfoil/counterfoil/scan"
)

// Keys are the gateway's own keys and the ring that approvals are verified with.
type Keys interface {
	Policy() counterfoil.Signer
	Receipt() counterfoil.Signer
	Ring() (*counterfoil.KeyRing, error)
	Pseudonyms() *counterfoil.Pseudonyms
	Vault() *vault.Vault
	Audience() string
}

// Config is what a Gateway is made of. Every field is required but Stands.
type Config struct {
	Keys    Keys
	Store   Store
	Log     Prover
	Scanner *scan.Scanner
	Rules   *governance.Rules
	Files   fs.FS // the file system, from its root: to find out what a launch command runs
	Now     func() time.Time
	Rand    io.Reader // cryptographic randomness
	Logger  *slog.Logger

	// Guard must succeed before the first call: the store's write-read probe, and the log's check that nothing is missing
	// from it.
	Guard func(context.Context) error

	// Stands says whether a call may go on at all, and returns the marks that this rests on; an error that is
	// CodePolicyDenied says that it may not. Nil is for a gateway without tenants.
	Stands func(context.Context, Standing) ([]Mark, error)

	RequestLife time.Duration // how long a request waits for a person
	GrantLife   time.Duration // how long a person's approval can be used
	CoolDown    time.Duration // how long a denial stands
	CallTimeout time.Duration // how long an upstream may take
	Grace       time.Duration // how long an approved call may go on after its caller has left
	PollEvery   time.Duration // how often waiting calls look for a decision made in another process
	ResolveFor  time.Duration // how long a call looks for what became of a commit that got no answer
	PendingCap  int           // pending requests per tenant
	MaxCalls    int64         // calls per run
}

// DefaultConfig returns the usual limits; what has no default is left for the caller.
func DefaultConfig() Config {
	return Config{
		RequestLife: 15 * time.Minute, GrantLife: 5 * time.Minute, CoolDown: 10 * time.Minute, CallTimeout: 10 * time.Minute,
		Grace: 5 * time.Second, PollEvery: 5 * time.Millisecond, ResolveFor: 15 * time.Second, PendingCap: 100, MaxCalls: 10_000,
	}
}

// A Gateway runs calls through the chain.
type Gateway struct {
	Config
	rules counterfoil.Digest

	serving atomic.Bool // from the end of a successful start to the end of Serve
	healthy atomic.Bool // the last sweep succeeded

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced whenever the store has changed
	waiting    int           // calls that wait for a change
	servers    map[serverKey]*server
	calls      map[runKey]int64              // spent: what the counters in the store say
	handing    map[string]*handing           // by request
	unfinished []func(context.Context) error // what the store did not take yet: each returns nil once it is done
	stuck      map[string]bool               // executions that can't be recovered, by id: said once
	underWay   map[*passage]context.CancelCauseFunc
}

// New makes a gateway. Serve must run for waits to end and for the dead to be settled.
func New(c Config) (*Gateway, error) {
	if c.Guard == nil || c.Log == nil || c.PollEvery < time.Millisecond {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "a gateway needs a guard, a log and time between two looks"}
	}
	rules, err := counterfoil.RulesDigest(c.Rules.Document())
	if err != nil {
		return nil, err
	}
	return &Gateway{
		Config: c, rules: rules, changed: make(chan struct{}), servers: map[serverKey]*server{}, calls: map[runKey]int64{},
		handing: map[string]*handing{}, stuck: map[string]bool{}, underWay: map[*passage]context.CancelCauseFunc{},
	}, nil
}

func (g *Gateway) wake() {
	g.mu.Lock()
	close(g.changed)
	g.changed = make(chan struct{})
	g.mu.Unlock()
}

// wait counts a caller in and returns the channel that the next change closes. done counts it out.
func (g *Gateway) wait() (change <-chan struct{}, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	return g.changed, func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}
}

// id returns a new name: a prefix that says what it names, the time in milliseconds and 80 random bits, in hex. Names that
// rise with time keep the store's indexes compact; nothing relies on their order, and they are no secrets.
func (g *Gateway) id(prefix string) (string, error) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(g.Now().UnixMilli())<<16)
	if err := g.random(b[6:]); err != nil {
		return "", err
	}
	return prefix + hex.EncodeToString(b[:]), nil
}

func (g *Gateway) random(b []byte) error {
	if _, err := io.ReadFull(g.Rand, b); err != nil {
		return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	return nil
}

func (g *Gateway) warn(ctx context.Context, msg, request string, err error) {
	g.Logger.LogAttrs(ctx, slog.LevelWarn, msg, slog.String("request", request), slog.String("error", err.Error()))
}

// record appends an event. A refusal stands whether or not it could be recorded; that it could not is logged.
func (g *Gateway) record(ctx context.Context, phase counterfoil.Phase, p counterfoil.EventParams) {
	e, err := g.event(phase, p)
	if err == nil {
		err = g.Store.Record(context.WithoutCancel(ctx), e)
	}
	if err != nil {
		g.Logger.LogAttrs(ctx, slog.LevelError, "an event could not be recorded", slog.String("phase", string(phase)), slog.String("error", err.Error()))
	}
}

func (g *Gateway) event(phase counterfoil.Phase, p counterfoil.EventParams) (counterfoil.Event, error) {
	p.Audience = g.Keys.Audience()
	return counterfoil.NewEvent(phase, g.Keys.Pseudonyms(), p)
}
