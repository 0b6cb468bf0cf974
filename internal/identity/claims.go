package identity

import (
	"slices"
	"time"
)

// MaxLifetime is the longest that any token may live. Revocations are kept as long as that.
const MaxLifetime = 24 * time.Hour

// maxLeeway is the most that clocks may differ.
const maxLeeway = 5 * time.Minute

// Rules are what every token of ours keeps. Audiences, Issuer and Lifetime are required.
type Rules struct {
	// Issuer is the name that we issue tokens under, their "iss".
	Issuer string
	// Audiences are our own names. A token is for us if its "aud" has one of them. What we issue is for the first.
	Audiences []string
	// Lifetime is the longest from "iat" to "exp", at most MaxLifetime.
	Lifetime time.Duration
	// Leeway is by how much the issuer's clock may differ from ours, 0 to 5 minutes. It is added once to each comparison.
	Leeway time.Duration
}

func (r *Rules) check() error {
	switch {
	case r.Issuer == "" || len(r.Audiences) == 0 || slices.Contains(r.Audiences, ""):
		return fail("tokens need an issuer and an audience")
	case r.Lifetime < time.Second || r.Lifetime > MaxLifetime:
		return fail("the longest life of a token must be from 1 second to 24 hours")
	case r.Leeway < 0 || r.Leeway > maxLeeway:
		return fail("the leeway must be from 0 to 300 seconds")
	}
	return nil
}

// typeAccess is the type of an access token (RFC 9068 section 2.1). A token of another type, an approval's above all, is no
// credential.
const typeAccess = "at+jwt"

func isAccess(typ string) bool { return typ == typeAccess || typ == "application/"+typeAccess }

// times checks when a token was made and when it ends, and returns both.
//
// It is valid from the later of iat and nbf on, and strictly before exp; the leeway widens either end once. The length of its
// life has no leeway.
func (m members) times(now time.Time, leeway, life time.Duration) (issued, expires time.Time, err error) {
	issued, haveIssued := m.date("iat")
	expires, haveExpires := m.date("exp")
	if !haveIssued || !haveExpires {
		return issued, expires, invalid("date")
	}
	begins := issued
	if _, ok := m["nbf"]; ok {
		nbf, isDate := m.date("nbf")
		if !isDate {
			return issued, expires, invalid("date")
		}
		if nbf.After(begins) {
			begins = nbf
		}
	}
	switch {
	case !expires.After(begins), expires.Sub(issued) > life:
		return issued, expires, invalid("lifetime")
	case begins.After(now.Add(leeway)):
		return issued, expires, invalid("not-yet")
	case !now.Before(expires.Add(leeway)):
		return issued, expires, invalid("expired")
	}
	return issued, expires, nil
}

// isFor reports whether one of the audiences is ours.
func (m members) isFor(ours []string) bool {
	if one, ok := m.text("aud"); ok {
		return slices.Contains(ours, one)
	}
	list, ok := m.list("aud")
	return ok && slices.ContainsFunc(list, func(a string) bool { return slices.Contains(ours, a) })
}

// principal reads the claims of a token of ours.
func (m members) principal() (*Principal, error) {
	p := &Principal{}
	for name, to := range map[string]*string{"sub": &p.Subject, "tenant_id": &p.Tenant, "jti": &p.Credential} {
		var ok bool
		if *to, ok = m.text(name); !ok {
			return nil, invalid("claim")
		}
	}
	if !isTokenID(p.Credential) {
		return nil, invalid("claim")
	}
	kind, ok := m.text("kind")
	if p.Kind = Kind(kind); !ok {
		return nil, invalid("kind")
	}
	if p.Owner, ok = m.text("owner"); !ok && (p.Kind != KindPerson || m["owner"] != nil) {
		return nil, invalid("owner")
	} else if !ok {
		p.Owner = p.Subject
	}
	list, ok := m.list("scopes")
	if !ok {
		return nil, invalid("scope")
	}
	var err error
	if p.Scopes, err = ParseScopes(list); err != nil {
		return nil, invalid("scope")
	}
	if _, has := m["groups"]; has {
		if p.Groups, ok = m.list("groups"); !ok {
			return nil, invalid("group")
		}
	}
	if err := p.Check(); err != nil {
		return nil, &Error{Reason: ReasonInvalid, Why: "principal", Err: err}
	}
	return p, nil
}

// isTokenID reports whether s is plain: no id of a token of ours can be taken for one that another issuer made, which has a
// slash in it.
func isTokenID(s string) bool {
	return len(s) <= 128 && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}
