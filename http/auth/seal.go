package auth

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// masterKeyBytes is the size of a master key file: the raw key, nothing else.
const masterKeyBytes = 32

// sealedSeed and sealedSecret are the versions of the sealed forms.
const (
	sealedSeed   = 1
	sealedSecret = 2
)

var (
	// ErrMasterKey says that a file cannot serve as the master key.
	ErrMasterKey = errors.New("unusable master key file")
	// ErrMasterKeyExposed is the ErrMasterKey of a file whose content may be good,
	// but which others than its owner may get at.
	ErrMasterKeyExposed = fmt.Errorf("%w: it must not be accessible to others", ErrMasterKey)
	// ErrSealed says that what is sealed was not sealed under this master key for
	// this id.
	ErrSealed = errors.New("what is sealed does not open")
)

// MasterKey seals signing keys and secrets at rest. It lives outside the journal,
// so that a copy of the data alone reveals none of them.
type MasterKey struct {
	aead cipher.AEAD
	key  []byte
}

// LoadMasterKey reads the master key from a file of 32 bytes. Where there is none
// the error wraps fs.ErrNotExist, and nothing is made: what is sealed under a
// lost key does not open under a fresh one. A file of another size, or one that
// others may read, is refused with an error that wraps ErrMasterKey; each names
// the file.
func LoadMasterKey(path string) (*MasterKey, error) {
	key, err := readMasterKey(path)
	if err != nil {
		return nil, err
	}
	return NewMasterKey(key)
}

// MakeMasterKey makes the file of a master key, unless there is one, and reads
// it like LoadMasterKey: 32 fresh bytes, readable by their owner alone, on stable
// storage under their name before they are used. It is for where nothing is
// sealed yet.
//
// The key is drawn from the system's generator and from nothing else: it must
// never be one that a test could have foreseen.
func MakeMasterKey(path string) (*MasterKey, error) {
	if err := createMasterKey(path); err != nil {
		return nil, err
	}
	return LoadMasterKey(path)
}

// NewMasterKey is a master key of 32 given bytes.
func NewMasterKey(key []byte) (*MasterKey, error) {
	if len(key) != masterKeyBytes {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrMasterKey, len(key), masterKeyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &MasterKey{aead: aead, key: bytes.Clone(key)}, nil
}

// Derive gives a secret of 32 bytes for another purpose, the same one each
// time; from it nothing can be learned of the key or of other purposes.
func (m *MasterKey) Derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, m.key, nil, "parley "+purpose, 32)
}

// SealSeed encrypts the seed of the signing key named kid. Nonces are drawn
// from the system's generator, because one that repeats breaks the seal.
func (m *MasterKey) SealSeed(kid string, seed []byte) []byte {
	return m.aead.Seal([]byte{sealedSeed}, nil, seed, []byte(kid))
}

// OpenSeed is the reverse of SealSeed. Another kid, another master key or a
// changed byte is ErrSealed.
func (m *MasterKey) OpenSeed(kid string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealedSeed {
		return nil, ErrSealed
	}
	seed, err := m.aead.Open(nil, nil, sealed[1:], []byte(kid))
	if err != nil || len(seed) != 32 {
		return nil, ErrSealed
	}
	return seed, nil
}

// SealSecret encrypts a secret for one purpose and the thing with that id: under
// another of either it does not open.
func (m *MasterKey) SealSecret(purpose string, id, secret []byte) []byte {
	return m.aead.Seal([]byte{sealedSecret}, nil, secret, boundTo(purpose, id))
}

// OpenSecret is the reverse of SealSecret. Another purpose, id or master key, or
// a changed byte, is ErrSealed.
func (m *MasterKey) OpenSecret(purpose string, id, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealedSecret {
		return nil, ErrSealed
	}
	secret, err := m.aead.Open(nil, nil, sealed[1:], boundTo(purpose, id))
	if err != nil {
		return nil, ErrSealed
	}
	return secret, nil
}

// boundTo is no key id, whatever the purpose: those hold no zero byte.
func boundTo(purpose string, id []byte) []byte {
	return append(append([]byte(purpose), 0), id...)
}

func readMasterKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrMasterKey, path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o (chmod 600)", ErrMasterKeyExposed, path, mode)
	}
	if info.Size() != masterKeyBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes instead of %d", ErrMasterKey, path, info.Size(), masterKeyBytes)
	}
	key := make([]byte, masterKeyBytes)
	_, err = io.ReadFull(f, key)
	return key, err
}

// createMasterKey makes the file appear under its name complete or not at all.
// When another process was faster, its file stays and is the key.
func createMasterKey(path string) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	key := make([]byte, masterKeyBytes)
	_, _ = rand.Read(key) // never fails since Go 1.24
	_, err = tmp.Write(key)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
