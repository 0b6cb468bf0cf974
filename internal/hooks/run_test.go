package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
)

func TestRun_order(t *testing.T) {
	t.Parallel()
	system := handler("system", "")
	system.Priority = 50
	w := newWorld(t, hooks.SystemHook{Params: system})
	for name, priority := range map[string]int{"last": 1000, "first": 0, "middle": 100} {
		p := handler(name, "")
		p.Priority = priority
		w.create(acme, p)
	}
	off, elsewhere, foreign := handler("off", ""), handler("elsewhere", ""), handler("foreign", "")
	off.Disabled, elsewhere.Phase = true, hooks.PostCall
	w.create(acme, off)
	w.create(acme, elsewhere)
	w.create(globex, foreign)
	results, err := w.hooks.Run(t.Context(), event(hooks.PreCall))
	must(t, err)
	if got := w.took(); got != "first system middle last" || len(results) != 4 {
		t.Errorf("ran: %s, %d results", got, len(results))
	}
	for _, r := range results {
		if r.Err != nil || r.Refused || r.Verdict.Notes["seen"] != `{"to":"ada"}` || r.Hook == "" {
			t.Errorf("%+v", r)
		}
	}
	for _, p := range []hooks.Phase{hooks.PreRequest, hooks.PostRequest} {
		if results, err := w.hooks.Run(t.Context(), event(p)); err != nil || len(results) != 0 {
			t.Errorf("%s: %d results, %v", p, len(results), err)
		}
	}
	other := event(hooks.PreCall)
	other.Tenant = globex
	_, err = w.hooks.Run(t.Context(), other)
	must(t, err)
	if got := w.took(); got != "system foreign" && got != "foreign system" {
		t.Errorf("for another tenant ran: %s", got)
	}
}

// Before, a refusal ends it; afterwards all learn of what happened.
func TestRun_refuses(t *testing.T) {
	t.Parallel()
	for p, want := range map[hooks.Phase]string{
		hooks.PreRequest: "a no", hooks.PreCall: "a no", hooks.PostRequest: "a no z never", hooks.PostCall: "a no z never",
	} {
		w := newWorld(t)
		for i, x := range [][2]string{{"a", ""}, {"no", "refuse"}, {"z", ""}, {"never", "refuse"}} {
			h := handler(x[0], x[1])
			h.Phase, h.Priority = p, i
			w.create(acme, h)
		}
		results, err := w.hooks.Run(t.Context(), event(p))
		refused, is := errors.AsType[*hooks.RefusedError](err)
		if !is || refused.Name != "no" || refused.Reason != "not on Fridays" || refused.Failed || refused.Phase != p || !errors.Is(err, counterfoil.CodePolicyDenied) {
			t.Errorf("%s: %v", p, err)
		}
		if got := w.took(); got != want || len(results) != len(strings.Fields(want)) {
			t.Errorf("%s: ran %s, %d results", p, got, len(results))
		}
	}
}

// Whatever a hook does wrong is its failure; it refuses unless it may fail open; the next one runs once, and so did it.
func TestRun_failures(t *testing.T) {
	t.Parallel()
	for _, does := range []string{"panic", "error", "nothing", "other", "long", "lines", "note", "notes", "slow", "deaf"} {
		for _, fail := range []hooks.FailMode{"", hooks.FailClosed, hooks.FailOpen} {
			t.Run(does+"/"+string(fail), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				bad, next := handler("bad", does), handler("next", "")
				bad.Fail, next.Priority = fail, hooks.DefaultPriority+1
				if does == "deaf" || does == "slow" {
					bad.Timeout = 10 * time.Millisecond
				} else {
					bad.Timeout = time.Second
				}
				next.Timeout = time.Second
				w.create(acme, bad)
				w.create(acme, next)
				results, err := w.hooks.Run(t.Context(), event(hooks.PreCall))
				if len(results) == 0 || results[0].Err == nil || results[0].Verdict.Action != "" || results[0].Verdict.Notes != nil {
					t.Fatalf("results: %+v", results)
				}
				if fail == hooks.FailOpen {
					if got := w.took(); err != nil || got != "bad next" || results[0].Refused {
						t.Errorf("open: ran %s, %v", got, err)
					}
					return
				}
				refused, is := errors.AsType[*hooks.RefusedError](err)
				if got := w.took(); !is || !refused.Failed || refused.Reason != "" || !errors.Is(err, counterfoil.CodeUnavailable) || got != "bad" || !results[0].Refused {
					t.Errorf("closed: ran %s, %v", got, err)
				}
				if strings.Contains(err.Error()+w.log.String(), "secret") || !strings.Contains(w.log.String(), "a hook failed") {
					t.Errorf("told: %v; logged: %s", err, w.log)
				}
			})
		}
	}
}

