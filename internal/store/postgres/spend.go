package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// A spending is a use to be spent.
type spending struct {
	s   *Store
	ctx context.Context
	sp  gateway.Spending

	clock       time.Time                // when it was prepared
	early       *counterfoil.Consumption // as it was prepared; nil when it couldn't be
	consumption *counterfoil.Consumption
}

// Spend implements gateway.Uses: the guards, the counters, the use, its documents and the started event in one commit. The
// unique index over the uses lets one caller through, whatever else is said.
func (s *Store) Spend(ctx context.Context, sp gateway.Spending) (*counterfoil.Consumption, error) {
	o := &spending{s: s, ctx: context.WithoutCancel(ctx), sp: sp}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.prepare(s.o.Now())
	if err := s.group(ctx, o); err != nil {
		return nil, err
	}
	return o.consumption, nil
}

func (o *spending) check() error {
	u := &o.sp.Use
	if u.Audience != o.s.o.Audience {
		return fail(counterfoil.CodeIntegrityFailed, "the use is for another audience", nil)
	}
	if err := names(u.Tenant, u.ExecutionID, u.Step); err != nil {
		return err
	}
	if err := texts(u.After, o.sp.Request); err != nil {
		return err
	}
	for _, c := range o.sp.Counters {
		if err := names(c.Name); err != nil {
			return err
		}
	}
	for _, k := range o.sp.Once {
		if err := names(k.Key); err != nil {
			return err
		}
		if k.Until.IsZero() {
			return fail(counterfoil.CodeInvalidInput, "a key that is taken once has an end", nil)
		}
	}
	for _, m := range o.sp.Marks {
		if err := names(m.Name); err != nil {
			return err
		}
	}
	if o.sp.Started.Phase() != counterfoil.PhaseStarted {
		return fail(counterfoil.CodeInvalidInput, "a spending is a started event", nil)
	}
	return about(u.Tenant, u.ExecutionID, o.sp.Started)
}

func (o *spending) size() int {
	return 4*eventSize + len(o.sp.Approval) + len(o.sp.DryRun) + len(o.sp.Operation)
}

func (o *spending) key() useKey {
	return useKey{rowscan.Millis(o.sp.Use.ExpiresAt), o.sp.Use.Approval, o.sp.Use.Step}
}

func (o *spending) before() useKey {
	return useKey{rowscan.Millis(o.sp.Use.ExpiresAt), o.sp.Use.Approval, o.sp.Use.After}
}

func (o *spending) grant() name { return name{o.sp.Use.Tenant, "grant/" + o.sp.Use.Grant.String()} }

func (o *spending) want(v *view) {
	u := &o.sp.Use
	v.tenant(u.Tenant)
	v.alive = true
	v.uses[o.key()] = nil
	if u.After != "" {
		v.uses[o.before()] = nil
	}
	v.ids[name{u.Tenant, u.ExecutionID}] = nil
	for _, g := range u.Guards {
		v.revoked[subject{u.Tenant, g}] = false
	}
	for _, c := range o.sp.Counters {
		v.counters[name{u.Tenant, c.Name}] = &counter{}
	}
	if !u.Grant.IsZero() {
		v.counters[o.grant()] = &counter{}
	}
	for _, k := range o.sp.Once {
		v.once[name{u.Tenant, k.Key}] = &taking{}
	}
	for _, m := range o.sp.Marks {
		v.marks[name{u.Tenant, m.Name}] = 0
	}
	if o.sp.Request != "" {
		v.requests[name{u.Tenant, o.sp.Request}] = &request{}
	}
}

func (o *spending) judge(v *view) (bool, error) {
	o.consumption = nil
	if err := o.refuse(v); err != nil {
		return false, err
	}
	values, err := o.count(v)
	if err != nil {
		return false, err
	}
	u, h := &o.sp.Use, v.t.heads[o.sp.Use.Tenant]
	if h == nil {
		return false, fail(counterfoil.CodeUnavailable, "the tenant's log is not there; nothing was recorded", nil)
	}
	if !u.Grant.IsZero() {
		values[o.grant()] = v.counters[o.grant()].value + 1
		u.GrantCount = values[o.grant()]
	}
	c, err := o.consume(h.at)
	if err != nil {
		return false, err
	}
	if err := v.t.append(u.Tenant, o.sp.Started.WithUse(c.Digest()), c.At()); err != nil {
		return false, err
	}
	o.consumption = c
	o.apply(v, values, h.sequence)
	return true, nil
}

