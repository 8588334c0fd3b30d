// Package sealtest has keys for tests: every organization has one, without a keyring.
package sealtest

import (
	"crypto/sha256"
	"sync"

	"parley/client/parley"
	"parley/persistence/seal"
)

// Keys are the keys of all organizations. The zero value is ready.
type Keys struct {
	mu     sync.Mutex
	erased map[parley.OrgID]bool
}

// Key returns the key of an organization, which follows from its id.
func (k *Keys) Key(org parley.OrgID) (key [32]byte, state seal.State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.erased[org] {
		return key, seal.Erased
	}
	return sha256.Sum256(org[:]), seal.Live
}

// Erase destroys the key of an organization. The caller then has the sealers of k forget
// it.
func (k *Keys) Erase(org parley.OrgID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.erased == nil {
		k.erased = map[parley.OrgID]bool{}
	}
	k.erased[org] = true
}

// Sealer returns a sealer with the keys of all organizations.
func Sealer() *seal.Sealer { return seal.New(&Keys{}, [32]byte{1}) }
