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
	sum := ThumbprintSum(curve, raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ThumbprintSum is the hash that a key id spells. It allocates nothing.
func ThumbprintSum(curve string, raw []byte) [sha256.Size]byte {
	canonical := append(make([]byte, 0, 128), `{"crv":"`...)
	canonical = append(append(canonical, curve...), `","kty":"OKP","x":"`...)
	canonical = append(base64.RawURLEncoding.AppendEncode(canonical, raw), `"}`...)
	return sha256.Sum256(canonical)
}

// ParseThumbprint reads a key id; false for a text that is none.
func ParseThumbprint(kid string) (sum [sha256.Size]byte, ok bool) {
	if len(kid) != base64.RawURLEncoding.EncodedLen(len(sum)) { // the decoder skips line ends
		return sum, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(sum[:], []byte(kid))
	return sum, err == nil && n == len(sum)
}
