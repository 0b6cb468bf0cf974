package api

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil/internal/hooks"
)

// hookBody defines a hook: exactly one of handler and url is given.
type hookBody struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitzero"`
	Phase       string            `json:"phase"`
	Priority    int               `json:"priority,omitzero"`
	Handler     string            `json:"handler,omitzero"`
	Config      map[string]string `json:"config,omitzero"`
	URL         string            `json:"url,omitzero"`
	Payload     bool              `json:"payload,omitzero"`
	TimeoutMS   int64             `json:"timeoutMs,omitzero"`
	Fail        string            `json:"fail,omitzero"` // closed unless it says open
	Disabled    bool              `json:"disabled,omitzero"`
}

// hookItem is a hook as it is kept. A callback's secret is in the answer that made it, nowhere else.
type hookItem struct {
	ID      string    `json:"id"`
	System  bool      `json:"system,omitzero"`
	Version int64     `json:"version"`
	Changed time.Time `json:"changed,omitzero"`
	Rotated time.Time `json:"rotated,omitzero"`
	Hook    hookBody  `json:"hook"`
	Secret  string    `json:"secret,omitzero"`
}

type hookList struct {
	Items []hookItem `json:"items"`
}

const maxTimeoutMS = 60_000

func (b hookBody) params() (hooks.Params, error) {
	if b.TimeoutMS < 0 || b.TimeoutMS > maxTimeoutMS {
		return hooks.Params{}, malformed("/timeoutMs", "it must be a number of milliseconds, a minute at most")
	}
	return hooks.Params{
		Name: b.Name, Description: b.Description, Phase: hooks.Phase(b.Phase), Priority: b.Priority, Handler: b.Handler, Config: b.Config,
		URL: b.URL, Payload: b.Payload, Timeout: time.Duration(b.TimeoutMS) * time.Millisecond, Fail: hooks.FailMode(b.Fail), Disabled: b.Disabled,
	}, nil
}

func hookOf(h hooks.Hook, secret string, err error) (hookItem, error) {
	if err != nil {
		return hookItem{}, err
	}
	return hookItem{h.ID, h.System, h.Version, h.Changed, h.Rotated, hookBody{
		h.Name, h.Description, string(h.Phase), h.Priority, h.Handler, h.Config, h.URL, h.Payload, h.Timeout.Milliseconds(), string(h.Fail), h.Disabled,
	}, secret}, nil
}

func (a *API) hooks(ctx context.Context, x *exchange) (hookList, error) {
	list, err := a.o.HookBook.List(ctx, x.principal.Tenant)
	if err != nil {
		return hookList{}, err
	}
	out := hookList{Items: make([]hookItem, 0, len(list))}
	for i := range list {
		item, err := hookOf(list[i], "", nil)
		if err != nil {
			return hookList{}, err
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func (a *API) hook(ctx context.Context, x *exchange) (hookItem, error) {
	id, err := x.named("id")
	if err != nil {
		return hookItem{}, err
	}
	h, err := a.o.HookBook.Get(ctx, x.principal.Tenant, id)
	return hookOf(h, "", err)
}

func (a *API) createHook(ctx context.Context, x *exchange, in hookBody) (hookItem, error) {
	p, err := in.params()
	if err != nil {
		return hookItem{}, err
	}
	h, secret, err := a.o.HookBook.Create(ctx, x.by(), x.principal.Tenant, p)
	return hookOf(h, secret, err)
}

// hookChange replaces the definition of a hook that stands at a version.
type hookChange struct {
	Version int64    `json:"version"`
	Hook    hookBody `json:"hook"`
}

func (a *API) changeHook(ctx context.Context, x *exchange, in hookChange) (hookItem, error) {
	id, err := x.named("id")
	if err != nil {
		return hookItem{}, err
	}
	p, err := in.Hook.params()
	if err != nil {
		return hookItem{}, err
	}
	h, err := a.o.HookBook.Change(ctx, x.by(), x.principal.Tenant, id, in.Version, p)
	return hookOf(h, "", err)
}

func (a *API) deleteHook(ctx context.Context, x *exchange) (nothing, error) {
	id, err := x.named("id")
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, a.o.HookBook.Delete(ctx, x.by(), x.principal.Tenant, id)
}

// versionBody is the version that a change is meant for.
type versionBody struct {
	Version int64 `json:"version"`
}

func (a *API) rotateHook(ctx context.Context, x *exchange, in versionBody) (hookItem, error) {
	id, err := x.named("id")
	if err != nil {
		return hookItem{}, err
	}
	h, secret, err := a.o.HookBook.Rotate(ctx, x.by(), x.principal.Tenant, id, in.Version)
	return hookOf(h, secret, err)
}

// hookTrial is what became of a hook that was tried.
type hookTrial struct {
	Action  string            `json:"action,omitzero"` // "" if it failed
	Reason  string            `json:"reason,omitzero"`
	Notes   map[string]string `json:"notes,omitzero"`
	Failed  bool              `json:"failed,omitzero"`
	Refused bool              `json:"refused,omitzero"`
	TookMS  int64             `json:"tookMs"`
}

func (a *API) tryHook(ctx context.Context, x *exchange) (hookTrial, error) {
	id, err := x.named("id")
	if err != nil {
		return hookTrial{}, err
	}
	h, err := a.o.HookBook.Get(ctx, x.principal.Tenant, id)
	if err != nil {
		return hookTrial{}, err
	}
	r, err := a.o.HookBook.Try(ctx, x.principal.Tenant, id, hooks.Event{
		Phase: h.Phase, Tenant: x.principal.Tenant, ID: x.id, Principal: x.by(), Method: post, Path: "/v1/hooks/" + h.ID + "/test",
	})
	if err != nil {
		return hookTrial{}, err
	}
	return hookTrial{string(r.Verdict.Action), r.Verdict.Reason, r.Verdict.Notes, r.Err != nil, r.Refused, r.Took.Milliseconds()}, nil
}
