package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// An exchange is a request and what is known of it so far.
type exchange struct {
	w     http.ResponseWriter
	r     *http.Request
	route *route // nil for none
	id    string
	began time.Time
	query url.Values

	addr      netip.Addr
	principal *identity.Principal // nil until it is authenticated
	tenant    *tenancy.Tenant

	gate              string // that refused
	problem           *problem
	approval, receipt string
	trace             string
	notes             []note
}

// A note is what a hook wants to stand in the record.
type note struct{ hook, name, value string }

// by is the name under which the principal acts.
func (x *exchange) by() string { return x.principal.Actor() }

func plainName(name, s string, empty bool) (string, error) {
	if s == "" && !empty || len(s) > maxName || !utf8.ValidString(s) {
		return "", malformed(name, "it is no name")
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return "", malformed(name, "it is no name")
		}
	}
	return s, nil
}

type principalKey struct{}

// PrincipalOf returns who was authenticated for a request, from its context, nil for nobody. It is for handlers that are
// mounted beside the REST ones.
func PrincipalOf(ctx context.Context) *identity.Principal {
	p, _ := ctx.Value(principalKey{}).(*identity.Principal)
	return p
}
