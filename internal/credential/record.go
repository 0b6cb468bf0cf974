package credential

import (
	"encoding/hex"
	"io"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// Recorder makes the events that changes of credentials leave in the tenants' logs. Every field is required.
type Recorder struct {
	Names    *counterfoil.Pseudonyms
	Audience string
	Now      func() time.Time
	Rand     io.Reader
}

func (r *Recorder) check() error {
	if r.Names == nil || r.Audience == "" || r.Now == nil || r.Rand == nil {
		return fail("credentials need pseudonyms, an audience, a clock and randomness")
	}
	return nil
}

// now returns the time as it can be stored.
func (r *Recorder) now() time.Time { return r.Now().UTC().Truncate(time.Millisecond) }

// id makes a random id of which those that are made later sort behind.
func (r *Recorder) id(prefix string) (string, error) {
	var b [16]byte
	if err := fill(r.Rand, b[6:]); err != nil {
		return "", err
	}
	ms := r.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)) & 0xff)
	}
	return prefix + hex.EncodeToString(b[:]), nil
}

// event makes the record of a change. by is the actor who made it.
func (r *Recorder) event(tenant, by, code string) (counterfoil.Event, error) {
	id, err := r.id("change-")
	if err != nil {
		return counterfoil.Event{}, err
	}
	return counterfoil.NewEvent(counterfoil.PhaseGoverned, r.Names, counterfoil.EventParams{
		Tenant: tenant, Audience: r.Audience, ExecutionID: id, Actor: by, Code: code,
	})
}

// may refuses who lacks the scope. The tenant's own lists are the business of whoever let the request in.
func may(by *identity.Principal, need identity.Scope) error {
	if by == nil || by.Check() != nil || identity.Decide(need, by.Scopes, identity.Scopes{}, identity.Scopes{}) != identity.Allow {
		return denied("this takes the scope " + string(need))
	}
	return nil
}
