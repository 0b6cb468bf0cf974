package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console/show"
)

// receiptJSON is an execution as --json prints it.
type receiptJSON struct {
	ID        string    `json:"id"`
	Approval  string    `json:"approval,omitzero"`
	Upstream  string    `json:"upstream,omitzero"`
	Tool      string    `json:"tool"`
	Effect    string    `json:"effect,omitzero"`
	Outcome   string    `json:"outcome,omitzero"`
	StartedAt time.Time `json:"startedAt"`
}

func (a *app) receiptsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "receipts", Short: "List, show and export receipts",
		Example: "  counterfoil receipts export run-… > bundle.json\n  counterfoil-verify bundle.json --keys keys.json",
	}
	list := &cobra.Command{
		Use: "list", Short: "List what ran, newest first", Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(s *state) error {
				list, err := s.store.Executions(cmd.Context(), tenant, "", listLimit)
				if err != nil {
					return err
				}
				for _, e := range list {
					outcome := e.Outcome
					if outcome == "" {
						outcome = "running"
					}
					if a.asJSON {
						err = a.printJSON(receiptJSON{e.ID, e.Request, e.Upstream, e.Tool, string(e.Effect), e.Outcome, e.StartedAt})
					} else {
						_, err = fmt.Fprintf(a.out, "%s  %-13s %-11s %s  %s of %s\n", e.ID, outcome, e.Effect, e.StartedAt.Local().Format(timeFormat),
							show.Plain(e.Tool), show.Plain(e.Upstream))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	var redact bool
	export := &cobra.Command{
		Use: "export ID", Short: "Print a receipt's bundle, for counterfoil-verify", Args: cobra.ExactArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(s *state) error {
				b, err := s.gate.Bundle(cmd.Context(), tenant, args[0], redact)
				if err != nil {
					return err
				}
				_, err = a.out.Write(b)
				return err
			})
		}),
	}
	export.Flags().BoolVar(&redact, "redact", false, "leave the arguments out; their digest stays bound")
	showOne := &cobra.Command{
		Use: "show ID", Short: "Show one receipt, verified against this state's keys", Args: cobra.ExactArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(s *state) error {
				b, err := s.gate.Bundle(cmd.Context(), tenant, args[0], false)
				if err != nil {
					return err
				}
				ring, err := s.keys.Ring()
				if err != nil {
					return err
				}
				r, err := counterfoil.VerifyBundle(b, ring, time.Now())
				if err != nil {
					return err
				}
				return a.printReceipt(r)
			})
		}),
	}
	cmd.AddCommand(list, showOne, export)
	return cmd
}

func (a *app) printReceipt(r *counterfoil.Report) error {
	if a.asJSON {
		return a.printJSON(receiptJSON{ID: r.ExecutionID, Tool: r.Tool, Effect: string(r.Effect), Outcome: string(r.Outcome), StartedAt: r.ConsumedAt})
	}
	for _, l := range [][2]string{
		{"receipt", r.ExecutionID}, {"tool", r.Tool + " (" + string(r.Effect) + ")"}, {"arguments", string(r.Arguments)},
		{"proposed by", r.Actor}, {"approved by", fmt.Sprint(r.Approvers)}, {"reason", r.Reason},
		{"used at", r.ConsumedAt.Local().Format(timeFormat)}, {"completed at", r.CompletedAt.Local().Format(timeFormat)},
		{"outcome", string(r.Outcome)}, {"digest", r.ReceiptDigest.String()}, {"result", r.ResultDigest.String()},
	} {
		if l[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.out, "%-12s %s\n", l[0], show.Plain(l[1])); err != nil {
			return err
		}
	}
	return nil
}
