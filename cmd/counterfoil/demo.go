package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/sample"
)

func (a *app) sampleCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sample-server DIR", Short: "The bundled MCP server: notes in a folder", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			return sample.Serve(cmd.Context(), args[0], a.in, a.out)
		}),
	}
}

const demoTime = 20 * time.Second

func (a *app) demoCommand() *cobra.Command {
	var interactive bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch the gate at work, on a sample server in a temporary folder", Args: cobra.NoArgs,
		Example: "  counterfoil demo\n  counterfoil demo --interactive",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if !interactive {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, demoTime)
				defer cancel()
			}
			return a.demo(ctx, interactive)
		}),
	}
	cmd.Flags().BoolVar(&interactive, "interactive", false, "approve the write yourself, on the reviewer's pages")
	return cmd
}

// A stage is the demo under way.
type stage struct {
	a          *app
	dir, notes string
	s          *state
	agent      *agent
	pass       string
	self       string
	step       int
}

func (a *app) demo(ctx context.Context, interactive bool) (err error) {
	dir, err := os.MkdirTemp("", "counterfoil-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	st := &stage{a: a, dir: dir, notes: filepath.Join(dir, "notes"), self: self}
	if err := st.prepare(ctx, interactive); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.s.close()) }()
	defer func() { err = errors.Join(err, st.agent.close()) }()
	return st.play(ctx, interactive)
}

