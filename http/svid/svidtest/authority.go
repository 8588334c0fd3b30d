// Package svidtest makes SVIDs for tests, right ones and wrong ones, with the standard
// library only.
package svidtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"sync/atomic"
	"time"
)

// must returns a value that cannot fail with sound arguments, which only tests give.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Authority is the authority of a trust domain. It makes documents at an instant.
type Authority struct {
	domain string
	now    time.Time
	// Root signs X.509-SVIDs, and Key JWT-SVIDs. Kid is the id of Key.
	Root *x509.Certificate
	Key  *ecdsa.PrivateKey
	Kid  string
	root *ecdsa.PrivateKey
}

// NewKey returns a key on P-256.
func NewKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// New returns an authority with new keys.
func New(domain string, now time.Time) *Authority {
	a := &Authority{domain: domain, now: now, Key: NewKey(), Kid: "jwt-" + domain, root: NewKey()}
	a.Root = Certificate(a.root.Public(), nil, a.root, func(c *x509.Certificate) {
		c.Subject.CommonName = "root of " + domain
		c.URIs = []*url.URL{must(url.Parse("spiffe://" + domain))}
		c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(24*time.Hour)
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	})
	return a
}

// serials number the certificates.
var serials atomic.Int64

// Certificate makes a certificate of a key. A nil parent makes it sign itself.
func Certificate(public crypto.PublicKey, parent *x509.Certificate, signer crypto.Signer, change func(*x509.Certificate)) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{Organization: []string{"svidtest"}}, BasicConstraintsValid: true,
	}
	change(template)
	if parent == nil {
		parent = template
	}
	return must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, parent, public, signer))))
}

// Bundle returns the trust bundle in the SPIFFE format.
func (a *Authority) Bundle() []byte {
	keys := []map[string]any{jwk(&a.root.PublicKey), jwk(&a.Key.PublicKey)}
	keys[0]["use"], keys[0]["x5c"] = "x509-svid", []string{base64.StdEncoding.EncodeToString(a.Root.Raw)}
	keys[1]["use"], keys[1]["kid"] = "jwt-svid", a.Kid
	return must(json.Marshal(map[string]any{"keys": keys, "spiffe_sequence": 1, "spiffe_refresh_hint": 300}))
}

// PEM returns the trust bundle in PEM, which has no keys of JWT-SVIDs.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Root.Raw})
}

func jwk(key *ecdsa.PublicKey) map[string]any {
	point := must(key.Bytes()) // 4, x, y
	half := (len(point) - 1) / 2
	return map[string]any{"kty": "EC", "crv": "P-256", "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Token is what a JWT-SVID is made of.
type Token struct {
	Header, Claims map[string]any
	// Key signs it, with ES256.
	Key *ecdsa.PrivateKey
}

// JWT returns a JWT-SVID of a workload, such as /web, for an audience. The functions make it
// wrong.
func (a *Authority) JWT(path, audience string, changes ...func(*Token)) string {
	t := &Token{
		Header: map[string]any{"alg": "ES256", "typ": "JWT", "kid": a.Kid},
		Claims: map[string]any{"sub": "spiffe://" + a.domain + path, "aud": []string{audience}, "exp": a.now.Add(5 * time.Minute).Unix(), "iat": a.now.Unix()},
		Key:    a.Key,
	}
	for _, change := range changes {
		change(t)
	}
	signed := encode(must(json.Marshal(t.Header))) + "." + encode(must(json.Marshal(t.Claims)))
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, t.Key, digest[:])
	if err != nil {
		panic(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}

// X509 returns an X.509-SVID of a workload for a key: the leaf, then the certificate of an
// intermediate authority. The functions make the leaf wrong.
func (a *Authority) X509(path string, key crypto.PublicKey, changes ...func(*x509.Certificate)) [][]byte {
	between := NewKey()
	intermediate := Certificate(between.Public(), a.Root, a.root, func(c *x509.Certificate) {
		c.URIs = []*url.URL{must(url.Parse("spiffe://" + a.domain))}
		c.NotBefore, c.NotAfter = a.now.Add(-time.Hour), a.now.Add(time.Hour)
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	})
	leaf := Certificate(key, intermediate, between, func(c *x509.Certificate) {
		c.URIs = []*url.URL{must(url.Parse("spiffe://" + a.domain + path))}
		c.NotBefore, c.NotAfter = a.now.Add(-time.Minute), a.now.Add(time.Hour)
		c.KeyUsage = x509.KeyUsageDigitalSignature
		for _, change := range changes {
			change(c)
		}
	})
	return [][]byte{leaf.Raw, intermediate.Raw}
}

// Sign signs a text with ECDSA over its SHA-256.
func Sign(key *ecdsa.PrivateKey, text []byte) []byte {
	digest := sha256.Sum256(text)
	return must(ecdsa.SignASN1(rand.Reader, key, digest[:]))
}

// Odd returns an odd number of that many bits, which a long RSA key may have as modulus.
func Odd(bits int) *big.Int {
	n := must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits))))
	return n.SetBit(n.SetBit(n, bits-1, 1), 0, 1)
}
