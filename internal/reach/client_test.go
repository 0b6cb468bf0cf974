package reach_test

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/reach"
)

// A web is a few servers on loopback, and what they were asked.
type web struct {
	t     *testing.T
	names *names
	roots *x509.CertPool
	list  []string

	mu    sync.Mutex
	asked []*http.Request
}

func newWeb(t *testing.T) *web {
	return &web{t: t, names: &names{answers: map[string][]string{}}, roots: x509.NewCertPool()}
}

// serve starts a server under a name, lists it and returns its origin. answer gets requests after they were noted.
func (w *web) serve(name string, secure bool, answer http.HandlerFunc) string {
	w.t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked = append(w.asked, r)
		w.mu.Unlock()
		answer(rw, r)
	}))
	scheme := "http"
	if secure {
		scheme = "https"
		s.StartTLS()
		w.roots.AddCert(s.Certificate())
	} else {
		s.Start()
	}
	w.t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, scheme+"://"), ":")
	w.names.answers[name] = []string{"127.0.0.1"}
	w.list = append(w.list, name+":"+port)
	return scheme + "://" + name + ":" + port
}

func (w *web) client(o reach.ClientOptions) *http.Client {
	w.t.Helper()
	tr, err := reach.NewTransport(reach.TransportOptions{Dialer: dialer(w.t, reach.DialOptions{Resolver: w.names, Private: loopback}), Roots: w.roots})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(tr.Close)
	o.Domains = domains(w.t, w.list...)
	return tr.Client(o)
}

// hosts returns the Host headers of what was asked, and forgets them.
func (w *web) hosts() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, r := range w.asked {
		name, _, _ := strings.Cut(r.Host, ":")
		all = append(all, r.Method+" "+name)
	}
	w.asked = nil
	return strings.Join(all, ", ")
}

func (w *web) last() *http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) == 0 {
		w.t.Fatal("nothing was asked")
	}
	return w.asked[len(w.asked)-1]
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func redirect(to string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}
}

func ask(t *testing.T, c *http.Client, method, address, body string, header http.Header) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body == "" {
		req.Body = http.NoBody
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b)), err
}

