package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func testSpendOnce(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	l := &Ledger{Store: s, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(t.Context(), "run-1")
	must(t, err)
	wantPhases(t, s, "started")
	c := claim.Consumption()
	if c.ExecutionID() != "run-1" || !c.At().Equal(Start()) {
		t.Fatalf("spent as %s at %v", c.ExecutionID(), c.At())
	}
	if parsed, err := counterfoil.ParseConsumption(c.Envelope()); err != nil || parsed.Digest() != c.Digest() {
		t.Fatal(err)
	}
	started := events(t, s, Tenant)[0].Body
	if !bytes.Contains(started, []byte(`"useDigest":"`+c.Digest().String()+`"`)) {
		t.Fatalf("the started event does not name the use: %s", started)
	}
	for _, id := range []string{"run-2", "run-1"} {
		_, err = l.Claim(t.Context(), id)
		wantCode(t, err, counterfoil.CodeAlreadyUsed)
	}
	wantPhases(t, s, "started")
	// An id that is taken belongs to another use: nothing may be recorded under it.
	other := &Ledger{Store: s, Case: Approved(t, "b", clock.Now())}
	if _, err := other.Claim(t.Context(), "run-1"); err == nil {
		t.Fatal("two executions have one id")
	}
	wantPhases(t, s, "started")
	_, err = other.Claim(t.Context(), "run-2")
	must(t, err)
	wantPhases(t, s, "started", "started")

	foreign := gateway.Spending{Use: l.Use, Started: event(t, counterfoil.PhaseStarted, "run-3")}
	foreign.Use.Audience = "another"
	_, err = s.Spend(t.Context(), foreign)
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
}

// One use, 64 contenders over 16 handles: one wins, 63 are refused for good.
func testContenders(t *testing.T, b Backend) {
	clock := NewClock()
	const handles, each, rounds = 16, 4, 3
	var stores []Store
	for range handles {
		stores = append(stores, b.Open(t, clock.Now, nil))
	}
	for round := range rounds {
		c := Approved(t, fmt.Sprintf("a%d", round), clock.Now())
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for i, s := range stores {
			for j := range each {
				wg.Go(func() {
					<-ready
					l := &Ledger{Store: s, Case: c}
					switch _, err := l.Claim(t.Context(), fmt.Sprintf("run-%d-%d-%d", round, i, j)); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, counterfoil.CodeAlreadyUsed):
						lost.Add(1)
					default:
						t.Error(err)
					}
				})
			}
		}
		close(ready)
		wg.Wait()
		if won.Load() != 1 || lost.Load() != handles*each-1 {
			t.Fatalf("%d won and %d lost", won.Load(), lost.Load())
		}
		if n := len(check(t, stores[0])); n != round+1 {
			t.Fatalf("%d events", n)
		}
	}
}

func testWindow(t *testing.T, b Backend) {
	// In this order the log's head never decides: the first three leave none.
	for _, row := range []struct {
		name string
		move time.Duration
		want counterfoil.Code
	}{
		{"end", 5 * time.Minute, counterfoil.CodeApprovalExpired},
		{"long after", 24 * time.Hour, counterfoil.CodeApprovalExpired},
		{"before", -5*time.Second - time.Millisecond, counterfoil.CodeClock},
		{"a little before", -5 * time.Second, ""}, // the approval's clock is ahead: the use is of its beginning
		{"last instant", 5*time.Minute - time.Millisecond, ""},
	} {
		clock := NewClock()
		c := Approved(t, row.name, clock.Now())
		clock.Move(row.move)
		s := b.Open(t, clock.Now, nil)
		before := len(check(t, s))
		_, err := (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-"+row.name)
		if counterfoil.CodeOf(err) != row.want {
			t.Errorf("%s: %v", row.name, err)
		}
		if n := len(check(t, s)) - before; (n == 1) != (row.want == "") {
			t.Errorf("%s: %d events", row.name, n)
		}
	}
}

// The clock that is behind the log's head refuses; one that is a little behind gets the head's time.
func testTimes(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	c := Approved(t, "a", clock.Now())
	clock.Move(10 * time.Second)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "call-1")))
	clock.Move(-3 * time.Second)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "call-2")))
	log := events(t, s, Tenant)
	if !log[1].At.Equal(log[0].At) {
		t.Fatalf("times %v, %v", log[0].At, log[1].At)
	}
	clock.Move(-3 * time.Second)
	_, err := (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-1")
	wantCode(t, err, counterfoil.CodeClock)
	clock.Move(2 * time.Second)
	claim, err := (&Ledger{Store: s, Case: c}).Claim(t.Context(), "run-1")
	must(t, err)
	if !claim.Consumption().At().Equal(log[0].At) {
		t.Fatalf("spent at %v", claim.Consumption().At())
	}
	wantPhases(t, s, "refused", "refused", "started")
	// What happened is recorded, however the clock was set meanwhile.
	clock.Move(-24 * time.Hour)
	_, err = (&Ledger{Store: s, Case: c}).Finish(t.Context(), claim, clock.Now().Add(48*time.Hour))
	must(t, err)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "call-3")))
	wantPhases(t, s, "refused", "refused", "started", "completed", "refused")
	log = events(t, s, Tenant)
	if ahead := Start().Add(4 * time.Second); log[3].At.Before(ahead) || !log[4].At.Equal(log[3].At) {
		t.Fatalf("times %v, %v", log[3].At, log[4].At)
	}
	// Then its own head is far ahead of the clock, which is believed no more.
	_, err = (&Ledger{Store: s, Case: Approved(t, "b", clock.Now())}).Claim(t.Context(), "run-2")
	wantCode(t, err, counterfoil.CodeClock)
}

