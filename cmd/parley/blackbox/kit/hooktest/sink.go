package hooktest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// Reaction is a target's answer to one delivery.
type Reaction func(w http.ResponseWriter, r *http.Request)

// Says answers with a status, and headers given in pairs.
func Says(status int, headers ...string) Reaction {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}
}

// AnswersLate answers after a delay.
func AnswersLate(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(120 * time.Millisecond)
	w.WriteHeader(http.StatusOK)
}

// Delivery is a request that a target received.
type Delivery struct {
	At     time.Time
	Proto  string
	Method string
	uri    string
	host   string
	Header http.Header
	Raw    []byte
	Body   obj
}

// Target is a path of the sink with a script: the reactions to successive deliveries. The
// last one repeats.
type Target struct {
	URL string

	mu     sync.Mutex
	script []Reaction
	got    []*Delivery
	open   int // requests in progress
	most   int
}

// Answers replaces the script.
func (x *Target) Answers(script ...Reaction) *Target {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.script = script
	return x
}

// Deliveries returns the deliveries so far.
func (x *Target) Deliveries() []*Delivery {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.got[:len(x.got):len(x.got)]
}

// WaitForDelivery waits for the nth delivery, counted from 1.
func (x *Target) WaitForDelivery(t testing.TB, n int) *Delivery {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for len(x.Deliveries()) < n {
		if time.Now().After(deadline) {
			t.Fatalf("%d deliveries arrived at %s, want %d", len(x.Deliveries()), x.URL, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return x.Deliveries()[n-1]
}

// CheckNoMore checks after a moment that at most n deliveries arrived.
func (x *Target) CheckNoMore(t testing.TB, n int) {
	t.Helper()
	time.Sleep(300 * time.Millisecond)
	if got := x.Deliveries(); len(got) != n {
		t.Errorf("%d deliveries arrived at %s, want %d; the last is %s", len(got), x.URL, n, got[len(got)-1].Raw)
	}
}

// MostAtOnce is how many requests were in progress at the same time, at most.
func (x *Target) MostAtOnce() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.most
}

func (x *Target) take(w http.ResponseWriter, r *http.Request) {
	d := &Delivery{At: time.Now(), Proto: r.Proto, Method: r.Method, uri: r.RequestURI, host: r.Host, Header: r.Header}
	d.Raw, _ = io.ReadAll(r.Body)
	_ = json.Unmarshal(d.Raw, &d.Body)
	x.mu.Lock()
	x.got = append(x.got, d)
	x.open++
	x.most = max(x.most, x.open)
	how := Says(http.StatusOK)
	if len(x.script) > 0 {
		how = x.script[0]
	}
	if len(x.script) > 1 {
		x.script = x.script[1:]
	}
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.open--
		x.mu.Unlock()
	}()
	how(w, r)
}

// Sink is an HTTPS server with certificates of a private authority, and listeners with
// bad certificates.
type Sink struct {
	CAFile string
	pool   *x509.CertPool
	Base   string

	mu      sync.Mutex
	targets map[string]*Target
	strays  []string // requested paths that belong to no webhook
	// H2 is the address of the same server over HTTP/2.
	H2 string
	// Bad maps faults of TLS to addresses that have them.
	Bad map[string]string
}

// sinkOnce returns the sink that all tests share; each has targets of its own.
var sinkOnce = sync.OnceValues(newSink)

// SharedSink returns the sink that all tests share; each has targets of its own.
func SharedSink(t testing.TB) *Sink {
	t.Helper()
	s, err := sinkOnce()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSink() (*Sink, error) {
	ours, err := kit.NewAuthority()
	if err != nil {
		return nil, err
	}
	strange, err := kit.NewAuthority()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(kit.Scratch, "webhook-ca-*.pem")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if err := pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: ours.Certificate.Raw}); err != nil {
		return nil, err
	}
	s := &Sink{CAFile: file.Name(), pool: x509.NewCertPool(), targets: map[string]*Target{}, Bad: map[string]string{}}
	s.pool.AddCert(ours.Certificate)
	now := time.Now()
	good := kit.Leaf{From: now.Add(-kit.SinkLife), To: now.Add(kit.SinkLife), Host: "127.0.0.1"}
	stale, foreign := good, good
	stale.To, foreign.Host = now.Add(-time.Minute), "127.0.0.2"
	if s.Base, err = s.serve(ours, good, "http/1.1"); err != nil {
		return nil, err
	}
	if s.H2, err = s.serve(ours, good, "h2"); err != nil {
		return nil, err
	}
	for what, of := range map[string]struct {
		by *kit.Authority
		kit.Leaf
	}{"of an unknown authority": {strange, good}, "expired": {ours, stale}, "for another host": {ours, foreign}} {
		if s.Bad[what], err = s.serve(of.by, of.Leaf, "http/1.1"); err != nil {
			return nil, err
		}
	}
	plain := httptest.NewServer(s)
	s.Bad["not TLS"] = "https" + strings.TrimPrefix(plain.URL, "http")
	return s, nil
}

// serve listens with a certificate of an authority and returns the address.
func (s *Sink) serve(by *kit.Authority, l kit.Leaf, protocol string) (string, error) {
	certificate, err := by.Issue(l)
	if err != nil {
		return "", err
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}}
	server.EnableHTTP2 = protocol == "h2"
	server.StartTLS()
	return server.URL, nil
}

// ServeHTTP gives a delivery to its target.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	x := s.targets[r.URL.Path]
	if x == nil {
		s.strays = append(s.strays, r.Method+" "+r.RequestURI)
	}
	s.mu.Unlock()
	if x == nil {
		http.NotFound(w, r)
		return
	}
	x.take(w, r)
}

// StrayRequests are those that belong to no webhook.
func (s *Sink) StrayRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strays)
}

// Target creates a path of the sink.
func (s *Sink) Target(script ...Reaction) *Target { return s.TargetAt(s.Base, script...) }

// TargetAt creates a path below another address of the sink.
func (s *Sink) TargetAt(base string, script ...Reaction) *Target {
	path := "/hook-" + kit.RandomHex(8)
	x := &Target{URL: base + path, script: script}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets[path] = x
	return x
}
