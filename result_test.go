package counterfoil_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// endless is a source that never stops.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

// A result that streams in is held up to what was approved; what is beyond is counted and digested, and not held.
func TestResultWriter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		size    int
		outcome counterfoil.Outcome
	}{
		{"nothing", 0, counterfoil.OutcomeSucceeded}, {"a byte", 1, counterfoil.OutcomeSucceeded},
		{"at the limit", 50_000, counterfoil.OutcomeSucceeded}, {"a byte more", 50_001, counterfoil.OutcomeFailed},
		{"much more", 500_000, counterfoil.OutcomeFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			value := []byte(strings.Repeat("0123456789", c.size/10+1))[:c.size]
			l := newLab(t)
			l.executes(func(_ context.Context, work counterfoil.Work) (counterfoil.Result, error) {
				w := counterfoil.NewResultWriter(work.Limit)
				for chunk := value; len(chunk) > 0; {
					n := min(len(chunk), 777)
					if got, err := w.Write(chunk[:n]); got != n || err != nil && !errors.Is(err, counterfoil.CodePolicyDenied) {
						t.Errorf("wrote %d of %d: %v", got, n, err)
					}
					chunk = chunk[n:]
				}
				return w.Result(3), nil
			})
			res, r, err := l.execute()
			code := counterfoil.Code("")
			if c.outcome == counterfoil.OutcomeFailed {
				code = counterfoil.CodeExecutionFailed
			}
			p := l.settled(r, err, c.outcome, code)
			if p["observedBytes"] != float64(c.size) || p["observedRows"] != 3.0 || p["resultDigest"] != digestOfBytes("result", value) {
				t.Errorf("the receipt says %v", p)
			}
			accepted := 0
			if c.outcome == counterfoil.OutcomeSucceeded {
				accepted = c.size
			}
			if p["bytes"] != float64(accepted) || len(res.Value) != accepted || accepted > 0 && !bytes.Equal(res.Value, value) {
				t.Errorf("accepted %v, handed on %d bytes", p["bytes"], len(res.Value))
			}
		})
	}
}

