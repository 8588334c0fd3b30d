package telemetry

import (
	"bytes"
	"maps"
	"net/http"
	"sync"
	"time"

	"parley"
)

const (
	// keptFor is how long a scrape is answered again. It takes milliseconds to gather all
	// metrics, and anyone who reaches a listener of operators may ask for them.
	keptFor = 100 * time.Millisecond
	// keptMax bounds the kinds of answers that are kept: each Accept and Accept-Encoding has its own.
	keptMax, keptNameMax = 8, 1 << 10
)

// Kept answers each kind of request for metrics at most once in keptFor by h, and repeats that
// answer meanwhile. One request at a time has them gathered.
func Kept(h http.Handler, clock parley.Clock) http.Handler {
	return &keptMetrics{handler: h, clock: clock, scrapes: map[string]*scrape{}}
}

type keptMetrics struct {
	handler http.Handler
	clock   parley.Clock

	mu      sync.Mutex
	scrapes map[string]*scrape
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
	name := r.Header.Get("Accept") + "\n" + r.Header.Get("Accept-Encoding")
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	if s := k.scrapes[name]; s != nil && now.Sub(s.began) < keptFor {
		return s
	}
	s := &scrape{began: now, header: http.Header{}, status: http.StatusOK}
	k.handler.ServeHTTP(s, r)
	if len(k.scrapes) >= keptMax {
		clear(k.scrapes)
	}
	if len(name) <= keptNameMax {
		k.scrapes[name] = s
	}
	return s
}

// Header implements http.ResponseWriter.
func (s *scrape) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *scrape) WriteHeader(status int) { s.status = status }

// Write implements http.ResponseWriter.
func (s *scrape) Write(b []byte) (int, error) { return s.body.Write(b) }
