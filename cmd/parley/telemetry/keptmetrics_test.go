package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// TestScrapesAreKept: metrics are gathered once in a while for each form of answer, however many ask
// and whatever they accept.
func TestScrapesAreKept(t *testing.T) {
	now, gathered := time.Unix(0, 0), 0
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gathered"}, func() float64 { gathered++; return float64(gathered) }))
	h := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	k := Kept(h, func() time.Time { return now })
	ask := func(h http.Handler, accept, encoding string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		h.ServeHTTP(w, r)
		return w
	}
	for range 10 {
		for range 100 {
			ask(k, "text/plain;version=0.0.4", "")
		}
		now = now.Add(keptFor)
	}
	if gathered != 10 {
		t.Errorf("gathered %d times, want 10", gathered)
	}
	const protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	gathered = 0
	for n := range 1000 {
		ask(k, fmt.Sprint("a/", n, ", ", protobuf, ";q=0.", n), fmt.Sprint("br;q=0.", n))
	}
	if gathered > 2 {
		t.Errorf("gathered %d times for two forms", gathered)
	}
	for _, accept := range []string{"", "text/plain", protobuf, "text/plain;version=0.0.4;escaping=allow-utf-8"} {
		for _, encoding := range []string{"", "gzip, deflate"} {
			now = now.Add(keptFor)
			kept := ask(k, accept, encoding)
			gathered-- // so that the values are the same
			plain := ask(h, accept, encoding)
			if kept.Code != plain.Code || fmt.Sprint(kept.Header()) != fmt.Sprint(plain.Header()) || kept.Body.String() != plain.Body.String() {
				t.Errorf("%q, %q: %d %v %q, want %d %v %q", accept, encoding, kept.Code, kept.Header(), kept.Body, plain.Code, plain.Header(), plain.Body)
			}
		}
	}
}
