package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// revocation makes a decision to revoke.
func revocation(t testing.TB, subject counterfoil.Digest, why counterfoil.RevocationReason, at time.Time) []byte {
	t.Helper()
	d, err := counterfoil.Decide(context.Background(), counterfoil.DecisionParams{
		Tenant: Tenant, Audience: Audience, Verb: counterfoil.VerbRevoke, Subject: subject, Why: why, Reason: "",
	}, Key(counterfoil.RoleApprover), at)
	if err != nil {
		t.Fatal(err)
	}
	return d.Envelope()
}

func revoke(t testing.TB, s Store, clock *Clock, subject counterfoil.Digest) error {
	t.Helper()
	return s.Revoke(context.Background(), Tenant, subject, revocation(t, subject, counterfoil.RevokedSuperseded, clock.Now()),
		event(t, counterfoil.PhaseRevoked, "revocation"))
}

// A use is refused for each of its guards, over all handles and after a restart; what was spent before is settled.
func testRevoke(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	l := &Ledger{Store: s, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(t.Context(), "run-a")
	must(t, err)
	if len(l.Use.Guards) < 5 {
		t.Fatalf("the boundary names %d guards", len(l.Use.Guards))
	}
	spend := func(at Store, step string, guards []counterfoil.Digest) error {
		u := l.Use
		u.Step, u.ExecutionID, u.Guards = step, "run-"+step, guards
		_, err := at.Spend(t.Context(), gateway.Spending{Use: u, Started: event(t, counterfoil.PhaseStarted, u.ExecutionID)})
		return err
	}
	for i := range l.Use.Guards {
		guards := slices.Clone(l.Use.Guards)
		guards[i] = counterfoil.ActorSubject(fmt.Sprintf("agent:%d", i))
		must(t, spend(other, fmt.Sprintf("before-%d", i), guards))
		must(t, revoke(t, s, clock, guards[i]))
		events := len(check(t, s))
		for _, at := range []Store{s, other} {
			wantCode(t, spend(at, fmt.Sprintf("after-%d", i), guards), counterfoil.CodeRevoked)
			wantCode(t, spend(at, fmt.Sprintf("before-%d", i), guards), counterfoil.CodeAlreadyUsed)
		}
		if n := len(check(t, s)); n != events {
			t.Fatalf("a refused use left %d events", n-events)
		}
		must(t, spend(other, fmt.Sprintf("unguarded-%d", i), nil))
	}
	// Another tenant revokes for itself.
	foreign, err := counterfoil.NewEvent(counterfoil.PhaseRevoked, Names(), counterfoil.EventParams{
		Tenant: "other", Audience: Audience, ExecutionID: "revocation",
	})
	must(t, err)
	must(t, s.Revoke(t.Context(), "other", l.Use.Guards[0], []byte("signed"), foreign))
	must(t, spend(other, "foreign", l.Use.Guards))
	// The boundary's own guards.
	must(t, revoke(t, s, clock, l.Case.Approval.Digest()))
	must(t, second(l.Finish(t.Context(), claim, clock.Now())))
	revoked := Approved(t, "b", clock.Now())
	must(t, revoke(t, s, clock, counterfoil.ActorSubject(actor)))
	must(t, other.Close())
	must(t, s.Close())
	_, err = (&Ledger{Store: b.Open(t, clock.Now, nil), Case: revoked}).Claim(t.Context(), "run-b")
	wantCode(t, err, counterfoil.CodeRevoked)
}

// Revoking again records what is new: another decision, never the same one twice. A refused one records nothing.
func testRevokeAgain(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	c := Approved(t, "a", clock.Now())
	subject := c.Approval.Digest()
	first := revocation(t, subject, counterfoil.RevokedSuperseded, clock.Now())
	worse := revocation(t, subject, counterfoil.RevokedCompromised, clock.Now())
	e := event(t, counterfoil.PhaseRevoked, "revocation")
	for _, decision := range [][]byte{first, first, worse, first, worse} {
		must(t, s.Revoke(t.Context(), Tenant, subject, decision, e))
	}
	wantPhases(t, s, "revoked", "revoked")
	all, err := s.Revocations(t.Context(), Tenant, subject)
	must(t, err)
	if !slices.EqualFunc(all, [][]byte{first, worse}, bytes.Equal) {
		t.Fatalf("%d decisions", len(all))
	}
	for _, tenant := range []string{"other", "", "LOCAL"} {
		if all, err := s.Revocations(t.Context(), tenant, subject); err != nil || len(all) != 0 {
			t.Errorf("%q has %d: %v", tenant, len(all), err)
		}
	}
	if all, err := s.Revocations(t.Context(), Tenant, c.Policy.Digest()); err != nil || len(all) != 0 {
		t.Errorf("another subject has %d: %v", len(all), err)
	}
	for name, err := range map[string]error{
		"no tenant":           s.Revoke(t.Context(), "", subject, first, e),
		"no subject":          s.Revoke(t.Context(), Tenant, counterfoil.Digest{}, first, e),
		"no decision":         s.Revoke(t.Context(), Tenant, subject, nil, e),
		"an event of another": s.Revoke(t.Context(), "other", subject, first, e),
	} {
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantPhases(t, s, "revoked", "revoked")
}

// One approval of many steps is revoked while its steps are spent: each spending comes before the revocation or is refused.
// The log shows the one order that there was.
func testRevokeRace(t *testing.T, b Backend) {
	clock := NewClock()
	const handles, rounds = 8, 4
	var stores []Store
	for range handles {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	for round := range rounds {
		use := spentUse(t, stores[0], clock, fmt.Sprintf("race-%d", round))
		from := len(check(t, stores[0]))
		var won, refused atomic.Int32
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for i, s := range stores {
			wg.Go(func() {
				<-ready
				if i == handles/2 {
					if err := revoke(t, s, clock, use.Approval); err != nil {
						t.Error(err)
					}
				}
				for j := range 4 {
					u := use
					u.Step, u.ExecutionID = fmt.Sprintf("step-%d-%d", i, j), fmt.Sprintf("run-%d-%d-%d", round, i, j)
					switch _, err := s.Spend(t.Context(), gateway.Spending{Use: u, Started: event(t, counterfoil.PhaseStarted, u.ExecutionID)}); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, counterfoil.CodeRevoked):
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		close(ready)
		wg.Wait()
		log := check(t, stores[0])[from:]
		at := slices.Index(log, "revoked")
		if at != int(won.Load()) || len(log) != at+1 || won.Load()+refused.Load() != handles*4 || refused.Load() < 4 {
			t.Fatalf("%d won, %d were refused, and the log has %v", won.Load(), refused.Load(), log)
		}
	}
}

// spentUse spends a case and returns its use, of which tests make others.
func spentUse(t *testing.T, s Store, clock *Clock, name string) counterfoil.Use {
	t.Helper()
	l := &Ledger{Store: s, Case: Approved(t, name, clock.Now())}
	_, err := l.Claim(t.Context(), "run-"+name)
	must(t, err)
	return l.Use
}

// A use that comes after another step is refused until that step, of the same approval, has a receipt of success.
func testOrder(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	next := func(at Store, use counterfoil.Use, after, id string) error {
		use.Step, use.After, use.ExecutionID = "next", after, id
		_, err := at.Spend(t.Context(), gateway.Spending{Use: use, Started: event(t, counterfoil.PhaseStarted, id)})
		return err
	}
	failed := func(counterfoil.Work) (counterfoil.Result, error) { return counterfoil.Result{Failed: true}, nil }
	lost := func(counterfoil.Work) (counterfoil.Result, error) { return counterfoil.Result{}, errors.New("lost") }
	for name, c := range map[string]struct {
		does executor
		want counterfoil.Code
	}{
		"succeeded": {done, ""}, "failed": {failed, counterfoil.CodePolicyDenied}, "indeterminate": {lost, counterfoil.CodePolicyDenied},
	} {
		l := &Ledger{Store: s, Case: Approved(t, name, clock.Now())}
		claim, err := l.Claim(t.Context(), "run-"+name)
		must(t, err)
		wantCode(t, next(other, l.Use, counterfoil.CallStep, "next-"+name), counterfoil.CodePolicyDenied) // no receipt yet
		must(t, second(l.settle(t.Context(), claim, c.does, clock.Now())))
		wantCode(t, next(other, l.Use, "missing", "next-"+name), counterfoil.CodePolicyDenied)
		stranger := l.Use
		stranger.Approval = counterfoil.ResultDigest([]byte(name))
		wantCode(t, next(other, stranger, counterfoil.CallStep, "next-"+name), counterfoil.CodePolicyDenied)
		events := len(check(t, s))
		err = next(other, l.Use, counterfoil.CallStep, "next-"+name)
		if counterfoil.CodeOf(err) != c.want {
			t.Errorf("after one that %s: %v", name, err)
		}
		if n := len(check(t, s)) - events; (n == 1) != (c.want == "") {
			t.Errorf("after one that %s: %d events", name, n)
		}
	}
}

// A standing grant is used as often as it says, over all approvals and handles; what is refused does not count.
func testGrantUses(t *testing.T, b Backend) {
	clock := NewClock()
	const handles, most = 8, 5
	var stores []Store
	for range handles {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	use := spentUse(t, stores[0], clock, "a")
	use.Grant, use.GrantUses = counterfoil.ResultDigest([]byte("grant")), most
	spend := func(s Store, u counterfoil.Use, id string) error {
		u.Step, u.ExecutionID = id, "run-"+id
		_, err := s.Spend(t.Context(), gateway.Spending{Use: u, Started: event(t, counterfoil.PhaseStarted, u.ExecutionID)})
		return err
	}
	expired := use
	expired.ExpiresAt = clock.Now()
	wantCode(t, spend(stores[0], expired, "expired"), counterfoil.CodeApprovalExpired)
	var won, refused atomic.Int32
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			for j := range 3 {
				switch err := spend(s, use, fmt.Sprintf("%d-%d", i, j)); {
				case err == nil:
					won.Add(1)
				case counterfoil.CodeOf(err) == counterfoil.CodePolicyDenied:
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if won.Load() != most || refused.Load() != handles*3-most {
		t.Fatalf("%d won and %d were refused", won.Load(), refused.Load())
	}
	use.Grant = counterfoil.ResultDigest([]byte("another grant"))
	must(t, spend(stores[0], use, "other"))
	check(t, stores[0])
}
