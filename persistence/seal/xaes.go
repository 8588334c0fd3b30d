package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"reflect"
)

const (
	keyBytes   = 32
	nonceBytes = 24
	tagBytes   = 16
)

// xaes is XAES-256-GCM (https://c2sp.org/XAES-256-GCM) for one key: AES-256-GCM with a
// key of its own for each message, derived from the first half of a nonce of 24 bytes.
// Nonces of this size can be chosen at random for any number of messages.
//
// The package implements it on crypto/aes and crypto/cipher, because the library of
// choice, tink-go, takes its keys only through key sets, which copy them and cannot be
// erased, and costs half as much time again (docs/decisions/0017-keys.md has the figures).
type xaes struct {
	block cipher.Block
	// k1 is the CMAC subkey for whole blocks.
	k1 [aes.BlockSize]byte
}

// newXAES returns the cipher of a key of 32 bytes.
func newXAES(key []byte) (*xaes, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	x := &xaes{block: block}
	block.Encrypt(x.k1[:], x.k1[:])
	carry := byte(0)
	for i := len(x.k1) - 1; i >= 0; i-- {
		carry, x.k1[i] = x.k1[i]>>7, x.k1[i]<<1|carry
	}
	x.k1[len(x.k1)-1] ^= carry * 0b10000111
	return x, nil
}

// messageKey derives the key of the message with a nonce of 24 bytes, and writes it to
// key. It keeps neither.
func (x *xaes) messageKey(key *[keyBytes]byte, nonce []byte) {
	for i := range 2 {
		half := key[i*aes.BlockSize:][:aes.BlockSize]
		copy(half, []byte{0, byte(i + 1), 'X', 0})
		copy(half[4:], nonce[:12])
		for j := range half {
			half[j] ^= x.k1[j]
		}
		x.block.Encrypt(half, half)
	}
}

// wipe overwrites the key. The cipher must not be used afterwards.
func (x *xaes) wipe() {
	// The standard library has no way to erase a cipher. All of its key is in the value
	// that the interface points to.
	reflect.ValueOf(x.block).Elem().SetZero()
	clear(x.k1[:])
}

// messageCipher returns AES-256-GCM with the key of a message. Its nonce is the second
// half of the message's nonce.
func messageCipher(key *[keyBytes]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
