package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/governance"
)

// settings is config.yaml in the state directory. Every field may be left out; an unknown one is an error. Durations are
// written as in "50s" or "15m".
type settings struct {
	// Store is where the records are kept: "sqlite:" (a file in the state directory), sqlite:///ABSOLUTE/PATH, or
	// postgres://USER:PASSWORD@HOST/DATABASE?sslmode=verify-full for many gateways that share one database.
	// $COUNTERFOIL_STORE and --store come before it. A file with a password in it must be readable by its owner alone.
	Store string `json:"store"`
	// Checkpoints is a directory outside of the database that the newest checkpoint of the log is kept in, by its absolute
	// path; it must exist. Another disk, or a place that is backed up by itself, is best: a database that was set back is
	// detected by it. Without it that is the directory checkpoints in the state directory.
	Checkpoints string `json:"checkpoints"`
	// Witnesses are others' services that sign the log's checkpoints.
	Witnesses []witness `json:"witnesses"`
	// Lease is how long a gateway on PostgreSQL counts as alive without a sign of life, 1s to 10m. What one leaves unfinished
	// that dies is settled by another after that.
	Lease string `json:"lease"`
	// Console is where the reviewer's pages are served: a loopback address with a port.
	Console string `json:"console"`
	// Hold is how long a call waits for a person before the agent is told to come back. At most 10m.
	Hold string `json:"hold"`
	// RequestLife is how long a request waits for a person, 1m to 168h. Then it is denied by silence.
	RequestLife string `json:"requestLife"`
	// GrantLife is how long a person's approval can be used, 10s to 24h.
	GrantLife string `json:"grantLife"`
	// CoolDown is how long a denial stands for the identical call, up to 24h.
	CoolDown string `json:"coolDown"`
	// CallTimeout is how long a tool may take, up to 24h.
	CallTimeout string `json:"callTimeout"`
	// MaxCalls is how many calls one run of wrap may make, 1 to 1000000000.
	MaxCalls int64 `json:"maxCalls"`
	// MaxPending is how many calls may wait for a person at once, 1 to 100000.
	MaxPending int `json:"maxPending"`
	// Rules decide about tools by name, "*" standing for any run of characters: deny beats ask beats allow, whatever the
	// order. Without a rule reads pass, writes ask, destructive calls ask. No rule lets a destructive call pass unasked.
	Rules []rule `json:"rules"`
}

// A rule with a server (its id, from "counterfoil servers list") holds for that server alone. A rule that allows must have
// one: an allowance never follows a tool's name to another server.
type rule struct {
	Server   string `json:"server,omitzero"`
	Tool     string `json:"tool"`
	Decision string `json:"decision"` // deny, ask or allow
}

// holdFor leaves the rules that hold for a server.
func (s *settings) holdFor(server string) {
	s.Rules = slices.DeleteFunc(s.Rules, func(r rule) bool { return r.Server != "" && r.Server != server })
}

// config is settings, checked.
type config struct {
	settings
	hold, requestLife, grantLife, coolDown, callTimeout, lease time.Duration

	place     place
	witnessed []witnessed
	rules     *governance.Rules
}

func defaultSettings() settings {
	return settings{
		Store: "sqlite:", Witnesses: []witness{}, Lease: "30s",
		Console: "127.0.0.1:7373", Hold: "50s", RequestLife: "15m", GrantLife: "5m", CoolDown: "10m", CallTimeout: "10m",
		MaxCalls: 10_000, MaxPending: 100, Rules: []rule{},
	}
}

const maxConfig = 1 << 20

// readConfig reads the configuration of a state directory, puts the command's own settings over it and checks the whole. A
// file that is not there means the defaults.
func (a *app) readConfig(dir string) (config, error) {
	path := filepath.Join(dir, configFile)
	set := defaultSettings()
	if err := readSettings(path, &set); err != nil {
		return config{}, badConfig(path, err)
	}
	if _, err := checkConfig(set, dir); err != nil {
		return config{}, badConfig(path, err)
	}
	if p, err := parsePlace(set.Store, dir); err == nil && p.secret() {
		if err := private(path); err != nil {
			return config{}, badConfig(path, err)
		}
	}
	if text := os.Getenv(storeVariable); text != "" {
		set.Store = text
	}
	if a.storeURL != "" {
		set.Store = a.storeURL
	}
	if a.tighten != nil {
		if err := a.tighten(&set); err != nil {
			return config{}, err
		}
	}
	return checkConfig(set, dir)
}

