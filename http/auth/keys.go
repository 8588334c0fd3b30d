package auth

import (
	"crypto/ed25519"
	"time"

	"parley/client/parley"
)

// SigningKey is one key of the service that signs access tokens or A2A cards, never both.
type SigningKey struct {
	// Kid is the RFC 7638 thumbprint of the public half.
	Kid     string
	Private ed25519.PrivateKey
	// Created is when the key was created; rotation counts from it.
	Created time.Time
	// Until is when the key stops being published and accepted. Zero means that no end is
	// set.
	Until time.Time
}

// NewSigningKey returns the key of a 32-byte seed. It panics on another length, which
// only a defect can cause: seeds come from NewSeed or from OpenSeed.
func NewSigningKey(seed []byte, created time.Time) SigningKey {
	private := ed25519.NewKeyFromSeed(seed)
	return SigningKey{Kid: parley.Thumbprint(parley.Ed25519, public(private)), Private: private, Created: created}
}

// NewSeed draws the seed of a signing key.
func NewSeed(entropy parley.Entropy) []byte {
	b := draw(entropy)
	return b[:]
}

func public(private ed25519.PrivateKey) ed25519.PublicKey {
	return private.Public().(ed25519.PublicKey)
}

// KeySet is all signing keys at one time: the one that signs, and others that are
// published because what they signed is still valid or because they will sign soon. The
// caller that builds the sets decides when to rotate.
type KeySet struct {
	Current SigningKey
	Others  []SigningKey
}

// Published returns the keys that a verifier should know at a time, the current one
// first. A zero set has none.
func (s KeySet) Published(now time.Time) []SigningKey {
	var keys []SigningKey
	if s.Current.Kid != "" {
		keys = append(keys, s.Current)
	}
	for _, k := range s.Others {
		if k.live(now) && k.Kid != s.Current.Kid {
			keys = append(keys, k)
		}
	}
	return keys
}

func (k SigningKey) live(now time.Time) bool { return k.Until.IsZero() || now.Before(k.Until) }

// Public returns the raw 32-byte public half, as the key document contains it.
func (k SigningKey) Public() []byte { return public(k.Private) }

// Constants of the key document, of token answers and of the authorization server's
// metadata.
const (
	// Algorithm is alg of tokens and of published keys.
	Algorithm = "EdDSA"
	// GrantType is the only grant of the token endpoint.
	GrantType = "client_credentials"
)
