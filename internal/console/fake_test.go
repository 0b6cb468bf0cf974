package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

const (
	port       = 8787
	host       = "127.0.0.1:8787"
	cookieName = "counterfoil-8787"
	passphrase = "correct horse battery staple"
)

type owner string

func (o owner) Owner() string { return string(o) }

// service is a Service in memory. It decides as the gateway does: one guarded move for each request.
type service struct {
	mu        sync.Mutex
	approvals []gateway.Approval
	upstreams []console.Upstream
	receipts  []console.Receipt
	bundles   map[string][]byte
	codes     map[string]bool
	classes   map[string]map[string]string
	tried     int   // passphrases
	err       error // what everything fails with
	race      func()
	now       func() time.Time
}

func (s *service) Approvals(_ context.Context, state, after string, limit int) ([]gateway.Approval, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, "", s.err
	}
	from, _ := strconv.Atoi(after)
	var list []gateway.Approval
	at := 0
	for i := range s.approvals {
		a := &s.approvals[i]
		if (a.State == gateway.Pending) != (state == "pending") {
			continue
		}
		if at++; at <= from {
			continue
		}
		if len(list) == limit {
			return list, strconv.Itoa(from + limit), nil
		}
		entry := *a
		entry.Arguments, entry.Definition = nil, nil
		list = append(list, entry)
	}
	return list, "", nil
}

func (s *service) Approval(_ context.Context, id string) (gateway.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return gateway.Approval{}, s.err
	}
	for _, a := range s.approvals {
		if a.ID == id {
			return a, nil
		}
	}
	return gateway.Approval{}, console.ErrNotFound
}

func (s *service) decide(id string, key console.Key, to gateway.State, reason string) error {
	if s.race != nil {
		s.race()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.approvals {
		a := &s.approvals[i]
		if a.ID != id {
			continue
		}
		if a.State != gateway.Pending {
			return &console.Conflict{State: a.State}
		}
		a.State, a.DecidedBy, a.DecidedAt, a.Reason = to, key.Owner(), s.now(), reason
		return nil
	}
	return console.ErrNotFound
}

func (s *service) Approve(_ context.Context, id string, key console.Key, reason string) error {
	return s.decide(id, key, gateway.Approved, reason)
}

func (s *service) Deny(_ context.Context, id string, key console.Key, reason string) error {
	return s.decide(id, key, gateway.Denied, reason)
}

func (s *service) Upstreams(context.Context) ([]console.Upstream, error) { return s.upstreams, s.err }

func (s *service) Classify(_ context.Context, id string, effects map[string]string, digest string, _ console.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest == "sha256:stale" {
		return &console.Conflict{}
	}
	s.classes[id] = effects
	return nil
}

func (s *service) Receipts(_ context.Context, after string, limit int) ([]console.Receipt, string, error) {
	from, _ := strconv.Atoi(after)
	list := s.receipts[min(from, len(s.receipts)):]
	if len(list) <= limit {
		return list, "", s.err
	}
	return list[:limit], strconv.Itoa(from + limit), s.err
}

func (s *service) Receipt(_ context.Context, id string) ([]byte, error) {
	if b, ok := s.bundles[id]; ok {
		return b, nil
	}
	return nil, console.ErrNotFound
}

func (s *service) Unlock(_ context.Context, p string) (console.Key, error) {
	time.Sleep(time.Millisecond) // stretching a passphrase takes time
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	if p != passphrase {
		return nil, console.ErrWrongPassphrase
	}
	return owner("person:ada"), nil
}

func (s *service) Redeem(_ context.Context, code string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.codes[code]
	delete(s.codes, code)
	return ok, s.err
}

// sessions is a Sessions in memory.
type sessions struct {
	mu sync.Mutex
	m  map[[sha256.Size]byte]time.Time
}

func (s *sessions) Put(_ context.Context, hash [sha256.Size]byte, expires time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[hash] = expires
	return nil
}

func (s *sessions) Has(_ context.Context, hash [sha256.Size]byte, now time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	expires, ok := s.m[hash]
	return ok && now.Before(expires), nil
}

func (s *sessions) Delete(_ context.Context, hash [sha256.Size]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, hash)
	return nil
}

