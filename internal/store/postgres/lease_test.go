package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// A process whose lease has run out takes another name before it spends: what it had begun under the old one is an orphan,
// and its waiters are still here.
func TestLease_lapsed(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	o := options(storetest.Start)
	o.Lease = time.Hour // nothing renews it by itself
	s, other := open(t, address, o), open(t, address, o)
	_, _, err := spend(t, s, "a", "run-a")
	must(t, err)
	row := attach(t, s, "waited")
	old := s.Process()
	must(t, other.Write(`UPDATE processes SET until = 1 WHERE id = $1`, old))
	if x, err := other.Orphans(t.Context()); err != nil || len(x) != 1 || x[0].ID != "run-a" {
		t.Fatalf("orphans %v, %v", x, err)
	}
	_, _, err = spend(t, s, "b", "run-b")
	must(t, err)
	if s.Process() == old {
		t.Fatal("it spends under the name of a dead process")
	}
	if x, err := other.Orphans(t.Context()); err != nil || len(x) != 1 || x[0].ID != "run-a" {
		t.Fatalf("orphans %v, %v", x, err)
	}
	if moved, err := other.Sweep(t.Context(), storetest.Start()); err != nil || len(moved) != 0 {
		t.Fatalf("swept %v, %v", moved, err)
	}
	// A waiter is counted in under the new name too.
	must(t, other.Write(`UPDATE processes SET until = 1 WHERE id = $1`, s.Process()))
	attach(t, s, "waited-too")
	must(t, s.Leave(t.Context(), storetest.Tenant, row.ID, "w-waited", "gone"))
	if row, err := s.Request(t.Context(), storetest.Tenant, row.ID); err != nil || row.State != gateway.Cancelled {
		t.Fatalf("%+v, %v", row, err)
	}
	if moved, err := other.Sweep(t.Context(), storetest.Start()); err != nil || len(moved) != 0 {
		t.Fatalf("swept %v, %v", moved, err)
	}
	healthy(t, s)
}

func attach(t *testing.T, s gateway.Requests, key string) gateway.RequestRow {
	t.Helper()
	e, err := counterfoil.NewEvent(counterfoil.PhaseRequested, storetest.Names(), counterfoil.EventParams{
		Tenant: storetest.Tenant, Audience: storetest.Audience, ExecutionID: "apr-" + key,
	})
	must(t, err)
	row, err := s.Attach(t.Context(), gateway.Attachment{
		New: gateway.RequestRow{
			ID: "apr-" + key, Tenant: storetest.Tenant, Requester: "agent:a", Key: key, Tool: "t", CreatedAt: storetest.Start(),
			ExpiresAt: storetest.Start().Add(time.Minute),
		},
		Waiter: "w-" + key, Now: storetest.Start(), Cap: 100, Opened: e,
	})
	must(t, err)
	return row
}

// A pool without a free connection lets no living process look dead, holds nobody up for ever, and stops no spending.
func TestLease_busyPool(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	o := options(storetest.Start)
	o.Lease = 600 * time.Millisecond
	s, other := open(t, with(t, address, "pool_max_conns", "2"), o), open(t, address, o)
	_, _, err := spend(t, s, "a", "run-a")
	must(t, err)
	release := s.Exhaust(t.Context())
	name := s.Process()
	for range 4 {
		<-time.After(o.Lease / 2)
		if x, err := other.Orphans(t.Context()); err != nil || len(x) != 0 {
			t.Fatalf("a living process was taken for dead: %v, %v", x, err)
		}
	}
	if s.Process() != name {
		t.Error("the lease has lapsed")
	}
	_, _, err = spend(t, s, "b", "run-b")
	must(t, err)
	_, err = s.Version(deadline(t, 100*time.Millisecond))
	wantCode(t, err, counterfoil.CodeUnavailable)
	wantCode(t, s.Ready(deadline(t, 100*time.Millisecond)), counterfoil.CodeUnavailable)
	release()
	must(t, s.Ready(t.Context()))
}

// Somebody else's lock is waited for as long as the settings say, and then nothing was recorded.
func TestLocked(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	s := open(t, with(t, address, "lock_timeout", "200ms"), options(storetest.Start))
	_, _, err := spend(t, s, "a", "run-a")
	must(t, err)
	unlock := lockHead(t, address)
	_, _, err = spend(t, s, "b", "run-b")
	wantCode(t, err, counterfoil.CodeUnavailable)
	l := storetest.Ledger{Store: s, Case: storetest.Approved(t, "a", storetest.Start())}
	_, err = l.Claim(t.Context(), "run-c")
	wantCode(t, err, counterfoil.CodeUnavailable)
	_, _, err = s.Resolve(t.Context(), l.Use)
	wantCode(t, err, counterfoil.CodeUnavailable)
	unlock()
	_, _, err = spend(t, s, "b", "run-b")
	must(t, err)
	healthy(t, s)
}