// prepare makes the state, the approver, the notes and the agent.
func (st *stage) prepare(ctx context.Context, interactive bool) error {
	st.a.stateDir = filepath.Join(st.dir, "state")
	for _, d := range []string{st.notes, st.a.stateDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(st.notes, "todo.txt"), []byte("water the plants\n"), 0o600); err != nil {
		return err
	}
	var lc net.ListenConfig
	free, err := lc.Listen(ctx, "tcp", "127.0.0.1:0") // only to learn of a free port
	if err != nil {
		return err
	}
	config := "console: " + free.Addr().String() + "\nhold: 1s\n"
	if err := errors.Join(free.Close(), os.WriteFile(filepath.Join(st.a.stateDir, configFile), []byte(config), 0o600)); err != nil {
		return err
	}
	if st.s, err = st.a.open(ctx); err != nil {
		return err
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	st.pass = hex.EncodeToString(b[:])
	if err := st.s.keys.Enrol([]byte(st.pass), "person:you"); err != nil {
		return err
	}
	argv := []string{st.self, "wrap", "--state-dir", st.a.stateDir}
	if !interactive {
		argv = append(argv, "--no-console")
	}
	argv = append(argv, "--", st.self, "sample-server", st.notes)
	st.agent, err = startAgent(ctx, argv, st.a.environment(), io.Discard)
	return err
}

// say prints one step.
func (st *stage) say(what, came string) {
	st.step++
	fmt.Fprintf(st.a.out, "%d. %-58s %s\n", st.step, what, came)
}

// play is the story: each step is one line, and the demo fails when one comes out otherwise than it should.
func (st *stage) play(ctx context.Context, interactive bool) error {
	text, err := st.agent.call("read_note", map[string]any{"path": "todo.txt"})
	if err != nil {
		return fmt.Errorf("the read was not allowed: %w", err)
	}
	st.say("the agent reads a note", "allowed by policy: "+strings.TrimSpace(text))

	if _, err = st.agent.call("read_note", map[string]any{"path": "../../etc/passwd"}); refusalCode(err) != string(gateway.DeniedByPolicy) && refusalCode(err) != string(gateway.InvalidParams) {
		return fmt.Errorf("the path escape was not refused: %w", err)
	}
	st.say("it tries to read ../../etc/passwd", "refused, and nobody was bothered")

	write := map[string]any{"path": "todo.txt", "text": "water the plants\nfeed the cat\n"}
	_, err = st.agent.call("write_note", write)
	pending, ok := errors.AsType[*agentError](err)
	if !ok || pending.Data.Code != string(gateway.ApprovalPending) {
		return fmt.Errorf("the write was not asked about: %w", err)
	}
	st.say("it wants to write the note", "waits for a person: "+pending.Data.ApprovalID)

	if err := st.approve(ctx, interactive, pending.Data.ApprovalID); err != nil {
		return err
	}
	if _, err = st.retry(ctx, write); err != nil {
		return fmt.Errorf("the approved write did not run: %w", err)
	}
	if b, err := os.ReadFile(filepath.Join(st.notes, "todo.txt")); err != nil || !strings.Contains(string(b), "feed the cat") {
		return errors.New("the approved write is not on disk")
	}
	st.say("it repeats the identical call", "runs once, exactly as approved")

	if _, err = st.agent.call("write_note", write); refusalCode(err) != string(gateway.ApprovalPending) {
		return fmt.Errorf("the replay was not stopped: %w", err)
	}
	st.say("it replays the approved call", "refused: that right is used up; a person is asked anew")

	changed := map[string]any{"path": "todo.txt", "text": "sell the cat\n"}
	if _, err = st.agent.call("write_note", changed); refusalCode(err) != string(gateway.ApprovalPending) {
		return fmt.Errorf("the changed call was not stopped: %w", err)
	}
	st.say("it changes one argument", "refused: nobody approved that")
	return st.verify(ctx)
}

func refusalCode(err error) string {
	if e, ok := errors.AsType[*agentError](err); ok {
		if e.Data.Code != "" {
			return e.Data.Code
		}
		return string(gateway.InvalidParams)
	}
	return ""
}

// approve decides as a person would: on the pages, or by the same signature here.
func (st *stage) approve(ctx context.Context, interactive bool, id string) error {
	if !interactive {
		key, err := st.s.keys.Unlock([]byte(st.pass))
		if err != nil {
			return err
		}
		if err := st.s.gate.Approve(ctx, tenant, id, key, "part of the demo"); err != nil {
			return err
		}
		st.say("you look at the exact bytes and approve", "signed with your key, sealed by a passphrase")
		return nil
	}
	link, err := st.s.signInLink(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(st.a.out, "\n   Your turn. Open %s\n   and approve the call; the passphrase of this demo is %s\n\n", link, st.pass)
	for {
		p, err := st.s.gate.Approval(ctx, tenant, id)
		switch {
		case err != nil:
			return err
		case p.State == gateway.Approved || p.State == gateway.Spent:
			st.say("you look at the exact bytes and approve", "signed with your key, sealed by a passphrase")
			return nil
		case p.State != gateway.Pending:
			return fmt.Errorf("the call is %s; the demo ends here", p.State)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchEvery):
		}
	}
}

// retry repeats the identical call until it is through.
func (st *stage) retry(ctx context.Context, args map[string]any) (string, error) {
	for {
		text, err := st.agent.call("write_note", args)
		if refusalCode(err) != string(gateway.ApprovalPending) {
			return text, err
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
}

// verify exports the receipt and has the auditor's program check it.
func (st *stage) verify(ctx context.Context) error {
	list, err := st.s.store.Executions(ctx, tenant, "", listLimit)
	if err != nil {
		return err
	}
	id := ""
	for _, e := range list {
		if e.Request != "" {
			id = e.ID
		}
	}
	bundle, err := st.s.gate.Bundle(ctx, tenant, id, false)
	if err != nil {
		return err
	}
	file := filepath.Join(st.dir, "bundle.json")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		return err
	}
	by, err := st.check(ctx, file, bundle)
	if err != nil {
		return fmt.Errorf("the receipt does not verify: %w", err)
	}
	st.say("an auditor checks the receipt offline", "verified by "+by)
	bundle[len(bundle)/2] ^= 1
	if ring, err := st.s.keys.Ring(); err != nil {
		return err
	} else if _, err := counterfoil.VerifyBundle(bundle, ring, time.Now()); err == nil {
		return errors.New("a forged receipt verified")
	}
	st.say("someone changes one byte of it", "does not verify")
	return nil
}

// check runs counterfoil-verify if it lies beside this program, else the same check in this process.
func (st *stage) check(ctx context.Context, file string, bundle []byte) (by string, err error) {
	name := "counterfoil-verify"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	verifier := filepath.Join(filepath.Dir(st.self), name)
	if exists(verifier) {
		out, err := exec.CommandContext(ctx, verifier, file, "--keys", st.s.publicKeys()).CombinedOutput() //nolint:gosec // our own
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return "counterfoil-verify, a program of its own", nil
	}
	ring, err := st.s.keys.Ring()
	if err != nil {
		return "", err
	}
	_, err = counterfoil.VerifyBundle(bundle, ring, time.Now())
	return "this program; counterfoil-verify is not beside it", err
}
