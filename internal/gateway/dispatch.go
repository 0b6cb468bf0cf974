package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// spend checks everything once more at this instant and spends the use. From here on the call has a receipt coming.
func (g *Gateway) spend(ctx context.Context, p *passage) error {
	ring, err := g.Keys.Ring()
	if err != nil {
		return err
	}
	current, err := counterfoil.NewContext(p.source())
	if err != nil {
		return err
	}
	now := g.Now()
	auth, err := counterfoil.Authorize(p.dry, p.appr, current, counterfoil.CallStep, p.op, ring, now)
	if err != nil {
		return err
	}
	// Without this a receipt that nobody may sign would come to light only after the effect. A call can take that long.
	for _, at := range []time.Time{now, now.Add(g.CallTimeout)} {
		if err := mayIssue(ring, g.Keys.Receipt(), p.call.Tenant, at); err != nil {
			return err
		}
	}
	params := counterfoil.SpendParams{Pseudonyms: g.Keys.Pseudonyms()}
	if params.ExecutionID, err = g.id("run-"); err != nil {
		return err
	}
	if err := g.random(params.Nonce[:]); err != nil {
		return err
	}
	l := &ledger{g: g, p: p, id: params.ExecutionID}
	for range redecisions {
		p.claim, err = counterfoil.Spend(ctx, l, auth, params)
		if !errors.Is(err, ErrChanged) {
			break
		}
		if err := g.stands(ctx, p, true); err != nil { // the tenant has moved on: is the call still one that stands?
			return err
		}
	}
	switch {
	case err == nil:
		g.mu.Lock()
		if len(g.calls) >= maxRemembered {
			clear(g.calls)
		}
		g.calls[p.run()]++
		g.mu.Unlock()
		return nil
	case errors.Is(err, ErrBudget):
		return refuse(BudgetExhausted, "this run has used all of its calls", err)
	case errors.Is(err, counterfoil.CodeAlreadyUsed) && p.request != "":
		return g.share(ctx, p) // another caller of the same request was first
	case errors.Is(err, counterfoil.CodeUnknownOutcome):
		return g.resolve(ctx, p, l.use, err)
	default:
		return err
	}
}

// redecisions is how often a call is spent against a tenant that changes all the time.
const redecisions = 3

// A ledger is the store as the boundary sees it, for one call: it adds what the gateway commits along.
type ledger struct {
	g   *Gateway
	p   *passage
	id  string
	use counterfoil.Use
}

// Spend implements counterfoil.Ledger.
func (l *ledger) Spend(ctx context.Context, u counterfoil.Use, started counterfoil.Event) (*counterfoil.Consumption, error) {
	l.use = u
	p := l.p
	sealed, err := l.g.seal(u.Tenant, vault.KindOperation, l.id, p.op.Canonical())
	if err != nil {
		return nil, err
	}
	return l.g.Store.Spend(ctx, Spending{
		Use: u, Started: started, Request: p.request,
		Counters: []Counter{{Name: "calls/" + p.call.Run, Add: 1, Limit: l.g.MaxCalls}}, Marks: p.marks,
		Approval: p.appr.Envelope(), DryRun: p.dry.Canonical(), Policy: p.dry.Policy().Canonical(), Operation: sealed,
	})
}

// Settle implements counterfoil.Ledger.
func (l *ledger) Settle(ctx context.Context, r *counterfoil.Receipt, completed counterfoil.Event) error {
	s := Settling{Receipt: r, Completed: completed, Request: l.p.request, KeepUntil: l.p.appr.ExpiresAt()}
	if s.Request != "" && (l.p.reply.Result != nil || l.p.reply.Error != nil) {
		sealed, err := l.g.sealAnswer(l.use.Tenant, s.Request, l.p.reply)
		if err != nil {
			return err
		}
		s.Answer = sealed
	}
	return l.g.Store.Settle(ctx, s)
}

// mayIssue returns an error unless the key may sign a receipt of the tenant at an instant, as the ring has it, by which
// receipts are verified.
func mayIssue(ring *counterfoil.KeyRing, signer counterfoil.Signer, tenant string, at time.Time) error {
	id := signer.Public().ID
	for _, k := range ring.Keys() {
		if k.ID == id && k.Role == counterfoil.RoleReceipt && k.MayAct(tenant, at) == nil {
			return nil
		}
	}
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no key that may sign the receipt; nothing was executed"}
}

