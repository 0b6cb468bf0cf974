package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

func (a *app) quickstartCommand() *cobra.Command {
	return &cobra.Command{
		Use: "quickstart", Short: "Start the pages with a first call waiting, on a sample server", Args: cobra.NoArgs,
		Long: `Makes the state on first use, starts the reviewer's pages and a sample tool server
behind the gate, and plays one agent call, so that there is a first call to decide.
Runs until interrupted.`,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.with(ctx, func(s *state) error { return a.quickstart(ctx, s) })
		}),
	}
}

func (a *app) quickstart(ctx context.Context, s *state) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	passphrase, err := a.firstApprover(s)
	if err != nil {
		return err
	}
	notes := filepath.Join(s.dir, "sample-notes")
	if err := os.MkdirAll(notes, 0o700); err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	work.Go(func() { served <- s.serveOnly(ctx) })

	ag, err := startAgent(ctx, []string{self, "wrap", "--state-dir", s.dir, "--hold", "1s", "--no-console", "--", self, "sample-server", notes}, a.environment(), a.err)
	if err != nil {
		return err
	}
	call := map[string]any{"path": "hello.txt", "text": "written by an agent, approved by a person\n"}
	_, err = ag.call("write_note", call)
	pending, ok := errors.AsType[*agentError](err)
	if !ok || pending.Data.Code != string(gateway.ApprovalPending) {
		return errors.Join(fmt.Errorf("the first call was not asked about: %w", err), ag.close())
	}
	link, err := s.signInLink(ctx)
	if err != nil {
		return errors.Join(err, ag.close())
	}
	a.explain(s, self, link, passphrase, pending.Data.ApprovalID)
	work.Go(func() { a.follow(ctx, s, ag, call, pending.Data.ApprovalID) })
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return nil
	}
}

// firstApprover enrols an approver on first use: with a passphrase that the person types, or without a terminal with one
// that is left in a file. It returns where to find the passphrase, in words.
func (a *app) firstApprover(s *state) (string, error) {
	file := filepath.Join(s.dir, "sample-passphrase")
	switch {
	case s.keys.Enrolled() && exists(file):
		return "in " + file, nil
	case s.keys.Enrolled():
		return "the one you chose", nil
	}
	owner := "person:" + userName()
	pass, err := a.passphrase("", "Choose a passphrase for approving (8 characters or more): ", true)
	if err == nil {
		return "the one you just chose", s.keys.Enrol(pass, owner)
	}
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	made := hex.EncodeToString(b[:])
	if err := s.keys.Enrol([]byte(made), owner); err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(made+"\n"), 0o600); err != nil {
		return "", err
	}
	return "in " + file + " (to choose your own: counterfoil setup --replace)", nil
}

func (a *app) explain(s *state, self, link, passphrase, id string) {
	also := ""
	if a.storeURL != "" {
		also = "Each of these commands needs the store too: $" + storeVariable + ", as it is now.\n"
	}
	fmt.Fprintf(a.out, `
A sample agent wants to write a note. Nothing is written until you say so.

  1. Open the reviewer's pages (this link signs in once, within five minutes):
       %s
     or look and decide here, in another terminal:
       %s approvals show %s --state-dir %s
     Passphrase: %s
  2. When you approve, the agent's call runs once and its receipt is printed here.
  3. Put the gate before a tool server of yours, in your agent's MCP configuration:
       "command": "%s",
       "args": ["wrap", "--state-dir", "%s", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "/path/to/folder"]

Another link: %s console --state-dir %s
%sTo stop: Ctrl-C.
`, link, self, id, s.dir, passphrase, self, s.dir, self, s.dir, also)
}

// follow repeats the call as an agent would until it is decided, and says what came of it.
func (a *app) follow(ctx context.Context, s *state, ag *agent, call map[string]any, id string) {
	defer func() { _ = ag.close() }() // the server is stopped; how it ended says nothing
	for ctx.Err() == nil {
		_, err := ag.call("write_note", call)
		switch {
		case err == nil:
			p, err := s.gate.Approval(ctx, tenant, id)
			if err == nil {
				fmt.Fprintf(a.out, "\nApproved and done. Receipt %s; to prove it to anyone:\n  counterfoil receipts export %s --state-dir %s > bundle.json\n  counterfoil-verify bundle.json --keys %s\n",
					p.Receipt, p.Receipt, s.dir, s.publicKeys())
			}
			return
		case refusalCode(err) != string(gateway.ApprovalPending):
			if ctx.Err() == nil {
				fmt.Fprintf(a.out, "\nThe call ended without effect: %v\n", err)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
