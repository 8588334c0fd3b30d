package datadir

import (
	"parley"
	"parley/persistence/keyring"
	"parley/persistence/seal"
)

// Keys are the keys of an open keyring, or of one that was verified.
type Keys interface {
	Key(org parley.OrgID) (keyring.Key, keyring.State)
	ServerKey() keyring.Key
}

// Sealer returns the sealer of stored contents under the keys of a keyring.
func Sealer(k Keys) *seal.Sealer { return seal.New(sealerKeys{k}, k.ServerKey()) }

type sealerKeys struct{ Keys }

// Key returns a key as a Sealer takes it. The states of both packages have the same
// numbers.
func (k sealerKeys) Key(org parley.OrgID) ([keyring.KeyBytes]byte, seal.State) {
	key, state := k.Keys.Key(org)
	return key, seal.State(state)
}
