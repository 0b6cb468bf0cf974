package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// Of many changes at once, over all handles, none is lost, and whoever takes the tallies in another order waits for nobody.
func testTallies(t *testing.T, b Backend) {
	clock := NewClock()
	handles := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	keys := []credential.Hash{hashOf("a"), hashOf("b"), hashOf("c")}
	forget := clock.Now().Add(time.Hour)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			mine := []credential.Hash{keys[i%3], keys[(i+1+i/3%2)%3]}
			must(t, handles[i%2].ChangeTallies(context.WithoutCancel(t.Context()), mine, clock.Now(), func(x []credential.Tally) {
				for j := range x {
					x[j].Failures++
					x[j].Last, x[j].Forget = clock.Now(), forget
				}
			}))
		})
	}
	wg.Wait()
	var sum int64
	must(t, handles[0].ChangeTallies(t.Context(), keys, clock.Now(), func(x []credential.Tally) {
		sum = 0 // it may be called again
		for j := range x {
			sum += x[j].Failures
			x[j] = credential.Tally{Failures: int64(j), Last: clock.Now(), Until: clock.Now().Add(time.Minute), Known: clock.Now().Add(time.Second), Forget: forget}
		}
	}))
	if sum != 128 {
		t.Fatalf("%d of 128 were counted", sum)
	}
	for _, c := range []struct {
		at    time.Time
		there bool
	}{{forget.Add(-time.Millisecond), true}, {forget, true}, {forget, false}} { // the first look from then on forgets
		for j := range keys {
			want := credential.Tally{}
			if c.there {
				want = credential.Tally{Failures: int64(j), Last: clock.Now(), Until: clock.Now().Add(time.Minute), Known: clock.Now().Add(time.Second), Forget: forget}
			}
			var got credential.Tally
			look := func(x []credential.Tally) { got = x[0] }
			if c.at.Equal(forget) && c.there && j > 0 {
				continue // the look at the first has forgotten all
			}
			must(t, handles[1].ChangeTallies(t.Context(), keys[j:j+1], c.at, look))
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%d at %v: %s", j, c.at, d)
			}
		}
	}
	must(t, handles[0].ChangeTallies(t.Context(), nil, clock.Now(), func([]credential.Tally) {}))
}

func firstTenant(id string) (credential.FirstTenant, credential.UserRow) {
	return credential.FirstTenant{ID: id, Created: Start(), Body: []byte(`{}`)}, userRow(id, "ada")
}