// run gives the upstream the approved bytes. A caller that leaves does not stop an effect at once that a person approved:
// its outcome waits for the retry.
func (g *Gateway) run(ctx context.Context, p *passage) error {
	ctx, cancel := context.WithTimeoutCause(detach(ctx, p, g.Grace), g.CallTimeout, errTimeout)
	defer cancel()
	ctx, done := g.follow(ctx, p)
	defer done()
	x := &executor{p: p}
	f, err := counterfoil.Run(ctx, p.claim, x)
	if err != nil {
		return err
	}
	p.finished = f
	if f.Result().Value != nil {
		p.reply = x.answer
	}
	p.reply.Receipt = p.claim.Consumption().ExecutionID()
	return nil
}

const errTimeout = sentinel("the upstream took too long")

// detach lets an approved call outlive its caller by grace. A call that policy allowed ends with its caller: no retry
// would find its outcome.
func detach(ctx context.Context, p *passage, grace time.Duration) context.Context {
	if p.request == "" {
		return ctx
	}
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) }) })
	return out
}

// executor is the upstream as the boundary sees it.
type executor struct {
	p      *passage
	answer Answer
}

func (x *executor) Tool() string               { return x.p.call.Tool }
func (x *executor) Effect() counterfoil.Effect { return x.p.effect }

// Execute implements counterfoil.Executor: what is sent comes from the redeemed operation alone.
func (x *executor) Execute(ctx context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	w, err := c.Redeem()
	if err != nil {
		return counterfoil.Result{}, err
	}
	r := Request{
		Method: x.p.call.Method, Tool: w.Operation.Tool(), Arguments: w.Operation.Parameters(), Meta: x.p.call.Meta,
		IdempotencyKey: w.IdempotencyKey, MaxBytes: w.Limit.Bytes,
	}
	if x.p.call.Extra != nil {
		r.Arguments, r.Extra = splitExtra(r.Arguments)
	}
	a, err := x.p.call.Upstream.Send(ctx, r)
	if err != nil {
		if errors.Is(err, ErrUnsent) {
			return counterfoil.Result{}, &counterfoil.Error{Code: counterfoil.CodeExecutionFailed, Msg: "the upstream could not be reached", Err: err}
		}
		return counterfoil.Result{}, err
	}
	x.answer = a
	if a.Error != nil {
		return counterfoil.Result{Value: a.Error, Uncounted: true, Failed: true}, nil
	}
	return inspect(a.Result)
}

// settle records how the call ended and says it to the caller.
func (g *Gateway) settle(ctx context.Context, p *passage) error {
	l := &ledger{g: g, p: p, id: p.reply.Receipt}
	l.use.Tenant = p.call.Tenant
	r, err := counterfoil.Settle(ctx, l, p.finished, g.Keys.Receipt(), g.Now())
	if p.request != "" {
		g.wake()
	}
	switch {
	case errors.Is(err, counterfoil.CodeAlreadyUsed):
		return &Refusal{
			Reason: OutcomeUnknown, Approval: p.request, Receipt: p.reply.Receipt, Err: err,
			Msg: "the outcome came too late: the call was already recorded as interrupted, and what came back was logged beside that",
		}
	case err != nil:
		g.later(func(ctx context.Context) error { return g.settleAgain(ctx, l) })
		return &Refusal{
			Reason: OutcomeUnknown, Msg: "the call ran, but its outcome could not be recorded yet", Approval: p.request,
			Receipt: p.reply.Receipt, Err: err,
		}
	}
	if p.reply.Result == nil && p.reply.Error == nil {
		return outcomeRefusal(r.Outcome(), p.request, r.ID(), p.finished.Err())
	}
	p.reply.Deliver = g.deliver(ctx, p)
	return nil
}

// settleAgain offers the same receipt once more, or makes it if it could not be signed before. One that came too late was
// logged: that is the end of it.
func (g *Gateway) settleAgain(ctx context.Context, l *ledger) error {
	_, err := counterfoil.Settle(ctx, l, l.p.finished, g.Keys.Receipt(), g.Now())
	if errors.Is(err, counterfoil.CodeAlreadyUsed) {
		g.warn(ctx, "an outcome came too late and was logged", l.p.request, err)
		return nil
	}
	return err
}

