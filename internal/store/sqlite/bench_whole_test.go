package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// BenchmarkGoverned measures whole calls that the policy allows: parsed, judged, approved, spent, run and settled, by 64
// callers in this process. They are compared with half the rate of transactions of one row that one caller commits on the
// same disk in the same run: a call has two commits.
func BenchmarkGoverned(b *testing.B) {
	dir := b.TempDir()
	s := open(b, filepath.Join(dir, "test.db"), options(storetest.Start))
	row := oneRow(b, filepath.Join(dir, "rows.db"))
	maker := storetest.NewMaker(counterfoil.AuthorityPolicy)
	var next atomic.Int64
	var rows, calls []time.Duration
	for b.Loop() {
		rows = append(rows, row(100))
		calls = append(calls, govern(b, s, maker, &next, 64, 12))
		rows = append(rows, row(100))
	}
	b.ReportMetric(float64(mean(rows).Microseconds()), "row-µs")
	b.ReportMetric(float64(mean(calls).Microseconds()), "call-µs")
	b.ReportMetric(ratio(2*mean(rows), mean(calls)), "calls/half-rows")
}

// govern returns the time per call.
func govern(b *testing.B, s *sqlite.Store, maker *storetest.Maker, next *atomic.Int64, callers, each int) time.Duration {
	b.Helper()
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for range each {
				if err := maker.Govern(b.Context(), s, fmt.Sprint(next.Add(1)), storetest.Start); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began) / time.Duration(callers*each)
}

// oneRow returns what commits rows one by one in a database with the settings of the store, and tells the time of each.
func oneRow(b *testing.B, path string) func(n int) time.Duration {
	b.Helper()
	closed := open(b, path, options(storetest.Start))
	if err := closed.Close(); err != nil {
		b.Fatal(err)
	}
	db := sqlite.Pools(path, 1)["writer"]
	closeAfter(b, db)
	if _, err := db.ExecContext(b.Context(), `CREATE TABLE one (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT`); err != nil {
		b.Fatal(err)
	}
	insert, err := db.PrepareContext(b.Context(), `INSERT INTO one (body) VALUES (zeroblob(300))`)
	if err != nil {
		b.Fatal(err)
	}
	closeAfter(b, insert)
	return func(n int) time.Duration {
		began := time.Now()
		for range n {
			if _, err := insert.ExecContext(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began) / time.Duration(n)
	}
}

// BenchmarkSlowDisk runs the benchmarks that depend on the disk as on one that takes a millisecond longer for a flush:
// strace holds every fdatasync up for so long before it begins, the raw ones too, and nothing else.
func BenchmarkSlowDisk(b *testing.B) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		b.Skip("strace is not installed")
	}
	for _, name := range []string{"Ledger", "Governed"} {
		b.Run(name, func(b *testing.B) {
			cmd := exec.CommandContext(b.Context(), strace, "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync",
				"-e", "inject=fdatasync:delay_enter=1000", os.Args[0], "-test.run", "^$", "-test.bench", "^Benchmark"+name+"$", "-test.benchtime", "5x")
			out, err := cmd.CombinedOutput()
			if err != nil {
				b.Skipf("strace: %v\n%s", err, out)
			}
			for b.Loop() { // the other program has its own rounds
			}
			report(b, string(out))
		})
	}
}

// report takes over the figures of another program's benchmark.
func report(b *testing.B, out string) {
	b.Helper()
	lines := strings.Split(out, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Benchmark") })
	if i < 0 {
		b.Fatal(out)
	}
	fields := strings.Fields(lines[i])
	for k := 2; k+1 < len(fields); k += 2 {
		v, err := strconv.ParseFloat(fields[k], 64)
		if err != nil {
			b.Fatal(err)
		}
		if fields[k+1] != "ns/op" {
			b.ReportMetric(v, fields[k+1])
		}
	}
}
