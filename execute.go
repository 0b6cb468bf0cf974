package counterfoil

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Ledger remembers which uses are spent, durably and once.
type Ledger interface {
	// Spend records the first use of u together with the started event, in one atomic durable commit. Exactly one call
	// per use (approval digest and step) ever returns nil, over goroutines, processes and restarts, and by then the
	// record is durable. A definite refusal carries its code: CodeAlreadyUsed, CodeRevoked, CodeApprovalExpired,
	// CodeNotYetValid, CodeClock, CodePolicyDenied, CodeSignatureInvalid, CodeIntegrityFailed (the use is of another tenant or
	// audience than the ledger's) or CodeUnavailable (nothing was recorded). Any other error means that the outcome of the
	// commit is unknown: the caller must not execute.
	//
	// In the transaction of the commit, and before Use.Consume, the ledger refuses with CodeRevoked a use that has a
	// revoked subject among its Guards, and with CodePolicyDenied one whose step After has no receipt of success.
	Spend(ctx context.Context, u Use, started Event) (*Consumption, error)
	// Settle records the receipt of a spent use together with the completed event, if the use has none yet. The same
	// receipt again is no error; another receipt for a settled use is CodeAlreadyUsed, and is not recorded.
	Settle(ctx context.Context, r *Receipt, completed Event) error
}

// An Executor runs one kind of operation. It must take the operation from the claim by Redeem, which works once.
type Executor interface {
	// Tool and Effect say what the executor does; both must be the operation's.
	Tool() string
	Effect() Effect
	// Execute runs the redeemed operation. An error that carries CodeExecutionFailed says that the tool was not
	// reached; any other error leaves the outcome unknown. ctx has a deadline, which is the work's. Execute must return when
	// ctx has ended: it is waited for a little longer (Grace), so that it can say what it saw, and then left alone.
	Execute(ctx context.Context, c *Claim) (Result, error)
}

// A Claim is a spent use in the hands of the one who may run it. Spend is its only maker. The zero Claim is refused.
type Claim struct {
	auth        *Authorization
	consumption *Consumption
	names       *Pseudonyms
	entered     atomic.Bool // by Run
	redeemed    atomic.Bool // by the executor, or made void by Run
	deadline    atomic.Pointer[time.Time]
}

// Work is what a redeemed claim entitles to.
type Work struct {
	Operation      *Operation
	Limit          Limit
	IdempotencyKey string // the use digest: the same for every attempt that is the same effect
	// Deadline is when the effect must have ended, by the clock of this process; zero if Run did not hand out the work.
	Deadline time.Time
}

// Redeem hands out the work, once. The second call, and any call on a nil or zero Claim, is refused.
func (c *Claim) Redeem() (Work, error) {
	if c == nil || c.auth == nil || c.consumption == nil {
		return Work{}, fail(CodeInvalidInput, "this is not a claim")
	}
	if !c.redeemed.CompareAndSwap(false, true) {
		return Work{}, fail(CodeAlreadyUsed, "the claim was redeemed before")
	}
	w := Work{Operation: c.auth.operation, Limit: c.auth.limit, IdempotencyKey: c.consumption.digest.String()}
	if d := c.deadline.Load(); d != nil {
		w.Deadline = *d
	}
	return w, nil
}

// Consumption returns the ledger's record of the use.
func (c *Claim) Consumption() *Consumption { return c.consumption }

// SpendParams is what Spend needs beside the authorization.
type SpendParams struct {
	ExecutionID string   // unique; becomes the receipt's id
	Nonce       [16]byte // 128 fresh random bits
	Pseudonyms  *Pseudonyms
}

func (p *SpendParams) check() error {
	if err := CheckIdentity(p.ExecutionID); err != nil {
		return err
	}
	if p.Nonce == [16]byte{} || !p.Pseudonyms.made() {
		return fail(CodeInvalidInput, "spending needs a nonce and pseudonyms")
	}
	return nil
}

