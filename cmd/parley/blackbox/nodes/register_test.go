package nodes

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// BenchmarkSendsWhileRegistering sends from 4 clients to a cluster of three nodes while 16 others
// register organizations. It reports what a registration and the median of the sends took.
func BenchmarkSendsWhileRegistering(b *testing.B) {
	n := kit.StartNodes(b, 3)
	s := n.Server()
	o := s.Org(b)
	from, to := o.Agent("from"), o.Agent("to")
	var mu sync.Mutex
	var took []time.Duration
	var sending, registering sync.WaitGroup
	over := make(chan struct{})
	b.ResetTimer()
	for range 4 {
		sending.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				began := time.Now()
				from.Send(to)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	var begun atomic.Int64
	for range 16 {
		registering.Go(func() {
			for begun.Add(1) <= int64(b.N) {
				s.Org(b)
			}
		})
	}
	registering.Wait()
	close(over)
	sending.Wait()
	b.StopTimer()
	if len(took) == 0 {
		b.Fatal("nothing was sent")
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/send-p50")
}
