package counterfoil

import "slices"

// What is revoked is named by a digest, so that a ledger compares without reading: an approval, a policy (or the rules that
// it was made of) and a standing grant by their own digests, the others by those below.

// ActorSubject returns what a revocation of a principal names, whether it proposes or approves.
func ActorSubject(actor string) Digest { return digest(domainActor, appendString(nil, actor)) }

// KeySubject returns what a revocation of a key names.
func KeySubject(id KeyID) Digest { return digest(domainKeyID, appendString(nil, string(id))) }

// RestsOn returns all that the bundle's use rests on and a person can revoke, as revocations name it: the approval, its
// authority, its policy, its actor, its approvers and their keys. It is nil for a bundle that is not complete.
func (b *Bundle) RestsOn() []Digest {
	if !b.complete() {
		return nil
	}
	return guards(b.DryRun, b.Approval, b.Approval.claimed())
}

// RestsOn reports whether a use of the approval would rest on the subject, as a revocation names it.
func RestsOn(dry *DryRun, a *Approval, subject Digest) bool {
	return dry.made() && a != nil && a.env != nil && slices.Contains(guards(dry, a, a.claimed()), subject)
}

// claimed returns the keys that the approval's and its grant's signatures name, by their ids alone.
func (a *Approval) claimed() []PublicKey {
	signatures := a.env.signatures
	if a.grant != nil {
		signatures = slices.Concat(signatures, a.grant.env.signatures)
	}
	keys := make([]PublicKey, len(signatures))
	for i, s := range signatures {
		keys[i].ID = s.key
	}
	return keys
}

// guards returns everything that a use of the approval rests on, the keys that signed it among it. An approval's authority is
// what the person was shown, the policy's rules or a standing grant: revoking any of these takes the approval with it.
func guards(dry *DryRun, a *Approval, keys []PublicKey) []Digest {
	out := make([]Digest, 0, 5+2*len(keys))
	out = append(out, a.digest, dry.policy.digest, a.authority, ActorSubject(dry.plan.actor))
	if rules := dry.policy.rules; !rules.IsZero() && rules != a.authority {
		out = append(out, rules)
	}
	for _, approver := range a.approvers {
		out = append(out, ActorSubject(approver))
	}
	if g := a.grant; g != nil {
		out = append(out, ActorSubject(g.approver))
	}
	for _, k := range keys {
		if subject := KeySubject(k.ID); !slices.Contains(out, subject) {
			out = append(out, subject)
		}
	}
	return out
}
