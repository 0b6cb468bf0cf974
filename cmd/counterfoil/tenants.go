package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// pageSize is how many records commands read at once.
const pageSize = 100

// eachPage shows all records of a list, which read returns the pages of: of up to pageSize records behind the one named. show
// returns a record's name.
func eachPage[T any](read func(after string) ([]T, error), show func(T) (name string, err error)) error {
	for after := ""; ; {
		page, err := read(after)
		if err != nil {
			return err
		}
		for _, x := range page {
			if after, err = show(x); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// operator is who runs commands on the state directory itself: whoever may read its keys governs all of it.
func operator(tenant string) (*identity.Principal, error) {
	rights, err := identity.ParseScopes([]string{string(identity.ScopeTenantAdmin), string(identity.ScopeSystemAdmin)})
	if err != nil {
		return nil, err
	}
	name := userName()
	return &identity.Principal{
		Tenant: tenant, Subject: name, Kind: identity.KindPerson, Owner: name, Scopes: rights, Credential: "state-directory",
	}, nil
}

// withServices opens the state and the services that govern its tenants.
func (a *app) withServices(ctx context.Context, f func(*state, *services) error) error {
	return a.with(ctx, func(s *state) error {
		x, err := s.services(s.directory(), "https://localhost", nil)
		if err != nil {
			return err
		}
		return f(s, x)
	})
}

// asOperator is withServices for a tenant that is there.
func (a *app) asOperator(ctx context.Context, tenant string, f func(*services, *identity.Principal) error) error {
	return a.withServices(ctx, func(_ *state, x *services) error {
		if _, err := x.tenants.Get(ctx, tenant); err != nil {
			return err
		}
		by, err := operator(tenant)
		if err != nil {
			return err
		}
		return f(x, by)
	})
}

// tenantJSON is a tenant as --json prints it.
type tenantJSON struct {
	ID      string           `json:"id"`
	Created time.Time        `json:"created"`
	Epoch   int64            `json:"epoch"`
	Tier    string           `json:"tier,omitzero"`
	MaxBody int64            `json:"maxBody,omitzero"`
	Deny    []string         `json:"deny,omitzero"`
	Ask     []string         `json:"ask,omitzero"`
	Frozen  []tenancy.Freeze `json:"frozen,omitzero"`
}

func (a *app) printTenant(t *tenancy.Tenant) error {
	if a.asJSON {
		return a.printJSON(tenantJSON{t.ID, t.Created, t.Epoch, t.Tier, t.MaxBody, t.Deny, t.Ask, t.Frozen})
	}
	frozen := ""
	for _, f := range t.Frozen {
		frozen += " frozen:" + strings.TrimSuffix(string(f.Kind)+"="+f.Name, "=")
	}
	_, err := fmt.Fprintf(a.out, "%s epoch %d%s\n", t.ID, t.Epoch, frozen)
	return err
}

func (a *app) tenantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tenant", Short: "Make, list and freeze the tenants of a server",
		Example: "  counterfoil tenant create acme\n  counterfoil tenant freeze acme tool=files.write_file",
	}
	cmd.AddCommand(a.tenantSetCommand(true), a.tenantSetCommand(false), a.tenantListCommand(), a.freezeCommand(true), a.freezeCommand(false))
	return cmd
}

func (a *app) tenantSetCommand(create bool) *cobra.Command {
	var set tenancy.Settings
	use, short := "configure ID", "Replace a tenant's settings"
	if create {
		use, short = "create ID", "Make a tenant"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withServices(ctx, func(_ *state, x *services) error {
				by, err := operator(args[0])
				if err != nil {
					return err
				}
				change := x.tenants.Configure
				if create {
					change = x.tenants.Create
				}
				t, err := change(ctx, by.Actor(), args[0], set)
				if err != nil {
					return err
				}
				return a.printTenant(t)
			})
		}),
	}
	cmd.Flags().StringVar(&set.Tier, "tier", "", "rate tier: free, standard, premium or unlimited (default: the server's)")
	cmd.Flags().Int64Var(&set.MaxBody, "max-body", 0, "how many bytes a request may have (default: the server's)")
	cmd.Flags().StringArrayVar(&set.Deny, "deny", nil, "a scope that nobody in it has; may be repeated")
	cmd.Flags().StringArrayVar(&set.Ask, "ask", nil, "a scope that takes a person's approval; may be repeated")
	return cmd
}

func (a *app) tenantListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tenants", Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withServices(ctx, func(_ *state, x *services) error {
				return eachPage(func(after string) ([]*tenancy.Tenant, error) { return x.tenants.List(ctx, after, pageSize) },
					func(t *tenancy.Tenant) (string, error) { return t.ID, a.printTenant(t) })
			})
		}),
	}
}

func (a *app) freezeCommand(freeze bool) *cobra.Command {
	use, short := "unfreeze ID TARGET", "Let something go on that another person froze"
	if freeze {
		use, short = "freeze ID TARGET", "Stop a tenant, an agent, an upstream or a tool at once"
	}
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(2),
		Long: short + `.

TARGET is tenant for all of it, or agent=agent:NAME, upstream=NAME or tool=NAME.`,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withServices(ctx, func(s *state, x *services) error {
				kind, name, _ := strings.Cut(args[1], "=")
				by, err := operator(args[0])
				if err != nil {
					return err
				}
				change := x.tenants.Unfreeze
				if freeze {
					change = x.tenants.Freeze
				}
				t, err := change(ctx, by.Actor(), args[0], tenancy.Target{Kind: tenancy.TargetKind(kind), Name: name})
				if err != nil {
					return err
				}
				return a.printTenant(t)
			})
		}),
	}
}

// tenantFlag is the tenant that a command is about.
func tenantFlag(cmd *cobra.Command, into *string) {
	cmd.PersistentFlags().StringVar(into, "tenant", "", "the tenant (required)")
}

func needTenant(tenant string) error {
	if tenant == "" {
		return errors.New("say --tenant ID")
	}
	return nil
}
