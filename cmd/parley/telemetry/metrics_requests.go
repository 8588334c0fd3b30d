package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"parley/client/parley"
	"parley/http/httpserver"
	"parley/http/rest"
)

// requestBuckets are upper bounds in seconds. A sync or a wait lasts up to a minute.
var requestBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60}

// quotaNames are exposed as 0 until a quota is used up, so that alerts can compare.
var quotaNames = []string{
	"agents", "messages_per_day", "groups", "group_members", "streams_per_agent", "webhooks_per_agent",
	parley.QuotaStoredBytes, parley.QuotaChanges, parley.QuotaInvitations, parley.QuotaInvitationsPerAgent,
	parley.QuotaReports,
}

// RequestMeter counts answers. Counting another answer of a known route and status
// class allocates nothing and takes no lock.
type RequestMeter struct {
	seconds  *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	quotas   *prometheus.CounterVec
	limits   *prometheus.CounterVec
	answers  atomic.Uint64
	routes   sync.Map // of *rest.Route to *routeMeter
}

// routeMeter holds the histograms of one route, by the first digit of the status.
type routeMeter struct {
	classes [len(statusClasses)]atomic.Pointer[timer]
}

type timer struct{ prometheus.Observer }

var statusClasses = [...]string{"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"}

func NewRequestMeter() *RequestMeter {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &RequestMeter{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_http_request_seconds", Buckets: requestBuckets,
			Help: "Time to answer a request, by route and status class, in seconds; for streams, until the stream was open.",
		}, []string{"method", "route", "status"}),
		refusals: count("parley_http_refusals_total", "Requests rejected, by the code of the problem.", "code"),
		quotas:   count("parley_quota_refusals_total", "Requests rejected because a quota was used up.", "quota"),
		limits:   count("parley_rate_limit_refusals_total", "Requests rejected by a rate limit.", "route"),
	}
	for _, name := range quotaNames {
		m.quotas.WithLabelValues(name)
	}
	return m
}

// Answers returns how many answers were counted.
func (m *RequestMeter) Answers() uint64 { return m.answers.Load() }

// Observe counts one answer.
func (m *RequestMeter) Observe(a httpserver.Answer) {
	m.answers.Add(1)
	known, ok := m.routes.Load(a.Route)
	if !ok {
		known, _ = m.routes.LoadOrStore(a.Route, &routeMeter{})
	}
	class := min(max(a.Status/100, 0), len(statusClasses)-1)
	cell := &known.(*routeMeter).classes[class]
	t := cell.Load()
	if t == nil {
		t = &timer{m.seconds.WithLabelValues(methodOf(a.Route), a.Route.Label(), statusClasses[class])}
		cell.Store(t)
	}
	t.Observe(a.Took.Seconds())
	if a.Code == "" {
		return
	}
	m.refusals.WithLabelValues(a.Code).Inc()
	if a.Quota != "" {
		m.quotas.WithLabelValues(a.Quota).Inc()
	}
	if a.Status == statusTooMany {
		m.limits.WithLabelValues(a.Route.Label()).Inc()
	}
}

const statusTooMany = 429

func methodOf(r *rest.Route) string {
	if r == nil {
		return "none"
	}
	return r.Method
}

// Describe names the metrics.
func (m *RequestMeter) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.parts() {
		c.Describe(to)
	}
}

// Collect sends the metrics.
func (m *RequestMeter) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(to)
	}
}

func (m *RequestMeter) parts() []prometheus.Collector {
	return []prometheus.Collector{m.seconds, m.refusals, m.quotas, m.limits}
}
