package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func (a *app) userCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "user", Short: "Make, list and disable the people of a tenant",
		Example: "  counterfoil user create --tenant acme ada --scope approvals:decide --password-file FILE",
	}
	tenantFlag(cmd, &tenant)
	var scopes, groups []string
	var file string
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a person who can log in", Args: cobra.ExactArgs(1),
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, args []string) error {
			password, err := a.passphrase(file, "New password: ", true)
			if err != nil {
				return err
			}
			u, err := x.users.Create(cmd.Context(), by, credential.NewUser{
				Name: args[0], Password: credential.NewSecret(string(password)), Scopes: scopes, Groups: groups,
			})
			if err != nil {
				return err
			}
			return a.printUser(u)
		}),
	}
	create.Flags().StringArrayVar(&scopes, "scope", nil, "a scope, as tools:read or approvals:*; may be repeated")
	create.Flags().StringArrayVar(&groups, "group", nil, "a group of approvers; may be repeated")
	create.Flags().StringVar(&file, "password-file", "", "read the password from this file (- for standard input) instead of asking")
	list := &cobra.Command{
		Use: "list", Short: "List them", Args: cobra.NoArgs,
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, _ []string) error {
			return eachPage(func(after string) ([]credential.User, error) { return x.users.List(cmd.Context(), by, after, pageSize) },
				func(u credential.User) (string, error) { return u.Name, a.printUser(&u) })
		}),
	}
	able := func(use, short string, disabled bool) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1),
			RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, args []string) error {
				u, err := x.users.SetDisabled(cmd.Context(), by, args[0], disabled)
				if err != nil {
					return err
				}
				return a.printUser(u)
			}),
		}
	}
	cmd.AddCommand(create, list, able("disable", "Let nobody in under this name, and end what was issued to it", true), able("enable", "Let them in again", false))
	return cmd
}

