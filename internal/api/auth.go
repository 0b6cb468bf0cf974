package api

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// login is a tenant, a user and a password, or a refresh credential. What it has is never echoed.
type login struct {
	Tenant   string `json:"tenant,omitzero"`
	User     string `json:"user,omitzero"`
	Password string `json:"password,omitzero"`
	Refresh  string `json:"refresh,omitzero"`
}

// grant is what whoever was let in gets.
type grant struct {
	Access       string    `json:"access"`
	Type         string    `json:"type"` // Bearer
	ExpiresAt    time.Time `json:"expiresAt"`
	Refresh      string    `json:"refresh"` // good once
	RefreshUntil time.Time `json:"refreshUntil"`
	Scopes       []string  `json:"scopes"`
}

func (a *API) token(ctx context.Context, x *exchange, in login) (grant, error) {
	var g *credential.Grant
	var err error
	switch {
	case in.Refresh != "" && in.Tenant == "" && in.User == "" && in.Password == "":
		g, err = a.o.Tokens.Refresh(ctx, credential.NewSecret(in.Refresh))
	case in.Refresh == "" && in.Tenant != "" && in.User != "" && in.Password != "":
		g, err = a.o.Tokens.Password(ctx, credential.Login{Tenant: in.Tenant, User: in.User, Password: credential.NewSecret(in.Password), From: x.addr})
	default:
		return grant{}, malformed("", "give tenant, user and password, or refresh")
	}
	if err != nil {
		return grant{}, err
	}
	return grant{
		g.Access.Reveal(), "Bearer", g.Principal.ExpiresAt, g.Refresh.Reveal(), g.Until, g.Principal.Scopes.List(),
	}, nil
}

// refreshBody names a refresh credential.
type refreshBody struct {
	Refresh string `json:"refresh"`
}

// logout ends the refresh credential, and the access token that the request came with. API keys are ended elsewhere.
func (a *API) logout(ctx context.Context, x *exchange, in refreshBody) (nothing, error) {
	if err := a.o.Tokens.End(ctx, credential.NewSecret(in.Refresh)); err != nil {
		return nothing{}, err
	}
	if x.r.Header.Get("Authorization") == "" {
		return nothing{}, nil
	}
	return nothing{}, a.o.Authenticator.RevokeCredential(ctx, x.by(), x.principal.Tenant, x.principal.Credential)
}

// beginning is the one-time credential of a server without tenants, and the first tenant and person.
type beginning struct {
	Credential string `json:"credential"`
	Tenant     string `json:"tenant"`
	User       string `json:"user"`
	Password   string `json:"password"`
}

// bootstrap makes the first tenant and the first person, who governs it and the system.
func (a *API) bootstrap(ctx context.Context, _ *exchange, in beginning) (userItem, error) {
	rec, err := tenancy.NewRecord(in.Tenant, tenancy.Settings{}, a.o.Now())
	if err != nil {
		return userItem{}, err
	}
	return userOf(a.o.Bootstrap.Redeem(ctx, credential.NewSecret(in.Credential), credential.FirstTenant{ID: rec.ID, Created: rec.Created, Body: rec.Body},
		credential.NewUser{Name: in.User, Password: credential.NewSecret(in.Password)}))
}

// passwords are the old one and the new.
type passwords struct {
	Old string `json:"old"`
	New string `json:"new"`
}

func (a *API) changePassword(ctx context.Context, x *exchange, in passwords) (nothing, error) {
	return nothing{}, a.o.Users.ChangePassword(ctx, x.principal, x.addr, credential.NewSecret(in.Old), credential.NewSecret(in.New))
}

// wrongPassphrase says so without a hint at what would be right.
func wrongPassphrase(err error) error {
	if errors.Is(err, ErrPassphrase) {
		return refuse(codePassphrase, ErrPassphrase.Error())
	}
	return err
}
