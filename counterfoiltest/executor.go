package counterfoiltest

import (
	"context"
	"slices"
	"sync"

	"github.com/counterfoil/counterfoil"
)

// A Behaviour is how an Executor treats the boundary.
type Behaviour int

// The behaviours. The effect has happened when Run was called.
const (
	BehaveWell        Behaviour = iota // redeem, run, return what Run returns
	BehavePanic                        // panic after the effect
	BehaveHang                         // after the effect, wait until the context ends, and return its error
	BehaveFail                         // after the effect, fail without a code: nobody knows what happened
	BehaveUnreached                    // fail with CodeExecutionFailed, without the effect
	BehaveFlood                        // return more bytes than were approved
	BehaveManyRows                     // say that there are more rows than were approved
	BehaveMiscount                     // say that there are -1 rows
	BehaveNotRedeem                    // return a result without redeeming the claim, and so without the effect
	BehaveRedeemTwice                  // redeem once more after the effect, and have it again if that works
)

// An Executor is an executor made of a function. It redeems the claim and hands the function the work.
type Executor struct {
	Name   string
	Does   counterfoil.Effect
	Run    func(context.Context, counterfoil.Work) (counterfoil.Result, error) // nil for an empty result
	Behave Behaviour

	mu      sync.Mutex
	effects []string
}

// Tool implements counterfoil.Executor.
func (x *Executor) Tool() string { return x.Name }

// Effect implements counterfoil.Executor.
func (x *Executor) Effect() counterfoil.Effect { return x.Does }

// Effects returns the idempotency key of each effect, in order. A test of a program that must not execute asks that there
// is none.
func (x *Executor) Effects() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.effects)
}

// Execute implements counterfoil.Executor.
func (x *Executor) Execute(ctx context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	if x.Behave == BehaveNotRedeem {
		return counterfoil.Result{Value: []byte("{}")}, nil
	}
	w, err := c.Redeem()
	if err != nil {
		return counterfoil.Result{}, err
	}
	if x.Behave == BehaveUnreached {
		return counterfoil.Result{}, counterfoil.CodeExecutionFailed
	}
	res, err := x.effect(ctx, w)
	switch x.Behave {
	case BehavePanic:
		panic("counterfoiltest: the executor was told to panic")
	case BehaveHang:
		<-ctx.Done()
		return counterfoil.Result{}, context.Cause(ctx)
	case BehaveFail:
		return counterfoil.Result{}, ErrFault
	case BehaveFlood:
		res.Value = make([]byte, w.Limit.Bytes+1)
	case BehaveManyRows:
		res.Rows = w.Limit.Rows + 1
	case BehaveMiscount:
		res.Rows = -1
	case BehaveRedeemTwice:
		if again, err := c.Redeem(); err == nil {
			return x.effect(ctx, again)
		}
	case BehaveWell, BehaveUnreached, BehaveNotRedeem:
	}
	return res, err
}

func (x *Executor) effect(ctx context.Context, w counterfoil.Work) (counterfoil.Result, error) {
	x.mu.Lock()
	x.effects = append(x.effects, w.IdempotencyKey)
	x.mu.Unlock()
	if x.Run == nil {
		return counterfoil.Result{}, nil
	}
	return x.Run(ctx, w)
}