// private refuses a file that other users may read.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if msg := filelock.Exposed(info); msg != "" {
		return errors.New("it holds a password and " + msg)
	}
	return nil
}

func readSettings(path string, set any) error {
	b, err := os.ReadFile(path) //nolint:gosec // the state directory is the person's own
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(b) > maxConfig:
		return errors.New("the file is too large")
	}
	j, err := yaml.YAMLToJSONStrict(b)
	if err != nil {
		return err
	}
	if string(j) == "null" {
		return nil // an empty file
	}
	return json.Unmarshal(j, set, json.RejectUnknownMembers(true))
}

func badConfig(path string, err error) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the configuration " + path + " can't be used: " + err.Error(), Err: err}
}

func checkConfig(set settings, dir string) (config, error) {
	c := config{settings: set}
	var err error
	if c.place, err = parsePlace(set.Store, dir); err != nil {
		return c, err
	}
	if set.Checkpoints == "" {
		c.Checkpoints = filepath.Join(dir, checkpointDir)
	} else if !filepath.IsAbs(set.Checkpoints) {
		return c, errors.New("checkpoints must be the absolute path of a directory")
	}
	if c.witnessed, err = checkWitnesses(set.Witnesses); err != nil {
		return c, err
	}
	for _, d := range []struct {
		name        string
		text        string
		into        *time.Duration
		least, most time.Duration
	}{
		{"hold", set.Hold, &c.hold, 0, 10 * time.Minute},
		{"requestLife", set.RequestLife, &c.requestLife, time.Minute, 7 * 24 * time.Hour},
		{"grantLife", set.GrantLife, &c.grantLife, 10 * time.Second, 24 * time.Hour},
		{"coolDown", set.CoolDown, &c.coolDown, 0, 24 * time.Hour},
		{"callTimeout", set.CallTimeout, &c.callTimeout, time.Second, 24 * time.Hour},
		{"lease", set.Lease, &c.lease, time.Second, 10 * time.Minute},
	} {
		v, err := time.ParseDuration(d.text)
		if err != nil || v < d.least || v > d.most {
			return c, fmt.Errorf("%s must be a duration from %s to %s", d.name, d.least, d.most)
		}
		*d.into = v
	}
	if set.MaxCalls < 1 || set.MaxCalls > 1_000_000_000 {
		return c, errors.New("maxCalls must be from 1 to 1000000000")
	}
	if set.MaxPending < 1 || set.MaxPending > 100_000 {
		return c, errors.New("maxPending must be from 1 to 100000")
	}
	if err := console.CheckLoopback(set.Console); err != nil {
		return c, err
	}
	rules := make([]governance.Rule, 0, len(set.Rules))
	for _, r := range set.Rules {
		if _, err := counterfoil.ParseDigest(r.Server); r.Server != "" && err != nil {
			return c, errors.New("a rule's server must be an id from counterfoil servers list")
		}
		if r.Decision == "allow" && r.Server == "" {
			return c, errors.New("a rule that allows must name its server")
		}
		rules = append(rules, governance.Rule{Tool: r.Tool, Decision: r.Decision})
	}
	c.rules, err = governance.NewRules(rules)
	return c, err
}

// apply puts the configuration into the gateway's.
func (c *config) apply(g *gateway.Config) {
	g.RequestLife, g.GrantLife, g.CoolDown, g.CallTimeout = c.requestLife, c.grantLife, c.coolDown, c.callTimeout
	g.MaxCalls, g.PendingCap = c.MaxCalls, c.MaxPending
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check the configuration"}
	cmd.AddCommand(&cobra.Command{
		Use: "check", Short: "Check config.yaml and print what is in force, without passwords", Args: cobra.NoArgs,
		RunE: does(func(*cobra.Command, []string) error {
			dir, err := a.stateDirectory()
			if err != nil {
				return err
			}
			c, err := a.readConfig(dir)
			if err != nil {
				return err
			}
			c.Store = c.place.String()
			if a.asJSON {
				return a.printJSON(c.settings)
			}
			j, err := json.Marshal(c.settings)
			if err != nil {
				return err
			}
			y, err := yaml.JSONToYAML(j)
			if err != nil {
				return err
			}
			_, err = a.out.Write(y)
			return err
		}),
	})
	return cmd
}

func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(b, '\n'))
	return err
}
