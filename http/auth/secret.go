package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"

	"parley/client/parley"
)

// SecretPrefix is the prefix of every client secret, so that scanners of public
// repositories can recognize a leaked one.
const SecretPrefix = "parley_sk_"

// Prefixes of the tokens of operators, and of those to register with.
const (
	OperatorTokenPrefix     = "parley_op_"
	RegistrationTokenPrefix = "parley_reg_"
)

// NewSecret returns a new client secret: the prefix and 32 random bytes in base64url. The
// secret is shown once; only its HashSecret is stored.
func NewSecret(entropy parley.Entropy) string { return NewToken(SecretPrefix, entropy) }

// NewToken returns a new secret with another prefix.
func NewToken(prefix string, entropy parley.Entropy) string {
	b := draw(entropy)
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret returns the stored hash of a secret. A plain SHA-256 is enough for 256
// random bits; a slow password hash would only let strangers consume the server's time.
func HashSecret(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// CheckSecret reports whether secret has the stored hash. For an unknown client pass nil:
// the same work is done against a hash that no secret has, so that the response time does
// not reveal which clients exist.
func CheckSecret(secret string, hash []byte) bool {
	given := HashSecret(secret)
	stored, known := absentSecret[:], len(hash) == sha256.Size
	if known {
		stored = hash
	}
	return subtle.ConstantTimeCompare(given[:], stored) == 1 && known
}

// absentSecret replaces the hash of a client that does not exist.
var absentSecret = sha256.Sum256([]byte("no client has this secret"))
