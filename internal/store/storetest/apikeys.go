package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

func hashOf(name string) credential.Hash { return sha256.Sum256([]byte(name)) }

func apiKey(tenant, id string) credential.KeyRow {
	return credential.KeyRow{Hash: hashOf(tenant + "/" + id), Key: credential.Key{
		ID: id, Tenant: tenant, Subject: "bot", Kind: identity.KindAgent, Owner: "ada", Scopes: []string{"tools:execute", "tools:read"},
		Label: "the bot's", Created: Start(), CreatedBy: "person:ada", Expires: Start().Add(time.Hour),
	}}
}

func both(t *testing.T, b Backend) (s, other Store, clock *Clock) {
	t.Helper()
	clock = NewClock()
	s, other = b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	tenant(t, s, Tenant)
	tenant(t, s, OtherTenant)
	return s, other, clock
}

func wantErr(t tb, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got %v, not %v", what, err, want)
	}
}

func epochOf(t testing.TB, s Store, tenant string) int64 {
	t.Helper()
	n, err := s.Mark(t.Context(), tenant, tenancy.MarkEpoch)
	must(t, err)
	return n
}

// A key is found by its hash, by whichever process, and is its tenant's and its owner's alone.
func testKeys(t *testing.T, b Backend) {
	s, other, clock := both(t, b)
	ctx := t.Context()
	k := apiKey(Tenant, "key_1")
	wantErr(t, "no tenant", s.AddKey(ctx, apiKey("nobody", "key_1"), governed(t, "nobody")), identity.ErrNoTenant)
	wantErr(t, "not there", second(s.KeyByHash(ctx, k.Hash)), credential.ErrNotFound)
	must(t, s.AddKey(ctx, k, governed(t, Tenant)))
	must(t, s.AddKey(ctx, apiKey(OtherTenant, "key_1"), governed(t, OtherTenant))) // the same id elsewhere is another key
	held, err := other.KeyByHash(ctx, k.Hash)
	must(t, err)
	if d := cmp.Diff(credential.HeldKey{KeyRow: k, Epoch: 1}, held); d != "" {
		t.Fatal(d)
	}
	got, err := other.Key(ctx, Tenant, "key_1")
	must(t, err)
	if d := cmp.Diff(k.Key, got); d != "" {
		t.Fatal(d)
	}
	wantErr(t, "another id", second(s.Key(ctx, Tenant, "key_2")), credential.ErrNotFound)
	wantErr(t, "another tenant", second(s.Key(ctx, "nobody", "key_1")), credential.ErrNotFound)
	wantErr(t, "another tenant's key", s.RemoveKey(ctx, OtherTenant, "key_2", "", governed(t, OtherTenant)), credential.ErrNotFound)
	wantErr(t, "another owner's key", s.RemoveKey(ctx, Tenant, "key_1", "bob", governed(t, Tenant)), credential.ErrNotFound)
	must(t, other.RemoveKey(ctx, Tenant, "key_1", "ada", governed(t, Tenant)))
	must(t, s.Close())
	for _, at := range []Store{other, b.Open(t, clock.Now, nil)} {
		wantErr(t, "removed", second(at.KeyByHash(ctx, k.Hash)), credential.ErrNotFound)
		wantErr(t, "removed", second(at.Key(ctx, Tenant, "key_1")), credential.ErrNotFound)
		must(t, second(at.KeyByHash(ctx, hashOf(OtherTenant+"/key_1"))))
		if a, o := epochOf(t, at, Tenant), epochOf(t, at, OtherTenant); a != 2 || o != 1 {
			t.Fatalf("epochs %d and %d", a, o)
		}
	}
	wantErr(t, "twice", other.RemoveKey(ctx, Tenant, "key_1", "", governed(t, Tenant)), credential.ErrNotFound)
	if n := len(check(t, other)); n != 3 { // of the tenant, its key, and the end of that
		t.Fatalf("%d events", n)
	}
}

