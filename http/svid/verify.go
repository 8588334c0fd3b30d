package svid

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // SHA-256, for signatures of X.509-SVIDs
	_ "crypto/sha512" // SHA-384 and SHA-512
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"parley/client/parley"
)

// Refusals of a document.
var (
	ErrNotConfigured = parley.Refuse(parley.Forbidden, "svid_not_configured", "This server trusts no trust domain, so no workload identity can be proven.")
	ErrInvalid       = parley.Refuse(parley.Forbidden, "svid_invalid", "The SVID does not prove a workload identity.")
)

// Identity is a proven SPIFFE id.
type Identity struct {
	// ID is the SPIFFE id, such as spiffe://example.org/web.
	ID string
	// TrustDomain is its trust domain, such as example.org.
	TrustDomain string
}

// JWT returns the identity that a JWT-SVID proves to an audience, or ErrInvalid with the
// reason. source: SPIFFE JWT-SVID
func (b *Bundles) JWT(token, audience string, now time.Time) (Identity, error) {
	found, err := jwtsvid.ParseAndValidate(token, b, []string{audience})
	switch {
	case err != nil:
		return Identity{}, invalid("JWT-SVID", err)
	case !now.Before(found.Expiry): // the library allows a minute more
		return Identity{}, invalid("JWT-SVID", errors.New("token has expired"))
	}
	return identity("JWT-SVID", found.ID)
}

// X509 returns the identity that an X.509-SVID proves, or ErrInvalid with the reason. The
// chain has the leaf first, each certificate in DER; signature is that of the leaf's key
// over signed. source: SPIFFE X.509-SVID
func (b *Bundles) X509(chain [][]byte, signed, signature []byte, now time.Time) (Identity, error) {
	const document = "X.509-SVID"
	var certificates []*x509.Certificate
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return Identity{}, invalid(document, err)
		}
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > rsaBitsMax {
			return Identity{}, invalid(document, fmt.Errorf("an RSA key of %d bits is longer than %d", key.N.BitLen(), rsaBitsMax))
		}
		certificates = append(certificates, c)
	}
	id, _, err := x509svid.Verify(certificates, b, x509svid.WithTime(now))
	if err != nil {
		return Identity{}, invalid(document, err)
	}
	leaf := certificates[0]
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return Identity{}, invalid(document, errors.New("the key usage of the leaf does not include digital signatures"))
	}
	if !verifies(leaf.PublicKey, signed, signature) {
		return Identity{}, invalid(document, errors.New("the signature is not one of the leaf's key over this challenge and agent"))
	}
	return identity(document, id)
}

// rsaBitsMax bounds the keys in a chain. A client chooses them, and the work to verify a
// signature grows with the square of the length.
const rsaBitsMax = 8192

// hashes are those that a signature may be over.
var hashes = []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}

// verifies reports whether a key made a signature over signed: ECDSA in ASN.1, RSA with
// PKCS #1 v1.5 or PSS, or Ed25519.
func verifies(key crypto.PublicKey, signed, signature []byte) bool {
	if key, ok := key.(ed25519.PublicKey); ok {
		return ed25519.Verify(key, signed, signature)
	}
	for _, hash := range hashes {
		h := hash.New()
		h.Write(signed)
		digest := h.Sum(nil)
		switch key := key.(type) {
		case *ecdsa.PublicKey:
			if ecdsa.VerifyASN1(key, digest, signature) {
				return true
			}
		case *rsa.PublicKey:
			if rsa.VerifyPKCS1v15(key, hash, digest, signature) == nil || rsa.VerifyPSS(key, hash, digest, signature, nil) == nil {
				return true
			}
		}
	}
	return false
}

// identity rejects the id of a trust domain itself, which no workload has.
func identity(document string, id spiffeid.ID) (Identity, error) {
	if id.Path() == "" {
		return Identity{}, invalid(document, errors.New("the SPIFFE id has no path: it names a trust domain, not a workload"))
	}
	return Identity{ID: id.String(), TrustDomain: id.TrustDomain().Name()}, nil
}

// reasonMax bounds the reason of a refusal, in bytes: it may quote the document.
const reasonMax = 300

func invalid(document string, err error) error {
	reason := err.Error()
	for _, prefix := range []string{"jwtsvid: ", "x509svid: "} {
		reason = strings.TrimPrefix(reason, prefix)
	}
	if strings.Contains(reason, "cryptographic primitive") {
		reason = "the signature is not one of the key that kid names"
	}
	if len(reason) > reasonMax {
		reason = reason[:reasonMax] + "…"
	}
	return ErrInvalid.Saying("The " + document + " is not valid: " + strings.ToValidUTF8(reason, "") + ".")
}
