package counterfoil_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

// revokedRing is the ring with one role's key revoked.
func revokedRing(t testing.TB, role counterfoil.Role, why counterfoil.RevocationReason, when time.Time) *counterfoil.KeyRing {
	t.Helper()
	keys := allKeys(t).Keys()
	for i := range keys {
		if keys[i].Role == role {
			keys[i].Revoked = &counterfoil.Revocation{At: when, Why: why}
		}
	}
	return mustPublicRing(t, keys...)
}

// A superseded key stands behind what it signed before, a compromised one behind nothing. Approver, policy and ledger keys
// are judged at the instant of the use, the receipt's key at its own.
func TestRevokedKeys(t *testing.T) {
	t.Parallel()
	used, issued := at(20, 0, 10, 0), at(20, 0, 20, 0)
	person := newLab(t)
	policies := newLab(t)
	req := request()
	req.Authority = counterfoil.AuthorityPolicy
	policies.x.Approval = reparsed(t, mustApprove(t, policies.x.DryRun, req, policyKey(t)))
	granted := grantLab(t, mustGrant(t, nil))
	bundles := map[*lab][]byte{}
	for _, l := range []*lab{person, policies, granted} {
		l.clock = used
		l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			l.clock = issued
			return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
		})
		bundles[l] = l.bundle().Encode()
	}
	for _, c := range []struct {
		l    *lab
		role counterfoil.Role
		act  time.Time
	}{
		{person, counterfoil.RoleApprover, used}, {policies, counterfoil.RolePolicy, used}, {granted, counterfoil.RolePolicy, used},
		{granted, counterfoil.RoleApprover, used}, {person, counterfoil.RoleLedger, used}, {person, counterfoil.RoleReceipt, issued},
	} {
		for _, x := range []struct {
			why  counterfoil.RevocationReason
			when time.Time
			code counterfoil.Code
		}{
			{counterfoil.RevokedSuperseded, c.act.Add(time.Millisecond), ""},
			{counterfoil.RevokedSuperseded, c.act, counterfoil.CodeRevoked},
			{counterfoil.RevokedSuperseded, c.act.Add(-time.Second), counterfoil.CodeRevoked},
			{counterfoil.RevokedCompromised, c.act.Add(-time.Second), counterfoil.CodeRevoked},
			{counterfoil.RevokedCompromised, c.act.AddDate(1, 0, 0), counterfoil.CodeRevoked},
		} {
			_, err := counterfoil.VerifyBundle(bundles[c.l], revokedRing(t, c.role, x.why, x.when), tomorrow())
			if counterfoil.CodeOf(err) != x.code || err != nil && !strings.Contains(err.Error(), string(x.why)) {
				t.Errorf("%s key %s at %s: got %v", c.role, x.why, x.when, err)
			}
		}
	}
	// The receipt's key may be gone when the use is spent long after; other keys don't matter to it.
	_, err := counterfoil.VerifyBundle(bundles[person], revokedRing(t, counterfoil.RolePolicy, counterfoil.RevokedCompromised, used), tomorrow())
	noError(t, err)
}

// A key acts until the first of its end and its revocation.
func TestRevokedKeys_until(t *testing.T) {
	t.Parallel()
	first, last := now().Add(time.Second), now().Add(time.Minute)
	for _, c := range []struct{ end, revoked time.Time }{{first, last}, {last, first}, {first, first}} {
		l := newLab(t)
		keys := allKeys(t).Keys()
		for i := range keys {
			if keys[i].Role == counterfoil.RoleApprover {
				keys[i].NotAfter, keys[i].Revoked = c.end, &counterfoil.Revocation{At: c.revoked, Why: counterfoil.RevokedSuperseded}
			}
		}
		l.x.Keys = mustPublicRing(t, keys...)
		if u := l.use(); !u.KeysUntil.Equal(first) {
			t.Errorf("until %s", u.KeysUntil)
		}
	}
}

// What a revoked key signed is refused before anything is spent, and a key that is superseded soon bounds the use.
func TestRevokedKeys_execute(t *testing.T) {
	t.Parallel()
	for _, why := range []counterfoil.RevocationReason{counterfoil.RevokedSuperseded, counterfoil.RevokedCompromised} {
		l := newLab(t)
		l.x.Keys = revokedRing(t, counterfoil.RoleApprover, why, now())
		l.refused(counterfoil.CodeRevoked)
	}
	l := newLab(t)
	end := now().Add(time.Second)
	l.x.Keys = revokedRing(t, counterfoil.RoleApprover, counterfoil.RevokedSuperseded, end)
	_, _, err := l.execute()
	noError(t, err)
	if !l.ledger.use.KeysUntil.Equal(end) {
		t.Errorf("the keys act until %s", l.ledger.use.KeysUntil)
	}
	no := counterfoil.DecisionParams{Tenant: "acme", Audience: "log.example.test", Verb: counterfoil.VerbDeny, Subject: l.x.DryRun.Digest()}
	d, err := counterfoil.Decide(t.Context(), no, approverKey(t), now())
	noError(t, err)
	noError(t, d.Verify(l.x.Keys, no))
	wantCode(t, d.Verify(revokedRing(t, counterfoil.RoleApprover, counterfoil.RevokedSuperseded, now()), no), counterfoil.CodeRevoked)
}
