package mcpexec_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/mcpexec"
)

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*mcpexec.Options){
		"no name":            func(o *mcpexec.Options) { o.Tool = "" },
		"wildcard":           func(o *mcpexec.Options) { o.Tool = "*" },
		"prefix wildcard":    func(o *mcpexec.Options) { o.Tool = "safe-*" },
		"leading blank":      func(o *mcpexec.Options) { o.Tool = " search" },
		"inner blank":        func(o *mcpexec.Options) { o.Tool = "search all" },
		"trailing line feed": func(o *mcpexec.Options) { o.Tool = "search\n" },
		"leading dash":       func(o *mcpexec.Options) { o.Tool = "-search" },
		"leading dot":        func(o *mcpexec.Options) { o.Tool = ".search" },
		"slash":              func(o *mcpexec.Options) { o.Tool = "server/search" },
		"other alphabet":     func(o *mcpexec.Options) { o.Tool = "s\u0435arch" },
		"129 bytes":          func(o *mcpexec.Options) { o.Tool = strings.Repeat("a", 129) },
		"no Parse":           func(o *mcpexec.Options) { o.Parse = nil },
		"no Call":            func(o *mcpexec.Options) { o.Call = nil },
		"no CountRows":       func(o *mcpexec.Options) { o.CountRows = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newLab(t, `{}`).o
			change(&o)
			x, err := mcpexec.New(o)
			if x != nil || counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
				t.Errorf("got %v, %v", x, err)
			}
		})
	}
}

