package console_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// everyRoute is one request for each route, with what a signed-in person gets.
func everyRoute() []struct {
	method, path string
	code         int
} {
	return []struct {
		method, path string
		code         int
	}{
		{"GET", "/", 200}, {"GET", "/decided", 200}, {"GET", "/approvals/a-1", 200}, {"GET", "/approvals/a-1/arguments", 200},
		{"GET", "/upstreams", 200}, {"GET", "/upstreams/u-1", 200}, {"GET", "/receipts", 200}, {"GET", "/receipts/r-1", 200},
		{"GET", "/receipts/r-1/bundle.json", 200}, {"GET", "/api/approvals?state=pending", 200}, {"GET", "/login", 200},
		{"GET", "/static/style.css", 200}, {"GET", "/static/live.js", 200}, {"GET", "/static/icon.svg", 200},
		{"POST", "/approvals/a-1/approve", 0}, {"POST", "/approvals/a-1/deny", 0}, {"POST", "/upstreams/u-1/classify", 0},
		{"POST", "/lock", 0}, {"POST", "/logout", 0}, {"POST", "/login", 0}, {"GET", "/nowhere", 404},
	}
}

func fullDesk(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t, ask("a-1", "write_file", "mutation", `{"path":"/tmp/x"}`))
	d.service.upstreams = []console.Upstream{{ID: "u-1", Name: "files", Identity: []byte(`{"argv":["files"]}`), Status: "unclassified", Digest: hash("tools"),
		Tools: []console.Tool{{Name: "read", Status: "unclassified", Suggested: "read", Why: "profile files", Definition: []byte(`{"name":"read"}`)}}}}
	d.service.receipts = []console.Receipt{{ID: "r-1", Approval: "a-1", UpstreamName: "files", Tool: "read", Effect: "read", Outcome: "completed", At: start()}}
	d.service.bundles["r-1"] = []byte(`{"a":1}`)
	return d
}

func TestProtect_hosts_and_origins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, host, origin, site string
		want                     bool
	}{
		{"own address", "127.0.0.1:8787", "", "", true},
		{"own name", "localhost:8787", "", "", true},
		{"own address in IPv6", "[::1]:8787", "", "", true},
		{"own origin", "localhost:8787", "http://localhost:8787", "same-origin", true},
		{"typed", "localhost:8787", "", "none", true},

		{"another host", "evil.example", "", "", false},
		{"another host with our port", "evil.example:8787", "", "", false},
		{"our name as a label", "localhost.evil.example:8787", "", "", false},
		{"no port", "localhost", "", "", false},
		{"another port", "localhost:8788", "", "", false},
		{"user info", "user@localhost:8787", "", "", false},
		{"capitals", "LOCALHOST:8787", "", "", false},
		{"final dot", "localhost.:8787", "", "", false},
		{"another loopback address", "127.0.0.2:8787", "", "", false},
		{"short address", "127.1:8787", "", "", false},
		{"mapped address", "[::ffff:127.0.0.1]:8787", "", "", false},
		{"wildcard address", "0.0.0.0:8787", "", "", false},
		{"no host", "", "", "", false},
		{"null origin", "localhost:8787", "null", "", false},
		{"null origin of our own", "localhost:8787", "null", "same-origin", false},
		{"origin with another port", "localhost:8787", "http://localhost:9999", "same-site", false},
		{"origin with another scheme", "localhost:8787", "https://localhost:8787", "", false},
		{"origin of the other name", "localhost:8787", "http://127.0.0.1:8787", "cross-site", false},
		{"foreign origin", "localhost:8787", "https://evil.example", "cross-site", false},
		{"empty origin", "localhost:8787", " ", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := fullDesk(t)
			for _, rt := range everyRoute() {
				r := d.request(rt.method, rt.path, nil)
				r.Host = tt.host
				if tt.origin != "" {
					r.Header.Set("Origin", strings.TrimSpace(tt.origin))
				}
				if tt.site != "" {
					r.Header.Set("Sec-Fetch-Site", tt.site)
				}
				w := d.do(r)
				switch {
				case !tt.want && w.Code != http.StatusForbidden:
					t.Errorf("%s %s: %d, want 403", rt.method, rt.path, w.Code)
				case tt.want && rt.code != 0 && w.Code != rt.code:
					t.Errorf("%s %s: %d, want %d", rt.method, rt.path, w.Code, rt.code)
				}
			}
		})
	}
}

// A browser says where a form comes from; a form of another port of this machine is not ours.
func TestProtect_cross_origin_posts(t *testing.T) {
	t.Parallel()
	for _, site := range []string{"same-site", "cross-site"} {
		d := fullDesk(t)
		v := d.form("/approvals/a-1", "/approvals/a-1/approve")
		v.Set("passphrase", passphrase)
		r := d.request(http.MethodPost, "/approvals/a-1/approve", v)
		r.Header.Set("Sec-Fetch-Site", site)
		if w := d.do(r); w.Code != http.StatusForbidden || d.state() != gateway.Pending {
			t.Errorf("%s: %d", site, w.Code)
		}
	}
}

