package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

const (
	listLimit  = 100
	watchEvery = 300 * time.Millisecond
	timeFormat = "2006-01-02 15:04:05 MST"
)

// approvalJSON is an approval as --json prints it.
type approvalJSON struct {
	ID               string            `json:"id"`
	State            string            `json:"state"`
	Requester        string            `json:"requester"`
	Run              string            `json:"run,omitzero"`
	Upstream         string            `json:"upstream"`
	Method           string            `json:"method,omitzero"`
	Tool             string            `json:"tool"`
	Effect           string            `json:"effect"`
	Arguments        jsontext.Value    `json:"arguments,omitzero"`
	InputDigest      string            `json:"inputDigest,omitzero"`
	DryRunDigest     string            `json:"dryRunDigest,omitzero"`
	DefinitionDigest string            `json:"definitionDigest,omitzero"`
	Rule             string            `json:"rule,omitzero"`
	Findings         []gateway.Finding `json:"findings,omitzero"`
	CreatedAt        time.Time         `json:"createdAt"`
	ExpiresAt        time.Time         `json:"expiresAt"`
	DecidedBy        string            `json:"decidedBy,omitzero"`
	DecidedAt        time.Time         `json:"decidedAt,omitzero"`
	Reason           string            `json:"reason,omitzero"`
	Cause            string            `json:"cause,omitzero"`
	Receipt          string            `json:"receipt,omitzero"`
	Outcome          string            `json:"outcome,omitzero"`
}

func toJSON(p gateway.Approval) approvalJSON {
	return approvalJSON{
		ID: p.ID, State: string(p.State), Requester: p.Requester, Run: p.Run, Upstream: p.UpstreamName, Method: p.Method, Tool: p.Tool, Effect: p.Effect,
		Arguments: p.Arguments, InputDigest: p.InputDigest, DryRunDigest: p.DryRunDigest, DefinitionDigest: p.DefinitionDigest,
		Rule: p.Rule, Findings: p.Findings, CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt, DecidedBy: p.DecidedBy, DecidedAt: p.DecidedAt,
		Reason: p.Reason, Cause: p.VoidCause, Receipt: p.Receipt, Outcome: p.Outcome,
	}
}

func (a *app) approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "approvals", Short: "Look at pending calls and decide them",
		Example: "  counterfoil approvals list\n  counterfoil approvals approve apr-…",
	}
	var stateName string
	list := &cobra.Command{
		Use: "list", Short: "List the calls that wait for a person", Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(s *state) error { return a.listApprovals(cmd.Context(), s, stateName) })
		}),
	}
	list.Flags().StringVar(&stateName, "state", "pending", "pending, approved, denied, expired, cancelled, void, spent or all")
	watch := &cobra.Command{
		Use: "watch", Short: "Print calls as they begin to wait, until interrupted", Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(s *state) error { return a.watchApprovals(cmd.Context(), s) })
		}),
	}
	show := &cobra.Command{
		Use: "show ID", Short: "Show one call whole", Args: cobra.ExactArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(s *state) error {
				p, err := s.gate.Approval(cmd.Context(), tenant, args[0])
				if err != nil {
					return err
				}
				return a.printApproval(p)
			})
		}),
	}
	cmd.AddCommand(list, watch, show, a.decideCommand("approve", "Approve exactly this call, once"), a.decideCommand("deny", "Deny this call"))
	return cmd
}

func (a *app) decideCommand(verb, short string) *cobra.Command {
	var reason, passphraseFile string
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.with(ctx, func(s *state) error {
				p, err := s.gate.Approval(ctx, tenant, args[0])
				if err != nil {
					return err
				}
				if p.State != gateway.Pending {
					return &gateway.ConflictError{State: p.State}
				}
				if !a.asJSON {
					if err := a.printApproval(p); err != nil {
						return err
					}
				}
				key, err := a.unlock(s, passphraseFile)
				if err != nil {
					return err
				}
				decide, done := s.gate.Deny, "denied"
				if verb == "approve" {
					decide, done = s.gate.Approve, "approved: it runs when its caller, or the identical retry, takes it up"
				}
				if err := decide(ctx, tenant, p.ID, key, reason); err != nil {
					return err
				}
				if a.asJSON {
					p, err := s.gate.Approval(ctx, tenant, p.ID)
					if err != nil {
						return err
					}
					return a.printJSON(toJSON(p))
				}
				fmt.Fprintf(a.out, "%s %s\n", p.ID, done)
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the agent is told, and an approval's receipt shows it")
	passphraseFlag(cmd, &passphraseFile)
	return cmd
}

func (a *app) listApprovals(ctx context.Context, s *state, name string) error {
	if name == "all" {
		name = ""
	}
	list, err := s.gate.Approvals(ctx, tenant, gateway.State(name), "", listLimit)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.asJSON {
		fmt.Fprintln(a.out, "there is none")
		return nil
	}
	for _, p := range list {
		if err := a.printLine(p); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printLine(p gateway.Approval) error {
	if a.asJSON {
		return a.printJSON(toJSON(p))
	}
	_, err := fmt.Fprintf(a.out, "%s  %-9s %-11s %s of %s, by %s, until %s\n", p.ID, p.State, p.Effect, show.Plain(p.Tool),
		show.Plain(p.UpstreamName), show.Plain(p.Requester), p.ExpiresAt.Local().Format(timeFormat))
	return err
}

func (a *app) watchApprovals(ctx context.Context, s *state) error {
	seen := map[string]bool{}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		list, err := s.gate.Approvals(ctx, tenant, gateway.Pending, "", listLimit)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		live := map[string]bool{}
		for _, p := range list {
			live[p.ID] = true
			if !seen[p.ID] {
				if err := a.printLine(p); err != nil {
					return err
				}
			}
		}
		seen = live
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printApproval shows a request whole: nothing of the arguments is left out, and what can't be seen is made visible.
func (a *app) printApproval(p gateway.Approval) error {
	if a.asJSON {
		return a.printJSON(toJSON(p))
	}
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, show.Plain(value))
		}
	}
	line("id", p.ID)
	line("state", string(p.State))
	line("tool", p.Tool)
	line("effect", p.Effect)
	line("server", p.UpstreamName)
	line("requester", p.Requester)
	line("run", p.Run)
	line("asked by", p.Rule)
	for _, f := range p.Findings {
		line("finding", f.Severity+": "+f.Pattern+" at "+f.Pointer)
	}
	fmt.Fprintf(&b, "arguments    %d bytes\n", len(p.Arguments))
	for l := range strings.Lines(indented(p.Arguments)) {
		b.WriteString("    " + show.Plain(strings.TrimSuffix(l, "\n")) + "\n")
	}
	line("input", p.InputDigest)
	line("signs", p.DryRunDigest)
	line("created", p.CreatedAt.Local().Format(timeFormat))
	line("expires", p.ExpiresAt.Local().Format(timeFormat)+"; silence is denial")
	if p.DecidedBy != "" {
		line("decided", string(p.State)+" by "+p.DecidedBy+" at "+p.DecidedAt.Local().Format(timeFormat))
	}
	line("reason", p.Reason)
	line("cause", p.VoidCause)
	line("receipt", p.Receipt)
	line("outcome", p.Outcome)
	_, err := a.out.Write([]byte(b.String()))
	return err
}

// indented lays canonical JSON out over lines. Strings and numbers stay as they are.
func indented(canonical []byte) string {
	v := jsontext.Value(bytes.Clone(canonical))
	if err := v.Indent(jsontext.PreserveRawStrings(true), jsontext.WithIndent("  ")); err != nil {
		return string(canonical)
	}
	return string(v)
}
