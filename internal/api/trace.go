package api

import (
	"context"
	"errors"
	"math"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TracingOptions say where traces go.
type TracingOptions struct {
	// Endpoint is the URL that spans are sent to by OTLP over HTTP, https://NAME/v1/traces.
	Endpoint string
	// Client sends them; it decides which hosts are reached.
	Client *http.Client
	// Share is how many of the requests that come without a decision of their caller's are traced, from 0 to 1.
	Share   float64
	Version string
}

// Tracing makes spans of requests and sends them on. Spans have what records have: no argument, no secret, no path.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	carry    propagation.TraceContext // no baggage: it is the caller's to fill
}

// NewTracing returns tracing. Shutdown must be called in the end. Nothing is sent yet.
func NewTracing(ctx context.Context, o TracingOptions) (*Tracing, error) {
	if o.Endpoint == "" || o.Client == nil || math.IsNaN(o.Share) || o.Share < 0 || o.Share > 1 {
		return nil, errors.New("tracing needs an endpoint, a client, and a share from 0 to 1")
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithHTTPClient(o.Client))
	if err != nil {
		return nil, err
	}
	p := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Share))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "counterfoil"), attribute.String("service.version", o.Version))),
	)
	return &Tracing{provider: p, tracer: p.Tracer("counterfoil")}, nil
}

// Shutdown sends what is left.
func (t *Tracing) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Transport returns a transport that tells upstreams which trace a request is of, in traceparent.
func (t *Tracing) Transport(base http.RoundTripper) http.RoundTripper { return &carrier{t, base} }

type carrier struct {
	*Tracing
	base http.RoundTripper
}

// RoundTrip sends the request on.
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if trace.SpanContextFromContext(ctx).IsValid() {
		r = r.Clone(ctx)
		c.carry.Inject(ctx, propagation.HeaderCarrier(r.Header))
	}
	return c.base.RoundTrip(r)
}

// trace begins the span of a request and returns its end.
func (a *API) trace(x *exchange) func(*exchange, *recorder) {
	t := a.o.Tracing
	if t == nil {
		return func(*exchange, *recorder) {}
	}
	ctx := t.carry.Extract(x.r.Context(), propagation.HeaderCarrier(x.r.Header))
	ctx, span := t.tracer.Start(ctx, methodOf(x)+" "+patternOf(x), trace.WithSpanKind(trace.SpanKindServer))
	x.r = x.r.WithContext(ctx)
	x.trace = span.SpanContext().TraceID().String()
	return func(x *exchange, rec *recorder) {
		span.SetAttributes(attribute.String("http.request.method", methodOf(x)), attribute.String("http.route", patternOf(x)),
			attribute.Int("http.response.status_code", rec.status), attribute.String("counterfoil.request", x.id))
		if x.problem != nil {
			span.SetAttributes(attribute.String("error.type", string(x.problem.Code)))
		}
		if rec.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
