package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

const (
	requestLife = 15 * time.Minute
	coolDown    = 10 * time.Minute
)

// attachment is the n-th caller's of a key.
func attachment(t *testing.T, clock *Clock, key, n string) gateway.Attachment {
	t.Helper()
	now := clock.Now()
	return gateway.Attachment{
		New: gateway.RequestRow{
			ID: "apr-" + key + n, Tenant: Tenant, Requester: actor, Key: key, State: gateway.Pending, Upstream: "files", Tool: tool,
			Effect: "mutation", Details: []byte("sealed " + key), CreatedAt: now, ExpiresAt: now.Add(requestLife),
		},
		Waiter: "w-" + key + n, Now: now, CoolDown: coolDown, Cap: 5, Opened: event(t, counterfoil.PhaseRequested, "apr-"+key+n),
	}
}

func attach(t *testing.T, s Store, clock *Clock, key, n string) gateway.RequestRow {
	t.Helper()
	row, err := s.Attach(t.Context(), attachment(t, clock, key, n))
	must(t, err)
	return row
}

func ruling(t *testing.T, clock *Clock, id string, to gateway.State) gateway.Ruling {
	t.Helper()
	phase := counterfoil.PhaseApproved
	if to == gateway.Denied {
		phase = counterfoil.PhaseDenied
	}
	return gateway.Ruling{
		Tenant: Tenant, ID: id, To: to, Decision: []byte("decision on " + id), By: "person:ada", Reason: "because", At: clock.Now(),
		ExpiresAt: clock.Now().Add(5 * time.Minute), Event: event(t, phase, id),
	}
}

func wantState(t *testing.T, s Store, id string, want gateway.State) gateway.RequestRow {
	t.Helper()
	row, err := s.Request(t.Context(), Tenant, id)
	must(t, err)
	if row.State != want {
		t.Fatalf("%s is %s, not %s", id, row.State, want)
	}
	return row
}

