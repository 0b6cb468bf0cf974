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
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/governance"
)

// settings is config.yaml in the state directory. Every field may be left out; an unknown one is an error. Durations are
// written as in "50s" or "15m".
type settings struct {
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
	hold, requestLife, grantLife, coolDown, callTimeout time.Duration
	rules                                               *governance.Rules
}

func defaultSettings() settings {
	return settings{
		Console: "127.0.0.1:7373", Hold: "50s", RequestLife: "15m", GrantLife: "5m", CoolDown: "10m", CallTimeout: "10m",
		MaxCalls: 10_000, MaxPending: 100, Rules: []rule{},
	}
}

const maxConfig = 1 << 20

// readConfig reads the configuration file and lets tighten, if not nil, change it. A file that is not there means the
// defaults.
func readConfig(path string, tighten func(*settings) error) (config, error) {
	set := defaultSettings()
	if err := readSettings(path, &set); err != nil {
		return config{}, badConfig(path, err)
	}
	c, err := checkConfig(set)
	if err != nil {
		return config{}, badConfig(path, err)
	}
	if tighten == nil {
		return c, nil
	}
	if err := tighten(&set); err != nil {
		return config{}, err
	}
	return checkConfig(set)
}

func readSettings(path string, set *settings) error {
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

func checkConfig(set settings) (config, error) {
	c := config{settings: set}
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
	var err error
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
		Use: "check", Short: "Check config.yaml and print what is in force", Args: cobra.NoArgs,
		RunE: does(func(*cobra.Command, []string) error {
			dir, err := a.stateDirectory()
			if err != nil {
				return err
			}
			c, err := readConfig(filepath.Join(dir, configFile), nil)
			if err != nil {
				return err
			}
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
