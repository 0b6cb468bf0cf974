package api

import (
	"context"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil/internal/vault"
)

// secretItem is one version of a secret. There is no answer that has a value.
type secretItem struct {
	Name     string    `json:"name"`
	Version  int64     `json:"version"`
	Created  time.Time `json:"created,omitzero"`
	Metadata rawJSON   `json:"metadata,omitzero"`
}

type secretList struct {
	Items []secretItem `json:"items"`
	Next  string       `json:"next,omitzero"`
}

func secretsOf(list []vault.Version) secretList {
	out := secretList{Items: make([]secretItem, 0, len(list))}
	for _, v := range list {
		item := secretItem{Name: v.Name, Version: v.Number, Created: v.Created}
		if shallow(v.Metadata) == nil && rawJSON(v.Metadata).valid() {
			item.Metadata = v.Metadata
		}
		out.Items = append(out.Items, item)
	}
	return out
}

func (a *API) secrets(ctx context.Context, x *exchange) (secretList, error) {
	after, limit, err := x.page()
	if err != nil {
		return secretList{}, err
	}
	list, err := a.o.Secrets.List(ctx, x.principal.Tenant, after, limit)
	if err != nil {
		return secretList{}, err
	}
	out := secretsOf(list)
	if len(list) == limit {
		out.Next = list[limit-1].Name
	}
	return out, nil
}

func (a *API) secret(ctx context.Context, x *exchange) (secretList, error) {
	name, err := x.named("name")
	if err != nil {
		return secretList{}, err
	}
	list, err := a.o.Secrets.Versions(ctx, x.principal.Tenant, name)
	return secretsOf(list), err
}

// secretBody is a secret to keep.
type secretBody struct {
	Value    string  `json:"value"`
	Metadata rawJSON `json:"metadata,omitzero"`
}

func (a *API) putSecret(ctx context.Context, x *exchange, in secretBody) (secretItem, error) {
	name, err := x.named("name")
	if err != nil {
		return secretItem{}, err
	}
	v, err := vault.NewValue([]byte(in.Value))
	if err != nil {
		return secretItem{}, err
	}
	n, err := a.o.Secrets.Put(ctx, x.by(), x.principal.Tenant, name, v, in.Metadata)
	return secretItem{Name: name, Version: n}, err
}

func (a *API) deleteSecret(ctx context.Context, x *exchange) (nothing, error) {
	name, err := x.named("name")
	if err != nil {
		return nothing{}, err
	}
	version := int64(0) // all
	if x.query.Has("version") {
		version, err = strconv.ParseInt(x.query.Get("version"), 10, 64)
		if err != nil || version < 1 {
			return nothing{}, malformed("version", "it must be the number of a version")
		}
	}
	return nothing{}, a.o.Secrets.Delete(ctx, x.by(), x.principal.Tenant, name, version)
}
