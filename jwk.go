package parley

import (
	"crypto/sha256"
	"encoding/base64"
)

// Curve of an OKP key.
const (
	Ed25519 = "Ed25519"
	X25519  = "X25519"
)

// Thumbprint is the RFC 7638 key id of a raw 32-byte OKP public key.
func Thumbprint(curve string, raw []byte) string {
	canonical := `{"crv":"` + curve + `","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(raw) + `"}`
	sum := sha256.Sum256([]byte(canonical))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