// Spend spends the use (INV-3, INV-4). The ledger's record is held against everything that a verifier will hold it against:
// what would never verify is not executed. An error with CodeUnknownOutcome means that the use may be spent: the host must
// resolve it with its ledger and must not execute.
func Spend(ctx context.Context, l Ledger, a *Authorization, p SpendParams) (*Claim, error) {
	if l == nil || a == nil || a.approval == nil {
		return nil, fail(CodeInvalidInput, "spending needs a ledger and an authorization")
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, failWith(CodeAborted, "cancelled before the use was spent", err)
	}
	started := stepEvent(PhaseStarted, p.Pseudonyms, a.dry, a.approval, a.step.ID, p.ExecutionID)
	u := a.use(p.ExecutionID, p.Nonce)
	var c *Consumption
	err := guarded(func() (err error) {
		c, err = l.Spend(ctx, u, started)
		return err
	})
	if err != nil {
		return nil, spendError(err)
	}
	if c == nil || c.spends(a.approval) != nil || c.step != u.Step || c.id != u.ExecutionID || c.nonce != hex.EncodeToString(u.Nonce[:]) {
		return nil, fail(CodeUnknownOutcome, "the ledger answered for another use")
	}
	err = u.judgeTime(c.at)
	if err == nil {
		err = c.verifySignature(a.ring, true, nil)
	}
	if err != nil {
		return nil, failWith(CodeUnknownOutcome, "the ledger answered with a record that does not verify", err)
	}
	return &Claim{auth: a, consumption: c, names: p.Pseudonyms}, nil
}

// spendError keeps a definite refusal's code and sentence; whatever else a ledger says is an unknown outcome.
func spendError(err error) error {
	code, msg := CodeOf(err), "the ledger refused the use"
	if e, ok := errors.AsType[*Error](err); ok {
		msg = e.Msg
	}
	if !slices.Contains(definite(), code) {
		code, msg = CodeUnknownOutcome, "the ledger could not say whether the use is spent"
	}
	return failWith(code, msg, err)
}

// definite returns the codes with which a Ledger says that it recorded nothing.
func definite() []Code {
	return []Code{
		CodeAlreadyUsed, CodeRevoked, CodeApprovalExpired, CodeNotYetValid, CodeClock, CodePolicyDenied, CodeSignatureInvalid,
		CodeIntegrityFailed, CodeUnavailable,
	}
}

// A Finished execution has run and waits to be settled.
type Finished struct {
	claim   *Claim
	outcome Outcome
	result  Result // empty unless it may be handed on
	seen    Result // what was observed, for the receipt
	err     error

	mu      sync.Mutex
	receipt *Receipt // once issued: a second Settle records the same one (INV-5)
}

// Outcome returns how the execution ended.
func (f *Finished) Outcome() Outcome { return f.outcome }

// Result returns what may be handed on: empty when the result was over its limits or there is none.
func (f *Finished) Result() Result { return f.result }

// Err returns the executor's error, for the host's own log.
func (f *Finished) Err() error { return f.err }

// How long an executor may take.
const (
	DefaultTimeout = 10 * time.Minute // when nobody says
	MaxTimeout     = 24 * time.Hour

	// Grace is how long an executor is waited for when its time is over or it was cancelled.
	Grace = 10 * time.Second
)

// Run enters the executor with the claim, once, and judges what comes back. It always returns a Finished that Settle
// turns into a receipt, whatever the executor did (INV-5); the error is for a claim or an executor that is none, and for a
// claim that was run before.
//
// The executor's deadline is that of ctx, DefaultTimeout from now if ctx has none, and never later than MaxTimeout. What comes
// back after it, or after a cancellation, is observed and not accepted: a read has failed then, the outcome of anything else is
// indeterminate. An executor that has not come back when Grace is over too is left alone: nobody can end it from outside. It
// can't redeem the claim any more, and whatever it returns is ignored.
func Run(ctx context.Context, c *Claim, x Executor) (*Finished, error) {
	if c == nil || c.auth == nil || x == nil {
		return nil, fail(CodeInvalidInput, "running needs a claim and an executor")
	}
	if !c.entered.CompareAndSwap(false, true) {
		return nil, fail(CodeAlreadyUsed, "the claim was run before")
	}
	timeout := MaxTimeout
	if _, bounded := ctx.Deadline(); !bounded {
		timeout = DefaultTimeout
	}
	return run(ctx, c, x, timeout), nil
}

func run(ctx context.Context, c *Claim, x Executor, timeout time.Duration) *Finished {
	f := &Finished{claim: c, outcome: OutcomeCancelled}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	c.deadline.Store(&deadline)
	res, err := await(ctx, c, x)
	late := context.Cause(ctx)
	switch {
	case c.redeemed.CompareAndSwap(false, true):
		// The executor never had the operation, and from here on nobody will: nothing can have happened.
		if f.err = err; err == nil {
			f.err = fail(CodeExecutionFailed, "the executor did not take the operation")
		}
	case err == nil:
		f.judge(res, late)
	case errors.Is(err, CodeExecutionFailed):
		f.outcome, f.err = OutcomeFailed, err
	case late != nil:
		f.outcome, f.err = f.spoiled(), err
		f.observe(res)
	default:
		f.outcome, f.err = OutcomeIndeterminate, err
		f.observe(res)
	}
	return f
}

