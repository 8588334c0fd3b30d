package parley

import (
	"crypto/sha256"
	"encoding/base64"
)

// Curves of OKP keys, as in the crv member of a JWK.
const (
	Ed25519 = "Ed25519"
	X25519  = "X25519"
)

// Thumbprint returns the key id of a raw 32-byte OKP public key: its JWK thumbprint.
// source: RFC 7638
func Thumbprint(curve string, raw []byte) string {
	sum := ThumbprintSum(curve, raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ThumbprintSum returns the hash that Thumbprint encodes. It does not allocate.
func ThumbprintSum(curve string, raw []byte) [sha256.Size]byte {
	canonical := append(make([]byte, 0, 128), `{"crv":"`...)
	canonical = append(append(canonical, curve...), `","kty":"OKP","x":"`...)
	canonical = append(base64.RawURLEncoding.AppendEncode(canonical, raw), `"}`...)
	return sha256.Sum256(canonical)
}

// ParseThumbprint decodes a key id. It returns false if the text is not one.
func ParseThumbprint(kid string) (sum [sha256.Size]byte, ok bool) {
	if len(kid) != base64.RawURLEncoding.EncodedLen(len(sum)) { // the decoder skips line ends
		return sum, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(sum[:], []byte(kid))
	return sum, err == nil && n == len(sum)
}
