package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"parley/actors"
	"parley/cluster"
	"parley/cmd/parley/program"
	parleyhttp "parley/http"
	"parley/http/egress"
	"parley/http/httpserver"
	"parley/http/streams"
	"parley/persistence"
)

// metric describes one metric and reads its value from the statistics S, a snapshot
// taken at one instant.
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

// collector exposes the metrics of one kind of statistics, which it reads once per
// scrape. The measured packages do not import Prometheus.
type collector[S any] struct {
	// take calls each once per snapshot, with the snapshot and the values of its labels.
	take    func(each func(S, ...string))
	metrics []metric[S]
	descs   []*prometheus.Desc
}

func newCollector[S any](labels []string, take func(each func(S, ...string)), metrics ...metric[S]) *collector[S] {
	s := &collector[S]{take: take, metrics: metrics}
	for _, l := range metrics {
		s.descs = append(s.descs, prometheus.NewDesc(l.name, l.help, labels, nil))
	}
	return s
}

// newSingleCollector returns a collector of statistics without a label.
func newSingleCollector[S any](take func() S, metrics ...metric[S]) *collector[S] {
	return newCollector(nil, func(each func(S, ...string)) { each(take()) }, metrics...)
}

// oneIf is the value of a gauge that says whether something is so.
func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (s *collector[S]) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
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
	// Cluster, if set, has the numbers of a node of a cluster, once that has started.
	Cluster func() (cluster.Stats, bool)
}

// Metrics returns a registry with all metrics of a server.
func Metrics(from Sources) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_build_info", Help: "Always 1; the label is the version of the server.", ConstLabels: prometheus.Labels{"version": program.ThisBuild().Version},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, from.Requests, journalCollector(from.Store), syncCollector(from.Store), storeCollector(from.Store, from.Node), actorCollector(from.Node), httpCollector(from.HTTP), serviceCollector(from.Service),
	)
	r.MustRegister(webhookCollectors(from.Node, from.Webhooks)...)
	if from.Cluster != nil {
		r.MustRegister(clusterCollectors(from.Cluster)...)
	}
	return r
}

func actorCollector(node *actors.Node) prometheus.Collector {
	return newSingleCollector(node.Stats,
		gauge("parley_actors_live", "Actors in memory.", func(s actors.Stats) int { return s.Live }),
		counter("parley_actors_begun_total", "Actors loaded into memory.", func(s actors.Stats) uint64 { return s.Activations }),
		counter("parley_mailbox_refusals_total", "Requests rejected because the actor's mailbox was full.", func(s actors.Stats) uint64 { return s.Refused }),
		counter("parley_ask_timeouts_total", "Requests answered with outcome_unknown.", func(s actors.Stats) uint64 { return s.Overdue }),
		counter("parley_actor_messages_quarantined_total", "Messages between actors that could not be decoded and were moved to quarantine.", func(s actors.Stats) uint64 { return s.Quarantined }),
		gauge("parley_receipts_waiting", "Receipts of streams that are not yet written.", func(s actors.Stats) int { return s.Receipts }),
	)
}

func httpCollector(server *httpserver.Server) prometheus.Collector {
	return newSingleCollector(server.Load,
		gauge("parley_http_requests_in_flight", "Requests in flight.", func(l httpserver.Load) int { return l.InFlight }),
		gauge("parley_http_connections_open", "Open connections, streams included.", func(l httpserver.Load) int { return l.Connections }),
		gauge("parley_http_connections_max", "Maximum of open connections.", func(l httpserver.Load) int { return l.ConnectionsMax }),
		gauge("parley_http_connections_per_address_max", "Maximum of open connections of one client address.", func(l httpserver.Load) int { return l.PerAddressMax }),
		gauge("parley_http_addresses", "Client addresses with open connections.", func(l httpserver.Load) int { return l.Addresses }),
		counter("parley_http_connections_evicted_total", "Idle connections closed to make room for others.", func(l httpserver.Load) uint64 { return l.Exceeded.Evicted }),
		counter("parley_http_connections_refused_total", "Connections rejected because the maximum was reached.", func(l httpserver.Load) uint64 { return l.Exceeded.Refused }),
		gauge("parley_http_held_bytes", "Bytes held by large requests and answers in flight.", func(l httpserver.Load) int64 { return l.Held.Held }),
		gauge("parley_http_held_bytes_peak", "Maximum of parley_http_held_bytes since the start.", func(l httpserver.Load) int64 { return l.Held.Peak }),
		gauge("parley_http_held_bytes_max", "Limit of parley_http_held_bytes.", func(l httpserver.Load) int64 { return l.Held.Total }),
		gauge("parley_http_held_callers", "Organizations and addresses whose requests and answers hold bytes.", func(l httpserver.Load) int { return l.Held.Callers }),
		counter("parley_http_held_ended_total", "Requests ended to free held bytes for other callers.", func(l httpserver.Load) uint64 { return l.Held.Ended }),
		counter("parley_http_held_refusals_total", "Requests and answers rejected because the caller or the server reached its limit of held bytes.", func(l httpserver.Load) uint64 { return l.Held.Refused }),
	)
}

func serviceCollector(service *parleyhttp.Service) prometheus.Collector {
	return newSingleCollector(service.StreamStats,
		gauge("parley_ready", "1 while GET /readyz is 200, 0 while a load balancer should send no requests.", func(streams.Stats) int { return oneIf(service.IsReady()) }),
		gauge("parley_streams_open", "Open agent streams.", func(s streams.Stats) int { return s.Open }),
		counter("parley_streams_opened_total", "Agent streams opened.", func(s streams.Stats) uint64 { return s.Opened }),
		gauge("parley_streams_lagging", "Streams that wait for a slow client or read a backlog from disk.", func(s streams.Stats) int { return s.Lagging }),
		counter("parley_stream_events_total", "Events written to streams, without heartbeats.", func(s streams.Stats) uint64 { return s.Events }),
	)
}
