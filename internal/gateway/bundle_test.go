package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A slowLog proves only after it was asked some times, as a log whose next checkpoint is still to come.
type slowLog struct {
	*translog.Logs
	times int
	err   error
}

func (l *slowLog) Prove(ctx context.Context, tenant string, events ...translog.Mention) (*counterfoil.Checkpoint, []counterfoil.Inclusion, error) {
	if l.times--; l.times >= 0 {
		return nil, nil, l.err
	}
	if err := l.Publish(ctx); err != nil {
		return nil, nil, err
	}
	return l.Logs.Prove(ctx, tenant, events...)
}

// A bundle waits a little for the checkpoint that covers it; without one it is a bundle that says what it can't show.
func TestBundle_proof(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		times  int
		err    error
		logged bool
	}{
		{"at once", 0, nil, true},
		{"after the next checkpoint", 5, translog.ErrNotLogged, true},
		{"no checkpoint comes", 1 << 30, translog.ErrNotLogged, false},
		{"dropped by retention", 1, translog.ErrDropped, false},
		{"the log is broken", 1, errors.New("forked"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, u := setup(t), newUpstream()
			g := f.open(func(cfg *gateway.Config) {
				logs, ok := cfg.Log.(*translog.Logs)
				if !ok {
					t.Fatal("no log")
				}
				cfg.Log = &slowLog{logs, c.times, c.err}
			})
			read := call(u, "resources/read", `{"uri":"x"}`, noHold)
			read.Method = "resources/read"
			out := g.do(t.Context(), read)
			out.want(t, "")
			b, err := g.Bundle(t.Context(), tenant, out.answer.Receipt, false)
			must(t, err)
			r, err := counterfoil.VerifyBundle(b, f.ring(), time.Now())
			must(t, err)
			if r.Logged != c.logged {
				t.Fatalf("logged: %v; not checked: %v", r.Logged, r.Unchecked)
			}
			if !c.logged && !strings.Contains(strings.Join(r.Unchecked, "\n"), "log") {
				t.Fatalf("not checked: %v", r.Unchecked)
			}
		})
	}
}