// desk is a console with a person signed in.
type desk struct {
	t        *testing.T
	service  *service
	sessions *sessions
	console  *console.Console
	cookie   string
	mu       sync.Mutex
	clock    time.Time
}

func start() time.Time { return time.Date(2026, 3, 2, 14, 5, 0, 0, time.UTC) }

func newDesk(t *testing.T, approvals ...gateway.Approval) *desk {
	t.Helper()
	d := &desk{t: t, clock: start()}
	d.service = &service{approvals: approvals, codes: map[string]bool{}, classes: map[string]map[string]string{}, bundles: map[string][]byte{}, now: d.now}
	d.sessions = &sessions{m: map[[sha256.Size]byte]time.Time{}}
	d.console = d.another()
	token := []byte(strings.Repeat("k", 32))
	d.sessions.m[sha256.Sum256(token)] = start().Add(12 * time.Hour)
	d.cookie = base64.RawURLEncoding.EncodeToString(token)
	return d
}

// another makes a second console over the same service and sessions, as another process would.
func (d *desk) another() *console.Console {
	d.t.Helper()
	c, err := console.New(console.Config{Service: d.service, Sessions: d.sessions, Port: port, Now: d.now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return c
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock
}

func (d *desk) sleep(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = d.clock.Add(by)
}

func (d *desk) request(method, path string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Host = host
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if d.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: d.cookie})
	}
	return r
}

func (d *desk) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.console.ServeHTTP(w, r)
	return w
}

func (d *desk) get(path string) *httptest.ResponseRecorder {
	return d.do(d.request(http.MethodGet, path, nil))
}

// page is get for a page that must be there.
func (d *desk) page(path string) string {
	d.t.Helper()
	w := d.get(path)
	if w.Code != http.StatusOK {
		d.t.Fatalf("GET %s: %d\n%s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

var inputs = regexp.MustCompile(`<input type="(?:hidden|checkbox)" name="([^"]*)" value="([^"]*)"`)

// form returns the fields of the form with the given action, as a browser would send them with each box ticked.
func (d *desk) form(page, action string) url.Values {
	d.t.Helper()
	html := d.page(page)
	_, html, ok := strings.Cut(html, `action="`+action+`"`)
	if !ok {
		d.t.Fatalf("%s has no form for %s", page, action)
	}
	html, _, _ = strings.Cut(html, "</form>")
	v := url.Values{}
	for _, m := range inputs.FindAllStringSubmatch(html, -1) {
		v.Set(m[1], strings.ReplaceAll(m[2], "&#43;", "+"))
	}
	return v
}

// decide fills in a request's form and sends it.
func (d *desk) decide(id, form, pass string) *httptest.ResponseRecorder {
	d.t.Helper()
	v := d.form("/approvals/"+id, "/approvals/"+id+"/"+form)
	v.Set("reason", "looks right")
	if pass != "" {
		v.Set("passphrase", pass)
	}
	return d.do(d.request(http.MethodPost, "/approvals/"+id+"/"+form, v))
}

// state is where the request a-1 stands.
func (d *desk) state() gateway.State {
	a, err := d.service.Approval(context.Background(), "a-1")
	if err != nil {
		d.t.Fatal(err)
	}
	return a.State
}

// ask returns a pending request. The digests are made up.
func ask(id, tool, effect, arguments string) gateway.Approval {
	return gateway.Approval{
		ID: id, Tenant: "local", Requester: "agent:claude-code", Run: "wrap-5f1c", State: gateway.Pending,
		UpstreamID: hash("upstream"), UpstreamName: "npx @modelcontextprotocol/server-filesystem /work",
		Method: "tools/call", Tool: tool, Effect: effect, Arguments: []byte(arguments),
		Definition:  []byte(`{"description":"Does things to files.","inputSchema":{"properties":{"path":{"type":"string"}},"type":"object"},"name":"` + tool + `"}`),
		InputDigest: hash("input" + id), DefinitionDigest: hash("definition"), RulesDigest: hash("rules"), DryRunDigest: hash("dry run" + id),
		Rule:      "calls of class " + effect + " ask",
		CreatedAt: start().Add(-2 * time.Minute), ExpiresAt: start().Add(13 * time.Minute),
	}
}

func hash(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for _, c := range sha256.Sum256([]byte(s)) {
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return "sha256:" + b.String()
}
