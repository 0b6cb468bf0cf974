package counterfoil_test

import (
	"runtime"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// Allocations are gated, nanoseconds are not: they are the part of the cost that does not depend on the machine.
func TestAllocations(t *testing.T) {
	w, keys, when, key := newWorkshop(t), allKeys(t), tomorrow(), policyKey(t)
	raw := arguments(300)
	many, pol := stepsPlan(t, 128)
	steps := &workshop{plan: many, policy: pol}
	one, _ := stepsPlan(t, 1)
	step := &workshop{plan: one, policy: pol}
	var single float64
	for _, c := range []struct {
		name string
		most float64
		f    func()
	}{
		{"arguments of 300 bytes", 8, func() { _, _ = counterfoil.ParseArguments(raw) }},
		{"dry run of one step", 40, func() { w.dryRun(t) }},
		{"approve", 20, func() { w.approve(t, key) }},
		{"execute", 165, func() { w.execute(t) }},
		{"verify a bundle", 130, func() { w.verify(t, keys, when) }},
		{"one step", 40, func() { step.dryRun(t) }},
		{"128 steps", 128 * 40, func() { steps.dryRun(t) }},
	} {
		got := testing.AllocsPerRun(20, c.f)
		if got > c.most {
			t.Errorf("%s: %.0f allocations, at most %.0f are meant", c.name, got, c.most)
		}
		switch c.name {
		case "one step":
			single = got
		case "128 steps":
			if got > 128*single {
				t.Errorf("128 steps cost %.0f allocations, one step %.0f: more than linear", got, single)
			}
		}
	}
}

// What a hostile document of 1 MiB costs is bounded by its size, whatever its shape: memory by a small multiple of it, and
// allocations by far less than one for each value. BenchmarkHostile compares the time with an honest document's.
func TestParseArguments_hostileShapes(t *testing.T) {
	const n = 1 << 20
	for name, raw := range hostile(n) {
		if len(raw) > n || len(raw) < n-3000 {
			t.Fatalf("%s has %d bytes", name, len(raw))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := counterfoil.ParseArguments(raw)
		runtime.ReadMemStats(&after)
		if refused := isFaulty(name); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
		if size := after.TotalAlloc - before.TotalAlloc; size > 32*n {
			t.Errorf("%s: %d bytes are allocated for each byte read", name, size/n)
		}
		if count := after.Mallocs - before.Mallocs; count > 200+n/512 { // a number of more than 32 digits costs one
			t.Errorf("%s: %d allocations", name, count)
		}
	}
}