func TestProtect_headers(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	want := map[string]string{
		"X-Frame-Options":             "DENY",
		"X-Content-Type-Options":      "nosniff",
		"Referrer-Policy":             "same-origin",
		"Cache-Control":               "no-store",
		"Cross-Origin-Opener-Policy":  "same-origin",
		"Access-Control-Allow-Origin": "",
	}
	for _, rt := range everyRoute() {
		for _, h := range []string{host, "evil.example"} {
			r := d.request(rt.method, rt.path, nil)
			r.Host = h
			got := d.do(r).Header()
			for name, value := range want {
				if got.Get(name) != value {
					t.Errorf("%s %s: %s is %q, want %q", rt.method, rt.path, name, got.Get(name), value)
				}
			}
			csp := got.Get("Content-Security-Policy")
			if !strings.HasPrefix(csp, "default-src 'self'; ") && !strings.HasPrefix(csp, "default-src 'none'; sandbox") ||
				!strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s %s: the content security policy is %q", rt.method, rt.path, csp)
			}
		}
	}
}

func TestProtect_methods(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	for _, rt := range everyRoute() {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"} {
			r := d.request(http.MethodGet, rt.path, nil)
			r.Method = method
			if w := d.do(r); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
				t.Errorf("%s %s: %d, Allow %q", method, rt.path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	for path, allow := range map[string]string{"/receipts": "GET, HEAD", "/": "GET, HEAD", "/api/approvals": "GET, HEAD"} {
		if w := d.do(d.request(http.MethodPost, path, url.Values{})); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow {
			t.Errorf("POST %s: %d, Allow %q", path, w.Code, w.Header().Get("Allow"))
		}
	}
	for _, path := range []string{"/logout", "/approvals/a-1/approve", "/lock"} {
		if w := d.get(path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
			t.Errorf("GET %s: %d, Allow %q", path, w.Code, w.Header().Get("Allow"))
		}
	}
	w := d.do(d.request(http.MethodHead, "/", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD /: %d with %d bytes", w.Code, w.Body.Len())
	}
}

func TestProtect_paths(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	for _, path := range []string{"/nowhere", "//", "/receipts/", "/approvals/", "/approvals/..", "/approvals/a%2F1", "/approvals/a-1/", "/approvals/a%00",
		"/approvals/" + strings.Repeat("x", 129), "/approvals/unknown", "/static/../static/style.css", "/static/..%2fconsole.go", "/static/nothing",
		"/receipts/%E2%80%AE", "/api/approvals?state=decided", "/?after=" + strings.Repeat("x", 513), "/favicon.ico"} {
		if w := d.get(path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "Not found") {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

func TestProtect_sessions(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	good := d.cookie
	for name, cookies := range map[string][]string{
		"none":      nil,
		"wrong":     {strings.Repeat("A", 43)},
		"short":     {good[:42]},
		"not text":  {"*"},
		"padded":    {good + "="},
		"sloppy":    {good[:42] + "t"}, // the same bytes in a spelling that only a sloppy decoder takes
		"two":       {good, good},
		"planted":   {strings.Repeat("A", 43), good},
		"the hash":  {"zPTnJtf4bNcNS6-Kvlt6DlOJUO3Zjv9LWgR5UVW4GZU"},
		"empty one": {""},
	} {
		for _, rt := range everyRoute() {
			if strings.HasPrefix(rt.path, "/login") || strings.HasPrefix(rt.path, "/static/") || rt.code == 404 {
				continue
			}
			d.cookie = ""
			r := d.request(rt.method, rt.path, nil)
			for _, c := range cookies {
				r.Header.Add("Cookie", cookieName+"="+c)
			}
			if w := d.do(r); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "counterfoil console") {
				t.Errorf("%s: %s %s: %d", name, rt.method, rt.path, w.Code)
			}
		}
	}
	d.cookie = good
	if w := d.get("/"); w.Code != http.StatusOK {
		t.Fatal(w.Code)
	}
	d.sleep(12 * time.Hour)
	if w := d.get("/"); w.Code != http.StatusUnauthorized {
		t.Errorf("the session lives on after 12 hours: %d", w.Code)
	}
}

func TestProtect_csrf(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	other := newDesk(t, ask("a-1", "write_file", "mutation", `{}`))
	other.signIn("other")
	foreign := other.form("/approvals/a-1", "/approvals/a-1/approve").Get("csrf")
	own := d.form("/approvals/a-1", "/approvals/a-1/approve").Get("csrf")
	if own == "" || own == foreign {
		t.Fatalf("the tokens are %q and %q", own, foreign)
	}
	for _, rt := range everyRoute() {
		if rt.method != http.MethodPost || rt.path == "/login" {
			continue
		}
		for name, v := range map[string]url.Values{"none": {}, "empty": {"csrf": {""}}, "foreign": {"csrf": {foreign}}, "longer": {"csrf": {own + "x"}}, "cookie": {"csrf": {d.cookie}}} {
			v.Set("passphrase", passphrase)
			if w := d.do(d.request(http.MethodPost, rt.path, v)); w.Code != http.StatusForbidden {
				t.Errorf("%s with %s token: %d", rt.path, name, w.Code)
			}
		}
		// The token in the address does not count.
		if w := d.do(d.request(http.MethodPost, rt.path+"?csrf="+own, url.Values{})); w.Code != http.StatusForbidden {
			t.Errorf("%s with the token in the address: %d", rt.path, w.Code)
		}
	}
	if d.state() != gateway.Pending || d.service.tried != 0 {
		t.Error("something was done")
	}
}

func TestProtect_bodies(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	v := d.form("/approvals/a-1", "/approvals/a-1/approve")
	for _, tt := range []struct {
		name string
		make func() *http.Request
		code int
	}{
		{"too large", func() *http.Request {
			v := url.Values{"csrf": v["csrf"], "reason": {strings.Repeat("x", 64<<10)}}
			return d.request(http.MethodPost, "/approvals/a-1/approve", v)
		}, http.StatusRequestEntityTooLarge},
		{"too large, without a length", func() *http.Request {
			r := d.request(http.MethodPost, "/approvals/a-1/approve", url.Values{})
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("a="+strings.Repeat("x", 64<<10))), -1
			return r
		}, http.StatusRequestEntityTooLarge},
		{"JSON", func() *http.Request {
			r := d.request(http.MethodPost, "/approvals/a-1/approve", v)
			r.Header.Set("Content-Type", "application/json")
			return r
		}, http.StatusUnsupportedMediaType},
		{"plain text", func() *http.Request {
			r := d.request(http.MethodPost, "/approvals/a-1/approve", v)
			r.Header.Set("Content-Type", "text/plain")
			return r
		}, http.StatusUnsupportedMediaType},
		{"no type", func() *http.Request {
			r := d.request(http.MethodPost, "/approvals/a-1/approve", v)
			r.Header.Del("Content-Type")
			return r
		}, http.StatusUnsupportedMediaType},
		{"compressed", func() *http.Request {
			r := d.request(http.MethodPost, "/approvals/a-1/approve", v)
			r.Header.Set("Content-Encoding", "gzip")
			return r
		}, http.StatusUnsupportedMediaType},
		{"not a form", func() *http.Request {
			r := d.request(http.MethodPost, "/approvals/a-1/approve", url.Values{})
			r.Body = io.NopCloser(strings.NewReader("a=%zz;b"))
			return r
		}, http.StatusBadRequest},
	} {
		if w := d.do(tt.make()); w.Code != tt.code {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.code)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.cookie = ""
	d.service.codes["c0de"] = true
	// Looking at the link, as often as one likes, does not use it up.
	for range 3 {
		if page := d.page("/login?code=c0de"); !strings.Contains(page, `value="c0de"`) || !strings.Contains(page, "<button") {
			t.Fatal(page)
		}
	}
	w := d.do(d.request(http.MethodPost, "/login", url.Values{"code": {"c0de"}}))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Fatalf("%d %s", w.Code, w.Header().Get("Location"))
	}
	cookie := w.Header().Get("Set-Cookie")
	name, rest, _ := strings.Cut(cookie, "=")
	value, attributes, _ := strings.Cut(rest, "; ")
	if diff := cmp.Diff("Path=/; Max-Age=43200; HttpOnly; SameSite=Strict", attributes); diff != "" || name != cookieName {
		t.Errorf("%s: %s", name, diff)
	}
	d.cookie = value
	d.page("/")
	for _, expires := range d.sessions.m {
		if expires.After(start().Add(12 * time.Hour)) {
			t.Errorf("a session lasts until %s", expires)
		}
	}
	// Another process that takes over knows the session and its forms.
	v := d.form("/", "/logout")
	d.console = d.another()
	d.page("/")
	if w := d.do(d.request(http.MethodPost, "/logout", v)); w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Set-Cookie"))
	}
	if w := d.get("/"); w.Code != http.StatusUnauthorized {
		t.Errorf("after signing out: %d", w.Code)
	}
	for _, code := range []string{"c0de", "", "other", "a b", strings.Repeat("x", 129), "<b>"} {
		if w := d.do(d.request(http.MethodPost, "/login", url.Values{"code": {code}})); w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("code %q: %d", code, w.Code)
		}
	}
	if w := d.get("/login?code=%3Cb%3E"); w.Code != http.StatusForbidden {
		t.Errorf("a code that can't be one: %d", w.Code)
	}
}

func TestLogin_gives_a_new_session(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	old := d.cookie
	d.signIn("one")
	if d.cookie == old || len(d.sessions.m) != 1 {
		t.Errorf("there are %d sessions", len(d.sessions.m))
	}
	for h := range d.sessions.m {
		if strings.Contains(d.cookie, string(h[:])) {
			t.Error("the token is stored as it is")
		}
	}
}

func TestCheckLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:8787": true, "[::1]:8787": true, "127.0.0.1:0": true,
		"": false, ":8787": false, "0.0.0.0:8787": false, "[::]:8787": false, "localhost:8787": false, "192.168.1.2:8787": false,
		"127.0.0.2:8787": false, "example.org:80": false, "127.0.0.1": false, "[::ffff:127.0.0.1]:8787": false, "[::1%lo]:8787": false, "127.0.0.1:http": false,
	} {
		if err := console.CheckLoopback(addr); (err == nil) != want {
			t.Errorf("CheckLoopback(%q) = %v", addr, err)
		}
	}
}

