package api

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// tenantItem is a tenant: how it is governed, nothing of what it does.
type tenantItem struct {
	ID      string       `json:"id"`
	Created time.Time    `json:"created"`
	Epoch   int64        `json:"epoch"`
	Tier    string       `json:"tier,omitzero"`
	MaxBody int64        `json:"maxBody,omitzero"`
	Deny    []string     `json:"deny,omitzero"`
	Ask     []string     `json:"ask,omitzero"`
	Frozen  []freezeItem `json:"frozen,omitzero"`
}

type freezeItem struct {
	Kind string    `json:"kind"`
	Name string    `json:"name,omitzero"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

type tenantList struct {
	Items []tenantItem `json:"items"`
	Next  string       `json:"next,omitzero"`
}

func tenantOf(t *tenancy.Tenant, err error) (tenantItem, error) {
	if err != nil {
		return tenantItem{}, err
	}
	out := tenantItem{ID: t.ID, Created: t.Created, Epoch: t.Epoch, Tier: t.Tier, MaxBody: t.MaxBody, Deny: t.Deny, Ask: t.Ask}
	for _, f := range t.Frozen {
		out.Frozen = append(out.Frozen, freezeItem{string(f.Kind), f.Name, f.By, f.At})
	}
	return out, nil
}

func (a *API) tenants(ctx context.Context, x *exchange) (tenantList, error) {
	after, limit, err := x.page()
	if err != nil {
		return tenantList{}, err
	}
	list, err := a.o.Directory.List(ctx, after, limit)
	if err != nil {
		return tenantList{}, err
	}
	out := tenantList{Items: make([]tenantItem, 0, len(list))}
	for _, t := range list {
		item, err := tenantOf(t, nil)
		if err != nil {
			return tenantList{}, err
		}
		out.Items = append(out.Items, item)
	}
	if len(list) == limit {
		out.Next = list[limit-1].ID
	}
	return out, nil
}

// settings are what an administrator of the system sets for a tenant.
type settings struct {
	Tier    string   `json:"tier,omitzero"`
	MaxBody int64    `json:"maxBody,omitzero"`
	Deny    []string `json:"deny,omitzero"`
	Ask     []string `json:"ask,omitzero"`
}

func (s settings) parse() (tenancy.Settings, error) {
	out := tenancy.Settings{Tier: s.Tier, MaxBody: s.MaxBody, Deny: s.Deny, Ask: s.Ask}
	if s.Tier != "" {
		if _, err := ratelimit.ParseTier(s.Tier); err != nil {
			return out, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/tier", Msg: "there is no such tier"}
		}
	}
	return out, nil
}

type tenantOrder struct {
	ID       string   `json:"id"`
	Settings settings `json:"settings,omitzero"`
}

func (a *API) createTenant(ctx context.Context, x *exchange, in tenantOrder) (tenantItem, error) {
	s, err := in.Settings.parse()
	if err != nil {
		return tenantItem{}, err
	}
	return tenantOf(a.o.Directory.Create(ctx, x.by(), in.ID, s))
}

func (a *API) oneTenant(ctx context.Context, x *exchange) (tenantItem, error) {
	id, err := x.named("tenant")
	if err != nil {
		return tenantItem{}, err
	}
	return tenantOf(a.o.Directory.Get(ctx, id))
}

func (a *API) configureTenant(ctx context.Context, x *exchange, in settings) (tenantItem, error) {
	id, err := x.named("tenant")
	if err != nil {
		return tenantItem{}, err
	}
	s, err := in.parse()
	if err != nil {
		return tenantItem{}, err
	}
	return tenantOf(a.o.Directory.Configure(ctx, x.by(), id, s))
}

// firstUser makes the first person of a tenant: whom a system administrator trusts with it, since they have no right in it.
func (a *API) firstUser(ctx context.Context, x *exchange, in userOrder) (userItem, error) {
	id, err := x.named("tenant")
	if err != nil {
		return userItem{}, err
	}
	return userOf(a.o.Users.CreateFirst(ctx, x.principal, id, in.user()))
}

func (a *API) ownTenant(ctx context.Context, x *exchange) (tenantItem, error) {
	return tenantOf(a.o.Directory.Get(ctx, x.principal.Tenant))
}

// scopeLists are what a tenant denies and what it asks a person about.
type scopeLists struct {
	Deny []string `json:"deny"`
	Ask  []string `json:"ask"`
}

func (a *API) setScopes(ctx context.Context, x *exchange, in scopeLists) (tenantItem, error) {
	t, err := a.o.Directory.Get(ctx, x.principal.Tenant)
	if err != nil {
		return tenantItem{}, err
	}
	s := t.Settings
	s.Deny, s.Ask = in.Deny, in.Ask
	return tenantOf(a.o.Directory.Configure(ctx, x.by(), t.ID, s))
}

// target is what is frozen: "tenant", or an "agent", "upstream" or "tool" with its name.
type target struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitzero"`
}

