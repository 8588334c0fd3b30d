package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"parley/actors"
	"parley/cmd/parley/program"
	parleyhttp "parley/http"
	"parley/http/egress"
	"parley/http/httpserver"
	"parley/persistence"
)

// metric is one metric without a label of its own: its name, and where its value is in
// numbers S that were taken at one instant.
type metric[S any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(S) float64
}

func counter[S any, N number](name, help string, value func(S) N) metric[S] {
	return metric[S]{name, help, prometheus.CounterValue, func(s S) float64 { return float64(value(s)) }}
}

func gauge[S any, N number](name, help string, value func(S) N) metric[S] {
	return metric[S]{name, help, prometheus.GaugeValue, func(s S) float64 { return float64(value(s)) }}
}

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// collector exposes the metrics of one set of numbers, which it takes once per scrape.
// Nothing is counted twice, and the code that runs knows nothing of metrics.
type collector[S any] struct {
	// take gives the numbers, each with the value of label; without a label, one.
	take    func(each func(S, ...string))
	metrics []metric[S]
	descs   []*prometheus.Desc
}

func newCollector[S any](label string, take func(each func(S, ...string)), lines ...metric[S]) *collector[S] {
	s := &collector[S]{take: take, metrics: lines}
	var labels []string
	if label != "" {
		labels = []string{label}
	}
	for _, l := range lines {
		s.descs = append(s.descs, prometheus.NewDesc(l.name, l.help, labels, nil))
	}
	return s
}

// newSingleCollector makes a collector of numbers without a label.
func newSingleCollector[S any](take func() S, lines ...metric[S]) *collector[S] {
	return newCollector("", func(each func(S, ...string)) { each(take()) }, lines...)
}

// Describe names the metrics.
func (s *collector[S]) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		to <- d
	}
}

// Collect takes the numbers.
func (s *collector[S]) Collect(to chan<- prometheus.Metric) {
	s.take(func(stats S, labels ...string) {
		for i, l := range s.metrics {
			to <- prometheus.MustNewConstMetric(s.descs[i], l.kind, l.value(stats), labels...)
		}
	})
}

// Sources are the parts of a server that have metrics.
type Sources struct {
	Store    *persistence.Store
	Node     *actors.Node
	HTTP     *httpserver.Server
	Service  *parleyhttp.Service
	Webhooks *egress.Sender
	Requests *RequestMeter
}

// metricsOf returns all metrics of a server.
func Metrics(from Sources) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_build_info", Help: "1; which software runs.", ConstLabels: prometheus.Labels{"version": program.ThisBuild().Version},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, from.Requests, journalCollector(from.Store), syncCollector{from.Store}, storeCollector(from.Store, from.Node), actorCollector(from.Node), httpCollector(from.HTTP), streamCollector(from.Service),
	)
	r.MustRegister(webhookCollectors(from.Node, from.Webhooks)...)
	return r
}

func actorCollector(node *actors.Node) prometheus.Collector {
	return newSingleCollector(node.Stats,
		gauge("parley_actors_live", "Actors in memory.", func(s actors.Stats) int { return s.Live }),
		counter("parley_actors_begun_total", "Lives of actors that began.", func(s actors.Stats) uint64 { return s.Activations }),
		counter("parley_mailbox_refusals_total", "Requests that the full mailbox of an actor did not take.", func(s actors.Stats) uint64 { return s.Refused }),
		counter("parley_ask_timeouts_total", "Requests whose caller was told that the outcome is not known.", func(s actors.Stats) uint64 { return s.Overdue }),
		counter("parley_words_quarantined_total", "Stored words to actors that could not be decoded and were put into quarantine.", func(s actors.Stats) uint64 { return s.Quarantined }),
		gauge("parley_marks_waiting", "Marks of streams that are gathered and not yet written.", func(s actors.Stats) int { return s.Receipts }),
	)
}

func httpCollector(doors *httpserver.Server) prometheus.Collector {
	return newSingleCollector(doors.Load,
		gauge("parley_http_requests_in_flight", "Requests that are being answered.", func(l httpserver.Load) int { return l.InFlight }),
		gauge("parley_http_connections_open", "Open connections, streams included.", func(l httpserver.Load) int { return l.Connections }),
		gauge("parley_http_connections_max", "Connections that may be open.", func(l httpserver.Load) int { return l.ConnectionsMax }),
		gauge("parley_http_connections_per_address_max", "Connections that one address may have.", func(l httpserver.Load) int { return l.PerAddressMax }),
		gauge("parley_http_addresses", "Addresses that connections come from.", func(l httpserver.Load) int { return l.Addresses }),
		counter("parley_http_connections_evicted_total", "Connections that were closed for others.", func(l httpserver.Load) uint64 { return l.Exceeded.Evicted }),
		counter("parley_http_connections_refused_total", "Connections that were refused because there was no room.", func(l httpserver.Load) uint64 { return l.Exceeded.Refused }),
		gauge("parley_http_held_bytes", "Bytes that large bodies and answers hold which are under way.", func(l httpserver.Load) int64 { return l.Held.Held }),
		gauge("parley_http_held_bytes_peak", "The most bytes that they have held since the start.", func(l httpserver.Load) int64 { return l.Held.Peak }),
		gauge("parley_http_held_bytes_max", "Bytes that they may hold.", func(l httpserver.Load) int64 { return l.Held.Total }),
		gauge("parley_http_held_callers", "Organizations and addresses that they are for.", func(l httpserver.Load) int { return l.Held.Callers }),
		counter("parley_http_held_ended_total", "Requests that were ended because they held much and others wanted some of it.", func(l httpserver.Load) uint64 { return l.Held.Ended }),
		counter("parley_http_held_refusals_total", "Bodies and answers that were refused because their caller, or all together, held too much.", func(l httpserver.Load) uint64 { return l.Held.Refused }),
	)
}

func streamCollector(service *parleyhttp.Service) prometheus.Collector {
	return newSingleCollector(service.StreamStats,
		gauge("parley_streams_open", "Open agent streams.", func(s parleyhttp.StreamStats) int { return s.Open }),
		counter("parley_streams_opened_total", "Agent streams that were opened.", func(s parleyhttp.StreamStats) uint64 { return s.Opened }),
		gauge("parley_streams_lagging", "Streams that wait for their reader, or catch up from the disk.", func(s parleyhttp.StreamStats) int { return s.Lagging }),
		counter("parley_stream_events_total", "Events written to streams, heartbeats apart.", func(s parleyhttp.StreamStats) uint64 { return s.Events }),
	)
}
