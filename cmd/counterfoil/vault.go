package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil/internal/vault"
)

// encryptionVariable holds the vault's master keys where they are not to stand in the state directory: base64 or hex of 32 bytes
// each, oldest first, with commas between.
const encryptionVariable = "ENCRYPTION_KEY"

// masters are the vault's keys from the environment. A variable that is set and empty is an error: whoever set it meant one.
func masters() ([]vault.Key, error) {
	text, ok := os.LookupEnv(encryptionVariable)
	if !ok {
		return nil, nil
	}
	return vault.ParseKeys(text)
}

func (a *app) vaultCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "vault", Short: "Change the keys that records are sealed under",
		Long: `What is kept at rest is sealed under the newest key; older ones open what they
have sealed. To change keys: rotate, start every process again, rewrap, retire.`,
		Example: "  counterfoil vault rotate\n  counterfoil vault rewrap\n  counterfoil vault retire v-…",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "rotate", Short: "Add a key, which seals from the next start on", Args: cobra.NoArgs,
			RunE: does(func(cmd *cobra.Command, _ []string) error {
				return a.with(cmd.Context(), func(s *state) error {
					id, err := s.keys.RotateVault()
					if err != nil {
						return err
					}
					_, err = fmt.Fprintf(a.out, "added %s: start every process again, then counterfoil vault rewrap\n", id)
					return err
				})
			}),
		},
		&cobra.Command{
			Use: "rewrap", Short: "Seal again, under the newest key, what older ones have sealed", Args: cobra.NoArgs,
			RunE: does(func(cmd *cobra.Command, _ []string) error {
				return a.with(cmd.Context(), func(s *state) error {
					p, err := s.keys.Vault().Rewrap(cmd.Context(), s.store, vault.RewrapOptions{Report: func(p vault.Progress) {
						fmt.Fprintf(a.err, "counterfoil: looked at %d, sealed %d again\n", p.Looked, p.Rewrapped)
					}})
					if err != nil {
						return err
					}
					_, err = fmt.Fprintf(a.out, "looked at %d, sealed %d again, %d changed meanwhile\n", p.Looked, p.Rewrapped, p.Moved)
					return err
				})
			}),
		},
		&cobra.Command{
			Use: "retire ID", Short: "Drop an older key that seals nothing any more", Args: cobra.ExactArgs(1),
			RunE: does(func(cmd *cobra.Command, args []string) error {
				return a.with(cmd.Context(), func(s *state) error {
					if err := s.keys.Vault().Retire(cmd.Context(), s.store, args[0]); err != nil {
						return err
					}
					if err := s.keys.DropVaultKey(args[0]); err != nil {
						return err
					}
					_, err := fmt.Fprintf(a.out, "dropped %s\n", args[0])
					return err
				})
			}),
		},
	)
	return cmd
}