// prepare signs the use as of now, which is most of the work: callers do it before they queue, and the leader once more for
// one that has waited too long. It is no decision: judge takes it only where it is what would be signed again.
func (o *spending) prepare(clock time.Time) {
	if o.early != nil && !clock.Before(o.clock) && clock.Sub(o.clock) <= soon/2 || !o.sp.Use.Grant.IsZero() {
		return
	}
	o.early, o.clock = nil, clock
	defer func() {
		if recover() != nil { // a signer that panics does so again when it is its turn, where it is said
			o.early = nil
		}
	}()
	if c, err := o.sp.Use.Consume(o.ctx, clock, time.Time{}, o.s.o.Signer); err == nil {
		o.early = c
	}
}

// soon is how old a prepared use may be: locks may have been waited for.
const soon = 200 * time.Millisecond

// consume signs the use, unless that was done already with an instant that still holds: a head that isn't later would not
// have changed it.
func (o *spending) consume(head time.Time) (*counterfoil.Consumption, error) {
	now := o.s.o.Now()
	if o.early != nil && !head.After(o.early.At()) && !now.Before(o.clock) && now.Sub(o.clock) <= soon {
		return o.early, nil
	}
	return o.sp.Use.Consume(o.ctx, now, head, o.s.o.Signer)
}

// refuse says no where anything that was read does.
func (o *spending) refuse(v *view) error {
	u := &o.sp.Use
	if v.uses[o.key()] != nil {
		return fail(counterfoil.CodeAlreadyUsed, "the approval was used before", nil)
	}
	if v.ids[name{u.Tenant, u.ExecutionID}] != nil {
		return fail(counterfoil.CodeInternal, "the execution's id belongs to another use", nil)
	}
	for _, g := range u.Guards {
		if v.revoked[subject{u.Tenant, g}] {
			return fail(counterfoil.CodeRevoked, "the approval, or something that it rests on, was revoked", nil)
		}
	}
	for _, m := range o.sp.Marks {
		if v.marks[name{u.Tenant, m.Name}] != m.Value {
			return fail(counterfoil.CodePolicyDenied, "what the decision rests on has changed", gateway.ErrChanged)
		}
	}
	for i, k := range o.sp.Once {
		twice := slices.ContainsFunc(o.sp.Once[:i], func(b gateway.Once) bool { return b.Key == k.Key })
		if twice || v.once[name{u.Tenant, k.Key}].taken {
			return fail(counterfoil.CodeAlreadyUsed, "a key that can be taken once was taken before", nil)
		}
	}
	if u.After != "" {
		if x := v.uses[o.before()]; x == nil || x.outcome != string(counterfoil.OutcomeSucceeded) {
			return fail(counterfoil.CodePolicyDenied, "the step before this one has not succeeded", nil)
		}
	}
	if o.sp.Request == "" {
		return nil
	}
	r := v.requests[name{u.Tenant, o.sp.Request}]
	if r.state == gateway.Approved {
		return nil
	}
	if r.state == "" {
		return fail(counterfoil.CodePolicyDenied, "the request is not approved", gateway.ErrNotFound)
	}
	conflict := &gateway.ConflictError{State: r.state}
	if r.state == gateway.Spent {
		return fail(counterfoil.CodeAlreadyUsed, "the approval was used before", conflict)
	}
	return fail(counterfoil.CodePolicyDenied, "the request is not approved", conflict)
}

// count returns what the counters come to, unless one would go over its limit.
func (o *spending) count(v *view) (map[name]int64, error) {
	values := map[name]int64{}
	for _, c := range o.sp.Counters {
		k := name{o.sp.Use.Tenant, c.Name}
		have, ok := values[k]
		if !ok {
			have = v.counters[k].value
		}
		if c.Add < 1 || c.Limit < c.Add || have > c.Limit-c.Add {
			return nil, exhausted()
		}
		values[k] = have + c.Add
	}
	return values, nil
}

