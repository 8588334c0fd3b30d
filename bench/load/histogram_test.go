package load

import (
	"testing"
	"time"
)

func TestHistogramsMerge(t *testing.T) {
	whole, odd, even := NewHistogram(), NewHistogram(), NewHistogram()
	for i := 1; i <= 10_000; i++ {
		d := time.Duration(i) * 10 * time.Microsecond
		whole.Record(d)
		if i%2 == 0 {
			even.Record(d)
		} else {
			odd.Record(d)
		}
	}
	odd.Merge(even)
	got, want := odd.Latency(), whole.Latency()
	if got.Count != 10_000 || got.Mean != want.Mean || got.P50 != want.P50 || got.P999 != want.P999 || got.Max != want.Max {
		t.Errorf("merged %+v, whole %+v", got, want)
	}
	for name, pair := range map[string][2]float64{
		"mean": {got.Mean, 50}, "p50": {got.P50, 50}, "p90": {got.P90, 90}, "p99": {got.P99, 99}, "p99.9": {got.P999, 99.9}, "max": {got.Max, 100},
	} {
		if pair[0] < pair[1]*0.999 || pair[0] > pair[1]*1.001 {
			t.Errorf("%s is %v ms, want %v", name, pair[0], pair[1])
		}
	}
}

func TestHistogramBounds(t *testing.T) {
	h := NewHistogram()
	if got := h.Latency(); got.Count != 0 || got.Max != 0 || h.Quantile(50) != 0 {
		t.Errorf("an empty histogram returns %+v", got)
	}
	h.Record(-time.Second)
	h.Record(0)
	h.Record(time.Hour)
	if got := h.Latency(); got.Count != 3 || got.P50 != 0.001 || got.Max != 120_000 {
		t.Errorf("%+v", got)
	}
}
