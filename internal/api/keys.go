package api

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// keyItem is an API key. Its text is in the answer that made it, nowhere else.
type keyItem struct {
	ID        string    `json:"id"`
	Subject   string    `json:"subject"`
	Kind      string    `json:"kind"`
	Owner     string    `json:"owner"`
	Scopes    []string  `json:"scopes"`
	Label     string    `json:"label,omitzero"`
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"createdBy"`
	Expires   time.Time `json:"expires,omitzero"` // missing for never
	LastUsed  time.Time `json:"lastUsed,omitzero"`
	Successor string    `json:"successor,omitzero"`
	Key       string    `json:"key,omitzero"`
}

type keyList struct {
	Items []keyItem `json:"items"`
	Next  string    `json:"next,omitzero"`
}

func keyOf(k credential.Key, text string) keyItem {
	return keyItem{
		k.ID, k.Subject, string(k.Kind), k.Owner, k.Scopes, k.Label, k.Created, k.CreatedBy, k.Expires, k.LastUsed, k.Successor, text,
	}
}

func (a *API) keys(ctx context.Context, x *exchange) (keyList, error) {
	after, limit, err := x.page()
	if err != nil {
		return keyList{}, err
	}
	list, err := a.o.Keys.List(ctx, x.principal, after, limit)
	if err != nil {
		return keyList{}, err
	}
	out := keyList{Items: make([]keyItem, 0, len(list))}
	for _, k := range list {
		out.Items = append(out.Items, keyOf(k, ""))
	}
	if len(list) == limit {
		out.Next = list[limit-1].ID
	}
	return out, nil
}

// life is how long a key lives: so many seconds, or for ever. Exactly one is given.
type life struct {
	Seconds int64 `json:"seconds,omitzero"`
	Never   bool  `json:"never,omitzero"`
}

// maxSeconds keeps durations from overflowing; what is allowed is the service's to say.
const maxSeconds = int64(100 * 365 * 24 * time.Hour / time.Second)

func (l life) lifetime() (credential.Lifetime, error) {
	d, err := secondsOf("/life/seconds", l.Seconds)
	return credential.Lifetime{For: d, Never: l.Never}, err
}

func secondsOf(path string, n int64) (time.Duration, error) {
	if n < 0 || n > maxSeconds {
		return 0, malformed(path, "it must be a number of seconds")
	}
	return time.Duration(n) * time.Second, nil
}

// keyOrder is the order for a key.
type keyOrder struct {
	Subject string   `json:"subject"`
	Kind    string   `json:"kind"`
	Scopes  []string `json:"scopes"`
	Label   string   `json:"label,omitzero"`
	Life    life     `json:"life"`
}

func (a *API) mintKey(ctx context.Context, x *exchange, in keyOrder) (keyItem, error) {
	l, err := in.Life.lifetime()
	if err != nil {
		return keyItem{}, err
	}
	m, err := a.o.Keys.Mint(ctx, x.principal, credential.Mint{
		Subject: in.Subject, Kind: identity.Kind(in.Kind), Scopes: in.Scopes, Label: in.Label, Life: l,
	})
	if err != nil {
		return keyItem{}, err
	}
	return keyOf(m.Key, m.Secret.Reveal()), nil
}

// rotation says how the key that takes another's place lives, and how long the other goes on.
type rotation struct {
	Life    life  `json:"life"`
	Overlap int64 `json:"overlap,omitzero"` // seconds
}

func (a *API) rotateKey(ctx context.Context, x *exchange, in rotation) (keyItem, error) {
	id, err := x.named("id")
	if err != nil {
		return keyItem{}, err
	}
	l, err := in.Life.lifetime()
	if err != nil {
		return keyItem{}, err
	}
	overlap, err := secondsOf("/overlap", in.Overlap)
	if err != nil {
		return keyItem{}, err
	}
	m, err := a.o.Keys.Rotate(ctx, x.principal, id, l, overlap)
	if err != nil {
		return keyItem{}, err
	}
	return keyOf(m.Key, m.Secret.Reveal()), nil
}

func (a *API) revokeKey(ctx context.Context, x *exchange) (nothing, error) {
	id, err := x.named("id")
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, a.o.Keys.Revoke(ctx, x.principal, id)
}
