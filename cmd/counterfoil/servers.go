package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// serverJSON is a server as --json prints it.
type serverJSON struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Status string     `json:"status"`
	Digest string     `json:"digest"`
	Tools  []toolJSON `json:"tools"`
}

type toolJSON struct {
	Name      string `json:"name"`
	Status    string `json:"status"`
	Effect    string `json:"effect"`
	Suggested string `json:"suggested,omitzero"`
	Why       string `json:"why"`
	Digest    string `json:"digest"`
}

func (a *app) serversCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "servers", Short: "Look at the known tool servers and say what their tools do",
		Example: "  counterfoil servers list\n  counterfoil servers classify sha256:… --as-suggested",
	}
	list := &cobra.Command{
		Use: "list", Short: "List the servers and their tools", Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(s *state) error {
				views, err := s.gate.Servers(cmd.Context(), tenant)
				if err != nil {
					return err
				}
				for _, v := range views {
					if err := a.printServer(v); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	cmd.AddCommand(list, a.classifyCommand())
	return cmd
}

func (a *app) classifyCommand() *cobra.Command {
	var asSuggested bool
	var set []string
	var passphraseFile string
	cmd := &cobra.Command{
		Use: "classify SERVER", Short: "Decide once over all tools of a server", Args: cobra.ExactArgs(1),
		Long: `Says what each tool of a server does: read passes, mutation and its like ask,
destructive asks each time. It also accepts the tools' definitions as they are now.
A tool that is not named stays destructive. Your passphrase signs the decision.`,
		Example: "  counterfoil servers classify sha256:… --as-suggested --set drop_all=destructive",
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.with(ctx, func(s *state) error {
				v, err := findServer(cmd, s, args[0])
				if err != nil {
					return err
				}
				effects := map[string]counterfoil.Effect{}
				for _, t := range v.Tools {
					switch {
					case t.Classified:
						effects[t.Name] = t.Effect
					case asSuggested && t.Suggested != "":
						effects[t.Name] = t.Suggested
					}
				}
				for _, x := range set {
					tool, effect, ok := strings.Cut(x, "=")
					if !ok {
						return fmt.Errorf("--set wants TOOL=EFFECT, not %q", x)
					}
					effects[tool] = counterfoil.Effect(effect)
				}
				key, err := a.unlock(s, passphraseFile)
				if err != nil {
					return err
				}
				if err := s.gate.Classify(ctx, tenant, v.ID, v.Digest, effects, key); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "classified %d tools of %s\n", len(v.Tools), show.Plain(v.Name))
				return nil
			})
		}),
	}
	cmd.Flags().BoolVar(&asSuggested, "as-suggested", false, "take the suggested effects")
	cmd.Flags().StringArrayVar(&set, "set", nil, "TOOL=EFFECT, may be repeated")
	passphraseFlag(cmd, &passphraseFile)
	return cmd
}

func findServer(cmd *cobra.Command, s *state, id string) (gateway.ServerView, error) {
	views, err := s.gate.Servers(cmd.Context(), tenant)
	if err != nil {
		return gateway.ServerView{}, err
	}
	for _, v := range views {
		if v.ID == id {
			return v, nil
		}
	}
	return gateway.ServerView{}, gateway.ErrNotFound
}

func (a *app) printServer(v gateway.ServerView) error {
	if a.asJSON {
		j := serverJSON{ID: v.ID, Name: v.Name, Status: serverStatus(v), Digest: v.Digest, Tools: []toolJSON{}}
		for _, t := range v.Tools {
			j.Tools = append(j.Tools, toolJSON{t.Name, toolStatus(t), string(t.Effect), string(t.Suggested), t.Why, t.DefinitionDigest})
		}
		return a.printJSON(j)
	}
	fmt.Fprintf(a.out, "%s\n  %s, %s\n", v.ID, show.Plain(v.Name), serverStatus(v))
	for _, t := range v.Tools {
		suggestion := ""
		if t.Suggested != "" {
			suggestion = ", suggested " + string(t.Suggested)
		}
		fmt.Fprintf(a.out, "    %-28s %-12s %s%s (%s)\n", show.Plain(t.Name), toolStatus(t), t.Effect, suggestion, show.Plain(t.Why))
	}
	for _, d := range v.Dropped {
		fmt.Fprintf(a.out, "    can't be used: %s\n", show.Plain(d))
	}
	return nil
}
