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
	"sync"
	"time"

	"github.com/spf13/cobra"

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
			return a.withRules(ctx, w, func(s *state) error {
				if !cmd.Flags().Changed("hold") {
					w.hold = s.config.hold
				}
				return a.wrap(ctx, s, w, args)
			})
		}),
	}
	cmd.Flags().DurationVar(&w.hold, "hold", 50*time.Second, "how long a call waits before the agent is told to come back")
	cmd.Flags().Int64Var(&w.maxCalls, "max-calls", 0, "how many calls this run may make (default: the configuration's)")
	cmd.Flags().BoolVar(&w.noConsole, "no-console", false, "leave the reviewer's pages to other processes")
	cmd.Flags().StringArrayVar(&w.deny, "deny", nil, "deny tools of this name (* stands for any characters); may be repeated")
	cmd.Flags().StringArrayVar(&w.ask, "ask", nil, "ask before tools of this name; may be repeated")
	return cmd
}

// withRules opens the state with the flags' rules added to the configuration's. Flags can only make it stricter.
func (a *app) withRules(ctx context.Context, w wrapFlags, f func(*state) error) error {
	if w.hold < 0 || w.hold > 10*time.Minute {
		return errors.New("--hold must be from 0 to 10m")
	}
	a.tighten = func(set *settings) error {
		for _, t := range w.deny {
			set.Rules = append(set.Rules, rule{t, "deny"})
		}
		for _, t := range w.ask {
			set.Rules = append(set.Rules, rule{t, "ask"})
		}
		if w.maxCalls < 0 || w.maxCalls > set.MaxCalls {
			return fmt.Errorf("--max-calls must be from 1 to the configuration's %d", set.MaxCalls)
		}
		if w.maxCalls > 0 {
			set.MaxCalls = w.maxCalls
		}
		return nil
	}
	return a.with(ctx, f)
}

func (a *app) wrap(ctx context.Context, s *state, w wrapFlags, argv []string) (err error) {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	identity, err := governance.Identity(argv, dir, nil)
	if err != nil {
		return err
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop() // the gateway's own work ends after the last call

	ready, served := make(chan struct{}), make(chan error, 1)
	work.Go(func() { served <- s.gate.Serve(own, func() { close(ready) }) })
	select {
	case <-ready:
	case err := <-served:
		return err
	}
	if !w.noConsole {
		work.Go(func() { s.serveConsole(own) })
	}
	conn, err := a.startUpstream(own, s, argv, dir)
	if err != nil {
		return err
	}
	err = mcpserver.Serve(ctx, mcpserver.Options{
		In: a.in, Out: a.out, Gate: s.gate, Conn: conn, Tenant: tenant, Principal: agentPrincipal, Run: "wrap-" + hex.EncodeToString(b[:]),
		Name: filepath.Base(argv[0]) + " " + strings.Join(argv[1:], " "), Identity: identity, Hold: w.hold,
		Drain: s.gate.Grace + time.Second, Now: time.Now, Logger: s.log,
	})
	if errors.Is(err, context.Canceled) {
		return nil // interrupted: an orderly end
	}
	return err
}

func (a *app) startUpstream(ctx context.Context, s *state, argv []string, dir string) (*upstream.Conn, error) {
	o := upstream.Options{Argv: argv, Dir: dir, Stderr: a.err, Logger: s.log}
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