func (t target) of() tenancy.Target {
	return tenancy.Target{Kind: tenancy.TargetKind(t.Kind), Name: t.Name}
}

// frozen is the tenant after a freeze, and how many requests it has ended.
type frozen struct {
	Tenant tenantItem `json:"tenant"`
	Voided int        `json:"voided"`
}

// freeze stops a target. It stands from the moment that the directory has it; the requests that touch it are ended then.
func (a *API) freeze(ctx context.Context, x *exchange, in target) (frozen, error) {
	t, err := tenantOf(a.o.Directory.Freeze(ctx, x.by(), x.principal.Tenant, in.of()))
	if err != nil {
		return frozen{}, err
	}
	n, err := a.o.Gate.VoidFrozen(context.WithoutCancel(ctx), x.principal.Tenant)
	if err != nil {
		return frozen{}, err
	}
	return frozen{t, n}, nil
}

func (a *API) unfreeze(ctx context.Context, x *exchange, in target) (tenantItem, error) {
	return tenantOf(a.o.Directory.Unfreeze(ctx, x.by(), x.principal.Tenant, in.of()))
}

// tierItem is a tier with its numbers.
type tierItem struct {
	Tier      string `json:"tier"`
	PerMinute int64  `json:"perMinute"`
	PerHour   int64  `json:"perHour"`
	PerDay    int64  `json:"perDay"`
	Burst     int64  `json:"burst"`
}

func tierOf(t ratelimit.Tier, l ratelimit.Limits) tierItem {
	return tierItem{string(t), l.PerMinute, l.PerHour, l.PerDay, l.Burst}
}

type tierList struct {
	Items []tierItem `json:"items"`
}

func (a *API) tiers(context.Context, *exchange) (tierList, error) {
	var out tierList
	for _, t := range ratelimit.Tiers() {
		out.Items = append(out.Items, tierOf(t, t.Limits()))
	}
	return out, nil
}

// quotaItem is what a principal may use and has used.
type quotaItem struct {
	Tenant    string   `json:"tenant"`
	Principal string   `json:"principal"`
	Limits    tierItem `json:"limits"`
	Minute    int64    `json:"minute"`
	Hour      int64    `json:"hour"`
	Day       int64    `json:"day"`
}

type quotaList struct {
	Items []quotaItem `json:"items"`
}

func quotasOf(list []ratelimit.Quota) quotaList {
	out := quotaList{Items: make([]quotaItem, 0, len(list))}
	for _, q := range list {
		out.Items = append(out.Items, quotaItem{q.Tenant, q.Principal, tierOf(q.Tier, q.Limits), q.Used.Minute, q.Used.Hour, q.Used.Day})
	}
	return out
}

// quotas begins behind the principal of a tenant that the query names.
func (a *API) quotas(ctx context.Context, x *exchange) (quotaList, error) {
	limit, err := x.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return quotaList{}, err
	}
	var after ratelimit.Subject
	if after.Tenant, err = x.text("tenant"); err != nil {
		return quotaList{}, err
	}
	if after.Principal, err = x.text("principal"); err != nil {
		return quotaList{}, err
	}
	list, err := a.o.Rates.Quotas(ctx, after, limit)
	return quotasOf(list), err
}

// tenantNamed returns the tenant that the path names, if it is there.
func (a *API) tenantNamed(ctx context.Context, x *exchange) (*tenancy.Tenant, error) {
	id, err := x.named("tenant")
	if err != nil {
		return nil, err
	}
	t, err := a.o.Directory.Get(ctx, id)
	if err == nil && t == nil {
		err = gateway.ErrNotFound
	}
	return t, err
}

func (a *API) tenantQuotas(ctx context.Context, x *exchange) (quotaList, error) {
	after, limit, err := x.page()
	if err != nil {
		return quotaList{}, err
	}
	t, err := a.tenantNamed(ctx, x)
	if err != nil {
		return quotaList{}, err
	}
	list, err := a.o.Rates.TenantQuotas(ctx, t.ID, after, limit)
	return quotasOf(list), err
}

// tierBody names a tier.
type tierBody struct {
	Tier string `json:"tier"`
}

func (a *API) setTier(ctx context.Context, x *exchange, in tierBody) (tenantItem, error) {
	t, err := a.tenantNamed(ctx, x)
	if err != nil {
		return tenantItem{}, err
	}
	if _, err := ratelimit.ParseTier(in.Tier); err != nil {
		return tenantItem{}, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/tier", Msg: "there is no such tier"}
	}
	s := t.Settings
	s.Tier = in.Tier
	return tenantOf(a.o.Directory.Configure(ctx, x.by(), t.ID, s))
}

func (a *API) resetRates(ctx context.Context, x *exchange) (nothing, error) {
	t, err := a.tenantNamed(ctx, x)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, a.o.Rates.Reset(ctx, t.ID)
}
