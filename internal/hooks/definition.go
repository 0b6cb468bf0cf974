package hooks

import (
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil/internal/reach"
)

// A FailMode says what becomes of the request or call when the hook fails.
type FailMode string

// The modes. The zero mode is FailClosed.
const (
	FailClosed FailMode = "closed" // it is refused
	FailOpen   FailMode = "open"   // it goes on
)

// Bounds of a definition.
const (
	DefaultPriority = 100
	maxPriority     = 1000
	handlerTimeout  = 200 * time.Millisecond // default of compiled-in handlers
	callbackTimeout = 2 * time.Second        // default of callbacks
	maxTimeout      = 5 * time.Second
	minTimeout      = time.Millisecond
	maxHookName     = 100
	maxDescription  = 1000
	maxConfig       = 32
	maxConfigValue  = 1024
)

// Params define a hook. Exactly one of Handler and URL is set.
type Params struct {
	Name        string
	Description string
	Phase       Phase
	Priority    int    // 0 to 1000; lower ones run first, equal ones by id
	Handler     string // the name of a compiled-in handler
	Config      map[string]string
	URL         string        // of a callback; https
	Payload     bool          // the callback gets arguments and results, not their digests alone
	Timeout     time.Duration // up to 5 s; 0 is 200 ms for handlers and 2 s for callbacks
	Fail        FailMode
	Disabled    bool
}

// A Hook is a definition as it is kept.
type Hook struct {
	Params
	ID      string
	System  bool // of the system: read only
	Version int64
	Changed time.Time
	Rotated time.Time // when the secret took another's place; zero if it didn't
}

// wire is a hook's body in the store.
type wire struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Priority    int               `json:"priority"`
	Handler     string            `json:"handler,omitempty"`
	Config      map[string]string `json:"config,omitempty"`
	URL         string            `json:"url,omitempty"`
	Payload     bool              `json:"payload,omitempty"`
	TimeoutMS   int64             `json:"timeout_ms"`
	Fail        FailMode          `json:"fail"`
	Disabled    bool              `json:"disabled,omitempty"`
	ChangedMS   int64             `json:"changed_ms"`
	RotatedMS   int64             `json:"rotated_ms,omitempty"`
}

func (h *Hook) body() ([]byte, error) {
	w := wire{
		Name: h.Name, Description: h.Description, Priority: h.Priority, Handler: h.Handler, Config: h.Config, URL: h.URL,
		Payload: h.Payload, TimeoutMS: h.Timeout.Milliseconds(), Fail: h.Fail, Disabled: h.Disabled, ChangedMS: h.Changed.UnixMilli(),
	}
	if !h.Rotated.IsZero() {
		w.RotatedMS = h.Rotated.UnixMilli()
	}
	return json.Marshal(w, json.Deterministic(true))
}

// hookOf reads a row.
func hookOf(r Row) (Hook, error) {
	var w wire
	if err := json.Unmarshal(r.Body, &w, json.RejectUnknownMembers(true)); err != nil {
		return Hook{}, failure("the hook's record is damaged", err)
	}
	h := Hook{
		Params: Params{
			Name: w.Name, Description: w.Description, Phase: r.Phase, Priority: w.Priority, Handler: w.Handler, Config: w.Config, URL: w.URL,
			Payload: w.Payload, Timeout: time.Duration(w.TimeoutMS) * time.Millisecond, Fail: w.Fail, Disabled: w.Disabled,
		},
		ID: r.ID, Version: r.Version, Changed: time.UnixMilli(w.ChangedMS).UTC(),
	}
	if w.RotatedMS != 0 {
		h.Rotated = time.UnixMilli(w.RotatedMS).UTC()
	}
	if err := h.check(); err != nil {
		return Hook{}, failure("the hook's record is damaged", err)
	}
	return h, nil
}

// check holds a definition to its bounds and fills in what was left out.
func (p *Params) check() error {
	switch {
	case p.Name == "" || !isLine(p.Name, maxHookName):
		return bad("/name", "a hook needs a name: one line of at most 100 bytes")
	case !isLine(p.Description, maxDescription):
		return bad("/description", "a hook's description is one line of at most 1000 bytes")
	case !validPhase(p.Phase):
		return bad("/phase", "a hook's phase is pre-request, post-request, pre-call or post-call")
	case p.Priority < 0 || p.Priority > maxPriority:
		return bad("/priority", "a hook's priority is a number from 0 to 1000")
	case p.Fail != "" && p.Fail != FailOpen && p.Fail != FailClosed:
		return bad("/fail", "a hook fails open or closed")
	case (p.Handler == "") == (p.URL == ""):
		return bad("", "a hook has a handler or a URL, and not both")
	case p.Handler == "" && len(p.Config) > 0:
		return bad("/config", "only compiled-in handlers are configured")
	case p.URL == "" && p.Payload:
		return bad("/payload", "compiled-in handlers get the payload unasked")
	case p.Timeout != 0 && (p.Timeout < minTimeout || p.Timeout > maxTimeout || p.Timeout%time.Millisecond != 0):
		return bad("/timeout", "a hook's timeout is a number of milliseconds from 1 to 5000")
	}
	if err := p.checkConfig(); err != nil {
		return err
	}
	p.fill()
	return nil
}

func (p *Params) fill() {
	if p.Fail == "" {
		p.Fail = FailClosed
	}
	if p.Timeout == 0 {
		p.Timeout = handlerTimeout
		if p.URL != "" {
			p.Timeout = callbackTimeout
		}
	}
}

func (p *Params) checkConfig() error {
	if len(p.Config) > maxConfig {
		return bad("/config", "a hook's configuration has at most 32 members")
	}
	for k, v := range p.Config {
		if !isLine(k, maxHookName) || len(v) > maxConfigValue || !utf8.ValidString(v) {
			return bad("/config", "a member of a hook's configuration is too long, or is no text")
		}
	}
	return nil
}

// target reads the URL of a callback.
func target(s string) (reach.URL, error) {
	u, err := reach.ParseURL(s)
	if err != nil {
		return reach.URL{}, bad("/url", "the callback's URL is not acceptable")
	}
	if u.Scheme() != "https" {
		return reach.URL{}, bad("/url", "a callback's URL begins with https")
	}
	return u, nil
}
