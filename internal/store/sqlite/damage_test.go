package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// soak returns the long number when SOAK is set.
func soak(short, long int) int {
	if os.Getenv("SOAK") != "" {
		return long
	}
	return short
}

// filled makes a database with uses of every kind and returns its file, closed, and how many events it has.
func filled(t *testing.T, uses int) (path string, events int) {
	t.Helper()
	path = newPath(t)
	s := open(t, path, options(storetest.Start))
	fill(t, s, uses)
	events = len(readLog(t, s))
	must(t, s.Close())
	return path, events
}

func fill(t *testing.T, s *sqlite.Store, uses int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := w; n < uses; n += 8 {
				if err := use(t, s, fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// dice are seeded by the time, which is printed.
func dice(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// A bit that flips anywhere is refused when the database is opened, or it stands where it changes no structure: then no event
// is missing, and no use can be had again.
func TestDamage_flips(t *testing.T) {
	t.Parallel()
	path, events := filled(t, 40)
	content, err := os.ReadFile(path)
	must(t, err)
	rnd := dice(t)
	var cases []*storetest.Case
	for i := range 40 {
		cases = append(cases, storetest.Approved(t, fmt.Sprint(i), storetest.Start()))
	}
	refused, found := 0, 0
	trials := soak(60, 3000)
	for n := range trials {
		bad := append([]byte(nil), content...)
		at := rnd.IntN(len(bad))
		if n%4 == 0 {
			at = rnd.IntN(100) // the header
		}
		bad[at] ^= 1 << rnd.IntN(8)
		file := filepath.Join(t.TempDir(), "test.db")
		must(t, os.WriteFile(file, bad, 0o600))
		s, err := sqlite.Open(t.Context(), file, options(storetest.Start))
		if err != nil {
			if c := counterfoil.CodeOf(err); c != counterfoil.CodeIntegrityFailed && c != counterfoil.CodeUnavailable {
				t.Fatalf("byte %d: %v", at, err)
			}
			refused++
			continue
		}
		if got := len(readLog(t, s)); got != events {
			t.Fatalf("byte %d: %d events, not %d", at, got, events)
		}
		for i, c := range cases {
			l := &storetest.Ledger{Store: s, Case: c}
			if _, err := l.Claim(t.Context(), fmt.Sprintf("again-%d", i)); err == nil {
				t.Fatalf("byte %d: use %d was had again", at, i)
			}
		}
		findings, err := s.Check(t.Context())
		if err != nil || len(findings) > 0 {
			found++
		}
		must(t, s.Close())
	}
	t.Logf("%d flips: %d refused, %d found by the check, the rest in what is signed, sealed or unused", trials, refused, found)
	if refused == 0 || found == 0 {
		t.Fatal("nothing was noticed")
	}
}

// A file that was cut off anywhere is refused.
func TestDamage_cut(t *testing.T) {
	t.Parallel()
	path, _ := filled(t, 10)
	content, err := os.ReadFile(path)
	must(t, err)
	rnd := dice(t)
	for n := range soak(40, 1000) {
		size := 1 + rnd.IntN(len(content)-1)
		switch n % 4 {
		case 0:
			size = size / 4096 * 4096
		case 1:
			size = len(content) - 1 - rnd.IntN(4095) // inside the last page
		}
		file := filepath.Join(t.TempDir(), "test.db")
		must(t, os.WriteFile(file, content[:size], 0o600))
		if _, err := sqlite.Open(t.Context(), file, options(storetest.Start)); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
			t.Fatalf("%d of %d bytes: %v", size, len(content), err)
		}
	}
}

// A write-ahead log that was damaged, after a crash left it behind, is as if the end had not been written: what is there is
// whole. That something is missing shows against a checkpoint that was kept outside.
func TestDamage_log(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	fill(t, s, 20)
	want := readLog(t, s)
	db, err := os.ReadFile(path)
	must(t, err)
	wal, err := os.ReadFile(path + "-wal")
	must(t, err)
	rnd := dice(t)
	shorter := 0
	for n := range soak(40, 1000) {
		bad := append([]byte(nil), wal...)
		if at := rnd.IntN(len(bad)); n%2 == 0 {
			bad[at] ^= 1 << rnd.IntN(8)
		} else {
			bad = bad[:at]
		}
		file := filepath.Join(t.TempDir(), "test.db")
		must(t, errors.Join(os.WriteFile(file, db, 0o600), os.WriteFile(file+"-wal", bad, 0o600)))
		r, err := sqlite.Open(t.Context(), file, options(storetest.Start))
		if err != nil {
			if c := counterfoil.CodeOf(err); c != counterfoil.CodeIntegrityFailed && c != counterfoil.CodeUnavailable {
				t.Fatal(err)
			}
			continue
		}
		healthy(t, r)
		log := readLog(t, r)
		for i, e := range log {
			if string(e.Body) != string(want[i].Body) {
				t.Fatalf("event %d is another", i+1)
			}
		}
		if len(log) < len(want) {
			shorter++
		}
		must(t, use(t, r, "goes on"))
		must(t, r.Close())
	}
	if shorter == 0 {
		t.Fatal("no damage took effect")
	}
}

// An export that reads slowly, page by page, does not keep the write-ahead log from being reset.
func TestExport_slow(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	events := 20_000
	if testing.Short() {
		events = 3000
	}
	var wg sync.WaitGroup
	const callers = 32
	for w := range callers {
		wg.Go(func() {
			for n := w; n < events; n += callers {
				if err := s.Record(t.Context(), storetest.Refused(t, "call")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		wg.Wait()
		close(written)
	}()
	var largest int64
	read, after := 0, int64(0)
	for writing := true; writing || read < events; {
		limit := 10
		select {
		case <-written:
			writing, limit = false, 1000 // there is no need to be slow any more
		case <-time.After(time.Millisecond):
		}
		page, err := s.Events(t.Context(), storetest.Tenant, after, limit)
		must(t, err)
		for _, e := range page {
			if e.Sequence != after+1 {
				t.Fatalf("event %d after %d", e.Sequence, after)
			}
			after = e.Sequence
		}
		read += len(page)
		if info, err := os.Stat(path + "-wal"); err == nil {
			largest = max(largest, info.Size())
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d events were read; the log had at most %d bytes", read, largest)
	if largest > 32<<20 {
		t.Fatal("the log grew")
	}
}
