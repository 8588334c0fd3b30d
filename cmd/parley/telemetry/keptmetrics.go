package telemetry

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"

	"parley/client/parley"
)

// keptFor is how long a scrape is answered again. It takes milliseconds to gather all metrics, and
// anyone who reaches a listener of operators may ask for them.
const keptFor = 100 * time.Millisecond

// Kept has h gather and encode metrics at most once in keptFor for each of the few forms that clients
// may ask for, and repeats that answer meanwhile. One request at a time has them gathered.
func Kept(h http.Handler, clock parley.Clock) http.Handler {
	return &keptMetrics{handler: h, clock: clock, scrapes: map[scrapeForm]*scrape{}}
}

type keptMetrics struct {
	handler http.Handler
	clock   parley.Clock

	mu      sync.Mutex
	scrapes map[scrapeForm]*scrape
}

// scrapeForm is what an answer depends on.
type scrapeForm struct {
	format expfmt.Format
	packed bool
}

// scrape is an answer.
type scrape struct {
	began  time.Time
	header http.Header
	status int
	body   bytes.Buffer
}

// ServeHTTP implements http.Handler.
func (k *keptMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := k.scrape(r)
	maps.Copy(w.Header(), s.header)
	w.WriteHeader(s.status)
	_, _ = w.Write(s.body.Bytes())
}

func (k *keptMetrics) scrape(r *http.Request) *scrape {
	form := scrapeForm{
		expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...),
		strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	if s := k.scrapes[form]; s != nil && now.Sub(s.began) < keptFor {
		return s
	}
	r = r.Clone(r.Context())
	r.Header = http.Header{"Accept": {string(form.format)}}
	if form.packed {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	s := &scrape{began: now, header: http.Header{}, status: http.StatusOK}
	k.handler.ServeHTTP(s, r)
	k.scrapes[form] = s
	return s
}

// Header implements http.ResponseWriter.
func (s *scrape) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *scrape) WriteHeader(status int) { s.status = status }

// Write implements http.ResponseWriter.
func (s *scrape) Write(b []byte) (int, error) { return s.body.Write(b) }
