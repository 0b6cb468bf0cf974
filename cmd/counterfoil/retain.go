package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

const (
	receiptsSuffix = ".receipts"
	retireAtOnce   = 1000
	leastAge       = time.Hour // what is younger is never retired: a clock that is behind may still add to it
)

func (a *app) storeRetainCommand() *cobra.Command {
	var day, export string
	cmd := &cobra.Command{
		Use: "retain --before DATE --export FILE", Short: "Export what is old, then drop its contents", Args: cobra.NoArgs,
		Long: `Exports the whole log to FILE and the receipts from before DATE to FILE.receipts (a
bundle a line), checks the export, and then drops the contents of events, documents and
receipts from before DATE. Uses, revocations and the hashes of the log stay: the log
still verifies, and no approval can be used again.`,
		Example: "  counterfoil store retain --before 2026-01-01 --export /archive/2025.jsonl",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			before, err := parseDay(day)
			if err != nil {
				return err
			}
			if export == "" {
				return errors.New("--export is missing: nothing is dropped that was not exported")
			}
			if before.After(time.Now().Add(-leastAge)) {
				return errors.New("--before must be at least an hour ago")
			}
			return a.with(ctx, func(s *state) error { return a.retain(ctx, s, before, export) })
		}),
	}
	cmd.Flags().StringVar(&day, "before", "", "a day in UTC (2026-01-01) or an instant (RFC 3339)")
	cmd.Flags().StringVar(&export, "export", "", "the file to make")
	return cmd
}

// retainedJSON is what retention did.
type retainedJSON struct {
	Export   string `json:"export"`
	Receipts int    `json:"receipts"`
	Events   int64  `json:"events"` // emptied
}

func (a *app) retain(ctx context.Context, s *state, before time.Time, path string) error {
	c, err := s.latest(ctx)
	if err != nil {
		return err
	}
	step, end := a.progress("exported")
	defer end()
	if err := newFile(path, func(w io.Writer) error {
		return translog.Export(ctx, w, translog.ExportParams{
			Store: s.store, Tenant: tenant, Audience: s.keys.Audience(), Checkpoint: c, Format: translog.FormatLines, Progress: step,
		})
	}); err != nil {
		return err
	}
	j := retainedJSON{Export: path}
	if err := newFile(path+receiptsSuffix, func(w io.Writer) (err error) {
		j.Receipts, err = s.exportReceipts(ctx, w, before)
		return err
	}); err != nil {
		return err
	}
	if err := s.checkExport(ctx, path); err != nil {
		return err
	}
	if err := filelock.SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	end()
	if j.Events, err = a.retire(ctx, s, before, c.Size()); err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(j)
	}
	_, err = fmt.Fprintf(a.out, "exported to %s and %s%s; dropped the contents of %d events and of what was done before %s\n",
		show.Plain(path), show.Plain(filepath.Base(path)), receiptsSuffix, j.Events, before.Format(time.RFC3339))
	return err
}

func (a *app) retire(ctx context.Context, s *state, before time.Time, total int64) (events int64, err error) {
	step, end := a.progress("dropped")
	defer end()
	for {
		n, err := s.store.Retire(ctx, tenant, before, time.Now(), retireAtOnce)
		events += int64(n)
		if err != nil || n == 0 {
			return events, err
		}
		step(events, total)
	}
}

// exportReceipts writes the bundles of the executions that began before an instant and have ended, the newest first.
func (s *state) exportReceipts(ctx context.Context, w io.Writer, before time.Time) (n int, err error) {
	for after := ""; ; {
		list, err := s.store.Executions(ctx, tenant, after, listLimit)
		if err != nil || len(list) == 0 {
			return n, err
		}
		for _, e := range list {
			after = e.ID
			if !e.StartedAt.Before(before) || e.Outcome == "" {
				continue
			}
			b, err := s.gate.Bundle(ctx, tenant, e.ID, false)
			if errors.Is(err, gateway.ErrRetired) {
				continue
			}
			if err != nil {
				return n, fmt.Errorf("the receipt of %s can't be exported: %w", e.ID, err)
			}
			if _, err := w.Write(append(b, '\n')); err != nil {
				return n, err
			}
			n++
		}
	}
}

// checkExport holds what was exported against the keys, before anything that is in it is dropped.
func (s *state) checkExport(ctx context.Context, path string) (err error) {
	f, err := os.Open(path) //nolint:gosec // it was made a moment ago
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	x, err := translog.OpenExport(f)
	if err != nil {
		return err
	}
	ring, err := s.logRing()
	if err != nil {
		return err
	}
	r, err := translog.Check{Tenant: tenant, Audience: s.keys.Audience(), Ring: ring, Checkpoints: [][]byte{x.Checkpoint}}.Run(ctx, x.Events())
	if err != nil {
		return err
	}
	if !r.OK() {
		return &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the export does not verify, and nothing was dropped: counterfoil audit verify says why"}
	}
	return nil
}
