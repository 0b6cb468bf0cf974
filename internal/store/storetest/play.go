package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// playing is how long games are begun: as many as fit.
const playing = 10 * time.Second

// testModel plays random steps against the store and the model, over two handles that are closed and opened again, and
// compares all after each. Each game has a database of its own.
func testModel(t *testing.T, fresh func(t *testing.T) Backend) {
	long := playing
	if testing.Short() {
		long /= 3
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	lost, games, steps := false, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		if ctx.Err() != nil && !lost { // a lost game is played again until it is as short as it can be
			return
		}
		lost = true
		p := newPlay(t, rt, fresh(t))
		for range 3 {
			rt.Repeat(p.actions())
		}
		lost = false
		games++
		steps += p.n
	})
	t.Logf("%d games, %d steps", games, steps)
}

type play struct {
	t  *testing.T // of the whole test: it makes records and never fails
	rt *rapid.T
	b  Backend
	m  *model
	n  int // steps

	clock   *Clock
	stores  [2]Store
	handles [2]int // which handle each store is: a new one after each restart
	dead    map[int]bool
}

func newPlay(t *testing.T, rt *rapid.T, b Backend) *play {
	clock := NewClock()
	p := &play{t: t, rt: rt, b: b, m: newModel(clock.Now()), clock: clock, dead: map[int]bool{}, handles: [2]int{0, 1}}
	for i := range p.stores {
		p.stores[i] = b.Open(t, clock.Now, nil)
	}
	rt.Cleanup(func() { // not at the end of the test alone: there may be many games
		for _, s := range p.stores {
			must(t, s.Close())
		}
	})
	return p
}

func (p *play) actions() map[string]func(*rapid.T) {
	actions := map[string]func(){
		"time": p.time, "attach": p.attach, "answer": p.answer, "leave": p.leave, "rule": p.rule, "lapse": p.lapse, "deliver": p.deliver,
		"sweep": p.sweep, "spend": p.spend, "settle": p.settle, "recover": p.recover, "advance": p.advance, "revoke": p.revoke,
		"record": p.record, "publish": p.publish, "restart": p.restart,
		// What most depends on comes more often.
		"time passes": p.time, "attach too": p.attach, "spend too": p.spend, "rule too": p.rule,
	}
	out := map[string]func(*rapid.T){"": func(*rapid.T) { p.compare() }}
	for name, f := range actions {
		out[name] = func(*rapid.T) {
			p.n++
			f()
		}
	}
	return out
}

func (p *play) ctx() context.Context { return p.t.Context() }

func (p *play) intn(n int, what string) int { return rapid.IntRange(0, n-1).Draw(p.rt, what) }

func (p *play) store() Store { return p.stores[p.intn(len(p.stores), "store")] }

func (p *play) event(phase counterfoil.Phase) counterfoil.Event {
	return event(p.t, phase, fmt.Sprint("step-", p.n))
}

// request picks one of the youngest; the game is skipped a step when there is none.
func (p *play) request() *modelRequest {
	all := p.m.requests
	if len(all) == 0 {
		p.rt.Skip("no request")
	}
	return all[max(0, len(all)-1-p.intn(4, "request"))]
}

func (p *play) waiter(r *modelRequest) string {
	var names []string
	for name := range r.waiters {
		names = append(names, name)
	}
	slices.Sort(names)
	return rapid.SampledFrom(append(names, "w-nobody")).Draw(p.rt, "waiter")
}

// moved checks that a move was made if it could be, and that its loser was told the state.
func (p *play) moved(err error, can bool, state gateway.State) bool {
	p.rt.Helper()
	if can {
		must(p.rt, err)
		return true
	}
	wantConflict(p.rt, err, state)
	return false
}

func (p *play) time() {
	most := rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Minute, requestLife, coolDown, 2 * time.Hour}).Draw(p.rt, "most")
	p.clock.Move(time.Duration(p.intn(int(most.Milliseconds()), "ms")+1) * time.Millisecond)
	p.m.now = p.clock.Now()
}

func (p *play) attach() {
	key, i := fmt.Sprintf("k%d-", p.intn(4, "key")), p.intn(2, "store")
	a := attachment(p.t, p.clock, key, fmt.Sprint(p.n))
	a.Cap = 1000
	row, err := p.stores[i].Attach(p.ctx(), a)
	must(p.rt, err)
	if want := p.m.attach(key, a.New.ID, a.Waiter, p.handles[i]); row.ID != want.id || row.State != want.state {
		p.rt.Fatalf("attached to %s (%s), not to %s (%s)", row.ID, row.State, want.id, want.state)
	}
}

func (p *play) answer() {
	r := p.request()
	waiter := p.waiter(r)
	must(p.rt, second(p.store().Answer(p.ctx(), Tenant, r.id, waiter)))
	r.answer(waiter)
}

func (p *play) leave() {
	r := p.request()
	waiter := p.waiter(r)
	must(p.rt, p.store().Leave(p.ctx(), Tenant, r.id, waiter, "gone"))
	p.m.leave(r, waiter)
}

