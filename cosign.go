package counterfoil

import (
	"context"
	"slices"
	"time"
)

// A quorum is how many of whom must approve. The zero quorum asks for nobody.
type quorum struct {
	n         int64
	approvers []string
}

func readQuorum(r *reader, n value) quorum {
	if !r.has(n) {
		return quorum{}
	}
	var m [2]value
	r.members(n, m[:], "approvers", "n")
	q := quorum{approvers: r.list(m[0], 1, maxSignatures), n: r.countBetween(m[1], 1, maxSignatures)}
	if r.err == nil && q.n > int64(len(q.approvers)) {
		r.fail(m[1], "a quorum is no larger than the number of its approvers")
	}
	return q
}

// metBy reports whether enough of the quorum's approvers are among those named. That each of them has signed is checked
// with the signatures.
func (q quorum) metBy(approvers []string) bool {
	var n int64
	for _, who := range approvers {
		if slices.Contains(q.approvers, who) {
			n++
		}
	}
	return n >= q.n
}

// CoSign adds the signature of one more of the approvers that the approval names. What it approves, and so its digest,
// stays the same. Every signature is verified when the approval is used, none here: whose the other signatures are, only a ring
// can say. A host that lets one person sign with two keys gets an approval that can't be used.
//
// It fails with CodeInvalidInput for a key that has signed already or an approval that lacks no signature,
// CodeSignatureInvalid for a signer who is not one of the approvers, CodePolicyDenied when the policy no longer allows the
// plan, and CodeApprovalExpired.
func CoSign(ctx context.Context, dry *DryRun, approval *Approval, signer Signer, now time.Time) (*Approval, error) {
	key, err := publicOf(signer)
	if err != nil {
		return nil, err
	}
	p, err := PrepareCoSign(dry, approval, key, now)
	if err != nil {
		return nil, err
	}
	return p.sign(ctx, signer)
}

// PrepareCoSign does what CoSign does, for a signature that is made elsewhere with the key.
func PrepareCoSign(dry *DryRun, approval *Approval, key PublicKey, now time.Time) (*PendingApproval, error) {
	if !dry.made() || approval == nil || approval.env == nil {
		return nil, fail(CodeInvalidInput, "co-signing needs a dry run and an approval")
	}
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	if err := approval.checkIssue(dry, at); err != nil {
		return nil, err
	}
	has := func(s signature) bool { return s.key == key.ID }
	switch {
	case approval.kind != AuthorityPerson:
		return nil, fail(CodeInvalidInput, "only what persons approve is signed by several")
	case !slices.Contains(approval.approvers, key.Owner):
		return nil, fail(CodeSignatureInvalid, "the signer is not one of the approvers that the approval names")
	case slices.ContainsFunc(approval.env.signatures, has):
		return nil, fail(CodeInvalidInput, "this key has signed already")
	case len(approval.env.signatures) >= len(approval.approvers):
		return nil, fail(CodeInvalidInput, "the approval has all its signatures")
	}
	return approval.pending(approval.env, key), nil
}

// pending waits for a signature more than env has.
func (a *Approval) pending(env *envelope, key PublicKey) *PendingApproval {
	return &PendingApproval{env: env, role: a.kind.role(), key: key, finish: func(env *envelope) *Approval {
		c := *a
		c.env, c.digest = env, digest(domainApproval, env.payload)
		return &c
	}}
}

// Missing returns the number of signatures that the approval lacks.
func (a *Approval) Missing() int { return max(0, len(a.approvers)-len(a.env.signatures)) }
