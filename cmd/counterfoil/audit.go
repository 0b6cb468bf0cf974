package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Verify and export the log of everything that was decided and done",
		Example: "  counterfoil audit verify\n  counterfoil audit export --out log.jsonl",
	}
	cmd.AddCommand(a.auditVerifyCommand(), a.auditExportCommand(), a.auditCheckpointCommand(), a.auditProofCommand(), a.auditServeCommand())
	return cmd
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use: "verify", Short: "Check every event, link and root of the log", Args: cobra.NoArgs,
		Long: `Checks every event of the log, in the database or in an export, against the signed
checkpoints: the newest in the database, the one kept outside of it, and those that
you give. Says what is missing, edited, reordered or forked; exits with 1 then.
With --file and --keys no state is needed: an auditor's check.`,
		Example: "  counterfoil audit verify --checkpoint last-week.checkpoint\n  counterfoil audit verify --file log.jsonl --keys keys.json",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if v.keys != "" {
				if v.file == "" {
					return errors.New("--keys goes with --file: the database has its keys beside it")
				}
				return a.verifyAlone(ctx, &v)
			}
			return a.unguarded(ctx, func(s *state) error { return a.verifyState(ctx, s, &v) })
		}),
	}
	cmd.Flags().StringVar(&v.file, "file", "", "check this export instead of the database")
	cmd.Flags().StringArrayVar(&v.checkpoints, "checkpoint", nil, "a checkpoint that you trust the log to continue; may be repeated")
	cmd.Flags().StringVar(&v.keys, "keys", "", "the public keys to trust (keys.json), with --file")
	return cmd
}

func (a *app) auditExportCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the log to a file", Args: cobra.NoArgs,
		Long: `Writes all events under the newest checkpoint: as JSON lines, which "audit verify"
and other programs can check, or as CSV for a spreadsheet.`,
		Example: "  counterfoil audit export --out log.jsonl",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error {
				c, err := s.latest(ctx)
				if err != nil {
					return err
				}
				step, end := a.progress("events")
				defer end()
				p := translog.ExportParams{
					Store: s.store, Tenant: tenant, Audience: s.keys.Audience(), Checkpoint: c, Format: translog.Format(format), Progress: step,
				}
				if out == "" {
					return translog.Export(ctx, a.out, p)
				}
				return newFile(out, func(w io.Writer) error { return translog.Export(ctx, w, p) })
			})
		}),
	}
	cmd.Flags().StringVar(&format, "format", string(translog.FormatLines), "jsonl or csv")
	cmd.Flags().StringVar(&out, "out", "", "the file to make; standard output without it")
	return cmd
}

// latest publishes what the log has gained and returns its newest checkpoint.
func (s *state) latest(ctx context.Context) (*counterfoil.Checkpoint, error) {
	if err := s.logs.Guard(ctx); err == nil { // a log in doubt is not signed anew, but may be looked at
		if err := s.logs.Publish(ctx); err != nil {
			return nil, err
		}
	}
	c, err := s.logs.Latest(ctx, tenant)
	if err == nil && c == nil {
		return nil, errors.New("the log has no checkpoint yet: nothing was ever logged")
	}
	return c, err
}

// newFile makes a file that only its owner can read, durably. What fails leaves none.
func newFile(path string, fill func(io.Writer) error) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the person names the file
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// checkpointJSON is a checkpoint as --json prints it.
type checkpointJSON struct {
	Origin string `json:"origin"`
	Size   int64  `json:"size"`
	Root   string `json:"root"`
	Key    string `json:"key"` // what others know the log's key by
	Note   string `json:"note"`
}

func (a *app) auditCheckpointCommand() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoint", Short: "Print the newest signed checkpoint", Args: cobra.NoArgs,
		Long: `Prints the newest checkpoint of the log, a signed note. Keep one somewhere else: with
it you can tell later whether the log still has everything that it had now.`,
		Example: "  counterfoil audit checkpoint > 2026-11-30.checkpoint",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error {
				c, err := s.latest(ctx)
				if err != nil {
					return err
				}
				if !a.asJSON {
					_, err = a.out.Write(c.Note())
					return err
				}
				key, err := counterfoil.VerifierKey(s.keys.Checkpoint().Public(), c.Origin())
				if err != nil {
					return err
				}
				root := c.Root()
				return a.printJSON(checkpointJSON{c.Origin(), c.Size(), hex.EncodeToString(root[:]), key, string(c.Note())})
			})
		}),
	}
}

// proofJSON is the proof of what the log says of an execution, as it stands in a bundle.
type proofJSON struct {
	Checkpoint string    `json:"checkpoint"`
	Completed  proofLeaf `json:"completed"`
	Started    proofLeaf `json:"started"`
}

type proofLeaf struct {
	Event jsontext.Value `json:"event"`
	Index int64          `json:"index"`
	Path  [][]byte       `json:"path"`
}

func leafJSON(i counterfoil.Inclusion) proofLeaf {
	leaf := proofLeaf{Event: i.Event, Index: i.Index, Path: [][]byte{}}
	for _, h := range i.Path {
		leaf.Path = append(leaf.Path, h[:])
	}
	return leaf
}

func (a *app) auditProofCommand() *cobra.Command {
	return &cobra.Command{
		Use: "proof EXECUTION", Short: "Print the proof that an execution is in the log", Args: cobra.ExactArgs(1),
		Long: `Prints the started and the completed event of an execution with their audit paths
and the checkpoint that they lead to, as JSON. "receipts export" has it in the bundle.`,
		Example: "  counterfoil audit proof run-…",
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.unguarded(ctx, func(s *state) error {
				if _, err := s.store.Execution(ctx, tenant, args[0]); err != nil {
					return err
				}
				if _, err := s.latest(ctx); err != nil {
					return err
				}
				c, list, err := s.logs.Prove(ctx, tenant, translog.Mention{About: args[0], Phase: counterfoil.PhaseStarted},
					translog.Mention{About: args[0], Phase: counterfoil.PhaseCompleted})
				if err != nil || len(list) != 2 {
					return err
				}
				return a.printJSON(proofJSON{string(c.Note()), leafJSON(list[1]), leafJSON(list[0])})
			})
		}),
	}
}

// parseDay reads a day or an instant; a day is its beginning in UTC.
func parseDay(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is no day (2026-11-30) and no instant (2026-11-30T12:00:00Z)", text)
	}
	return t, nil
}
