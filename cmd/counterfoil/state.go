package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/scan"
)

// tenant is the one tenant of single mode.
const tenant = "local"

// A state is an open state directory: the keys, the database, the configuration and a gateway over them.
type state struct {
	dir    string
	config config
	keys   *keystore.Keystore
	store  store
	logs   *translog.Logs
	gate   *gateway.Gateway
	log    *slog.Logger
}

// stateDirectory returns where the state is kept: --state-dir, $COUNTERFOIL_STATE, or the platform's place for it.
func (a *app) stateDirectory() (string, error) {
	if a.stateDir != "" {
		return filepath.Abs(a.stateDir)
	}
	if dir := os.Getenv("COUNTERFOIL_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" && runtime.GOOS == "linux" {
		return filepath.Join(dir, "counterfoil"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no home directory; say --state-dir DIR: %w", err)
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "counterfoil"), nil
	case "windows":
		return filepath.Join(home, "AppData", "Local", "counterfoil"), nil
	default:
		return filepath.Join(home, ".local", "state", "counterfoil"), nil
	}
}

// environment is how this program hands its --store on to another run of itself: on a command line others would see it.
func (a *app) environment() []string {
	if a.storeURL == "" {
		return nil
	}
	return []string{storeVariable + "=" + a.storeURL}
}

// open opens the state directory, and makes it on first use.
func (a *app) open(ctx context.Context) (*state, error) {
	dir, err := a.stateDirectory()
	if err != nil {
		return nil, err
	}
	c, err := a.readConfig(dir)
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, dir, c, slog.LevelWarn, nil)
}

// openWith opens the state directory under a configuration. change, if not nil, changes that of the gateway.
func (a *app) openWith(ctx context.Context, dir string, c config, level slog.Level, change func(*state, *gateway.Config)) (s *state, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s = &state{dir: dir, config: c, log: slog.New(slog.NewJSONHandler(a.err, &slog.HandlerOptions{Level: level}))}
	if p, err := parsePlace(a.storeURL, dir); err == nil && p.secret() {
		fmt.Fprintln(a.err, "counterfoil: hint: a password on the command line is seen by every user of this machine; $"+storeVariable+" and "+configFile+" are not")
	}
	sealing, err := masters()
	if err != nil {
		return nil, err
	}
	if s.keys, err = keystore.Open(dir, keystore.Options{Now: time.Now, Rand: rand.Reader, Masters: sealing}); err != nil {
		return nil, err
	}
	if s.store, err = s.openStore(ctx); err != nil {
		return nil, err
	}
	if err := s.prepare(change); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	return s, nil
}

// prepare makes the log and the gateway over an open store.
func (s *state) prepare(change func(*state, *gateway.Config)) (err error) {

	if s.logs, err = s.openLogs(); err != nil {
		return err
	}
	c := gateway.DefaultConfig()
	c.Keys, c.Store, c.Log, c.Scanner, c.Rules = s.keys, s.store, prover{s.logs}, scan.New(), s.config.rules
	c.Now, c.Rand, c.Logger, c.Files, c.Guard = time.Now, rand.Reader, s.log, os.DirFS("/"), s.guard
	s.config.apply(&c)
	if s.config.place.url != "" {
		c.PollEvery = pollRemote
	}
	if change != nil {
		change(s, &c)
	}
	s.gate, err = gateway.New(c)
	return err
}

// pollRemote is how often waiting calls ask a database on another machine for news.
const pollRemote = 25 * time.Millisecond

const (
	databaseFile  = "counterfoil.db"
	configFile    = "config.yaml"
	checkpointDir = "checkpoints"
)

func (s *state) close() error { return s.store.Close() }

// with opens the state for one command that may add to the log, and publishes at the end what it has added.
func (a *app) with(ctx context.Context, f func(*state) error) error {
	return a.unguarded(ctx, func(s *state) error {
		if err := s.guard(ctx); err != nil {
			return err
		}
		defer s.publishOnce(ctx)
		return f(s)
	})
}

// unguarded opens the state for a command that looks at a database which may be damaged.
func (a *app) unguarded(ctx context.Context, f func(*state) error) (err error) {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return f(s)
}

func exists(path string) bool {
	_, err := os.Stat(path) //nolint:gosec // paths are the person's own, or made here
	return !errors.Is(err, fs.ErrNotExist)
}

// publicKeys is the path of the key ring that verifiers are given.
func (s *state) publicKeys() string { return filepath.Join(s.dir, keystore.PublicKeys) }
