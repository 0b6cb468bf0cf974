package identity

import (
	"encoding/base64"
	"io"
	"time"

	"github.com/go-json-experiment/json"
)

// IssuerOptions are what an Issuer is made of. Every field is required.
type IssuerOptions struct {
	Rules Rules
	Keys  *KeyRing
	Now   func() time.Time
	Rand  io.Reader
}

// An Issuer makes access tokens. It proves nobody: whoever asks it has done that.
type Issuer struct{ o IssuerOptions }

// NewIssuer returns an issuer, or says what its options lack.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if o.Keys == nil || o.Keys.keys.Load() == nil || o.Now == nil || o.Rand == nil {
		return nil, fail("an issuer needs keys, a clock and randomness")
	}
	if err := o.Rules.check(); err != nil {
		return nil, err
	}
	return &Issuer{o}, nil
}

type tokenHeader struct {
	Alg Algorithm `json:"alg"`
	Kid string    `json:"kid"`
	Typ string    `json:"typ"`
}

type tokenClaims struct {
	Iss    string   `json:"iss"`
	Sub    string   `json:"sub"`
	Aud    string   `json:"aud"`
	Iat    int64    `json:"iat"`
	Exp    int64    `json:"exp"`
	Jti    string   `json:"jti"`
	Tenant string   `json:"tenant_id"`
	Kind   Kind     `json:"kind"`
	Owner  string   `json:"owner"`
	Scopes []string `json:"scopes"`
	Groups []string `json:"groups,omitzero"`
}

// Issue makes an access token for p that lives for life, in whole seconds, and returns its text and the principal that it
// speaks for: p with the token's id and end. What p has as Credential and ExpiresAt does not matter.
func (i *Issuer) Issue(p Principal, life time.Duration) (string, *Principal, error) {
	if life < time.Second || life%time.Second != 0 || life > i.o.Rules.Lifetime {
		return "", nil, fail("a token lives for whole seconds, at least 1, and not longer than the rules say")
	}
	var id [16]byte
	if _, err := io.ReadFull(i.o.Rand, id[:]); err != nil {
		return "", nil, unavailable("rand", err)
	}
	iat := i.o.Now().UTC().Truncate(time.Second)
	p.Credential, p.ExpiresAt = base64.RawURLEncoding.EncodeToString(id[:]), iat.Add(life)
	if err := p.Check(); err != nil {
		return "", nil, err
	}
	k := i.o.Keys.keys.Load().signs
	text, err := k.token(tokenHeader{k.algorithm, k.id, typeAccess}, &tokenClaims{
		Iss: i.o.Rules.Issuer, Sub: p.Subject, Aud: i.o.Rules.Audiences[0], Iat: iat.Unix(), Exp: p.ExpiresAt.Unix(),
		Jti: p.Credential, Tenant: p.Tenant, Kind: p.Kind, Owner: p.Owner, Scopes: p.Scopes.List(), Groups: p.Groups,
	})
	if err != nil {
		return "", nil, unavailable("sign", err)
	}
	if len(text) > maxToken {
		return "", nil, fail("the token would be too long; it has too many groups or too long names")
	}
	return text, &p, nil
}

// token signs a token.
func (k *Key) token(header tokenHeader, claims *tokenClaims) (string, error) {
	h, err := json.Marshal(header)
	if err != nil {
		return "", err
	}
	c, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	sig, err := k.method.Sign(signed, k.sign)
	if err != nil {
		return "", err
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}
