package identity

import (
	"time"

	"github.com/counterfoil/counterfoil"
)

// A Kind is what a principal is. The zero Kind is none.
type Kind string

// The kinds.
const (
	KindAgent   Kind = "agent"
	KindPerson  Kind = "person"
	KindService Kind = "service"
)

// A Principal is who a credential speaks for. Only a verified credential makes one.
type Principal struct {
	Tenant     string
	Subject    string // unique within its tenant
	Kind       Kind
	Owner      string // the person who answers for it; itself for a person
	Scopes     Scopes
	Credential string    // the id of what it came with: a token's jti, a key's id
	ExpiresAt  time.Time // of the credential
}

// Actor returns the name under which the principal proposes and decides, with its kind: two kinds never share one.
func (p *Principal) Actor() string { return string(p.Kind) + ":" + p.Subject }

// Check reports what is wrong with a principal, as a coded error: each is of one tenant, has a name, a kind and an owner, and
// an agent can't decide.
func (p *Principal) Check() error {
	for _, name := range []string{p.Tenant, p.Subject, p.Owner, p.Credential} {
		if err := counterfoil.CheckIdentity(name); err != nil {
			return err
		}
	}
	switch p.Kind {
	case KindPerson, KindService:
		return nil
	case KindAgent:
		if p.Scopes.Has(ScopeApprovalsDecide) || p.Scopes.Has(ScopeTenantAdmin) {
			return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "an agent can't hold the scope " + string(ScopeApprovalsDecide)}
		}
		return nil
	default:
		return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "this kind of principal is not known"}
	}
}
