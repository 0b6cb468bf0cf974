package counterfoil

import "time"

// A RevocationReason says why a key was revoked. The zero reason is none.
type RevocationReason string

// The reasons.
const (
	RevokedSuperseded  RevocationReason = "superseded"  // another key took its place: what it signed before stands
	RevokedCompromised RevocationReason = "compromised" // somebody else may have it: no time that it signed can be believed
)

// A Revocation says from when on a key no longer acts, and why.
type Revocation struct {
	At  time.Time
	Why RevocationReason
}

// check returns a sentence about what is wrong with a revocation, or "".
func (v *Revocation) check() string {
	switch {
	case v.Why != RevokedSuperseded && v.Why != RevokedCompromised:
		return "the reason for the key's revocation is not known"
	case !validInstant(v.At):
		return "a key was revoked at a time"
	}
	return ""
}

// MayAct returns an error unless the key may act in tenant at t, as far as the key itself says: its tenants, its window, and that
// it was not revoked. The role is for the caller to ask about. A signature of a compromised key proves nothing about when
// it was made: it is refused at every instant, because only the place of the signed document in a log could show it.
func (k *PublicKey) MayAct(tenant string, t time.Time) error {
	if v := k.Revoked; v != nil {
		switch {
		case v.Why != RevokedSuperseded:
			return fail(CodeRevoked, "the key that signed this is revoked as compromised, and there is no log proof that it signed before")
		case !t.Before(v.At):
			return fail(CodeRevoked, "the key that signed this was superseded before")
		}
	}
	if !k.actsFor(tenant) || t.Before(k.NotBefore) || !k.NotAfter.IsZero() && !t.Before(k.NotAfter) {
		return fail(CodeSignatureInvalid, "the key that signed this may not act for this tenant at this time")
	}
	return nil
}

// validAt reports whether the key may act in tenant at t.
func (k *PublicKey) validAt(tenant string, t time.Time) bool { return k.MayAct(tenant, t) == nil }

// until returns the instant from which on the key no longer acts, zero for none.
func (k *PublicKey) until() time.Time {
	if v := k.Revoked; v != nil && (k.NotAfter.IsZero() || v.At.Before(k.NotAfter)) {
		return v.At
	}
	return k.NotAfter
}
