package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"parley/actors"
	"parley/cmd/parley/program"
	parleyhttp "parley/http"
	"parley/http/httpserver"
)

// line is one metric without labels of its own: how it is called, and where its
// value lies among numbers that were taken at one instant.
type line[S any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(S) float64
}

func counter[S any, N number](name, help string, value func(S) N) line[S] {
	return line[S]{name, help, prometheus.CounterValue, func(s S) float64 { return float64(value(s)) }}
}

func gauge[S any, N number](name, help string, value func(S) N) line[S] {
	return line[S]{name, help, prometheus.GaugeValue, func(s S) float64 { return float64(value(s)) }}
}

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// sheet is a collector of the lines of one set of numbers, which it takes once
// per scrape: nothing is counted twice, and what runs knows nothing of metrics.
type sheet[S any] struct {
	// take gives the numbers, each with the value of label; without a label, one.
	take  func(each func(S, ...string))
	lines []line[S]
	descs []*prometheus.Desc
}

func newSheet[S any](label string, take func(each func(S, ...string)), lines ...line[S]) *sheet[S] {
	s := &sheet[S]{take: take, lines: lines}
	var labels []string
	if label != "" {
		labels = []string{label}
	}
	for _, l := range lines {
		s.descs = append(s.descs, prometheus.NewDesc(l.name, l.help, labels, nil))
	}
	return s
}

// newPage is a sheet of numbers that come without a label.
func newPage[S any](take func() S, lines ...line[S]) *sheet[S] {
	return newSheet("", func(each func(S, ...string)) { each(take()) }, lines...)
}

// Describe names the metrics.
func (s *sheet[S]) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		to <- d
	}
}

// Collect takes the numbers.
func (s *sheet[S]) Collect(to chan<- prometheus.Metric) {
	s.take(func(stats S, labels ...string) {
		for i, l := range s.lines {
			to <- prometheus.MustNewConstMetric(s.descs[i], l.kind, l.value(stats), labels...)
		}
	})
}

// metricsOf is all that the operator's door tells of what runs.
func metricsOf(h *house) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_build_info", Help: "1; which software runs.", ConstLabels: prometheus.Labels{"version": program.ThisBuild().Version},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, h.meter, journalSheet(h.store), syncTimes{h.store}, storeSheet(h.store, h.node), actorSheet(h.node), doorSheet(h.doors), streamSheet(h.service),
	)
	r.MustRegister(webhookSheets(h.node, h.out.sender)...)
	return r
}

func actorSheet(node *actors.Node) prometheus.Collector {
	return newPage(node.Stats,
		gauge("parley_actors_live", "Actors in memory.", func(s actors.Stats) int { return s.Live }),
		counter("parley_actors_begun_total", "Lives of actors that began.", func(s actors.Stats) uint64 { return s.Activations }),
		counter("parley_mailbox_refusals_total", "Requests that the full mailbox of an actor did not take.", func(s actors.Stats) uint64 { return s.Refused }),
		counter("parley_ask_timeouts_total", "Requests whose caller was told that the outcome is not known.", func(s actors.Stats) uint64 { return s.Overdue }),
		counter("parley_words_quarantined_total", "Stored words to actors that could not be decoded and were put into quarantine.", func(s actors.Stats) uint64 { return s.Quarantined }),
		gauge("parley_marks_waiting", "Marks of streams that are gathered and not yet written.", func(s actors.Stats) int { return s.Receipts }),
	)
}

func doorSheet(doors *httpserver.Server) prometheus.Collector {
	return newPage(doors.Load,
		gauge("parley_http_requests_in_flight", "Requests that are being answered.", func(l httpserver.Load) int { return l.InFlight }),
		gauge("parley_http_connections_open", "Open connections, streams included.", func(l httpserver.Load) int { return l.Connections }),
		gauge("parley_http_connections_max", "Connections that may be open.", func(l httpserver.Load) int { return l.ConnectionsMax }),
		gauge("parley_http_connections_per_address_max", "Connections that one address may have.", func(l httpserver.Load) int { return l.PerAddressMax }),
		gauge("parley_http_addresses", "Addresses that connections come from.", func(l httpserver.Load) int { return l.Addresses }),
		counter("parley_http_connections_evicted_total", "Connections that were closed for others.", func(l httpserver.Load) uint64 { return l.Lines.Evicted }),
		counter("parley_http_connections_refused_total", "Connections that were refused because there was no room.", func(l httpserver.Load) uint64 { return l.Lines.Refused }),
		gauge("parley_http_held_bytes", "Bytes that large bodies and answers hold which are under way.", func(l httpserver.Load) int64 { return l.Held.Held }),
		gauge("parley_http_held_bytes_peak", "The most bytes that they have held since the start.", func(l httpserver.Load) int64 { return l.Held.Peak }),
		gauge("parley_http_held_bytes_max", "Bytes that they may hold.", func(l httpserver.Load) int64 { return l.Held.Total }),
		gauge("parley_http_held_callers", "Organizations and addresses that they are for.", func(l httpserver.Load) int { return l.Held.Callers }),
		counter("parley_http_held_ended_total", "Requests that were ended because they held much and others wanted some of it.", func(l httpserver.Load) uint64 { return l.Held.Ended }),
		counter("parley_http_held_refusals_total", "Bodies and answers that were refused because their caller, or all together, held too much.", func(l httpserver.Load) uint64 { return l.Held.Refused }),
	)
}

func streamSheet(service *parleyhttp.Service) prometheus.Collector {
	return newPage(service.StreamStats,
		gauge("parley_streams_open", "Open agent streams.", func(s parleyhttp.StreamStats) int { return s.Open }),
		counter("parley_streams_opened_total", "Agent streams that were opened.", func(s parleyhttp.StreamStats) uint64 { return s.Opened }),
		gauge("parley_streams_lagging", "Streams that wait for their reader, or catch up from the disk.", func(s parleyhttp.StreamStats) int { return s.Lagging }),
		counter("parley_stream_events_total", "Events written to streams, heartbeats apart.", func(s parleyhttp.StreamStats) uint64 { return s.Events }),
	)
}
