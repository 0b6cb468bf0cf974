package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func testOrphans(t *testing.T, b Backend) {
	clock := NewClock()
	alive, dying := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	if alive.Process() == dying.Process() || alive.Process() == "" {
		t.Fatalf("processes %q and %q", alive.Process(), dying.Process())
	}
	settled := &Ledger{Store: dying, Case: Approved(t, "settled", clock.Now())}
	claim, err := settled.Claim(t.Context(), "run-settled")
	must(t, err)
	_, err = settled.Finish(t.Context(), claim, clock.Now())
	must(t, err)
	for _, id := range []string{"run-1", "run-2"} {
		_, err = (&Ledger{Store: dying, Case: Approved(t, id, clock.Now())}).Claim(t.Context(), id)
		must(t, err)
	}
	_, err = (&Ledger{Store: alive, Case: Approved(t, "mine", clock.Now())}).Claim(t.Context(), "run-mine")
	must(t, err)
	for name, s := range map[string]Store{"alive": alive, "dying": dying} {
		if x, err := s.Orphans(t.Context()); err != nil || len(x) != 0 {
			t.Fatalf("%s sees orphans of the living: %v, %v", name, x, err)
		}
	}
	must(t, dying.Close())
	for range 2 { // looking changes nothing
		x, err := alive.Orphans(t.Context())
		if err != nil || len(x) != 2 || x[0].ID != "run-1" || x[1].ID != "run-2" {
			t.Fatalf("orphans %v, %v", x, err)
		}
	}
	orphans, err := alive.Orphans(t.Context())
	must(t, err)
	for _, x := range orphans {
		st, err := Recovered(x, counterfoil.OutcomeIndeterminate, clock.Now())
		must(t, err)
		must(t, alive.Settle(t.Context(), st))
	}
	if x, err := alive.Orphans(t.Context()); err != nil || len(x) != 0 {
		t.Fatalf("orphans after recovery: %v, %v", x, err)
	}
	// A process that starts now finds the one that was not recovered.
	must(t, alive.Close())
	if x, err := b.Open(t, clock.Now, nil).Orphans(t.Context()); err != nil || len(x) != 1 || x[0].ID != "run-mine" {
		t.Fatalf("orphans after a restart: %v, %v", x, err)
	}
}

func testExecutions(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for i := range 7 {
		l := &Ledger{Store: s, Case: Approved(t, fmt.Sprint(i), clock.Now())}
		claim, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i))
		must(t, err)
		if i%2 == 0 {
			_, err = l.Finish(t.Context(), claim, clock.Now())
			must(t, err)
		}
		clock.Move(time.Second)
	}
	var seen []string
	after := ""
	for {
		page, err := s.Executions(t.Context(), Tenant, after, 3)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, x := range page {
			if x.Approval != nil || x.DryRun != nil || x.Policy != nil || x.Operation != nil || x.Consumption != nil || x.Receipt != nil {
				t.Error("a list has documents")
			}
			if x.Tool != tool || (x.Outcome == "succeeded") != ((x.ID[4]-'0')%2 == 0) {
				t.Errorf("%+v", x)
			}
			seen = append(seen, x.ID)
		}
		after = page[len(page)-1].ID
	}
	if fmt.Sprint(seen) != "[run-6 run-5 run-4 run-3 run-2 run-1 run-0]" {
		t.Fatal(seen)
	}
	if _, err := s.Executions(t.Context(), Tenant, "run-none", 3); !errors.Is(err, gateway.ErrNotFound) {
		t.Error(err)
	}
	for _, none := range []int{0, -1} {
		if page, err := s.Executions(t.Context(), Tenant, "", none); err != nil || len(page) != 0 {
			t.Error(page, err)
		}
	}
	if _, err := s.Execution(t.Context(), Tenant, "run-none"); !errors.Is(err, gateway.ErrNotFound) {
		t.Error(err)
	}
}

// What a killed process had begun is an orphan once it counts as dead, and not before; what the living do is none.
func testOrphansKilled(t *testing.T, b Backend) {
	clock := NewClock()
	alive, dying, neighbour := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	for id, s := range map[string]Store{"run-mine": alive, "run-dead": dying, "run-other": neighbour} {
		must(t, second((&Ledger{Store: s, Case: Approved(t, id, clock.Now())}).Claim(t.Context(), id)))
	}
	b.Kill(t, dying)
	eventually(t, b.Dead(), func() bool {
		x, err := alive.Orphans(t.Context())
		must(t, err)
		if len(x) > 1 || len(x) == 1 && x[0].ID != "run-dead" {
			t.Fatalf("orphans %v", x)
		}
		return len(x) == 1
	})
	orphans, err := alive.Orphans(t.Context())
	must(t, err)
	st, err := Recovered(orphans[0], counterfoil.OutcomeIndeterminate, clock.Now())
	must(t, err)
	must(t, alive.Settle(t.Context(), st))
	if x, err := alive.Orphans(t.Context()); err != nil || len(x) != 0 {
		t.Fatalf("orphans after recovery: %v, %v", x, err)
	}
	wantPhases(t, alive, "started", "started", "started", "completed")
}

// eventually waits until something is so, which must take no longer than it may, and some time for a busy machine.
func eventually(t *testing.T, may time.Duration, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), may+20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it was not so after %v", may)
		}
	}
}
