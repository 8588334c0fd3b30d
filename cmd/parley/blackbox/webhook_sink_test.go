package blackbox

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// reaction is a target's answer to one delivery.
type reaction func(w http.ResponseWriter, r *http.Request)

// says answers with a status, and headers given in pairs.
func says(status int, headers ...string) reaction {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}
}

// hangs never answers and returns when the sender gives up.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// answersLate answers after a delay.
func answersLate(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(120 * time.Millisecond)
	w.WriteHeader(http.StatusOK)
}

// answersByteByByte sends the head of its answer one byte at a time and never completes it.
func answersByteByByte(w http.ResponseWriter, r *http.Request) {
	conn := stolen(w)
	defer func() { _ = conn.Close() }()
	for _, c := range "HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("s", 200) {
		if _, err := conn.Write([]byte(string(c))); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// answersEndlessly accepts the delivery and sends an endless body.
func answersEndlessly(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
	block := bytes.Repeat([]byte("flood "), 10_000)
	for range 10_000 { // 600 MB, if the client reads it
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// closesConnection closes the connection instead of answering.
func closesConnection(w http.ResponseWriter, _ *http.Request) { _ = stolen(w).Close() }

// answersGarbage answers with bytes that are not HTTP.
func answersGarbage(w http.ResponseWriter, _ *http.Request) {
	conn := stolen(w)
	_, _ = io.WriteString(conn, "hello, this is not the protocol you are looking for\r\n\r\n")
	_ = conn.Close()
}

// answersHugeHead answers with headers larger than any client should accept.
func answersHugeHead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Large", strings.Repeat("l", 1<<20))
	w.WriteHeader(http.StatusOK)
}

func stolen(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	return conn
}

// delivery is a request that a target received.
type delivery struct {
	at     time.Time
	proto  string
	method string
	uri    string
	host   string
	header http.Header
	raw    []byte
	body   obj
}

// target is a path of the sink with a script: the reactions to successive deliveries. The
// last one repeats.
type target struct {
	url string

	mu     sync.Mutex
	script []reaction
	got    []*delivery
	open   int // requests in progress
	most   int
}

// answers replaces the script.
func (x *target) answers(script ...reaction) *target {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.script = script
	return x
}

// deliveries returns the deliveries so far.
func (x *target) deliveries() []*delivery {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.got[:len(x.got):len(x.got)]
}

// waitForDelivery waits for the nth delivery, counted from 1.
func (x *target) waitForDelivery(t testing.TB, n int) *delivery {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for len(x.deliveries()) < n {
		if time.Now().After(deadline) {
			t.Fatalf("%d deliveries arrived at %s, want %d", len(x.deliveries()), x.url, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return x.deliveries()[n-1]
}

// checkNoMore checks after a moment that at most n deliveries arrived.
func (x *target) checkNoMore(t testing.TB, n int) {
	t.Helper()
	time.Sleep(300 * time.Millisecond)
	if got := x.deliveries(); len(got) != n {
		t.Errorf("%d deliveries arrived at %s, want %d; the last is %s", len(got), x.url, n, got[len(got)-1].raw)
	}
}

// mostAtOnce is how many requests were in progress at the same time, at most.
func (x *target) mostAtOnce() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.most
}

func (x *target) take(w http.ResponseWriter, r *http.Request) {
	d := &delivery{at: time.Now(), proto: r.Proto, method: r.Method, uri: r.RequestURI, host: r.Host, header: r.Header}
	d.raw, _ = io.ReadAll(r.Body)
	_ = json.Unmarshal(d.raw, &d.body)
	x.mu.Lock()
	x.got = append(x.got, d)
	x.open++
	x.most = max(x.most, x.open)
	how := says(http.StatusOK)
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

// sink is an HTTPS server with certificates of a private authority, and listeners with
// bad certificates.
type sink struct {
	caFile string
	pool   *x509.CertPool
	base   string

	mu      sync.Mutex
	targets map[string]*target
	strays  []string // requested paths that belong to no webhook
	// h2 is the address of the same server over HTTP/2.
	h2 string
	// bad maps faults of TLS to addresses that have them.
	bad map[string]string
}

// sinkOnce returns the sink that all tests share; each has targets of its own.
var sinkOnce = sync.OnceValues(newSink)

func theSink(t testing.TB) *sink {
	t.Helper()
	s, err := sinkOnce()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSink() (*sink, error) {
	ours, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	strange, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(Scratch, "webhook-ca-*.pem")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if err := pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: ours.Certificate.Raw}); err != nil {
		return nil, err
	}
	s := &sink{caFile: file.Name(), pool: x509.NewCertPool(), targets: map[string]*target{}, bad: map[string]string{}}
	s.pool.AddCert(ours.Certificate)
	now := time.Now()
	good := Leaf{From: now.Add(-SinkLife), To: now.Add(SinkLife), Host: "127.0.0.1"}
	stale, foreign := good, good
	stale.To, foreign.Host = now.Add(-time.Minute), "127.0.0.2"
	if s.base, err = s.serve(ours, good, "http/1.1"); err != nil {
		return nil, err
	}
	if s.h2, err = s.serve(ours, good, "h2"); err != nil {
		return nil, err
	}
	for what, of := range map[string]struct {
		by *Authority
		Leaf
	}{"of an unknown authority": {strange, good}, "expired": {ours, stale}, "for another host": {ours, foreign}} {
		if s.bad[what], err = s.serve(of.by, of.Leaf, "http/1.1"); err != nil {
			return nil, err
		}
	}
	plain := httptest.NewServer(s)
	s.bad["not TLS"] = "https" + strings.TrimPrefix(plain.URL, "http")
	return s, nil
}

// serve listens with a certificate of an authority and returns the address.
func (s *sink) serve(by *Authority, l Leaf, protocol string) (string, error) {
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

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// strayRequests are those that belong to no webhook.
func (s *sink) strayRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strays)
}

// target creates a path of the sink.
func (s *sink) target(script ...reaction) *target { return s.targetAt(s.base, script...) }

func (s *sink) targetAt(base string, script ...reaction) *target {
	path := "/hook-" + RandomHex(8)
	x := &target{url: base + path, script: script}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets[path] = x
	return x
}

// Authority issues certificates.
type Authority struct {
	key         *ecdsa.PrivateKey
	Certificate *x509.Certificate
}

// SinkLife is for how long certificates are valid, before and after now: some tests set clocks.
const SinkLife = 24 * time.Hour

func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhook test authority " + RandomHex(4)},
		NotBefore: time.Now().Add(-SinkLife), NotAfter: time.Now().Add(SinkLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(raw)
	return &Authority{key, certificate}, err
}

// Leaf describes a server's certificate.
type Leaf struct {
	From, To time.Time
	Host     string
}

func (a *Authority) Issue(l Leaf) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	address := net.ParseIP(l.Host)
	if address == nil {
		return tls.Certificate{}, fmt.Errorf("%s is not an address", l.Host)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "webhook test sink"},
		NotBefore: l.From, NotAfter: l.To, IPAddresses: []net.IP{address},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}
