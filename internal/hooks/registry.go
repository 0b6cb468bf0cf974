package hooks

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

// systemPrefix begins the ids of the system's hooks. Ids of tenants' hooks begin with hookPrefix.
const (
	systemPrefix = "system/"
	hookPrefix   = "hook_"
	rotation     = 24 * time.Hour // how long an old secret signs along
	maxKnown     = 10_000
)

// A SystemHook is one of the configuration. It runs for every tenant and none can change it.
type SystemHook struct {
	Params
	Secret Secret // of a callback
}

// Options are what Hooks are made of. Fields are required unless they say otherwise.
type Options struct {
	Store    Store
	Sealer   Sealer
	Names    *counterfoil.Pseudonyms
	Audience string
	Log      *slog.Logger
	Now      func() time.Time
	Rand     io.Reader
	// Lag is how old what is known of a tenant's hooks may be.
	Lag time.Duration
	// Handlers are what is compiled in, by name. Nothing else is ever run.
	Handlers map[string]Maker
	// System are the hooks of the system.
	System []SystemHook
	// Transport carries callbacks of tenants to the hosts in CallbackHosts. The zero list allows none; the transport's dialer
	// should have no private ranges.
	Transport     *reach.Transport
	CallbackHosts reach.DomainAllowlist
	// SystemTransport carries callbacks of the system. Optional without such.
	SystemTransport *reach.Transport
}

// outlet is where callbacks may go.
type outlet struct {
	transport *reach.Transport
	hosts     reach.DomainAllowlist
}

// Hooks keeps the hooks of all tenants and runs them. What it knows of a tenant is at most Options.Lag old: if the store can't
// be asked in that time, it lets nothing go on.
type Hooks struct {
	o       Options
	tenants outlet
	system  []*ready
	slots   chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex
	seen map[string]seen
}

type seen struct {
	at  time.Time
	all []*ready
}

// New returns the hooks. A system hook that can't run, with a handler that isn't compiled in for example, is an error.
func New(o Options) (*Hooks, error) {
	if o.Store == nil || o.Sealer == nil || o.Names == nil || o.Log == nil || o.Now == nil || o.Rand == nil || o.Lag <= 0 {
		return nil, bad("", "hooks need a store, a sealer, pseudonyms, a log, a clock, randomness and a lag")
	}
	h := &Hooks{
		o: o, tenants: outlet{o.Transport, o.CallbackHosts}, slots: make(chan struct{}, maxRunning), seen: map[string]seen{},
	}
	count := map[Phase]int{}
	for _, s := range o.System {
		x, err := h.systemHook(s)
		if err != nil {
			return nil, err
		}
		if count[x.Phase]++; count[x.Phase] > MaxPerPhase {
			return nil, bad("", "the system has too many hooks in one phase")
		}
		if slices.ContainsFunc(h.system, func(y *ready) bool { return y.ID == x.ID }) {
			return nil, bad("/name", "two hooks of the system have one name")
		}
		h.system = append(h.system, x)
	}
	return h, nil
}

func (h *Hooks) systemHook(s SystemHook) (*ready, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	where := outlet{transport: h.o.SystemTransport}
	if s.URL != "" {
		u, err := target(s.URL)
		if err != nil {
			return nil, err
		}
		where.hosts = reach.Only(u)
	}
	x := h.prepare(Hook{Params: s.Params, ID: systemPrefix + s.Name, System: true, Version: 1}, s.Secret, where)
	return x, x.broken
}

// Close waits for the hooks that still run. Nothing may be run any more.
func (h *Hooks) Close() { h.running.Wait() }

// known returns the hooks of the system and the tenant, in their order.
func (h *Hooks) known(ctx context.Context, tenant string) ([]*ready, error) {
	now := h.o.Now()
	h.mu.Lock()
	s, ok := h.seen[tenant]
	h.mu.Unlock()
	if age := now.Sub(s.at); ok && age >= 0 && age < h.o.Lag {
		return s.all, nil
	}
	rows, err := h.o.Store.Hooks(ctx, tenant)
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the tenant's hooks are not known", Err: err}
	}
	all := slices.Clone(h.system)
	for _, r := range rows {
		all = append(all, h.load(r, now))
	}
	slices.SortFunc(all, order)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.seen) >= maxKnown {
		clear(h.seen)
	}
	h.seen[tenant] = seen{now, all}
	return all, nil
}