// A hook has its own time: the slow one before it takes nothing of it.
func TestRun_ownTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 4 {
		p := handler(fmt.Sprint("slow", i), "slow")
		p.Fail, p.Timeout, p.Priority = hooks.FailOpen, 30*time.Millisecond, i
		w.create(acme, p)
	}
	last := handler("last", "")
	last.Priority = 999
	last.Timeout = time.Second
	w.create(acme, last)
	results, err := w.hooks.Run(t.Context(), event(hooks.PreCall))
	if err != nil || len(results) != 5 || results[4].Err != nil {
		t.Errorf("%+v, %v", results, err)
	}
}

// What a hook does to its event nobody sees.
func TestRun_copies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scribble, next := handler("scribble", "scribble"), handler("next", "")
	scribble.Priority = 0
	w.create(acme, scribble)
	w.create(acme, next)
	e := event(hooks.PreCall)
	results, err := w.hooks.Run(t.Context(), e)
	must(t, err)
	if got := results[1].Verdict.Notes["seen"]; got != `{"to":"ada"}` || string(e.Payload) != got {
		t.Errorf("the next saw %q, the caller has %q", got, e.Payload)
	}
}

func TestRun_cancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, next := handler("slow", "slow"), handler("next", "")
	slow.Fail, slow.Timeout, slow.Priority = hooks.FailOpen, 5*time.Second, 0
	w.create(acme, slow)
	w.create(acme, next)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.hooks.Run(ctx, event(hooks.PreCall)); !errors.Is(err, counterfoil.CodeAborted) || w.took() != "slow" {
		t.Errorf("the caller went away: %v", err)
	}
}

func TestRun_rejects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, e := range []hooks.Event{{}, {Phase: hooks.PreCall}, {Tenant: acme}, {Phase: "later", Tenant: acme}} {
		if _, err := w.hooks.Run(t.Context(), e); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// What is known of a tenant is remembered for the lag, and not longer.
func TestRun_lag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.start()
	run := func(h *hooks.Hooks) error {
		_, err := h.Run(t.Context(), event(hooks.PreCall))
		return err
	}
	must(t, run(w.hooks))
	must(t, run(other))
	w.create(acme, handler("no", "refuse"))
	if err := run(w.hooks); !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("here it counts at once: %v", err)
	}
	must(t, run(other))
	w.clock.Move(time.Second)
	if err := run(other); !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("elsewhere after the lag: %v", err)
	}
	w.store.down = true
	if err := run(other); !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("remembered: %v", err)
	}
	w.clock.Move(time.Second)
	if err := run(other); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("the store is down: %v", err)
	}
	w.clock.Move(-time.Hour)
	if err := run(other); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("the clock went back: %v", err)
	}
}

func TestRun_concurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := handler("a", "")
	p.Timeout = 5 * time.Second
	h, _ := w.create(acme, p)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if results, err := w.hooks.Run(t.Context(), event(hooks.PreCall)); err != nil || len(results) != 1 {
					t.Errorf("%d results, %v", len(results), err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range int64(10) {
			if _, err := w.hooks.Change(t.Context(), ada, acme, h.ID, i+1, p); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if n := len(strings.Fields(w.took())); n != 320 {
		t.Errorf("ran %d times", n)
	}
}

// No program is started for a hook, and nothing is loaded: the package has no means to.
func TestImports(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		must(t, err)
		for _, i := range f.Imports {
			switch strings.Trim(i.Path.Value, `"`) {
			case "os", "os/exec", "plugin", "syscall", "unsafe", "reflect":
				t.Errorf("%s imports %s", name, i.Path.Value)
			}
		}
	}
}