// One offer is good at a time, over all handles, for its time, and only while there is no tenant.
func testBootstrap(t *testing.T, b Backend) {
	clock := NewClock()
	handles := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	ctx := context.WithoutCancel(t.Context())
	start, end := clock.Now(), clock.Now().Add(time.Hour)
	offer := func(s Store, name string, now time.Time) bool {
		taken, err := s.OfferBootstrap(ctx, hashOf(name), now, now.Add(time.Hour))
		must(t, err)
		return taken
	}
	wantOpen := func(now time.Time, want bool) {
		t.Helper()
		for _, s := range handles {
			if open, err := s.BootstrapOpen(ctx, now); err != nil || open != want {
				t.Fatalf("open: %v, %v", open, err)
			}
		}
	}
	wantOpen(start, true)
	var taken atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if offer(handles[i%2], fmt.Sprint(i), start) {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Fatalf("%d offers were taken", taken.Load())
	}
	wantOpen(end.Add(-time.Millisecond), false)
	wantOpen(end, true)
	if !offer(handles[0], "new", end) || offer(handles[1], "newer", end) {
		t.Fatal("not one after the other")
	}
	for _, c := range []struct {
		name string
		at   time.Time
		want bool
	}{{"new", end, true}, {"newer", end, false}, {"0", end, false}, {"new", end.Add(time.Hour), false}, {"new", end.Add(time.Hour - time.Millisecond), true}} {
		if good, err := handles[1].BootstrapGood(ctx, hashOf(c.name), c.at); err != nil || good != c.want {
			t.Fatalf("%s at %v: %v, %v", c.name, c.at, good, err)
		}
	}
	for _, err := range []error{
		second(handles[0].OfferBootstrap(ctx, credential.Hash{}, start, end)), second(handles[0].OfferBootstrap(ctx, hashOf("x"), start, start)),
	} {
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
	testRedeem(t, handles, end)
	wantOpen(end.Add(24*time.Hour), false)
	if offer(handles[0], "late", end.Add(24*time.Hour)) {
		t.Fatal("an offer beside a tenant")
	}
}

// testRedeem makes the first tenant and its user with the credential "new": once.
func testRedeem(t *testing.T, handles []Store, now time.Time) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	f, u := firstTenant(Tenant)
	for name, at := range map[string]time.Time{"0": now, "new": now.Add(time.Hour)} {
		wantErr(t, name, handles[0].RedeemBootstrap(ctx, hashOf(name), at, f, u, governed(t, Tenant)), credential.ErrNotFound)
	}
	other, _ := firstTenant(OtherTenant)
	wantCode(t, handles[0].RedeemBootstrap(ctx, hashOf("new"), now, other, u, governed(t, OtherTenant)), counterfoil.CodeInvalidInput)
	wantCode(t, handles[0].RedeemBootstrap(ctx, hashOf("new"), now, f, u, governed(t, OtherTenant)), counterfoil.CodeInvalidInput)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			f, u := firstTenant([]string{Tenant, OtherTenant}[i%2])
			switch err := handles[i/2%2].RedeemBootstrap(ctx, hashOf("new"), now, f, u, governed(t, f.ID)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, credential.ErrNotFound):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	tenants, err := handles[1].Tenants(ctx, "", 10)
	must(t, err)
	if won.Load() != 1 || len(tenants) != 1 {
		t.Fatalf("%d have won, there are %d tenants", won.Load(), len(tenants))
	}
	if d := cmp.Diff(tenancy.Record{ID: tenants[0].ID, Created: Start(), Epoch: 1, Body: []byte(`{}`)}, tenants[0]); d != "" {
		t.Fatal(d)
	}
	must(t, second(handles[0].User(ctx, tenants[0].ID, "ada")))
	if good, err := handles[0].BootstrapGood(ctx, hashOf("new"), now); err != nil || good {
		t.Fatalf("it is good still: %v", err)
	}
	log, err := handles[0].Log(ctx, tenants[0].ID)
	must(t, err)
	if log.Size != 1 {
		t.Fatalf("%d events", log.Size)
	}
}

// A credentialStep is one method that writes, and how to see whether it has.
type credentialStep struct {
	name string
	do   func(s Store) error
	has  func(s Store) bool
}

// testCredentialFaults makes every write fail at every stage. What failed before the commit has left nothing and can be
// repeated; what failed after it is there, and says that this is unknown.
func testCredentialFaults(t *testing.T, b Backend) {
	boom := errors.New("injected")
	var armed Stage
	var count, nth int
	clock := NewClock()
	s := b.Open(t, clock.Now, func(at Stage) error {
		if at != armed {
			return nil
		}
		if count++; count != nth {
			return nil
		}
		armed = ""
		return boom
	})
	witness := b.Open(t, clock.Now, nil)
	for i, stage := range []Stage{Begin, Write, Commit, Committed} {
		for n := 1; ; n++ {
			fired := false
			for _, step := range credentialLife(t, witness, fmt.Sprintf("%d-%d", i, n)) {
				before := epochAndEvents(t, witness)
				armed, count, nth = stage, 0, n
				err := step.do(s)
				hit := armed == ""
				armed = ""
				want := counterfoil.CodeUnavailable
				if stage == Committed {
					want = counterfoil.CodeUnknownOutcome
				}
				switch {
				case !hit && (err != nil || stage != Write):
					t.Fatalf("%s: no fault at %s %d, and %v", step.name, stage, n, err)
				case hit && counterfoil.CodeOf(err) != want:
					t.Fatalf("%s: %s %d: %v", step.name, stage, n, err)
				case step.has(witness) != (!hit || stage == Committed):
					t.Fatalf("%s: %s %d: it is there: %v", step.name, stage, n, step.has(witness))
				case hit && stage != Committed && epochAndEvents(t, witness) != before:
					t.Fatalf("%s: %s %d: left an event or an epoch", step.name, stage, n)
				}
				if hit && stage != Committed {
					must(t, step.do(s))
				}
				if !step.has(witness) {
					t.Fatalf("%s: %s %d: it is not there in the end", step.name, stage, n)
				}
				fired = fired || hit
			}
			if stage != Write || !fired {
				break
			}
		}
	}
	check(t, witness)
}

