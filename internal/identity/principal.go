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
	Groups     []string  // of approvers that it belongs to; nobody changes the list
	Credential string    // the id of what it came with: a token's jti, a key's id
	ExpiresAt  time.Time // of the credential
}

// Actor returns the name under which the principal proposes and decides, with its kind: two kinds never share one.
func (p *Principal) Actor() string { return string(p.Kind) + ":" + p.Subject }

// Answers returns the actor's name of the person who answers for the principal.
func (p *Principal) Answers() string { return string(KindPerson) + ":" + p.Owner }

// Run names the run that the principal's calls through a door are counted in: what its credential does in a day.
func (p *Principal) Run(door string, now time.Time) string {
	return door + "/" + p.Credential + "/" + now.UTC().Format(time.DateOnly)
}

// Check reports what is wrong with a principal, as a coded error: each is of one tenant, has a name, a kind and an owner, and
// an agent can't decide, nor administer those who do.
func (p *Principal) Check() error {
	for _, name := range []string{p.Tenant, p.Subject, p.Owner, p.Credential} {
		if err := counterfoil.CheckIdentity(name); err != nil {
			return err
		}
	}
	for _, name := range p.Groups {
		if err := counterfoil.CheckIdentity(name); err != nil {
			return err
		}
	}
	switch p.Kind {
	case KindService:
		return nil
	case KindPerson:
		if p.Owner != p.Subject {
			return fail("a person answers for themselves and has no other owner")
		}
		return nil
	case KindAgent:
		for _, s := range []Scope{ScopeApprovalsDecide, ScopeTenantAdmin, ScopeSystemAdmin} {
			if p.Scopes.Has(s) {
				return fail("an agent can't hold the scope " + string(s))
			}
		}
		return nil
	default:
		return fail("this kind of principal is not known")
	}
}

func fail(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg}
}
