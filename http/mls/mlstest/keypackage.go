// Package mlstest makes MLS structures for tests, with the standard library only and
// without the code that reads them.
package mlstest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"time"
)

// KeyPackage describes a KeyPackage. The zero value of a field stands for a sound one.
type KeyPackage struct {
	// Key signs, and is the signature key unless Claimed is set.
	Key     ed25519.PrivateKey
	Claimed ed25519.PublicKey
	// Identity is that of the basic credential.
	Identity string
	// Suite is 1 if it is 0.
	Suite uint16
	// NotBefore and NotAfter are an hour ago and in 90 days if they are zero.
	NotBefore, NotAfter time.Time
	// LastResort marks the KeyPackage as one of last resort.
	LastResort bool
	// InitKey and EncryptionKey are random if they are nil.
	InitKey, EncryptionKey []byte
}

// Bytes returns the KeyPackage. source: RFC 9420 10
func (k KeyPackage) Bytes(now time.Time) []byte {
	if k.Suite == 0 {
		k.Suite = 1
	}
	if k.NotBefore.IsZero() {
		k.NotBefore = now.Add(-time.Hour)
	}
	if k.NotAfter.IsZero() {
		k.NotAfter = now.Add(90 * 24 * time.Hour)
	}
	if k.Claimed == nil {
		k.Claimed = k.Key.Public().(ed25519.PublicKey)
	}
	if k.InitKey == nil {
		k.InitKey = random()
	}
	if k.EncryptionKey == nil {
		k.EncryptionKey = random()
	}
	leaf := vector(vector(nil, k.EncryptionKey), k.Claimed)
	leaf = vector(append(leaf, 0, 1), []byte(k.Identity))
	leaf = append(leaf, 2, 0, 1, 2, 0, byte(k.Suite), 0, 0, 2, 0, 1, 1)
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(k.NotBefore.Unix()))
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(k.NotAfter.Unix()))
	leaf = append(leaf, 0)
	leaf = vector(leaf, k.signed("LeafNodeTBS", leaf))

	whole := vector(binary.BigEndian.AppendUint16([]byte{0, 1}, k.Suite), k.InitKey)
	whole = append(whole, leaf...)
	if k.LastResort {
		whole = append(whole, 3, 0, 10, 0)
	} else {
		whole = append(whole, 0)
	}
	return vector(whole, k.signed("KeyPackageTBS", whole))
}

// Message returns the KeyPackage in an MLSMessage.
func (k KeyPackage) Message(now time.Time) []byte { return append([]byte{0, 1, 0, 5}, k.Bytes(now)...) }

func (k KeyPackage) signed(label string, content []byte) []byte {
	return ed25519.Sign(k.Key, vector(vector(nil, []byte("MLS 1.0 "+label)), content))
}

func random() []byte { return noise(32) }

// noise returns random bytes.
func noise(length int) []byte {
	data := make([]byte, length)
	_, _ = rand.Read(data) // it never fails
	return data
}

// vector appends a vector.
func vector(to, contents []byte) []byte {
	switch n := len(contents); {
	case n < 1<<6:
		to = append(to, byte(n))
	case n < 1<<14:
		to = append(to, byte(n>>8)|0x40, byte(n))
	default:
		to = append(to, byte(n>>24)|0x80, byte(n>>16), byte(n>>8), byte(n))
	}
	return append(to, contents...)
}