func (h *Hooks) forget(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, tenant)
}

// load makes a stored hook ready. One that is damaged, or whose handler is gone, fails whenever it runs.
func (h *Hooks) load(r Row, now time.Time) *ready {
	x, err := hookOf(r)
	var s Secret
	if err == nil && x.URL != "" {
		s, err = h.open(r)
		if now.Sub(x.Rotated) >= rotation {
			s = s.newest()
		}
	}
	if err != nil {
		x.ID, x.Phase, x.Name, x.Fail = r.ID, r.Phase, r.ID, FailClosed
		return &ready{Hook: x, run: nil, broken: err}
	}
	return h.prepare(x, s, h.tenants)
}

func (h *Hooks) open(r Row) (Secret, error) {
	plain, err := h.o.Sealer.OpenHook(r.Tenant, r.ID, r.Secret)
	if err != nil {
		return Secret{}, failure("the hook's secret can't be opened", err)
	}
	return secretOf(plain)
}

// List returns the hooks that run for a tenant, switched off ones too, in their order. Of the system's hooks it tells no
// URL and no configuration.
func (h *Hooks) List(ctx context.Context, tenant string) ([]Hook, error) {
	rows, err := h.o.Store.Hooks(ctx, tenant)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(h.system)
	for _, r := range rows {
		all = append(all, h.load(r, h.o.Now()))
	}
	slices.SortFunc(all, order)
	out := make([]Hook, len(all))
	for i, x := range all {
		out[i] = shown(x.Hook)
	}
	return out, nil
}

func shown(x Hook) Hook {
	if x.System {
		x.URL, x.Config = "", nil
	}
	return x
}

// Get returns one hook, of the tenant or of the system, as List does.
func (h *Hooks) Get(ctx context.Context, tenant, id string) (Hook, error) {
	for _, x := range h.system {
		if x.ID == id {
			return shown(x.Hook), nil
		}
	}
	r, err := h.o.Store.Hook(ctx, tenant, id)
	if err != nil {
		return Hook{}, err
	}
	return hookOf(r)
}

