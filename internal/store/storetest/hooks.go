package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func hookRow(tenant, id string) hooks.Row {
	return hooks.Row{Tenant: tenant, ID: id, Phase: hooks.PreCall, Version: 1, Body: []byte(`{}`), Secret: nil}
}

// hookStore is a store with two tenants.
func hookStore(t *testing.T, b Backend) (s, other Store) {
	t.Helper()
	clock := NewClock()
	s, other = b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	for _, id := range []string{Tenant, OtherTenant} {
		must(t, s.CreateTenant(t.Context(), tenancy.Record{ID: id, Created: Start(), Epoch: 1, Body: []byte(`{}`)}, governed(t, id)))
	}
	return s, other
}

// A hook is added, changed at the version that it has, and removed; each time with its event, and for its tenant alone.
func testHooks(t *testing.T, b Backend) {
	s, other := hookStore(t, b)
	first, second := hookRow(Tenant, "hook_a"), hookRow(Tenant, "hook_b")
	second.Phase, second.Secret = hooks.PostRequest, []byte("cf1.k.sealed")
	must(t, s.AddHook(t.Context(), second, governed(t, Tenant)))
	must(t, s.AddHook(t.Context(), first, governed(t, Tenant)))
	must(t, s.AddHook(t.Context(), hookRow(OtherTenant, "hook_a"), governed(t, OtherTenant)))
	all, err := other.Hooks(t.Context(), Tenant)
	must(t, err)
	if d := cmp.Diff([]hooks.Row{first, second}, all); d != "" {
		t.Fatal(d)
	}
	// A rotation of the vault's keys finds the secret.
	sealed := sealedRows(t, s, 10)["hook "+Tenant+" "+hooks.SealKind+" hook_b 1"]
	second.Secret = []byte("cf1.n.sealed")
	for want := 1; want >= 0; want-- {
		n, err := s.Reseal(t.Context(), []vault.Resealed{{SealedRow: sealed, New: second.Secret}})
		if err != nil || n != want {
			t.Fatalf("sealed again: %d, %v", n, err)
		}
	}
	change := second
	change.Body, change.Secret = []byte(`{"a":1}`), []byte("cf1.k.other")
	must(t, other.ChangeHook(t.Context(), change, governed(t, Tenant)))
	change.Version = 2
	got, err := s.Hook(t.Context(), Tenant, "hook_b")
	must(t, err)
	if d := cmp.Diff(change, got); d != "" {
		t.Fatal(d)
	}
	events := len(check(t, s))
	stale, absent, moved := second, hookRow(Tenant, "hook_c"), change
	moved.Phase = hooks.PreCall
	for name, bad := range map[string]struct{ err, want error }{
		"changed at an old version":     {s.ChangeHook(t.Context(), stale, governed(t, Tenant)), hooks.ErrChanged},
		"another phase":                 {s.ChangeHook(t.Context(), moved, governed(t, Tenant)), hooks.ErrChanged},
		"one that isn't there":          {s.ChangeHook(t.Context(), absent, governed(t, Tenant)), hooks.ErrNotFound},
		"another's":                     {s.ChangeHook(t.Context(), hookRow(OtherTenant, "hook_b"), governed(t, OtherTenant)), hooks.ErrNotFound},
		"another's, removed":            {s.DeleteHook(t.Context(), OtherTenant, "hook_b", governed(t, OtherTenant)), hooks.ErrNotFound},
		"one that isn't there, removed": {s.DeleteHook(t.Context(), Tenant, "hook_c", governed(t, Tenant)), hooks.ErrNotFound},
		"another's event":               {s.DeleteHook(t.Context(), Tenant, "hook_b", governed(t, OtherTenant)), counterfoil.CodeInvalidInput},
		"no tenant":                     {s.AddHook(t.Context(), hookRow("nobody", "x"), governed(t, "nobody")), identity.ErrNoTenant},
		"no body":                       {s.AddHook(t.Context(), hooks.Row{Tenant: Tenant, ID: "x", Phase: hooks.PreCall, Version: 1}, governed(t, Tenant)), counterfoil.CodeInvalidInput},
		"no id":                         {s.AddHook(t.Context(), hookRow(Tenant, ""), governed(t, Tenant)), counterfoil.CodeInvalidInput},
		"no phase":                      {s.AddHook(t.Context(), hooks.Row{Tenant: Tenant, ID: "x", Phase: "later", Version: 1, Body: []byte("x")}, governed(t, Tenant)), counterfoil.CodeInvalidInput},
	} {
		if !errors.Is(bad.err, bad.want) {
			t.Errorf("%s: %v", name, bad.err)
		}
	}
	if err := s.AddHook(t.Context(), first, governed(t, Tenant)); err == nil {
		t.Error("an id was given twice")
	}
	if n := len(check(t, s)); n != events {
		t.Errorf("what was refused left %d events", n-events)
	}
	must(t, s.DeleteHook(t.Context(), Tenant, "hook_b", governed(t, Tenant)))
	if _, err := other.Hook(t.Context(), Tenant, "hook_b"); !errors.Is(err, hooks.ErrNotFound) {
		t.Errorf("removed: %v", err)
	}
	if n := len(check(t, s)); n != events+1 {
		t.Errorf("%d events of a removal", n-events)
	}
	if all, err := s.Hooks(t.Context(), OtherTenant); err != nil || len(all) != 1 {
		t.Errorf("the other tenant has %d: %v", len(all), err)
	}
}

// The bound of a phase holds over all that add at once, and one change of a version wins.
func testHooksContenders(t *testing.T, b Backend) {
	s, other := hookStore(t, b)
	var added, changed atomic.Int64
	var wg sync.WaitGroup
	for i := range hooks.MaxPerPhase + 12 {
		wg.Go(func() {
			switch err := []Store{s, other}[i%2].AddHook(t.Context(), hookRow(Tenant, fmt.Sprintf("hook_%02d", i)), governed(t, Tenant)); {
			case err == nil:
				added.Add(1)
			case !errors.Is(err, hooks.ErrTooMany):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	elsewhere := hookRow(Tenant, "hook_z")
	elsewhere.Phase = hooks.PostCall
	must(t, s.AddHook(t.Context(), elsewhere, governed(t, Tenant)))
	for i := range 8 {
		wg.Go(func() {
			switch err := []Store{s, other}[i%2].ChangeHook(t.Context(), elsewhere, governed(t, Tenant)); {
			case err == nil:
				changed.Add(1)
			case !errors.Is(err, hooks.ErrChanged):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := s.Hooks(t.Context(), Tenant)
	must(t, err)
	if added.Load() != hooks.MaxPerPhase || len(all) != hooks.MaxPerPhase+1 || changed.Load() != 1 {
		t.Fatalf("%d were added, there are %d; %d changes won", added.Load(), len(all), changed.Load())
	}
	if n := len(check(t, s)); n != hooks.MaxPerPhase+3 {
		t.Fatalf("%d events", n)
	}
}