func (p *play) rule() {
	r := p.request()
	to := rapid.SampledFrom([]gateway.State{gateway.Approved, gateway.Approved, gateway.Denied}).Draw(p.rt, "to")
	ru := ruling(p.t, p.clock, r.id, to)
	state := r.state
	if state == gateway.Pending {
		state = gateway.Expired // what a ruling that comes too late is told
	}
	if !p.moved(p.store().Rule(p.ctx(), ru), r.state == gateway.Pending && r.expires.After(p.m.now), state) {
		return
	}
	r.state, r.decided = to, p.m.now
	p.m.event(counterfoil.PhaseDenied)
	if to == gateway.Approved {
		r.expires = ru.ExpiresAt
		p.m.phases[len(p.m.phases)-1] = string(counterfoil.PhaseApproved)
	}
}

func (p *play) lapse() {
	r := p.request()
	if p.moved(p.store().Lapse(p.ctx(), Tenant, r.id, gateway.Void, "drift", p.event(counterfoil.PhaseLapsed)), r.open(), r.state) {
		p.m.lapse(r, gateway.Void)
	}
}

func (p *play) deliver() {
	r := p.request()
	if p.moved(p.store().Deliver(p.ctx(), Tenant, r.id), r.state == gateway.Spent, r.state) {
		r.delivered = true
	}
}

func (p *play) sweep() {
	rows, err := p.store().Sweep(p.ctx(), p.m.now)
	must(p.rt, err)
	var got []string
	for _, r := range rows {
		got = append(got, r.ID)
	}
	slices.Sort(got)
	if diff := cmp.Diff(p.m.sweep(p.dead), got); diff != "" {
		p.rt.Fatalf("swept others (-want +got):\n%s", diff)
	}
}

// spending draws what a use takes along.
func (p *play) spending() (sp gateway.Spending, r *modelRequest) {
	if len(p.m.requests) > 0 && p.intn(2, "with a request") == 1 {
		r = p.request()
		sp.Request = r.id
	}
	for range p.intn(3, "counters") {
		c := gateway.Counter{Name: fmt.Sprint("c", p.intn(3, "counter")), Add: int64(p.intn(5, "add") + 1), Limit: int64(p.intn(20, "limit") + 1)}
		if !slices.ContainsFunc(sp.Counters, func(x gateway.Counter) bool { return x.Name == c.Name }) {
			sp.Counters = append(sp.Counters, c)
		}
	}
	if p.intn(3, "once") == 0 {
		sp.Once = once(p.m.now.Add(1000*time.Hour), fmt.Sprint("key-", p.intn(5, "once-key"))).Once
	}
	if p.intn(3, "mark") == 0 {
		name := fmt.Sprint("m", p.intn(2, "mark"))
		sp.Marks = mark(name, max(0, p.m.marks[name]-int64(p.intn(2, "behind")))).Marks
	}
	return sp, r
}

func (p *play) spend() {
	sp, r := p.spending()
	i := p.intn(2, "store")
	keep := p.m.now.Add(time.Minute)
	id := fmt.Sprint("run-", p.n)
	u := &modelUse{id: id, handle: p.handles[i], request: r, late: map[counterfoil.Digest]bool{}}
	used := false
	l := &Ledger{Store: p.stores[i], Case: Approved(p.t, id, p.m.now)}
	if old := p.use(); old != nil && p.intn(4, "again") == 0 {
		l.Case, used = old.ledger.Case, true
	}
	l.Spending = sp
	l.Settling = gateway.Settling{Request: sp.Request, Answer: []byte("sealed"), KeepUntil: keep}
	claim, err := l.Claim(p.ctx(), id)
	why := p.m.refusals(sp, l.Use.Guards, r, used)
	if expires := l.Use.ExpiresAt; !expires.After(p.m.now) {
		why = append(why, counterfoil.CodeApprovalExpired)
	}
	if len(why) == 0 {
		must(p.rt, err)
		u.claim, u.ledger = claim, l
		p.m.spend(u, sp)
		return
	}
	for _, w := range why {
		c, ok := errors.AsType[*gateway.ConflictError](w)
		if !ok && errors.Is(err, w) {
			return
		}
		if got, is := errors.AsType[*gateway.ConflictError](err); ok && is && got.State == c.State {
			return
		}
	}
	p.rt.Fatalf("spending: %v, not %v", err, why)
}

