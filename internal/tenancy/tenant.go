package tenancy

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// Settings are what an administrator sets for a tenant.
type Settings struct {
	// Tier is the tenant's rate tier, "" for the server's own.
	Tier string `json:"tier,omitzero"`
	// MaxBody is how many bytes a request may have, 0 for the server's own limit.
	MaxBody int64 `json:"maxBody,omitzero"`
	// Deny and Ask are scopes that nobody in the tenant has, or not without a person's approval.
	Deny []string `json:"deny,omitzero"`
	Ask  []string `json:"ask,omitzero"`
}

const maxBody = 1 << 30

func (s *Settings) check() error {
	if s.MaxBody < 0 || s.MaxBody > maxBody {
		return fail("maxBody must be from 0 to 1073741824 bytes")
	}
	if s.Tier != "" {
		if err := counterfoil.CheckIdentity(s.Tier); err != nil {
			return err
		}
	}
	for _, list := range [][]string{s.Deny, s.Ask} {
		if _, err := identity.ParseScopes(list); err != nil {
			return err
		}
	}
	return nil
}

// A TargetKind is what can be frozen. The zero TargetKind is nothing.
type TargetKind string

// The kinds of targets.
const (
	TargetTenant   TargetKind = "tenant" // all of it
	TargetAgent    TargetKind = "agent"  // a principal, by its actor's name
	TargetUpstream TargetKind = "upstream"
	TargetTool     TargetKind = "tool"
)

// A Target is what is frozen. It has a name unless it is the tenant.
type Target struct {
	Kind TargetKind `json:"kind"`
	Name string     `json:"name,omitzero"`
}

func (t Target) check() error {
	switch t.Kind {
	case TargetTenant:
		if t.Name != "" {
			return fail("a tenant is frozen as a whole, without a name")
		}
		return nil
	case TargetAgent, TargetUpstream, TargetTool:
		return counterfoil.CheckIdentity(t.Name)
	default:
		return fail("this can't be frozen: tenant, agent, upstream and tool can")
	}
}

// A Freeze is a target that is frozen, since when and by whom.
type Freeze struct {
	Target
	By string    `json:"by"` // the actor, who can't lift it alone
	At time.Time `json:"at"`
}

// A Tenant is one tenant as it stands at an epoch. Nobody changes one that was handed out.
type Tenant struct {
	ID      string
	Created time.Time
	Epoch   int64
	Settings
	Frozen []Freeze

	Denied, Asked identity.Scopes // what Deny and Ask say
}

// A Touch is what a call touches: what a freeze can name.
type Touch struct {
	Agent        string
	Upstream     string // its digest
	UpstreamName string // the operator's name for it; either freezes it
	Tool         string
}

// FrozenFor returns the freeze that stands against a call, nil if none does.
func (t *Tenant) FrozenFor(c Touch) *Freeze {
	for i := range t.Frozen {
		f := &t.Frozen[i]
		switch f.Kind {
		case TargetAgent:
			if f.Name == c.Agent {
				return f
			}
		case TargetUpstream:
			if f.Name == c.Upstream || f.Name == c.UpstreamName {
				return f
			}
		case TargetTool:
			if f.Name == c.Tool {
				return f
			}
		case TargetTenant:
			return f
		default: // unknown: whatever it is meant to stop is stopped
			return f
		}
	}
	return nil
}

// body is how a tenant is written down.
type body struct {
	Settings
	Frozen []Freeze `json:"frozen,omitzero"`
}

const maxFrozen = 1000

// NewRecord returns the record of a new tenant, or says what is wrong with its id or its settings.
func NewRecord(id string, s Settings, now time.Time) (Record, error) {
	if err := checkID(id); err != nil {
		return Record{}, err
	}
	if err := s.check(); err != nil {
		return Record{}, err
	}
	t := &Tenant{ID: id, Created: now.UTC().Truncate(time.Millisecond), Epoch: 1, Settings: s}
	return t.record()
}

func (t *Tenant) record() (Record, error) {
	b, err := json.Marshal(body{t.Settings, t.Frozen})
	if err != nil {
		return Record{}, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "the tenant could not be written down", Err: err}
	}
	return Record{ID: t.ID, Created: t.Created, Epoch: t.Epoch, Body: b}, nil
}

func parse(r Record) (*Tenant, error) {
	var b body
	if err := json.Unmarshal(r.Body, &b, json.RejectUnknownMembers(true)); err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "a tenant's record can't be read", Err: err}
	}
	t := &Tenant{ID: r.ID, Created: r.Created, Epoch: r.Epoch, Settings: b.Settings, Frozen: b.Frozen}
	if err := t.check(); err != nil {
		return nil, err
	}
	// Both were checked just now.
	t.Denied, _ = identity.ParseScopes(t.Deny)
	t.Asked, _ = identity.ParseScopes(t.Ask)
	return t, nil
}

// checkID reports what is wrong with a tenant's id. It stands in names of logs and in URLs, so that it is plain.
func checkID(id string) error {
	if len(id) > 63 || id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || id[0] == '-' || id[len(id)-1] == '-' {
		return fail("a tenant's id has 1 to 63 of the characters a-z, 0-9 and -, and no - at either end")
	}
	return nil
}

func fail(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg}
}

// find returns the place of a target among those that are frozen, -1 if it isn't.
func (t *Tenant) find(x Target) int {
	return slices.IndexFunc(t.Frozen, func(f Freeze) bool { return f.Target == x })
}