// exhausted carries a code beside the name that the gateway looks for, so that the boundary takes it for the definite
// refusal that it is.
func exhausted() error {
	return fail(counterfoil.CodePolicyDenied, "the budget is used up", gateway.ErrBudget)
}

// apply changes the view for those who come after, and adds to what is written. Nothing refuses from here on.
func (o *spending) apply(v *view, values map[name]int64, sequence int64) {
	u, c := &o.sp.Use, o.consumption
	x := &execution{
		place: place{u.Tenant, sequence}, id: u.ExecutionID, approval: u.Approval, use: c.Digest(), step: u.Step,
	}
	v.uses[o.key()], v.ids[name{u.Tenant, u.ExecutionID}], v.found[x.place] = x, x, x
	for k, n := range values {
		v.counters[k].value, v.counters[k].moved = n, true
	}
	for _, k := range o.sp.Once {
		t := v.once[name{u.Tenant, k.Key}]
		t.taken, t.moved, t.until = true, true, max(t.until, rowscan.Millis(k.Until))
	}
	if o.sp.Request != "" {
		r := v.requests[name{u.Tenant, o.sp.Request}]
		r.state, r.execution, r.spent = gateway.Spent, u.ExecutionID, u.ExecutionID
	}
	var policy []byte
	if o.sp.Policy != nil {
		sum := counterfoil.Digest(sha256.Sum256(o.sp.Policy))
		policy = sum[:]
		if !v.t.s.has(sum) {
			v.policies[sum] = o.sp.Policy
		}
	}
	use := c.Digest()
	r := &v.spent
	r.tenant, r.sequence, r.id = append(r.tenant, u.Tenant), append(r.sequence, sequence), append(r.id, u.ExecutionID)
	r.request, r.approval, r.step = append(r.request, o.sp.Request), append(r.approval, u.Approval[:]), append(r.step, u.Step)
	r.use, r.started, r.expires = append(r.use, use[:]), append(r.started, rowscan.Millis(c.At())), append(r.expires, rowscan.Millis(u.ExpiresAt))
	r.policy, r.consumption, r.approved = append(r.policy, policy), append(r.consumption, c.Envelope()), append(r.approved, o.sp.Approval)
	r.dryRun, r.operation = append(r.dryRun, o.sp.DryRun), append(r.operation, o.sp.Operation)
}

// has reports whether a policy is known to be stored.
func (s *Store) has(policy counterfoil.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved[policy]
}

// maxSaved bounds how many policies are remembered to be stored.
const maxSaved = 1 << 12

// keep remembers what a batch has stored for good.
func (s *Store) keep(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.saved)+len(v.policies) > maxSaved {
		clear(s.saved)
	}
	for sum := range v.policies {
		s.saved[sum] = true
	}
}

// Resolve implements gateway.Uses. It waits for whoever holds the tenant's log, so that an attempt whose commit is still
// under way has ended: that the use is absent is final.
func (s *Store) Resolve(ctx context.Context, u counterfoil.Use) (gateway.Resolution, *counterfoil.Consumption, error) {
	var execution string
	var envelope []byte
	err := s.transact(ctx, []string{u.Tenant}, func(t *tx) error {
		return t.get(`SELECT id, consumption FROM executions WHERE expires = $1 AND approval = $2 AND step = $3`,
			[]any{rowscan.Millis(u.ExpiresAt), u.Approval[:], u.Step}, &execution, &envelope)
	})
	switch {
	case errors.Is(err, gateway.ErrNotFound):
		return gateway.UseAbsent, nil, nil
	case err != nil:
		return 0, nil, err
	case execution != u.ExecutionID:
		return gateway.UseAnothers, nil, nil
	}
	c, err := counterfoil.ParseConsumption(envelope)
	if err != nil {
		return 0, nil, fail(counterfoil.CodeIntegrityFailed, "the use's record is damaged", err)
	}
	return gateway.UseMine, c, nil
}
