package http

import "testing"

// BenchmarkRequest takes the watched requests through the whole server, one at a
// time, over a journal in memory.
func BenchmarkRequest(b *testing.B) {
	for _, c := range requestCosts {
		b.Run(c.name, func(b *testing.B) {
			h := wireHall(b, 1)
			defer h.close()
			w := h.connect()
			defer w.Close()
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

// BenchmarkPush has an agent with 0, 1 and 32 streams be sent a message at a
// time: what more streams cost is what pushes cost.
func BenchmarkPush(b *testing.B) {
	for name, streams := range map[string]int{"0 streams": 0, "1 stream": 1, "32 streams": 32} {
		b.Run(name, func(b *testing.B) {
			h := wireHall(b, 1)
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
