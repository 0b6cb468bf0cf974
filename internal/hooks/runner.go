package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

// maxRunning bounds the hooks that run at once, those that overstay among them.
const maxRunning = 1024

// A ready hook can be run.
type ready struct {
	Hook
	run    Handler
	broken error // why it can't be run; then it fails
}

// Run runs the hooks of the event's phase: those of the system and those of the tenant. Before a request or call the first
// that refuses ends it; afterwards all run, so that each learns of it, and a refusal means that the answer is withheld. Then
// ctx must not end with the caller's connection.
//
// It returns what became of each hook that ran, and a [*RefusedError] when one refused. Any other error means that the
// hooks are not known (CodeUnavailable) or that ctx ended (CodeAborted): the request must not go on.
func (h *Hooks) Run(ctx context.Context, e Event) ([]Result, error) {
	if !validPhase(e.Phase) || e.Tenant == "" {
		return nil, bad("", "an event of hooks needs a phase and a tenant")
	}
	all, err := h.known(ctx, e.Tenant)
	if err != nil {
		return nil, err
	}
	var results []Result
	var refused error
	for _, x := range all {
		if x.Phase != e.Phase || x.Disabled {
			continue
		}
		r := h.once(ctx, x, e)
		results = append(results, r)
		if err := context.Cause(ctx); err != nil {
			return results, &counterfoil.Error{Code: counterfoil.CodeAborted, Msg: "the caller went away while hooks ran", Err: err}
		}
		if !r.Refused || refused != nil {
			continue
		}
		refused = &RefusedError{Phase: e.Phase, Hook: x.ID, Name: x.Name, Reason: r.Verdict.Reason, Failed: r.Err != nil}
		if e.Phase.before() {
			break
		}
	}
	return results, refused
}

// Try runs one hook with an event of the caller's making, whether it is switched on or not.
func (h *Hooks) Try(ctx context.Context, tenant, id string, e Event) (Result, error) {
	all, err := h.known(ctx, tenant)
	if err != nil {
		return Result{}, err
	}
	at := slices.IndexFunc(all, func(x *ready) bool { return x.ID == id })
	if at < 0 {
		return Result{}, ErrNotFound
	}
	e.Tenant, e.Phase = tenant, all[at].Phase
	return h.once(ctx, all[at], e), nil
}

// once runs one hook.
func (h *Hooks) once(ctx context.Context, x *ready, e Event) Result {
	began := h.o.Now()
	v, err := h.within(ctx, x, e)
	if err == nil {
		err = v.check()
	}
	r := Result{Hook: x.ID, Name: x.Name, Verdict: v, Err: err, Refused: v.Action == Refuse, Took: max(h.o.Now().Sub(began), 0)}
	if err != nil {
		r.Verdict, r.Refused = Verdict{}, x.Fail != FailOpen
		h.o.Log.LogAttrs(ctx, slog.LevelWarn, "a hook failed", slog.String("tenant", e.Tenant), slog.String("hook", x.ID),
			slog.String("phase", string(e.Phase)), slog.Bool("refused", r.Refused), slog.String("error", err.Error()), slog.String("cause", cause(err)))
	}
	return r
}

func cause(err error) string {
	if e, ok := errors.AsType[*counterfoil.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return ""
}

// within gives a hook its time. One that overstays is left alone: Close waits for it.
func (h *Hooks) within(ctx context.Context, x *ready, e Event) (Verdict, error) {
	if x.broken != nil {
		return Verdict{}, x.broken
	}
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	type said struct {
		verdict Verdict
		err     error
	}
	done := make(chan said, 1)
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return Verdict{}, failure("too many hooks run", context.Cause(ctx))
	}
	h.running.Go(func() {
		defer func() { <-h.slots }()
		v, err := guarded(ctx, x.run, e.clone())
		done <- said{v, err}
	})
	select {
	case s := <-done:
		return s.verdict, s.err
	case <-ctx.Done():
		return Verdict{}, failure("the hook took too long", context.Cause(ctx))
	}
}

// guarded turns a panic into the hook's failure. What was panicked with may hold arguments: only its type is told, and what
// the runtime says.
func guarded(ctx context.Context, run Handler, e Event) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = Verdict{}, failure("the hook panicked", fmt.Errorf("with %T", p))
			if e, ok := p.(runtime.Error); ok {
				err = failure("the hook panicked", e)
			}
		}
	}()
	v, err = run(ctx, e)
	v.Notes = maps.Clone(v.Notes) // nobody else writes to these
	return v, err
}

// prepare makes a hook ready. What is wrong with it is a refusal when it is defined, and its failure when it runs.
func (h *Hooks) prepare(x Hook, s Secret, where outlet) *ready {
	r := &ready{Hook: x}
	r.run, r.broken = h.handler(x, s, where)
	return r
}

func (h *Hooks) handler(x Hook, s Secret, where outlet) (Handler, error) {
	if x.URL == "" {
		maker, ok := h.o.Handlers[x.Handler]
		if !ok {
			return nil, bad("/handler", "there is no such handler")
		}
		run, err := maker(maps.Clone(x.Config))
		if err == nil && run == nil {
			err = errors.New("nil handler")
		}
		if err != nil {
			return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/config", Msg: "the handler refuses its configuration", Err: err}
		}
		return run, nil
	}
	u, err := target(x.URL)
	switch {
	case err != nil:
		return nil, err
	case where.transport == nil || !where.hosts.Covers(u):
		return nil, bad("/url", "callbacks to this host are not allowed")
	case s.IsZero():
		return nil, failure("the callback has no secret", nil)
	}
	client := where.transport.Client(reach.ClientOptions{Domains: reach.Only(u), MaxBody: maxAnswer, Timeout: maxTimeout})
	c := &callback{hook: x, secret: s, client: client, rand: h.o.Rand, now: h.o.Now}
	return c.call, nil
}

// order is the order in which hooks run.
func order(a, b *ready) int {
	if a.Priority != b.Priority {
		return a.Priority - b.Priority
	}
	return strings.Compare(a.ID, b.ID)
}
