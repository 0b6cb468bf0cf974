package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func serverRow(clock *Clock) gateway.ServerRow {
	return gateway.ServerRow{
		Tenant: Tenant, ID: "sha256:1", Name: "files", Identity: []byte(`{"argv":["files"]}`), Tools: []byte(`[{"name":"a"}]`),
		Pins: []byte(`{"a":"sha256:a"}`), SeenAt: clock.Now(),
	}
}

func testServers(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	if _, err := s.Server(t.Context(), Tenant, "sha256:1"); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
	row := serverRow(clock)
	seen, err := s.SeeServer(t.Context(), row)
	must(t, err)
	if !reflect.DeepEqual(seen, row) {
		t.Fatalf("%+v, not %+v", seen, row)
	}
	// Seen again, with a changed tool and a new one: the pin of the first stands.
	clock.Move(time.Minute)
	again := row
	again.Name, again.Tools, again.Identity, again.SeenAt = "files 2", []byte(`[]`), []byte(`{"argv":["evil"]}`), clock.Now()
	again.Pins = []byte(`{"b":"sha256:b","a":"sha256:evil"}`)
	again.Classes, again.Decision = []byte("forged"), []byte("forged")
	seen, err = other.SeeServer(t.Context(), again)
	must(t, err)
	want := row
	want.Name, want.Tools, want.SeenAt, want.Pins = "files 2", []byte(`[]`), clock.Now(), []byte(`{"a":"sha256:a","b":"sha256:b"}`)
	if !reflect.DeepEqual(seen, want) {
		t.Fatalf("%+v, not %+v", seen, want)
	}
	check(t, s)

	want.Classes, want.Decision, want.Pins = []byte(`{"a":"read"}`), []byte("signed"), []byte(`{"a":"sha256:new"}`)
	must(t, s.ClassifyServer(t.Context(), want, event(t, counterfoil.PhaseClassified, "sha256:1")))
	got, err := other.Server(t.Context(), Tenant, "sha256:1")
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, not %+v", got, want)
	}
	if all, err := s.Servers(t.Context(), Tenant); err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], want) {
		t.Fatalf("%+v, %v", all, err)
	}
	wantPhases(t, s, "classified")

	unknown := want
	unknown.ID = "sha256:2"
	if err := s.ClassifyServer(t.Context(), unknown, event(t, counterfoil.PhaseClassified, "x")); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*gateway.ServerRow){
		"tenant": func(r *gateway.ServerRow) { r.Tenant = "" }, "id": func(r *gateway.ServerRow) { r.ID = "" },
		"pins": func(r *gateway.ServerRow) { r.Pins = []byte(`[]`) }, "pins twice": func(r *gateway.ServerRow) { r.Pins = []byte(`{"a":"1","a":"2"}`) },
		"no pins": func(r *gateway.ServerRow) { r.Pins = []byte(`null`) }, "a pin": func(r *gateway.ServerRow) { r.Pins = []byte(`{"a":1}`) },
	} {
		r := row
		spoil(&r)
		if _, err := s.SeeServer(t.Context(), r); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bare := want
	bare.Classes = nil
	wantCode(t, s.ClassifyServer(t.Context(), bare, event(t, counterfoil.PhaseClassified, "x")), counterfoil.CodeInvalidInput)
	wantPhases(t, s, "classified")
}

