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

// Algorithms of post-quantum keys, as in the alg member of a JWK.
const (
	MLKEM768 = "ML-KEM-768"
	// XWing is the hybrid of ML-KEM-768 and X25519.
	XWing = "X-Wing"
)

// Sizes of raw post-quantum public keys, in bytes.
const (
	MLKEM768Size = 1184
	// XWingSize is an ML-KEM-768 key followed by an X25519 key.
	XWingSize = MLKEM768Size + 32
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

// AKPThumbprint returns the key id of a raw public key of kind AKP, such as a post-quantum
// key: its JWK thumbprint.
func AKPThumbprint(algorithm string, raw []byte) string {
	sum := AKPThumbprintSum(algorithm, raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// AKPThumbprintSum returns the hash that AKPThumbprint encodes.
func AKPThumbprintSum(algorithm string, raw []byte) [sha256.Size]byte {
	canonical := append(make([]byte, 0, 2048), `{"alg":"`...)
	canonical = append(append(canonical, algorithm...), `","kty":"AKP","pub":"`...)
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
