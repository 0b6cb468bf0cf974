package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// Those who publish at once, while the log grows: the largest stays.
func testPublishContenders(t *testing.T, b Backend) {
	clock := NewClock()
	const size, handles = 24, 4
	var stores []Store
	for range handles {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	record(t, stores[0], clock, size)
	var wg sync.WaitGroup
	for i, s := range stores {
		e := event(t, counterfoil.PhaseRefused, "more")
		wg.Go(func() {
			for n := int64(i + 1); n <= size; n += 2 {
				if err := s.Publish(t.Context(), publication(n, tile(0, 0, int(n), ""))); err != nil && !errors.Is(err, translog.ErrStale) {
					t.Error(err)
				}
				if err := s.Record(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantPublished(t, stores[0], size, string(publication(size).Note))
	wantTiles(t, stores[1], tile(0, 0, size, ""))
	check(t, stores[2])
}

// Retention empties what is published and old, in any steps, and leaves all that proofs and refusals need.
func testRetire(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	ended := &Ledger{Store: s, Case: Approved(t, "ended", clock.Now())}
	claim, err := ended.Claim(t.Context(), "run-ended")
	must(t, err)
	receipt, err := ended.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	must(t, second((&Ledger{Store: s, Case: Approved(t, "running", clock.Now())}).Claim(t.Context(), "run-running")))
	must(t, revoke(t, s, clock, counterfoil.ActorSubject("agent:revoked")))
	clock.Move(time.Second)
	young := clock.Now() // 4 events are older
	record(t, s, clock, 3)
	late := &Ledger{Store: s, Case: Approved(t, "late", clock.Now())}
	claim, err = late.Claim(t.Context(), "run-late")
	must(t, err)
	must(t, second(late.Finish(t.Context(), claim, clock.Now())))
	before := events(t, s, Tenant)
	retire := func(before, now time.Time, limit, want int) {
		t.Helper()
		if n, err := s.Retire(t.Context(), Tenant, before, now, limit); err != nil || n != want {
			t.Fatalf("emptied %d, not %d: %v", n, want, err)
		}
	}
	future := clock.Now().Add(24 * time.Hour)
	retire(future, clock.Now(), 100, 0) // nothing is published
	must(t, s.Publish(t.Context(), publication(6)))
	for _, none := range []int{0, -1} {
		retire(future, clock.Now(), none, 0)
	}
	retire(Start(), clock.Now(), 100, 0) // nothing is from before then
	wantBodies(t, s, before, 0)
	retire(young, clock.Now(), 3, 3)
	retire(young, clock.Now(), 3, 1)
	retire(young, clock.Now(), 3, 0)
	wantBodies(t, s, before, 4)
	// The approval of the first has not ended: its documents are there.
	wantDocuments(t, s, "run-ended", true)
	retire(young, Start().Add(5*time.Minute), 3, 0)
	wantDocuments(t, s, "run-ended", false)
	wantDocuments(t, s, "run-running", true)
	retire(future, future, 100, 2) // what is not published stays
	wantBodies(t, s, before, 6)

	other := b.Open(t, clock.Now, nil)
	wantBodies(t, other, before, 6)
	wantCode(t, second(ended.Claim(t.Context(), "run-again")), counterfoil.CodeAlreadyUsed)
	must(t, ended.Settle(t.Context(), receipt, event(t, counterfoil.PhaseCompleted, "run-ended")))
	if r, c, err := other.Resolve(t.Context(), withID(ended.Use, "run-ended")); err != nil || r != gateway.UseMine || c == nil {
		t.Fatalf("resolved as %v, %v, %v", r, c, err)
	}
	guarded := newUse("guarded", clock.Now())
	guarded.Guards = []counterfoil.Digest{counterfoil.ActorSubject("agent:revoked")}
	wantCode(t, spendUse(t.Context(), other, guarded, gateway.Spending{}), counterfoil.CodeRevoked)
	if n, err := other.Find(t.Context(), Tenant, "run-ended", counterfoil.PhaseCompleted); err != nil || n != 2 {
		t.Fatalf("found at %d: %v", n, err)
	}
	if n, err := other.Find(t.Context(), Tenant, "run-running", counterfoil.PhaseStarted); err != nil || n != 3 {
		t.Fatalf("found at %d: %v", n, err)
	}
	must(t, s.Close())
	if x, err := other.Orphans(t.Context()); err != nil || len(x) != 1 || x[0].ID != "run-running" || x[0].DryRun == nil {
		t.Fatalf("orphans %v, %v", x, err)
	}
	record(t, other, clock, 1)
	if log := events(t, other, Tenant); log[len(log)-1].Sequence != int64(len(before)+1) || counterfoil.LeafHash(log[len(log)-1].Body) != log[len(log)-1].Leaf {
		t.Fatal("the log does not go on")
	}
	if n, err := other.Retire(t.Context(), OtherTenant, future, future, 5); n != 0 || err != nil {
		t.Fatalf("of nobody: %d, %v", n, err)
	}
}

func withID(u counterfoil.Use, id string) counterfoil.Use {
	u.ExecutionID = id
	return u
}

// wantBodies checks that the log is the one given, with the first n events emptied, and that the leaves are all there.
func wantBodies(t testing.TB, s Store, log []translog.Event, n int) {
	t.Helper()
	want := slices.Clone(log)
	for i := range n {
		want[i].Body = nil
	}
	if diff := cmp.Diff(want, events(t, s, Tenant)); diff != "" {
		t.Fatalf("the log (-want +got):\n%s", diff)
	}
	for i := range want {
		want[i].Body = nil
	}
	leaves, err := s.Leaves(t.Context(), Tenant, 0, 1000)
	must(t, err)
	if diff := cmp.Diff(want, leaves); diff != "" {
		t.Fatalf("the leaves (-want +got):\n%s", diff)
	}
	x, err := s.Log(t.Context(), Tenant)
	must(t, err)
	if x.Size != int64(len(log)) {
		t.Fatalf("the log has the size %d", x.Size)
	}
}

func wantDocuments(t testing.TB, s Store, id string, want bool) {
	t.Helper()
	x, err := s.Execution(t.Context(), Tenant, id)
	must(t, err)
	for name, document := range map[string][]byte{"approval": x.Approval, "dry run": x.DryRun, "operation": x.Operation} {
		if (document != nil) != want {
			t.Fatalf("the %s of %s is there: %v", name, id, document != nil)
		}
	}
	if settled := x.Outcome != ""; settled && (x.Receipt != nil) != want || x.ID != id || x.StartedAt.IsZero() {
		t.Fatalf("%+v", x)
	}
}

// Retention runs beside everything else and loses nothing of it.
func testRetireAlive(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	const uses = 20
	var cases []*Case
	for i := range uses {
		cases = append(cases, Approved(t, fmt.Sprint(i), clock.Now()))
	}
	future := clock.Now().Add(time.Hour)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			x, err := other.Log(t.Context(), Tenant)
			if err == nil && x.Size > x.Published {
				err = other.Publish(t.Context(), publication(x.Size))
			}
			if err == nil {
				_, err = other.Retire(t.Context(), Tenant, future, future, 3)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i, c := range cases {
		l := &Ledger{Store: s, Case: c, Spending: line("c", 1, uses)}
		claim, err := l.Claim(t.Context(), fmt.Sprint("run-", i))
		must(t, err)
		must(t, second(l.Finish(t.Context(), claim, clock.Now())))
	}
	close(done)
	wg.Wait()
	wantCounter(t, s, "c", uses)
	if n := len(check(t, s)); n != 2*uses {
		t.Fatalf("%d events", n)
	}
}
