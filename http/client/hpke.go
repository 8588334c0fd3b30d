package client

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"encoding/base64"
	"errors"
	"strings"

	"parley"
	"parley/http/api"
)

// The format hpke-v1. Every byte is explained in docs/encryption.md.
const (
	sealVersion = 0x01
	sealInfo    = "parley/hpke-v1"
	sealLabel   = "parley/hpke-v1/signature\n"
	encSize     = 32
	tagSize     = 16
)

// PayloadBytesMax is how much fits into one sealed payload: what 131,072
// characters of base64url hold, less 157 bytes of envelope.
const PayloadBytesMax = parley.PayloadCharsMax/4*3 - (1 + encSize + tagSize + 1 + 43 + ed25519.SignatureSize)

var (
	// ErrSealedForm says that a text is no hpke-v1 payload at all.
	ErrSealedForm = errors.New("the payload is not of the form hpke-v1")
	// ErrCannotOpen says that no key of the ring opens a payload: it was sealed to
	// another key, or changed on its way.
	ErrCannotOpen = errors.New("no key of this agent opens the payload")
	// ErrForged says that a payload opened, but that the sender did not sign it
	// for this recipient.
	ErrForged = errors.New("the sender did not sign this payload for this recipient")
	// ErrPayloadTooLong says that a payload exceeds PayloadBytesMax.
	ErrPayloadTooLong = errors.New("the payload is too long to be sealed")
	// ErrUnbound says that a key ring has not been bound to an agent.
	ErrUnbound = errors.New("the key ring belongs to no agent yet")
)

// KeyLookup gives the signing key that the sender of a message publishes, or
// once published, under a key id.
type KeyLookup func(kid string) (api.JWK, error)

// Seal encrypts payload to a recipient's X25519 key, with the sender's signature
// inside. The key's own kid is not trusted but computed.
func Seal(sender *KeyRing, recipient api.JWK, payload []byte) (string, error) {
	raw, err := recipient.Raw(parley.X25519)
	if err != nil {
		return "", err
	}
	if len(payload) > PayloadBytesMax {
		return "", ErrPayloadTooLong
	}
	id, signing := sender.signer()
	if id.Zero() {
		return "", ErrUnbound
	}
	kid := signing.kid
	signature := ed25519.Sign(signing.key, signedText(id, parley.Thumbprint(parley.X25519, raw), payload))
	plain := make([]byte, 0, 1+len(kid)+len(signature)+len(payload))
	plain = append(append(append(append(plain, byte(len(kid))), kid...), signature...), payload...)
	return sealTo(raw, plain)
}

// sealTo encrypts a plaintext to a raw X25519 key.
func sealTo(recipient, plain []byte) (string, error) {
	public, err := ecdh.X25519().NewPublicKey(recipient)
	if err != nil {
		return "", err
	}
	to, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		return "", err
	}
	sealed, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo), plain)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte{sealVersion}, sealed...)), nil
}

// signedText is what the sender signs: who speaks, to which key, and what. Both
// names have fixed lengths, so that no two triples give one text.
func signedText(sender parley.AgentID, recipientKid string, payload []byte) []byte {
	text := make([]byte, 0, len(sealLabel)+36+1+len(recipientKid)+1+len(payload))
	text = append(append(append(text, sealLabel...), sender.String()...), '\n')
	return append(append(append(text, recipientKid...), '\n'), payload...)
}

// Open decrypts a payload with any key of the recipient's ring, current or
// former, and verifies that the agent sender signed it for that key. It gives
// the payload and the id of the key that signed it. Nothing of a payload that
// fails is given out.
func Open(recipient *KeyRing, sender parley.AgentID, text string, lookup KeyLookup) (payload []byte, senderKid string, err error) {
	sealed, err := decodeSealed(text)
	if err != nil {
		return nil, "", err
	}
	plain, recipientKid, err := openWith(recipient.openers(), sealed)
	if err != nil {
		return nil, "", err
	}
	kid, signature, payload, err := splitSigned(plain)
	if err != nil {
		return nil, "", err
	}
	if err := verifySigned(kid, signature, signedText(sender, recipientKid, payload), lookup); err != nil {
		return nil, "", err
	}
	return payload, kid, nil
}

// decodeSealed gives enc ‖ ciphertext. Padding is tolerated, since the service
// lets it pass.
func decodeSealed(text string) ([]byte, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	// The decoder would skip line ends.
	if strings.ContainsAny(text, "\r\n") {
		return nil, ErrSealedForm
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+encSize+tagSize || b[0] != sealVersion {
		return nil, ErrSealedForm
	}
	return b[1:], nil
}

// openWith tries one key after the other: the text does not say which it was
// sealed to, and a wrong one fails its authentication.
func openWith(keys []*ecdh.PrivateKey, sealed []byte) (plain []byte, kid string, err error) {
	for _, key := range keys {
		private, err := hpke.NewDHKEMPrivateKey(key)
		if err != nil {
			return nil, "", err
		}
		if plain, err := hpke.Open(private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo), sealed); err == nil {
			return plain, parley.Thumbprint(parley.X25519, key.PublicKey().Bytes()), nil
		}
	}
	return nil, "", ErrCannotOpen
}