func epochAndEvents(t *testing.T, s Store) [2]int64 {
	t.Helper()
	log, err := s.Log(t.Context(), Tenant)
	must(t, err)
	return [2]int64{epochOf(t, s, Tenant), log.Size}
}

// credentialLife goes through every method that writes.
func credentialLife(t *testing.T, witness Store, n string) []credentialStep {
	t.Helper()
	ctx := t.Context()
	if _, err := witness.Tenant(ctx, Tenant); err != nil {
		tenant(t, witness, Tenant)
	}
	k, next, u := apiKey(Tenant, "key_"+n), apiKey(Tenant, "next_"+n), userRow(Tenant, "user-"+n)
	k.Subject, next.Subject = n, n
	changed := u
	changed.Disabled = false
	changed.Groups = nil
	first, reused := opening(Tenant, u.Name, n), opening(Tenant, u.Name, n+"r")
	first.Rehashed = passwordHash("Q")
	changed.Password = passwordHash("Q")
	tally := hashOf("tally " + n)
	hasKey := func(id string) func(Store) bool {
		return func(s Store) bool { return second(s.Key(ctx, Tenant, id)) == nil }
	}
	lacks := func(id credential.Hash) func(Store) bool {
		return func(s Store) bool { return !hasFamily(t, s, id) }
	}
	return []credentialStep{
		{"AddKey", func(s Store) error { return s.AddKey(ctx, k, governed(t, Tenant)) }, hasKey(k.ID)},
		{"UseKeys", func(s Store) error {
			return s.UseKeys(ctx, []credential.KeyUse{{Tenant: Tenant, ID: k.ID, At: Start().Add(time.Second)}})
		}, func(s Store) bool {
			k, err := s.Key(ctx, Tenant, k.ID)
			return err == nil && !k.LastUsed.IsZero()
		}},
		{"ReplaceKey", func(s Store) error {
			return s.ReplaceKey(ctx, k.ID, Start().Add(time.Minute), next, governed(t, Tenant))
		}, hasKey(next.ID)},
		{"SweepKeys", func(s Store) error { return second(s.SweepKeys(ctx, Start().Add(time.Minute))) }, func(s Store) bool { return !hasKey(k.ID)(s) }},
		{"RemoveKey", func(s Store) error { return s.RemoveKey(ctx, Tenant, next.ID, "", governed(t, Tenant)) }, func(s Store) bool { return !hasKey(next.ID)(s) }},
		{"AddUser", func(s Store) error { return s.AddUser(ctx, u, false, governed(t, Tenant)) }, func(s Store) bool { return second(s.User(ctx, Tenant, u.Name)) == nil }},
		{"OpenFamily", func(s Store) error { return s.OpenFamily(ctx, first) }, func(s Store) bool { return hasFamily(t, s, first.ID) }},
		{"OpenFamily again", func(s Store) error { return s.OpenFamily(ctx, reused) }, func(s Store) bool { return hasFamily(t, s, reused.ID) }},
		{"RotateFamily", func(s Store) error {
			return s.RotateFamily(ctx, credential.Rotation{Tenant: Tenant, ID: first.ID, Was: first.Newest, Next: hashOf("next"), Issued: Start(), Now: Start()})
		}, func(s Store) bool {
			f, err := s.Family(ctx, first.ID)
			return err == nil && f.Newest == hashOf("next")
		}},
		{"EndReused", func(s Store) error { return s.EndReused(ctx, Tenant, reused.ID, Start(), governed(t, Tenant)) }, lacks(reused.ID)},
		{"EndFamily", func(s Store) error { return s.EndFamily(ctx, Tenant, first.ID) }, lacks(first.ID)},
		{"ChangeUser", func(s Store) error { return s.ChangeUser(ctx, changed, governed(t, Tenant)) }, func(s Store) bool {
			u, err := s.User(ctx, Tenant, u.Name)
			return err == nil && u.Version == 2
		}},
		{"ChangeTallies", func(s Store) error {
			return s.ChangeTallies(ctx, []credential.Hash{tally}, Start(), func(x []credential.Tally) {
				x[0].Failures, x[0].Last, x[0].Forget = x[0].Failures+1, Start(), Start().Add(time.Hour)
			})
		}, func(s Store) bool {
			var n int64
			must(t, s.ChangeTallies(ctx, []credential.Hash{tally}, Start(), func(x []credential.Tally) { n = x[0].Failures }))
			return n == 1
		}},
	}
}