// Create defines a hook of a tenant, in the name of a principal. For a callback it returns the secret, which is told this
// once. It fails with CodeInvalidInput, or ErrTooMany.
func (h *Hooks) Create(ctx context.Context, by, tenant string, p Params) (Hook, string, error) {
	if err := p.check(); err != nil {
		return Hook{}, "", err
	}
	var random [6]byte
	if _, err := io.ReadFull(h.o.Rand, random[:]); err != nil {
		return Hook{}, "", &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	x := Hook{Params: p, ID: hookPrefix + hex.EncodeToString(random[:]), Version: 1, Changed: h.moment()}
	var s Secret
	var told string
	if p.URL != "" {
		var err error
		if s, err = newSecret(h.o.Rand); err != nil {
			return Hook{}, "", err
		}
		told = s.reveal()
	}
	if err := h.prepare(x, s, h.tenants).broken; err != nil {
		return Hook{}, "", err
	}
	r, err := h.row(tenant, x, s)
	if err != nil {
		return Hook{}, "", err
	}
	e, err := h.event(by, tenant, x.ID, "configure/hook")
	if err != nil {
		return Hook{}, "", err
	}
	if err := h.o.Store.AddHook(ctx, r, e); err != nil {
		return Hook{}, "", err
	}
	h.forget(tenant)
	return x, told, nil
}

// Change replaces the definition of a hook that stands at a version. Its phase, and whether it is a callback, stay.
// It fails with ErrReadOnly, ErrNotFound, ErrChanged or CodeInvalidInput.
func (h *Hooks) Change(ctx context.Context, by, tenant, id string, version int64, p Params) (Hook, error) {
	if err := p.check(); err != nil {
		return Hook{}, err
	}
	x, _, err := h.change(ctx, by, tenant, id, version, func(x *Hook, s Secret) (Secret, error) {
		if p.Phase != x.Phase || (p.URL == "") != (x.URL == "") {
			return s, bad("", "a hook keeps its phase and its kind: define another")
		}
		x.Params = p
		return s, nil
	})
	return x, err
}

// Rotate gives a callback that stands at a version a new secret and returns it, this once. The old one signs along for a day.
func (h *Hooks) Rotate(ctx context.Context, by, tenant, id string, version int64) (Hook, string, error) {
	x, s, err := h.change(ctx, by, tenant, id, version, func(x *Hook, old Secret) (Secret, error) {
		if x.URL == "" {
			return old, bad("", "only callbacks have secrets")
		}
		s, err := newSecret(h.o.Rand)
		x.Rotated = h.moment()
		return s.after(old), err
	})
	if err != nil {
		return Hook{}, "", err
	}
	return x, s.reveal(), nil
}

func (h *Hooks) change(ctx context.Context, by, tenant, id string, version int64, f func(*Hook, Secret) (Secret, error)) (Hook, Secret, error) {
	r, err := h.own(ctx, tenant, id)
	if err != nil {
		return Hook{}, Secret{}, err
	}
	if r.Version != version {
		return Hook{}, Secret{}, ErrChanged
	}
	x, err := hookOf(r)
	if err != nil {
		return Hook{}, Secret{}, err
	}
	var s Secret
	if x.URL != "" {
		if s, err = h.open(r); err != nil {
			return Hook{}, Secret{}, err
		}
	}
	if s, err = f(&x, s); err != nil {
		return Hook{}, Secret{}, err
	}
	x.Changed = h.moment()
	if err := h.prepare(x, s, h.tenants).broken; err != nil {
		return Hook{}, Secret{}, err
	}
	if r, err = h.row(tenant, x, s); err != nil {
		return Hook{}, Secret{}, err
	}
	e, err := h.event(by, tenant, id, "configure/hook")
	if err != nil {
		return Hook{}, Secret{}, err
	}
	if err := h.o.Store.ChangeHook(ctx, r, e); err != nil {
		return Hook{}, Secret{}, err
	}
	h.forget(tenant)
	x.Version++
	return x, s, nil
}

// Delete removes a hook of a tenant.
func (h *Hooks) Delete(ctx context.Context, by, tenant, id string) error {
	if _, err := h.own(ctx, tenant, id); err != nil {
		return err
	}
	e, err := h.event(by, tenant, id, "remove/hook")
	if err != nil {
		return err
	}
	err = h.o.Store.DeleteHook(ctx, tenant, id, e)
	h.forget(tenant)
	return err
}

// own returns a hook that the tenant may change.
func (h *Hooks) own(ctx context.Context, tenant, id string) (Row, error) {
	if strings.HasPrefix(id, systemPrefix) {
		if _, err := h.Get(ctx, tenant, id); errors.Is(err, ErrNotFound) {
			return Row{}, err
		}
		return Row{}, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the hook is the system's", Err: ErrReadOnly}
	}
	return h.o.Store.Hook(ctx, tenant, id)
}

func (h *Hooks) row(tenant string, x Hook, s Secret) (Row, error) {
	body, err := x.body()
	if err != nil {
		return Row{}, bad("", "the hook can't be recorded")
	}
	r := Row{Tenant: tenant, ID: x.ID, Phase: x.Phase, Version: x.Version, Body: body}
	if !s.IsZero() {
		r.Secret, err = h.o.Sealer.SealHook(tenant, x.ID, s.bytes())
	}
	return r, err
}

func (h *Hooks) event(by, tenant, id, code string) (counterfoil.Event, error) {
	var b [8]byte
	if _, err := io.ReadFull(h.o.Rand, b[:]); err != nil {
		return counterfoil.Event{}, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	return counterfoil.NewEvent(counterfoil.PhaseGoverned, h.o.Names, counterfoil.EventParams{
		Tenant: tenant, Audience: h.o.Audience, ExecutionID: "change-" + hex.EncodeToString(b[:]), Actor: by, Source: id, Code: code,
	})
}

func (h *Hooks) moment() time.Time { return h.o.Now().UTC().Truncate(time.Millisecond) }
