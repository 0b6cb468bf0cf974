// Package hooks asks others about requests and calls before they go on, and tells them afterwards: handlers that are compiled
// in, and signed HTTP callbacks. A hook may refuse or leave notes. It can't change anything: it gets copies.
//
// The hooks of a phase are a flat list. Each runs once, in the order of priorities, within its own time. One that panics,
// overstays or says nothing has failed, and a failed hook refuses unless its definition lets it fail open. No program is
// ever started for a hook.
package hooks

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil"
)

// A Phase is when a hook runs.
type Phase string

// The phases.
const (
	PreRequest  Phase = "pre-request"  // authenticated, within rate, size and scope; the handler has not begun
	PostRequest Phase = "post-request" // the answer is ready and not sent
	PreCall     Phase = "pre-call"     // the call was read; no gate of the chain has judged it
	PostCall    Phase = "post-call"    // the call ended, in whatever way
)

// Phases returns every phase.
func Phases() []Phase { return []Phase{PreRequest, PostRequest, PreCall, PostCall} }

// before reports whether something can still be prevented.
func (p Phase) before() bool { return p == PreRequest || p == PreCall }

// An Event is what hooks are told. Fields that a phase knows nothing of are empty.
type Event struct {
	Phase     Phase
	Tenant    string
	ID        string // of the request or call
	Principal string // "agent:x"

	Method string // of the HTTP request
	Path   string // without the query
	Status int    // of the answer, after a request

	Upstream  string // the upstream's id
	Tool      string
	Operation string
	Effect    string
	Arguments string // their digest, "sha256:…"
	Outcome   string // after a call
	Receipt   string // its id, after a call

	// Payload is the canonical arguments before a call, and its result after it. Callbacks get it only if their definitions
	// ask for it.
	Payload []byte
}

func (e Event) clone() Event {
	e.Payload = bytes.Clone(e.Payload)
	return e
}

// An Action is what a hook says. The zero Action is no answer: the hook has failed.
type Action string

// The actions.
const (
	Pass   Action = "pass"
	Refuse Action = "refuse"
)

// A Verdict is a hook's answer.
type Verdict struct {
	Action Action
	Reason string            // why it refuses: one line for the caller, at most 200 bytes
	Notes  map[string]string // for the request's record; at most 16, names of a-z, 0-9, "_", "-" and ".", values up to 256 bytes
}

// Bounds of a verdict.
const (
	maxReason   = 200
	maxNotes    = 16
	maxNoteName = 64
	maxNote     = 256
)

// check refuses a verdict that is none. What hooks say ends in records and in front of agents.
func (v *Verdict) check() error {
	if v.Action != Pass && v.Action != Refuse {
		return failure("the hook did not say whether to pass or to refuse", nil)
	}
	if !isLine(v.Reason, maxReason) || len(v.Notes) > maxNotes {
		return failure("the hook's answer is too long, or has characters that a line of text has not", nil)
	}
	for name, note := range v.Notes {
		if name == "" || len(name) > maxNoteName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" || !isLine(note, maxNote) {
			return failure("a note of the hook is too long, or has characters that it must not have", nil)
		}
	}
	return nil
}

// isLine reports whether s is one line of printable text.
func isLine(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// A Handler is a compiled-in hook. It must return soon after ctx ends; what it returns then is not looked at.
type Handler func(ctx context.Context, e Event) (Verdict, error)

// A Maker makes a handler for one hook's configuration, or says what is wrong with that in a *counterfoil.Error.
type Maker func(config map[string]string) (Handler, error)

// A Result is what became of one hook that ran.
type Result struct {
	Hook    string // its id
	Name    string
	Verdict Verdict // as it answered; zero if it failed
	Err     error   // why it failed, for the log; nil if it answered
	Refused bool    // it refused, or failed and doesn't fail open
	Took    time.Duration
}

// A RefusedError says which hook refused. Its code is CodePolicyDenied when the hook said so, CodeUnavailable when the
// hook failed. Its text may be sent to the caller.
type RefusedError struct {
	Phase  Phase
	Hook   string // its id
	Name   string
	Reason string // as the hook gave it; "" if it failed
	Failed bool
}

// Error returns one sentence.
func (e *RefusedError) Error() string {
	switch {
	case e.Failed:
		return "the hook " + e.Name + " did not answer as it must"
	case e.Reason == "":
		return "the hook " + e.Name + " refuses this"
	default:
		return "the hook " + e.Name + " refuses this: " + e.Reason
	}
}

// Unwrap returns the code.
func (e *RefusedError) Unwrap() error {
	if e.Failed {
		return counterfoil.CodeUnavailable
	}
	return counterfoil.CodePolicyDenied
}

func validPhase(p Phase) bool { return slices.Contains(Phases(), p) }

func bad(path, msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: path, Msg: msg}
}

// failure is an error of a hook itself.
func failure(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeExecutionFailed, Msg: msg, Err: cause}
}
