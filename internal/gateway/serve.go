package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/counterfoil/counterfoil"
)

const sweepEvery = 500 * time.Millisecond

// Serve does the gateway's own work until ctx ends: it wakes waiting calls when the store changes, expires requests,
// and settles what dead processes left behind. It calls ready once the guard has succeeded and what can be recovered is
// settled: recovery precedes the first call. Any error, before or after, means that no call is taken any more.
func (g *Gateway) Serve(ctx context.Context, ready func()) (err error) {
	defer func() {
		g.serving.Store(false)
		if x := recover(); x != nil {
			err = &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "the gateway's own work has failed", Err: fmt.Errorf("panic: %v", x)}
			g.Logger.LogAttrs(ctx, slog.LevelError, "the gateway's own work has failed", slog.Any("panic", x), slog.String("stack", string(debug.Stack())))
		}
	}()
	if err := g.Guard(ctx); err != nil {
		return err
	}
	if err := g.recover(ctx); err != nil {
		return err
	}
	g.healthy.Store(true)
	g.serving.Store(true)
	ready()
	g.loop(ctx)
	return g.last(ctx)
}

// Ready reports whether calls are taken and the store answers: false before the guard has succeeded, after Serve has
// ended, and while the store fails.
func (g *Gateway) Ready() bool { return g.serving.Load() && g.healthy.Load() }

func (g *Gateway) loop(ctx context.Context) {
	poll, sweep := time.NewTicker(g.PollEvery), time.NewTicker(sweepEvery)
	defer poll.Stop()
	defer sweep.Stop()
	var last int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			last = g.poll(ctx, last)
		case <-sweep.C:
			g.watch(ctx, g.sweep(ctx))
		}
	}
}

// last offers the store once more what it has not taken yet. What it refuses again is settled by recovery, in another
// process.
func (g *Gateway) last(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return g.finish(ctx)
}

// watch notes whether a sweep succeeded, and says so when that changes.
func (g *Gateway) watch(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	switch was := g.healthy.Swap(err == nil); {
	case err != nil && was:
		g.Logger.LogAttrs(ctx, slog.LevelError, "the store fails; until it is well again calls are refused where it is needed", slog.String("error", err.Error()), slog.Any("cause", causes(err)))
	case err == nil && !was:
		g.Logger.LogAttrs(ctx, slog.LevelWarn, "the store is well again")
	}
}

// causes returns the text of what lies under an error of the boundary, for the log.
func causes(err error) string {
	if e, ok := errors.AsType[*counterfoil.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return ""
}

func (g *Gateway) poll(ctx context.Context, last int64) int64 {
	g.mu.Lock()
	waiting := g.waiting
	g.mu.Unlock()
	if waiting == 0 {
		return last
	}
	v, err := g.Store.Version(ctx)
	if err != nil {
		return last // the sweep meets the same trouble, and says so
	}
	if v != last {
		g.wake()
	}
	return v
}

// sweep does what time alone brings about.
func (g *Gateway) sweep(ctx context.Context) error {
	moved, err := g.Store.Sweep(ctx, g.Now())
	if len(moved) > 0 {
		g.wake()
	}
	g.stopFrozen(ctx)
	return errors.Join(err, g.recover(ctx), g.finish(ctx))
}