// An endless result ends at the first piece that is too much, and takes no memory.
func TestResultWriter_endless(t *testing.T) {
	w := counterfoil.NewResultWriter(counterfoil.Limit{Rows: 1, Bytes: 10_000_000})
	src := &endless{}
	n, err := io.Copy(w, src)
	wantCode(t, err, counterfoil.CodePolicyDenied)
	if n != src.read || n <= 10_000_000 || n > 10_000_000+1<<20 {
		t.Errorf("%d bytes were taken of %d", n, src.read)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = io.CopyN(struct{ io.Writer }{ignoring{w}}, src, 50_000_000)
	runtime.ReadMemStats(&after)
	if size := after.TotalAlloc - before.TotalAlloc; size > 1<<20 {
		t.Errorf("%d bytes are held of what is beyond", size)
	}
	if r := w.Result(0); r.Value != nil {
		t.Errorf("%d bytes are handed on", len(r.Value))
	}
}

// ignoring writes on, whatever it is told.
type ignoring struct{ w io.Writer }

func (i ignoring) Write(p []byte) (int, error) {
	n, err := i.w.Write(p)
	if err != nil && n != len(p) {
		return n, err
	}
	return n, nil
}

// Every outcome of an executor that streams: what was observed is in the receipt, what is accepted only for a success.
func TestResultWriter_outcomes(t *testing.T) {
	t.Parallel()
	const size = 20
	value := strings.Repeat("v", size)
	over := strings.Repeat("v", 50_001)
	for _, c := range []struct {
		name     string
		value    string
		change   func(*counterfoil.Result)
		err      error
		read     counterfoil.Outcome
		write    counterfoil.Outcome
		accepted int
	}{
		{"whole", value, nil, nil, "succeeded", "succeeded", size},
		{"the tool failed", value, func(r *counterfoil.Result) { r.Failed = true }, nil, "failed", "failed", 0},
		{"the tool failed at length", over, func(r *counterfoil.Result) { r.Failed = true }, nil, "failed", "indeterminate", 0},
		{"too long", over, nil, nil, "failed", "indeterminate", 0},
		{"too long, and the writer's error", over, nil, fmt.Errorf("copy: %w", counterfoil.CodePolicyDenied), "indeterminate", "indeterminate", 0},
		{"too many rows", value, func(r *counterfoil.Result) { r.Rows = 81 }, nil, "failed", "indeterminate", 0},
		{"it broke half way", value, nil, errors.New("connection reset"), "indeterminate", "indeterminate", 0},
		{"a part was left out", value, func(r *counterfoil.Result) {
			r.Value, r.Observed, r.Whole = r.Value[:5], size, counterfoil.ResultDigest(r.Value)
		}, nil, "failed", "indeterminate", 0},
		{"nonsense", value, func(r *counterfoil.Result) { r.Observed = -1 }, nil, "succeeded", "succeeded", size},
	} {
		for _, effect := range []string{"read", "mutation"} {
			t.Run(c.name+"/"+effect, func(t *testing.T) {
				t.Parallel()
				op, pol := operation(), policy()
				op["effect"], pol["allowedEffects"] = effect, list{"mutation", "read"}
				l := newLabOf(t, onePlanOf(step(op)), pol, op)
				l.executes(func(_ context.Context, work counterfoil.Work) (counterfoil.Result, error) {
					w := counterfoil.NewResultWriter(work.Limit)
					_, _ = io.Copy(w, strings.NewReader(c.value))
					r := w.Result(2)
					if c.change != nil {
						c.change(&r)
					}
					return r, c.err
				})
				_, r, err := l.execute()
				outcome := c.read
				if effect == "mutation" {
					outcome = c.write
				}
				p := l.settled(r, err, outcome, map[counterfoil.Outcome]counterfoil.Code{
					"succeeded": "", "failed": counterfoil.CodeExecutionFailed, "indeterminate": counterfoil.CodeUnknownOutcome,
				}[outcome])
				if p["observedBytes"] != float64(len(c.value)) || p["bytes"] != float64(c.accepted) || p["resultDigest"] != digestOfBytes("result", []byte(c.value)) {
					t.Errorf("the receipt says %v of %d bytes", p, len(c.value))
				}
			})
		}
	}
}

// A result that says that it is JSON is held to that, and to the bounds of results.
func TestResult_JSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		accepted    bool
	}{
		{"object", rawResult, true},
		{"number", `7`, true},
		{"space around", " [1, 2]\n", true},
		{"2000 rows", "[" + strings.Repeat("1,", 1999) + "1]", true},
		{"64 deep", strings.Repeat("[", 64) + "1" + strings.Repeat("]", 64), true},
		{"65 deep", strings.Repeat("[", 65) + "1" + strings.Repeat("]", 65), false},
		{"65 deep, and empty", strings.Repeat("[", 65) + strings.Repeat("]", 65), true},
		{"66 deep, and empty", strings.Repeat("[", 66) + strings.Repeat("]", 66), false},
		{"deep in names", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), false},
		{"a million values", "[" + strings.Repeat("1,", 999_998) + "1]", true},
		{"a value more", "[" + strings.Repeat("1,", 999_999) + "1]", false},
		{"names are no values", "{" + strings.Repeat(`"a":1,`, 900_000) + `"a":1}`, true},
		{"nothing", "", false},
		{"half", `{"a":`, false},
		{"two", `{} {}`, false},
		{"trailing", `{}x`, false},
		{"bad UTF-8", "\"\xff\"", false},
		{"text", "plain words", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, pol := plan(), policy()
			asDoc(inside(p, "steps", 0))["limits"], pol["maxBytes"] = doc{"rows": 100, "bytes": 20_000_000}, 20_000_000
			l := newLabOf(t, p, pol, operation())
			req := request()
			req.Limits = nil
			l.x.Approval = reparsed(t, mustApprove(t, l.x.DryRun, req, approverKey(t)))
			l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
				return counterfoil.Result{Value: []byte(c.value), JSON: true}, nil
			})
			_, r, err := l.execute()
			outcome, code := counterfoil.OutcomeSucceeded, counterfoil.Code("")
			if !c.accepted {
				outcome, code = counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed
			}
			if got := l.settled(r, err, outcome, code); got["observedBytes"] != float64(len(c.value)) {
				t.Errorf("observed %v of %d bytes", got["observedBytes"], len(c.value))
			}
		})
	}
}
