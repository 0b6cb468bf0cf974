package tenancy

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// Options are what a Directory is made of. Every field is required.
type Options struct {
	Store    Store
	Names    *counterfoil.Pseudonyms
	Audience string
	Now      func() time.Time
	Rand     io.Reader
	// Lag is how old what is known of a tenant may be.
	Lag time.Duration
}

// A Directory knows the tenants. What it says of one is at most Options.Lag old: if the store can't be asked in that time, it
// says nothing.
type Directory struct {
	o Options

	mu    sync.Mutex
	known map[string]seen
}

type seen struct {
	at     time.Time
	tenant *Tenant
}

// maxKnown bounds the tenants that are remembered. Past it all are forgotten, which costs a read each.
const maxKnown = 10_000

// New returns a directory of the store's tenants.
func New(o Options) *Directory { return &Directory{o: o, known: map[string]seen{}} }

// Get returns a tenant. One that is not there is gateway.ErrNotFound.
func (d *Directory) Get(ctx context.Context, id string) (*Tenant, error) {
	now := d.o.Now()
	d.mu.Lock()
	s, ok := d.known[id]
	d.mu.Unlock()
	if age := now.Sub(s.at); ok && age >= 0 && age < d.o.Lag {
		return s.tenant, nil
	}
	return d.fetch(ctx, id, now)
}

func (d *Directory) renew(ctx context.Context, id string) (*Tenant, error) {
	return d.fetch(ctx, id, d.o.Now())
}

func (d *Directory) fetch(ctx context.Context, id string, now time.Time) (*Tenant, error) {
	if err := checkID(id); err != nil {
		return nil, gateway.ErrNotFound
	}
	r, err := d.o.Store.Tenant(ctx, id)
	if err != nil {
		d.forget(id)
		return nil, err
	}
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	d.learn(t, now)
	return t, nil
}

func (d *Directory) learn(t *Tenant, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.known[t.ID]; ok && s.tenant.Epoch > t.Epoch {
		return // a read that began before a change of ours
	}
	if len(d.known) >= maxKnown {
		clear(d.known)
	}
	d.known[t.ID] = seen{now, t}
}

func (d *Directory) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}

// List returns up to limit tenants behind the one named, by their ids.
func (d *Directory) List(ctx context.Context, after string, limit int) ([]*Tenant, error) {
	rows, err := d.o.Store.Tenants(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]*Tenant, len(rows))
	for i, r := range rows {
		if out[i], err = parse(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Create makes a tenant. It fails with ErrExists for one that is there.
func (d *Directory) Create(ctx context.Context, by, id string, s Settings) (*Tenant, error) {
	r, err := NewRecord(id, s, d.o.Now())
	if err != nil {
		return nil, err
	}
	e, err := d.event(id, by, "create/tenant")
	if err != nil {
		return nil, err
	}
	if err := d.o.Store.CreateTenant(ctx, r, e); err != nil {
		return nil, err
	}
	return d.renew(ctx, id)
}

// Configure replaces a tenant's settings.
func (d *Directory) Configure(ctx context.Context, by, id string, s Settings) (*Tenant, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return d.change(ctx, by, id, "configure/tenant", func(t *Tenant) error {
		t.Settings = s
		return nil
	})
}

// Freeze stops a target at once. What is frozen already stays so.
func (d *Directory) Freeze(ctx context.Context, by, id string, x Target) (*Tenant, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	return d.change(ctx, by, id, "freeze/"+string(x.Kind), func(t *Tenant) error {
		if t.find(x) >= 0 {
			return errSame
		}
		if len(t.Frozen) >= maxFrozen {
			return &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "too much is frozen one by one; freeze the tenant"}
		}
		t.Frozen = append(slices.Clone(t.Frozen), Freeze{x, by, d.o.Now().UTC().Truncate(time.Millisecond)})
		return nil
	})
}

// Unfreeze lets a target go on. Whoever froze it can't: that takes another.
func (d *Directory) Unfreeze(ctx context.Context, by, id string, x Target) (*Tenant, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	return d.change(ctx, by, id, "unfreeze/"+string(x.Kind), func(t *Tenant) error {
		i := t.find(x)
		if i < 0 {
			return errSame
		}
		if t.Frozen[i].By == by {
			return &counterfoil.Error{Code: counterfoil.CodeSelfApproval, Msg: "another person than the one who froze it has to lift this"}
		}
		t.Frozen = slices.Delete(slices.Clone(t.Frozen), i, i+1)
		return nil
	})
}

// errSame says that there is nothing to change.
const errSame = sentinel("it stands so already")

// attempts is how often a change is tried against others that come first.
const attempts = 5

func (d *Directory) change(ctx context.Context, by, id, code string, f func(*Tenant) error) (*Tenant, error) {
	for range attempts {
		was, err := d.renew(ctx, id)
		if err != nil {
			return nil, err
		}
		t := *was
		if err := f(&t); errors.Is(err, errSame) {
			return was, nil
		} else if err != nil {
			return nil, err
		}
		e, err := d.event(id, by, code)
		if err != nil {
			return nil, err
		}
		r, err := t.record()
		if err != nil {
			return nil, err
		}
		err = d.o.Store.ChangeTenant(ctx, r, e)
		if err == nil {
			return d.renew(ctx, id)
		}
		d.forget(id) // whatever became of it
		if !errors.Is(err, gateway.ErrChanged) {
			return nil, err
		}
	}
	return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "others change this tenant all the time; try again"}
}

func (d *Directory) event(id, by, code string) (counterfoil.Event, error) {
	var b [12]byte
	if _, err := io.ReadFull(d.o.Rand, b[:]); err != nil {
		return counterfoil.Event{}, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	return counterfoil.NewEvent(counterfoil.PhaseGoverned, d.o.Names, counterfoil.EventParams{
		Tenant: id, Audience: d.o.Audience, ExecutionID: "change-" + hex.EncodeToString(b[:]), Actor: by, Code: code,
	})
}

// Standing says whether a call may go on, and returns the marks that its spending is to be held against. It is what
// gateway.Config wants.
func (d *Directory) Standing(ctx context.Context, c gateway.Standing) ([]gateway.Mark, error) {
	get := d.Get
	if c.Fresh {
		get = d.renew
	}
	t, err := get(ctx, c.Tenant)
	switch {
	case errors.Is(err, gateway.ErrNotFound):
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "there is no such tenant"}
	case err != nil:
		return nil, err
	}
	if f := t.FrozenFor(Touch{Agent: c.Principal, Upstream: c.Upstream, UpstreamName: c.UpstreamName, Tool: c.Tool}); f != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the " + string(f.Kind) + " is frozen"}
	}
	return []gateway.Mark{{Name: MarkEpoch, Value: t.Epoch}}, nil
}
