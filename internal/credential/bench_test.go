package credential_test

import (
	"context"
	"testing"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// BenchmarkPrincipal is what a request with a key that is remembered costs.
func BenchmarkPrincipal(b *testing.B) {
	s := &stub{}
	k, text := stubbed(b, s, storetest.NewClock().Now, func(context.Context, string) (int64, error) { return 1, nil })
	s.held.Epoch = 1
	for b.Loop() {
		if _, err := k.Principal(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	if s.reads != 1 {
		b.Fatalf("%d looks into the store", s.reads)
	}
}

// BenchmarkHash is what a login costs.
func BenchmarkHash(b *testing.B) {
	o := cheap()
	o.Cost = credential.DefaultCost()
	h, err := credential.NewHasher(o)
	must(b, err)
	for b.Loop() {
		if !h.Same(b.Context(), pass) {
			b.Fatal("another password")
		}
	}
}