// A log that has become shorter, since a standby without the newest commits took over, is neither read nor written.
func TestShorter(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	s := open(t, address, options(storetest.Start))
	for i := range 3 {
		_, _, err := spend(t, s, fmt.Sprint(i), fmt.Sprintf("run-%d", i))
		must(t, err)
	}
	exec(t, address, `SET search_path = counterfoil`, `SET session_replication_role = replica`, // no trigger stops the hand of an operator
		`DELETE FROM events WHERE sequence = 3`, `DELETE FROM executions WHERE sequence = 3`, `DELETE FROM running WHERE sequence = 3`,
		`UPDATE logs SET sequence = 2`)
	_, _, err := spend(t, s, "2", "run-2")
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
	wantCode(t, s.Record(t.Context(), storetest.Refused(t, "x")), counterfoil.CodeIntegrityFailed)
	_, err = s.Log(t.Context(), storetest.Tenant)
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
	_, err = s.Logs(t.Context(), "", 10)
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
	_, _, err = s.Resolve(t.Context(), counterfoil.Use{Tenant: storetest.Tenant})
	wantCode(t, err, counterfoil.CodeIntegrityFailed)
	exec(t, address, `DELETE FROM counterfoil.logs`)
	wantCode(t, s.Record(t.Context(), storetest.Refused(t, "x")), counterfoil.CodeIntegrityFailed)
}

// The database's own check sees what was changed behind the store's back.
func TestCheck(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	s := open(t, address, options(storetest.Start))
	for i := range 3 {
		l, claim, err := spend(t, s, fmt.Sprint(i), fmt.Sprintf("run-%d", i))
		must(t, err)
		_, err = l.Finish(t.Context(), claim, storetest.Start())
		must(t, err)
	}
	healthy(t, s)
	for _, change := range []string{
		`UPDATE logs SET sequence = 7`, `DELETE FROM events WHERE sequence = 2`, `DELETE FROM logs`, `UPDATE events SET body = 'x' WHERE sequence = 3`,
		`UPDATE events SET at = 0 WHERE sequence = 4`, `DELETE FROM executions WHERE id = 'run-1'`, `DELETE FROM receipts`,
		`UPDATE receipts SET body = 'x'`, `INSERT INTO checkpoints (tenant, size) VALUES ('local', 9)`,
	} {
		found, err := s.CheckAfter(t.Context(), change)
		if err != nil || len(found) == 0 {
			t.Errorf("after %s it found %q, %v", change, found, err)
		}
	}
	healthy(t, s)
	// And without privileges over triggers, what is final can't be changed at all.
	for _, change := range []string{
		`UPDATE events SET body = 'x' WHERE sequence = 1`, `UPDATE events SET at = at + 1`, `DELETE FROM events`, `DELETE FROM executions`,
		`UPDATE executions SET process = 'x'`, `UPDATE executions SET operation = 'x'`, `UPDATE receipts SET outcome = 'failed'`, `DELETE FROM receipts`,
	} {
		if err := s.Write(change); err == nil {
			t.Errorf("the database lets through: %s", change)
		}
	}
}

// Callers of many tenants, over several handles, meet in batches that lock several logs at once.
func TestTenants_together(t *testing.T) {
	t.Parallel()
	address := server.Fresh(t)
	handles := []*postgres.Store{open(t, address, options(storetest.Start)), open(t, address, options(storetest.Start))}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range 5 {
				e, err := counterfoil.NewEvent(counterfoil.PhaseRefused, storetest.Names(), counterfoil.EventParams{
					Tenant: fmt.Sprintf("tenant-%d", (i+n)%7), Audience: storetest.Audience, ExecutionID: fmt.Sprintf("x-%d-%d", i, n),
				})
				if err == nil {
					err = handles[i%2].Record(t.Context(), e)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for i := range 7 {
		total += len(readLog(t, handles[0], fmt.Sprintf("tenant-%d", i)))
	}
	if total != 64*5 {
		t.Fatalf("%d events", total)
	}
	healthy(t, handles[0])
}
