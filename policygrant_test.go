package counterfoil_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// stepOf is a step with its operation, of a tool, effect and source.
func stepOf(id, tool, effect, source string) (s, op doc) {
	op = operation()
	op["tool"], op["effect"], op["sourceId"] = tool, effect, source
	refreshOperation(op)
	s = step(op)
	s["id"] = id
	asDoc(s["source"])["id"] = source
	refreshStep(s)
	return s, op
}

// twoWorlds allows reading incidents with query and changing notes with edit, as lists: their cross product.
func twoWorlds() doc {
	p := wide()
	p["allowedTools"], p["allowedEffects"] = list{"edit", "query"}, list{"mutation", "read"}
	p["sources"] = doc{"incidents": sourcePolicy(), "notes": sourcePolicy()}
	return p
}

func grant(tool, effect, source string) doc {
	return doc{"tools": list{tool}, "effects": list{effect}, "sources": list{source}, "maxRows": 100, "maxBytes": 50_000}
}

// A step falls wholly into one grant, or it is denied: grants are no cross product.
func TestPolicy_grants(t *testing.T) {
	t.Parallel()
	grants := list{grant("query", "read", "incidents"), grant("edit", "mutation", "notes")}
	for _, tool := range []string{"query", "edit"} {
		for _, effect := range []string{"read", "mutation"} {
			for _, source := range []string{"incidents", "notes"} {
				s, _ := stepOf("s", tool, effect, source)
				p := mustPlan(t, onePlanOf(s))
				_, err := p.DryRun(mustPolicy(t, twoWorlds()), now())
				noError(t, err) // without grants, each with each
				pol := twoWorlds()
				pol["grants"] = grants
				_, err = p.DryRun(mustPolicy(t, pol), now())
				one := tool == "query" && effect == "read" && source == "incidents" || tool == "edit" && effect == "mutation" && source == "notes"
				if one {
					noError(t, err)
					continue
				}
				wantCode(t, err, counterfoil.CodePolicyDenied)
				if !strings.Contains(err.Error(), "no one grant") {
					t.Error(err)
				}
			}
		}
	}
}

// A grant narrows the rest of the policy and never widens it.
func TestPolicy_grantsNarrow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(p, g, s doc)
		code counterfoil.Code
	}{
		"as it is":                  {func(_, _, _ doc) {}, ""},
		"rows at the limit":         {func(_, g, _ doc) { g["maxRows"] = 100 }, ""},
		"a row more":                {func(_, g, _ doc) { g["maxRows"] = 99 }, counterfoil.CodePolicyDenied},
		"a byte more":               {func(_, g, _ doc) { g["maxBytes"] = 49_999 }, counterfoil.CodePolicyDenied},
		"a tool of grants alone":    {func(p, _, _ doc) { p["allowedTools"] = list{"edit"} }, counterfoil.CodePolicyDenied},
		"an effect of grants alone": {func(p, _, _ doc) { p["allowedEffects"] = list{"mutation"} }, counterfoil.CodePolicyDenied},
		"a source of grants alone": {func(p, _, _ doc) {
			p["sources"] = doc{"notes": sourcePolicy()}
		}, counterfoil.CodePolicyDenied},
		"a step's own bound stays": {func(p, g, _ doc) { g["maxRows"], p["maxRowsPerStep"] = 1000, 99 }, counterfoil.CodePolicyDenied},
		"and that of bytes":        {func(p, g, _ doc) { g["maxBytes"], p["maxBytesPerStep"] = 100_000, 49_999 }, counterfoil.CodePolicyDenied},
		"and the bound of all":     {func(p, g, _ doc) { g["maxRows"], p["maxRows"] = 1000, 99 }, counterfoil.CodePolicyDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, g := twoWorlds(), grant("query", "read", "incidents")
			s, _ := stepOf("s", "query", "read", "incidents")
			c.edit(p, g, s)
			p["grants"] = list{grant("edit", "mutation", "notes"), g}
			_, err := mustPlan(t, onePlanOf(s)).DryRun(mustPolicy(t, p), now())
			if c.code == "" {
				noError(t, err)
				return
			}
			wantCode(t, err, c.code)
		})
	}
}

