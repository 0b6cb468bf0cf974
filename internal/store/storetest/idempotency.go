package storetest

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func keyedRow(tenant, id string) idempotency.Row {
	return idempotency.Row{
		Tenant: tenant, ID: id, Principal: "agent:a", Body: bytes.Repeat([]byte{1}, 32), Running: true, Until: Start().Add(time.Hour),
	}
}

// A key is taken once, given up without an answer to be taken again, or kept with one; for its tenant alone.
func testIdempotency(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	r := keyedRow(Tenant, "k1")
	begin := func(s Store, r idempotency.Row, now time.Time, mine bool) idempotency.Row {
		t.Helper()
		got, ok, err := s.BeginKey(t.Context(), r, now, 2)
		if err != nil || ok != mine {
			t.Fatalf("%v, %v", ok, err)
		}
		return got
	}
	if d := cmp.Diff(r, begin(s, r, Start(), true)); d != "" {
		t.Fatal(d)
	}
	begin(other, r, Start(), false)
	begin(s, keyedRow(OtherTenant, "k1"), Start(), true)
	must(t, other.EndKey(t.Context(), Tenant, "k1", nil))
	different := r
	different.Body = bytes.Repeat([]byte{2}, 32)
	if got := begin(s, different, Start(), false); got.Running || !bytes.Equal(got.Body, r.Body) {
		t.Fatalf("%+v", got)
	}
	begin(s, r, Start(), true)
	must(t, s.EndKey(t.Context(), Tenant, "k1", []byte("cf1.k.sealed")))
	want := r
	want.Running, want.Answer = false, []byte("cf1.k.sealed")
	if d := cmp.Diff(want, begin(other, r, Start(), false)); d != "" {
		t.Fatal(d)
	}
	// A rotation of the vault's keys finds the answer.
	sealed := sealedRows(t, s, 10)["idempotency "+Tenant+" "+idempotency.SealKind+" k1 1"]
	if n, err := s.Reseal(t.Context(), []vault.Resealed{{SealedRow: sealed, New: []byte("cf1.n.sealed")}}); err != nil || n != 1 {
		t.Fatalf("sealed again: %d, %v", n, err)
	}
	begin(s, keyedRow(Tenant, "k2"), Start(), true)
	if _, _, err := s.BeginKey(t.Context(), keyedRow(Tenant, "k3"), Start(), 2); !errors.Is(err, idempotency.ErrTooMany) {
		t.Fatalf("beyond the bound: %v", err)
	}
	begin(s, r, Start(), false) // one that is there needs no room
	late := r
	late.Until = Start().Add(3 * time.Hour)
	begin(s, late, Start().Add(time.Hour), true) // what was kept is forgotten
	for name, err := range map[string]error{
		"ended twice": errors.Join(s.EndKey(t.Context(), Tenant, "k1", nil), s.EndKey(t.Context(), Tenant, "k1", nil)),
		"never begun": s.EndKey(t.Context(), Tenant, "k9", nil),
	} {
		if !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]idempotency.Row{
		"no tenant": keyedRow("", "k"), "no id": keyedRow(Tenant, ""), "no body": {Tenant: Tenant, ID: "k", Principal: "agent:a", Until: Start()},
		"a NUL": keyedRow(Tenant, "k\x00"), "bad UTF-8": keyedRow(strings.Repeat("\xff", 3), "k"),
	} {
		if _, _, err := s.BeginKey(t.Context(), bad, Start(), 2); err == nil && name != "a NUL" && name != "bad UTF-8" {
			t.Errorf("%s: taken", name)
		}
	}
}

// Of those who take a key at once, one has it.
func testIdempotencyContenders(t *testing.T, b Backend) {
	clock := NewClock()
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	var won atomic.Int64
	var wait sync.WaitGroup
	for i := range 32 {
		wait.Go(func() {
			_, mine, err := stores[i%2].BeginKey(t.Context(), keyedRow(Tenant, "k"), Start(), 10)
			if err != nil {
				t.Error(err)
			}
			if mine {
				won.Add(1)
			}
		})
	}
	wait.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d have the key", won.Load())
	}
}
