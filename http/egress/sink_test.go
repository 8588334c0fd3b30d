package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"parley/http/egress"
)

// loopback allows a sender to reach a sink of the test.
var loopback = egress.Allow{Loopback: true}

// authority is a certificate authority for tests only.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate for 127.0.0.1 and some names that is valid until a given
// time.
func (a *authority) issue(t testing.TB, until time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// sink is an HTTPS server on loopback, with a certificate of its authority.
type sink struct {
	*httptest.Server
	authority *authority
}

func newSink(t testing.TB, handler http.HandlerFunc, names ...string) *sink {
	t.Helper()
	return newSinkWith(t, handler, func(a *authority, s *httptest.Server) {
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Now().Add(time.Hour), names...)}}
	})
}

func newSinkWith(t testing.TB, handler http.HandlerFunc, shape func(*authority, *httptest.Server)) *sink {
	t.Helper()
	s := &sink{Server: httptest.NewUnstartedServer(handler), authority: newAuthority(t)}
	s.Config.ErrorLog = quiet()
	shape(s.authority, s.Server)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// port returns the port on which the sink listens.
func (s *sink) port() string { return s.URL[strings.LastIndex(s.URL, ":"):] }

// ok reads the body and answers 200.
func ok(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusOK)
}

// hang never answers. It reads the body, because a server notices that its client has
// closed the connection only after that.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// newSender returns a Sender that may reach loopback and trusts the sink. It is shut
// down at the end of the test.
func newSender(t testing.TB, s *sink, options egress.Options) *egress.Sender {
	t.Helper()
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.Guard == nil {
		options.Guard = egress.NewGuard(loopback, nil)
	}
	if options.FurtherRoots == nil && s != nil {
		options.FurtherRoots = s.authority.pem
	}
	sender, err := egress.NewSender(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		sender.Shutdown(ctx)
	})
	return sender
}

func target(t testing.TB, text string) egress.Target {
	t.Helper()
	got, err := egress.ParseTarget(text, egress.Allow{Loopback: true, PlainHTTP: true})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// deliver submits one post and waits for its result.
func deliver(t testing.TB, s *egress.Sender, to egress.Target) egress.Result {
	t.Helper()
	done := make(chan egress.Result, 1)
	if err := s.Submit(egress.Post{Target: to, ID: "job", Body: []byte(`{}`), Secrets: []string{secret}, Done: func(r egress.Result) { done <- r }}); err != nil {
		t.Fatal(err)
	}
	return <-done
}

// resolver returns a resolver that answers every name with the addresses that answer
// returns. n counts the IPv4 queries for a name, from 0. It speaks DNS over pipes.
func resolver(t testing.TB, answer func(name string, n int) []string) *net.Resolver {
	t.Helper()
	questions := make(chan func(string) []string, 1)
	asked := map[string]int{}
	questions <- func(name string) []string {
		n := asked[name]
		asked[name]++
		return answer(name, n)
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			for serveDNS(ours, func(name string) []string {
				ask := <-questions
				defer func() { questions <- ask }()
				return ask(name)
			}) {
			}
		}()
		return theirs, nil
	}}
}

const (
	typeA    = 1
	typeAAAA = 28
)

// serveDNS answers one query of a connection. Without addresses the answer is: no such
// name.
func serveDNS(conn net.Conn, answer func(name string) []string) bool {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return false
	}
	query := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return false
	}
	end, labels := 12, []string{}
	for query[end] != 0 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
		end += 1 + int(query[end])
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end+5]...)
	if kind == typeA {
		addresses := answer(strings.Join(labels, "."))
		if len(addresses) == 0 {
			reply[3] |= 3
		}
		for _, text := range addresses {
			reply[7]++
			reply = append(reply, 0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, netip.MustParseAddr(text).AsSlice()...)
		}
	}
	binary.BigEndian.PutUint16(length[:], uint16(len(reply)))
	_, err := conn.Write(append(length[:], reply...))
	return err == nil
}
