package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterfoil/counterfoil"
)

// Options are what a Limiter is made of. Store, Tier and Now are required.
type Options struct {
	// Store keeps what was used.
	Store Store
	// Shared says that other processes use the store too: each takes slices of what a key may have.
	Shared bool
	// Tier returns a tenant's tier, "" for the default. It is asked for each request.
	Tier func(ctx context.Context, tenant string) (Tier, error)
	// Default is the tier of tenants that have none of their own; TierStandard when "".
	Default Tier
	// Now is the clock.
	Now func() time.Time
	// MaxKeys bounds the keys that are remembered at once; 16,384 when 0.
	MaxKeys int
	// Logger is told what no caller is; nothing when nil.
	Logger *slog.Logger
}

const (
	defaultKeys = 16_384
	// flushEvery is how often a process that is alone writes down what was used.
	flushEvery = time.Second
	// expireEvery is how often rows that say nothing any more are removed.
	expireEvery = 10 * time.Minute
	// patience is how long a request waits for the store.
	patience = 5 * time.Second
)

// A Limiter counts requests and calls. It is safe for concurrent use. Who made it closes it.
type Limiter struct {
	o     Options
	table *table

	closed   atomic.Bool
	failures atomic.Int64 // of the store, in a row
	down     atomic.Int64 // until when nobody asks it
	writing  sync.Mutex   // held by who writes states down

	mu    sync.Mutex
	queue []*entry            // that want an answer of the store
	open  map[*entry]struct{} // of which the store has to hear
	wake  chan struct{}       // says that the worker has something to do

	stop   context.CancelFunc
	worker sync.WaitGroup
}

// New returns a limiter.
func New(o Options) (*Limiter, error) {
	if o.Store == nil || o.Tier == nil || o.Now == nil || o.MaxKeys < 0 {
		return nil, invalid("a limiter needs a store, tiers and a clock")
	}
	if o.Default == "" {
		o.Default = TierStandard
	}
	if _, err := ParseTier(string(o.Default)); err != nil {
		return nil, err
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = defaultKeys
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Limiter{o: o, table: newTable(o.MaxKeys), wake: make(chan struct{}, 1), open: map[*entry]struct{}{}, stop: stop}
	if o.Shared {
		l.worker.Go(func() { l.lease(ctx) })
	} else {
		l.worker.Go(func() { l.keep(ctx) })
	}
	return l, nil
}

// Close ends the limiter: what was used is written down, and what is left of slices is given back.
func (l *Limiter) Close(ctx context.Context) error {
	if l.closed.Swap(true) {
		return nil
	}
	l.stop()
	l.worker.Wait()
	if l.o.Shared {
		return l.giveBack(ctx)
	}
	return l.flush(ctx)
}

// Take counts one request of a subject, if its tenant's tier allows it. An error says that the limiter can't answer, and is a
// no too.
func (l *Limiter) Take(ctx context.Context, s Subject) (Decision, error) {
	t, err := l.tier(ctx, s.Tenant)
	if err != nil {
		return Decision{}, err
	}
	r, _ := t.rules()
	return l.take(ctx, Key{Subject: s, Kind: KindRequest}, &r)
}

// tier returns a tenant's tier, which is a known one.
func (l *Limiter) tier(ctx context.Context, tenant string) (Tier, error) {
	t, err := l.o.Tier(ctx, tenant)
	if err != nil {
		return "", unavailable("the tenant's tier is not known now", err)
	}
	if t == "" {
		t = l.o.Default
	}
	if _, ok := t.rules(); !ok {
		return "", unavailable("the tenant has a tier that does not exist", nil)
	}
	return t, nil
}

// TakeTool counts one call of a tool that reads or writes. Zero limits are those of its kind.
func (l *Limiter) TakeTool(ctx context.Context, s Subject, tool string, k Kind, limits ToolLimits) (Decision, error) {
	if limits == (ToolLimits{}) {
		limits = DefaultToolLimits(k)
	}
	r, ok := limits.rules()
	if !ok {
		return Decision{}, invalid("a tool has a rate for a minute and one for a second")
	}
	return l.take(ctx, Key{Subject: s, Kind: k, Tool: tool}, &r)
}

func (l *Limiter) take(ctx context.Context, k Key, r *rules) (Decision, error) {
	if l.o.Shared {
		return l.takeShared(ctx, k, r)
	}
	return l.takeAlone(ctx, k, r)
}

// wakeUp tells the worker that there is something to do.
func (l *Limiter) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default: // it is said already
	}
}

func (l *Limiter) now() int64 { return l.o.Now().UnixNano() }

func invalid(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg}
}

func unavailable(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: msg, Err: cause}
}