func TestClient_hosts(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	good := w.serve("good.test", false, ok)
	secure := w.serve("example.com", true, ok) // the name in httptest's certificate
	wrong := w.serve("wrong.test", true, ok)
	intern := w.serve("k\u00f6ln.test", false, ok)
	w.names.answers["xn--kln-sna.test"] = []string{"127.0.0.1"}
	w.names.answers["inner.test"] = []string{"10.0.0.1"}
	w.names.answers["unlisted.test"] = []string{"127.0.0.1"}
	w.list = append(w.list, "inner.test", "127.0.0.1", "10.0.0.1", "[::1]")
	c := w.client(reach.ClientOptions{})
	for _, address := range []string{good, good + "/x?y#z", secure, intern, strings.Replace(good, "good.test", "GOOD.test.", 1)} {
		if got, err := ask(t, c, http.MethodGet, address, "", nil); err != nil || got != "200 ok" {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
	if got := w.hosts(); got != "GET good.test, GET good.test, GET example.com, GET xn--kln-sna.test, GET good.test" {
		t.Errorf("asked: %s", got)
	}
	if _, err := ask(t, c, http.MethodGet, wrong, "", nil); err == nil || counterfoil.CodeOf(err) == counterfoil.CodePolicyDenied {
		t.Errorf("a certificate for another name: %v", err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(good, "http://"), ":")
	for address, want := range map[string]counterfoil.Code{
		"http://unlisted.test:" + port: counterfoil.CodePolicyDenied, "http://good.test": counterfoil.CodePolicyDenied, "http://127.0.0.1:" + port: counterfoil.CodePolicyDenied,
		"http://inner.test/": counterfoil.CodePolicyDenied, "http://10.0.0.1/": counterfoil.CodePolicyDenied, "http://[::1]/": counterfoil.CodePolicyDenied,
		"ftp://good.test:" + port: counterfoil.CodeInvalidInput, "file:///etc/passwd": counterfoil.CodeInvalidInput, "http://a:b@good.test:" + port: counterfoil.CodeInvalidInput,
		"http://0x7f.1/": counterfoil.CodeInvalidInput, "http://good.test:" + port + "/%": "",
	} {
		_, err := ask(t, c, http.MethodGet, address, "", nil)
		if err == nil || want != "" && counterfoil.CodeOf(err) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if got := w.hosts(); got != "" {
		t.Errorf("asked all the same: %s", got)
	}
	// The zero list covers nothing.
	tr, err := reach.NewTransport(reach.TransportOptions{Dialer: dialer(t, reach.DialOptions{Resolver: w.names, Private: loopback})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, tr.Client(reach.ClientOptions{}), http.MethodGet, good, "", nil); !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("the zero list: %v", err)
	}
}

// Requests that were put together by hand can't ask another host than the one that is judged.
func TestClient_requests(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	good := w.serve("good.test", false, ok)
	w.list = append(w.list, "*")
	c := w.client(reach.ClientOptions{})
	host := strings.TrimPrefix(good, "http://")
	for name, change := range map[string]func(r *http.Request){
		"another Host header":         func(r *http.Request) { r.Host = "evil.test" },
		"opaque":                      func(r *http.Request) { r.URL.Opaque = "//evil.test/" },
		"user info":                   func(r *http.Request) { r.URL.User = url.User("x") },
		"a path in the host":          func(r *http.Request) { r.URL.Host = host + "/x" },
		"user info in host":           func(r *http.Request) { r.URL.Host = "x@" + host },
		"relative path":               func(r *http.Request) { r.URL.Path = "x" },
		"blank in the query":          func(r *http.Request) { r.URL.RawQuery = "a b" },
		"line break in query":         func(r *http.Request) { r.URL.RawQuery = "a\r\nX: y" },
		"opaque path":                 func(r *http.Request) { r.URL.Opaque = "/x" },
		"relative path behind a name": func(r *http.Request) { r.URL.Host, r.URL.Path = "good.test", "x" },
		"no host":                     func(r *http.Request) { r.URL.Host = "" },
		"no scheme":                   func(r *http.Request) { r.URL.Scheme = "" },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, good, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, counterfoil.CodeInvalidInput) && !strings.HasPrefix(name, "no ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.hosts(); got != "" {
		t.Errorf("asked: %s", got)
	}
}

func TestClient_redirects(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	var to string
	start := w.serve("start.test", false, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			ok(rw, r)
			return
		}
		redirect(to, http.StatusFound)(rw, r)
	})
	other := w.serve("other.test", false, ok)
	w.names.answers["inner.test"] = []string{"10.0.0.1"}
	w.list = append(w.list, "inner.test", "file", "start.test:443")
	c := w.client(reach.ClientOptions{})
	for target, want := range map[string]counterfoil.Code{
		other + "/": "", "/x": "", "x": "", strings.TrimPrefix(other, "http:"): "",
		"http://169.254.169.254/latest/meta-data/": counterfoil.CodePolicyDenied,
		"http://127.0.0.1/":                        counterfoil.CodePolicyDenied,
		"http://start.test:22/":                    counterfoil.CodePolicyDenied,
		"http://inner.test/":                       counterfoil.CodePolicyDenied,
		"http://evil.test/":                        counterfoil.CodePolicyDenied,
		"//evil.test/":                             counterfoil.CodePolicyDenied,
		"file:///etc/passwd":                       counterfoil.CodeInvalidInput,
		"gopher://other.test/":                     counterfoil.CodeInvalidInput,
		"http://x@other.test/":                     counterfoil.CodeInvalidInput,
		"http://0177.0.0.1/":                       counterfoil.CodeInvalidInput,
		`http://other.test\@evil.test/`:            counterfoil.CodeInternal, // net/url's own refusal
	} {
		to = target
		got, err := ask(t, c, http.MethodGet, start+"/", "", nil)
		if want == "" {
			if err != nil || got != "200 ok" {
				t.Errorf("%s: %q, %v", target, got, err)
			}
			continue
		}
		if err == nil || want != counterfoil.CodeInternal && counterfoil.CodeOf(err) != want {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		refused, isRedirect := errors.AsType[*reach.RedirectError](err)
		if want != counterfoil.CodeInternal && (!isRedirect || refused.Hop != 1) {
			t.Errorf("%s: %v doesn't name its hop", target, err)
		}
		if isRedirect && want == counterfoil.CodePolicyDenied && !strings.Contains(target, refused.Host) {
			t.Errorf("%s: the host is %q", target, refused.Host)
		}
	}
}

func TestClient_redirectChain(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	start := w.serve("start.test", false, func(rw http.ResponseWriter, r *http.Request) {
		left := len(r.URL.Path) - 1
		if left == 0 {
			ok(rw, r)
			return
		}
		redirect("/"+strings.Repeat("a", left-1), http.StatusMovedPermanently)(rw, r)
	})
	c := w.client(reach.ClientOptions{})
	if got, err := ask(t, c, http.MethodGet, start+"/aaaaa", "", nil); err != nil || got != "200 ok" {
		t.Errorf("five: %q, %v", got, err)
	}
	w.hosts()
	_, err := ask(t, c, http.MethodGet, start+"/aaaaaaaaaaa", "", nil)
	refused, isRedirect := errors.AsType[*reach.RedirectError](err)
	if !isRedirect || refused.Hop != 6 || !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("eleven: %v", err)
	}
	if n := strings.Count(w.hosts(), "GET"); n != 6 {
		t.Errorf("%d requests", n)
	}
}

// What has a body, and what isn't GET or HEAD, isn't sent twice.
func TestClient_redirectMethods(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	other := w.serve("other.test", false, ok)
	for _, status := range []int{301, 302, 303, 307, 308} {
		start := w.serve(fmt.Sprintf("start%d.test", status), false, redirect(other+"/", status))
		c := w.client(reach.ClientOptions{})
		for method, body := range map[string]string{http.MethodPost: "x", http.MethodPut: "", http.MethodDelete: "", http.MethodGet: "x", "PROPFIND": ""} {
			got, err := ask(t, c, method, start, body, http.Header{"Authorization": {"Bearer x"}})
			if err != nil || !strings.HasPrefix(got, fmt.Sprint(status)) {
				t.Errorf("%s %d: %q, %v", method, status, got, err)
			}
		}
		if got := w.hosts(); strings.Contains(got, "other") {
			t.Errorf("%d: asked %s", status, got)
		}
		if _, err := ask(t, c, http.MethodHead, start, "", nil); err != nil || w.last().Method != http.MethodHead {
			t.Errorf("HEAD %d: %v", status, err)
		}
		w.hosts()
	}
}

func TestClient_redirectCredentials(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	end := w.serve("sub.start.test", false, ok)
	secure := w.serve("example.com", true, ok)
	var to string
	start := w.serve("start.test", false, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			ok(rw, r)
			return
		}
		redirect(to, http.StatusFound)(rw, r)
	})
	back := w.serve("back.test", false, redirect(start+"/end", http.StatusFound))
	c := w.client(reach.ClientOptions{})
	sent := http.Header{
		"Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "X-Api-Key": {"k"}, "Private-Token": {"p"}, "Proxy-Authorization": {"q"}, "Mcp-Session-Id": {"s"},
		"Accept": {"text/plain"}, "User-Agent": {"counterfoil"},
	}
	kept := []string{"Accept", "User-Agent"}
	all := []string{"Accept", "Authorization", "Cookie", "Mcp-Session-Id", "Private-Token", "Proxy-Authorization", "User-Agent", "X-Api-Key"}
	for target, want := range map[string][]string{
		"/end": all, start + "/end": all, strings.ToUpper(start[:4]) + start[4:] + "/end": all,
		end: kept, secure: kept, back: kept,
	} {
		to = target
		if got, err := ask(t, c, http.MethodGet, start+"/?secret=1", "", sent); err != nil || got != "200 ok" {
			t.Errorf("%s: %q, %v", target, got, err)
			continue
		}
		var got []string
		for _, name := range append(all, "Referer") {
			if w.last().Header.Get(name) != "" {
				got = append(got, name)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", target, d)
		}
	}
}

func TestClient_redirectDowngrade(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	plain := w.serve("plain.test", false, ok)
	secure := w.serve("example.com", true, redirect(plain, http.StatusFound))
	_, err := ask(t, w.client(reach.ClientOptions{}), http.MethodGet, secure, "", nil)
	if refused, is := errors.AsType[*reach.RedirectError](err); !is || refused.Host != "plain.test" || !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("from https to http: %v", err)
	}
	if got := w.hosts(); got != "GET example.com" {
		t.Errorf("asked: %s", got)
	}
}