// serve runs the console on a socket, as it runs in the program.
func serve(t *testing.T, d *desk) (address string) {
	t.Helper()
	return serveWrapped(t, d, func(h http.Handler) http.Handler { return h })
}

func serveWrapped(t *testing.T, d *desk, wrap func(http.Handler) http.Handler) (address string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(l.Addr())
	}
	c, err := console.New(console.Config{Service: d.service, Sessions: d.sessions, Port: at.Port, Now: d.now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	srv := console.NewServer(wrap(c), slog.New(slog.DiscardHandler))
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		if err := srv.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		c.Close()
	})
	return l.Addr().String()
}

func TestServer_raw_requests(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	addr := serve(t, d)
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"own host", "GET /login HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", 200},
		{"HTTP/1.0 without a host", "GET /login HTTP/1.0\r\n\r\n", 403},
		{"HTTP/1.0 with our host", "GET /login HTTP/1.0\r\nHost: " + addr + "\r\n\r\n", 200},
		{"HTTP/1.1 without a host", "GET /login HTTP/1.1\r\n\r\n", 400},
		{"two hosts", "GET /login HTTP/1.1\r\nHost: " + addr + "\r\nHost: evil.example\r\n\r\n", 400},
		{"our address as target, another host", "GET http://" + addr + "/login HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
		{"two origins", "GET /login HTTP/1.1\r\nHost: " + addr + "\r\nOrigin: http://" + addr + "\r\nOrigin: http://evil.example\r\n\r\n", 403},
		{"header too long", "GET /login HTTP/1.1\r\nHost: " + addr + "\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", 431},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var dialer net.Dialer
			conn, err := dialer.DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, tt.text); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("%d, want %d", resp.StatusCode, tt.want)
			}
		})
	}
}

