package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// migrate brings the schema to the current number, in one transaction, and checks whose it is. Replicas that start at the
// same time meet in the system's own unique indexes, or at the lock on the one row of store: one of them goes first, and the
// others look again.
func migrate(ctx context.Context, conn *pgx.Conn, schema string, o Options) error {
	for attempt := 0; ; attempt++ {
		err := migrateOnce(ctx, conn, schema, o)
		if attempt == retries || !collided(err) {
			return writeError(err)
		}
	}
}

// collided reports whether another process made the same thing at the same time: nothing was done.
func collided(err error) bool {
	switch sqlState(err) {
	case "23505", "42P06", "42P07", "42710", "42723":
		return true
	default:
		return passing(err)
	}
}

func migrateOnce(ctx context.Context, conn *pgx.Conn, schema string, o Options) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit there is nothing to roll back
	have, err := inspect(ctx, tx, schema, o)
	if err != nil {
		return err
	}
	steps := migrations()
	if have == len(steps) {
		return nil
	}
	if have == 0 {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
	}
	for _, step := range steps[have:] {
		if _, err := tx.Exec(ctx, step, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	if have == 0 {
		_, err = tx.Exec(ctx, `INSERT INTO store (id, schema, audience, created, probe) VALUES (1, $1, $2, $3, 0)`,
			len(steps), o.Audience, rowscan.Millis(o.Now()))
	} else {
		_, err = tx.Exec(ctx, `UPDATE store SET schema = $1 WHERE id = 1`, len(steps))
	}
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// inspect returns the number of the schema that is there, 0 for none at all. What is not ours, newer, or not whole is
// refused and left as it is.
func inspect(ctx context.Context, tx pgx.Tx, schema string, o Options) (int, error) {
	var objects, ours int
	err := tx.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE c.relname = 'store' AND c.relkind = 'r')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1`, schema).Scan(&objects, &ours)
	if err != nil {
		return 0, err
	}
	switch {
	case objects == 0:
		return 0, nil
	case ours == 0:
		return 0, fail(counterfoil.CodeIntegrityFailed, "the schema "+schema+" has tables of another program", nil)
	}
	var have int
	var audience string
	err = tx.QueryRow(ctx, `SELECT schema, audience FROM store WHERE id = 1 FOR UPDATE`).Scan(&have, &audience)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fail(counterfoil.CodeIntegrityFailed, "the database does not say whose it is; restore it", nil)
	case sqlState(err) == "42703":
		return 0, fail(counterfoil.CodeIntegrityFailed, "the schema "+schema+" has tables of another program", nil)
	case err != nil:
		return 0, err
	case have > len(migrations()):
		return 0, fail(counterfoil.CodeIntegrityFailed,
			fmt.Sprintf("the database has schema %d, which is newer than this program's %d; use the newer program", have, len(migrations())), nil)
	case have < 1:
		return 0, fail(counterfoil.CodeIntegrityFailed, "the database has no schema; restore it", nil)
	case audience != o.Audience:
		return 0, fail(counterfoil.CodeIntegrityFailed, "the database belongs to another audience", nil)
	}
	var missing bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM unnest($1::text[]) AS t WHERE to_regclass($2 || '.' || t) IS NULL)`,
		tables(), schema).Scan(&missing)
	if err == nil && missing {
		err = fail(counterfoil.CodeIntegrityFailed, "the database lacks tables; restore it", nil)
	}
	return have, err
}

// tables are what the current schema has; a step that adds one must add it here.
func tables() []string {
	return []string{
		"store", "logs", "events", "checkpoints", "tiles", "executions", "running", "receipts", "late", "policies", "counters", "once",
		"marks", "revocations", "requests", "waiters", "servers", "secrets", "processes", "versions",
		"revoked_credentials", "rates", "vault_names", "vault_values", "vault_keys",
		"api_keys", "key_subjects", "users", "refresh_families", "login_tallies", "bootstrap",
	}
}