func TestPolicy_stepsByEffect(t *testing.T) {
	t.Parallel()
	var steps []any
	for i, effect := range []string{"read", "mutation", "read", "mutation"} {
		s, _ := stepOf(fmt.Sprintf("s%d", i), "query", effect, "incidents")
		steps = append(steps, s)
	}
	for name, c := range map[string]struct {
		most doc
		code counterfoil.Code
	}{
		"as many":                {doc{"read": 2, "mutation": 2}, ""},
		"another effect's":       {doc{"destructive": 0}, ""},
		"one read more":          {doc{"read": 1}, counterfoil.CodePolicyDenied},
		"one mutation more":      {doc{"read": 2, "mutation": 1}, counterfoil.CodePolicyDenied},
		"none":                   {doc{"mutation": 0}, counterfoil.CodePolicyDenied},
		"more than there can be": {doc{"mutation": 128}, ""},
	} {
		p := twoWorlds()
		p["maxStepsByEffect"] = c.most
		_, err := mustPlan(t, onePlanOf(steps...)).DryRun(mustPolicy(t, p), now())
		if counterfoil.CodeOf(err) != c.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// chain is a plan of three steps: read, change, read.
func chain(t *testing.T, order string) (*lab, []doc) {
	t.Helper()
	pol := twoWorlds()
	if order != "" {
		pol["stepOrder"] = order
	}
	var steps []any
	var ops []doc
	for i, effect := range []string{"read", "mutation", "read"} {
		s, op := stepOf(fmt.Sprintf("step-%d", i), "query", effect, []string{"incidents", "notes", "incidents"}[i])
		s["limits"] = doc{"rows": 10 * (i + 1), "bytes": 1000 * (i + 1)}
		steps, ops = append(steps, s), append(ops, op)
	}
	dry := mustDryRun(t, onePlanOf(steps...), pol)
	l := newLab(t)
	req := request()
	req.Limits = map[string]counterfoil.Limit{"step-1": {Rows: 5, Bytes: 2000}}
	both := sources()
	notes := source()
	notes["id"] = "notes"
	asDoc(both["sources"])["notes"] = notes
	l.x.DryRun, l.x.Approval, l.x.Context = dry, reparsed(t, mustApprove(t, dry, req, approverKey(t))), mustContext(t, both)
	return l, ops
}

// at points the lab at one step.
func (l *lab) at(i int, ops []doc) {
	l.x.StepID, l.x.ID, l.x.Nonce = fmt.Sprintf("step-%d", i), fmt.Sprintf("execution-%d-%d", i, l.runs), [16]byte{byte(i + 1), byte(l.runs + 1)}
	l.x.Operation = mustOperation(l.t, ops[i], l.x.DryRun.Policy())
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
	})
}

