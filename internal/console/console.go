// Package console is the reviewer's pages for single mode: one person, on the loopback interface, who sees exactly what
// an agent wants to run and decides. It guarantees that nothing is approved that was not shown in full, that no other
// page, site or port can press a button on its behalf, and that whatever comes from an agent or a server is inert text.
// It trusts its Service for the state of requests and its Sessions for who is signed in. Signing in only lets one look;
// each decision is signed with a key that the person's passphrase unlocks. It can't protect against a program that runs
// as the same user and reads the person's screen or memory.
package console

import (
	"crypto/sha256"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// A Config is what a Console is made of. Every field is required.
type Config struct {
	Service  Service
	Sessions Sessions
	Port     int              // the loopback port that the console is reached at
	Now      func() time.Time // its location is the one that times are shown in
	Log      *slog.Logger
}

// A Console is the http.Handler for all pages.
type Console struct {
	service  Service
	sessions Sessions
	hosts    [3]string
	cookie   string
	now      func() time.Time
	log      *slog.Logger
	cross    *http.CrossOriginProtection
	pages    map[string]*template.Template
	static   map[string]asset
	routes   []route
	keys     *keyring
}

// New makes a Console. The caller calls Close when it no longer serves.
func New(c Config) (*Console, error) {
	if c.Service == nil || c.Sessions == nil || c.Now == nil || c.Log == nil || c.Port < 1 || c.Port > 65535 {
		return nil, errors.New("console: the configuration is incomplete")
	}
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	static, err := loadStatic()
	if err != nil {
		return nil, err
	}
	return &Console{
		service:  c.Service,
		sessions: c.Sessions,
		hosts:    LoopbackHosts(c.Port),
		// Cookies are shared between the ports of a host, so that the name tells two consoles apart.
		cookie: "counterfoil-" + strconv.Itoa(c.Port),
		now:    c.Now,
		log:    c.Log,
		cross:  http.NewCrossOriginProtection(),
		pages:  pages,
		static: static,
		routes: routes(),
		keys:   newKeyring(c.Service, c.Now),
	}, nil
}

// Close forgets every unlocked key.
func (c *Console) Close() { c.keys.forgetAll() }

// An exchange is one request and what is known about it. Everything that is answered goes through its send.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	now     time.Time
	id      string            // what {id} stands for in the path
	token   []byte            // the session's token, nil without a session
	session [sha256.Size]byte // the token's hash, by which the session is known
	status  int
}

// ServeHTTP lets a request meet, in this order: host and origin, session, method, form, handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r, now: c.now()}
	setHeaders(w.Header())
	name := "none"
	err := c.admit(r)
	if err == nil {
		err = c.resume(x)
	}
	if err == nil {
		var rt route
		if rt, err = c.find(x); err == nil {
			name = rt.pattern
			err = c.run(x, rt)
		}
	}
	if err != nil {
		c.fail(x, err)
	}
	// The pattern, not the path: an address may hold a sign-in code.
	c.log.LogAttrs(r.Context(), slog.LevelInfo, "console request", slog.String("method", r.Method),
		slog.String("route", name), slog.Int("status", x.status), slog.Duration("took", c.now().Sub(x.now)))
}

// send answers once.
func (x *exchange) send(status int, contentType string, body []byte) {
	x.status = status
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body) // the client has gone: there is nobody to tell
	}
}

// attach sends body as a file to be saved, which a browser neither shows nor runs.
func (x *exchange) attach(name, contentType string, body []byte) {
	h := x.w.Header()
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	x.send(http.StatusOK, contentType, body)
}

// redirect sends the browser to one of our own pages after a form was accepted.
func (x *exchange) redirect(path string) {
	x.w.Header().Set("Location", path)
	x.send(http.StatusSeeOther, "text/plain; charset=utf-8", nil)
}
