package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/actors/issuer"
	"parley/actors/rules"
	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/journal"
	"parley/persistence"
)

// masterKeyFile is the file of the data directory that seals the signing keys
// and the secrets of webhooks.
const masterKeyFile = "master.key"

// masterKeyVariable holds the master key where no file is to hold it. It is no
// setting: `parley config` shows those.
const masterKeyVariable = "PARLEY_MASTER_KEY"

var (
	// errMasterKey says nothing of what the variable holds.
	errMasterKey = errors.New(masterKeyVariable + " is not 32 bytes in base64")
	// errForeignKey: the key is one, but not that of this journal.
	errForeignKey = errors.New("not the master key of this data directory, or damaged")
	// errNoKey: there is something sealed and nothing to open it.
	errNoKey = errors.New("the master key is missing")
)

// masterKey is the master key of a data directory as it was found there, before
// the journal was opened.
type masterKey struct {
	// key is nil where there is none.
	key *auth.MasterKey
	// file is where it lies, or would lie; filed says that there is such a file.
	file  string
	filed bool
	// given says that the key is in the environment, whatever the file holds.
	given bool
}

// states is where stored states are read.
type states interface {
	State(journal.Stream) (seq uint64, state []byte, err error)
}

// findMasterKey takes the key that secrets are sealed under from the
// environment, else from its file beside the journal; it makes none. What the
// variable held is gone from the environment afterwards, so that nothing that is
// started from here inherits it.
func findMasterKey(data string) (masterKey, error) {
	found := masterKey{file: filepath.Join(data, masterKeyFile)}
	_, err := os.Lstat(found.file)
	found.filed = err == nil
	text, set := os.LookupEnv(masterKeyVariable)
	if found.given = set && text != ""; !found.given {
		found.key, err = auth.LoadMasterKey(found.file)
		if !found.filed && errors.Is(err, fs.ErrNotExist) {
			return found, nil
		}
		return found, found.helped(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err == nil {
		found.key, err = auth.NewMasterKey(raw)
	}
	if err != nil {
		return found, program.ExitError{Code: program.ExitUsage, Err: errMasterKey}
	}
	return found, os.Unsetenv(masterKeyVariable)
}

// keyFor gives the key with which a store is served. Where there is none yet it is
// made, but only for a store in which nothing is sealed: one whose first start
// did not come to this point.
func (m masterKey) keyFor(store *persistence.Store) (*auth.MasterKey, error) {
	view := store.View()
	err := m.fits(view)
	view.Close()
	if err != nil || m.key != nil {
		return m.key, err
	}
	return auth.MakeMasterKey(m.file)
}

// fits is nil where the key opens what a server has to open: all of the signing
// keys that are in use. It fails where there is such a key and no master key.
func (m masterKey) fits(v states) error {
	sealed, err := sealedKeys(v)
	if err != nil {
		return err
	}
	for _, k := range sealed {
		if m.key == nil {
			return m.helped(fmt.Errorf("%w: there is neither %s nor %s, and the journal holds what is sealed under it: the keys that sign access tokens, the secrets of webhooks", errNoKey, m.file, masterKeyVariable))
		}
		if _, err := m.key.OpenSeed(k.GetKid(), k.GetSealedSeed()); err != nil {
			return m.helped(fmt.Errorf("%s: %w: signing key %s: %w", m.origin(), errForeignKey, k.GetKid(), err))
		}
	}
	return nil
}

// origin is where the key is, for messages.
func (m masterKey) origin() string {
	if m.given {
		return masterKeyVariable
	}
	return m.file
}

// helped adds to what is wrong with the key what can be done about it. A file
// that may be read by too many, or not by this user, is not to be replaced.
func (m masterKey) helped(err error) error {
	switch {
	case err == nil, errors.Is(err, auth.ErrMasterKeyExposed), errors.Is(err, fs.ErrPermission):
		return err
	case m.given && m.filed:
		return fmt.Errorf("%w\n"+
			"  put it right                 %s must hold the key that this directory was first served with\n"+
			"  or leave it unset            where %s is that key", err, masterKeyVariable, m.file)
	case m.given:
		return fmt.Errorf("%w\n"+
			"  put it right                 %s must hold the key that this directory was first served with", err, masterKeyVariable)
	}
	return fmt.Errorf("%w\n"+
		"  put the key back             %s (mode 600); it is the same in every backup that has one\n"+
		"  find it in a backup          %s restore --from BACKUP --data NEW-DIRECTORY\n"+
		"  or hold it elsewhere         %s, in base64", err, m.file, program.Name, masterKeyVariable)
}

// sealedKeys are the signing keys that a server which starts now has to open;
// none before the first start came so far. They are read before there are actors
// to ask, who need the master key themselves.
func sealedKeys(v states) ([]*issuer.Key, error) {
	_, stored, err := v.State(rules.SigningKeyStream)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	var state issuer.State
	if err := state.UnmarshalVT(stored); err != nil {
		return nil, fmt.Errorf("%w: the state of the signing keys: %w", persistence.ErrDamaged, err)
	}
	return state.Published(time.Now()), nil
}
