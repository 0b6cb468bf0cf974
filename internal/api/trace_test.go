package api_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil/internal/api"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A caller's trace goes on in the server's span and to upstreams; what spans have is what records have.
func TestTracing(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&sent, r.Body) }))
	defer collector.Close()
	tracing, err := api.NewTracing(t.Context(), api.TracingOptions{Endpoint: collector.URL + "/v1/traces", Client: collector.Client(), Share: 1, Version: "test"})
	must(t, err)
	seen := make(chan http.Header, 1)
	behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	defer behind.Close()
	client := &http.Client{Transport: tracing.Transport(http.DefaultTransport)}
	w := setup(t, func(w *world) {
		w.opts.Tracing = tracing
		w.opts.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			q, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, behind.URL, http.NoBody)
			if resp, err := client.Do(q); err == nil {
				_ = resp.Body.Close()
			}
		})
	})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	w.want(200, "POST", "/mcp?planted=query", w.agent("tools:*"), `{"planted":"body"}`, "traceparent", "00-"+trace+"-b7ad6b7169203331-01", "baggage", "planted=baggage")
	h := <-seen
	if !strings.Contains(h.Get("traceparent"), trace) || strings.Contains(h.Get("traceparent"), "b7ad6b7169203331") || h.Get("baggage") != "" {
		t.Fatalf("passed on: %v", h)
	}
	if !strings.Contains(w.log.String(), `"trace":"`+trace) {
		t.Fatal(w.log)
	}
	must(t, tracing.Shutdown(t.Context()))
	if out := sent.String(); !strings.Contains(out, "POST /mcp") || strings.Contains(out, "planted") {
		t.Fatalf("sent: %q", out)
	}
	for _, o := range []api.TracingOptions{{}, {Endpoint: "x", Client: client, Share: 2}, {Endpoint: "x", Client: client, Share: -1}} {
		if _, err := api.NewTracing(t.Context(), o); err == nil {
			t.Errorf("%+v: made", o)
		}
	}
}

// A cause is told to the log with what looks like a credential masked, and to no caller; that of a call isn't logged here.
func TestRecord_causes(t *testing.T) {
	t.Parallel()
	w := setup(t, func(w *world) { w.opts.Limiter = brokenLimiter{} })
	w.want(503, "GET", "/v1/tools", w.agent("tools:*"), "")
	if !strings.Contains(w.log.String(), "the store is gone") {
		t.Fatal(w.log)
	}
	status, code := api.StatusOf(&gateway.Refusal{Reason: gateway.UpstreamUnavailable, Err: io.ErrUnexpectedEOF})
	if status != 502 || code != "upstream_unavailable" {
		t.Fatal(status, code)
	}
}
