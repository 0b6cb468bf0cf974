package ratelimit

import "context"

// Use is what was used of limits: in the last minute, hour and day.
type Use struct {
	Minute int64 `json:"minute"`
	Hour   int64 `json:"hour"`
	Day    int64 `json:"day"`
}

// A Quota is what a principal may use and has used. Where processes share the store, what another has taken and not yet
// used counts as used.
type Quota struct {
	Subject
	Tier   Tier
	Limits Limits
	Used   Use
}

// Quota returns a subject's quota. One that was never seen has used nothing.
func (l *Limiter) Quota(ctx context.Context, s Subject) (Quota, error) {
	k := Key{Subject: s, Kind: KindRequest}
	if err := k.Check(); err != nil {
		return Quota{}, err
	}
	if err := l.settled(ctx); err != nil {
		return Quota{}, err
	}
	b, err := l.o.Store.Rate(ctx, k)
	if err != nil {
		return Quota{}, err
	}
	return l.quota(ctx, Row{Key: k, State: b})
}

// Quotas returns up to limit quotas behind that of a subject, of all tenants, ordered by tenant and principal. It has those
// who have used anything in the last day.
func (l *Limiter) Quotas(ctx context.Context, after Subject, limit int) ([]Quota, error) {
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	rows, err := l.o.Store.Rates(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	return l.quotas(ctx, rows)
}

// TenantQuotas does so for one tenant, behind a principal.
func (l *Limiter) TenantQuotas(ctx context.Context, tenant, after string, limit int) ([]Quota, error) {
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	rows, err := l.o.Store.TenantRates(ctx, tenant, after, limit)
	if err != nil {
		return nil, err
	}
	return l.quotas(ctx, rows)
}

// Reset forgets what the tenant's principals have used. Other processes that share the store may go on with what they have
// for a second.
func (l *Limiter) Reset(ctx context.Context, tenant string) error {
	if tenant == "" {
		return invalid("a tenant has a name")
	}
	l.writing.Lock() // nothing is written meanwhile that is forgotten here
	defer l.writing.Unlock()
	if err := l.o.Store.ForgetRates(ctx, tenant); err != nil {
		return err
	}
	for i := range l.table.shards {
		l.table.shards[i].reset(tenant)
	}
	return nil
}

func (s *shard) reset(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost++ // what is being read may be from before
	for k, e := range s.entries {
		if k.Tenant != tenant {
			continue
		}
		e.state, e.dirty = state{}, false
		if e.slice != nil {
			e.slice.forget()
		}
	}
}

// forget drops what was heard. Who waits will hear something new.
func (c *slice) forget() {
	*c = slice{want: 1, waiting: c.waiting, asking: c.asking, asked: c.asked}
}

// settled writes down what the store does not have yet.
func (l *Limiter) settled(ctx context.Context) error {
	if l.o.Shared {
		return l.errands(ctx, l.told(), true)
	}
	return l.flush(ctx)
}

func (l *Limiter) quotas(ctx context.Context, rows []Row) ([]Quota, error) {
	out := make([]Quota, len(rows))
	for i, r := range rows {
		var err error
		if out[i], err = l.quota(ctx, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *Limiter) quota(ctx context.Context, row Row) (Quota, error) {
	t, err := l.tier(ctx, row.Key.Tenant)
	if err != nil {
		return Quota{}, err
	}
	st, err := parseState(row.State)
	if err != nil {
		return Quota{}, err
	}
	r, _ := t.rules()
	st.settle(l.now(), &r)
	return Quota{
		Subject: row.Key.Subject, Tier: t, Limits: t.Limits(),
		Used: Use{Minute: st.windows[minute].total, Hour: st.windows[hour].total, Day: st.windows[day].total},
	}, nil
}
