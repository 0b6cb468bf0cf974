package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A model is the life of requests in plain words: what a store must do, without a database.
type model struct {
	now      time.Time
	requests []*modelRequest // oldest first
	events   int
}

type modelRequest struct {
	id, key            string
	state              gateway.State
	waiters            []string
	answered           bool
	expires, decided   time.Time
	settled, delivered bool
	keep               time.Time
	claim              *counterfoil.Claim
	ledger             *Ledger
}

func (m *model) find(key string) *modelRequest {
	for _, r := range slices.Backward(m.requests) {
		if r.key == key {
			return r
		}
	}
	return nil
}

func (r *modelRequest) open() bool { return r.state == gateway.Pending || r.state == gateway.Approved }

// attach returns the request that the caller gets and whether it is waited for.
func (m *model) attach(key, id, waiter string) *modelRequest {
	r := m.find(key)
	if r != nil && r.open() && !r.expires.After(m.now) {
		r.state = gateway.Expired
	}
	switch {
	case r != nil && r.state == gateway.Denied && r.decided.Add(coolDown).After(m.now):
		return r
	case r != nil && (r.open() || r.state == gateway.Spent && !r.delivered && (!r.settled || r.keep.After(m.now))):
	default:
		r = &modelRequest{id: id, key: key, state: gateway.Pending, expires: m.now.Add(requestLife)}
		m.requests = append(m.requests, r)
		m.events++
	}
	r.waiters = append(r.waiters, waiter)
	return r
}

func (r *modelRequest) answer(waiter string) {
	if r.state == gateway.Pending {
		r.answered = true
		r.waiters = slices.DeleteFunc(r.waiters, func(w string) bool { return w == waiter })
	}
}

func (r *modelRequest) leave(waiter string) {
	if !slices.Contains(r.waiters, waiter) {
		return
	}
	r.waiters = slices.DeleteFunc(r.waiters, func(w string) bool { return w == waiter })
	if len(r.waiters) == 0 && !r.answered {
		switch r.state {
		case gateway.Pending:
			r.state = gateway.Cancelled
		case gateway.Approved:
			r.state = gateway.Void
		case gateway.Denied, gateway.Expired, gateway.Cancelled, gateway.Void, gateway.Spent:
		}
	}
}

// testModel plays random steps against the store and the model, over two handles, and compares all after each.
func testModel(t *testing.T, b Backend) {
	seed := uint64(time.Now().UnixNano()) //nolint:forbidigo // a seed, not a time; it is printed
	t.Logf("seed %d", seed)
	clock := NewClock()
	p := &play{
		t: t, rnd: &dice{seed}, clock: clock, stores: []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)},
		m: &model{now: clock.Now()},
	}
	for n := range 300 {
		p.n = n
		what := p.step()
		p.compare(b, what)
	}
}

// dice are splitmix64: the same seed gives the same game.
type dice struct{ state uint64 }

func (d *dice) IntN(n int) int {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) >> 33 % uint64(n)) //nolint:gosec // 31 bits fit, and n is positive
}

type play struct {
	t      *testing.T
	rnd    *dice
	clock  *Clock
	stores []Store
	m      *model
	n      int
}

func (p *play) store() Store { return p.stores[p.rnd.IntN(len(p.stores))] }

// step makes one step in both worlds and says what it was.
func (p *play) step() string {
	t, ctx := p.t, p.t.Context()
	if len(p.m.requests) == 0 || p.rnd.IntN(4) == 0 {
		key := fmt.Sprintf("k%d-", p.rnd.IntN(4))
		a := attachment(t, p.clock, key, fmt.Sprint(p.n))
		a.Cap = 1000
		row, err := p.store().Attach(ctx, a)
		must(t, err)
		if want := p.m.attach(key, a.New.ID, a.Waiter); row.ID != want.id || row.State != want.state {
			t.Fatalf("step %d: attached to %s (%s), not to %s (%s)", p.n, row.ID, row.State, want.id, want.state)
		}
		return "attach " + key
	}
	r := p.m.requests[max(0, len(p.m.requests)-1-p.rnd.IntN(4))]
	waiter := "w-nobody"
	if len(r.waiters) > 0 && p.rnd.IntN(8) > 0 {
		waiter = r.waiters[p.rnd.IntN(len(r.waiters))]
	}
	switch p.rnd.IntN(9) {
	case 0:
		p.clock.Move(time.Duration(p.rnd.IntN(400)) * time.Second)
		p.m.now = p.clock.Now()
		return "time"
	case 1:
		must(t, second(p.store().Answer(ctx, Tenant, r.id, waiter)))
		r.answer(waiter)
		return "answer " + r.id
	case 2:
		must(t, p.store().Leave(ctx, Tenant, r.id, waiter, "gone"))
		r.leave(waiter)
		return "leave " + r.id
	case 3, 4:
		return p.rule(r)
	case 5:
		err := p.store().Lapse(ctx, Tenant, r.id, gateway.Void, "drift", event(t, counterfoil.PhaseLapsed, r.id))
		p.moved(err, r.open(), r.state)
		if err == nil {
			r.state = gateway.Void
			p.m.events++
		}
		return "lapse " + r.id
	case 6:
		return p.spend(r)
	case 7:
		return p.settleOrDeliver(r)
	default:
		return p.sweep()
	}
}