// await enters the executor and waits until it comes back, or Grace beyond the end of ctx.
func await(ctx context.Context, c *Claim, x Executor) (Result, error) {
	var back struct { // not read before done is closed
		res Result
		err error
	}
	done := make(chan struct{})
	go func() {
		defer close(done) // also if the executor ends its goroutine
		back.err = CodeUnknownOutcome
		back.res, back.err = enter(ctx, c, x)
	}()
	select {
	case <-done:
		return back.res, back.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-done:
		return back.res, back.err
	case <-grace.C:
		return Result{}, failWith(CodeUnknownOutcome, "the executor does not end", context.Cause(ctx))
	}
}

// enter calls the executor. A panic in it becomes an error: what it did before is unknown.
func enter(ctx context.Context, c *Claim, x Executor) (res Result, err error) {
	if err := fits(x, c.auth.operation); err != nil {
		return Result{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, failWith(CodeAborted, "cancelled before the executor was entered", err)
	}
	err = guarded(func() (err error) {
		res, err = x.Execute(ctx, c)
		return err
	})
	return res, err
}

// fits checks that the executor is made for the operation.
func fits(x Executor, o *Operation) error {
	return guarded(func() error {
		if x.Tool() != o.tool || x.Effect() != o.effect {
			return fail(CodeInvalidInput, "the executor is for another tool or effect")
		}
		return nil
	})
}

// observe keeps what was seen of a result, for the receipt.
func (f *Finished) observe(res Result) (counted bool) {
	f.seen = res
	if res.Rows < 0 || res.Rows > maxSafeInteger || res.Uncounted && res.Rows != 0 {
		f.seen.Rows, f.seen.Uncounted = 0, true
		return false
	}
	return true
}

// judge holds a result against the approved limits, and against the end of the time for it. What is over them is observed, and
// not handed on.
func (f *Finished) judge(res Result, late error) {
	if res.Value == nil {
		res.Value = []byte{} // an empty result is a result
	}
	limit := f.claim.auth.limit
	switch {
	case !f.observe(res):
		f.outcome, f.err = f.spoiled(), fail(CodeExecutionFailed, "the executor's row count is not a count")
	case late != nil:
		f.outcome, f.err = f.spoiled(), failWith(CodeExecutionFailed, "the result came after the deadline or a cancellation", late)
	case res.size() > limit.Bytes || res.Rows > limit.Rows:
		f.outcome, f.err = f.spoiled(), fail(CodeExecutionFailed, "the result is larger than what was approved")
	case res.cut():
		f.outcome, f.err = f.spoiled(), fail(CodeExecutionFailed, "the result is not whole")
	case res.JSON && faultInJSON(res.Value) != "":
		f.outcome, f.err = f.spoiled(), fail(CodeExecutionFailed, faultInJSON(res.Value))
	case res.Failed:
		f.outcome, f.result = OutcomeFailed, res
	default:
		f.outcome, f.result = OutcomeSucceeded, res
	}
}

// spoiled is the outcome of an effect whose result can't be accepted: a read failed, but a write may well have happened.
func (f *Finished) spoiled() Outcome {
	if f.claim.auth.operation.effect.Class() == ClassRead {
		return OutcomeFailed
	}
	return OutcomeIndeterminate
}

// Settle issues the receipt and records it with the completed event. A cancelled ctx does not stop it: an effect that
// happened is recorded. An error with CodeReceiptFailed leaves the use started in the ledger, where recovery will find it;
// the receipt is nil or not known to be recorded. Settling again records the same receipt.
func Settle(ctx context.Context, l Ledger, f *Finished, signer Signer, now time.Time) (*Receipt, error) {
	if l == nil || f == nil || f.claim == nil {
		return nil, fail(CodeInvalidInput, "settling needs a ledger and a finished execution")
	}
	ctx = context.WithoutCancel(ctx)
	a := f.claim.auth
	r, err := f.issue(ctx, signer, now)
	if err != nil {
		return nil, failWith(CodeReceiptFailed, "the receipt could not be issued", err)
	}
	completed := r.completedEvent(f.claim.names, a.dry, a.approval)
	if err := guarded(func() error { return l.Settle(ctx, r, completed) }); err != nil {
		return r, failWith(CodeReceiptFailed, "the receipt could not be recorded", err)
	}
	return r, nil
}

// issue makes the one receipt of the execution.
func (f *Finished) issue(ctx context.Context, signer Signer, now time.Time) (*Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.receipt != nil {
		return f.receipt, nil
	}
	a := f.claim.auth
	r := &Receipt{outcome: f.outcome, uncounted: f.seen.Uncounted, observedRows: f.seen.Rows, seenBytes: f.seen.size(), result: f.seen.digest()}
	if f.outcome == OutcomeSucceeded {
		r.rows, r.bytes = r.observedRows, r.seenBytes
	}
	if err := r.issue(ctx, a.dry, a.approval, f.claim.consumption, signer, now); err != nil {
		return nil, err
	}
	f.receipt = r
	return r, nil
}

// An Execution is all that Execute needs.
type Execution struct {
	ID         string   // unique; becomes the receipt's id
	Nonce      [16]byte // 128 fresh random bits
	DryRun     *DryRun
	Approval   *Approval
	Context    *Context
	StepID     string
	Operation  *Operation
	Keys       *KeyRing
	Ledger     Ledger
	Executor   Executor
	Signer     Signer // of receipts
	Pseudonyms *Pseudonyms
	Now        func() time.Time
	// Timeout is the executor's; zero is DefaultTimeout, and MaxTimeout is the most.
	Timeout time.Duration
}

// read asks the host for the time.
func read(clock func() time.Time) (now time.Time, err error) {
	if err := guarded(func() error { now = clock(); return nil }); err != nil {
		return now, failWith(CodeClock, "the clock failed", err)
	}
	return now, nil
}

// Execute authorizes, spends, runs and settles. It returns the result and the receipt; an execution that did not succeed
// returns its receipt with an error: CodeExecutionFailed, CodeAborted or CodeUnknownOutcome. A Ledger that is a Refuser
// keeps a record of each refusal.
func Execute(ctx context.Context, x Execution) (Result, *Receipt, error) {
	c, err := x.admit(ctx)
	if err != nil {
		return Result{}, nil, x.refused(ctx, err)
	}
	if x.Timeout == 0 {
		x.Timeout = DefaultTimeout
	}
	f := run(ctx, c, x.Executor, x.Timeout)
	ended, _ := read(x.Now) // a clock that fails now must not lose the receipt: it has the time of the use then
	r, err := Settle(ctx, x.Ledger, f, x.Signer, ended)
	if err != nil {
		return Result{}, r, err
	}
	switch {
	case f.outcome == OutcomeSucceeded:
		return f.result, r, nil
	case f.outcome == OutcomeCancelled && CodeOf(f.err) == CodeAborted:
		return Result{}, r, failWith(CodeAborted, "the executor was not entered", f.err)
	case f.outcome == OutcomeCancelled:
		return Result{}, r, failWith(CodeExecutionFailed, "the executor did not take the operation", f.err)
	case f.outcome == OutcomeFailed:
		return f.result, r, failWith(CodeExecutionFailed, "the executor reported a failure", f.err)
	default:
		return Result{}, r, failWith(CodeUnknownOutcome, "nobody can say whether the effect happened", f.err)
	}
}

// admit makes every check and spends the use: all that comes before the executor.
func (x *Execution) admit(ctx context.Context) (*Claim, error) {
	if x.Now == nil || x.Executor == nil || x.Operation == nil {
		return nil, fail(CodeInvalidInput, "the execution is not complete")
	}
	if x.Timeout < 0 || x.Timeout > MaxTimeout {
		return nil, fail(CodeInvalidInput, "an executor may take a day at most")
	}
	p := SpendParams{ExecutionID: x.ID, Nonce: x.Nonce, Pseudonyms: x.Pseudonyms}
	if err := p.check(); err != nil {
		return nil, err
	}
	if x.Ledger == nil {
		return nil, fail(CodeInvalidInput, "the execution has no ledger")
	}
	if err := fits(x.Executor, x.Operation); err != nil {
		return nil, failWith(CodeInvalidInput, "the executor is for another tool or effect", err)
	}
	now, err := read(x.Now)
	if err != nil {
		return nil, err
	}
	a, err := Authorize(x.DryRun, x.Approval, x.Context, x.StepID, x.Operation, x.Keys, now)
	if err != nil {
		return nil, err
	}
	// Without this a wrong key would come to light only after the effect.
	key, err := publicOf(x.Signer)
	if err != nil || key.Role != RoleReceipt || !key.validAt(x.Approval.tenant, now) {
		return nil, failWith(CodeSignatureInvalid, "there is no key that may sign the receipt", err)
	}
	return Spend(ctx, x.Ledger, a, p)
}
