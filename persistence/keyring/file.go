package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// A file is one copy of a shard:
//
//	magic (8) | keyring (16) | wrapping key (16) | shard (1) | generation (8)
//	nonce (12) | content, sealed | tag (16)
//	SHA-256 of everything before (32)
//
// The content is the server key and the shard's table. It is sealed with AES-256-GCM
// under a key that is derived from the wrapping key for this keyring, shard and
// generation; the additional data is the header. The checksum finds damage without any
// key, the seal finds what was made on purpose. The field "wrapping key" is derived from
// the wrapping key and reveals nothing about it: it tells another key from damage.
const (
	magic = "parleyK1"

	keyringAt    = len(magic)
	wrappedAt    = keyringAt + identityBytes
	shardAt      = wrappedAt + identityBytes
	generationAt = shardAt + 1
	headerBytes  = generationAt + 8

	identityBytes = 16
	nonceBytes    = 12
	tagBytes      = 16

	// fileBytesMin is the size of a file without any record.
	fileBytesMin = headerBytes + nonceBytes + KeyBytes + tagBytes + sha256.Size
	fileBytesMax = fileBytesMin + recordsMax*recordBytes
)

// WrappingKeyBytes is the size of the key under which a keyring's files are sealed.
const WrappingKeyBytes = 32

// header is the part of a file that is not sealed.
type header struct {
	keyring, wrapped [identityBytes]byte
	shard            byte
	generation       uint64
}

func (h header) append(b []byte) []byte {
	b = append(b, magic...)
	b = append(append(b, h.keyring[:]...), h.wrapped[:]...)
	return binary.BigEndian.AppendUint64(append(b, h.shard), h.generation)
}

// readHeader reads the beginning of a file, unchecked.
func readHeader(b []byte) (h header, ok bool) {
	if len(b) < headerBytes || string(b[:len(magic)]) != magic {
		return header{}, false
	}
	return header{
		keyring: [identityBytes]byte(b[keyringAt:]), wrapped: [identityBytes]byte(b[wrappedAt:]),
		shard: b[shardAt], generation: binary.BigEndian.Uint64(b[generationAt:]),
	}, true
}

// parseFile reads a file as far as that is possible without a key: the file is what was
// once written, or the error says why it is not.
func parseFile(b []byte) (header, error) {
	h, ok := readHeader(b)
	switch {
	case !ok:
		return header{}, errors.New("it does not begin as a file of a keyring does")
	case len(b) < fileBytesMin:
		return header{}, fmt.Errorf("it has %d bytes, less than any shard", len(b))
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return header{}, errors.New("its checksum does not match")
	}
	return h, nil
}

// wrapper seals and opens files under one wrapping key.
type wrapper struct{ key []byte }

// newWrapper takes a copy of a wrapping key.
func newWrapper(key []byte) (wrapper, error) {
	if len(key) != WrappingKeyBytes {
		return wrapper{}, fmt.Errorf("a wrapping key of %d bytes instead of %d", len(key), WrappingKeyBytes)
	}
	return wrapper{bytes.Clone(key)}, nil
}

// id returns what the header of a keyring's files says about the wrapping key.
func (w wrapper) id(keyring [identityBytes]byte) ([identityBytes]byte, error) {
	id, err := hkdf.Key(sha256.New, w.key, keyring[:], "parley keyring: which wrapping key", identityBytes)
	if err != nil {
		return [identityBytes]byte{}, err
	}
	return [identityBytes]byte(id), nil
}

// cipher returns the cipher of one generation of a shard. Nonces are random, and come
// from the system's generator: a generation may be written again with other content,
// after a crash took back what was never acknowledged.
func (w wrapper) cipher(h header) (cipher.AEAD, error) {
	info := binary.BigEndian.AppendUint64(append([]byte("parley keyring: shard "), h.shard), h.generation)
	key, err := hkdf.Key(sha256.New, w.key, h.keyring[:], string(info), 32)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal returns the file of a shard.
func (w wrapper) seal(h header, server Key, t table) ([]byte, error) {
	aead, err := w.cipher(h)
	if err != nil {
		return nil, err
	}
	content := append(append(make([]byte, 0, KeyBytes+len(t)), server[:]...), t...)
	defer clear(content)
	b := h.append(make([]byte, 0, fileBytesMin+len(t)))
	b = aead.Seal(b, nil, content, b)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// open returns the content of a file that parseFile found sound.
func (w wrapper) open(h header, b []byte) (server Key, t table, err error) {
	aead, err := w.cipher(h)
	if err != nil {
		return Key{}, nil, err
	}
	content, err := aead.Open(nil, nil, b[headerBytes:len(b)-sha256.Size], b[:headerBytes])
	if err != nil || len(content) < KeyBytes {
		return Key{}, nil, errors.New("its content was not sealed under this keyring's key")
	}
	server, t = Key(content), table(content[KeyBytes:])
	if err := t.check(h.shard); err != nil {
		return Key{}, nil, err
	}
	return server, t, nil
}
