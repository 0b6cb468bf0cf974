package counterfoiltest

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

// Key returns a key of the given role and owner for the given tenants, valid since the year 2000, without an end. The same
// role and owner always have the same key: anybody can sign with it.
func Key(t testing.TB, role counterfoil.Role, owner string, tenants ...string) *counterfoil.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte("counterfoiltest\n" + string(role) + "\n" + owner))
	k, err := counterfoil.NewPrivateKey(seed[:], counterfoil.KeyParams{
		Role: role, Owner: owner, Custody: counterfoil.CustodyHolder, Tenants: tenants,
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Time{},
	})
	if err != nil {
		t.Fatalf("key of %s %q: %v", role, owner, err)
	}
	return k
}

// Pseudonyms returns pseudonyms under a key that everybody knows.
func Pseudonyms(t testing.TB) *counterfoil.Pseudonyms {
	t.Helper()
	key := sha256.Sum256([]byte("counterfoiltest\npseudonyms"))
	p, err := counterfoil.NewPseudonyms("test", key[:])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An Executor is an executor made of a function. It redeems the claim and hands the function the work.
type Executor struct {
	Name string
	Does counterfoil.Effect
	Run  func(context.Context, counterfoil.Work) (counterfoil.Result, error)
}

// Tool implements counterfoil.Executor.
func (x *Executor) Tool() string { return x.Name }

// Effect implements counterfoil.Executor.
func (x *Executor) Effect() counterfoil.Effect { return x.Does }

// Execute implements counterfoil.Executor.
func (x *Executor) Execute(ctx context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	w, err := c.Redeem()
	if err != nil {
		return counterfoil.Result{}, err
	}
	return x.Run(ctx, w)
}
