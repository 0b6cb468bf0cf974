package counterfoil_test

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the processor time that this process has used, the collector's share included. It is steadier than the
// clock on a machine with other work.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuRatio measures two functions in turn by processor time and reports the ratio of their medians.
func cpuRatio(b *testing.B, unit string, subject, reference func(), divisor float64) {
	b.Helper()
	var s, r []time.Duration
	for b.Loop() {
		t0 := cpuTime()
		subject()
		t1 := cpuTime()
		reference()
		s, r = append(s, t1-t0), append(r, cpuTime()-t1)
	}
	slices.Sort(s)
	slices.Sort(r)
	b.ReportMetric(float64(s[len(s)/2])/float64(r[len(r)/2])/divisor, unit)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(r[len(r)/2])/1e6, "ref-ms")
}

// often makes n calls of one, where one takes little more than reading the time.
func often(n int, f func()) func() {
	return func() {
		for range n {
			f()
		}
	}
}
