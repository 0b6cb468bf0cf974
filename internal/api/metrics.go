package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts. Labels are names of the table, statuses, gates and codes: nothing that a caller could choose.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	took     *prometheus.HistogramVec
	flight   prometheus.Gauge
}

// buckets are in seconds: from what a gate takes to what a person takes.
func buckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
}

func newMetrics(version string, ready func() bool) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "counterfoil_http_requests_total", Help: "Requests that were answered.",
		}, []string{"route", "method", "status"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "counterfoil_http_refused_total", Help: "Requests that a gate or a handler refused, by code; the gate is empty for a handler.",
		}, []string{"gate", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "counterfoil_http_request_duration_seconds", Help: "How long requests took, waiting for people included.", Buckets: buckets(),
		}, []string{"route"}),
		flight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "counterfoil_http_requests_in_flight", Help: "Requests that are not answered yet.",
		}),
	}
	isReady := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "counterfoil_ready", Help: "1 while calls are taken."}, func() float64 {
		if ready() {
			return 1
		}
		return 0
	})
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "counterfoil_build_info", Help: "The program's version.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	for _, c := range []prometheus.Collector{
		m.requests, m.refused, m.took, m.flight, isReady, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) begin() { m.flight.Inc() }

func (m *metrics) end(x *exchange, rec *recorder, took time.Duration) {
	m.flight.Dec()
	m.requests.WithLabelValues(patternOf(x), methodOf(x), strconv.Itoa(rec.status)).Inc()
	m.took.WithLabelValues(patternOf(x)).Observe(took.Seconds())
	if x.problem != nil {
		m.refused.WithLabelValues(x.gate, string(x.problem.Code)).Inc()
	}
}

// Metrics returns the handler of /metrics, for a listener of its own: it asks nobody who they are.
func (a *API) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	return mux
}
