package api_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/api"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestNewServer_rejects(t *testing.T) {
	t.Parallel()
	w := setup(t)
	base := api.ServerOptions{API: w.api, Grace: time.Second, Logger: quiet()}
	for listen, ok := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "192.0.2.1:0": false, "gate.test:0": false, "127.0.0.1": false, "": false, "localhost.evil.test:0": false,
	} {
		o := base
		o.Listen = listen
		if _, err := api.NewServer(o); (err == nil) != ok {
			t.Errorf("%q: %v", listen, err)
		}
	}
	o := base
	o.Listen, o.TLSTerminated = "0.0.0.0:0", true
	if _, err := api.NewServer(o); err != nil {
		t.Error(err)
	}
	o.Certificate, o.Key = "c", "k"
	if _, err := api.NewServer(o); err == nil {
		t.Error("TLS at both ends")
	}
	o.TLSTerminated, o.Key = false, ""
	if _, err := api.NewServer(o); err == nil {
		t.Error("a certificate without a key")
	}
}

// writePair writes a certificate with a serial number, and its key.
func writePair(t *testing.T, dir string, serial int64) (certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gate"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, &k.PublicKey, k)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	return certificate, key
}

// A running server.
type running struct {
	addr  string
	stop  context.CancelFunc
	now   chan struct{}
	ended chan error
}

func (w *world) serve(o api.ServerOptions) *running {
	w.t.Helper()
	o.API, o.Listen, o.Logger = w.api, "127.0.0.1:0", quiet()
	s, err := api.NewServer(o)
	must(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	l, err := s.Listen(ctx)
	must(w.t, err)
	r := &running{addr: l.Addr().String(), stop: stop, now: make(chan struct{}), ended: make(chan error, 1)}
	go func() { r.ended <- s.Serve(ctx, l, r.now) }()
	w.t.Cleanup(stop)
	return r
}

// The certificate is read again when it changes; one that can't be read leaves the last good one.
func TestServer_certificate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	dir := t.TempDir()
	c, k := writePair(t, dir, 1)
	r := w.serve(api.ServerOptions{Certificate: c, Key: k, Grace: time.Second})
	serial := func() int64 {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := d.DialContext(t.Context(), "tcp", r.addr)
		must(t, err)
		defer func() { _ = conn.Close() }()
		c, ok := conn.(*tls.Conn)
		if !ok {
			t.Fatal("no TLS")
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if serial() != 1 {
		t.Fatal("another certificate")
	}
	writePair(t, dir, 2)
	must(t, os.Chtimes(c, time.Now(), time.Now().Add(time.Minute)))
	w.advance(time.Minute)
	if got := serial(); got != 2 {
		t.Fatalf("certificate %d after a change", got)
	}
	must(t, os.WriteFile(c, []byte("broken"), 0o600))
	w.advance(time.Minute)
	if got := serial(); got != 2 {
		t.Fatalf("certificate %d after a broken change", got)
	}
	r.stop()
	must(t, <-r.ended)
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// The server stops in its order: not ready, streams, requests; and it does so while streams are open.
func TestServer_stops(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	opened := make(chan struct{}, 50)
	w := setup(t, func(w *world) {
		w.opts.MCP = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(rw).Flush()
			opened <- struct{}{}
			select {
			case <-end:
				_, _ = io.WriteString(rw, "closing")
			case <-r.Context().Done():
			}
		})
	})
	readyAtEnd := -1
	r := w.serve(api.ServerOptions{Grace: 5 * time.Second, Drain: 100 * time.Millisecond, Streams: []func(context.Context) error{func(context.Context) error {
		readyAtEnd = w.send("GET", "/readyz", "", "").status
		close(end)
		return nil
	}}})
	bodies := make(chan string, 50)
	for range 50 {
		go func() {
			q, _ := http.NewRequest(http.MethodPost, "http://"+r.addr+"/mcp", strings.NewReader("{}"))
			q.Header.Set("Authorization", "Bearer "+w.agent("tools:*"))
			resp, err := http.DefaultClient.Do(q)
			if err != nil {
				bodies <- err.Error()
				return
			}
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			bodies <- string(b)
		}()
	}
	for range 50 {
		<-opened
	}
	if status, _ := fetch(t, "http://"+r.addr+"/readyz"); status != 200 {
		t.Fatalf("ready: %d", status)
	}
	r.stop()
	for {
		status, body := fetch(t, "http://"+r.addr+"/readyz")
		if status == 503 {
			break // it is still served, and says no
		}
		if status != 200 {
			t.Fatalf("while it drains: %d %s", status, body)
		}
	}
	must(t, <-r.ended)
	for range 50 {
		if b := <-bodies; b != "closing" {
			t.Fatalf("a stream ended with %q", b)
		}
	}
	if readyAtEnd != 503 {
		t.Fatalf("readyz said %d when streams were ended", readyAtEnd)
	}
}

// A second signal cuts what is left.
func TestServer_stopsNow(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{}, 1)
	w := setup(t, func(w *world) {
		w.opts.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			opened <- struct{}{}
			<-r.Context().Done()
		})
	})
	r := w.serve(api.ServerOptions{Grace: time.Hour, Drain: time.Hour})
	go func() {
		q, _ := http.NewRequest(http.MethodPost, "http://"+r.addr+"/mcp", strings.NewReader("{}"))
		q.Header.Set("Authorization", "Bearer "+w.agent("tools:*"))
		if resp, err := http.DefaultClient.Do(q); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-opened
	r.stop()
	close(r.now)
	select {
	case err := <-r.ended:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

// A handler that panics is a 500 with a record, and the panic's words are in neither.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := setup(t, func(w *world) {
		w.opts.MCP = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("planted-secret") })
	})
	if a := w.want(500, "POST", "/mcp", w.agent("tools:*"), "{}"); a.code(t) != "internal" || strings.Contains(a.body+w.log.String(), "planted-secret") {
		t.Fatalf("%v\n%s", a, w.log)
	}
}

// Metrics have names of the table and no caller's words.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(200, "GET", "/v1/tools", w.agent("tools:read"), "")
	w.want(401, "PLANTED", "/planted-path?planted=1", "planted-token", "")
	rec := recorderOf(w.api.Metrics(), "/metrics")
	for _, want := range []string{
		`counterfoil_http_requests_total{method="GET",route="/v1/tools",status="200"} 1`,
		`counterfoil_http_requests_total{method="other",route="none",status="401"} 1`,
		`counterfoil_http_refused_total{code="credential-invalid",gate="authenticate"} 1`,
		"counterfoil_ready 1", "counterfoil_http_requests_in_flight 0", `counterfoil_build_info{version="test"} 1`,
	} {
		if !strings.Contains(rec, want) {
			t.Errorf("there is no %s in\n%s", want, rec)
		}
	}
	if strings.Contains(rec, "planted") || strings.Contains(rec, acme) {
		t.Fatal(rec)
	}
}

func recorderOf(h http.Handler, target string) string {
	var b bytes.Buffer
	r, _ := http.NewRequest(http.MethodGet, target, http.NoBody)
	h.ServeHTTP(&writer{h: http.Header{}, b: &b}, r)
	return b.String()
}

type writer struct {
	h http.Header
	b *bytes.Buffer
}

func (w *writer) Header() http.Header         { return w.h }
func (w *writer) WriteHeader(int)             {}
func (w *writer) Write(b []byte) (int, error) { return w.b.Write(b) }
