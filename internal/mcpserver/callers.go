package mcpserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// maxEnded bounds the sessions of one principal that are remembered as ended. Beyond it the ones that would run out first
// are forgotten, and could be used again, by the same principal alone.
const maxEnded = 1024

// callers are the principals that have something under way. Nothing is kept of the others.
type callers struct {
	maxInFlight, maxStreams int

	mu     sync.Mutex
	all    map[callerKey]*caller
	closed bool
}

type callerKey struct{ tenant, actor string }

// A caller is what one principal has under way.
type caller struct {
	inFlight int
	sessions map[string]*live
	streams  map[*listener]bool
	ended    map[string]time.Time // by the id of the session: when it would have run out
}

// live is a session that has requests under way.
type live struct {
	flights *flights
	uses    int
}

func newCallers(maxInFlight, maxStreams int) *callers {
	return &callers{maxInFlight: maxInFlight, maxStreams: maxStreams, all: make(map[callerKey]*caller)}
}

func keyOf(p *identity.Principal) callerKey { return callerKey{p.Tenant, p.Actor()} }

// of returns a principal's entry, made if need be. The lock is held.
func (c *callers) of(k callerKey) *caller {
	x := c.all[k]
	if x == nil {
		x = &caller{sessions: map[string]*live{}, streams: map[*listener]bool{}, ended: map[string]time.Time{}}
		c.all[k] = x
	}
	return x
}

// tidy forgets a principal that has nothing under way. The lock is held.
func (c *callers) tidy(k callerKey) {
	if x := c.all[k]; x != nil && x.inFlight == 0 && len(x.sessions) == 0 && len(x.streams) == 0 && len(x.ended) == 0 {
		delete(c.all, k)
	}
}

// acquire counts n requests of a principal in, or says that it has too many.
func (c *callers) acquire(k callerKey, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.of(k)
	if x.inFlight+n > c.maxInFlight {
		return false
	}
	x.inFlight += n
	return true
}

func (c *callers) release(k callerKey, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(k).inFlight -= n
	c.tidy(k)
}

// hasEnded reports whether a session was ended, here.
func (c *callers) hasEnded(k callerKey, s session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.all[k]; x != nil {
		_, ended := x.ended[s.id]
		return ended
	}
	return false
}

// use returns the requests under way in a session, until done is called. There are none for a session that has ended.
func (c *callers) use(k callerKey, s session, now time.Time) (f *flights, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.of(k)
	for id, until := range x.ended {
		if !now.Before(until) {
			delete(x.ended, id)
		}
	}
	if _, ended := x.ended[s.id]; ended {
		return nil, nil, errNoSession
	}
	l := x.sessions[s.id]
	if l == nil {
		l = &live{flights: newFlights(c.maxInFlight)}
		x.sessions[s.id] = l
	}
	l.uses++
	return l.flights, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if l.uses--; l.uses == 0 {
			delete(x.sessions, s.id)
		}
		c.tidy(k)
	}, nil
}

// end ends a session: its streams, and what it has under way.
func (c *callers) end(k callerKey, s session) {
	c.mu.Lock()
	x := c.of(k)
	if len(x.ended) >= maxEnded {
		first := s.id
		for id, until := range x.ended {
			if first == s.id || until.Before(x.ended[first]) {
				first = id
			}
		}
		delete(x.ended, first)
	}
	x.ended[s.id] = s.until
	for l := range x.streams {
		if l.session == s.id {
			l.cancel()
		}
	}
	l := x.sessions[s.id]
	c.mu.Unlock()
	if l != nil {
		l.flights.cancelAll(ErrClientGone)
	}
}

// A listener is an open stream that belongs to no request.
type listener struct {
	session  string
	cancel   context.CancelFunc
	messages chan []byte // one may wait: all that is said is "look again"
}

// listen enters a stream, or says why there can't be one more.
func (c *callers) listen(k callerKey, l *listener) *httpError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return closingDown()
	}
	x := c.of(k)
	if len(x.streams) >= c.maxStreams {
		return &httpError{status: http.StatusTooManyRequests, number: jsonrpc.InternalError, msg: "busy: too many streams are open"}
	}
	x.streams[l] = true
	return nil
}

func (c *callers) leave(k callerKey, l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of(k).streams, l)
	c.tidy(k)
}

// tell sends a message to all who listen for a tenant. One who has not taken the last yet is not told twice.
func (c *callers) tell(tenant string, message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, x := range c.all {
		if k.tenant != tenant {
			continue
		}
		for l := range x.streams {
			select {
			case l.messages <- message:
			default:
			}
		}
	}
}

// close ends all streams, and lets none be opened any more.
func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, x := range c.all {
		for l := range x.streams {
			l.cancel()
		}
	}
}
