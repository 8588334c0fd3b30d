package parley

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// ErrInvalidCursor says that a cursor was not given out by this service for
// this list with these filters.
var ErrInvalidCursor = Refuse(Invalid, "invalid_cursor", "The cursor is not one that this list has given out.")

// cursorCharsMax bounds what is worth opening: the longest is a challenge of
// registration, with an address and a name of four bytes a character.
const cursorCharsMax = 4096

// Cursors seals positions in lists, so that a client can hand them back but
// neither read nor make them.
type Cursors struct {
	aead cipher.AEAD
	mac  []byte
}

// NewCursors takes the secret that all nodes share and that survives restarts,
// of at least 16 bytes.
func NewCursors(secret []byte) (*Cursors, error) {
	if len(secret) < 16 {
		return nil, errors.New("parley: a cursor secret needs 16 bytes")
	}
	keys, err := hkdf.Key(sha256.New, secret, nil, "parley cursor v1", 64)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(keys[:32])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Cursors{aead: aead, mac: keys[32:]}, err
}

// Seal makes a cursor of a position. The same text must be given as aad to open
// it: the route and all filters of the list.
func (k *Cursors) Seal(aad string, position []byte) string {
	nonce := k.nonce(aad, position)
	sealed := k.aead.Seal(nonce, nonce, position, []byte(aad))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// nonce is made from what it protects, so that it repeats only with it and no
// randomness is needed.
func (k *Cursors) nonce(aad string, position []byte) []byte {
	h := hmac.New(sha256.New, k.mac)
	_ = binary.Write(h, binary.BigEndian, uint64(len(aad)))
	h.Write([]byte(aad))
	h.Write(position)
	return h.Sum(nil)[:k.aead.NonceSize():k.aead.NonceSize()]
}

// Open gives the position back, or ErrInvalidCursor.
func (k *Cursors) Open(aad, text string) ([]byte, error) {
	if len(text) > cursorCharsMax {
		return nil, ErrInvalidCursor
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < k.aead.NonceSize() || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(text) {
		return nil, ErrInvalidCursor
	}
	nonce, sealed := sealed[:k.aead.NonceSize()], sealed[k.aead.NonceSize():]
	position, err := k.aead.Open(nil, nonce, sealed, []byte(aad))
	if err != nil {
		return nil, ErrInvalidCursor
	}
	return position, nil
}