func testAttach(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	row := attach(t, s, clock, "k", "1")
	want := attachment(t, clock, "k", "1").New
	if !reflect.DeepEqual(row, want) {
		t.Fatalf("%+v, not %+v", row, want)
	}
	wantPhases(t, s, "requested")
	// The same key, from another process: the same request, no event.
	if row := attach(t, other, clock, "k", "2"); !reflect.DeepEqual(row, want) {
		t.Fatalf("%+v, not %+v", row, want)
	}
	wantPhases(t, s, "requested")
	if row := attach(t, s, clock, "l", "1"); row.ID != "apr-l1" {
		t.Fatalf("another key got %s", row.ID)
	}
	// A waiter's id is good for one.
	if _, err := s.Attach(t.Context(), attachment(t, clock, "k", "1")); err == nil {
		t.Fatal("a waiter was counted twice")
	}
	for name, spoil := range map[string]func(*gateway.Attachment){
		"tenant": func(a *gateway.Attachment) { a.New.Tenant = "" }, "id": func(a *gateway.Attachment) { a.New.ID = "" },
		"key": func(a *gateway.Attachment) { a.New.Key = "" }, "waiter": func(a *gateway.Attachment) { a.Waiter = "" },
		"end": func(a *gateway.Attachment) { a.New.ExpiresAt = a.Now }, "now": func(a *gateway.Attachment) { a.Now = time.Time{} },
		"event": func(a *gateway.Attachment) { a.New.Tenant, a.New.Key = "other", "x" },
	} {
		a := attachment(t, clock, "m", "1")
		spoil(&a)
		if _, err := s.Attach(t.Context(), a); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Past its end it is expired first, by whoever comes.
	clock.Move(requestLife - time.Millisecond)
	if row := attach(t, s, clock, "k", "3"); row.ID != "apr-k1" {
		t.Fatalf("a live request was not found: %s", row.ID)
	}
	clock.Move(time.Millisecond)
	if row := attach(t, s, clock, "k", "4"); row.ID != "apr-k4" || row.State != gateway.Pending {
		t.Fatalf("%+v", row)
	}
	wantState(t, s, "apr-k1", gateway.Expired)
	wantPhases(t, s, "requested", "requested", "lapsed", "requested")
	wantLapsed(t, s, 2, "apr-k1", "expired")
}

// wantLapsed checks the n-th event, which the store made by itself.
func wantLapsed(t *testing.T, s Store, n int, id, code string) {
	t.Helper()
	want, err := counterfoil.NewEvent(counterfoil.PhaseLapsed, Names(), counterfoil.EventParams{
		Tenant: Tenant, Audience: Audience, ExecutionID: id, Actor: actor, Tool: tool, Effect: counterfoil.EffectMutation, Code: code,
	})
	must(t, err)
	e := events(t, s, Tenant)[n]
	if diff := cmp.Diff(string(want.Seal(e.Sequence, e.At)), string(e.Body)); diff != "" {
		t.Fatalf("the event of what lapsed (-want +got):\n%s", diff)
	}
}

func testCap(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for i := range 5 {
		attach(t, s, clock, fmt.Sprint("k", i), "-1")
	}
	if _, err := s.Attach(t.Context(), attachment(t, clock, "k9", "-1")); !errors.Is(err, gateway.ErrTooMany) {
		t.Fatal(err)
	}
	if n := len(check(t, s)); n != 5 {
		t.Fatalf("%d events", n)
	}
	attach(t, s, clock, "k0", "-2") // joining is free
	none := attachment(t, clock, "k9", "-1")
	none.Cap = 0
	if _, err := s.Attach(t.Context(), none); !errors.Is(err, gateway.ErrTooMany) {
		t.Fatal(err)
	}
	must(t, s.Lapse(t.Context(), Tenant, "apr-k0-1", gateway.Cancelled, "x", event(t, counterfoil.PhaseLapsed, "apr-k0-1")))
	attach(t, s, clock, "k9", "-1")
	// Those that ran out do not count, swept or not.
	clock.Move(requestLife)
	attach(t, s, clock, "k10", "-1")
}

func testCoolDown(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	clock.Move(time.Second)
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Denied)))
	clock.Move(coolDown - time.Millisecond)
	row := attach(t, s, clock, "k", "2")
	if row.ID != "apr-k1" || row.State != gateway.Denied || row.Reason != "because" {
		t.Fatalf("%+v", row)
	}
	clock.Move(time.Millisecond)
	if row := attach(t, s, clock, "k", "2"); row.ID != "apr-k2" || row.State != gateway.Pending {
		t.Fatalf("%+v", row) // the waiter was not counted in before
	}
	wantPhases(t, s, "requested", "denied", "requested")
}

// Identical calls that come at once make one request.
func testAttachContenders(t *testing.T, b Backend) {
	clock := NewClock()
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	ids := make([]string, 48)
	var wg sync.WaitGroup
	for i := range ids {
		a := attachment(t, clock, "k", fmt.Sprint(i))
		wg.Go(func() {
			row, err := stores[i%len(stores)].Attach(t.Context(), a)
			if err != nil {
				t.Error(err)
			}
			ids[i] = row.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatal(ids)
		}
	}
	wantPhases(t, stores[0], "requested")
}

func testAnswer(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	row, err := s.Answer(t.Context(), Tenant, "apr-k1", "w-k1")
	must(t, err)
	if row.State != gateway.Pending || !row.Answered {
		t.Fatalf("%+v", row)
	}
	// Who was told to come back is waited for, whoever else leaves.
	attach(t, s, clock, "k", "2")
	must(t, s.Leave(t.Context(), Tenant, "apr-k1", "w-k2", "gone"))
	wantState(t, s, "apr-k1", gateway.Pending)
	if row := attach(t, s, clock, "k", "3"); row.ID != "apr-k1" || !row.Answered {
		t.Fatalf("the retry got %+v", row)
	}
	// Decided in the same moment: the waiter stays, and learns of it.
	attach(t, s, clock, "l", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-l1", gateway.Approved)))
	row, err = s.Answer(t.Context(), Tenant, "apr-l1", "w-l1")
	must(t, err)
	if row.State != gateway.Approved || row.Answered {
		t.Fatalf("%+v", row)
	}
	must(t, s.Leave(t.Context(), Tenant, "apr-l1", "w-l1", "gone"))
	wantState(t, s, "apr-l1", gateway.Void)
	wantPhases(t, s, "requested", "requested", "approved", "lapsed")
	wantLapsed(t, s, 3, "apr-l1", "void")
	if _, err := s.Answer(t.Context(), Tenant, "apr-none", "w"); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
}

func testLeave(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	attach(t, s, clock, "k", "2")
	must(t, s.Leave(t.Context(), Tenant, "apr-k1", "w-k1", "one left"))
	wantState(t, s, "apr-k1", gateway.Pending)
	must(t, s.Leave(t.Context(), Tenant, "apr-k1", "w-k1", "one left twice"))
	must(t, s.Leave(t.Context(), Tenant, "apr-k1", "w-stranger", "never was there"))
	wantState(t, s, "apr-k1", gateway.Pending)
	must(t, s.Leave(t.Context(), Tenant, "apr-k1", "w-k2", "both left"))
	if row := wantState(t, s, "apr-k1", gateway.Cancelled); row.Cause != "both left" {
		t.Fatalf("cause %q", row.Cause)
	}
	wantPhases(t, s, "requested", "lapsed")
	wantLapsed(t, s, 1, "apr-k1", "cancelled")
	wantConflict(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Approved)), gateway.Cancelled)
	if row := attach(t, s, clock, "k", "3"); row.ID != "apr-k3" {
		t.Fatalf("the retry got %s", row.ID)
	}
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-k3", gateway.Denied)))
	must(t, s.Leave(t.Context(), Tenant, "apr-k3", "w-k3", "read the denial"))
	wantState(t, s, "apr-k3", gateway.Denied)
	if err := s.Leave(t.Context(), Tenant, "apr-none", "w", "x"); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
}

