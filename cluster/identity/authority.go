package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

const (
	// authorityLifetime and certificateLifetime are how long certificates are valid. A node
	// renews its own when a third of that is left.
	authorityLifetime   = 20 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	renewBefore         = certificateLifetime / 3
	// renewEvery is how often it looks: soon after a wrong clock was set right.
	renewEvery = time.Minute
	// skew is how much the clocks of nodes may differ.
	skew = time.Hour
)

// newAuthority returns the certificate and the key of a new authority, as PEM.
func newAuthority(cluster ClusterID, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: "parley cluster " + cluster.String()},
		SerialNumber: serial(), NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return encodePEM("CERTIFICATE", der), key, err
}

// authority signs certificates of nodes.
type authority struct {
	cluster ClusterID
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
}

// readAuthority reads an authority. ca may hold further certificates.
func readAuthority(cluster ClusterID, ca, key []byte) (*authority, error) {
	private, err := decodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caKey, err)
	}
	certs, err := decodeCertificates(ca)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caFile, err)
	}
	for _, c := range certs {
		if private.PublicKey.Equal(c.PublicKey) {
			return &authority{cluster, c, private}, nil
		}
	}
	return nil, fmt.Errorf("%s is not the key of a certificate of %s", caKey, caFile)
}

// certify returns a certificate for a node's public key, as PEM, followed by that of the
// authority, by which a node that joins recognizes the cluster.
func (a *authority) certify(node NodeID, public any, now time.Time) ([]byte, error) {
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: "node " + node.String()},
		SerialNumber: serial(), NotBefore: now.Add(-skew), NotAfter: now.Add(certificateLifetime),
		URIs: []*url.URL{uriOf(a.cluster, node)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return append(encodePEM("CERTIFICATE", der), encodePEM("CERTIFICATE", a.cert.Raw)...), nil
}

// uriOf is the name of a node in its certificate, a SPIFFE id.
func uriOf(cluster ClusterID, node NodeID) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: cluster.String(), Path: "/node/" + node.String()}
}

// nodeOf returns the node that a certificate of a cluster names.
func nodeOf(cluster ClusterID, c *x509.Certificate) (NodeID, error) {
	for _, u := range c.URIs {
		if id, ours := strings.CutPrefix(u.String(), "spiffe://"+cluster.String()+"/node/"); ours {
			return ParseNodeID(id)
		}
	}
	return 0, fmt.Errorf("the certificate names no node of the cluster %s", cluster)
}

// newRequest returns a new key of a node, and the request for its certificate, as PEM.
func newRequest() (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if key, err = encodeKey(private); err != nil {
		return nil, nil, err
	}
	request, err = requestOf(private)
	return key, request, err
}

// requestOf returns the request for the certificate of a node's key, as PEM.
func requestOf(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return encodePEM("CERTIFICATE REQUEST", der), err
}

// decodeRequest returns the public key of a request that is signed with its private key.
func decodeRequest(request []byte) (any, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("it is no request for a certificate")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if key, ok := r.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key of a node is one of ECDSA P-256")
	}
	return r.PublicKey, r.CheckSignature()
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encodePEM("PRIVATE KEY", der), err
}

func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is no key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("it is no key of ECDSA")
	}
	return private, nil
}

func decodeCertificates(text []byte) (certs []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return certs, nil
}
