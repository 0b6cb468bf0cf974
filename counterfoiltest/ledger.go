// Package counterfoiltest has what the tests of programs that use the boundary need: a ledger in memory, keys, an executor;
// the same with faults at a chosen point (FaultyLedger, FaultySigner, Behaviour, Clock); and Check, which looks at all that
// is recorded after a test. Nothing in it outlives the process: it is not for production.
package counterfoiltest

import (
	"context"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A Ledger keeps its records in memory. Its zero value is not ready; NewLedger makes one.
type Ledger struct {
	audience string
	now      func() time.Time
	key      counterfoil.Signer

	mu     sync.Mutex
	uses   map[use]*record
	grants map[counterfoil.Digest]int64 // how often each was used
	gone   map[subject]bool             // revoked
	events [][]byte
	head   time.Time
}

type use struct {
	approval counterfoil.Digest
	step     string
}

type subject struct {
	tenant string
	digest counterfoil.Digest
}

type record struct {
	consumption *counterfoil.Consumption
	receipt     *counterfoil.Receipt
}

// NewLedger makes an empty ledger of an audience. It signs with key, which has the role ledger, and reads the time from now.
func NewLedger(audience string, key counterfoil.Signer, now func() time.Time) *Ledger {
	return &Ledger{audience: audience, now: now, key: key, uses: map[use]*record{}, gone: map[subject]bool{}, grants: map[counterfoil.Digest]int64{}}
}

// Spend implements counterfoil.Ledger.
func (l *Ledger) Spend(ctx context.Context, u counterfoil.Use, started counterfoil.Event) (*counterfoil.Consumption, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.Audience != l.audience {
		return nil, counterfoil.CodeIntegrityFailed // an approval runs once, not once on each ledger
	}
	id := use{u.Approval, u.Step}
	if _, spent := l.uses[id]; spent {
		return nil, counterfoil.CodeAlreadyUsed
	}
	for _, d := range u.Guards {
		if l.gone[subject{u.Tenant, d}] {
			return nil, counterfoil.CodeRevoked
		}
	}
	if u.After != "" {
		before := l.uses[use{u.Approval, u.After}]
		if before == nil || before.receipt == nil || before.receipt.Outcome() != counterfoil.OutcomeSucceeded {
			return nil, counterfoil.CodePolicyDenied
		}
	}
	u.GrantCount = l.grants[u.Grant] + 1
	c, err := u.Consume(ctx, l.now(), l.head, l.key)
	if err != nil {
		return nil, err
	}
	l.uses[id], l.grants[u.Grant] = &record{consumption: c}, u.GrantCount
	l.append(started.WithUse(c.Digest()), c.At())
	return c, nil
}

// Settle implements counterfoil.Ledger.
func (l *Ledger) Settle(_ context.Context, r *counterfoil.Receipt, completed counterfoil.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec, spent := l.uses[use{r.ApprovalDigest(), r.Step()}]
	if !spent || rec.consumption.Digest() != r.UseDigest() {
		return counterfoil.CodeIntegrityFailed
	}
	switch {
	case rec.receipt == nil:
		rec.receipt = r
		l.append(completed, l.now())
	case rec.receipt.Digest() != r.Digest():
		return counterfoil.CodeAlreadyUsed
	}
	return nil
}

// Refuse implements counterfoil.Refuser.
func (l *Ledger) Refuse(_ context.Context, refused counterfoil.Event) error {
	if refused.Audience() != l.audience {
		return counterfoil.CodeIntegrityFailed // it belongs in another log
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(refused, l.now())
	return nil
}

// Revoke records a decision to revoke with its event. No later Spend gets past it. The caller has verified the decision
// (Decision.Verify): nothing of it is checked here.
func (l *Ledger) Revoke(d *counterfoil.Decision, revoked counterfoil.Event) error {
	if d == nil || d.Verb() != counterfoil.VerbRevoke {
		return counterfoil.CodeInvalidInput
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[subject{d.Tenant(), d.Subject()}] = true
	l.append(revoked, l.now())
	return nil
}

func (l *Ledger) append(e counterfoil.Event, at time.Time) {
	if at.After(l.head) {
		l.head = at
	}
	l.events = append(l.events, e.Seal(int64(len(l.events)+1), l.head))
}

// Events returns the sealed events, in order.
func (l *Ledger) Events() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]byte(nil), l.events...)
}

// Use returns the record of the use of an approval for a step, and its receipt; nil for none. A host resolves an unknown
// outcome with it.
func (l *Ledger) Use(approval counterfoil.Digest, step string) (*counterfoil.Consumption, *counterfoil.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rec := l.uses[use{approval, step}]; rec != nil {
		return rec.consumption, rec.receipt
	}
	return nil, nil
}

// Uses returns how many uses are spent.
func (l *Ledger) Uses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.uses)
}