func testRule(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	clock.Move(time.Minute)
	r := ruling(t, clock, "apr-k1", gateway.Approved)
	must(t, other.Rule(t.Context(), r))
	row := wantState(t, s, "apr-k1", gateway.Approved)
	if string(row.Decision) != string(r.Decision) || row.DecidedBy != r.By || !row.DecidedAt.Equal(r.At) || row.Reason != r.Reason ||
		!row.ExpiresAt.Equal(r.ExpiresAt) {
		t.Fatalf("%+v", row)
	}
	wantConflict(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Denied)), gateway.Approved)
	if row := attach(t, s, clock, "k", "2"); row.ID != "apr-k1" || row.State != gateway.Approved {
		t.Fatalf("the retry got %+v", row)
	}
	wantPhases(t, s, "requested", "approved")

	attach(t, s, clock, "l", "1")
	clock.Move(requestLife - time.Millisecond)
	late := ruling(t, clock, "apr-l1", gateway.Approved)
	late.At = late.At.Add(time.Millisecond)
	wantConflict(t, s.Rule(t.Context(), late), gateway.Expired)
	denied := ruling(t, clock, "apr-l1", gateway.Denied)
	must(t, s.Rule(t.Context(), denied))
	if row := wantState(t, s, "apr-l1", gateway.Denied); row.ExpiresAt.Equal(denied.ExpiresAt) {
		t.Fatal("a denial changed the request's end")
	}
	wantPhases(t, s, "requested", "approved", "requested", "denied")

	for name, spoil := range map[string]func(*gateway.Ruling){
		"to": func(r *gateway.Ruling) { r.To = gateway.Void }, "no to": func(r *gateway.Ruling) { r.To = "" },
		"decision": func(r *gateway.Ruling) { r.Decision = nil }, "by": func(r *gateway.Ruling) { r.By = "" },
		"at": func(r *gateway.Ruling) { r.At = time.Time{} }, "end": func(r *gateway.Ruling) { r.ExpiresAt = r.At },
	} {
		r := ruling(t, clock, "apr-k1", gateway.Approved)
		spoil(&r)
		if err := s.Rule(t.Context(), r); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Rule(t.Context(), ruling(t, clock, "apr-none", gateway.Approved)); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
}

