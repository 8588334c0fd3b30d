package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/disk"
	"parley/persistence/keyring"
)

// wrappingPurpose is what the wrapping key of the keyring is derived from the master key
// for.
const wrappingPurpose = "keyring"

// OpenStore opens the store of a data directory together with its keyring, so that the
// keyring is opened while no other process has the directory. The keyring is nil if there
// is none because no organization was ever created: MakeKeyring makes one.
func OpenStore(data string, found MasterKey, o persistence.Options) (*persistence.Store, *keyring.Keyring, error) {
	var keys *keyring.Keyring
	o.OpenKeyring = func(witnessed disk.KeyringState) (opened persistence.Keyring, err error) {
		if keys, err = found.openKeyring(keyringDir(data), witnessed); keys == nil {
			return nil, err
		}
		return keys, nil
	}
	store, err := persistence.Open(filepath.Join(data, "journal"), o)
	if err == nil && keys == nil {
		if err = requireNoOrgs(store, data); err != nil {
			err = errors.Join(err, store.Close())
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return store, keys, nil
}

// MakeKeyring makes the keyring of a data directory that has none. server is the server key of
// the cluster that the directory joins, nil for a new one.
func MakeKeyring(store *persistence.Store, data string, master *auth.MasterKey, server *keyring.Key) (*keyring.Keyring, error) {
	wrapping, err := master.Derive(wrappingPurpose)
	if err != nil {
		return nil, err
	}
	if server == nil {
		err = keyring.Make(nil, keyringDir(data), wrapping, nil)
	} else {
		err = keyring.MakeAlike(nil, keyringDir(data), wrapping, *server, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("the keyring cannot be made: %w", err)
	}
	keys, err := keyring.Open(nil, keyringDir(data), wrapping, keyring.Options{})
	if err == nil {
		store.Adopt(keys)
	}
	return keys, err
}

// keyringDir returns the directory of the keyring of a data directory.
func keyringDir(data string) string {
	return filepath.Join(data, "journal", persistence.KeyringName)
}

// openKeyring opens a keyring, which must have what the durability witness records. It
// returns nil if there is none and the witness records none.
func (m MasterKey) openKeyring(dir string, witnessed disk.KeyringState) (*keyring.Keyring, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && !witnessed.Known() {
		return nil, nil
	}
	if m.Key == nil {
		return nil, m.helped(fmt.Errorf("%w: neither %s nor %s exists, and the keyring %s is encrypted with that key", errNoKey, m.File, MasterKeyVariable, dir))
	}
	wrapping, err := m.Key.Derive(wrappingPurpose)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Open(nil, dir, wrapping, keyring.Options{Witnessed: witnessed})
	if errors.Is(err, keyring.ErrWrappingKey) {
		err = m.helped(fmt.Errorf("%s: %w: %w", m.Origin(), errForeignKey, err))
	}
	return keys, err
}

// requireNoOrgs refuses a store with organizations, whose keys are lost if there is no
// keyring.
func requireNoOrgs(store *persistence.Store, data string) error {
	view := store.View()
	defer view.Close()
	orgs := false
	if err := view.Table(journal.SlugTable, func(_, _ []byte) bool { orgs = true; return false }); err != nil || !orgs {
		return err
	}
	return fmt.Errorf("%w: the keyring %s is missing, and the journal has organizations, whose keys were in it", persistence.ErrDamaged, keyringDir(data))
}

// OpenForBackup opens the store of a data directory that no server has open, with its
// keyring, which needs the master key. It never creates either. A fatal error of the store
// ends the process.
func OpenForBackup(data string, std *program.Streams) (*persistence.Store, *keyring.Keyring, MasterKey, error) {
	if err := checkAlone(data); err != nil {
		return nil, nil, MasterKey{}, err
	}
	return openOffline(data, offline(std))
}

// OpenReplica opens the store of a node of a cluster whose server is stopped, with its keyring.
// It never creates either. A fatal error of the store ends the process.
func OpenReplica(data string, s persistence.Sequencer, std *program.Streams) (*persistence.Store, *keyring.Keyring, error) {
	o := offline(std)
	o.Sequencer = s
	store, keys, _, err := openOffline(data, o)
	return store, keys, err
}

func openOffline(data string, o persistence.Options) (*persistence.Store, *keyring.Keyring, MasterKey, error) {
	if _, err := Journal(data); err != nil {
		return nil, nil, MasterKey{}, err
	}
	found, err := FindMasterKey(data)
	if err != nil {
		return nil, nil, found, err
	}
	store, keys, err := OpenStore(data, found, o)
	return store, keys, found, Advise(err, data)
}

// VerifiedKeyring is what a verification found out about a keyring.
type VerifiedKeyring struct {
	*keyring.Report
	// Dir is the keyring's directory.
	Dir string
	// Unopened says that the master key does not fit: nothing is known about keys.
	Unopened bool
}

// VerifyKeyring reads all files of the keyring of a data directory and changes nothing. A
// directory that never had a keyring has a nil Report.
func VerifyKeyring(data string, found MasterKey, witnessed disk.KeyringState) (v VerifiedKeyring, err error) {
	v.Dir = keyringDir(data)
	if _, err := os.Lstat(v.Dir); errors.Is(err, fs.ErrNotExist) && !witnessed.Known() {
		return v, nil
	}
	wrapping := []byte(nil)
	if found.Key != nil {
		if wrapping, err = found.Key.Derive(wrappingPurpose); err != nil {
			return v, err
		}
	}
	if wrapping != nil {
		v.Report, err = keyring.Verify(nil, v.Dir, wrapping)
	}
	if v.Unopened = wrapping == nil || errors.Is(err, keyring.ErrWrappingKey); v.Unopened {
		v.Report, err = keyring.Verify(nil, v.Dir, nil)
	}
	return v, err
}
