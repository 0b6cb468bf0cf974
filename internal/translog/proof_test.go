package translog_test

import (
	"errors"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func TestProve(t *testing.T) {
	t.Parallel()
	w := setup(t)
	l := w.logs()
	prove := func(execution string, phases ...counterfoil.Phase) (*counterfoil.Checkpoint, []counterfoil.Inclusion, error) {
		return l.Prove(w.ctx(), tenant, mentions(execution, phases...)...)
	}
	const started, completed = counterfoil.PhaseStarted, counterfoil.PhaseCompleted
	if _, _, err := prove("x-3", started); !errors.Is(err, translog.ErrNotLogged) {
		t.Error("nothing is logged:", err)
	}
	w.run(200)
	if _, _, err := prove("x-3", started, completed); !errors.Is(err, translog.ErrNotLogged) {
		t.Error("nothing is published:", err)
	}
	w.publish()
	w.append(started, "late")
	for _, x := range []string{"x-0", "x-255", "x-597"} {
		c, proofs, err := prove(x, started, completed)
		if err != nil {
			t.Fatal(err)
		}
		if len(proofs) != 2 || proofs[1].Index != proofs[0].Index+1 || c.Size() != 600 {
			t.Errorf("%s: %d proofs under %d", x, len(proofs), c.Size())
		}
		for _, p := range proofs {
			e, err := counterfoil.ParseEvent(p.Event)
			if err := errors.Join(err, p.Verify(c)); err != nil || e.ExecutionID != x {
				t.Error(x, err)
			}
		}
	}
	if _, _, err := prove("late", started); !errors.Is(err, translog.ErrNotLogged) {
		t.Error("it is not published yet:", err)
	}
	if _, _, err := prove("x-0", started, counterfoil.PhaseRevoked); !errors.Is(err, translog.ErrNotLogged) {
		t.Error("there is no such event:", err)
	}
	if _, _, err := prove("x-0"); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Error("a proof of nothing:", err)
	}
	events := w.store.log(tenant).events
	rewrite(&events[1], "x-0", "x-1")
	_, _, err := prove("x-0", started)
	refused(t, err, "the event 2 is not the one that was published")
	events[1].Body = nil
	if _, _, err := prove("x-0", started); !errors.Is(err, translog.ErrDropped) {
		t.Error(err)
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	w := setup(t)
	l := w.logs()
	w.refusals(700)
	w.publish()
	for _, size := range []int64{1, 255, 256, 257, 512, 699, 700} {
		older := w.sign(size, w.rootOf(size))
		c, path, err := l.Consistency(w.ctx(), tenant, size)
		if err != nil {
			t.Fatal(err)
		}
		if err := counterfoil.CheckConsistency(older, c, path); err != nil {
			t.Error(size, err)
		}
	}
	for _, size := range []int64{-1, 0, 701} {
		if _, _, err := l.Consistency(w.ctx(), tenant, size); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Error(size, err)
		}
	}
	c, err := l.Latest(w.ctx(), "nobody")
	if c != nil || err != nil {
		t.Error(c, err)
	}
}

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, edit := range map[string]func(*translog.Config){
		"store":    func(c *translog.Config) { c.Store = nil },
		"ring":     func(c *translog.Config) { c.Ring = nil },
		"signer":   func(c *translog.Config) { c.Signer = nil },
		"logger":   func(c *translog.Config) { c.Logger = nil },
		"audience": func(c *translog.Config) { c.Audience = "a b" },
		"client":   func(c *translog.Config) { c.Witnesses = []translog.Witness{{Name: "w", URL: "http://127.0.0.1"}} },
	} {
		c := w.config()
		edit(&c)
		if _, err := translog.New(c); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func mentions(about string, phases ...counterfoil.Phase) []translog.Mention {
	out := make([]translog.Mention, len(phases))
	for i, p := range phases {
		out[i] = translog.Mention{About: about, Phase: p}
	}
	return out
}
