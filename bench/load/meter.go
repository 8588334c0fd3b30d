package load

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"parley/bench/result"
)

const (
	// fine is the number of the meter's buckets per power of two: its quantiles are at
	// most 1/32 too high.
	fine    = 32
	buckets = 730 // bucketOf(longest) + 1
)

// meter counts the current second. Workers add to it without locks and without a shared
// cache line; one goroutine takes the counts.
type meter struct {
	stripes []stripe
	counts  [buckets]int64
}

type stripe struct {
	operations, failures atomic.Int64
	latencies            [buckets]atomic.Uint32
	_                    [64]byte
}

func newMeter(clients int) *meter {
	return &meter{stripes: make([]stripe, min(clients, 4*runtime.GOMAXPROCS(0)))}
}

func (m *meter) succeeded(worker int, latency time.Duration) {
	s := &m.stripes[worker%len(m.stripes)]
	s.operations.Add(1)
	s.latencies[bucketOf(min(max(latency.Microseconds(), shortest), longest))].Add(1)
}

func (m *meter) failed(worker int) {
	m.stripes[worker%len(m.stripes)].failures.Add(1)
}

// take returns the counts and resets them. A concurrent addition counts in this second or
// the next.
func (m *meter) take() result.Second {
	clear(m.counts[:])
	var second result.Second
	var total int64
	for i := range m.stripes {
		s := &m.stripes[i]
		second.Operations += s.operations.Swap(0)
		second.Failures += s.failures.Swap(0)
		for j := range s.latencies {
			// Most buckets are empty, and a load is cheaper than a swap.
			if s.latencies[j].Load() != 0 {
				count := int64(s.latencies[j].Swap(0))
				m.counts[j] += count
				total += count
			}
		}
	}
	rank := (total*99 + 99) / 100
	for j, count := range m.counts {
		rank -= count
		if total > 0 && rank <= 0 {
			second.P99 = float64(upperOf(j)) / 1e3
			break
		}
	}
	return second
}

// bucketOf returns the bucket of a duration, by the six highest bits of its microseconds.
func bucketOf(microseconds int64) int {
	shift := max(0, bits.Len64(uint64(microseconds))-6)
	return fine*shift + int(microseconds>>shift)
}

// upperOf returns the largest number of microseconds in a bucket.
func upperOf(bucket int) int64 {
	shift := max(0, bucket/fine-1)
	return int64(bucket-fine*shift+1)<<shift - 1
}