// moved checks that a move was made if it could be, and that its loser was told the state.
func (p *play) moved(err error, can bool, state gateway.State) {
	p.t.Helper()
	if can {
		must(p.t, err)
		return
	}
	wantConflict(p.t, err, state)
}

func (p *play) rule(r *modelRequest) string {
	to := []gateway.State{gateway.Approved, gateway.Approved, gateway.Denied}[p.rnd.IntN(3)]
	ru := ruling(p.t, p.clock, r.id, to)
	err := p.store().Rule(p.t.Context(), ru)
	state := r.state
	if state == gateway.Pending {
		state = gateway.Expired // what a ruling that comes too late is told
	}
	p.moved(err, r.state == gateway.Pending && r.expires.After(p.m.now), state)
	if err == nil {
		r.state, r.decided = to, p.m.now
		if to == gateway.Approved {
			r.expires = ru.ExpiresAt
		}
		p.m.events++
	}
	return "rule " + r.id
}

func (p *play) spend(r *modelRequest) string {
	keep := p.m.now.Add(time.Minute)
	l := &Ledger{
		Store: p.store(), Case: Approved(p.t, fmt.Sprint(r.id, p.n), p.m.now), Spending: gateway.Spending{Request: r.id},
		Settling: gateway.Settling{Request: r.id, Answer: []byte("sealed"), KeepUntil: keep},
	}
	claim, err := l.Claim(p.t.Context(), fmt.Sprintf("run-%d", p.n))
	switch r.state {
	case gateway.Approved:
		must(p.t, err)
		r.state, r.claim, r.ledger, r.keep = gateway.Spent, claim, l, keep
		p.m.events++
	case gateway.Spent:
		wantCode(p.t, err, counterfoil.CodeAlreadyUsed)
	case gateway.Pending, gateway.Denied, gateway.Expired, gateway.Cancelled, gateway.Void:
		wantCode(p.t, err, counterfoil.CodePolicyDenied)
	}
	return "spend " + r.id
}

func (p *play) settleOrDeliver(r *modelRequest) string {
	if r.claim != nil && !r.settled {
		r.ledger.Store = p.store()
		must(p.t, second(r.ledger.Finish(p.t.Context(), r.claim, p.m.now)))
		r.settled = true
		p.m.events++
		return "settle " + r.id
	}
	err := p.store().Deliver(p.t.Context(), Tenant, r.id)
	p.moved(err, r.state == gateway.Spent, r.state)
	r.delivered = r.delivered || err == nil
	return "deliver " + r.id
}

func (p *play) sweep() string {
	rows, err := p.store().Sweep(p.t.Context(), p.m.now)
	must(p.t, err)
	want := 0
	for _, r := range p.m.requests {
		if r.open() && !r.expires.After(p.m.now) {
			r.state = gateway.Expired
			want++
		}
	}
	if len(rows) != want {
		p.t.Fatalf("step %d: swept %d, not %d", p.n, len(rows), want)
	}
	return "sweep"
}

// compare holds the whole state of the store against the model's.
func (p *play) compare(b Backend, what string) {
	t := p.t
	if n := len(check(t, b, p.stores[0])); n != p.m.events {
		t.Fatalf("step %d, %s: %d events, not %d", p.n, what, n, p.m.events)
	}
	s := p.store()
	rows, err := s.Requests(t.Context(), Tenant, "", "", 1000)
	must(t, err)
	if len(rows) != len(p.m.requests) {
		t.Fatalf("step %d, %s: %d requests, not %d", p.n, what, len(rows), len(p.m.requests))
	}
	for i, r := range slices.Backward(p.m.requests) {
		row := rows[len(rows)-1-i]
		if row.ID != r.id || row.State != r.state || row.Answered != r.answered || !row.ExpiresAt.Equal(r.expires) ||
			!row.DecidedAt.Equal(r.decided) || (row.Outcome != "") != r.settled || row.Delivered != r.delivered {
			t.Fatalf("step %d, %s: the store has %+v, not %+v", p.n, what, row, r)
		}
	}
	if _, err := s.Request(t.Context(), Tenant, "apr-none"); !errors.Is(err, gateway.ErrNotFound) {
		t.Fatal(err)
	}
}