// use picks one that was spent, nil for none.
func (p *play) use() *modelUse {
	var ids []string
	for id := range p.m.uses {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return p.m.uses[rapid.SampledFrom(ids).Draw(p.rt, "use")]
}

// settle runs a use, again if it has run, and brings its receipt, which is late if recovery was there before.
func (p *play) settle() {
	u := p.use()
	if u == nil {
		p.rt.Skip("no use")
	}
	l, s := u.ledger, p.store()
	x, err := s.Execution(p.ctx(), Tenant, u.id)
	must(p.rt, err)
	outcome := rapid.SampledFrom([]counterfoil.Outcome{counterfoil.OutcomeIndeterminate, counterfoil.OutcomeCancelled}).Draw(p.rt, "outcome")
	st, err := Recovered(x, outcome, p.m.now)
	must(p.rt, err)
	if l.Settling.Request != "" {
		st.Answer, st.KeepUntil = l.Settling.Answer, l.Settling.KeepUntil
	}
	for _, name := range u.counters {
		st.Counters = append(st.Counters, gateway.Counter{Name: name, Add: int64(p.intn(9, "actual") - 4)})
	}
	p.settled(u, st, s)
}

func (p *play) settled(u *modelUse, st gateway.Settling, s Store) {
	err := s.Settle(p.ctx(), st)
	if p.m.settle(u, st.Receipt.Digest(), st.Counters, st.KeepUntil) {
		wantCode(p.rt, err, counterfoil.CodeAlreadyUsed)
		return
	}
	must(p.rt, err)
}

// recover settles what closed handles left.
func (p *play) recover() {
	s := p.store()
	orphans, err := s.Orphans(p.ctx())
	must(p.rt, err)
	var got []string
	for _, x := range orphans {
		got = append(got, x.ID)
	}
	slices.Sort(got)
	if diff := cmp.Diff(p.m.orphans(p.dead), got); diff != "" {
		p.rt.Fatalf("the orphans (-want +got):\n%s", diff)
	}
	for _, x := range orphans {
		st, err := Recovered(x, counterfoil.OutcomeIndeterminate, p.m.now)
		must(p.rt, err)
		p.settled(p.m.uses[x.ID], st, s)
	}
}

func (p *play) advance() {
	name := fmt.Sprint("m", p.intn(2, "mark"))
	from := max(0, p.m.marks[name]-int64(p.intn(2, "behind")))
	to := from + 1 + int64(p.intn(2, "by"))
	err := p.store().Advance(p.ctx(), Tenant, name, from, to, p.event(counterfoil.PhaseRevoked))
	if from != p.m.marks[name] {
		wantRefused(p.rt, err, gateway.ErrChanged)
		return
	}
	must(p.rt, err)
	p.m.marks[name] = to
	p.m.event(counterfoil.PhaseRevoked)
}

func (p *play) revoke() {
	u := p.use()
	if u == nil {
		p.rt.Skip("no use")
	}
	subject := u.ledger.Case.Approval.Digest()
	must(p.rt, p.store().Revoke(p.ctx(), Tenant, subject, []byte("signed"), p.event(counterfoil.PhaseRevoked)))
	if !p.m.revoked[subject] {
		p.m.revoked[subject] = true
		p.m.event(counterfoil.PhaseRevoked)
	}
}

func (p *play) record() {
	must(p.rt, p.store().Record(p.ctx(), p.event(counterfoil.PhaseRefused)))
	p.m.event(counterfoil.PhaseRefused)
}

func (p *play) publish() {
	size := int64(len(p.m.phases)) - int64(p.intn(3, "behind"))
	if size < 1 {
		p.rt.Skip("no log")
	}
	err := p.store().Publish(p.ctx(), publication(size, tile(0, 0, int(min(size, 256)), "")))
	if size < p.m.size {
		if !errors.Is(err, translog.ErrStale) {
			p.rt.Fatalf("published an older one: %v", err)
		}
		return
	}
	must(p.rt, err)
	p.m.size = size
}

func (p *play) restart() {
	i := p.intn(2, "store")
	must(p.rt, p.stores[i].Close())
	p.dead[p.handles[i]] = true
	p.handles[i] = len(p.dead) + 1
	p.stores[i] = p.b.Open(p.t, p.clock.Now, nil)
}

// compare holds the whole state of the store against the model's.
func (p *play) compare() {
	s := p.store()
	st, err := readState(p.ctx(), s)
	must(p.rt, err)
	if diff := cmp.Diff(p.m.phases, st.check(p.rt)); diff != "" {
		p.rt.Fatalf("the log (-want +got):\n%s", diff)
	}
	if st.log.Published != p.m.size || len(st.requests) != len(p.m.requests) {
		p.rt.Fatalf("published %d, not %d; %d requests, not %d", st.log.Published, p.m.size, len(st.requests), len(p.m.requests))
	}
	for i, r := range slices.Backward(p.m.requests) {
		row := st.requests[len(st.requests)-1-i]
		if row.ID != r.id || row.State != r.state || row.Answered != r.answered || !row.ExpiresAt.Equal(r.expires) ||
			!row.DecidedAt.Equal(r.decided) || (row.Outcome != "") != r.settled || row.Delivered != r.delivered {
			p.rt.Fatalf("the store has %+v, not %+v", row, r)
		}
	}
	for _, x := range st.executions {
		if u := p.m.uses[x.ID]; u == nil || (x.Outcome != "") != (u.receipt != nil) {
			p.rt.Fatalf("the store has %+v, not %+v", x, u)
		}
	}
	for name, want := range p.m.counters {
		if is, err := counterIs(p.ctx(), s, name, want); err != nil || !is {
			p.rt.Fatalf("the counter %s is not at %d: %v", name, want, err)
		}
	}
	for name, want := range p.m.marks {
		if v, err := s.Mark(p.ctx(), Tenant, name); err != nil || v != want {
			p.rt.Fatalf("the mark %s stands at %d, not %d: %v", name, v, want, err)
		}
	}
}
