package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", Short: "Look after the database: status, backup, restore, retention",
		Example: "  counterfoil store status\n  counterfoil store backup 2026-11-30.db",
	}
	cmd.AddCommand(a.storeStatusCommand(), a.storeCheckCommand(), a.storeBackupCommand(), a.storeRestoreCommand(), a.storeAcceptCommand(),
		a.storeRetainCommand())
	return cmd
}

// statusJSON is the state of the store as --json prints it.
type statusJSON struct {
	Store       string   `json:"store"`
	Audience    string   `json:"audience"`
	Writable    bool     `json:"writable"`
	Events      int64    `json:"events"`
	Published   int64    `json:"published"`
	Checkpoints string   `json:"checkpoints"` // the directory outside of the database
	Kept        int64    `json:"kept"`        // events under the checkpoint that is kept there
	Unsettled   int      `json:"unsettled"`   // uses of dead processes without a receipt
	Doubts      []string `json:"doubts"`
}

func (a *app) storeStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say where the records are and whether they are whole", Args: cobra.NoArgs,
		Long: `Writes to the database and reads it back, and compares its log with the checkpoint
that is kept outside of it. Exits with 1 unless both are well.`,
		Example: "  counterfoil store status --json",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error { return a.storeStatus(ctx, s) })
		}),
	}
}

func (a *app) storeStatus(ctx context.Context, s *state) error {
	j := statusJSON{Store: s.config.place.String(), Audience: s.keys.Audience(), Checkpoints: s.config.Checkpoints, Doubts: []string{}}
	faults := []error{s.store.Ready(ctx)}
	j.Writable = faults[0] == nil
	now, err := s.store.Log(ctx, tenant)
	if err != nil {
		return err
	}
	j.Events, j.Published = now.Size, now.Published
	kept, err := s.kept()
	if kept != nil {
		j.Kept = kept.Size()
	}
	guard := s.logs.Guard(ctx)
	faults = append(faults, err, guard)
	for _, err := range faults {
		if err != nil {
			j.Doubts = append(j.Doubts, err.Error())
		}
	}
	orphans, err := s.store.Orphans(ctx)
	if err != nil {
		return err
	}
	j.Unsettled = len(orphans)
	if err := a.printStatus(j); err != nil {
		return err
	}
	if guard != nil {
		return &guardError{guard}
	}
	return errors.Join(faults...)
}

func (a *app) printStatus(j statusJSON) error {
	if a.asJSON {
		return a.printJSON(j)
	}
	writable := "yes"
	if !j.Writable {
		writable = "NO"
	}
	fmt.Fprintf(a.out, "%-12s %s\n%-12s %s\n%-12s %s\n%-12s %d, published: %d\n%-12s %d events, in %s\n%-12s %d\n",
		"store", show.Plain(j.Store), "audience", show.Plain(j.Audience), "writable", writable, "events", j.Events, j.Published,
		"kept outside", j.Kept, show.Plain(j.Checkpoints), "unsettled", j.Unsettled)
	for _, d := range j.Doubts {
		fmt.Fprintf(a.out, "%-12s %s\n", "DOUBT", show.Plain(d))
	}
	return nil
}

func (a *app) storeCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Check the database's own structure, row by row", Args: cobra.NoArgs,
		Long: `Checks the database: its pages and indexes, and that its rows fit together. Prints a
line for each fault; exits with 1 if there is one. "audit verify" checks the log.`,
		Example: "  counterfoil store check",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error {
				faults, err := s.store.Check(ctx)
				if err != nil {
					return err
				}
				if a.asJSON {
					if faults == nil {
						faults = []string{}
					}
					err = a.printJSON(map[string]any{"faults": faults})
				} else {
					for _, f := range faults {
						fmt.Fprintln(a.out, show.Plain(f))
					}
				}
				if err != nil || len(faults) == 0 {
					return err
				}
				return &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: fmt.Sprintf("the database has %d faults", len(faults))}
			})
		}),
	}
}