// A plan of several steps goes all the way: one approval with its sums, and for each step its limits, its execution, its
// receipt and its bundle.
func TestExecute_manySteps(t *testing.T) {
	t.Parallel()
	l, ops := chain(t, "")
	p := payloadOf(l.x.Approval.Envelope())
	if p["approvedRows"] != 45.0 || p["approvedBytes"] != 6000.0 {
		t.Errorf("sums %v, %v", p["approvedRows"], p["approvedBytes"])
	}
	for i, want := range []counterfoil.Limit{{Rows: 10, Bytes: 1000}, {Rows: 5, Bytes: 2000}, {Rows: 30, Bytes: 3000}} {
		s := asDoc(asList(p["steps"])[i])
		if s["id"] != fmt.Sprintf("step-%d", i) || s["rows"] != float64(want.Rows) || s["bytes"] != float64(want.Bytes) {
			t.Errorf("step %d is %v", i, s)
		}
		l.at(i, ops)
		l.executes(func(_ context.Context, w counterfoil.Work) (counterfoil.Result, error) {
			if w.Limit != want || w.Operation.Effect() != counterfoil.Effect(asString(ops[i]["effect"])) {
				t.Errorf("step %d works within %v as %s", i, w.Limit, w.Operation.Effect())
			}
			return counterfoil.Result{Value: []byte(rawResult), Rows: want.Rows}, nil
		})
		_, r, err := l.execute()
		l.settled(r, err, counterfoil.OutcomeSucceeded, "")
		b := &counterfoil.Bundle{Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun, Operation: l.x.Operation}
		rep, err := counterfoil.VerifyBundle(b.Encode(), allKeys(t), tomorrow())
		noError(t, err)
		if rep.Rows != want.Rows || string(rep.Effect) != ops[i]["effect"] || r.Step() != l.x.StepID {
			t.Errorf("step %d: %+v", i, rep)
		}
	}
	// The same step over one row more than approved is refused by its own limit, not by the sum.
	l, ops = chain(t, "")
	l.at(1, ops)
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Value: []byte(rawResult), Rows: 6}, nil
	})
	_, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeIndeterminate, counterfoil.CodeUnknownOutcome)
	// An operation of another step is no operation of this one.
	l, ops = chain(t, "")
	l.at(0, ops)
	l.x.StepID = "step-1"
	l.refused(counterfoil.CodeIntegrityFailed)
}

// Declared order: a step runs only after the one before it has a receipt of success.
func TestExecute_declaredOrder(t *testing.T) {
	t.Parallel()
	l, ops := chain(t, "declared")
	denied := func(i int) {
		t.Helper()
		l.at(i, ops)
		runs := l.runs
		_, r, err := l.execute()
		wantCode(t, err, counterfoil.CodePolicyDenied)
		if r != nil || l.runs != runs {
			t.Errorf("step %d: receipt %v, %d runs", i, r, l.runs)
		}
	}
	succeeds := func(i int) *counterfoil.Bundle {
		t.Helper()
		l.at(i, ops)
		_, r, err := l.execute()
		l.settled(r, err, counterfoil.OutcomeSucceeded, "")
		return &counterfoil.Bundle{Receipt: r, Approval: l.x.Approval, Consumption: l.ledger.consumption, DryRun: l.x.DryRun}
	}
	denied(1)
	denied(2)
	first := succeeds(0)
	denied(2)
	second := succeeds(1)
	succeeds(2)
	for b, want := range map[*counterfoil.Bundle]bool{first: false, second: true} {
		rep, err := counterfoil.VerifyBundle(b.Encode(), allKeys(t), tomorrow())
		noError(t, err)
		if strings.Contains(strings.Join(rep.Unchecked, "\n"), "order:") != want {
			t.Errorf("unchecked: %q", rep.Unchecked)
		}
	}
	if l.ledger.Uses() != 3 {
		t.Errorf("%d uses", l.ledger.Uses())
	}

	// Neither a failure, nor a use without a receipt, is a success.
	l, ops = chain(t, "declared")
	l.at(0, ops)
	l.executes(func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
		return counterfoil.Result{Failed: true}, nil
	})
	_, r, err := l.execute()
	l.settled(r, err, counterfoil.OutcomeFailed, counterfoil.CodeExecutionFailed)
	denied(1)
	l, ops = chain(t, "declared")
	l.at(0, ops)
	l.claim()
	denied(1)

	// The success of another approval of the same plan counts for nothing.
	l, ops = chain(t, "declared")
	succeeds(0)
	req := request()
	req.ID, req.Limits = "approval-2", nil
	l.x.Approval = reparsed(t, mustApprove(t, l.x.DryRun, req, approverKey(t)))
	denied(1)

	// Any order is any order, said or not.
	for _, order := range []string{"", "any"} {
		l, ops = chain(t, order)
		for _, i := range []int{2, 0, 1} {
			succeeds(i)
		}
	}
}