func TestNew_names(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "7", "Search_v2.all:x-y", strings.Repeat("a", 128)} {
		o := newLab(t, `{}`).o
		o.Tool = name
		x, err := mcpexec.New(o)
		if err != nil || x.Tool() != name || x.Effect() != counterfoil.EffectRead {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The whole way: the tool gets the approved canonical bytes once, and a stranger can verify what it answered.
func TestExecute(t *testing.T) {
	t.Parallel()
	l := newLab(t, `{ "where": "status = 'open'", "limit": 2 }`)
	const canonical = `{"limit":2,"where":"status = 'open'"}`
	var parsed []string
	l.o.Parse = func(arguments []byte) error {
		parsed = append(parsed, string(arguments))
		clear(arguments) // what Parse does to its copy changes nothing
		return nil
	}
	var sent []string
	l.o.Call = func(_ context.Context, tool string, arguments []byte) ([]byte, error) {
		sent = append(sent, tool+" "+string(arguments))
		return []byte(answer), nil
	}
	res, rep, err := l.execute()
	must(t, err)
	if diff := cmp.Diff(counterfoil.Result{Value: []byte(answer), Rows: 2, JSON: true}, res); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{canonical}, parsed); diff != "" {
		t.Errorf("parsed: %s", diff)
	}
	if diff := cmp.Diff([]string{"search " + canonical}, sent); diff != "" {
		t.Errorf("sent: %s", diff)
	}
	if rep.Outcome != counterfoil.OutcomeSucceeded || rep.Rows != 2 || rep.Uncounted || rep.ResultDigest != counterfoil.ResultDigest([]byte(answer)) {
		t.Errorf("the receipt says %+v", rep)
	}
	if n := len(l.ledger.Events()); n != 2 {
		t.Errorf("%d events", n)
	}
}

// How each answer of the tool ends.
func TestExecute_outcomes(t *testing.T) {
	t.Parallel()
	answers := func(result string) func(*lab) {
		return func(l *lab) {
			l.o.Call = func(context.Context, string, []byte) ([]byte, error) { return []byte(result), nil }
		}
	}
	fails := func(err error) func(*lab) {
		return func(l *lab) {
			l.o.Call = func(context.Context, string, []byte) ([]byte, error) { return []byte(answer), err }
		}
	}
	counts := func(n int64, err error) func(*lab) {
		return func(l *lab) { l.o.CountRows = func([]byte) (int64, error) { return n, err } }
	}
	for name, tt := range map[string]struct {
		change  func(*lab)
		code    counterfoil.Code
		outcome counterfoil.Outcome
		calls   int
		seen    bool // the receipt has the result's digest
	}{
		"refused by Parse": {func(l *lab) { l.o.Parse = func([]byte) error { return errors.New("no limit") } },
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 0, false},
		"panic in Parse": {func(l *lab) { l.o.Parse = func([]byte) error { panic("parse") } },
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 0, false},
		"not reached": {fails(counterfoil.CodeExecutionFailed),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, false},
		"connection lost": {fails(errors.New("EOF")),
			counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1, false},
		"panic in Call": {func(l *lab) {
			l.o.Call = func(context.Context, string, []byte) ([]byte, error) { panic(counterfoil.CodeExecutionFailed) }
		}, counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1, false},
		"count below zero": {counts(-1, nil),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"count fails": {counts(1, errors.New("no rows")),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"count beyond 2^53": {counts(1<<53, nil),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"panic in CountRows": {func(l *lab) { l.o.CountRows = func([]byte) (int64, error) { panic("count") } },
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"count that changes": {func(l *lab) {
			n := int64(0)
			l.o.CountRows = func([]byte) (int64, error) { n++; return n, nil }
		}, counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"one row too many": {counts(3, nil),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"no rows in it": {answers(`{"content":[]}`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"the tool's own failure": {answers(`{"content":[],"isError":true}`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"not JSON": {answers(`{"content"`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"empty": {answers(``),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"not an object": {answers(`[` + answer + `]`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"a member twice": {answers(`{"isError":true,"isError":false}`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"more after it": {answers(answer + `{}`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"isError is text": {answers(`{"isError":"false"}`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"resultType is a number": {answers(`{"resultType":7}`),
			counterfoil.CodeExecutionFailed, counterfoil.OutcomeFailed, 1, true},
		"asks for input": {answers(`{"resultType":"input_required"}`),
			counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1, true},
		"asks for input, as a failure": {answers(`{"isError":true,"resultType":"input_required"}`),
			counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1, true},
		"runs on as a task": {answers(`{"resultType":"task","taskId":"1"}`),
			counterfoil.CodeUnknownOutcome, counterfoil.OutcomeIndeterminate, 1, true},
		"complete": {answers(`{"resultType":"complete","isError":false,"structuredContent":{"rows":[]}}`),
			"", counterfoil.OutcomeSucceeded, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, `{}`)
			tt.change(l)
			res, rep, err := l.execute()
			if counterfoil.CodeOf(err) != tt.code || rep.Outcome != tt.outcome || l.calls != tt.calls {
				t.Errorf("got error %v, outcome %s, %d calls", err, rep.Outcome, l.calls)
			}
			if seen := rep.ResultDigest != (counterfoil.Digest{}); seen != tt.seen {
				t.Errorf("the receipt has the result's digest: %v", seen)
			}
			if given := res.Value != nil; given != (tt.code == "" || name == "the tool's own failure") {
				t.Errorf("handed on: %q", res.Value)
			}
		})
	}
}

// A result over the approved size is refused before anything reads it.
func TestExecute_oversize(t *testing.T) {
	t.Parallel()
	l := newLab(t, `{}`)
	l.call.Bytes = int64(len(answer)) - 1
	l.o.CountRows = func([]byte) (int64, error) { t.Error("it was read"); return 0, nil }
	res, rep, err := l.execute()
	if !errors.Is(err, counterfoil.CodeExecutionFailed) || res.Value != nil || rep.Outcome != counterfoil.OutcomeFailed {
		t.Errorf("got %q, %v, %s", res.Value, err, rep.Outcome)
	}
	if !rep.Uncounted || rep.ResultDigest != counterfoil.ResultDigest([]byte(answer)) {
		t.Errorf("the receipt says %+v", rep)
	}
}

// Whatever a refused count was, the boundary gets the same one.
func TestExecute_refusedCount(t *testing.T) {
	t.Parallel()
	l := newLab(t, `{}`)
	l.o.CountRows = func([]byte) (int64, error) { return -2, nil }
	res, err := l.executor().Execute(t.Context(), l.claim())
	if err != nil || res.Rows != -1 || string(res.Value) != answer {
		t.Errorf("got %+v, %v", res, err)
	}
}

// The executor holds on to what it was made from.
func TestNew_captures(t *testing.T) {
	t.Parallel()
	l := newLab(t, `{}`)
	o := l.o
	x, err := mcpexec.New(o)
	must(t, err)
	o.Tool = "other"
	o.Parse = func([]byte) error { t.Error("another Parse"); return nil }
	o.Call = func(context.Context, string, []byte) ([]byte, error) { t.Error("another Call"); return nil, nil }
	o.CountRows = func([]byte) (int64, error) { t.Error("another CountRows"); return 0, nil }
	res, err := x.Execute(t.Context(), l.claim())
	if err != nil || res.Rows != 2 {
		t.Errorf("got %+v, %v", res, err)
	}
}

// A claim for anything else reaches neither Parse nor the tool, even by the direct way.
func TestExecute_otherClaims(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*counterfoil.Call){
		"tool":   func(c *counterfoil.Call) { c.Tool = "search2" },
		"effect": func(c *counterfoil.Call) { c.Effect = counterfoil.EffectMutation },
		"render": func(c *counterfoil.Call) { c.Effect = counterfoil.EffectRender },
		"method": func(c *counterfoil.Call) { c.Method = "prompts/get" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, `{}`)
			l.o.Parse = func([]byte) error { t.Error("Parse was called"); return nil }
			change(&l.call)
			_, err := l.executor().Execute(t.Context(), l.claim())
			if counterfoil.CodeOf(err) != counterfoil.CodeExecutionFailed || l.calls != 0 {
				t.Errorf("got %v, %d calls", err, l.calls)
			}
			x := l.execution()
			if x.Executor = l.executor(); name == "method" {
				return // the boundary compares tool and effect alone
			}
			l.ledger = nil
			if _, r, err := counterfoil.Execute(t.Context(), x); r != nil || counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
				t.Errorf("the boundary let it through: %v", err)
			}
		})
	}
}

func TestExecute_once(t *testing.T) {
	t.Parallel()
	l := newLab(t, `{}`)
	x, c := l.executor(), l.claim()
	_, err := x.Execute(t.Context(), c)
	must(t, err)
	if _, err = x.Execute(t.Context(), c); counterfoil.CodeOf(err) != counterfoil.CodeAlreadyUsed || l.calls != 1 {
		t.Errorf("got %v, %d calls", err, l.calls)
	}
	for name, c := range map[string]*counterfoil.Claim{"nil": nil, "zero": new(counterfoil.Claim)} {
		if _, err = x.Execute(t.Context(), c); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || l.calls != 1 {
			t.Errorf("%s claim: %v, %d calls", name, err, l.calls)
		}
	}
	for name, x := range map[string]*mcpexec.Executor{"nil": nil, "zero": {}} {
		if _, err = x.Execute(t.Context(), newLab(t, `{}`).claim()); counterfoil.CodeOf(err) != counterfoil.CodeExecutionFailed || x.Tool() != "" {
			t.Errorf("%s executor: %v", name, err)
		}
	}
}

func TestExecute_cancelled(t *testing.T) {
	t.Parallel()
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, `{}`)
		c := l.claim()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.executor().Execute(ctx, c); counterfoil.CodeOf(err) != counterfoil.CodeAborted || l.calls != 0 {
			t.Errorf("got %v, %d calls", err, l.calls)
		}
		if _, err := c.Redeem(); err != nil {
			t.Errorf("the claim was redeemed: %v", err)
		}
	})
	t.Run("while parsing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, `{}`)
		ctx, cancel := context.WithCancel(t.Context())
		l.ctx = ctx
		l.o.Parse = func([]byte) error { cancel(); return nil }
		_, rep, err := l.execute()
		if !errors.Is(err, counterfoil.CodeExecutionFailed) || rep.Outcome != counterfoil.OutcomeFailed || l.calls != 0 {
			t.Errorf("got %v, %s, %d calls", err, rep.Outcome, l.calls)
		}
	})
	t.Run("while the tool runs", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, `{}`)
		ctx, cancel := context.WithCancel(t.Context())
		l.ctx = ctx
		l.o.Call = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, rep, err := l.execute()
		if !errors.Is(err, counterfoil.CodeExecutionFailed) || !errors.Is(err, context.Canceled) || rep.Outcome != counterfoil.OutcomeFailed {
			t.Errorf("got %v, %s", err, rep.Outcome) // a read that was cut short did nothing
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, `{}`)
		ctx, cancel := context.WithCancel(t.Context())
		l.ctx = ctx
		l.o.Call = func(context.Context, string, []byte) ([]byte, error) { cancel(); return []byte(answer), nil }
		res, rep, err := l.execute()
		if !errors.Is(err, counterfoil.CodeExecutionFailed) || rep.Outcome != counterfoil.OutcomeFailed || res.Value != nil {
			t.Errorf("got %v, %s, %q", err, rep.Outcome, res.Value)
		}
	})
}

// A result of too many values or too deep is none, whether the tool calls it an answer or a failure.
func TestExecute_boundsResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value    string
		accepted bool
	}{
		"as deep as can be": {strings.Repeat("[", 62) + strings.Repeat("]", 62), true},
		"deeper":            {strings.Repeat("[", 70) + strings.Repeat("]", 70), false},
		"wide":              {"[" + strings.Repeat("1,", 1_100_000) + "1]", false},
	} {
		for _, report := range []string{"false", "true"} {
			l := newLab(t, `{}`)
			l.call.Bytes = 16 << 20
			l.o.Call = func(context.Context, string, []byte) ([]byte, error) {
				return []byte(`{"isError":` + report + `,"structuredContent":{"rows":[1],"x":` + c.value + `}}`), nil
			}
			res, _, err := l.execute()
			if (res.Value != nil) != c.accepted || (err == nil) != (c.accepted && report == "false") {
				t.Errorf("%s, isError %s: %d bytes, %v", name, report, len(res.Value), err)
			}
		}
	}
}

// Neither Call nor CountRows can change a result once it is judged.
func TestExecute_ownsResult(t *testing.T) {
	t.Parallel()
	l := newLab(t, `{}`)
	kept := []byte(answer)
	l.o.Call = func(context.Context, string, []byte) ([]byte, error) { return kept, nil }
	l.o.CountRows = func(result []byte) (int64, error) {
		n, err := countRows(result)
		clear(result)
		clear(kept)
		return n, err
	}
	res, _, err := l.execute()
	if err != nil || string(res.Value) != answer {
		t.Errorf("got %q, %v", res.Value, err)
	}
}

// The log says why a result was refused, and nothing of the result.
func TestExecute_logs(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := newLab(t, `{}`)
	l.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	l.o.Call = func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"secret":"hunter2"}`), nil }
	_, _, err := l.execute()
	if err == nil || !strings.Contains(log.String(), "there are no rows in it") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("got %v, log %q", err, log.String())
	}
}
