package e2ee

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"parley/client/parley"
)

// The format sender-key-v1. Every byte is explained in docs/encryption.md.
const (
	senderKeyVersion = 0x01
	// mlsMessageVersion begins an MLSMessage instead.
	mlsMessageVersion = 0x00
	messageKeyLabel   = "parley/sender-key-v1/message\n"
	nextKeyLabel      = "parley/sender-key-v1/chain\n"
	broadcastLabel    = "parley/sender-key-v1/signature\n"
	chainKeySize      = 32
	nonceSize         = 12
	// senderHeaderSize is the size of version, generation, counter and nonce.
	senderHeaderSize = 1 + 8 + 4 + nonceSize
)

// generationMessages is how many messages a generation may have. It bounds how many keys
// of missing messages a receiver must keep.
const generationMessages = 1024

var (
	// ErrSenderKeyForm means that a text is not a sender-key-v1 payload.
	ErrSenderKeyForm = errors.New("the payload is not of the form sender-key-v1")
	// ErrNoSenderKey means that the sender's key of a group message has not arrived yet.
	// The client has requested it or will do so.
	ErrNoSenderKey = errors.New("the sender's key for this group has not come yet")
	// ErrTampered means that a group message was changed in transit, or is attributed to
	// another group, sender, type or content type than it was sealed for.
	ErrTampered = errors.New("the group message is not what the sender sealed")
	// ErrReplayed means that a group message was delivered before under another id.
	ErrReplayed = errors.New("the group message was delivered before under another id")
	// ErrKeyForgotten means that the key of a group message is so old that it was
	// dropped.
	ErrKeyForgotten = errors.New("the key of this group message is no longer kept")
)

// chainScope identifies a chain of keys: one generation of one sender in one group.
type chainScope struct {
	group      parley.GroupID
	sender     parley.AgentID
	generation uint64
}

// chainLink is a chain key and the counter of the message whose key it yields.
type chainLink struct {
	Counter uint32 `json:"counter"`
	Key     []byte `json:"chain_key"`
}

// text encodes the scope and a counter, in a fixed length.
func (s chainScope) text(counter uint32) []byte {
	b := make([]byte, 0, 37+37+8+4)
	b = append(append(b, s.group.String()...), '\n')
	b = append(append(b, s.sender.String()...), '\n')
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, s.generation), counter)
}

// messageKey returns the key of the link's message.
func (l chainLink) messageKey(s chainScope) ([]byte, error) {
	return hkdf.Key(sha256.New, l.Key, nil, messageKeyLabel+string(s.text(l.Counter)), chainKeySize)
}

// next returns the link after l. No earlier link can be computed from it.
func (l chainLink) next(s chainScope) (chainLink, error) {
	key, err := hkdf.Key(sha256.New, l.Key, nil, nextKeyLabel+string(s.text(l.Counter)), chainKeySize)
	return chainLink{l.Counter + 1, key}, err
}

// broadcast is the description of a group message that its seal covers.
type broadcast struct {
	chainScope
	counter     uint32
	messageType string
	contentType string
}

// bound returns the associated data of a group message. All parts have fixed lengths or
// state their length.
func (m broadcast) bound() []byte {
	b := m.text(m.counter)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.messageType))), m.messageType...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(m.contentType))), m.contentType...)
}

// signed returns what the sender signs. Without the signature, any member could write in
// the sender's name.
func (m broadcast) signed(payload []byte) []byte {
	return append(append([]byte(broadcastLabel), m.bound()...), payload...)
}

// seal encrypts a payload under the message's key, with the sender's signature inside.
func (m broadcast) seal(key, nonce []byte, sender signingKey, payload []byte) (string, error) {
	if len(payload) > PayloadBytesMax {
		return "", tooLong(payload, PayloadBytesMax)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return "", err
	}
	plain := sender.signed(m.signed(payload), payload)
	text := make([]byte, 0, senderHeaderSize+len(plain)+tagSize)
	text = binary.BigEndian.AppendUint64(append(text, senderKeyVersion), m.generation)
	text = append(binary.BigEndian.AppendUint32(text, m.counter), nonce...)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(text, nonce, plain, m.bound())), nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// groupText is a parsed sender-key-v1 text.
type groupText struct {
	generation uint64
	counter    uint32
	nonce      []byte
	ciphertext []byte
}

// decodeGroupText parses a text. It tolerates padding, because the service does.
func decodeGroupText(text string) (t groupText, err error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	if strings.ContainsAny(text, "\r\n") { // the decoder would skip them
		return t, ErrSenderKeyForm
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	switch {
	case err == nil && len(b) > 0 && b[0] == mlsMessageVersion:
		return t, ErrMLSMessage
	case err != nil || len(b) < senderHeaderSize+tagSize || b[0] != senderKeyVersion:
		return t, ErrSenderKeyForm
	}
	t = groupText{
		generation: binary.BigEndian.Uint64(b[1:]), counter: binary.BigEndian.Uint32(b[9:]),
		nonce: b[13:senderHeaderSize], ciphertext: b[senderHeaderSize:],
	}
	if t.generation == 0 || t.counter >= generationMessages {
		return t, ErrSenderKeyForm
	}
	return t, nil
}

// open decrypts a text under the message's key and verifies the signature inside. It
// returns the payload and the id of the key that signed it.
func (m broadcast) open(key []byte, t groupText, lookup KeyLookup) (payload []byte, kid string, err error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, "", err
	}
	plain, err := aead.Open(nil, t.nonce, t.ciphertext, m.bound())
	if err != nil {
		return nil, "", ErrTampered
	}
	kid, signature, payload, err := splitSigned(plain)
	if err != nil {
		return nil, "", ErrSenderKeyForm
	}
	if err := verifySigned(kid, signature, m.signed(payload), lookup); err != nil {
		return nil, "", err
	}
	return payload, kid, nil
}

// splitSigned splits kid_len ‖ kid ‖ signature ‖ payload.
func splitSigned(plain []byte) (kid string, signature, payload []byte, err error) {
	if len(plain) < 1 || plain[0] == 0 || len(plain) < 1+int(plain[0])+ed25519.SignatureSize {
		return "", nil, nil, ErrSealedForm
	}
	at := 1 + int(plain[0])
	return string(plain[1:at]), plain[at : at+ed25519.SignatureSize], plain[at+ed25519.SignatureSize:], nil
}

// verifySigned verifies a signature by the key that its sender publishes under kid.
func verifySigned(kid string, signature, text []byte, lookup KeyLookup) error {
	published, err := lookup(kid)
	if err != nil {
		return err
	}
	key, err := published.Raw(parley.Ed25519)
	if err != nil || parley.Thumbprint(parley.Ed25519, key) != kid || !ed25519.Verify(key, text, signature) {
		return ErrForged
	}
	return nil
}
