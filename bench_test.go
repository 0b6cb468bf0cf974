package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// arguments returns an honest tool's arguments of about n bytes: short strings, numbers and flags, unsorted.
func arguments(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := 0; b.Len() < n-60; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"path":"/data/file-%d.txt","size":%d,"ok":true,"note":"line %d of the text","mode":null}`, i, i*37, i)
	}
	b.WriteString(`],"count":1.5}`)
	return b.Bytes()
}

// A workshop has what the benchmarks take apart: a call and all that comes of it.
type workshop struct {
	call       *counterfoil.Call
	plan       []byte
	policy     *counterfoil.Policy
	operation  []byte
	dry        *counterfoil.DryRun
	request    counterfoil.ApprovalRequest
	execution  counterfoil.Execution
	ledgerKey  *counterfoil.PrivateKey
	bundle     []byte
	signatures int
}

func newWorkshop(t testing.TB) *workshop {
	t.Helper()
	args, err := counterfoil.ParseArguments(arguments(300))
	noError(t, err)
	c := call(t)
	c.Arguments = args
	w := &workshop{call: c, plan: c.Plan(), operation: c.Operation(), signatures: 3, ledgerKey: ledgerKey(t)}
	w.policy, err = counterfoil.ParsePolicy(c.Policy(counterfoil.ResultDigest(nil), time.Minute))
	noError(t, err)
	p, err := counterfoil.ParsePlan(w.plan)
	noError(t, err)
	w.dry, err = p.DryRun(w.policy, now())
	noError(t, err)
	op, err := counterfoil.ParseOperation(w.operation, w.policy)
	noError(t, err)
	seen, err := counterfoil.NewContext(c.Source)
	noError(t, err)
	w.request = counterfoil.ApprovalRequest{ID: "approval-1", Authority: counterfoil.AuthorityPolicy, IssuedAt: now(), ExpiresAt: now().Add(time.Minute)}
	approval := mustApprove(t, w.dry, w.request, policyKey(t))
	l := &spy{Ledger: counterfoiltest.NewLedger("log.example.test", w.ledgerKey, now)}
	w.execution = counterfoil.Execution{
		ID: "execution-1", Nonce: [16]byte{1}, DryRun: w.dry, Approval: approval, Context: seen, StepID: counterfoil.CallStep, Operation: op,
		Keys: allKeys(t), Ledger: l, Signer: receiptKey(t), Pseudonyms: counterfoiltest.Pseudonyms(t), Now: now,
		Executor: &counterfoiltest.Executor{Name: c.Tool, Does: c.Effect, Run: func(context.Context, counterfoil.Work) (counterfoil.Result, error) {
			return counterfoil.Result{Value: []byte(rawResult), Rows: 1}, nil
		}},
	}
	_, r, err := counterfoil.Execute(context.Background(), w.execution)
	noError(t, err)
	w.bundle = (&counterfoil.Bundle{Receipt: r, Approval: approval, Consumption: l.consumption, DryRun: w.dry, Operation: op}).Encode()
	return w
}

func (w *workshop) dryRun(t testing.TB) {
	p, err := counterfoil.ParsePlan(w.plan)
	noError(t, err)
	_, err = p.DryRun(w.policy, now())
	noError(t, err)
}

func (w *workshop) approve(t testing.TB, key counterfoil.Signer) {
	_, err := counterfoil.Approve(context.Background(), w.dry, w.request, key, now())
	noError(t, err)
}

func (w *workshop) execute(t testing.TB) {
	w.execution.Ledger = counterfoiltest.NewLedger("log.example.test", w.ledgerKey, now)
	_, _, err := counterfoil.Execute(context.Background(), w.execution)
	noError(t, err)
}

func (w *workshop) verify(t testing.TB, keys *counterfoil.KeyRing, when time.Time) {
	_, err := counterfoil.VerifyBundle(w.bundle, keys, when)
	noError(t, err)
}

// decide does all that a gate does with a call's raw arguments before it spends: parse, plan, policy, dry run, operation,
// approval.
func (w *workshop) decide(t testing.TB, raw []byte, key counterfoil.Signer) {
	args, err := counterfoil.ParseArguments(raw)
	noError(t, err)
	c := *w.call
	c.Arguments = args
	p, err := counterfoil.ParsePlan(c.Plan())
	noError(t, err)
	pol, err := counterfoil.ParsePolicy(c.Policy(counterfoil.ResultDigest(nil), time.Minute))
	noError(t, err)
	dry, err := p.DryRun(pol, now())
	noError(t, err)
	_, err = counterfoil.ParseOperation(c.Operation(), pol)
	noError(t, err)
	_, err = counterfoil.Approve(context.Background(), dry, w.request, key, now())
	noError(t, err)
}

// stepsPlan returns a plan of n steps and a policy with room for it.
func stepsPlan(t testing.TB, n int) ([]byte, *counterfoil.Policy) {
	t.Helper()
	steps := list{}
	for i := range n {
		s := step(operation())
		s["id"] = fmt.Sprintf("step-%d", i)
		steps = append(steps, s)
	}
	return canonical(onePlanOf(steps...)), mustPolicy(t, wide())
}

// reference returns one Ed25519 verification of a message as long as an approval: what the boundary is measured by.
func reference(t testing.TB) func() {
	public, private, err := ed25519.GenerateKey(nil)
	noError(t, err)
	message := make([]byte, 1024)
	sig := ed25519.Sign(private, message)
	return func() {
		if !ed25519.Verify(public, message, sig) {
			t.Fatal("it does not verify")
		}
	}
}

// tokens reads a document token by token: the floor below which no reader of JSON can be.
func tokens(t testing.TB, b []byte) {
	d := jsontext.NewDecoder(bytes.NewBuffer(b))
	for {
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func loop(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

func BenchmarkReference(b *testing.B) { loop(b, reference(b)) }

func BenchmarkDryRun(b *testing.B) {
	b.Run("300B", func(b *testing.B) {
		w := newWorkshop(b)
		loop(b, func() { w.dryRun(b) })
	})
	for _, n := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("steps=%d", n), func(b *testing.B) {
			raw, pol := stepsPlan(b, n)
			w := &workshop{plan: raw, policy: pol}
			loop(b, func() { w.dryRun(b) })
		})
	}
}

func BenchmarkApprove(b *testing.B) {
	w, key := newWorkshop(b), policyKey(b)
	loop(b, func() { w.approve(b, key) })
}

func BenchmarkExecute(b *testing.B) {
	w := newWorkshop(b)
	loop(b, func() { w.execute(b) })
}

func BenchmarkVerifyBundle(b *testing.B) {
	w, keys, when := newWorkshop(b), allKeys(b), tomorrow()
	loop(b, func() { w.verify(b, keys, when) })
}

func BenchmarkParseArguments(b *testing.B) {
	for _, n := range []int{300, 2 << 10, 100 << 10} {
		raw := arguments(n)
		for name, f := range map[string]func(){
			"ours": func() {
				_, err := counterfoil.ParseArguments(raw)
				noError(b, err)
			},
			"tokens": func() { tokens(b, raw) },
			"jsontext.Canonicalize": func() {
				v := jsontext.Value(bytes.Clone(raw))
				noError(b, v.Canonicalize())
			},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				loop(b, f)
			})
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{300, 100 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w, raw, key := newWorkshop(b), arguments(n), policyKey(b)
			loop(b, func() { w.decide(b, raw, key) })
		})
	}
}

// ratio measures two functions in turn, so that a noisy machine disturbs both, and reports the ratio of their medians.
func ratio(b *testing.B, unit string, subject, reference func(), divisor float64) {
	b.Helper()
	var s, r []time.Duration
	for b.Loop() {
		t0 := time.Now()
		subject()
		t1 := time.Now()
		reference()
		s, r = append(s, t1.Sub(t0)), append(r, time.Since(t1))
	}
	slices.Sort(s)
	slices.Sort(r)
	b.ReportMetric(float64(s[len(s)/2])/float64(r[len(r)/2])/divisor, unit)
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
}

// BenchmarkRatios prints the figures of docs/benchmarks.md.
func BenchmarkRatios(b *testing.B) {
	b.Run("dry-run", func(b *testing.B) {
		w := newWorkshop(b)
		ratio(b, "x/verify", func() { w.dryRun(b) }, reference(b), 1)
	})
	b.Run("approve", func(b *testing.B) {
		w, key := newWorkshop(b), policyKey(b)
		ratio(b, "x/verify", func() { w.approve(b, key) }, reference(b), 1)
	})
	b.Run("execute", func(b *testing.B) {
		w := newWorkshop(b)
		ratio(b, "x/verify", func() { w.execute(b) }, reference(b), 1)
	})
	b.Run("bundle", func(b *testing.B) {
		w, keys, when := newWorkshop(b), allKeys(b), tomorrow()
		cpuRatio(b, "x/verify/signature", often(32, func() { w.verify(b, keys, when) }), often(32, reference(b)), float64(w.signatures))
	})
	b.Run("bundle-on-two-cores", func(b *testing.B) {
		w, keys, when := newWorkshop(b), allKeys(b), tomorrow()
		const n = 64
		many := func(workers int) func() {
			return func() {
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for range n {
							w.verify(b, keys, when)
						}
					})
				}
				wg.Wait()
			}
		}
		b.Run("time", func(b *testing.B) { ratio(b, "x/one-core-for-twice-the-work", many(2), many(1), 1) })
		// What they cost each other shows on a busy machine too.
		b.Run("cpu", func(b *testing.B) { cpuRatio(b, "x/one-core-for-the-same-work", many(2), many(1), 2) })
	})
	for _, n := range []int{300, 2 << 10, 100 << 10} {
		raw := arguments(n)
		parse := func() {
			_, err := counterfoil.ParseArguments(raw)
			noError(b, err)
		}
		b.Run(fmt.Sprintf("arguments-%d", n), func(b *testing.B) { ratio(b, "x/tokens", parse, func() { tokens(b, raw) }, 1) })
	}
	b.Run("128-steps", func(b *testing.B) {
		raw, pol := stepsPlan(b, 128)
		many := &workshop{plan: raw, policy: pol}
		raw, _ = stepsPlan(b, 1)
		one := &workshop{plan: raw, policy: pol}
		ratio(b, "x/128-times-one", func() { many.dryRun(b) }, func() { one.dryRun(b) }, 128)
	})
	b.Run("decide-100KiB", func(b *testing.B) {
		w, raw, key := newWorkshop(b), arguments(100<<10), policyKey(b)
		ratio(b, "x/jsontext", func() { w.decide(b, raw, key) }, func() {
			v := jsontext.Value(bytes.Clone(raw))
			noError(b, v.Canonicalize())
		}, 1)
	})
}

// What the other kinds of signatures cost a verifier.
func BenchmarkVerifyBundle_signatures(b *testing.B) {
	several, second := quorumLab(b)
	several.x.Approval = cosigned(b, several, second)
	for _, c := range []struct {
		name string
		l    *lab
	}{{"Ed25519", newLab(b)}, {"P-256", es256Lab(b)}, {"passkey", passkeyLab(b)}, {"quorum", several}, {"grant", grantLab(b, mustGrant(b, nil))}} {
		raw := c.l.bundle().Encode()
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := counterfoil.VerifyBundle(raw, c.l.x.Keys, tomorrow())
				noError(b, err)
			}
		})
	}
}
