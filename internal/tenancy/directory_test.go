package tenancy_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// A broken store answers nothing when it is told so.
type broken struct {
	tenancy.Store
	down  bool
	reads int
}

func (b *broken) Tenant(ctx context.Context, id string) (tenancy.Record, error) {
	b.reads++
	if b.down {
		return tenancy.Record{}, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "down"}
	}
	return b.Store.Tenant(ctx, id)
}

func directory(t *testing.T) (*tenancy.Directory, *broken, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: clock.Now, Names: storetest.Names(),
	})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	b := &broken{Store: s}
	return tenancy.New(tenancy.Options{
		Store: b, Names: storetest.Names(), Audience: storetest.Audience, Now: clock.Now, Rand: rand.Reader, Lag: time.Second,
	}), b, clock
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	d, _, _ := directory(t)
	s := tenancy.Settings{Tier: "premium", MaxBody: 1 << 20, Deny: []string{"secrets:*"}, Ask: []string{"tools:execute"}}
	made, err := d.Create(t.Context(), "person:root", "acme", s)
	must(t, err)
	if made.Epoch != 1 || !cmp.Equal(made.Settings, s) || !made.Denied.Has(identity.ScopeSecretsRead) || !made.Asked.Has(identity.ScopeToolsExecute) {
		t.Fatalf("%+v", made)
	}
	if _, err := d.Create(t.Context(), "person:root", "acme", s); !errors.Is(err, tenancy.ErrExists) {
		t.Fatal(err)
	}
	changed, err := d.Configure(t.Context(), "person:ada", "acme", tenancy.Settings{})
	must(t, err)
	if changed.Epoch != 2 || changed.Tier != "" || changed.Denied.Has(identity.ScopeSecretsRead) {
		t.Fatalf("%+v", changed)
	}
	if _, err := d.Configure(t.Context(), "person:ada", "other", tenancy.Settings{}); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
	if list, err := d.List(t.Context(), "", 10); err != nil || len(list) != 1 || list[0].ID != "acme" {
		t.Fatal(list, err)
	}
}

func TestDirectory_refused(t *testing.T) {
	t.Parallel()
	d, _, _ := directory(t)
	for _, id := range []string{"", "A", "a b", "-a", "a-", "a/b", "..", "ä", strings.Repeat("a", 64), "a\x00"} {
		if _, err := d.Create(t.Context(), "person:root", id, tenancy.Settings{}); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := d.Get(t.Context(), id); !errors.Is(err, gateway.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for name, s := range map[string]tenancy.Settings{
		"an unknown scope": {Deny: []string{"tools:fly"}}, "a wildcard": {Ask: []string{"*"}}, "a negative size": {MaxBody: -1},
		"a size without measure": {MaxBody: 1 << 40}, "a tier without a name": {Tier: " "},
	} {
		if _, err := d.Create(t.Context(), "person:root", "acme", s); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.Create(t.Context(), "person:root", "acme", tenancy.Settings{})
	must(t, err)
	for _, x := range []tenancy.Target{{}, {Kind: "everything"}, {Kind: tenancy.TargetTool}, {Kind: tenancy.TargetTenant, Name: "acme"}, {Kind: tenancy.TargetAgent, Name: "a\n"}} {
		if _, err := d.Freeze(t.Context(), "person:ada", "acme", x); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// Who froze something does not lift it, not even by freezing it again; another does.
func TestDirectory_freeze(t *testing.T) {
	t.Parallel()
	d, _, _ := directory(t)
	_, err := d.Create(t.Context(), "person:root", "acme", tenancy.Settings{})
	must(t, err)
	x := tenancy.Target{Kind: tenancy.TargetAgent, Name: "agent:build"}
	frozen, err := d.Freeze(t.Context(), "person:ada", "acme", x)
	must(t, err)
	again, err := d.Freeze(t.Context(), "person:bob", "acme", x)
	must(t, err)
	if again.Epoch != frozen.Epoch || again.Frozen[0].By != "person:ada" {
		t.Fatalf("%+v", again)
	}
	if f := again.FrozenFor(tenancy.Touch{Agent: "agent:build"}); f == nil || f.Kind != tenancy.TargetAgent {
		t.Fatal("it isn't frozen")
	}
	if again.FrozenFor(tenancy.Touch{Agent: "agent:other", Tool: "agent:build"}) != nil {
		t.Fatal("another is frozen")
	}
	if _, err := d.Unfreeze(t.Context(), "person:ada", "acme", x); !errors.Is(err, counterfoil.CodeSelfApproval) {
		t.Fatal(err)
	}
	thawed, err := d.Unfreeze(t.Context(), "person:bob", "acme", x)
	must(t, err)
	if len(thawed.Frozen) != 0 || thawed.Epoch != frozen.Epoch+1 {
		t.Fatalf("%+v", thawed)
	}
	// What a newer program froze is frozen for this one.
	odd := tenancy.Tenant{Frozen: []tenancy.Freeze{{Target: tenancy.Target{Kind: "planet", Name: "earth"}}}}
	if odd.FrozenFor(tenancy.Touch{}) == nil {
		t.Fatal("an unknown freeze stops nothing")
	}
}

// What is known serves for the lag and no longer: then the store is asked, and if it does not answer nobody is told anything.
func TestDirectory_lag(t *testing.T) {
	t.Parallel()
	d, b, clock := directory(t)
	_, err := d.Create(t.Context(), "person:root", "acme", tenancy.Settings{})
	must(t, err)
	b.reads = 0
	for range 5 {
		_, err := d.Get(t.Context(), "acme")
		must(t, err)
	}
	if b.reads != 0 {
		t.Fatalf("%d reads within the lag", b.reads)
	}
	b.down = true
	clock.Move(999 * time.Millisecond)
	_, err = d.Get(t.Context(), "acme")
	must(t, err)
	clock.Move(time.Millisecond)
	if _, err := d.Get(t.Context(), "acme"); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Fatal(err)
	}
	if _, err := d.Standing(t.Context(), gateway.Standing{Tenant: "acme"}); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Fatal(err)
	}
	// A clock that was set back makes nothing last.
	b.down = false
	_, err = d.Get(t.Context(), "acme")
	must(t, err)
	b.down = true
	clock.Move(-time.Hour)
	if _, err := d.Get(t.Context(), "acme"); err == nil {
		t.Fatal("what is known from the future serves")
	}
}
