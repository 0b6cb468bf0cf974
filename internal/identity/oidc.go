package identity

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// OIDC is another issuer whose access tokens are taken, and what of them is believed. Its keys come from its discovery document
// (OpenID Connect Discovery 1.0). A field says whether it may be missing; an empty list allows nothing.
//
// A claim is named by its member's name, or by a JSON pointer, which begins with a slash, for one further inside.
type OIDC struct {
	// Name stands before what the issuer says, with a slash between: its subjects, owners, groups and token ids can't be taken
	// for ours nor for another issuer's. It has the characters a-z, 0-9 and -.
	Name string
	// Issuer is its address, exactly as its tokens' "iss" has it: https, or http on loopback.
	Issuer string
	// Algorithm is the only one that its tokens are signed with: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512
	// or EdDSA.
	Algorithm string
	// Audiences are what its tokens may name us by; Rules.Audiences if there are none.
	Audiences []string
	// Types are the values of the header "typ" that are taken; "at+jwt" if there are none.
	Types []string
	// Lifetime is the longest life of its tokens, at most MaxLifetime.
	Lifetime time.Duration

	// Tenant is the tenant of all its principals. Without one, TenantClaim names it, and it must be among Tenants.
	Tenant      string
	TenantClaim string
	Tenants     []string

	// Kind is the kind of all its principals. Without one, KindClaim has a value that Kinds translates.
	Kind      Kind
	KindClaim string
	Kinds     map[string]Kind

	// Owner answers for its agents and services, by the name of a principal. Without one, OwnerClaim has a subject of the
	// issuer's. People answer for themselves.
	Owner      string
	OwnerClaim string

	// ScopesClaim has scopes, as a list or in one text with spaces. Each must be covered by Scopes; those of OpenID Connect
	// itself are passed over. It may be missing.
	ScopesClaim string
	Scopes      []string
	// GroupsClaim has the principal's groups. GroupScopes are the scopes that each gives. It may be missing.
	GroupsClaim string
	GroupScopes map[string][]string

	// HTTP has the transport that the documents are fetched by. Redirects are not followed.
	HTTP *http.Client
}

// A foreign issuer is one whose configuration was checked.
type foreign struct {
	OIDC
	allowed Scopes
	byGroup map[string]Scopes
	keys    *issuerKeys
}

func newForeign(o OIDC, r *Rules, now func() time.Time) (*foreign, error) {
	if len(o.Audiences) == 0 {
		o.Audiences = r.Audiences
	}
	if len(o.Types) == 0 {
		o.Types = []string{typeAccess, "application/" + typeAccess}
	}
	for _, check := range []func(*OIDC) error{(*OIDC).checkNames, (*OIDC).checkSource, (*OIDC).checkPrincipals} {
		if err := check(&o); err != nil {
			return nil, err
		}
	}
	f := &foreign{OIDC: o, byGroup: map[string]Scopes{}}
	var err error
	if f.allowed, err = ParseScopes(o.Scopes); err != nil {
		return nil, err
	}
	for group, list := range o.GroupScopes {
		if f.byGroup[group], err = ParseScopes(list); err != nil {
			return nil, err
		}
	}
	f.keys = newIssuerKeys(&f.OIDC, now)
	return f, nil
}

func (o *OIDC) checkNames() error {
	if o.Name == "" || len(o.Name) > 63 || strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fail("an issuer's name has 1 to 63 of the characters a-z, 0-9 and -")
	}
	if slices.Contains(o.Audiences, "") || slices.Contains(o.Types, "") {
		return fail("an audience or a type of the issuer " + o.Name + " is empty")
	}
	for _, t := range o.Types {
		if strings.Contains(t, "counterfoil.") {
			return fail("tokens that this program issues for something else are no credentials")
		}
	}
	if o.Lifetime < time.Second || o.Lifetime > MaxLifetime {
		return fail("the longest life of the tokens of " + o.Name + " must be from 1 second to 24 hours")
	}
	return nil
}

