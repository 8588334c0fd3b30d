package kit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	key         *ecdsa.PrivateKey
	Certificate *x509.Certificate
}

// SinkLife is for how long certificates are valid, before and after now: some tests set clocks.
const SinkLife = 24 * time.Hour

// NewAuthority creates an authority with a key of its own.
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

// Issue signs a certificate.
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

// ClosedAddress returns an address at which nobody listens.
func ClosedAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