func (a *app) storeBackupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "Copy the database while everything goes on", Args: cobra.ExactArgs(1),
		Long: `Copies the database, as it is at one moment, to a new file; for PostgreSQL by pg_dump,
in its own format. The keys are not in it: keep private.json and approver.json of the
state directory too, elsewhere.`,
		Example: "  counterfoil store backup /backup/2026-11-30.db",
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error {
				step, end := a.progress("pages")
				defer end()
				if err := s.backup(ctx, args[0], step); err != nil {
					return err
				}
				end()
				return a.done("backup", args[0])
			})
		}),
	}
}

func (s *state) backup(ctx context.Context, path string, step func(done, total int64)) error {
	if url := s.config.place.url; url != "" {
		return postgres.Backup(ctx, url, path)
	}
	db, ok := s.store.(*sqlite.Store)
	if !ok {
		return errors.New("this store can't be copied")
	}
	return db.Backup(ctx, path, step)
}

// done says what was made.
func (a *app) done(what, path string) error {
	if a.asJSON {
		return a.printJSON(map[string]string{what: path})
	}
	_, err := fmt.Fprintf(a.out, "%s: %s\n", what, show.Plain(path))
	return err
}

func (a *app) storeRestoreCommand() *cobra.Command {
	return &cobra.Command{
		Use: "restore FILE", Short: "Put a backup in the place of the database", Args: cobra.ExactArgs(1),
		Long: `Makes the SQLite database from a backup, after you have stopped every gateway and
moved the old file away. The next start refuses a backup that is older than the last
checkpoint kept outside, until you accept that: counterfoil store accept-restore.`,
		Example: "  counterfoil store restore /backup/2026-11-30.db",
		RunE: does(func(cmd *cobra.Command, args []string) error {
			dir, err := a.stateDirectory()
			if err != nil {
				return err
			}
			s := &state{dir: dir}
			if s.config, err = a.readConfig(dir); err != nil {
				return err
			}
			if s.config.place.url != "" {
				return errors.New("a PostgreSQL database is restored with its own tools: pg_restore --clean --if-exists; then counterfoil store status")
			}
			if s.keys, err = keystore.Open(dir, keystore.Options{Now: time.Now, Rand: rand.Reader}); err != nil {
				return err
			}
			if err := sqlite.Restore(cmd.Context(), args[0], s.config.place.file, s.sqliteOptions()); err != nil {
				return err
			}
			return a.done("restored", s.config.place.file)
		}),
	}
}

func (a *app) storeAcceptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept-restore", Short: "Go on from a database that was deliberately set back", Args: cobra.NoArgs,
		Long: `Accepts a database whose log is not what the last checkpoint kept outside says, after
you restored it deliberately. Every request and approval that it holds becomes void: some
may have been used since. The old checkpoints are kept aside (*.replaced): with them
anyone can show what is missing. Stop every gateway on this database first.`,
		Example: "  counterfoil store accept-restore",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error { return a.acceptRestore(ctx, s) })
		}),
	}
}

// causeRestored is why requests are void after a restore.
const causeRestored = "the database was restored from an older copy"

// acceptedJSON is a log that was accepted as it is.
type acceptedJSON struct {
	Log    string `json:"log"`
	Has    int64  `json:"has"`
	Should int64  `json:"should"`
	Void   int    `json:"void"` // requests
}

func (a *app) acceptRestore(ctx context.Context, s *state) error {
	if s.logs.Guard(ctx) == nil {
		if !a.asJSON {
			fmt.Fprintln(a.out, "there is nothing to accept: the log is as long as the last checkpoint kept outside says")
		}
		return nil
	}
	// First, so that a crash in between leaves a gate that still refuses to start.
	void, err := s.gate.VoidAll(ctx, tenant, causeRestored)
	if err != nil {
		return err
	}
	doubts, err := s.logs.Accept(ctx)
	if err != nil {
		return err
	}
	for _, d := range doubts {
		if a.asJSON {
			err = a.printJSON(acceptedJSON{d.Origin, d.Has, d.Should, void})
		} else {
			_, err = fmt.Fprintf(a.out, "accepted %s: it has %d events, and the checkpoint kept outside had %d; %d requests are void\n",
				show.Plain(filepath.Base(d.Origin)), d.Has, d.Should, void)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