func (o *OIDC) checkSource() error {
	if !slices.Contains([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", string(EdDSA)}, o.Algorithm) {
		return fail("the issuer " + o.Name + " needs one algorithm with public keys")
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || !fetchable(u, u) || u.RawQuery != "" || u.Fragment != "" {
		return fail("the issuer " + o.Name + " needs an https address without a query")
	}
	if o.HTTP == nil || o.HTTP.Transport == nil {
		return fail("the issuer " + o.Name + " needs an HTTP client with a transport")
	}
	return nil
}

func (o *OIDC) checkPrincipals() error {
	switch {
	case (o.Tenant == "") == (o.TenantClaim == ""), (o.TenantClaim == "") != (len(o.Tenants) == 0):
		return fail("the issuer " + o.Name + " needs either a tenant, or a claim and the tenants that it may name")
	case (o.Kind == "") == (o.KindClaim == ""), (o.KindClaim == "") != (len(o.Kinds) == 0):
		return fail("the issuer " + o.Name + " needs either a kind, or a claim and what its values mean")
	case o.Owner != "" && o.OwnerClaim != "", o.Kind == KindPerson && o.Owner+o.OwnerClaim != "":
		return fail("the issuer " + o.Name + " has too many owners")
	case (o.ScopesClaim == "") != (len(o.Scopes) == 0), o.GroupsClaim == "" && len(o.GroupScopes) > 0:
		return fail("the issuer " + o.Name + " needs a claim and what it may give, or neither")
	}
	tenants, kinds := o.Tenants, slices.Collect(maps.Values(o.Kinds))
	if o.TenantClaim == "" {
		tenants = []string{o.Tenant}
	}
	if o.KindClaim == "" {
		kinds = []Kind{o.Kind}
	}
	for _, t := range tenants {
		if err := counterfoil.CheckIdentity(t); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		switch k {
		case KindAgent, KindPerson, KindService:
		default:
			return fail("the issuer " + o.Name + " has a kind that is not known")
		}
	}
	return nil
}

// verify reads a token of the issuer. What needs no key is checked first, so that a token that can't be good causes no fetch.
func (f *foreign) verify(ctx context.Context, t *token, now time.Time, leeway time.Duration) (v verified, issued time.Time, err error) {
	switch {
	case t.alg != f.Algorithm:
		return v, issued, invalid("alg")
	case !slices.Contains(f.Types, t.typ):
		return v, issued, invalid("typ")
	case !t.claims.isFor(f.Audiences):
		return v, issued, invalid("audience")
	}
	issued, expires, err := t.claims.times(now, leeway, f.Lifetime)
	if err != nil {
		return v, issued, err
	}
	p, err := f.principal(t)
	if err != nil {
		return v, issued, err
	}
	known, err := f.keys.verify(ctx, t.text, now)
	if err != nil {
		return v, issued, err
	}
	p.ExpiresAt = expires
	v.principal, v.until = *p, expires.Add(leeway)
	if known.Before(v.until) {
		v.until = known
	}
	return v, issued, nil
}

// principal translates the claims.
func (f *foreign) principal(t *token) (*Principal, error) {
	subject, ok := t.claims.text("sub")
	if !ok {
		return nil, invalid("claim")
	}
	p := &Principal{Subject: f.named(subject), Tenant: f.Tenant, Kind: f.Kind}
	if id, ok := t.claims.text("jti"); ok {
		p.Credential = f.named(id)
	} else {
		p.Credential = f.named("sha256-" + digestOf(t.text))
	}
	if f.TenantClaim != "" {
		if p.Tenant, ok = unquote(t.claims.at(f.TenantClaim)); !ok || !slices.Contains(f.Tenants, p.Tenant) {
			return nil, invalid("tenant")
		}
	}
	if f.KindClaim != "" {
		value, _ := unquote(t.claims.at(f.KindClaim))
		p.Kind = f.Kinds[value]
	}
	if p.Kind == KindPerson {
		p.Owner = p.Subject
	} else if p.Owner = f.Owner; f.OwnerClaim != "" {
		owner, ok := unquote(t.claims.at(f.OwnerClaim))
		if !ok {
			return nil, invalid("owner")
		}
		p.Owner = f.named(owner)
	}
	if err := f.rights(p, t.claims); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, &Error{Reason: ReasonInvalid, Why: "principal", Err: err}
	}
	return p, nil
}

func (f *foreign) named(s string) string { return f.Name + "/" + s }

// rights sets the scopes and the groups.
func (f *foreign) rights(p *Principal, claims members) error {
	var scopes []string
	if v := claims.at(f.ScopesClaim); f.ScopesClaim != "" && v != nil {
		list, ok := unquoteList(v)
		if text, isText := unquote(v); isText {
			list, ok = strings.Fields(text), true
		}
		if !ok || len(list) > maxList {
			return invalid("scope")
		}
		scopes = slices.DeleteFunc(list, isOpenID)
		given, err := ParseScopes(scopes)
		if err != nil || !given.coveredBy(f.allowed) {
			return invalid("scope")
		}
	}
	if v := claims.at(f.GroupsClaim); f.GroupsClaim != "" && v != nil {
		groups, ok := unquoteList(v)
		if !ok {
			return invalid("group")
		}
		for _, g := range groups {
			p.Groups = append(p.Groups, f.named(g))
			scopes = append(scopes, f.byGroup[g].List()...)
		}
	}
	var err error
	if p.Scopes, err = ParseScopes(scopes); err != nil {
		return invalid("scope")
	}
	return nil
}

// isOpenID reports whether a scope is one of OpenID Connect's own, which say what a client may read of the person.
func isOpenID(s string) bool {
	return slices.Contains([]string{"openid", "profile", "email", "address", "phone", "offline_access"}, s)
}

// at returns the value of a claim by its name or its pointer, nil if there is none.
func (m members) at(name string) (v jsontext.Value) {
	if !strings.HasPrefix(name, "/") {
		return m[name]
	}
	for i, segment := range strings.Split(name[1:], "/") {
		if i > 0 {
			var err error
			if m, err = readMembers(v); err != nil {
				return nil
			}
		}
		v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)]
	}
	return v
}
