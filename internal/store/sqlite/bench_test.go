package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// BenchmarkLedger measures durable operations against the flushes of the same disk in the same run, as ratios: times of
// one caller in flushes, rates of 64 callers in the rate of one and in the rate of flushes. Run it with -benchtime 5x;
// each iteration is one round and the medians are reported.
func BenchmarkLedger(b *testing.B) {
	dir := b.TempDir()
	s := open(b, filepath.Join(dir, "test.db"), options(storetest.Start))
	var next atomic.Int64
	got := map[string][]float64{}
	for b.Loop() {
		raw := flushes(b, dir, 150)
		spend := one(b, s, &next, 150, false)
		both := one(b, s, &next, 150, true)
		many := callers(b, ledgers(b, s, &next, 64*24), 64)
		raw2 := flushes(b, dir, 150)
		raw = slices.Concat(raw, raw2)
		p50 := at(raw, 50)
		for name, v := range map[string]float64{
			"flush-µs":          float64(p50.Microseconds()),
			"flush-p90/p50":     ratio(at(raw, 90), p50),
			"spend/flush":       ratio(at(spend, 50), p50),
			"quiet-spend/flush": ratio(at(spend, 10), at(raw, 10)), // of the tenth that nothing disturbed
			"settled/flush":     ratio(at(both, 50), p50),
			"64/1-rate":         ratio(mean(both), many),
			"64/flush-rate":     ratio(mean(raw), many/2), // a spend and a settle are two
			"settled64-µs":      float64(many.Microseconds()),
			"spend-p99/p50":     ratio(at(spend, 99), at(spend, 50)),
			"settled-p50-µs":    float64(at(both, 50).Microseconds()),
		} {
			got[name] = append(got[name], v)
		}
	}
	for name, v := range got {
		slices.Sort(v)
		b.ReportMetric(v[len(v)/2], name)
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func at(d []time.Duration, percent int) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)*percent/100]
}

func mean(d []time.Duration) time.Duration {
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	return sum / time.Duration(len(d))
}

// flushes appends a page and flushes, again and again.
func flushes(b *testing.B, dir string, n int) []time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing of it is kept
	page := make([]byte, 4096)
	out := make([]time.Duration, n)
	for i := range out {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := fdatasync(f); err != nil {
			b.Fatal(err)
		}
		out[i] = time.Since(began)
	}
	return out
}

func ledgers(b *testing.B, s *sqlite.Store, next *atomic.Int64, n int) []*storetest.Ledger {
	b.Helper()
	out := make([]*storetest.Ledger, n)
	for i := range out {
		out[i] = &storetest.Ledger{Store: s, Case: storetest.Approved(b, fmt.Sprint(next.Add(1)), storetest.Start())}
	}
	return out
}

func run(l *storetest.Ledger, b *testing.B, settle bool) {
	claim, err := l.Claim(b.Context(), "run-"+l.Case.Dry.Plan().ID())
	if err == nil && settle {
		_, err = l.Finish(b.Context(), claim, storetest.Start())
	}
	if err != nil {
		b.Error(err)
	}
}

// one measures one caller.
func one(b *testing.B, s *sqlite.Store, next *atomic.Int64, n int, settle bool) []time.Duration {
	b.Helper()
	work := ledgers(b, s, next, n)
	out := make([]time.Duration, n)
	for i, l := range work {
		began := time.Now()
		run(l, b, settle)
		out[i] = time.Since(began)
	}
	return out
}

// callers measures many callers at once: the time per settled use.
func callers(b *testing.B, work []*storetest.Ledger, callers int) time.Duration {
	b.Helper()
	each := len(work) / callers
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for _, l := range work[i*each : (i+1)*each] {
				run(l, b, true)
			}
		})
	}
	wg.Wait()
	return time.Since(began) / time.Duration(callers*each)
}

// BenchmarkCalls is the processor time of a settled use with 64 callers, boundary and receipt included.
func BenchmarkCalls(b *testing.B) {
	const each = 20
	cost(b, 64*each, func(work []*storetest.Ledger) { callers(b, work, 64) })
}

// BenchmarkSpend is the processor time of one caller's Spend.
func BenchmarkSpend(b *testing.B) {
	cost(b, 200, func(work []*storetest.Ledger) {
		for _, l := range work {
			run(l, b, false)
		}
	})
}

func cost(b *testing.B, n int, f func([]*storetest.Ledger)) {
	b.Helper()
	s := open(b, filepath.Join(b.TempDir(), "test.db"), options(storetest.Start))
	var next atomic.Int64
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		work := ledgers(b, s, &next, n)
		before := cpu()
		b.StartTimer()
		f(work)
		spent += cpu() - before
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N*n), "cpu-µs/call")
}

// BenchmarkSign is what a Spend signs inside of its transaction.
func BenchmarkSign(b *testing.B) {
	c := storetest.Approved(b, "a", storetest.Start())
	u := counterfoil.Use{
		Tenant: storetest.Tenant, Audience: storetest.Audience, Approval: c.Approval.Digest(), Step: "call", ExecutionID: "run",
		IssuedAt: storetest.Start(), NotBefore: storetest.Start(), ExpiresAt: storetest.Start().Add(time.Hour),
	}
	key := storetest.Key(counterfoil.RoleLedger)
	for b.Loop() {
		if _, err := u.Consume(b.Context(), storetest.Start(), time.Time{}, key); err != nil {
			b.Fatal(err)
		}
	}
}