// outcomeRefusal says how a call ended that has no answer to hand on.
func outcomeRefusal(o counterfoil.Outcome, request, receipt string, cause error) *Refusal {
	r := &Refusal{Reason: OutcomeUnknown, Msg: "the outcome is not known", Approval: request, Receipt: receipt, Err: cause}
	switch o {
	case counterfoil.OutcomeFailed:
		r.Reason, r.Msg = UpstreamUnavailable, "the call failed and had no effect that can be handed on"
	case counterfoil.OutcomeCancelled:
		r.Reason, r.Msg = ApprovalVoid, "the call was cancelled before anything was sent; its approval is used up"
	case counterfoil.OutcomeIndeterminate, counterfoil.OutcomeSucceeded:
		r.Reason, r.Msg = OutcomeUnknown, "the call was sent and nobody can say whether it took effect; look before you repeat it"
	}
	return r
}

// deliver returns what hands the answer of a request over, nil for a call that has none.
func (g *Gateway) deliver(ctx context.Context, p *passage) func(func() error) error {
	if p.request == "" {
		return nil
	}
	tenant, id := p.call.Tenant, p.request
	return func(write func() error) error {
		defer g.hand(id)()
		if err := write(); err != nil {
			return err // the answer waits for the retry
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := g.Store.Deliver(ctx, tenant, id); err != nil {
			g.warn(ctx, "an answer could not be marked as delivered", id, err)
		}
		return nil
	}
}

// A handing is an answer on its way to one or more callers.
type handing struct {
	n    int
	done chan struct{}
}

// hand notes that a request's answer is being handed over, until the returned function is called.
func (g *Gateway) hand(id string) (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.handing[id]
	if h == nil {
		h = &handing{done: make(chan struct{})}
		g.handing[id] = h
	}
	h.n++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if h.n--; h.n == 0 {
			delete(g.handing, id)
			close(h.done)
		}
	}
}

// handed waits until no answer of the request is being handed over, and reports whether it had to wait.
func (g *Gateway) handed(ctx context.Context, id string) bool {
	g.mu.Lock()
	h := g.handing[id]
	g.mu.Unlock()
	if h == nil {
		return false
	}
	select {
	case <-h.done:
	case <-ctx.Done():
	}
	return true
}

// share waits for the outcome of the caller that was first and hands its answer on: one effect, one receipt.
func (g *Gateway) share(ctx context.Context, p *passage) error {
	for {
		change, done := g.wait()
		row, err := g.Store.Request(ctx, p.call.Tenant, p.request)
		if err != nil {
			done()
			return err
		}
		if row.Outcome != "" {
			done()
			return g.handOn(ctx, p, row)
		}
		if row.State != Spent {
			done()
			return g.decided(ctx, p, row)
		}
		select {
		case <-change:
			done()
		case <-ctx.Done():
			done()
			return refuse(OutcomeUnknown, "the caller went away while the call was running", context.Cause(ctx))
		}
	}
}

func (g *Gateway) handOn(ctx context.Context, p *passage, row RequestRow) error {
	if row.Answer == nil {
		if err := g.Store.Deliver(ctx, row.Tenant, row.ID); err != nil {
			return err
		}
		return outcomeRefusal(counterfoil.Outcome(row.Outcome), row.ID, row.Execution, nil)
	}
	a, err := g.openAnswer(row)
	if err != nil {
		return err
	}
	a.Receipt = row.Execution
	a.Deliver = g.deliver(ctx, p)
	p.reply, p.answered = a, true
	return nil
}

// inspect looks at a result's few members that the gateway must know; the bytes are relayed as they are.
func inspect(result []byte) (counterfoil.Result, error) {
	v, err := readResult(result)
	if err != nil {
		return counterfoil.Result{}, err
	}
	res := counterfoil.Result{Value: bytes.Clone(result), Failed: v.isError, Rows: v.rows, Uncounted: v.rows < 0}
	if res.Uncounted {
		res.Rows = 0
	}
	switch v.kind {
	case "", "complete", "input_required", "task":
		return res, nil
	default:
		return counterfoil.Result{}, errors.New("the upstream's result is of a kind that is not known")
	}
}
