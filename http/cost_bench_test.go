package http

import (
	"fmt"
	"testing"
)

// BenchmarkRequest sends the requests of requestCosts through the whole server, one at
// a time, over a journal in memory. The journal's growing files count in B/op.
func BenchmarkRequest(b *testing.B) {
	for _, c := range requestCosts {
		b.Run(c.name, func(b *testing.B) {
			h := wireHarness(b, 1)
			defer h.close()
			w := newWire(newReceiver(false))
			defer w.Close()
			h.conns <- w
			request := c.request(h, w)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				w.ask(b, request, c.status)
			}
			b.StopTimer()
		})
	}
}

// BenchmarkPush sends one message at a time to an agent with 0, 1 or 32 streams. The
// cost of the additional streams is the cost of pushes.
func BenchmarkPush(b *testing.B) {
	for _, streams := range []int{0, 1, 32} {
		b.Run(fmt.Sprint(streams, " streams"), func(b *testing.B) {
			h := wireHarness(b, 1)
			defer h.close()
			e, push := h.pushes(streams)
			push()
			writes := e.writes.Load()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				push()
			}
			b.StopTimer()
			b.ReportMetric(float64(e.writes.Load()-writes)/float64(b.N), "writes/op")
		})
	}
}
