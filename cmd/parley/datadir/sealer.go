package datadir

import (
	"path/filepath"

	"parley/client/parley"
	"parley/persistence/keyring"
	"parley/persistence/seal"
	"parley/persistence/sealed"
)

// Keys are the keys of an open keyring, or of one that was verified.
type Keys interface {
	Key(org parley.OrgID) (keyring.Key, keyring.State)
	ServerKey() keyring.Key
}

// Sealer returns the sealer of stored contents under the keys of a keyring.
func Sealer(k Keys) *seal.Sealer { return seal.New(sealerKeys{k}, k.ServerKey()) }

// DirectoryCheckpoint returns the file of a data directory in which a server keeps the index
// of the directory between two starts. Backups do not have it.
func DirectoryCheckpoint(data string, s *seal.Sealer) *sealed.File {
	return sealed.NewFile(nil, filepath.Join(data, "directory.checkpoint"), s)
}

type sealerKeys struct{ Keys }

// This compiles only as long as the states of both packages have the same numbers.
var _ = [1]int{}[uint8(seal.Live)-uint8(keyring.Live)] + [1]int{}[uint8(seal.Erased)-uint8(keyring.Erased)]

// Key returns a key as a Sealer takes it.
func (k sealerKeys) Key(org parley.OrgID) ([keyring.KeyBytes]byte, seal.State) {
	key, state := k.Keys.Key(org)
	return key, seal.State(state)
}
