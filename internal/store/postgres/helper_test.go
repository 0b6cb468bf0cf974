package postgres_test

import (
	"context"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func deadline(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// lockHead holds the head of the test tenant's log until it is told otherwise.
func lockHead(t testing.TB, address string) (unlock func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	for _, s := range []string{`BEGIN`, `SELECT FROM counterfoil.logs WHERE tenant = '` + storetest.Tenant + `' FOR UPDATE`} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) }
}

func restore(t testing.TB, address, file string) {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), "pg_restore", "--no-owner", "--exit-on-error", "--dbname="+address, file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pg_restore: %v\n%s", err, out)
	}
}