func TestNewServer_has_every_limit(t *testing.T) {
	t.Parallel()
	s := console.NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 || s.ErrorLog == nil {
		t.Errorf("%+v", s)
	}
}

func TestNew_refuses_an_incomplete_configuration(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	good := console.Config{Service: d.service, Sessions: d.sessions, Port: port, Now: d.now, Log: slog.New(slog.DiscardHandler)}
	for name, change := range map[string]func(*console.Config){
		"service": func(c *console.Config) { c.Service = nil }, "sessions": func(c *console.Config) { c.Sessions = nil },
		"port": func(c *console.Config) { c.Port = 0 }, "clock": func(c *console.Config) { c.Now = nil }, "log": func(c *console.Config) { c.Log = nil },
	} {
		c := good
		change(&c)
		if got, err := console.New(c); err == nil || got != nil {
			t.Errorf("a configuration without a %s is taken", name)
		}
	}
}

// Neither codes nor passphrases nor arguments get into the log.
func TestLog_has_no_secrets(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "write_file", "mutation", `{"secret":"ARGUMENT"}`))
	var b strings.Builder
	c, err := console.New(console.Config{Service: d.service, Sessions: d.sessions, Port: port, Now: d.now, Log: slog.New(slog.NewTextHandler(&b, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d.console = c
	d.get("/login?code=C0DE")
	d.decide("a-1", "approve", "PASSPHRASE")
	d.do(d.request(http.MethodGet, "/x?y=FORGED%0Aline", nil))
	for _, secret := range []string{"C0DE", "PASSPHRASE", "ARGUMENT", "FORGED", d.cookie} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("the log has %s:\n%s", secret, b.String())
		}
	}
	if !strings.Contains(b.String(), "route=/approvals/{id}/approve") {
		t.Error(b.String())
	}
}
