package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// A million spent uses: what the index of uses takes, what memory grows by, and what a use costs then, as a ratio to what it
// cost after ten thousand. USES=1000000 go test -run Million -timeout 2h -v
func TestMillion(t *testing.T) {
	uses, err := strconv.Atoi(os.Getenv("USES"))
	if err != nil || uses < 50_000 {
		t.Skip("USES is not set")
	}
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	var next atomic.Int64
	spendMany(t, s, &next, 8_000)
	early := costOf(func() { spendMany(t, s, &next, 12_000) })
	before := resident(t)
	spendMany(t, s, &next, uses-8_000)
	late := costOf(func() { spendMany(t, s, &next, uses) })
	after := resident(t)
	db, err := sql.Open("sqlite", path)
	must(t, err)
	closeAfter(t, db)
	var index, all float64
	must(t, db.QueryRowContext(t.Context(), `SELECT sum(pgsize) FILTER (WHERE name = 'executions_use') / 1e6, sum(pgsize) / 1e6 FROM dbstat`).Scan(&index, &all))
	ratio := float64(late) / 8_000 / (float64(early) / 4_000)
	grown := float64(after-before) / (1 << 20)
	t.Logf("%d uses: the index has %.1f MB of %.0f MB, memory grew by %.1f MiB, a use costs %v of CPU, %.2f of what it cost at 10,000",
		uses, index, all, grown, late/8_000, ratio)
	if million := float64(uses) / 1e6; index > 64*million || grown > 64 || ratio > 1.5 {
		t.Error("that is more than it may be")
	}
}

func spendMany(t *testing.T, s *sqlite.Store, next *atomic.Int64, until int) {
	t.Helper()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(until) {
					next.Add(-1)
					return
				}
				if err := spendPlain(s, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// spendPlain spends a use of an approval that the boundary has never seen.
func spendPlain(s *sqlite.Store, n int64) error {
	approval := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return err
	}
	id := "run-" + hex.EncodeToString(nonce[:])
	started, err := counterfoil.NewEvent(counterfoil.PhaseStarted, storetest.Names(), counterfoil.EventParams{
		Tenant: storetest.Tenant, Audience: storetest.Audience, ExecutionID: id, Actor: "agent:a", Tool: "write_file",
	})
	if err != nil {
		return err
	}
	now := storetest.Start()
	_, err = s.Spend(context.Background(), gateway.Spending{Started: started, Use: counterfoil.Use{
		Tenant: storetest.Tenant, Audience: storetest.Audience, Approval: approval, Step: "call", ExecutionID: id, Nonce: nonce,
		IssuedAt: now, NotBefore: now, ExpiresAt: now.Add(time.Hour).Add(time.Duration(n) * time.Millisecond),
	}})
	return err
}

// costOf returns the processor time that f takes.
func costOf(f func()) time.Duration {
	before := cpu()
	f()
	return cpu() - before
}

// resident returns the process's memory in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.ParseInt(string(bytes.Fields(b)[1]), 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize())
}