// A name that is permitted when the first request is made, and resolves to an inner address when a new connection is.
func TestClient_rebinding(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	address := w.serve("rebind.test", false, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Connection", "close")
		ok(rw, r)
	})
	w.names.answers["rebind.test"] = []string{"127.0.0.1", "169.254.169.254"}
	c := w.client(reach.ClientOptions{})
	if got, err := ask(t, c, http.MethodGet, address, "", nil); err != nil || got != "200 ok" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := ask(t, c, http.MethodGet, address, "", nil); !errors.Is(err, counterfoil.CodePolicyDenied) {
		t.Errorf("after rebinding: %v", err)
	}
}

func TestClient_bounds(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	address := w.serve("big.test", false, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			rw.Header().Set("Content-Length", "1001")
			_, _ = rw.Write(make([]byte, 1001))
		case "/exact":
			_, _ = rw.Write(make([]byte, 1000))
		case "/chunks":
			for range 11 {
				_, _ = rw.Write(make([]byte, 100))
				_ = http.NewResponseController(rw).Flush()
			}
		case "/header":
			rw.Header().Set("X-Big", strings.Repeat("a", 80<<10))
		case "/gzip":
			rw.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(rw)
			_, _ = z.Write(make([]byte, 100_000))
			_ = z.Close()
		case "/slow":
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}
	})
	c := w.client(reach.ClientOptions{MaxBody: 1000})
	for path, want := range map[string]bool{"/length": false, "/exact": true, "/chunks": false, "/header": false, "/gzip": true} {
		got, err := ask(t, c, http.MethodGet, address+path, "", nil)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if path == "/length" || path == "/chunks" {
			if !errors.Is(err, counterfoil.CodeExecutionFailed) || len(got) > len("200 ")+1000 {
				t.Errorf("%s: %v after %d bytes", path, err, len(got))
			}
		}
		if _, early := errors.AsType[*url.Error](err); path == "/length" && !early {
			t.Error("the body was read although its length was known")
		}
		if path == "/gzip" && len(got) > 1000 {
			t.Error("the body was inflated")
		}
	}
	if got := w.last().Header.Get("Accept-Encoding"); got != "" {
		t.Errorf("asked for %q", got)
	}
	if got, err := ask(t, w.client(reach.ClientOptions{MaxBody: -1}), http.MethodGet, address+"/chunks", "", nil); err != nil || len(got) != 1104 {
		t.Errorf("without a bound: %d bytes, %v", len(got), err)
	}
	if _, err := ask(t, w.client(reach.ClientOptions{Timeout: 50 * time.Millisecond}), http.MethodGet, address+"/slow", "", nil); err == nil {
		t.Error("a body that never ends is waited for")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client(reach.ClientOptions{Timeout: -1, MaxBody: -1}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream ends with its context: %v", err)
	}
}

