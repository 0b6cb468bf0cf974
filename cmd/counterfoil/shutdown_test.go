//go:build unix

package main

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"
)

// SIGTERM ends a gateway in good order and in good time, whoever is connected and whatever waits: the caller is answered,
// nothing is approved by it, and the log is published to its last event.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "hold: 60s")
			if store == "postgres" {
				f = onPostgres(t, "hold: 60s")
			}
			server, file := f.fake(t, "plain")
			s := f.open()
			c := f.connect(server...)
			codes := make(chan string, 1)
			go func() {
				_, code, _ := c.call(context.WithoutCancel(t.Context()), "append", map[string]any{"line": "x"})
				codes <- code
			}()
			id := f.awaitPending(s)
			for range 10 { // idle, and never saying a word
				conn, err := net.Dial("tcp", f.console)
				must(t, err)
				t.Cleanup(func() { _ = conn.Close() })
			}
			must(t, c.cmd.Process.Signal(syscall.SIGTERM))
			began := time.Now()
			<-codes
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = c.Wait()
			}()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("the gateway does not end")
			}
			_ = c.Close()
			if code := c.cmd.ProcessState.ExitCode(); code != 0 || time.Since(began) > 10*time.Second {
				t.Fatalf("exit %d after %v: %s", code, time.Since(began), c.stderr)
			}
			if effects(t, file) != 0 {
				t.Fatal("an effect")
			}
			if p, err := s.gate.Approval(t.Context(), tenant, id); err != nil || p.State != "cancelled" {
				t.Fatalf("%v %v", p.State, err)
			}
			now, err := s.store.Log(t.Context(), tenant)
			must(t, err)
			if now.Size == 0 || now.Published != now.Size {
				t.Fatalf("%d events, %d published", now.Size, now.Published)
			}
		})
	}
}
