package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/internal/keystore"
)

const (
	consoleLock   = "console.lock"
	takeOverEvery = 500 * time.Millisecond
	stopTimeout   = 3 * time.Second
	codeLife      = 5 * time.Minute
	secretCode    = "code"
	secretSession = "session"
)

// serveConsole serves the reviewer's pages while this process holds their lock. Of all processes on one state directory
// one serves; when it ends another takes over. It returns when ctx ends and the pages are down.
func (s *state) serveConsole(ctx context.Context) {
	tick := time.NewTicker(takeOverEvery)
	defer tick.Stop()
	said := false
	for {
		lock, err := filelock.Try(filepath.Join(s.dir, consoleLock))
		if err == nil {
			err = errors.Join(s.holdConsole(ctx), lock.Release())
			if err != nil && ctx.Err() == nil && !said {
				s.log.LogAttrs(ctx, slog.LevelWarn, "the console can't be served", slog.String("address", s.config.Console), slog.String("error", err.Error()))
				said = true
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *state) holdConsole(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.config.Console)
	if err != nil {
		return err
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return errors.Join(errors.New("the console's address is not TCP"), ln.Close())
	}
	pages, err := console.New(console.Config{
		Service: &reviewer{s}, Sessions: sessions{s}, Port: addr.Port, Now: time.Now, Log: s.log,
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer pages.Close()
	return serveUntil(ctx, console.NewServer(pages, s.log), ln)
}

// reviewer is the gateway as the console sees it.
type reviewer struct{ s *state }

// An unlockedKey is the approver's key in the console's hands.
type unlockedKey struct{ signer counterfoil.Signer }

// Owner implements console.Key.
func (k unlockedKey) Owner() string { return k.signer.Public().Owner }

func signerOf(k console.Key) (counterfoil.Signer, error) {
	u, ok := k.(unlockedKey)
	if !ok {
		return nil, &counterfoil.Error{Code: counterfoil.CodeSignatureInvalid, Msg: "the key is locked"}
	}
	return u.signer, nil
}

// Approvals implements console.Service.
func (r *reviewer) Approvals(ctx context.Context, want, after string, limit int) (list []gateway.Approval, next string, err error) {
	pending := want == string(gateway.Pending)
	for len(list) < limit {
		state := gateway.State("")
		if pending {
			state = gateway.Pending
		}
		page, err := r.s.gate.Approvals(ctx, tenant, state, after, limit)
		if err != nil {
			return nil, "", err
		}
		for _, p := range page {
			after = p.ID
			if pending || p.State != gateway.Pending {
				list = append(list, p)
			}
			if len(list) == limit {
				return list, after, nil
			}
		}
		if len(page) < limit {
			return list, "", nil
		}
	}
	return list, after, nil
}

// Approval implements console.Service.
func (r *reviewer) Approval(ctx context.Context, id string) (gateway.Approval, error) {
	p, err := r.s.gate.Approval(ctx, tenant, id)
	return p, consoleError(err)
}

// Approve implements console.Service.
func (r *reviewer) Approve(ctx context.Context, id string, key console.Key, reason string) error {
	signer, err := signerOf(key)
	if err != nil {
		return err
	}
	return consoleError(r.s.gate.Approve(ctx, tenant, id, signer, reason))
}

// Deny implements console.Service.
func (r *reviewer) Deny(ctx context.Context, id string, key console.Key, reason string) error {
	signer, err := signerOf(key)
	if err != nil {
		return err
	}
	return consoleError(r.s.gate.Deny(ctx, tenant, id, signer, reason))
}

// consoleError gives the gateway's errors the names that the console knows.
func consoleError(err error) error {
	if errors.Is(err, gateway.ErrNotFound) {
		return console.ErrNotFound
	}
	if c, ok := errors.AsType[*gateway.ConflictError](err); ok {
		return &console.Conflict{State: c.State}
	}
	return err
}

// Upstreams implements console.Service.
func (r *reviewer) Upstreams(ctx context.Context) ([]console.Upstream, error) {
	views, err := r.s.gate.Servers(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([]console.Upstream, 0, len(views))
	for _, v := range views {
		u := console.Upstream{ID: v.ID, Name: v.Name, Identity: v.Identity, Digest: v.Digest, Status: serverStatus(v)}
		for _, t := range v.Tools {
			u.Tools = append(u.Tools, console.Tool{
				Name: t.Name, Status: toolStatus(t), Effect: string(t.Effect), Suggested: string(t.Suggested), Why: t.Why,
				Definition: t.Definition, DefinitionDigest: t.DefinitionDigest, Pinned: t.Pinned,
			})
		}
		out = append(out, u)
	}
	return out, nil
}

// serverStatus is the worst status of a server's tools.
func serverStatus(v gateway.ServerView) string {
	worst := "active"
	for _, t := range v.Tools {
		switch toolStatus(t) {
		case "quarantined":
			return "quarantined"
		case "unclassified":
			worst = "unclassified"
		}
	}
	return worst
}

func toolStatus(t gateway.ToolView) string {
	if t.Status == governance.StatusActive && !t.Classified {
		return "unclassified"
	}
	return string(t.Status)
}

// Classify implements console.Service.
func (r *reviewer) Classify(ctx context.Context, id string, effects map[string]string, digest string, key console.Key) error {
	signer, err := signerOf(key)
	if err != nil {
		return err
	}
	typed := make(map[string]counterfoil.Effect, len(effects))
	for tool, e := range effects {
		typed[tool] = counterfoil.Effect(e)
	}
	return consoleError(r.s.gate.Classify(ctx, tenant, id, digest, typed, signer))
}

// Receipts implements console.Service.
func (r *reviewer) Receipts(ctx context.Context, after string, limit int) (list []console.Receipt, next string, err error) {
	page, err := r.s.store.Executions(ctx, tenant, after, limit)
	if err != nil {
		return nil, "", err
	}
	for _, e := range page {
		list = append(list, console.Receipt{
			ID: e.ID, Approval: e.Request, UpstreamName: e.Upstream, Tool: e.Tool, Effect: string(e.Effect), Outcome: e.Outcome, At: e.StartedAt,
		})
		next = e.ID
	}
	if len(page) < limit {
		next = ""
	}
	return list, next, nil
}

// Receipt implements console.Service.
func (r *reviewer) Receipt(ctx context.Context, id string) ([]byte, error) {
	b, err := r.s.gate.Bundle(ctx, tenant, id, false)
	return b, consoleError(err)
}

// Unlock implements console.Service.
func (r *reviewer) Unlock(_ context.Context, passphrase string) (console.Key, error) {
	if !r.s.keys.Enrolled() {
		return nil, &counterfoil.Error{Code: counterfoil.CodeSignatureInvalid, Msg: "no approver is enrolled yet: run counterfoil setup in a terminal"}
	}
	signer, err := r.s.keys.Unlock([]byte(passphrase))
	if errors.Is(err, keystore.ErrWrongPassphrase) {
		return nil, console.ErrWrongPassphrase
	}
	if err != nil {
		return nil, err
	}
	return unlockedKey{signer}, nil
}

// Redeem implements console.Service.
func (r *reviewer) Redeem(ctx context.Context, code string) (bool, error) {
	sum := sha256.Sum256([]byte(code))
	return r.s.store.TakeSecret(ctx, secretCode, hex.EncodeToString(sum[:]), time.Now())
}

// sessions keeps the console's sessions in the store, so that they outlive the process that serves it.
type sessions struct{ s *state }

// Put implements console.Sessions.
func (x sessions) Put(ctx context.Context, hash [sha256.Size]byte, expires time.Time) error {
	return x.s.store.PutSecret(ctx, secretSession, hex.EncodeToString(hash[:]), expires)
}

// Has implements console.Sessions.
func (x sessions) Has(ctx context.Context, hash [sha256.Size]byte, now time.Time) (bool, error) {
	return x.s.store.HasSecret(ctx, secretSession, hex.EncodeToString(hash[:]), now)
}

// Delete implements console.Sessions.
func (x sessions) Delete(ctx context.Context, hash [sha256.Size]byte) error {
	_, err := x.s.store.TakeSecret(ctx, secretSession, hex.EncodeToString(hash[:]), time.Time{})
	return err
}

// signInLink makes a link that signs in once, within five minutes. It lets its user look; deciding needs the passphrase.
func (s *state) signInLink(ctx context.Context) (string, error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	code := base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(code))
	if err := s.store.PutSecret(ctx, secretCode, hex.EncodeToString(sum[:]), time.Now().Add(codeLife)); err != nil {
		return "", err
	}
	return "http://" + s.config.Console + "/login?code=" + code, nil
}

func (a *app) consoleCommand() *cobra.Command {
	var serve bool
	cmd := &cobra.Command{
		Use: "console", Short: "Print a link that signs in to the reviewer's pages", Args: cobra.NoArgs,
		Long: `Prints a link that signs in once, within five minutes. The pages are served by a
running wrap, or by this command with --serve.`,
		Example: "  counterfoil console --serve",
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.with(ctx, func(s *state) error {
				link, err := s.signInLink(ctx)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, link)
				if serve {
					return s.serveOnly(ctx)
				}
				if _, err := dial(ctx, s.config.Console); err != nil {
					fmt.Fprintf(a.err, "counterfoil: hint: nothing serves %s now; add --serve\n", s.config.Console)
				}
				return nil
			})
		}),
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "serve the pages until interrupted, if no other process does")
	return cmd
}

// serveOnly serves the pages and does the gateway's own work, without a server to wrap, until ctx ends.
func (s *state) serveOnly(ctx context.Context) error {
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	duty, err := s.serve(ctx, interrupt)
	if err != nil {
		return err
	}
	s.serveConsole(ctx)
	return duty.stop()
}

func dial(ctx context.Context, addr string) (ok bool, err error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	return true, c.Close()
}
