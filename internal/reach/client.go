package reach

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
)

const (
	clientTimeout = 30 * time.Second
	tlsTimeout    = 10 * time.Second
	idleTimeout   = 90 * time.Second
	idlePerHost   = 16
	idleTotal     = 256
	maxBody       = 8 << 20
	maxHeader     = 64 << 10
	maxRedirects  = 5
)

// TransportOptions are what a Transport is made of.
type TransportOptions struct {
	// Dialer opens the connections. Required.
	Dialer *Dialer
	// MaxHeader bounds a response's header, in bytes. 0 is 64 KiB.
	MaxHeader int64
	// Roots are the certificate authorities that are trusted; nil are the system's.
	Roots *x509.CertPool
	// Proxy, if not zero, is asked for everything. It resolves the names, so it must check their addresses itself: here only
	// hosts that are written as addresses are checked. The environment's proxies are never used.
	Proxy URL
}

// A Transport holds the connections that clients share. It is safe for concurrent use.
type Transport struct {
	base   *http.Transport
	dialer *Dialer
}

// NewTransport returns a transport.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.Dialer == nil || o.MaxHeader < 0 {
		return nil, bad("a transport needs a dialer, and a bound of headers that is not negative")
	}
	if o.MaxHeader == 0 {
		o.MaxHeader = maxHeader
	}
	base := &http.Transport{
		DialContext:            o.Dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		TLSHandshakeTimeout:    tlsTimeout,
		DisableCompression:     true, // what is counted is what is read: nothing inflates
		MaxIdleConns:           idleTotal,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: o.MaxHeader,
		ForceAttemptHTTP2:      true,
	}
	if !o.Proxy.IsZero() {
		proxy, err := url.Parse(o.Proxy.Origin())
		if err != nil {
			return nil, bad("the proxy is no URL")
		}
		base.Proxy = http.ProxyURL(proxy)
	}
	return &Transport{base: base, dialer: o.Dialer}, nil
}

// Close closes the connections that nothing uses. The transport can still be used.
func (t *Transport) Close() { t.base.CloseIdleConnections() }

// ClientOptions are what a client may do.
type ClientOptions struct {
	// Domains are the hosts that may be asked, by redirects too. The zero list covers nothing.
	Domains DomainAllowlist
	// MaxBody bounds the body of a response, in bytes. 0 is 8 MiB, less than 0 is no bound: whoever reads must count.
	MaxBody int64
	// Timeout bounds an exchange from the dial to the end of the body. 0 is 30 s, less than 0 is no bound but the request's
	// context: for streams.
	Timeout time.Duration
}

// Client returns a client that asks the listed hosts alone, over the connections of t.
//
// Each request, redirected ones too, is judged by [ParseURL] and the list; a Host header that isn't the URL's is refused. GET
// and HEAD follow at most 5 redirects, never from https to http; other methods, and what has a body, get the redirect as
// their response, so a body is never sent twice. When scheme, host or port change, only headers that say what answer is wanted go along:
// no credentials, known or not. There are no cookies and no Referer.
//
// Errors come in an [*url.Error], which repeats the URL. Inside are [counterfoil.CodePolicyDenied] (nothing was sent to
// that host), CodeInvalidInput (no acceptable URL) or CodeUnavailable; a redirect that is refused or fails is a [*RedirectError]. A body
// over its bound ends with CodeExecutionFailed.
func (t *Transport) Client(o ClientOptions) *http.Client {
	switch {
	case o.MaxBody == 0:
		o.MaxBody = maxBody
	case o.MaxBody < 0:
		o.MaxBody = -1
	}
	switch {
	case o.Timeout == 0:
		o.Timeout = clientTimeout
	case o.Timeout < 0:
		o.Timeout = 0
	}
	return &http.Client{
		Transport:     &gate{transport: t, domains: o.Domains, maxBody: o.MaxBody},
		CheckRedirect: checkRedirect,
		Timeout:       o.Timeout,
	}
}

// A RedirectError says which redirect was refused or failed. The hosts before it were asked.
type RedirectError struct {
	Hop  int    // from 1
	Host string // where it would have led; "" if that is no acceptable URL
	Err  error
}