// The environment's proxies are for other programs. Not parallel: it sets the environment.
func TestClient_environment(t *testing.T) {
	w := newWeb(t)
	proxy := w.serve("proxy.test", false, ok)
	good := w.serve("good.test", false, ok)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, strings.Replace(proxy, "proxy.test", "127.0.0.1", 1))
	}
	if _, err := ask(t, w.client(reach.ClientOptions{}), http.MethodGet, good, "", nil); err != nil || w.hosts() != "GET good.test" {
		t.Errorf("asked another: %v", err)
	}
}

func TestClient_proxy(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	proxy := w.serve("proxy.test", false, ok)
	tr, err := reach.NewTransport(reach.TransportOptions{Dialer: dialer(t, reach.DialOptions{Resolver: w.names, Private: loopback}), Proxy: mustURL(t, proxy)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	c := tr.Client(reach.ClientOptions{Domains: domains(t, "good.test", "10.0.0.1")})
	if got, err := ask(t, c, http.MethodGet, "http://good.test/x", "", nil); err != nil || got != "200 ok" || w.last().RequestURI != "http://good.test/x" {
		t.Errorf("%q, %v", got, err)
	}
	w.hosts()
	for _, address := range []string{"http://evil.test/", "http://10.0.0.1/", "https://10.0.0.1/"} {
		if _, err := ask(t, c, http.MethodGet, address, "", nil); !errors.Is(err, counterfoil.CodePolicyDenied) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if got := w.hosts(); got != "" {
		t.Errorf("asked: %s", got)
	}
}

func TestNewTransport_rejects(t *testing.T) {
	t.Parallel()
	for _, o := range []reach.TransportOptions{{}, {Dialer: dialer(t, reach.DialOptions{}), MaxHeader: -1}} {
		if _, err := reach.NewTransport(o); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%v is taken: %v", o, err)
		}
	}
}
