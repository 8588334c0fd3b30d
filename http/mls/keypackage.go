package mls

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
)

// KeyPackage is what a server has to know of a KeyPackage, with which others add its owner
// to a group.
type KeyPackage struct {
	Suite Suite
	// InitKey and EncryptionKey are HPKE public keys of the suite. They differ.
	InitKey, EncryptionKey []byte
	// SignatureKey is the owner's public signature key.
	SignatureKey []byte
	// Identity is that of the basic credential.
	Identity []byte
	// NotBefore and NotAfter bound its lifetime, in Unix seconds.
	NotBefore, NotAfter uint64
	// LastResort: the owner marks the KeyPackage as one that may be used more than once.
	LastResort bool

	// bare is the KeyPackage without an MLSMessage around it. toSign and leafToSign are
	// the beginnings of it and of its leaf node that are signed.
	bare, toSign, signature   []byte
	leafToSign, leafSignature []byte
}

// ErrSignature rejects a KeyPackage that its signature key has not signed.
var ErrSignature = errors.New("mls: a signature of the KeyPackage does not verify")

// leafSource says in which of its places a leaf node is.
type leafSource uint8

// Sources of leaf nodes. source: RFC 9420 7.2
const (
	fromKeyPackage leafSource = 1
	fromUpdate     leafSource = 2
	fromCommit     leafSource = 3
)

// credentialBasic is the type of a credential that is the bare identity.
const credentialBasic = 1

// ParseKeyPackage reads a KeyPackage with a basic credential, in an MLSMessage or bare. It
// does not verify the signatures. source: RFC 9420 10
func ParseKeyPackage(data []byte) (KeyPackage, error) {
	r := &reader{data: data}
	r.unwrap(FormatKeyPackage)
	begin := r.at
	r.version()
	k := KeyPackage{Suite: Suite(r.u16()), InitKey: r.vector()}
	at := r.at
	leaf := r.leafNode()
	switch {
	case r.fault != nil:
	case leaf.source != fromKeyPackage:
		r.fail(at, "the leaf node is not made for a KeyPackage")
	case leaf.credential != credentialBasic:
		r.fail(at, "the credential is not a basic one")
	case bytes.Equal(leaf.encryptionKey, k.InitKey):
		r.fail(at, "the encryption key is the init key")
	}
	r.extensions(func(kind uint16, _ []byte) { k.LastResort = k.LastResort || kind == extensionLastResort })
	signed := r.at
	k.signature = r.vector()
	if err := r.end(); err != nil {
		return KeyPackage{}, err
	}
	k.EncryptionKey, k.SignatureKey, k.Identity = leaf.encryptionKey, leaf.signatureKey, leaf.identity
	k.NotBefore, k.NotAfter = leaf.notBefore, leaf.notAfter
	k.bare, k.toSign = data[begin:], data[begin:signed]
	k.leafToSign, k.leafSignature = leaf.toSign, leaf.signature
	return k, nil
}

// leafNode is what is read of a LeafNode.
type leafNode struct {
	encryptionKey, signatureKey []byte
	credential                  uint16
	identity                    []byte
	source                      leafSource
	notBefore, notAfter         uint64
	toSign, signature           []byte
}

// leafNode reads a LeafNode. source: RFC 9420 7.2
func (r *reader) leafNode() leafNode {
	begin := r.at
	l := leafNode{encryptionKey: r.vector(), signatureKey: r.vector(), credential: r.u16(), identity: r.vector()}
	for range 5 { // versions, cipher suites, extensions, proposals, credentials
		at := r.at
		if len(r.vector())%2 != 0 {
			r.fail(at, "the capabilities are not pairs of bytes")
		}
	}
	at := r.at
	switch l.source = leafSource(r.u8()); l.source {
	case fromKeyPackage:
		l.notBefore, l.notAfter = r.u64(), r.u64()
	case fromUpdate:
	case fromCommit:
		r.vector() // parent_hash
	default:
		r.fail(at, "there is no such source of a leaf node")
	}
	r.extensions(nil)
	if r.fault != nil {
		return leafNode{}
	}
	l.toSign = r.data[begin:r.at]
	l.signature = r.vector()
	return l
}

// VerifyEd25519 returns ErrSignature unless the signature key is one of Ed25519 that has
// signed both the KeyPackage and its leaf node, by a suite that may have such keys.
// source: RFC 9420 5.1.2
func (k *KeyPackage) VerifyEd25519() error {
	if k.Suite.otherSignatures() || len(k.SignatureKey) != ed25519.PublicKeySize ||
		!ed25519.Verify(k.SignatureKey, labelled("KeyPackageTBS", k.toSign), k.signature) ||
		!ed25519.Verify(k.SignatureKey, labelled("LeafNodeTBS", k.leafToSign), k.leafSignature) {
		return ErrSignature
	}
	return nil
}

// otherSignatures reports whether the suite is known to have signatures of another scheme
// than Ed25519. source: RFC 9420 17.1
func (s Suite) otherSignatures() bool {
	switch s {
	case 2, 4, 5, 6, 7:
		return true
	}
	return false
}

// labelled returns what is signed of content. source: RFC 9420 5.1.2
func labelled(label string, content []byte) []byte {
	signed := make([]byte, 0, len(label)+len(content)+16)
	return appendVector(appendVector(signed, "MLS 1.0 "+label), content)
}

// Bare returns the KeyPackage without an MLSMessage around it.
func (k *KeyPackage) Bare() []byte { return k.bare }

// Reference returns the KeyPackageRef, by which a Welcome names the KeyPackage; false if
// the hash function of the suite is not known here. source: RFC 9420 5.2
func (k *KeyPackage) Reference() ([]byte, bool) {
	input := appendVector(make([]byte, 0, len(k.bare)+40), "MLS 1.0 KeyPackage Reference")
	input = appendVector(input, k.bare)
	switch k.Suite {
	case 1, 2, 3:
		sum := sha256.Sum256(input)
		return sum[:], true
	case 4, 5, 6:
		sum := sha512.Sum512(input)
		return sum[:], true
	case 7:
		sum := sha512.Sum384(input)
		return sum[:], true
	}
	return nil, false
}
