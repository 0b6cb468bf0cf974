package identity_test

import (
	"testing"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// A token that was verified before: what a request pays.
func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b, nil)
	r := request("Authorization", "Bearer "+w.token())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.auth.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
	if n := w.store.reads.Load(); n != 1 {
		b.Fatalf("%d look-ups", n)
	}
}

// The same from all processors at once.
func BenchmarkAuthenticate_parallel(b *testing.B) {
	w := newWorld(b, nil)
	text := w.token()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := request("Authorization", "Bearer "+text)
		for pb.Next() {
			if _, err := w.auth.Authenticate(r); err != nil {
				b.Error(err)
			}
		}
	})
}

// A token that is seen for the first time, with its look-up.
func BenchmarkAuthenticate_first(b *testing.B) {
	for name, key := range map[string]func() (*identity.Key, error){
		"HS256": func() (*identity.Key, error) { return identity.NewHS256Key("", seed("secret")) },
		"EdDSA": func() (*identity.Key, error) { return identity.NewEdDSAKey(seed("ed")) },
		"ES256": func() (*identity.Key, error) { return identity.NewES256Key(seed("ec")) },
	} {
		b.Run(name, func(b *testing.B) {
			k, err := key()
			must(b, err)
			w := newWorld(b, func(o *identity.Options) { must(b, o.Keys.Replace(k)); o.Remembered = 1 })
			r, other := request("Authorization", "Bearer "+w.token()), request("Authorization", "Bearer "+w.token())
			b.ReportAllocs()
			for b.Loop() { // each drives the other out
				if _, err := w.auth.Authenticate(r); err != nil {
					b.Fatal(err)
				}
				r, other = other, r
			}
		})
	}
}

// A forged token.
func BenchmarkAuthenticate_forged(b *testing.B) {
	w := newWorld(b, nil)
	r := request("Authorization", "Bearer "+edForger("two").sign(b, header(edKey(b, "one").ID()), claims()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.auth.Authenticate(r); err == nil {
			b.Fatal("taken")
		}
	}
}

// A request with a remembered token allocates the principal that it gets, and nothing else.
func TestAuthenticate_allocations(t *testing.T) { //nolint:paralleltest // it measures what all of the process allocates
	w := newWorld(t, nil)
	r := request("Authorization", "Bearer "+w.token())
	if n := testing.AllocsPerRun(100, func() {
		if _, err := w.auth.Authenticate(r); err != nil {
			t.Error(err)
		}
	}); n > 2 && !testing.Short() { // the race detector allocates too
		t.Fatalf("%v allocations", n)
	}
}
