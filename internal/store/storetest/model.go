package storetest

import (
	"maps"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A model is a store in plain words: what it must do, without a database. Its methods change it as the store's change the
// database, and say what the store must.
type model struct {
	now      time.Time
	phases   []string // of the log
	requests []*modelRequest
	uses     map[string]*modelUse // by execution id
	counters map[string]int64
	once     map[string]bool
	marks    map[string]int64
	revoked  map[counterfoil.Digest]bool
	size     int64 // published
}

func newModel(now time.Time) *model {
	return &model{
		now: now, uses: map[string]*modelUse{}, counters: map[string]int64{}, once: map[string]bool{}, marks: map[string]int64{},
		revoked: map[counterfoil.Digest]bool{},
	}
}

func (m *model) event(p counterfoil.Phase) { m.phases = append(m.phases, string(p)) }

type modelRequest struct {
	id, key            string
	state              gateway.State
	waiters            map[string]int // and the handle that each waits at
	answered           bool
	expires, decided   time.Time
	settled, delivered bool
	keep               time.Time
}

// A modelUse is a use that was spent.
type modelUse struct {
	id       string
	handle   int // the handle it was spent at
	request  *modelRequest
	counters []string // of what it reserved, and may correct
	claim    *counterfoil.Claim
	ledger   *Ledger
	receipt  *counterfoil.Digest // nil while it is not settled
	late     map[counterfoil.Digest]bool
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

func (m *model) lapse(r *modelRequest, to gateway.State) {
	r.state = to
	m.event(counterfoil.PhaseLapsed)
}

// attach returns the request that the caller gets.
func (m *model) attach(key, id, waiter string, handle int) *modelRequest {
	r := m.find(key)
	if r != nil && r.open() && !r.expires.After(m.now) {
		m.lapse(r, gateway.Expired)
	}
	switch {
	case r != nil && r.state == gateway.Denied && r.decided.Add(coolDown).After(m.now):
		return r
	case r != nil && (r.open() || r.state == gateway.Spent && !r.delivered && (!r.settled || r.keep.After(m.now))):
	default:
		r = &modelRequest{id: id, key: key, state: gateway.Pending, expires: m.now.Add(requestLife), waiters: map[string]int{}}
		m.requests = append(m.requests, r)
		m.event(counterfoil.PhaseRequested)
	}
	r.waiters[waiter] = handle
	return r
}

func (r *modelRequest) answer(waiter string) {
	if r.state == gateway.Pending {
		r.answered = true
		delete(r.waiters, waiter)
	}
}

func (m *model) leave(r *modelRequest, waiter string) {
	if _, there := r.waiters[waiter]; there {
		delete(r.waiters, waiter)
		m.forsake(r)
	}
}

// forsake ends a request that nobody waits for, and reports whether it did.
func (m *model) forsake(r *modelRequest) bool {
	if len(r.waiters) > 0 || r.answered || !r.open() {
		return false
	}
	to := gateway.Void
	if r.state == gateway.Pending {
		to = gateway.Cancelled
	}
	m.lapse(r, to)
	return true
}

// sweep returns the ids of the requests that it moves. dead are the handles that were closed.
func (m *model) sweep(dead map[int]bool) (moved []string) {
	for _, r := range m.requests {
		before := len(r.waiters)
		maps.DeleteFunc(r.waiters, func(_ string, handle int) bool { return dead[handle] })
		switch {
		case r.open() && !r.expires.After(m.now):
			m.lapse(r, gateway.Expired)
		case len(r.waiters) == before || !m.forsake(r):
			continue
		}
		moved = append(moved, r.id)
	}
	slices.Sort(moved)
	return moved
}

// refusals are all that speaks against a spending. A store names one of them.
func (m *model) refusals(sp gateway.Spending, guards []counterfoil.Digest, r *modelRequest, used bool) (why []error) {
	if used {
		why = append(why, counterfoil.CodeAlreadyUsed)
	}
	if slices.ContainsFunc(guards, func(d counterfoil.Digest) bool { return m.revoked[d] }) {
		why = append(why, counterfoil.CodeRevoked)
	}
	for _, c := range sp.Counters {
		if m.counters[c.Name]+c.Add > c.Limit {
			why = append(why, gateway.ErrBudget)
		}
	}
	for _, o := range sp.Once {
		if m.once[o.Key] {
			why = append(why, counterfoil.CodeAlreadyUsed)
		}
	}
	for _, k := range sp.Marks {
		if m.marks[k.Name] != k.Value {
			why = append(why, gateway.ErrChanged)
		}
	}
	if r != nil && r.state != gateway.Approved {
		why = append(why, &gateway.ConflictError{State: r.state})
	}
	return why
}

func (m *model) spend(u *modelUse, sp gateway.Spending) {
	m.uses[u.id] = u
	m.event(counterfoil.PhaseStarted)
	for _, c := range sp.Counters {
		m.counters[c.Name] += c.Add
		u.counters = append(u.counters, c.Name)
	}
	for _, o := range sp.Once {
		m.once[o.Key] = true
	}
	if u.request != nil {
		u.request.state = gateway.Spent
	}
}

// settle reports whether the receipt is not the first.
func (m *model) settle(u *modelUse, receipt counterfoil.Digest, counters []gateway.Counter, keep time.Time) (late bool) {
	switch {
	case u.receipt != nil && *u.receipt == receipt:
		return false
	case u.receipt != nil:
		if !u.late[receipt] {
			u.late[receipt] = true
			m.event(counterfoil.PhaseLate)
		}
		return true
	}
	u.receipt = &receipt
	m.event(counterfoil.PhaseCompleted)
	for _, c := range counters {
		m.counters[c.Name] = max(0, m.counters[c.Name]+c.Add)
	}
	if u.request != nil {
		u.request.settled, u.request.keep = true, keep
	}
	return false
}

// orphans are the executions that closed handles left.
func (m *model) orphans(dead map[int]bool) (ids []string) {
	for _, u := range m.uses {
		if u.receipt == nil && dead[u.handle] {
			ids = append(ids, u.id)
		}
	}
	slices.Sort(ids)
	return ids
}
