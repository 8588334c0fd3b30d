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

// masterKeyBytes is the size of a master key file, which contains only the raw key.
const masterKeyBytes = 32

// sealedSeed and sealedSecret are the versions of the sealed forms.
const (
	sealedSeed   = 1
	sealedSecret = 2
)

var (
	// ErrMasterKey means that a file cannot be used as the master key.
	ErrMasterKey = errors.New("unusable master key file")
	// ErrMasterKeyExposed is the ErrMasterKey for a file whose content may be valid, but
	// that is accessible to others than its owner.
	ErrMasterKeyExposed = fmt.Errorf("%w: it must not be accessible to others", ErrMasterKey)
	// ErrSealed means that a sealed value was not sealed under this master key for this
	// id.
	ErrSealed = errors.New("what is sealed does not open")
)

// MasterKey seals signing keys and secrets at rest. It lives outside the journal,
// so that a copy of the data alone reveals none of them.
type MasterKey struct {
	aead cipher.AEAD
	key  []byte
}

// LoadMasterKey reads the master key from a file of 32 bytes. If there is none, the error
// wraps fs.ErrNotExist and no key is created: a new key could not open what was sealed
// under a lost one. A file of another size, or one that others may read, gives an error
// that wraps ErrMasterKey. Errors name the file.
func LoadMasterKey(path string) (*MasterKey, error) {
	key, err := readMasterKey(path)
	if err != nil {
		return nil, err
	}
	return NewMasterKey(key)
}

// MakeMasterKey creates a master key file unless it exists, and loads it like
// LoadMasterKey. The file contains 32 new bytes, is readable only by its owner, and is on
// stable storage under its name before the key is used. Call it only while nothing is
// sealed yet.
//
// The key always comes from the system's random generator, so that no test can predict
// it.
func MakeMasterKey(path string) (*MasterKey, error) {
	key := make([]byte, masterKeyBytes)
	_, _ = rand.Read(key) // never fails since Go 1.24
	return PutMasterKey(path, key)
}

// PutMasterKey is MakeMasterKey with a given key, that of the cluster which a node joins.
func PutMasterKey(path string, key []byte) (*MasterKey, error) {
	if _, err := NewMasterKey(key); err != nil {
		return nil, err
	}
	if err := createMasterKey(path, key); err != nil {
		return nil, err
	}
	return LoadMasterKey(path)
}

// Bytes returns the key, for another node of a cluster.
func (m *MasterKey) Bytes() []byte { return bytes.Clone(m.key) }

// NewMasterKey returns a master key of 32 given bytes.
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

// Derive returns a secret of 32 bytes for another purpose, always the same one. It
// reveals nothing about the key or the secrets of other purposes.
func (m *MasterKey) Derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, m.key, nil, "parley "+purpose, 32)
}

// SealSeed encrypts the seed of the signing key named kid. Nonces come from the system's
// random generator, because a repeated nonce breaks the seal.
func (m *MasterKey) SealSeed(kid string, seed []byte) []byte {
	return m.aead.Seal([]byte{sealedSeed}, nil, seed, []byte(kid))
}

// OpenSeed is the reverse of SealSeed. The error is ErrSealed for another kid, another
// master key or a changed byte.
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

// SealSecret encrypts a secret for one purpose and id. It does not open under another
// purpose or id.
func (m *MasterKey) SealSecret(purpose string, id, secret []byte) []byte {
	return m.aead.Seal([]byte{sealedSecret}, nil, secret, boundTo(purpose, id))
}

// OpenSecret is the reverse of SealSecret. The error is ErrSealed for another purpose, id
// or master key, or a changed byte.
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

// boundTo returns the associated data of a purpose and an id. It never equals a key id,
// because those contain no zero byte.
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

// createMasterKey creates the file under its name completely or not at all. If another
// process was faster, its file stays and contains the key.
func createMasterKey(path string, key []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
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