// Error returns one sentence without the URL.
func (e *RedirectError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("redirect %d, to no acceptable URL: %v", e.Hop, e.Err)
	}
	return fmt.Sprintf("redirect %d, to %s: %v", e.Hop, e.Host, e.Err)
}

// Unwrap returns the cause, which has a code.
func (e *RedirectError) Unwrap() error { return e.Err }

// gate lets through what the list covers.
type gate struct {
	transport *Transport
	domains   DomainAllowlist
	maxBody   int64
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := g.admit(req)
	if err != nil {
		if req.Body != nil {
			err = errors.Join(err, req.Body.Close())
		}
		return nil, hop(req, err)
	}
	resp, err := g.transport.base.RoundTrip(out)
	if err != nil {
		return nil, hop(req, err)
	}
	if g.maxBody >= 0 {
		if resp.ContentLength > g.maxBody {
			return nil, errors.Join(tooLarge(), resp.Body.Close())
		}
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: g.maxBody}
	}
	return resp, nil
}

// admit judges a request and returns the one to send, whose host is the one that was judged.
func (g *gate) admit(req *http.Request) (*http.Request, error) {
	u, err := judge(req.URL)
	switch {
	case err != nil:
		return nil, err
	case req.Host != "" && req.Host != req.URL.Host && req.Host != u.authority():
		return nil, bad("the Host header isn't the URL's host")
	case !g.domains.Covers(u):
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the host is not on the list"}
	}
	// A proxy would dial for us: at least addresses that are written out are judged here.
	if a, ok := u.addr(); ok && !g.transport.dialer.judge.permits(a) {
		return nil, &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: "the host's address is not public and not listed"}
	}
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = u.scheme, u.authority(), ""
	return out, nil
}

// judge reads a URL that net/url has taken apart, as net/http would send it.
func judge(u *url.URL) (URL, error) {
	switch {
	case u == nil || u.Opaque != "" || u.Path != "" && u.Path[0] != '/' || strings.ContainsAny(u.Host, "/?#"):
		return URL{}, bad("the URL has no host, or not in its place")
	case u.User != nil:
		return URL{}, bad("the URL has user info before its host")
	}
	return ParseURL(u.Scheme + "://" + u.Host + u.RequestURI())
}

// hop names the redirect that led to a request, if one did.
func hop(req *http.Request, err error) error {
	n := 0
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		n++
	}
	if n == 0 {
		return err
	}
	return &RedirectError{Hop: n, Host: hostOf(req), Err: err}
}

func hostOf(req *http.Request) string {
	u, err := judge(req.URL)
	if err != nil {
		return ""
	}
	return u.Host()
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	bodiless := first.Body == nil || first.Body == http.NoBody
	if first.Method != http.MethodGet && first.Method != http.MethodHead || !bodiless {
		return http.ErrUseLastResponse
	}
	refuse := func(msg string) error {
		return &RedirectError{Hop: len(via), Host: hostOf(req), Err: &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: msg}}
	}
	if len(via) > maxRedirects {
		return refuse("there are too many redirects")
	}
	if via[len(via)-1].URL.Scheme == schemeHTTPS && req.URL.Scheme != schemeHTTPS {
		return refuse("it leads from https to something weaker")
	}
	req.Header.Del("Referer") // may hold secrets of the query
	for _, r := range append(via, req) {
		// A host that was left once gets nothing back: the way there is a stranger's.
		if !sameOrigin(first.URL, r.URL) {
			req.Header = harmless(req.Header)
			break
		}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	x, errX := judge(a)
	y, errY := judge(b)
	return errX == nil && errY == nil && x.Origin() == y.Origin()
}

// harmless keeps the headers that say what answer is wanted.
func harmless(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "If-Modified-Since", "If-None-Match", "Range"} {
		if values := h.Values(name); len(values) != 0 {
			kept[name] = values
		}
	}
	return kept
}

func tooLarge() error {
	return &counterfoil.Error{Code: counterfoil.CodeExecutionFailed, Msg: "the response is larger than allowed"}
}

// boundedBody ends with an error instead of the byte after the last allowed one. A body that ends there ends well.
type boundedBody struct {
	io.ReadCloser

	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, tooLarge()
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) <= b.left {
		b.left -= int64(n)
		return n, err
	}
	n, b.left = int(b.left), -1
	return n, tooLarge()
}
