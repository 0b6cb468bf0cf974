package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// revoker is how a person revokes.
type revoker struct {
	compromised            bool
	reason, passphraseFile string
}

func (r *revoker) why() counterfoil.RevocationReason {
	if r.compromised {
		return counterfoil.RevokedCompromised
	}
	return counterfoil.RevokedSuperseded
}

// revocationJSON is a revocation as --json prints it.
type revocationJSON struct {
	Subject  string `json:"subject"`
	Why      string `json:"why"`
	Decision string `json:"decision"`
	At       string `json:"at"`
}

func (a *app) revokeCommand() *cobra.Command {
	var r revoker
	cmd := &cobra.Command{
		Use: "revoke approval|actor|key|policy NAME", Short: "End an approval's, an actor's, a key's or a policy's authority",
		Long: `Records your signed word that nothing is to run any more that rests on this:
an approval, by the id of its request; an actor that proposes or approves, by its
name; an approver's key, by its id; a policy or the rules under it, by its digest.
What ran before stands. It can't be taken back.`,
		Example: "  counterfoil revoke approval apr-…\n  counterfoil revoke actor agent:build --compromised",
		Args:    cobra.ExactArgs(2),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.with(ctx, func(s *state) error { return a.revoke(ctx, s, &r, args[0], args[1]) })
		}),
	}
	cmd.Flags().BoolVar(&r.compromised, "compromised", false, "somebody else may have had it, so that no time it signed can be believed (default: superseded)")
	cmd.Flags().StringVar(&r.reason, "reason", "", "why; it stands in the signed decision")
	passphraseFlag(cmd, &r.passphraseFile)
	return cmd
}

func (a *app) revoke(ctx context.Context, s *state, r *revoker, kind, name string) error {
	subject, err := revocable(kind, name)
	if err != nil {
		return err
	}
	key, err := a.unlock(s, r.passphraseFile)
	if err != nil {
		return err
	}
	var d *counterfoil.Decision
	if kind == "approval" {
		d, err = s.gate.RevokeApproval(ctx, tenant, name, r.why(), r.reason, key)
	} else {
		d, err = s.gate.Revoke(ctx, gateway.RevocationRequest{Tenant: tenant, Subject: subject, Why: r.why(), Reason: r.reason}, key)
	}
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(revocationJSON{
			Subject: d.Subject().String(), Why: string(d.Why()), Decision: d.Digest().String(), At: d.At().Format("2006-01-02T15:04:05.000Z"),
		})
	}
	fmt.Fprintf(a.out, "revoked %s %s: nothing that rests on it is run from now on\n", kind, name)
	return nil
}

// revocable says what a revocation of it would name. An approval's is found by its request.
func revocable(kind, name string) (counterfoil.Digest, error) {
	if err := counterfoil.CheckIdentity(name); err != nil {
		return counterfoil.Digest{}, err
	}
	switch kind {
	case "approval":
		return counterfoil.Digest{}, nil
	case "actor":
		if !strings.Contains(name, ":") {
			return counterfoil.Digest{}, errors.New("an actor is written kind:name, as in agent:build or person:ada")
		}
		return counterfoil.ActorSubject(name), nil
	case "key":
		return counterfoil.KeySubject(counterfoil.KeyID(name)), nil
	case "policy":
		return counterfoil.ParseDigest(name)
	default:
		return counterfoil.Digest{}, errors.New("this can't be revoked: approval, actor, key and policy can")
	}
}
