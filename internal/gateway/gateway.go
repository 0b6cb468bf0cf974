package gateway

import (
	"context"
	"encoding/hex"
	"io"
	"io/fs"
	"log/slog"
	"sync"
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

// Config is what a Gateway is made of. Every field is required.
type Config struct {
	Keys    Keys
	Store   Store
	Scanner *scan.Scanner
	Rules   *governance.Rules
	Files   fs.FS // the file system, from its root: to find out what a launch command runs
	Now     func() time.Time
	Rand    io.Reader // cryptographic randomness
	Logger  *slog.Logger

	RequestLife time.Duration // how long a request waits for a person
	GrantLife   time.Duration // how long a person's approval can be used
	CoolDown    time.Duration // how long a denial stands
	CallTimeout time.Duration // how long an upstream may take
	Grace       time.Duration // how long an approved call may go on after its caller has left
	PendingCap  int           // pending requests per tenant
	MaxCalls    int64         // calls per run
}

// DefaultConfig returns the usual limits; what has no default is left for the caller.
func DefaultConfig() Config {
	return Config{
		RequestLife: 15 * time.Minute, GrantLife: 5 * time.Minute, CoolDown: 10 * time.Minute, CallTimeout: 10 * time.Minute,
		Grace: 5 * time.Second, PendingCap: 100, MaxCalls: 10_000,
	}
}

// A Gateway runs calls through the chain.
type Gateway struct {
	Config
	rules counterfoil.Digest

	mu        sync.Mutex
	changed   chan struct{}       // closed and replaced whenever the store has changed
	waiting   int                 // calls that wait for a change
	servers   map[string]*server  // by upstream digest
	calls     map[string]int64    // spent, by run: what the counters in the store say
	handing   map[string]*handing // by request
	unsettled []Settling          // receipts that the store did not take yet
}

// New makes a gateway. Serve must run for waits to end and for the dead to be settled.
func New(c Config) (*Gateway, error) {
	rules, err := counterfoil.RulesDigest(c.Rules.Document())
	if err != nil {
		return nil, err
	}
	return &Gateway{Config: c, rules: rules, changed: make(chan struct{}), servers: map[string]*server{}, calls: map[string]int64{}, handing: map[string]*handing{}}, nil
}

const (
	pollEvery  = 5 * time.Millisecond // how often waiting calls look for a decision made in another process
	sweepEvery = 500 * time.Millisecond
)

// Serve does the gateway's own work until ctx ends: it wakes waiting calls when the store changes, expires requests,
// and settles what dead processes left behind. It settles once before it returns to the caller's ready, so that recovery
// precedes the first call.
func (g *Gateway) Serve(ctx context.Context, ready func()) error {
	if err := g.recover(ctx); err != nil {
		return err
	}
	ready()
	poll, sweep := time.NewTicker(pollEvery), time.NewTicker(sweepEvery)
	defer poll.Stop()
	defer sweep.Stop()
	var last int64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			last = g.poll(ctx, last)
		case <-sweep.C:
			if err := g.sweep(ctx); err != nil && ctx.Err() == nil {
				g.Logger.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.String("error", err.Error()))
			}
		}
	}
}

func (g *Gateway) poll(ctx context.Context, last int64) int64 {
	g.mu.Lock()
	waiting := g.waiting
	g.mu.Unlock()
	if waiting == 0 {
		return last
	}
	v, err := g.Store.Version(ctx)
	if err == nil && v != last {
		g.wake()
	}
	return v
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

// id returns 128 random bits in hex with a prefix that says what it names.
func (g *Gateway) id(prefix string) (string, error) {
	var b [16]byte
	if err := g.random(b[:]); err != nil {
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
