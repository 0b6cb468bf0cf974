package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
// one caller in flushes, rates of 64 callers in the rate of one and in the rate of flushes. Flushes, uses and settled uses
// are taken in turns, so that a busy machine disturbs them alike. Run it with -benchtime 20x: each iteration is one round.
func BenchmarkLedger(b *testing.B) {
	dir := b.TempDir()
	s := open(b, filepath.Join(dir, "test.db"), options(storetest.Start))
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close() //nolint:errcheck // nothing of it is kept
	var next atomic.Int64
	var flushes, spends, settled, many []time.Duration
	for b.Loop() {
		lone := ledgers(b, s, &next, 60)
		runtime.GC()
		for i := range 30 {
			flushes = append(flushes, flush(b, raw))
			spends = append(spends, one(b, lone[2*i], false))
			settled = append(settled, one(b, lone[2*i+1], true))
		}
		work := ledgers(b, s, &next, 64*12)
		runtime.GC() // what was left of making them is not the ledger's
		many = append(many, callers(b, work, 64))
	}
	f := at(flushes, 50)
	b.ReportMetric(float64(f.Microseconds()), "flush-µs")
	b.ReportMetric(ratio(at(flushes, 90), f), "flush-p90/p50") // above 3 the run was noisy
	b.ReportMetric(ratio(at(spends, 50), f), "spend/flush")
	b.ReportMetric(ratio(at(spends, 10), at(flushes, 10)), "quiet-spend/flush") // of the tenth that nothing disturbed
	b.ReportMetric(ratio(at(spends, 99), at(spends, 50)), "spend-p99/p50")
	b.ReportMetric(float64(mean(many).Microseconds()), "settled64-µs")
	// Rates are of all that was done in all of the time.
	b.ReportMetric(ratio(mean(settled), mean(many)), "64/1-rate")
	b.ReportMetric(ratio(mean(flushes), mean(many)/2), "64/flush-rate") // a spend and a settle are two
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

// flush appends a page and flushes it.
func flush(b *testing.B, f *os.File) time.Duration {
	b.Helper()
	page := make([]byte, 4096)
	began := time.Now()
	if _, err := f.Write(page); err != nil {
		b.Fatal(err)
	}
	if err := fdatasync(f); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func ledgers(b *testing.B, s *sqlite.Store, next *atomic.Int64, n int) []*storetest.Ledger {
	b.Helper()
	maker := storetest.NewMaker(counterfoil.AuthorityPerson)
	out := make([]*storetest.Ledger, n)
	for i := range out {
		c, err := maker.Case(fmt.Sprint(next.Add(1)), storetest.Start())
		if err != nil {
			b.Fatal(err)
		}
		out[i] = &storetest.Ledger{Store: s, Case: c}
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
func one(b *testing.B, l *storetest.Ledger, settle bool) time.Duration {
	b.Helper()
	began := time.Now()
	run(l, b, settle)
	return time.Since(began)
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
		runtime.GC()
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