// Pages of keys are complete, in order, of one tenant and, if asked, of one owner.
func testKeysPages(t *testing.T, b Backend) {
	s, _, _ := both(t, b)
	ctx := t.Context()
	for i := range 5 {
		k := apiKey(Tenant, fmt.Sprintf("key_%d", i))
		if i%2 == 1 {
			k.Owner, k.Subject = "bob", "bobs"
		}
		must(t, s.AddKey(ctx, k, governed(t, Tenant)))
	}
	must(t, s.AddKey(ctx, apiKey(OtherTenant, "key_x"), governed(t, OtherTenant)))
	for owner, want := range map[string][]string{"": {"key_0", "key_1", "key_2", "key_3", "key_4"}, "bob": {"key_1", "key_3"}, "eve": nil} {
		var got []string
		for after := ""; ; {
			page, err := s.Keys(ctx, Tenant, owner, after, 2)
			must(t, err)
			for _, k := range page {
				got, after = append(got, k.ID), k.ID
			}
			if len(page) < 2 {
				break
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("of %q: %s", owner, d)
		}
	}
	if page, err := s.Keys(ctx, Tenant, "", "", -1); err != nil || len(page) != 0 {
		t.Fatalf("%d keys for none, %v", len(page), err)
	}
}

// The name that keys speak under is its first owner's for good, within its tenant.
func testKeysTaken(t *testing.T, b Backend) {
	s, other, _ := both(t, b)
	ctx := t.Context()
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			k := apiKey(Tenant, fmt.Sprintf("key_%d", i))
			k.Owner = fmt.Sprintf("owner-%d", i)
			switch err := []Store{s, other}[i%2].AddKey(context.WithoutCancel(ctx), k, governed(t, Tenant)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, credential.ErrTaken):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	keys, err := s.Keys(ctx, Tenant, "", "", 100)
	must(t, err)
	if won.Load() != 1 || len(keys) != 1 {
		t.Fatalf("%d have won, there are %d", won.Load(), len(keys))
	}
	must(t, s.RemoveKey(ctx, Tenant, keys[0].ID, "", governed(t, Tenant)))
	wantErr(t, "after its keys are gone", other.AddKey(ctx, apiKey(Tenant, "key_a"), governed(t, Tenant)), credential.ErrTaken)
	must(t, other.AddKey(ctx, apiKey(OtherTenant, "key_a"), governed(t, OtherTenant)))
	service := apiKey(Tenant, "key_s")
	service.Kind = identity.KindService
	must(t, other.AddKey(ctx, service, governed(t, Tenant))) // another kind is another name
}

// A key is replaced once, and ends no later than it would have.
func testKeysReplace(t *testing.T, b Backend) {
	s, other, clock := both(t, b)
	ctx := t.Context()
	must(t, s.AddKey(ctx, apiKey(Tenant, "key_1"), governed(t, Tenant)))
	until := clock.Now().Add(10 * time.Minute)
	wantErr(t, "not there", s.ReplaceKey(ctx, "key_9", until, apiKey(Tenant, "key_2"), governed(t, Tenant)), credential.ErrNotFound)
	wantErr(t, "another tenant's", s.ReplaceKey(ctx, "key_1", until, apiKey(OtherTenant, "key_2"), governed(t, OtherTenant)), credential.ErrNotFound)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			switch err := []Store{s, other}[i%2].ReplaceKey(context.WithoutCancel(ctx), "key_1", until, apiKey(Tenant, fmt.Sprintf("key_n%d", i)), governed(t, Tenant)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, credential.ErrChanged):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	old, err := other.Key(ctx, Tenant, "key_1")
	must(t, err)
	keys, err := other.Keys(ctx, Tenant, "", "key_1", 100)
	must(t, err)
	if won.Load() != 1 || len(keys) != 1 || old.Successor != keys[0].ID || !old.Expires.Equal(until) || epochOf(t, s, Tenant) != 2 {
		t.Fatalf("%d have won, %d are new, and the old is %+v", won.Load(), len(keys), old)
	}
	// Its end is never put off, whether it has one or not.
	must(t, s.ReplaceKey(ctx, keys[0].ID, clock.Now().Add(24*time.Hour), apiKey(Tenant, "key_z"), governed(t, Tenant)))
	if k, err := s.Key(ctx, Tenant, keys[0].ID); err != nil || !k.Expires.Equal(Start().Add(time.Hour)) {
		t.Fatalf("%+v, %v", k, err)
	}
	never := apiKey(Tenant, "key_never")
	never.Expires = time.Time{}
	must(t, s.AddKey(ctx, never, governed(t, Tenant)))
	must(t, s.ReplaceKey(ctx, "key_never", until, apiKey(Tenant, "key_zz"), governed(t, Tenant)))
	if k, err := s.Key(ctx, Tenant, "key_never"); err != nil || !k.Expires.Equal(until) {
		t.Fatalf("%+v, %v", k, err)
	}
}

// Uses are written for the tenant's key alone and never back; what has ended is removed from that moment on.
func testKeysUsedAndSwept(t *testing.T, b Backend) {
	s, other, clock := both(t, b)
	ctx := t.Context()
	never := apiKey(Tenant, "key_never")
	never.Expires = time.Time{}
	for _, k := range []credential.KeyRow{apiKey(Tenant, "key_1"), apiKey(OtherTenant, "key_1"), never} {
		must(t, s.AddKey(ctx, k, governed(t, k.Tenant)))
	}
	at := clock.Now().Add(time.Minute)
	must(t, s.UseKeys(ctx, nil))
	must(t, s.UseKeys(ctx, []credential.KeyUse{{Tenant: Tenant, ID: "key_1", At: at}, {Tenant: Tenant, ID: "gone", At: at}}))
	must(t, other.UseKeys(ctx, []credential.KeyUse{{Tenant: Tenant, ID: "key_1", At: at.Add(-time.Second)}}))
	if k, err := other.Key(ctx, Tenant, "key_1"); err != nil || !k.LastUsed.Equal(at) {
		t.Fatalf("%+v, %v", k, err)
	}
	if k, err := other.Key(ctx, OtherTenant, "key_1"); err != nil || !k.LastUsed.IsZero() {
		t.Fatalf("%+v, %v", k, err)
	}
	end := Start().Add(time.Hour)
	for _, c := range []struct {
		now  time.Time
		want int
	}{{end.Add(-time.Millisecond), 0}, {end, 2}, {end.AddDate(100, 0, 0), 0}} {
		if n, err := s.SweepKeys(ctx, c.now); err != nil || n != c.want {
			t.Fatalf("swept %d at %v, %v", n, c.now, err)
		}
	}
	wantErr(t, "ended", second(other.KeyByHash(ctx, hashOf(Tenant+"/key_1"))), credential.ErrNotFound)
	must(t, second(other.KeyByHash(ctx, never.Hash)))
}

// A key comes with what its owner may do, and with the epoch, as of one moment.
func testKeysOwner(t *testing.T, b Backend) {
	s, other, _ := both(t, b)
	ctx := t.Context()
	k := apiKey(Tenant, "key_1")
	must(t, s.AddKey(ctx, k, governed(t, Tenant)))
	must(t, s.AddUser(ctx, userRow(OtherTenant, "ada"), false, governed(t, OtherTenant)))
	if h, err := s.KeyByHash(ctx, k.Hash); err != nil || h.Owner != nil {
		t.Fatalf("the owner is another tenant's: %+v, %v", h.Owner, err)
	}
	u := userRow(Tenant, "ada")
	must(t, s.AddUser(ctx, u, false, governed(t, Tenant)))
	for i, disabled := range []bool{true, false} {
		u.Disabled, u.Scopes = disabled, []string{fmt.Sprintf("scope:%d", i)}
		must(t, s.ChangeUser(ctx, u, governed(t, Tenant)))
		u.Version++
		h, err := other.KeyByHash(ctx, k.Hash)
		must(t, err)
		if d := cmp.Diff(&credential.Owner{Disabled: disabled, Scopes: u.Scopes}, h.Owner); d != "" || h.Epoch != int64(i)+2 {
			t.Fatalf("epoch %d: %s", h.Epoch, d)
		}
	}
}

// What is not whole is refused without a trace.
func testKeysReject(t *testing.T, b Backend) {
	s, _, clock := both(t, b)
	ctx := t.Context()
	must(t, s.AddKey(ctx, apiKey(Tenant, "key_1"), governed(t, Tenant)))
	for name, change := range map[string]func(*credential.KeyRow){
		"no id": func(k *credential.KeyRow) { k.ID = "" }, "no tenant": func(k *credential.KeyRow) { k.Tenant = "" },
		"no hash": func(k *credential.KeyRow) { k.Hash = credential.Hash{} }, "no subject": func(k *credential.KeyRow) { k.Subject = "" },
		"no owner": func(k *credential.KeyRow) { k.Owner = "" }, "no kind": func(k *credential.KeyRow) { k.Kind = "" },
		"a kind of its own": func(k *credential.KeyRow) { k.Kind = "root" }, "no maker": func(k *credential.KeyRow) { k.CreatedBy = "" },
		"not made": func(k *credential.KeyRow) { k.Created = time.Time{} }, "ended before": func(k *credential.KeyRow) { k.Expires = k.Created },
		"a line break": func(k *credential.KeyRow) { k.Scopes = []string{"a\nb"} }, "an empty scope": func(k *credential.KeyRow) { k.Scopes = []string{""} },
		"another's event": func(k *credential.KeyRow) { k.Tenant = OtherTenant }, "NUL": func(k *credential.KeyRow) { k.Label = "a\x00" },
		"not UTF-8": func(k *credential.KeyRow) { k.Subject = "a\xff" },
	} {
		k := apiKey(Tenant, "key_2")
		change(&k)
		if err := s.AddKey(ctx, k, governed(t, Tenant)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.ReplaceKey(ctx, "key_1", clock.Now().Add(time.Hour), k, governed(t, Tenant)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s in another's place: %v", name, err)
		}
	}
	wantCode(t, s.ReplaceKey(ctx, "key_1", time.Time{}, apiKey(Tenant, "key_2"), governed(t, Tenant)), counterfoil.CodeInvalidInput)
	wantCode(t, s.RemoveKey(ctx, Tenant, "key_1", "", governed(t, OtherTenant)), counterfoil.CodeInvalidInput)
	// A hash is one key's: another with the same is a fault of whoever made it, and nothing of it is kept.
	twin := apiKey(Tenant, "key_3")
	twin.Hash = hashOf(Tenant + "/key_1")
	twin.Subject = "twin"
	wantCode(t, s.AddKey(ctx, twin, governed(t, Tenant)), counterfoil.CodeInternal)
	twin.Owner, twin.Hash = "eve", hashOf("eve")
	must(t, s.AddKey(ctx, twin, governed(t, Tenant))) // the name was not taken
	keys, err := s.Keys(ctx, Tenant, "", "", 10)
	must(t, err)
	if len(keys) != 2 || epochOf(t, s, Tenant) != 1 {
		t.Fatalf("%d keys", len(keys))
	}
	for name, text := range broken() {
		for what, err := range map[string]error{
			"Key": second(s.Key(ctx, Tenant, text)), "User": second(s.User(ctx, text, "ada")),
		} {
			if !errors.Is(err, credential.ErrNotFound) && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
		keys, err := s.Keys(ctx, Tenant, text, "", 10)
		if len(keys) != 0 || err != nil && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
	wantErr(t, "nothing of another kind", second(s.Request(ctx, Tenant, "key_1")), gateway.ErrNotFound)
}
