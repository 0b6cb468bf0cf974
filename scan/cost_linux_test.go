package scan_test

import (
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time that the calling thread has used: what a busy machine takes away doesn't count.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Skip(err)
	}
	return time.Duration(ts.Nano())
}

// Ten times the text must cost less than twelve times as much. What is measured is noisy, so the best of a few runs counts,
// and the bound leaves room; quadratic growth would be a hundredfold.
func TestScan_cost_is_linear(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const small, factor, most = 8 << 10, 10, 20
	for name, text := range hard() {
		cost := func(n int) time.Duration {
			s := text(n)
			best := time.Duration(math.MaxInt64)
			for range 2 {
				start := threadTime(t)
				shared.Scan(t.Context(), s)
				best = min(best, threadTime(t)-start)
			}
			return best
		}
		if one, ten := cost(small), cost(small*factor); ten > most*one+2*time.Millisecond {
			t.Errorf("%q: %v, and %v for ten times the text", name, one, ten)
		}
	}
}
