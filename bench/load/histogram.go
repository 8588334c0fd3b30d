package load

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"parley/bench/result"
)

const (
	shortest = int64(1)           // microseconds
	longest  = int64(120_000_000) // microseconds
	digits   = 3
)

// Histogram is a distribution of durations from 1 µs to 120 s with three significant
// digits. Shorter and longer durations count as these bounds. Only one goroutine may use
// it at a time.
type Histogram struct {
	counts *hdr.Histogram
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{counts: hdr.New(shortest, longest, digits)}
}

// Record counts d once.
func (h *Histogram) Record(d time.Duration) {
	// RecordValue fails only outside the bounds.
	_ = h.counts.RecordValue(min(max(d.Microseconds(), shortest), longest))
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) { h.counts.Merge(other.counts) }

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.counts.TotalCount() }

// Quantile returns the duration that percentile (0 to 100) percent of the recorded
// durations did not exceed; 0 if none was recorded.
func (h *Histogram) Quantile(percentile float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.counts.ValueAtQuantile(percentile)) * time.Microsecond
}

// Latency returns the summary for reports.
func (h *Histogram) Latency() result.Latency {
	n := h.Count()
	if n == 0 {
		return result.Latency{}
	}
	return result.Latency{
		Count: n,
		Mean:  h.counts.Mean() / 1e3,
		P50:   milliseconds(h.Quantile(50)),
		P90:   milliseconds(h.Quantile(90)),
		P99:   milliseconds(h.Quantile(99)),
		P999:  milliseconds(h.Quantile(99.9)),
		Max:   float64(min(h.counts.Max(), longest)) / 1e3,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
