package console

import (
	"net/url"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

// cellLength is how many characters of a name fit into a list.
const cellLength = 80

// cell draws text of an agent or a server for one line of a list.
func cell(s string) string { return show.Line(s, cellLength) }

// A moment is a time as a page shows it.
type moment struct {
	Machine string // RFC 3339
	Clock   string // "14:05:03 UTC, 2 Jan 2026"
	Away    string // "2 min ago", "in 12 min"
}

func (x *exchange) moment(t time.Time) moment {
	if t.IsZero() {
		return moment{Clock: "never"}
	}
	t = t.In(x.now.Location())
	m := moment{Machine: t.Format(time.RFC3339), Clock: t.Format("15:04:05 MST, 2 Jan 2006")}
	switch d := t.Sub(x.now).Round(time.Second); {
	case d > 0:
		m.Away = "in " + span(d)
	case d < 0:
		m.Away = span(-d) + " ago"
	default:
		m.Away = "now"
	}
	return m
}

func span(d time.Duration) string {
	n, unit := int64(d/time.Second), " s"
	switch {
	case d >= 48*time.Hour:
		n, unit = int64(d/(24*time.Hour)), " days"
	case d >= 2*time.Hour:
		n, unit = int64(d/time.Hour), " h"
	case d >= 2*time.Minute:
		n, unit = int64(d/time.Minute), " min"
	}
	return strconv.FormatInt(n, 10) + unit
}

// count returns "1 byte", "2,048 bytes".
func count(n int, noun string) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n == 1 {
		return s + " " + noun
	}
	return s + " " + noun + "s"
}

// A digest is a digest as a page shows it: short to compare by eye, whole to copy.
type digest struct{ Short, Full string }

func shorten(d string) digest {
	const head, tail = len("sha256:") + 12, 8
	full := show.Plain(d)
	if len(full) <= head+tail+1 {
		return digest{full, full}
	}
	return digest{full[:head] + "…" + full[len(full)-tail:], full}
}

// The classes of effects.
const (
	classRead        = "read"
	classWrite       = "write"
	classDestructive = "destructive"
)

// An effect is what a call may do to the world.
type effect struct {
	Name  string
	Class string
	Does  string // what it does, as the end of a sentence about a call
	Label string // what it is, for a menu
}

// effects returns every effect, the gentlest first.
func effects() []effect {
	return []effect{
		{"read", classRead, "it only reads", "reads"},
		{"render", classRead, "it only reads, and changes what is on a screen", "reads and draws"},
		{"mutation", classWrite, "it changes data", "changes data"},
		{"publish", classWrite, "it makes something visible to others", "publishes"},
		{"share", classWrite, "it gives somebody access", "gives access"},
		{"realtime", classWrite, "it acts on something live", "acts on something live"},
		{"job", classWrite, "it starts work that goes on after the call", "starts work that goes on"},
		{"destructive", classDestructive, "it can destroy something or do what can't be undone", "can't be undone"},
	}
}

// effectNamed returns the effect called name. What is not known counts as destructive.
func effectNamed(name string) effect {
	for _, e := range effects() {
		if e.Name == name {
			return e
		}
	}
	return effect{Name: name, Class: classDestructive, Does: "what it does is not declared, so it counts as destructive"}
}

// link returns the address of one of our pages for the thing called id.
func link(page, id string) string { return page + url.PathEscape(id) }

// cursor reads where a list goes on. Cursors are the service's; their length is bounded here.
func (x *exchange) cursor() (string, error) {
	after := x.r.URL.Query().Get("after")
	if len(after) > 512 {
		return "", ErrNotFound
	}
	return after, nil
}

// onward returns the address of the following page of a list, "" after the last.
func onward(page, next string) string {
	if next == "" {
		return ""
	}
	return page + "?after=" + url.QueryEscape(next)
}
