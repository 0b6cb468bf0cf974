package identity

import (
	"context"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A Revocation ends credentials before their time: one by its id, or all that a subject has been issued so far. Exactly one of
// Credential and Subject is set.
type Revocation struct {
	Tenant     string
	Credential string    // Principal.Credential
	Subject    string    // Principal.Subject: what was issued to it up to At
	At         time.Time // when it was revoked
	Until      time.Time // from when on nothing that it ends could be valid anyway, so that it may be forgotten
}

// Target returns which of the two a revocation ends, "credential" or "subject", and its name; "" if it is not exactly one.
func (r *Revocation) Target() (kind, name string) {
	switch {
	case r.Credential != "" && r.Subject == "":
		return "credential", r.Credential
	case r.Credential == "" && r.Subject != "":
		return "subject", r.Subject
	default:
		return "", ""
	}
}

// ErrNoTenant says that there is no such tenant.
const ErrNoTenant = sentinel("there is no such tenant")

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

// Store keeps what was revoked. Its errors are coded ones.
type Store interface {
	// RevokeCredential records a revocation and moves the tenant's epoch, with the event, in one commit that is durable when it returns.
	// What is revoked already stays so: a second revocation of a credential changes nothing and has no event; one of a subject
	// counts from the later At. For a tenant that isn't there it is ErrNoTenant. The same commit forgets the tenant's revocations
	// whose Until is past, both by r.At and by the tenant's own log: a clock that went wrong brings nothing back to life.
	RevokeCredential(ctx context.Context, r Revocation, e counterfoil.Event) error
	// CredentialRevoked reports whether a credential that was issued at a time to a subject is revoked, by its id or by its
	// subject. It reads what was committed before the call, by whichever process.
	CredentialRevoked(ctx context.Context, tenant, credential, subject string, issued time.Time) (bool, error)
}