// governs makes the body of a command that is about one tenant.
func (a *app) governs(tenant *string, f func(*services, *identity.Principal, *cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return does(func(cmd *cobra.Command, args []string) error {
		if err := needTenant(*tenant); err != nil {
			return err
		}
		return a.asOperator(cmd.Context(), *tenant, func(x *services, by *identity.Principal) error { return f(x, by, cmd, args) })
	})
}

type userJSON struct {
	Tenant   string    `json:"tenant"`
	Name     string    `json:"name"`
	Scopes   []string  `json:"scopes"`
	Groups   []string  `json:"groups,omitzero"`
	Disabled bool      `json:"disabled,omitzero"`
	Created  time.Time `json:"created"`
}

func (a *app) printUser(u *credential.User) error {
	if a.asJSON {
		return a.printJSON(userJSON{u.Tenant, u.Name, u.Scopes, u.Groups, u.Disabled, u.Created})
	}
	state := ""
	if u.Disabled {
		state = " disabled"
	}
	_, err := fmt.Fprintf(a.out, "%s %s%s\n", u.Name, strings.Join(u.Scopes, ","), state)
	return err
}

type keyJSON struct {
	ID       string    `json:"id"`
	Tenant   string    `json:"tenant"`
	Subject  string    `json:"subject"`
	Kind     string    `json:"kind"`
	Owner    string    `json:"owner"`
	Scopes   []string  `json:"scopes"`
	Label    string    `json:"label,omitzero"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
	LastUsed time.Time `json:"lastUsed,omitzero"`
	Key      string    `json:"key,omitzero"` // once, when it is made
}

func (a *app) printKey(k *credential.Key, secret string) error {
	if a.asJSON {
		return a.printJSON(keyJSON{k.ID, k.Tenant, k.Subject, string(k.Kind), k.Owner, k.Scopes, k.Label, k.Created, k.Expires, k.LastUsed, secret})
	}
	end := "never ends"
	if !k.Expires.IsZero() {
		end = "until " + k.Expires.Format(timeFormat)
	}
	if _, err := fmt.Fprintf(a.out, "%s %s:%s %s %s\n", k.ID, k.Kind, k.Subject, strings.Join(k.Scopes, ","), end); err != nil || secret == "" {
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s\n", secret) // it is shown this once and kept nowhere
	return err
}

func (a *app) keyCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "key", Short: "Make, list and revoke the API keys of a tenant",
		Example: "  counterfoil key create --tenant acme --subject build --kind agent --scope tools:* --for 720h",
	}
	tenantFlag(cmd, &tenant)
	m := credential.Mint{}
	var kind string
	create := &cobra.Command{
		Use: "create", Short: "Make a key, and show it this once", Args: cobra.NoArgs,
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, _ []string) error {
			m.Kind = identity.Kind(kind)
			minted, err := x.keys.Mint(cmd.Context(), by, m)
			if err != nil {
				return err
			}
			return a.printKey(&minted.Key, minted.Secret.Reveal())
		}),
	}
	create.Flags().StringVar(&m.Subject, "subject", "", "whom it speaks for (required)")
	create.Flags().StringVar(&kind, "kind", "agent", "agent, service or person")
	create.Flags().StringArrayVar(&m.Scopes, "scope", nil, "a scope, as tools:execute; may be repeated")
	create.Flags().StringVar(&m.Label, "label", "", "what people know it by")
	create.Flags().DurationVar(&m.Life.For, "for", 0, "how long it lives, as 720h")
	create.Flags().BoolVar(&m.Life.Never, "never-ends", false, "it never ends by itself")
	list := &cobra.Command{
		Use: "list", Short: "List them, without what they are", Args: cobra.NoArgs,
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, _ []string) error {
			return eachPage(func(after string) ([]credential.Key, error) { return x.keys.List(cmd.Context(), by, after, pageSize) },
				func(k credential.Key) (string, error) { return k.ID, a.printKey(&k, "") })
		}),
	}
	revoke := &cobra.Command{
		Use: "revoke ID", Short: "End a key at once", Args: cobra.ExactArgs(1),
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, args []string) error {
			if err := x.keys.Revoke(cmd.Context(), by, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.out, "revoked %s\n", args[0])
			return err
		}),
	}
	cmd.AddCommand(create, list, revoke)
	return cmd
}

func (a *app) secretCommand() *cobra.Command {
	var tenant, file string
	cmd := &cobra.Command{
		Use: "secret", Short: "Keep, list and delete what upstreams are given and no agent sees",
		Example: "  counterfoil secret put --tenant acme crm --value-file FILE",
	}
	tenantFlag(cmd, &tenant)
	put := &cobra.Command{
		Use: "put NAME", Short: "Keep a secret, as a new version", Args: cobra.ExactArgs(1),
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, args []string) error {
			b, err := a.passphrase(file, "Secret: ", false)
			if err != nil {
				return err
			}
			v, err := vault.NewValue(b)
			if err != nil {
				return err
			}
			n, err := x.secrets.Put(cmd.Context(), by.Actor(), tenant, args[0], v, nil)
			if err != nil {
				return err
			}
			return a.printSecret(vault.Version{Name: args[0], Number: n, Created: time.Now()})
		}),
	}
	put.Flags().StringVar(&file, "value-file", "", "read it from this file's first line (- for standard input) instead of asking")
	list := &cobra.Command{
		Use: "list", Short: "List their names and versions, never what they are", Args: cobra.NoArgs,
		RunE: a.governs(&tenant, func(x *services, _ *identity.Principal, cmd *cobra.Command, _ []string) error {
			return eachPage(func(after string) ([]vault.Version, error) {
				return x.secrets.List(cmd.Context(), tenant, after, pageSize)
			},
				func(v vault.Version) (string, error) { return v.Name, a.printSecret(v) })
		}),
	}
	remove := &cobra.Command{
		Use: "delete NAME [VERSION]", Short: "Delete a secret, or one version of it", Args: cobra.RangeArgs(1, 2),
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, args []string) error {
			var version int64
			if len(args) == 2 {
				n, err := strconv.ParseInt(args[1], 10, 64)
				if err != nil || n < 1 {
					return fmt.Errorf("%q is no version", args[1])
				}
				version = n
			}
			return x.secrets.Delete(cmd.Context(), by.Actor(), tenant, args[0], version)
		}),
	}
	cmd.AddCommand(put, list, remove)
	return cmd
}

func (a *app) printSecret(v vault.Version) error {
	if a.asJSON {
		return a.printJSON(struct {
			Name    string    `json:"name"`
			Version int64     `json:"version"`
			Created time.Time `json:"created"`
		}{v.Name, v.Number, v.Created})
	}
	_, err := fmt.Fprintf(a.out, "%s version %d\n", v.Name, v.Number)
	return err
}

func (a *app) tokenCommand() *cobra.Command {
	var tenant string
	var subject bool
	cmd := &cobra.Command{Use: "token", Short: "Revoke access tokens"}
	tenantFlag(cmd, &tenant)
	revoke := &cobra.Command{
		Use: "revoke ID", Short: "End an access token before its time", Args: cobra.ExactArgs(1),
		RunE: a.governs(&tenant, func(x *services, by *identity.Principal, cmd *cobra.Command, args []string) error {
			end := x.auth.RevokeCredential
			if subject {
				end = x.auth.RevokeSubject
			}
			if err := end(cmd.Context(), by.Actor(), tenant, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.out, "revoked %s\n", args[0])
			return err
		}),
	}
	revoke.Flags().BoolVar(&subject, "subject", false, "ID is a subject: all that it was issued up to now")
	cmd.AddCommand(revoke)
	return cmd
}
