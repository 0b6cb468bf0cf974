package postgres_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// BenchmarkLedger measures durable operations against transactions of one row by one caller on the same server in the same
// run, as ratios of rates. A spend and its settling are two operations. Run it with -benchtime 5x; each iteration is one
// round and the medians are reported.
func BenchmarkLedger(b *testing.B) { ledger(b, server.Fresh(b)) }

// BenchmarkSlowDisk is the same on a server that waits for a millisecond before each flush, as for a disk that takes so long:
// the transactions of one row too.
func BenchmarkSlowDisk(b *testing.B) {
	ledger(b, pgtest.Start(b, "commit_delay=1000", "commit_siblings=0").Fresh(b))
}

func ledger(b *testing.B, url string) {
	b.Helper()
	s := open(b, url, options(storetest.Start))
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context()) //nolint:errcheck // it goes with the server
	if _, err := conn.Exec(b.Context(), `CREATE TABLE one (n bigint PRIMARY KEY, body bytea NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	got := map[string][]float64{}
	callers(b, s, &next, 64, 4) // plans are made
	for b.Loop() {
		raw := oneRow(b, conn, &next, 150)
		rates := map[int]time.Duration{}
		for _, n := range []int{1, 8, 64, 256} {
			rates[n] = callers(b, s, &next, n, max(4, 1000/n))
		}
		raw = append(raw, oneRow(b, conn, &next, 150)...)
		p50, mean := at(raw, 50), mean(raw)
		got["row-µs"] = append(got["row-µs"], float64(mean.Microseconds()))
		got["row-p90/p50"] = append(got["row-p90/p50"], ratio(at(raw, 90), p50))
		for n, each := range rates {
			got[fmt.Sprintf("%d/rows", n)] = append(got[fmt.Sprintf("%d/rows", n)], ratio(mean, each/2))
			got[fmt.Sprintf("%d-µs", n)] = append(got[fmt.Sprintf("%d-µs", n)], float64(each.Microseconds()))
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

// oneRow inserts a row in a transaction of its own, again and again.
func oneRow(b *testing.B, conn *pgx.Conn, next *atomic.Int64, n int) []time.Duration {
	b.Helper()
	out := make([]time.Duration, n)
	for i := range out {
		began := time.Now()
		if _, err := conn.Exec(b.Context(), `INSERT INTO one (n, body) VALUES ($1, $2)`, next.Add(1), make([]byte, 300)); err != nil {
			b.Fatal(err)
		}
		out[i] = time.Since(began)
	}
	return out
}

// callers measures many callers at once: the time per settled use.
func callers(b *testing.B, s *postgres.Store, next *atomic.Int64, callers, each int) time.Duration {
	b.Helper()
	maker := storetest.NewMaker(counterfoil.AuthorityPerson)
	work := make([]*storetest.Ledger, callers*each)
	for i := range work {
		c, err := maker.Case(fmt.Sprint(next.Add(1)), storetest.Start())
		if err != nil {
			b.Fatal(err)
		}
		work[i] = &storetest.Ledger{Store: s, Case: c}
	}
	runtime.GC() // what was left of making them is not the ledger's
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for _, l := range work[i*each : (i+1)*each] {
				claim, err := l.Claim(b.Context(), "run-"+l.Case.Dry.Plan().ID())
				if err == nil {
					_, err = l.Finish(b.Context(), claim, storetest.Start())
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began) / time.Duration(len(work))
}