func testSessions(t *testing.T, b Backend) {
	clock := NewClock()
	stores := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	s := stores[0]
	end := clock.Now().Add(time.Minute)
	must(t, s.PutSecret(t.Context(), "code", "h", end))
	has := func(kind, hash string, at time.Time) bool {
		t.Helper()
		ok, err := stores[1].HasSecret(t.Context(), kind, hash, at)
		must(t, err)
		return ok
	}
	if !has("code", "h", end.Add(-time.Millisecond)) || has("code", "h", end) || has("session", "h", clock.Now()) || has("code", "i", clock.Now()) {
		t.Fatal("a secret is seen where there is none, or not where it is")
	}
	if ok, err := s.TakeSecret(t.Context(), "code", "h", end); ok || err != nil {
		t.Fatalf("took an expired one: %v", err)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			ok, err := stores[i%2].TakeSecret(t.Context(), "code", "h", clock.Now())
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || has("code", "h", clock.Now()) {
		t.Fatalf("%d took it", won.Load())
	}
	must(t, s.PutSecret(t.Context(), "code", "h", end))
	must(t, s.PutSecret(t.Context(), "code", "h", end.Add(time.Minute)))
	if !has("code", "h", end) {
		t.Fatal("the end was not moved")
	}
	_, err := s.Sweep(t.Context(), end.Add(time.Minute))
	must(t, err)
	if has("code", "h", clock.Now()) {
		t.Fatal("the sweep left it")
	}
	wantCode(t, s.PutSecret(t.Context(), "", "h", end), counterfoil.CodeInvalidInput)
	wantCode(t, s.PutSecret(t.Context(), "code", "", end), counterfoil.CodeInvalidInput)
	wantCode(t, s.PutSecret(t.Context(), "code", "h", time.Time{}), counterfoil.CodeInvalidInput)
}

func testVersion(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	version := func() int64 {
		t.Helper()
		v, err := s.Version(t.Context())
		must(t, err)
		return v
	}
	last := version()
	if v := version(); v != last {
		t.Fatal("it changes by itself")
	}
	for i, step := range []func() error{
		func() error { return s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "c1")) },
		func() error { return other.Record(t.Context(), event(t, counterfoil.PhaseRefused, "c2")) },
		func() error { _, err := other.Attach(t.Context(), attachment(t, clock, "k", "1")); return err },
		func() error { return s.Ready(t.Context()) },
	} {
		must(t, step())
		v := version()
		if v == last {
			t.Fatalf("step %d did not show", i)
		}
		last = v
	}
	if _, err := s.Sweep(t.Context(), clock.Now()); err != nil || version() != last {
		t.Fatalf("an idle sweep shows: %v", err)
	}
}

// Only a use that is spent starts, only a receipt completes, and an event is whole.
func testRecordRejects(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for name, e := range map[string]counterfoil.Event{
		"nothing": {}, "a start": event(t, counterfoil.PhaseStarted, "run-1"), "an end": event(t, counterfoil.PhaseCompleted, "run-1"),
	} {
		if err := s.Record(t.Context(), e); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantPhases(t, s)
}

// An event says what was recorded with it: one that is about something else is refused, and nothing is recorded. It also
// keeps out ids that no event can name, which the store could not move by itself later.
func testEventsMatch(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	ctx := t.Context()
	refused := func(what string, err error) {
		t.Helper()
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", what, err)
		}
	}
	l := &Ledger{Store: s, Case: Approved(t, "a", clock.Now())}
	claim, err := l.Claim(ctx, "run-1")
	must(t, err)
	f, err := counterfoil.Run(ctx, claim, executor(done))
	must(t, err)
	other := &memory{clock: clock}
	_, err = counterfoil.Settle(ctx, &Ledger{Store: other, Case: l.Case}, f, Key(counterfoil.RoleReceipt), clock.Now())
	must(t, err)
	for name, e := range map[string]counterfoil.Event{
		"nothing": {}, "another execution's": event(t, counterfoil.PhaseCompleted, "run-2"), "a start": event(t, counterfoil.PhaseStarted, "run-1"),
		"another tenant's": eventOf(t, OtherTenant, counterfoil.PhaseCompleted, "run-1"),
	} {
		refused("Settle with "+name, s.Settle(ctx, gateway.Settling{Receipt: other.settled.Receipt, Completed: e}))
	}
	u := newUse("b", clock.Now())
	for name, e := range map[string]counterfoil.Event{
		"nothing": {}, "another execution's": event(t, counterfoil.PhaseStarted, "run-2"), "an end": event(t, counterfoil.PhaseCompleted, "run-b"),
		"another tenant's": eventOf(t, OtherTenant, counterfoil.PhaseStarted, "run-b"),
	} {
		refused("Spend with "+name, second(s.Spend(ctx, gateway.Spending{Use: u, Started: e})))
	}
	for name, text := range odd() {
		a := attachment(t, clock, "k", "1")
		if counterfoil.CheckIdentity(text) != nil {
			a.New.ID = text
			refused("Attach of "+name, second(s.Attach(ctx, a)))
		}
	}
	a := attachment(t, clock, "k", "1")
	a.Opened = event(t, counterfoil.PhaseRequested, "apr-k2")
	refused("Attach with another's event", second(s.Attach(ctx, a)))
	wantPhases(t, s, "started")
	must(t, s.Settle(ctx, *other.settled))
	must(t, spendUse(ctx, s, u, gateway.Spending{}))
	attach(t, s, clock, "k", "1")
	wantPhases(t, s, "started", "completed", "started", "requested")
}

