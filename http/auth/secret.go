package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"

	"parley"
)

// SecretPrefix begins every client secret, so that scanners of public
// repositories can recognise a leaked one.
const SecretPrefix = "parley_sk_"

// NewSecret makes a client secret: the prefix and 32 random bytes in base64url.
// It is shown once; only HashSecret of it is kept.
func NewSecret(entropy parley.Entropy) string {
	b := draw(entropy)
	return SecretPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret is what is stored of a secret. A plain SHA-256 is enough for 256
// random bits; a slow password hash would only let strangers burn our time.
func HashSecret(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// CheckSecret reports whether secret has the stored hash. For an unknown client
// pass nil: the same work is done against a hash that nothing has, so that the
// time of the answer does not tell which clients exist.
func CheckSecret(secret string, hash []byte) bool {
	given := HashSecret(secret)
	stored, known := absentSecret[:], len(hash) == sha256.Size
	if known {
		stored = hash
	}
	return subtle.ConstantTimeCompare(given[:], stored) == 1 && known
}

// absentSecret stands in for the hash of a client that does not exist.
var absentSecret = sha256.Sum256([]byte("no client has this secret"))
