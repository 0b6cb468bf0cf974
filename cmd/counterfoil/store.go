package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// A store is the database, whichever it is.
type store interface {
	gateway.Store
	translog.Store
	tenancy.Store
	identity.Store
	credential.Store
	ratelimit.Store
	hooks.Store
	idempotency.Store
	vault.SecretStore
	vault.Records
	// Ready writes to the database and reads back what it wrote.
	Ready(ctx context.Context) error
	// Check looks for faults of the database itself, a line for each.
	Check(ctx context.Context) ([]string, error)
	Close() error
}

var (
	_ store = (*sqlite.Store)(nil)
	_ store = (*postgres.Store)(nil)
)

// openStore opens the database that the configuration names.
func (s *state) openStore(ctx context.Context) (store, error) {
	p := s.config.place
	if p.url != "" {
		db, err := postgres.Open(ctx, p.url, postgres.Options{
			Audience: s.keys.Audience(), Signer: s.keys.Ledger(), Names: s.keys.Pseudonyms(), Now: time.Now, Lease: s.config.lease, Logger: s.log,
		})
		if err != nil {
			return nil, &storeError{p, err}
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, p.file, s.sqliteOptions())
	if err != nil {
		return nil, &storeError{p, err}
	}
	return db, nil
}

func (s *state) sqliteOptions() sqlite.Options {
	return sqlite.Options{Audience: s.keys.Audience(), Signer: s.keys.Ledger(), Now: time.Now, Names: s.keys.Pseudonyms()}
}

// A storeError says which store could not be opened, without a password.
type storeError struct {
	place place
	err   error
}

func (e *storeError) Error() string { return "the store " + e.place.String() + ": " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// hint says what to do about it.
func (e *storeError) hint() string {
	switch counterfoil.CodeOf(e.err) { //nolint:exhaustive // the others need no hint
	case counterfoil.CodeInvalidInput:
		return "the store is named by --store, $" + storeVariable + " or store: in " + configFile
	case counterfoil.CodeIntegrityFailed:
		return "is it the right store? what to do about a damaged one is in docs/operations.md"
	case counterfoil.CodeUnavailable:
		if e.place.url != "" {
			return "is the server up, and does psql reach it with the same address? nothing was recorded"
		}
		return "is the disk full, or the file not writable? nothing was recorded"
	}
	return ""
}

const witnessTimeout = 10 * time.Second

// openLogs opens the transparency log over the store.
func (s *state) openLogs() (*translog.Logs, error) {
	keep, err := s.openKeep()
	if err != nil {
		return nil, err
	}
	ring, err := s.logRing()
	if err != nil {
		return nil, err
	}
	c := translog.Config{
		Store: s.store, Audience: s.keys.Audience(), Ring: ring, Signer: s.keys.Checkpoint(), Keep: keep, Logger: s.log,
		Client: &http.Client{Timeout: witnessTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	for _, w := range s.config.witnessed {
		c.Witnesses = append(c.Witnesses, translog.Witness{Name: w.key.Owner, URL: w.url})
	}
	return translog.New(c)
}

// openKeep opens the directory for checkpoints. The one in the state directory is made on first use; any other must be
// there: to make it would hide that a disk is missing.
func (s *state) openKeep() (*translog.Keep, error) {
	if dir := s.config.Checkpoints; dir == filepath.Join(s.dir, checkpointDir) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the directory for checkpoints can't be made", Err: err}
		}
	}
	return translog.NewKeep(s.config.Checkpoints)
}

// logRing returns the keys that the log is verified with: the gateway's own and the configured witnesses'.
func (s *state) logRing() (*counterfoil.KeyRing, error) {
	ring, err := s.keys.Ring()
	if err != nil {
		return nil, err
	}
	keys := ring.Keys()
	for _, w := range s.config.witnessed {
		keys = append(keys, w.key)
	}
	return counterfoil.NewKeyRing(keys...)
}

// guard is what must succeed before the first call: the store keeps what is written, its log is as long as the last checkpoint
// kept outside says, and the keys are those that it was sealed with.
func (s *state) guard(ctx context.Context) error {
	if err := s.store.Ready(ctx); err != nil {
		return &storeError{s.config.place, err}
	}
	if err := s.logs.Guard(ctx); err != nil {
		return &storeError{s.config.place, &guardError{err}}
	}
	return s.keys.Vault().Admit(ctx, s.store, time.Now())
}

// A guardError says that the database is not what the log's checkpoints say.
type guardError struct{ err error }

func (e *guardError) Error() string { return e.err.Error() }
func (e *guardError) Unwrap() error { return e.err }

// prover proves from the log, and publishes what it has gained first if that is needed: no other process may do so now.
type prover struct{ *translog.Logs }

// Prove implements gateway.Prover.
func (p prover) Prove(ctx context.Context, tenant string, events ...translog.Mention) (*counterfoil.Checkpoint, []counterfoil.Inclusion, error) {
	c, list, err := p.Logs.Prove(ctx, tenant, events...)
	if !errors.Is(err, translog.ErrNotLogged) {
		return c, list, err
	}
	if err := p.Publish(ctx); err != nil {
		return nil, nil, err
	}
	return p.Logs.Prove(ctx, tenant, events...)
}
