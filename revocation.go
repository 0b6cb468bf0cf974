package counterfoil

import "slices"

// What is revoked is named by a digest, so that a ledger compares without reading: an approval, a policy (or the rules that
// it was made of) and a standing grant by their own digests, the others by those below.

// ActorSubject returns what a revocation of a principal names, whether it proposes or approves.
func ActorSubject(actor string) Digest { return digest(domainActor, appendString(nil, actor)) }

// KeySubject returns what a revocation of a key names.
func KeySubject(id KeyID) Digest { return digest(domainKeyID, appendString(nil, string(id))) }

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
