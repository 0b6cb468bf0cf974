package counterfoiltest

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
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

// A FaultySigner is a signer whose signature fails at a chosen call.
type FaultySigner struct {
	Signer  counterfoil.Signer
	Call    int  // that fails, counted from 1; 0 for every call
	Garbage bool // it answers with zeros instead of an error

	calls atomic.Int64
}

// Public implements counterfoil.Signer.
func (s *FaultySigner) Public() counterfoil.PublicKey { return s.Signer.Public() }

// Sign implements counterfoil.Signer.
func (s *FaultySigner) Sign(ctx context.Context, m counterfoil.Message) ([]byte, error) {
	switch call := s.calls.Add(1); {
	case s.Call != 0 && int64(s.Call) != call:
		return s.Signer.Sign(ctx, m)
	case s.Garbage:
		return make([]byte, 64), nil
	}
	return nil, ErrFault
}
