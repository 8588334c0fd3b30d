package egress_test

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"parley/http/egress"
)

// BenchmarkDeliveries sends to a hundred targets of one sink over TLS, as fast as they
// accept. The sink runs in the same process and on the same processors.
func BenchmarkDeliveries(b *testing.B) {
	for _, h2 := range []bool{false, true} {
		b.Run(fmt.Sprint("HTTP/2=", h2), func(b *testing.B) {
			s := newSinkWith(b, ok, func(a *authority, s *httptest.Server) {
				s.EnableHTTP2 = h2
				s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(b, time.Now().Add(time.Hour))}}
			})
			sender := newSender(b, s, egress.Options{})
			to := target(b, s.URL+"/hook")
			var flying sync.WaitGroup
			room := make(chan struct{}, 1024)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				room <- struct{}{}
				flying.Add(1)
				submit(b, sender, to, fmt.Sprint(i%100), "job", func(r egress.Result) {
					if !r.Delivered() {
						b.Errorf("%+v", r)
					}
					<-room
					flying.Done()
				})
			}
			flying.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}
