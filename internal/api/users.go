package api

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil/internal/credential"
)

// userItem is a person with a password.
type userItem struct {
	Name     string    `json:"name"`
	Scopes   []string  `json:"scopes"`
	Groups   []string  `json:"groups,omitzero"`
	Disabled bool      `json:"disabled,omitzero"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
}

type userList struct {
	Items []userItem `json:"items"`
	Next  string     `json:"next,omitzero"`
}

func userOf(u *credential.User, err error) (userItem, error) {
	if err != nil {
		return userItem{}, err
	}
	return userItem{u.Name, u.Scopes, u.Groups, u.Disabled, u.Created, u.Changed}, nil
}

func (a *API) users(ctx context.Context, x *exchange) (userList, error) {
	after, limit, err := x.page()
	if err != nil {
		return userList{}, err
	}
	list, err := a.o.Users.List(ctx, x.principal, after, limit)
	if err != nil {
		return userList{}, err
	}
	out := userList{Items: make([]userItem, 0, len(list))}
	for i := range list {
		u, err := userOf(&list[i], nil)
		if err != nil {
			return userList{}, err
		}
		out.Items = append(out.Items, u)
	}
	if len(list) == limit {
		out.Next = list[limit-1].Name
	}
	return out, nil
}

// userOrder is the order for a person.
type userOrder struct {
	Name     string   `json:"name"`
	Password string   `json:"password"`
	Scopes   []string `json:"scopes"`
	Groups   []string `json:"groups,omitzero"`
}

func (o userOrder) user() credential.NewUser {
	return credential.NewUser{Name: o.Name, Password: credential.NewSecret(o.Password), Scopes: o.Scopes, Groups: o.Groups}
}

func (a *API) createUser(ctx context.Context, x *exchange, in userOrder) (userItem, error) {
	return userOf(a.o.Users.Create(ctx, x.principal, in.user()))
}

// rights are a person's scopes and groups.
type rights struct {
	Scopes []string `json:"scopes"`
	Groups []string `json:"groups"`
}

func (a *API) setRights(ctx context.Context, x *exchange, in rights) (userItem, error) {
	name, err := x.named("name")
	if err != nil {
		return userItem{}, err
	}
	return userOf(a.o.Users.SetRights(ctx, x.principal, name, in.Scopes, in.Groups))
}

// passwordBody is a new password.
type passwordBody struct {
	Password string `json:"password"`
}

func (a *API) setPassword(ctx context.Context, x *exchange, in passwordBody) (userItem, error) {
	name, err := x.named("name")
	if err != nil {
		return userItem{}, err
	}
	return userOf(a.o.Users.SetPassword(ctx, x.principal, name, credential.NewSecret(in.Password)))
}

func (a *API) disableUser(ctx context.Context, x *exchange) (userItem, error) {
	return a.setDisabled(ctx, x, true)
}

func (a *API) enableUser(ctx context.Context, x *exchange) (userItem, error) {
	return a.setDisabled(ctx, x, false)
}

func (a *API) setDisabled(ctx context.Context, x *exchange, disabled bool) (userItem, error) {
	name, err := x.named("name")
	if err != nil {
		return userItem{}, err
	}
	return userOf(a.o.Users.SetDisabled(ctx, x.principal, name, disabled))
}
