// Command counterfoil is the gate between AI agents and the tools they call: it puts a console, an approval and a signed
// receipt between a proposal and its effect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// The exit codes.
const (
	exitOK      = 0 // done
	exitRefused = 1 // refused or failed; nothing happened
	exitUsage   = 2 // wrong usage
	exitUnknown = 3 // something may have happened: look before repeating
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == superviseCommand {
		os.Exit(upstream.Supervise(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// An app is one run of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	stateDir string
	storeURL string
	asJSON   bool
	tighten  func(*settings) error // what a command's flags change in the configuration; nil for nothing
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "counterfoil: error: %s\n", show.Plain(err.Error()))
	failed, ok := errors.AsType[*failure](err)
	if !ok {
		fmt.Fprintln(stderr, "counterfoil: hint: counterfoil --help")
		return exitUsage
	}
	if h := hint(failed.err); h != "" {
		fmt.Fprintf(stderr, "counterfoil: hint: %s\n", h)
	}
	if errors.Is(err, counterfoil.CodeUnknownOutcome) || errors.Is(err, counterfoil.CodeReceiptFailed) {
		return exitUnknown
	}
	return exitRefused
}

// A failure is an error of a command that was called rightly. Whatever else cobra returns is wrong usage.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// does makes a command's body: its errors are failures, not usage.
func does(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd, args); err != nil {
			return &failure{err}
		}
		return nil
	}
}

// hint says what to do about an error that a person can do something about.
func hint(err error) string {
	db, ofStore := errors.AsType[*storeError](err)
	_, doubted := errors.AsType[*guardError](err)
	switch {
	case doubted:
		return "counterfoil store status says more; after a deliberate restore: counterfoil store accept-restore"
	case ofStore:
		return db.hint()
	case errors.Is(err, gateway.ErrNotFound):
		return "counterfoil approvals list --state all, counterfoil receipts list"
	case errors.Is(err, errNotEnrolled):
		return "counterfoil setup"
	case errors.Is(err, counterfoil.CodeUnavailable):
		return "is the disk full, or the state directory not writable? nothing was recorded"
	}
	return ""
}

// overview is what --help says first: the commands by what they are for, on one screen.
const overview = `The gate between AI agents and the tools they call.

Usage:
  counterfoil COMMAND [flags]      counterfoil COMMAND --help says more

  quickstart, demo                 a first look
  wrap, serve                      put the gate before a tool server, or before many over HTTP
  setup, console, approvals        enrol as the person who decides, and decide
  servers, revoke                  say what a server's tools do; end what was approved
  tenant, user, key, token         govern the tenants of a server, and who gets in
  secret, vault                    what upstreams are given and no agent sees; the keys for that
  receipts, audit                  what ran, and the proof of it
  store, config, version           where the records are; what is in force

Examples:
  counterfoil setup
  counterfoil wrap -- npx -y @modelcontextprotocol/server-filesystem ~/notes`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:          "counterfoil",
		Short:        "The gate between AI agents and the tools they call",
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", "", "state directory (default: $COUNTERFOIL_STATE, or the platform's)")
	root.PersistentFlags().StringVar(&a.storeURL, "store", "", "database URL, sqlite: or postgres: (default: $COUNTERFOIL_STORE, or the configuration's)")
	root.PersistentFlags().BoolVar(&a.asJSON, "json", false, "print JSON, one document a line")
	root.SetHelpCommand(&cobra.Command{Hidden: true}) // --help says it all
	helps := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd != root {
			helps(cmd, args)
			return
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nFlags:\n%s", overview, root.LocalFlags().FlagUsages())
	})
	root.AddCommand(a.setupCommand(), a.wrapCommand(), a.serveCommand(), a.consoleCommand(), a.approvalsCommand(), a.receiptsCommand(),
		a.tenantCommand(), a.userCommand(), a.keyCommand(), a.secretCommand(), a.tokenCommand(), a.serversCommand(), a.revokeCommand(), a.auditCommand(), a.storeCommand(), a.vaultCommand(), a.configCommand(), a.demoCommand(), a.quickstartCommand(), a.sampleCommand(), a.versionCommand())
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: does(func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.out, "counterfoil %s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}),
	}
}

// version is the program's, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
