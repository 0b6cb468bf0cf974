package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

func governed(t testing.TB, tenant string) counterfoil.Event {
	t.Helper()
	e, err := counterfoil.NewEvent(counterfoil.PhaseGoverned, Names(), counterfoil.EventParams{
		Tenant: tenant, Audience: Audience, ExecutionID: "change-1", Actor: "person:ada", Code: "configure/tenant",
	})
	must(t, err)
	return e
}

// A tenant is made once, changed by whoever comes first, and its epoch is a mark that spendings are held against.
func testTenancy(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	r := tenancy.Record{ID: Tenant, Created: clock.Now().UTC().Truncate(time.Millisecond), Epoch: 1, Body: []byte(`{}`)}
	if _, err := s.Tenant(t.Context(), Tenant); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatalf("before it was made: %v", err)
	}
	if err := s.ChangeTenant(t.Context(), r, governed(t, Tenant)); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatalf("changed before it was made: %v", err)
	}
	must(t, s.CreateTenant(t.Context(), r, governed(t, Tenant)))
	if err := other.CreateTenant(t.Context(), r, governed(t, Tenant)); !errors.Is(err, tenancy.ErrExists) {
		t.Fatalf("made twice: %v", err)
	}
	for name, bad := range map[string]tenancy.Record{
		"no id": {Epoch: 1, Body: r.Body}, "no body": {ID: "x", Epoch: 1}, "another epoch": {ID: "x", Epoch: 2, Body: r.Body},
		"another's event": {ID: "x", Epoch: 1, Body: r.Body},
	} {
		wantCode(t, s.CreateTenant(t.Context(), bad, governed(t, Tenant)), counterfoil.CodeInvalidInput)
		if rows, err := s.Tenants(t.Context(), "", 10); err != nil || len(rows) != 1 {
			t.Fatalf("%s: %d tenants, %v", name, len(rows), err)
		}
	}
	got, err := other.Tenant(t.Context(), Tenant)
	must(t, err)
	if d := cmp.Diff(r, got); d != "" {
		t.Fatal(d)
	}
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			change := r
			change.Body = []byte(fmt.Sprint("change ", i))
			switch err := []Store{s, other}[i%2].ChangeTenant(t.Context(), change, governed(t, Tenant)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, gateway.ErrChanged):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err = s.Tenant(t.Context(), Tenant)
	must(t, err)
	if won.Load() != 1 || got.Epoch != 2 || bytes.Equal(got.Body, r.Body) {
		t.Fatalf("%d changes won, epoch %d", won.Load(), got.Epoch)
	}
	if mark, err := other.Mark(t.Context(), Tenant, tenancy.MarkEpoch); err != nil || mark != 2 {
		t.Fatalf("the mark is %d, %v", mark, err)
	}
	if events := check(t, s); len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
}

// Pages of tenants are complete, in order and bounded, over all tenants.
func testTenancyPages(t *testing.T, b Backend) {
	s := b.Open(t, NewClock().Now, nil)
	for _, id := range []string{"c", "a", "b"} {
		must(t, s.CreateTenant(t.Context(), tenancy.Record{ID: id, Created: Start(), Epoch: 1, Body: []byte(`{}`)}, governed(t, id)))
	}
	var got []string
	for after := ""; ; {
		page, err := s.Tenants(t.Context(), after, 2)
		must(t, err)
		for _, r := range page {
			got = append(got, r.ID)
			after = r.ID
		}
		if len(page) < 2 {
			break
		}
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, got); d != "" {
		t.Fatal(d)
	}
	if page, err := s.Tenants(t.Context(), "", -1); err != nil || len(page) != 0 {
		t.Fatalf("%d tenants for none, %v", len(page), err)
	}
}
