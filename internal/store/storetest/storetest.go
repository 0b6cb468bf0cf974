// Package storetest is the one conformance suite of the stores: what the gateway's and the log's interfaces promise, over
// several handles of one database and several processes, with faults at every stage of a commit and the whole state checked
// after each step.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// A Store is a handle as the suite needs it.
type Store interface {
	gateway.Store
	translog.Store
	ratelimit.Store
	tenancy.Store
	identity.Store
	credential.Store
	vault.SecretStore
	vault.Records
	hooks.Store
	idempotency.Store
	// Process names the handle in the database. Another handle has another name.
	Process() string
	// Ready writes to the database and reads back what it wrote.
	Ready(ctx context.Context) error
	// Close ends the handle. It counts as dead at once.
	Close() error
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
	// Open opens a handle that behaves like a process of its own, for the suite's Audience, keys and Names. fault, if not
	// nil, is asked at every stage of every transaction and makes it fail there. The handle is closed when the test ends.
	Open(t *testing.T, now func() time.Time, fault func(Stage) error) Store
	// Kill ends a handle as a killed process ends: it says goodbye to nobody. It may be closed afterwards.
	Kill(t *testing.T, s Store)
	// Dead is how long a killed handle may still count as alive.
	Dead() time.Duration
}

// A test is one of the suite. Each gets a database of its own.
type test struct {
	name string
	run  func(t *testing.T, b Backend)
}

// Run runs the suite. fresh makes a new and empty database.
func Run(t *testing.T, fresh func(t *testing.T) Backend) {
	for _, test := range tests() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		testModel(t, fresh)
	})
}

func tests() []test {
	return []test{
		{"Spend_once", testSpendOnce},
		{"Spend_contenders", testContenders},
		{"Spend_window", testWindow},
		{"Spend_request", testSpendRequest},
		{"Spend_restart", testRestart},
		{"Spend_batch", testBatch},
		{"Spend_order", testOrder},
		{"Spend_grant", testGrantUses},
		{"Counters", testCounters},
		{"Counters_contenders", testCounterContenders},
		{"Counters_settled", testCountersSettled},
		{"Counters_rejects", testCountersReject},
		{"Once", testOnce},
		{"Once_contenders", testOnceContenders},
		{"Once_until", testOnceUntil},
		{"Tenancy", testTenancy},
		{"Tenancy_pages", testTenancyPages},
		{"Credentials_revoked", testRevokedCredentials},
		{"Credentials_revokedSubjects", testRevokedSubjects},
		{"Credentials_revokedForgotten", testRevokedForgotten},
		{"Credentials_revokedRejects", testRevokedRejects},
		{"Credentials_revokedContenders", testRevokedContenders},
		{"Credentials_revokedFaults", testRevokedFaults},
		{"Rates", testRates},
		{"Rates_contenders", testRateContenders},
		{"Rates_faults", testRateFaults},
		{"Rates_pages", testRatePages},
		{"Rates_text", testRateText},
		{"Secrets", testSecrets},
		{"Secrets_contenders", testSecretContenders},
		{"Secrets_faults", testSecretFaults},
		{"Secrets_pages", testSecretPages},
		{"Secrets_rejects", testSecretRejects},
		{"Sealed_swapped", testSealedSwapped},
		{"Sealed_pages", testSealedPages},
		{"Sealed_rotation", testRotation},
		{"Sealed_reseal", testReseal},
		{"Sealed_admit", testAdmit},
		{"Keys", testKeys},
		{"Keys_pages", testKeysPages},
		{"Keys_taken", testKeysTaken},
		{"Keys_replace", testKeysReplace},
		{"Keys_usedAndSwept", testKeysUsedAndSwept},
		{"Keys_owner", testKeysOwner},
		{"Keys_rejects", testKeysReject},
		{"Users", testUsers},
		{"Users_ended", testUsersEnded},
		{"Users_race", testUsersRace},
		{"Users_rejects", testUsersReject},
		{"Families", testFamilies},
		{"Families_rotate", testFamiliesRotate},
		{"Families_reused", testFamiliesReused},
		{"Tallies", testTallies},
		{"Bootstrap", testBootstrap},
		{"Credentials_faults", testCredentialFaults},
		{"Hooks", testHooks},
		{"Hooks_contenders", testHooksContenders},
		{"Idempotency", testIdempotency},
		{"Idempotency_contenders", testIdempotencyContenders},
		{"Marks", testMarks},
		{"Marks_race", testMarksRace},
		{"Revoke", testRevoke},
		{"Revoke_again", testRevokeAgain},
		{"Revoke_race", testRevokeRace},
		{"Settle", testSettle},
		{"Settle_contenders", testSettleContenders},
		{"Settle_rejects", testSettleRejects},
		{"Settle_late", testLate},
		{"Resolve", testResolve},
		{"Orphans", testOrphans},
		{"Orphans_killed", testOrphansKilled},
		{"Executions", testExecutions},
		{"Record_times", testTimes},
		{"Record_rejects", testRecordRejects},
		{"Record_nanoseconds", testNanoseconds},
		{"Events_match", testEventsMatch},
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
		{"Sweep_killed", testSweepKilled},
		{"Requests", testRequests},
		{"Servers", testServers},
		{"Sessions", testSessions},
		{"Version", testVersion},
		{"Tenants", testTenants},
		{"Cancelled", testCancelled},
		{"Closed", testClosed},
		{"Log", testLog},
		{"Log_tenants", testLogTenants},
		{"Log_find", testFind},
		{"Log_publish", testPublish},
		{"Log_publishRejects", testPublishRejects},
		{"Log_publishContenders", testPublishContenders},
		{"Log_tiles", testTiles},
		{"Log_retire", testRetire},
		{"Log_retired", testRetired},
		{"Log_retireAlive", testRetireAlive},
		{"Text_hostile", testHostileText},
		{"Text_long", testLongText},
		{"Bytes_kept", testBytesKept},
	}
}
