package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// logPath is where the log is served: below it comes the log's id, and then what c2sp.org/tlog-tiles names.
const logPath = "/v1/audit/log/"

func (a *app) auditServeCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the log to monitors, as checkpoint and tiles", Args: cobra.NoArgs,
		Long: `Serves the log read-only on the loopback interface, in the form of C2SP tlog-tiles,
under ` + logPath + `ID/. Events hold pseudonyms and digests, no names and no
arguments; still, everybody on this machine can read them while this runs.`,
		Example: "  counterfoil audit serve --listen 127.0.0.1:7374",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := console.CheckLoopback(listen); err != nil {
				return err
			}
			return a.unguarded(ctx, func(s *state) error { return a.serveLog(ctx, s, listen) })
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7374", "the loopback address to serve at")
	return cmd
}

func (a *app) serveLog(ctx context.Context, s *state, listen string) error {
	if _, err := s.latest(ctx); err != nil {
		return err
	}
	id, err := translog.LogID(s.keys.Audience(), tenant)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return errors.Join(errors.New("the address is not TCP"), ln.Close())
	}
	if _, err := fmt.Fprintf(a.out, "http://%s%s%s/checkpoint\n", addr, logPath, id); err != nil {
		return errors.Join(err, ln.Close())
	}
	return serveUntil(ctx, console.NewServer(s.logHandler(addr.Port), s.log), ln)
}

// logHandler serves the log to who asks for it by an address of the loopback interface.
func (s *state) logHandler(port int) http.Handler {
	hosts := console.LoopbackHosts(port)
	mux := http.NewServeMux()
	mux.HandleFunc(logPath, func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(hosts[:], r.Host) {
			http.Error(w, "this log is served on the loopback interface only", http.StatusForbidden)
			return
		}
		s.logs.Serve(w, r, tenant, strings.TrimPrefix(r.URL.Path, logPath))
	})
	return mux
}

// serveUntil serves until ctx ends, and a little longer to those who are being answered.
func serveUntil(ctx context.Context, srv *http.Server, ln net.Listener) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err := srv.Shutdown(c)
		if err != nil {
			err = srv.Close() // who still reads then has had their time
		}
		stopped <- err
	})
	err := srv.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) {
		return <-stopped
	}
	stop()
	return err
}
