package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/counterfoil/counterfoil"
)

const maxPassphrase = 1024

const errNotEnrolled = sentinel("no approver is enrolled yet")

type sentinel string

func (s sentinel) Error() string { return string(s) }

func (a *app) setupCommand() *cobra.Command {
	var name, passphraseFile string
	var replace bool
	var tenants []string
	cmd := &cobra.Command{
		Use: "setup", Short: "Enrol the person who approves", Args: cobra.NoArgs,
		Long: `Makes the approver's signing key and seals it under a passphrase. Every decision
is signed with it. The passphrase can't be recovered.`,
		Example: "  counterfoil setup --name ada",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(s *state) error {
				if name == "" {
					name = userName()
				}
				if s.keys.Enrolled() && !replace {
					return errors.New("an approver is enrolled already; --replace makes a new key")
				}
				pass, err := a.passphrase(passphraseFile, "New passphrase (8 characters or more): ", true)
				if err != nil {
					return err
				}
				if err := enrol(s, pass, "person:"+name, tenants, replace); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "enrolled person:%s\nstate: %s\npublic keys, for those who verify: %s\n", name, s.dir, s.publicKeys())
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "the approver's name (default: the user's)")
	passphraseFlag(cmd, &passphraseFile)
	cmd.Flags().StringArrayVar(&tenants, "tenant", nil, "a tenant of a server that they approve for; may be repeated (default: the one of wrap)")
	cmd.Flags().BoolVar(&replace, "replace", false, "make a new key; the old one stays valid for what it signed")
	return cmd
}

func userName() string {
	if u, err := user.Current(); err == nil && counterfoil.CheckIdentity(u.Username) == nil {
		return u.Username
	}
	return "me"
}

func passphraseFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "passphrase-file", "", "read the passphrase from this file (- for standard input) instead of asking")
}

// unlock opens the approver's key with the passphrase.
func (a *app) unlock(s *state, file string) (counterfoil.Signer, error) {
	if !s.keys.Enrolled() {
		return nil, errNotEnrolled
	}
	pass, err := a.passphrase(file, "Passphrase: ", false)
	if err != nil {
		return nil, err
	}
	return s.keys.Unlock(pass)
}

// passphrase reads a passphrase from a file's first line, or from the terminal without echo.
func (a *app) passphrase(file, prompt string, twice bool) ([]byte, error) {
	switch file {
	case "":
	case "-":
		return firstLine(a.in)
	default:
		f, err := os.Open(file) //nolint:gosec // the person names the file
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // opened for reading
		return firstLine(f)
	}
	tty, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) {
		return nil, errors.New("there is no terminal to ask for the passphrase; say --passphrase-file FILE")
	}
	pass, err := a.ask(tty, prompt)
	if err != nil || !twice {
		return pass, err
	}
	again, err := a.ask(tty, "Once more: ")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(pass, again) {
		return nil, errors.New("the two differ")
	}
	return pass, nil
}

func (a *app) ask(tty *os.File, prompt string) ([]byte, error) {
	fmt.Fprint(a.err, prompt)
	pass, err := term.ReadPassword(int(tty.Fd()))
	fmt.Fprintln(a.err)
	return pass, err
}

func firstLine(r io.Reader) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassphrase+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" || len(line) > maxPassphrase {
		return nil, errors.New("the passphrase file's first line must have 1 to 1024 bytes")
	}
	return []byte(line), nil
}

func enrol(s *state, pass []byte, owner string, tenants []string, replace bool) error {
	if replace && s.keys.Enrolled() {
		return s.keys.Replace(pass, owner, tenants...)
	}
	return s.keys.Enrol(pass, owner, tenants...)
}