// Times are cut to what is stored before they are sealed: what is read back is what was hashed.
func testNanoseconds(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	at := Start()
	for i, ns := range []time.Duration{123_456_789, 499_999_999, 999_999_999, 1_000_000_499, 1_999_999_999, 59_999_999_999} {
		clock.Move(at.Add(ns).Sub(clock.Now()))
		must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "call")))
		l := &Ledger{Store: s, Case: Approved(t, fmt.Sprint(i), clock.Now())}
		claim, err := l.Claim(t.Context(), fmt.Sprint("run-", i))
		must(t, err)
		must(t, second(l.Finish(t.Context(), claim, clock.Now())))
		log := events(t, s, Tenant)
		for _, e := range log[3*i:] {
			if want := clock.Now().Truncate(time.Millisecond); !e.At.Equal(want) || e.At.Location() != time.UTC {
				t.Errorf("an event of %v is of %v", clock.Now(), e.At)
			}
		}
		if x, err := s.Execution(t.Context(), Tenant, fmt.Sprint("run-", i)); err != nil || !x.StartedAt.Equal(claim.Consumption().At()) {
			t.Errorf("started at %v, not at %v: %v", x.StartedAt, claim.Consumption().At(), err)
		}
	}
	check(t, s)
}

// Callers that share a commit: each gets its own verdict, and one that fails takes nothing of the others with it.
func testBatch(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	expired := map[int]*Case{}
	for i := range 64 {
		expired[i] = Approved(t, fmt.Sprint("expired", i), clock.Now())
	}
	clock.Move(5 * time.Minute)
	used := Approved(t, "used", clock.Now())
	_, err := (&Ledger{Store: s, Case: used}).Claim(t.Context(), "run-used")
	must(t, err)
	var wg sync.WaitGroup
	for i := range 64 {
		c := Approved(t, fmt.Sprint(i), clock.Now())
		wg.Go(func() {
			switch i % 4 {
			case 0:
				if _, err := (&Ledger{Store: s, Case: used}).Claim(t.Context(), fmt.Sprintf("run-%d", i)); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
					t.Error(err)
				}
			case 1: // it fails after it has counted: that must not stay
				l := &Ledger{Store: s, Case: expired[i], Spending: gateway.Spending{Counters: []gateway.Counter{{Name: "d", Add: 1, Limit: 64}}}}
				if _, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i)); !errors.Is(err, counterfoil.CodeApprovalExpired) {
					t.Error(err)
				}
			default:
				l := &Ledger{Store: s, Case: c, Spending: gateway.Spending{Counters: []gateway.Counter{{Name: "d", Add: 1, Limit: 32}}}}
				claim, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := l.Finish(t.Context(), claim, clock.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(check(t, s)); n != 1+2*32 {
		t.Fatalf("%d events", n)
	}
}
