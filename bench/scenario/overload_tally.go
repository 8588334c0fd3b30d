package scenario

import (
	"time"

	"parley/bench/load"
	"parley/bench/result"
)

// Names of the figures and laps of a run of Overload.
const (
	// FigureIntended is the number of arrivals due per second, FigureOffered the number
	// sent, and FigureNotOffered the number for which every connection was still waiting
	// for an answer.
	FigureIntended   = "intended_per_second"
	FigureOffered    = "offered_per_second"
	FigureNotOffered = "not_offered_per_second"
	// FigureRefused is the number of 503 and 429 answers per second.
	FigureRefused = "refused_per_second"
	// LapRefused is the latency of refusals from the actual sending; LapLag is the delay
	// with which the generator sent.
	LapRefused = "refused, from the real sending"
	LapLag     = "generator's delay"
)

// tally counts the results of one step of Overload. Throughputs are counted by time of
// answer and latencies by time of sending, both only within the window.
type tally struct {
	intended, offered  int64
	answered, refusals int64 // within the window
	failures           int64
	reasons            map[string]int64
	latency, service   *load.Histogram // of the accepted
	refusing, lag      *load.Histogram
	recent             *load.Histogram // accepted in this second
	recently, recentNo int64
}

func newTally() *tally {
	return &tally{
		reasons: map[string]int64{}, latency: load.NewHistogram(), service: load.NewHistogram(),
		refusing: load.NewHistogram(), lag: load.NewHistogram(), recent: load.NewHistogram(),
	}
}

func (t *tally) sent(lag time.Duration) {
	t.intended++
	t.offered++
	t.lag.Record(lag)
}

func (t *tally) notOffered(inside bool) {
	if inside {
		t.intended++
	}
}

func (t *tally) accepted(sentInside, answeredInside bool, service, latency time.Duration) {
	if sentInside {
		t.service.Record(service)
		t.latency.Record(latency)
	}
	if answeredInside {
		t.answered++
		t.recently++
		t.recent.Record(service)
	}
}

func (t *tally) refused(sentInside, answeredInside bool, service time.Duration) {
	if sentInside {
		t.refusing.Record(service)
	}
	if answeredInside {
		t.refusals++
		t.recentNo++
	}
}

// failed counts a failure, whether or not it is within the window.
func (t *tally) failed(reason string) {
	t.failures++
	t.reasons[reason]++
}

// second ends a second. Its refusals are reported as Failures.
func (t *tally) second() result.Second {
	s := result.Second{Operations: t.recently, Failures: t.recentNo, P99: float64(t.recent.Quantile(99).Microseconds()) / 1e3}
	t.recently, t.recentNo = 0, 0
	t.recent.Reset()
	return s
}

func (t *tally) fill(run *result.Run, p Press) {
	seconds := p.Duration.Seconds()
	each := func(n int64) float64 { return float64(n) / seconds }
	run.Seconds, run.Operations, run.PerSecond = seconds, t.answered, each(t.answered)
	run.Failures, run.Reasons = t.failures, t.reasons
	run.Latency, run.Service = t.latency.Latency(), t.service.Latency()
	run.Laps = map[string]result.Latency{LapRefused: t.refusing.Latency(), LapLag: t.lag.Latency()}
	run.Figures = map[string]float64{
		FigureIntended: each(t.intended), FigureOffered: each(t.offered),
		FigureNotOffered: each(t.intended - t.offered), FigureRefused: each(t.refusals),
	}
}
