package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// superviseCommand is how this program runs itself as the supervisor of a tool server.
const superviseCommand = "__supervise"

// agentPrincipal is who proposes, in single mode over stdio: whoever started wrap.
const agentPrincipal = "agent:stdio"

type wrapFlags struct {
	hold      time.Duration
	maxCalls  int64
	noConsole bool
	deny, ask []string

	argv     []string
	dir      string
	identity []byte
	server   counterfoil.Digest
	started  bool // calls may come
}

func (a *app) wrapCommand() *cobra.Command {
	var w wrapFlags
	cmd := &cobra.Command{
		Use: "wrap [flags] -- COMMAND [ARG…]", Short: "Put the gate before an MCP server over stdio",
		Long: `Runs COMMAND as an MCP server and stands between it and the agent that started
this program: reads pass, writes and destructive calls wait for a person.`,
		Example: "  counterfoil wrap -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() > 0 {
				return errors.New("wrap needs a command after --")
			}
			return nil
		},
		RunE: does(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := w.identify(args); err != nil {
				return err
			}
			a.tighten = w.tighten
			err := a.with(ctx, func(s *state) error {
				if !cmd.Flags().Changed("hold") {
					w.hold = s.config.hold
				}
				return a.wrap(ctx, s, &w)
			})
			if ctx.Err() != nil && !w.started {
				return nil // interrupted before there was anything to end
			}
			return err
		}),
	}
	cmd.Flags().DurationVar(&w.hold, "hold", 50*time.Second, "how long a call waits before the agent is told to come back")
	cmd.Flags().Int64Var(&w.maxCalls, "max-calls", 0, "how many calls this run may make (default: the configuration's)")
	cmd.Flags().BoolVar(&w.noConsole, "no-console", false, "leave the reviewer's pages to other processes")
	cmd.Flags().StringArrayVar(&w.deny, "deny", nil, "deny tools of this name (* stands for any characters); may be repeated")
	cmd.Flags().StringArrayVar(&w.ask, "ask", nil, "ask before tools of this name; may be repeated")
	return cmd
}

// identify says what is wrapped: the command, where it runs, and the document and digest that tell it from others.
func (w *wrapFlags) identify(argv []string) (err error) {
	w.argv = argv
	if w.dir, err = os.Getwd(); err != nil {
		return err
	}
	if w.identity, err = governance.Identity(argv, w.dir, nil); err != nil {
		return err
	}
	w.server, err = counterfoil.UpstreamDigest(w.identity)
	return err
}

// tighten puts the flags into the configuration. They can only make it stricter.
func (w *wrapFlags) tighten(set *settings) error {
	set.holdFor(w.server.String())
	for _, t := range w.deny {
		set.Rules = append(set.Rules, rule{Tool: t, Decision: "deny"})
	}
	for _, t := range w.ask {
		set.Rules = append(set.Rules, rule{Tool: t, Decision: "ask"})
	}
	if w.hold < 0 || w.hold > 10*time.Minute {
		return errors.New("--hold must be from 0 to 10m")
	}
	if w.maxCalls < 0 || w.maxCalls > set.MaxCalls {
		return fmt.Errorf("--max-calls must be from 1 to the configuration's %d", set.MaxCalls)
	}
	if w.maxCalls > 0 {
		set.MaxCalls = w.maxCalls
	}
	return nil
}

func (a *app) wrap(ctx context.Context, s *state, w *wrapFlags) (err error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	duty, err := s.serve(ctx, interrupt)
	if err != nil {
		return err
	}
	w.started = true
	defer func() { err = errors.Join(err, duty.stop()) }() // the gateway's own work ends after the last call
	if !w.noConsole {
		duty.work.Go(func() { s.serveConsole(duty.ctx) })
	}
	conn, err := a.startProgram(duty.ctx, s, w.argv, w.dir, nil)
	if err != nil {
		return err
	}
	err = mcpserver.Serve(ctx, mcpserver.Options{
		In: a.in, Out: a.out, Gate: s.gate, Conn: conn, Tenant: tenant, Principal: agentPrincipal, Run: "wrap-" + hex.EncodeToString(b[:]),
		Name: filepath.Base(w.argv[0]) + " " + strings.Join(w.argv[1:], " "), Identity: w.identity, Hold: w.hold,
		Drain: s.gate.Grace + time.Second, Now: time.Now, Logger: s.log,
	})
	if ctx.Err() != nil {
		return nil // interrupted: an orderly end, or the duty says why not
	}
	return err
}

// startProgram starts a tool server. env is its whole environment; nil hands on our own.
func (a *app) startProgram(ctx context.Context, s *state, argv []string, dir string, env []string) (*upstream.Conn, error) {
	o := upstream.Options{Argv: argv, Dir: dir, Env: env, Stderr: a.err, Logger: s.log}
	if upstream.Supervises() {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o.Supervisor = []string{self, superviseCommand}
	}
	p, err := upstream.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return upstream.NewConn(p, upstream.ConnOptions{Logger: s.log}), nil
}
