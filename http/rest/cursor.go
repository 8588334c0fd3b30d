package rest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"parley/client/parley"
)

// cursorCharsMax is the longest text that Open decrypts. The longest cursor is the
// challenge of a registration, with an address and a name of four bytes per character.
const cursorCharsMax = 4096

// Cursors encrypts positions in lists, so that clients can return them but neither
// read nor forge them.
type Cursors struct {
	aead cipher.AEAD
	mac  []byte
}

// NewCursors returns cursors for a secret of at least 16 bytes. A cursor can be opened
// as long as the secret is the same, so the secret must survive restarts.
func NewCursors(secret []byte) (*Cursors, error) {
	if len(secret) < 16 {
		return nil, errors.New("a cursor secret needs 16 bytes")
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

// Seal returns the cursor of a position, in base64url. aad is the route and all filters
// of the list; Open needs the same text.
func (k *Cursors) Seal(aad string, position []byte) string {
	nonce := k.nonce(aad, position)
	sealed := k.aead.Seal(nonce, nonce, position, []byte(aad))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// nonce returns a nonce derived from the plaintext and aad, so that it repeats only for
// the same input and needs no randomness. Its first bit is 0, so that no text of Seal
// begins with a dash: a command line would take it for a flag.
func (k *Cursors) nonce(aad string, position []byte) []byte {
	h := hmac.New(sha256.New, k.mac)
	_ = binary.Write(h, binary.BigEndian, uint64(len(aad)))
	h.Write([]byte(aad))
	h.Write(position)
	nonce := h.Sum(nil)[:k.aead.NonceSize():k.aead.NonceSize()]
	nonce[0] &= 0x7f
	return nonce
}

// Open returns the position that Seal encrypted, or parley.ErrInvalidCursor.
func (k *Cursors) Open(aad, text string) ([]byte, error) {
	if len(text) > cursorCharsMax {
		return nil, parley.ErrInvalidCursor
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < k.aead.NonceSize() || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(text) {
		return nil, parley.ErrInvalidCursor
	}
	nonce, sealed := sealed[:k.aead.NonceSize()], sealed[k.aead.NonceSize():]
	position, err := k.aead.Open(nil, nonce, sealed, []byte(aad))
	if err != nil {
		return nil, parley.ErrInvalidCursor
	}
	return position, nil
}
