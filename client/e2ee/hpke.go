package e2ee

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// The format hpke-v1. Every byte is explained in docs/encryption.md.
const (
	// This client writes version 2, or 3 if the recipient has a post-quantum key.
	sealVersion  = 0x02
	sealVersion3 = 0x03
	sealInfo     = "parley/hpke-v1"
	sealLabel    = "parley/hpke-v1/signature/2\n"
	sealLabel3   = "parley/hpke-v1/signature/3\n"
	encSize      = 32
	// encSizeHybrid is an ML-KEM-768 ciphertext and an X25519 key.
	encSizeHybrid = 1088 + 32
	tagSize       = 16
)

// PayloadBytesMax is the maximum size of one sealed payload: what 131,072 characters of
// base64url hold, less 157 bytes of envelope.
const PayloadBytesMax = parley.PayloadCharsMax/4*3 - (1 + encSize + tagSize + 1 + 43 + ed25519.SignatureSize)

// PayloadBytesMaxHybrid is PayloadBytesMax for a payload that is sealed to a post-quantum
// key. A sender that has such a key seals its own copy to it, so this maximum holds for
// its payloads too.
const PayloadBytesMaxHybrid = PayloadBytesMax - (encSizeHybrid - encSize)

var (
	// ErrSealedForm means that a text is not an hpke-v1 payload.
	ErrSealedForm = errors.New("the payload is not of the form hpke-v1")
	// ErrOldClient means that a payload is of version 1 of hpke-v1, which is not opened any more.
	ErrOldClient = errors.New("sealed by an old client")
	// ErrCannotOpen means that no key of the ring opens a payload: it was sealed to
	// another key, or changed in transit.
	ErrCannotOpen = errors.New("no key of this agent opens the payload")
	// ErrForged means that a payload opened, but that the sender did not sign it for this
	// recipient.
	ErrForged = errors.New("the sender did not sign this payload for this recipient")
	// ErrPayloadTooLong means that a payload exceeds PayloadBytesMax.
	ErrPayloadTooLong = errors.New("the payload is too long to be sealed")
	// ErrUnbound means that a key ring has not been bound to an agent.
	ErrUnbound = errors.New("the key ring belongs to no agent yet")
)

// KeyLookup returns the current or former signing key that the sender of a message
// publishes under a key id.
type KeyLookup func(kid string) (api.JWK, error)

// Unsealed is a payload that was opened and whose signature is the sender's.
type Unsealed struct {
	Payload []byte
	// SenderKid is the id of the key that signed it.
	SenderKid string
	// PostQuantum reports that the payload was sealed to a post-quantum key (version 3).
	PostQuantum bool
}

// tooLong returns an error with the length of a payload and the maximum.
func tooLong(payload []byte, limit int) error {
	return fmt.Errorf("%w: it has %d bytes, and one message carries at most %d", ErrPayloadTooLong, len(payload), limit)
}

// Seal encrypts payload to a recipient's X25519 key, with the sender's signature inside
// (version 2).
// It computes the key's kid instead of trusting it.
func Seal(sender *KeyRing, recipient parley.AgentID, key api.JWK, payload []byte) (string, error) {
	raw, err := key.Raw(parley.X25519)
	if err != nil {
		return "", err
	}
	public, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return "", err
	}
	to, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		return "", err
	}
	return sender.seal(sealVersion, recipient, parley.Thumbprint(parley.X25519, raw), to, payload)
}

// seal signs payload for a recipient and one of its keys, whose id is kid, and encrypts it
// to that key.
func (k *KeyRing) seal(version byte, recipient parley.AgentID, kid string, to hpke.PublicKey, payload []byte) (string, error) {
	limit := PayloadBytesMax
	if version == sealVersion3 {
		limit = PayloadBytesMaxHybrid
	}
	if len(payload) > limit {
		return "", tooLong(payload, limit)
	}
	id, signing := k.signer()
	if id.Zero() || recipient.Zero() {
		return "", ErrUnbound
	}
	text := signedText{version, id, recipient, kid, payload}
	return encrypt(version, to, signing.signed(text.bytes(), payload))
}

// signed returns kid_len ‖ kid ‖ signature ‖ payload.
func (s signingKey) signed(text, payload []byte) []byte {
	plain := make([]byte, 0, 1+len(s.kid)+ed25519.SignatureSize+len(payload))
	plain = append(append(plain, byte(len(s.kid))), s.kid...)
	return append(append(plain, ed25519.Sign(s.key, text)...), payload...)
}

// encrypt encrypts a plaintext to a key and encodes the result.
func encrypt(version byte, to hpke.PublicKey, plain []byte) (string, error) {
	sealed, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo), plain)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte{version}, sealed...)), nil
}

// signedText is what the sender signs: the sender, the recipient, its key and the
// payload. All parts but the payload have fixed lengths, so that no two give the same
// text.
type signedText struct {
	version      byte
	sender       parley.AgentID
	recipient    parley.AgentID
	recipientKid string
	payload      []byte
}

func (t signedText) bytes() []byte {
	label := sealLabel
	if t.version == sealVersion3 {
		label = sealLabel3
	}
	b := make([]byte, 0, len(label)+37+37+len(t.recipientKid)+1+len(t.payload))
	b = append(append(append(b, label...), t.sender.String()...), '\n')
	b = append(append(b, t.recipient.String()...), '\n')
	return append(append(append(b, t.recipientKid...), '\n'), t.payload...)
}

// Open decrypts a payload with any current or former key of the recipient's ring, and
// verifies that the agent sender signed it for that key and for the ring's agent. It
// returns nothing of a payload that fails.
func Open(recipient *KeyRing, sender parley.AgentID, text string, lookup KeyLookup) (*Unsealed, error) {
	version, sealed, err := decodeSealed(text)
	if err != nil {
		return nil, err
	}
	keys := recipient.openers()
	if version == sealVersion3 {
		keys = recipient.hybridOpeners()
	}
	plain, recipientKid, err := openWith(keys, sealed)
	if err != nil {
		return nil, err
	}
	kid, signature, payload, err := splitSigned(plain)
	if err != nil {
		return nil, err
	}
	signed := signedText{version, sender, recipient.AgentID(), recipientKid, payload}
	if err := verifySigned(kid, signature, signed.bytes(), lookup); err != nil {
		return nil, err
	}
	return &Unsealed{Payload: payload, SenderKid: kid, PostQuantum: version == sealVersion3}, nil
}

// decodeSealed returns the version and enc ‖ ciphertext. It tolerates padding, because
// the service does.
func decodeSealed(text string) (version byte, sealed []byte, err error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	// The decoder would skip line breaks.
	if strings.ContainsAny(text, "\r\n") {
		return 0, nil, ErrSealedForm
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) == 0 {
		return 0, nil, ErrSealedForm
	}
	enc := encSize
	switch b[0] {
	case sealVersion:
	case sealVersion3:
		enc = encSizeHybrid
	case 1:
		return 0, nil, ErrOldClient
	default:
		return 0, nil, ErrSealedForm
	}
	if len(b) < 1+enc+tagSize {
		return 0, nil, ErrSealedForm
	}
	return b[0], b[1:], nil
}

// opener is a private key that may open a message, with its id.
type opener struct {
	private hpke.PrivateKey
	kid     string
}

// openWith tries one key after the other: the text does not state to which it was sealed,
// and a wrong one fails authentication.
func openWith(keys []opener, sealed []byte) (plain []byte, kid string, err error) {
	for _, key := range keys {
		if plain, err := hpke.Open(key.private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo), sealed); err == nil {
			return plain, key.kid, nil
		}
	}
	return nil, "", ErrCannotOpen
}
