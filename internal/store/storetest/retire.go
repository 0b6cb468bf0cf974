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

// retirement is a log with uses that have ended, are under way, and are too young to be retired.
type retirement struct {
	clock   *Clock
	s       Store
	ended   *Ledger
	receipt *counterfoil.Receipt
	young   time.Time // four events are older
	future  time.Time
	log     []translog.Event
}

func newRetirement(t *testing.T, b Backend) *retirement {
	t.Helper()
	clock := NewClock()
	r := &retirement{clock: clock, s: b.Open(t, clock.Now, nil)}
	r.ended = &Ledger{Store: r.s, Case: Approved(t, "ended", clock.Now())}
	claim, err := r.ended.Claim(t.Context(), "run-ended")
	must(t, err)
	r.receipt, err = r.ended.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	must(t, second((&Ledger{Store: r.s, Case: Approved(t, "running", clock.Now())}).Claim(t.Context(), "run-running")))
	must(t, revoke(t, r.s, clock, counterfoil.ActorSubject("agent:revoked")))
	clock.Move(time.Second)
	r.young = clock.Now()
	record(t, r.s, clock, 3)
	late := &Ledger{Store: r.s, Case: Approved(t, "late", clock.Now())}
	claim, err = late.Claim(t.Context(), "run-late")
	must(t, err)
	must(t, second(late.Finish(t.Context(), claim, clock.Now())))
	r.log, r.future = events(t, r.s, Tenant), clock.Now().Add(24*time.Hour)
	return r
}

func (r *retirement) retire(t *testing.T, before, now time.Time, limit, want int) {
	t.Helper()
	if n, err := r.s.Retire(t.Context(), Tenant, before, now, limit); err != nil || n != want {
		t.Fatalf("emptied %d, not %d: %v", n, want, err)
	}
}

// Retention empties what is published and old, in any steps, and leaves the documents of approvals that have not ended.
func testRetire(t *testing.T, b Backend) {
	r := newRetirement(t, b)
	now := r.clock.Now()
	r.retire(t, r.future, now, 100, 0) // nothing is published
	must(t, r.s.Publish(t.Context(), publication(6)))
	for _, none := range []int{0, -1} {
		r.retire(t, r.future, now, none, 0)
	}
	r.retire(t, Start(), now, 100, 0) // nothing is from before then
	wantBodies(t, r.s, r.log, 0)
	r.retire(t, r.young, now, 3, 3)
	r.retire(t, r.young, now, 3, 1)
	r.retire(t, r.young, now, 3, 0)
	wantBodies(t, r.s, r.log, 4)
	ends := Start().Add(5 * time.Minute)
	r.retire(t, r.young, ends.Add(-time.Millisecond), 3, 0)
	wantDocuments(t, r.s, "run-ended", true)
	r.retire(t, r.young, ends, 3, 0)
	wantDocuments(t, r.s, "run-ended", false)
	wantDocuments(t, r.s, "run-running", true)
	r.retire(t, r.future, r.future, 100, 2) // what is not published stays
	wantBodies(t, r.s, r.log, 6)
	wantBodies(t, b.Open(t, r.clock.Now, nil), r.log, 6)
	check(t, r.s)
	if n, err := r.s.Retire(t.Context(), OtherTenant, r.future, r.future, 5); n != 0 || err != nil {
		t.Fatalf("of nobody: %d, %v", n, err)
	}
}

// What is retired is refused, resolved, found and recovered as before, and the log goes on.
func testRetired(t *testing.T, b Backend) {
	r := newRetirement(t, b)
	must(t, r.s.Publish(t.Context(), publication(int64(len(r.log)))))
	r.retire(t, r.future, r.future, 100, len(r.log))
	other := b.Open(t, r.clock.Now, nil)
	wantDocuments(t, other, "run-ended", false)
	wantCode(t, second(r.ended.Claim(t.Context(), "run-again")), counterfoil.CodeAlreadyUsed)
	must(t, r.ended.Settle(t.Context(), r.receipt, event(t, counterfoil.PhaseCompleted, "run-ended")))
	if res, c, err := other.Resolve(t.Context(), withID(r.ended.Use, "run-ended")); err != nil || res != gateway.UseMine || c == nil {
		t.Fatalf("resolved as %v, %v, %v", res, c, err)
	}
	guarded := newUse("guarded", r.clock.Now())
	guarded.Guards = []counterfoil.Digest{counterfoil.ActorSubject("agent:revoked")}
	wantCode(t, spendUse(t.Context(), other, guarded, gateway.Spending{}), counterfoil.CodeRevoked)
	for _, f := range []struct {
		id    string
		phase counterfoil.Phase
		want  int64
	}{{"run-ended", counterfoil.PhaseCompleted, 2}, {"run-running", counterfoil.PhaseStarted, 3}, {"call-0", counterfoil.PhaseRefused, 5}} {
		if n, err := other.Find(t.Context(), Tenant, f.id, f.phase); err != nil || n != f.want {
			t.Fatalf("%s of %s is at %d: %v", f.phase, f.id, n, err)
		}
	}
	must(t, r.s.Close())
	if x, err := other.Orphans(t.Context()); err != nil || len(x) != 1 || x[0].ID != "run-running" || x[0].DryRun == nil {
		t.Fatalf("orphans %v, %v", x, err)
	}
	record(t, other, r.clock, 1)
	log := events(t, other, Tenant)
	if last := log[len(log)-1]; len(log) != len(r.log)+1 || last.Sequence != int64(len(log)) || counterfoil.LeafHash(last.Body) != last.Leaf {
		t.Fatal("the log does not go on")
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