// Deciders, leavers and lapses at once: one move is made, one event recorded, everybody else is told.
func testRuleContenders(t *testing.T, b Backend) {
	clock := NewClock()
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	for round := range 4 {
		key := fmt.Sprint("k", round, "-")
		id := "apr-" + key + "1"
		attach(t, stores[0], clock, key, "1")
		before := len(check(t, stores[0]))
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 24 {
			s := stores[i%2]
			to := []gateway.State{gateway.Approved, gateway.Denied, gateway.Void}[i%3]
			r, lapsed := ruling(t, clock, id, to), event(t, counterfoil.PhaseLapsed, id)
			wg.Go(func() {
				var err error
				if to == gateway.Void {
					// A void approved request is a second move: only who moves a pending one counts here.
					err = s.Lapse(t.Context(), Tenant, id, to, "frozen", lapsed)
				} else {
					err = s.Rule(t.Context(), r)
				}
				if _, lost := errors.AsType[*gateway.ConflictError](err); err == nil {
					won.Add(1)
				} else if !lost {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		row, err := stores[1].Request(t.Context(), Tenant, id)
		must(t, err)
		if n := int(won.Load()); n != len(check(t, stores[0]))-before || n > 2 || (n == 2 && row.State != gateway.Void) {
			t.Fatalf("%d moves, %d events, %s", n, len(check(t, stores[0]))-before, row.State)
		}
		if row.State == gateway.Pending || row.State == gateway.Approved && won.Load() != 1 {
			t.Fatalf("state %s", row.State)
		}
	}
}

func testLapse(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for _, to := range []gateway.State{gateway.Void, gateway.Expired, gateway.Cancelled} {
		for _, from := range []gateway.State{gateway.Pending, gateway.Approved} {
			key := string(from + "-" + to)
			id := "apr-" + key + "1"
			attach(t, s, clock, key, "1")
			if from == gateway.Approved {
				must(t, s.Rule(t.Context(), ruling(t, clock, id, gateway.Approved)))
			}
			must(t, s.Lapse(t.Context(), Tenant, id, to, "drift", event(t, counterfoil.PhaseLapsed, id)))
			if row := wantState(t, s, id, to); row.Cause != "drift" {
				t.Errorf("cause %q", row.Cause)
			}
			wantConflict(t, s.Lapse(t.Context(), Tenant, id, gateway.Void, "x", event(t, counterfoil.PhaseLapsed, id)), to)
			wantConflict(t, s.Rule(t.Context(), ruling(t, clock, id, gateway.Approved)), to)
		}
	}
	for _, to := range []gateway.State{gateway.Pending, gateway.Approved, gateway.Denied, gateway.Spent, ""} {
		wantCode(t, s.Lapse(t.Context(), Tenant, "apr-x", to, "x", event(t, counterfoil.PhaseLapsed, "x")), counterfoil.CodeInvalidInput)
	}
	if err := s.Lapse(t.Context(), Tenant, "apr-none", gateway.Void, "x", event(t, counterfoil.PhaseLapsed, "x")); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
	if n := len(check(t, s)); n != 6+3+6 {
		t.Fatalf("%d events", n)
	}
}

func testRequests(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for i := range 5 {
		attach(t, s, clock, fmt.Sprint(i), "-1")
		if i%2 == 0 {
			must(t, s.Rule(t.Context(), ruling(t, clock, fmt.Sprintf("apr-%d-1", i), gateway.Denied)))
		}
	}
	all := func(state gateway.State) (ids []string) {
		after := ""
		for {
			page, err := s.Requests(t.Context(), Tenant, state, after, 2)
			must(t, err)
			if len(page) == 0 {
				return ids
			}
			for _, r := range page {
				if r.Details != nil || r.Answer != nil {
					t.Error("a list has sealed bytes")
				}
				ids = append(ids, r.ID)
			}
			after = page[len(page)-1].ID
		}
	}
	for state, want := range map[gateway.State]string{
		"": "[apr-4-1 apr-3-1 apr-2-1 apr-1-1 apr-0-1]", gateway.Denied: "[apr-4-1 apr-2-1 apr-0-1]",
		gateway.Pending: "[apr-3-1 apr-1-1]", gateway.Spent: "[]",
	} {
		if got := fmt.Sprint(all(state)); got != want {
			t.Errorf("%q: %s, not %s", state, got, want)
		}
	}
	if _, err := s.Requests(t.Context(), Tenant, "", "apr-none", 2); !errors.Is(err, gateway.ErrNotFound) {
		t.Error(err)
	}
}
