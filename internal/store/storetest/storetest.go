// Package storetest is the one conformance suite of the stores: what the gateway's interfaces promise, over several handles
// of one database, with faults at every stage of a commit and the whole log checked after each step.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A Store is a handle as the suite needs it.
type Store interface {
	gateway.Store
	Process() string
	Ready(ctx context.Context) error
	Close() error
}

// An Event is a sealed event as a store keeps it.
type Event struct {
	Sequence int64
	At       time.Time
	Body     []byte
	Digest   counterfoil.Digest
}

// A Stage is where a transaction can be made to fail.
type Stage string

// The stages. At Committed everything is durable, but the caller is not told.
const (
	Begin     Stage = "begin"
	Write     Stage = "write"
	Commit    Stage = "commit"
	Committed Stage = "committed"
)

// A Backend is one fresh database.
type Backend interface {
	// Open opens a handle that behaves like a process of its own. fault, if not nil, is asked at every stage of every
	// transaction and makes it fail there. The handle is closed when the test ends.
	Open(t *testing.T, now func() time.Time, fault func(Stage) error) Store
	// Log reads a tenant's whole log.
	Log(t *testing.T, s Store, tenant string) []Event
}

// Run runs the suite. fresh makes a new and empty database.
func Run(t *testing.T, fresh func(t *testing.T) Backend) {
	tests := []struct {
		name string
		run  func(t *testing.T, b Backend)
	}{
		{"Spend_once", testSpendOnce},
		{"Spend_contenders", testContenders},
		{"Spend_window", testWindow},
		{"Spend_request", testSpendRequest},
		{"Spend_counter", testCounter},
		{"Spend_restart", testRestart},
		{"Spend_batch", testBatch},
		{"Spend_order", testOrder},
		{"Spend_grant", testGrantUses},
		{"Revoke", testRevoke},
		{"Revoke_again", testRevokeAgain},
		{"Revoke_race", testRevokeRace},
		{"Settle", testSettle},
		{"Settle_rejects", testSettleRejects},
		{"Settle_late", testLate},
		{"Resolve", testResolve},
		{"Orphans", testOrphans},
		{"Executions", testExecutions},
		{"Record_times", testTimes},
		{"Faults", testFaults},
		{"Attach", testAttach},
		{"Attach_cap", testCap},
		{"Attach_coolDown", testCoolDown},
		{"Attach_contenders", testAttachContenders},
		{"Answer", testAnswer},
		{"Leave", testLeave},
		{"Rule", testRule},
		{"Rule_contenders", testRuleContenders},
		{"Lapse", testLapse},
		{"Life", testLife},
		{"Sweep", testSweep},
		{"Sweep_dead", testSweepDead},
		{"Requests", testRequests},
		{"Model", testModel},
		{"Servers", testServers},
		{"Sessions", testSessions},
		{"Version", testVersion},
		{"Tenants", testTenants},
		{"Cancelled", testCancelled},
		{"Closed", testClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

// check reads the log and fails the test when it breaks a rule of logs. It returns the phases.
func check(t *testing.T, b Backend, s Store) []string {
	t.Helper()
	var phases []string
	var last time.Time
	for i, e := range b.Log(t, s, Tenant) {
		if e.Sequence != int64(i+1) {
			t.Fatalf("event %d has sequence %d", i+1, e.Sequence)
		}
		if e.At.Before(last) {
			t.Fatalf("event %d is of %v, after one of %v", i+1, e.At, last)
		}
		last = e.At
		if counterfoil.EventDigest(e.Body) != e.Digest {
			t.Fatalf("event %d has another digest", i+1)
		}
		if c, err := counterfoil.Canonicalize(e.Body); err != nil || !bytes.Equal(c, e.Body) {
			t.Fatalf("event %d is not canonical: %v", i+1, err)
		}
		for _, want := range []string{
			`"time":"` + e.At.UTC().Format("2006-01-02T15:04:05.000Z") + `"`, `"tenant":"` + Tenant + `"`, `"audience":"` + Audience + `"`,
		} {
			if !bytes.Contains(e.Body, []byte(want)) {
				t.Fatalf("event %d lacks %s: %s", i+1, want, e.Body)
			}
		}
		_, rest, _ := bytes.Cut(e.Body, []byte(`"phase":"`))
		phase, _, _ := bytes.Cut(rest, []byte(`"`))
		phases = append(phases, string(phase))
	}
	return phases
}

func wantPhases(t *testing.T, b Backend, s Store, want ...string) {
	t.Helper()
	got := check(t, b, s)
	if len(got) != len(want) {
		t.Fatalf("the log has %v, not %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("the log has %v, not %v", got, want)
		}
	}
}

func wantCode(t *testing.T, err error, want counterfoil.Code) {
	t.Helper()
	if !errors.Is(err, want) || counterfoil.CodeOf(err) != want {
		t.Fatalf("got %v, not %s", err, want)
	}
}

func wantConflict(t *testing.T, err error, want gateway.State) {
	t.Helper()
	c, ok := errors.AsType[*gateway.ConflictError](err)
	if !ok || c.State != want {
		t.Fatalf("got %v, not a conflict with %s", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