// What belongs to one tenant is not there for another.
func testTenants(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	attach(t, s, clock, "k", "1")
	must(t, s.Rule(t.Context(), ruling(t, clock, "apr-k1", gateway.Approved)))
	_, err := (&Ledger{Store: s, Case: Approved(t, "k", clock.Now()), Spending: gateway.Spending{Request: "apr-k1"}}).Claim(t.Context(), "run-1")
	must(t, err)
	attach(t, s, clock, "l", "1")
	_, err = s.SeeServer(t.Context(), serverRow(clock))
	must(t, err)
	before := len(check(t, s))
	ctx := t.Context()
	for _, tenant := range []string{"other", "", "LOCAL", "local "} {
		foreign := ruling(t, clock, "apr-l1", gateway.Approved)
		foreign.Tenant = tenant
		row := serverRow(clock)
		row.Tenant, row.Classes, row.Decision = tenant, []byte("x"), []byte("x")
		for name, err := range map[string]error{
			"Request":        second(s.Request(ctx, tenant, "apr-l1")),
			"Execution":      second(s.Execution(ctx, tenant, "run-1")),
			"Server":         second(s.Server(ctx, tenant, "sha256:1")),
			"Answer":         second(s.Answer(ctx, tenant, "apr-l1", "w-l1")),
			"Leave":          s.Leave(ctx, tenant, "apr-l1", "w-l1", "x"),
			"Deliver":        s.Deliver(ctx, tenant, "apr-k1"),
			"Rule":           s.Rule(ctx, foreign),
			"Lapse":          s.Lapse(ctx, tenant, "apr-l1", gateway.Void, "x", event(t, counterfoil.PhaseLapsed, "apr-l1")),
			"ClassifyServer": s.ClassifyServer(ctx, row, event(t, counterfoil.PhaseClassified, "x")),
			"Requests":       second(s.Requests(ctx, tenant, "", "apr-l1", 5)),
			"Executions":     second(s.Executions(ctx, tenant, "run-1", 5)),
		} {
			if !errors.Is(err, gateway.ErrNotFound) {
				t.Errorf("%s of %q: %v", name, tenant, err)
			}
		}
		if rows, err := s.Requests(ctx, tenant, "", "", 5); err != nil || len(rows) != 0 {
			t.Errorf("requests of %q: %v, %v", tenant, rows, err)
		}
		if rows, err := s.Executions(ctx, tenant, "", 5); err != nil || len(rows) != 0 {
			t.Errorf("executions of %q: %v, %v", tenant, rows, err)
		}
		if rows, err := s.Servers(ctx, tenant); err != nil || len(rows) != 0 {
			t.Errorf("servers of %q: %v, %v", tenant, rows, err)
		}
		if log := events(t, s, tenant); len(log) != 0 {
			t.Errorf("log of %q: %v", tenant, log)
		}
	}
	// An event of one tenant never enters another's log.
	row := ruling(t, clock, "apr-l1", gateway.Approved)
	row.Event, err = counterfoil.NewEvent(counterfoil.PhaseApproved, Names(), counterfoil.EventParams{Tenant: "other", Audience: Audience, ExecutionID: "x"})
	must(t, err)
	wantCode(t, s.Rule(ctx, row), counterfoil.CodeInvalidInput)
	wantState(t, s, "apr-l1", gateway.Pending)
	if n := len(check(t, s)); n != before {
		t.Fatalf("%d events were added", n-before)
	}
}

// A caller that has left already records nothing.
func testCancelled(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, s.Record(ctx, event(t, counterfoil.PhaseRefused, "c")), counterfoil.CodeUnavailable)
	_, err := s.Attach(ctx, attachment(t, clock, "k", "1"))
	wantCode(t, err, counterfoil.CodeUnavailable)
	wantPhases(t, s)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "c")))
	wantPhases(t, s, "refused")
}

func testClosed(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	must(t, s.Record(t.Context(), event(t, counterfoil.PhaseRefused, "c")))
	var wg sync.WaitGroup
	for range 16 { // calls that are under way when it closes are done, or refused for good
		e := event(t, counterfoil.PhaseRefused, "d")
		wg.Go(func() {
			for {
				if err := s.Record(t.Context(), e); err != nil {
					if counterfoil.CodeOf(err) != counterfoil.CodeUnavailable {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	<-time.After(20 * time.Millisecond)
	must(t, s.Close())
	must(t, s.Close())
	wg.Wait()
	wantCode(t, s.Ready(t.Context()), counterfoil.CodeUnavailable)
	_, err := s.Request(t.Context(), Tenant, "x")
	wantCode(t, err, counterfoil.CodeUnavailable)
	_, err = s.Version(t.Context())
	wantCode(t, err, counterfoil.CodeUnavailable)
	check(t, b.Open(t, clock.Now, nil))
}
