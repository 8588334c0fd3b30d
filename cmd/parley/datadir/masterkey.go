package datadir

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"parley/actors/encoding"
	"parley/actors/issuer"
	"parley/actors/rules"
	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/backup"
)

// MasterKeyFile is the file of the data directory with the key that seals the keys that
// sign access tokens, the secrets of webhooks, and the keyring.
const MasterKeyFile = backup.MasterKeyName

// MasterKeyVariable holds the master key if it must not be in a file. It is not a
// setting, because `parley config` prints settings.
const MasterKeyVariable = "PARLEY_MASTER_KEY"

var (
	// errMasterKey does not quote the variable, which may be a mistyped key.
	errMasterKey = errors.New(MasterKeyVariable + " is not 32 bytes in base64")
	// errForeignKey is returned for a valid key that is not the key of this journal.
	errForeignKey = errors.New("the master key is damaged or belongs to another data directory")
	// errNoKey is returned if the journal has sealed data and there is no key.
	errNoKey = errors.New("the master key is missing")
)

// MasterKey is the master key of a data directory as it was found before the journal
// was opened.
type MasterKey struct {
	// Key is nil if there is none.
	Key *auth.MasterKey
	// File is the path of the key's file; Filed reports whether that file exists.
	File  string
	Filed bool
	// given reports whether the key is in the environment, which takes precedence.
	given bool
}

// States reads stored states.
type States interface {
	State(journal.Stream) (seq uint64, state []byte, err error)
}

// fromEnvironment is what the variable held when it was removed.
var fromEnvironment atomic.Value

// masterKeyText returns what the variable holds, or held when the process began. It removes
// the variable, so that child processes do not inherit the key.
func masterKeyText() (string, error) {
	if text, set := os.LookupEnv(MasterKeyVariable); set {
		fromEnvironment.Store(text)
		return text, os.Unsetenv(MasterKeyVariable)
	}
	text, _ := fromEnvironment.Load().(string)
	return text, nil
}

// FindMasterKey reads the master key from the environment, else from its file beside
// the journal. It does not make one. If the directory was restored, the key must be the one with
// which the backup was made.
func FindMasterKey(data string) (MasterKey, error) {
	found, err := findMasterKey(data)
	if err == nil && found.Key != nil {
		err = backup.CheckRestored(nil, data, func() ([]byte, error) { return backupIndexKey(found.Key) })
	}
	return found, err
}

func findMasterKey(data string) (MasterKey, error) {
	found := MasterKey{File: filepath.Join(data, MasterKeyFile)}
	_, err := os.Lstat(found.File)
	found.Filed = err == nil
	text, err := masterKeyText()
	if err != nil {
		return found, err
	}
	if found.given = text != ""; !found.given {
		found.Key, err = auth.LoadMasterKey(found.File)
		if !found.Filed && errors.Is(err, fs.ErrNotExist) {
			return found, nil
		}
		return found, found.helped(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err == nil {
		found.Key, err = auth.NewMasterKey(raw)
	}
	if err != nil {
		return found, program.ExitError{Code: program.ExitUsage, Err: errMasterKey}
	}
	return found, nil
}

// Given reports whether the key is from the environment.
func (m MasterKey) Given() bool { return m.given }

// KeyFor returns the key with which to serve a store. If there is none it creates one,
// but only for a store without sealed data, such as one whose first start was interrupted
// before the key was written.
func (m MasterKey) KeyFor(store *persistence.Store) (*auth.MasterKey, error) {
	view := store.View()
	err := m.Fits(view.StreamReader)
	view.Close()
	if err != nil || m.Key != nil {
		return m.Key, err
	}
	return auth.MakeMasterKey(m.File)
}

// PutMasterKey stores the master key of the cluster that a data directory joins, unless it is
// given in the environment already. Another one there is an error.
func PutMasterKey(data string, key []byte) error {
	switch found, err := FindMasterKey(data); {
	case err != nil:
		return err
	case found.given && bytes.Equal(found.Key.Bytes(), key):
		return nil
	case found.given:
		return program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s is not the master key of the cluster", MasterKeyVariable)}
	}
	_, err := auth.PutMasterKey(filepath.Join(data, MasterKeyFile), key)
	return err
}

// Fits returns nil if the key opens all signing keys in use. It returns an error if
// there is such a key and no master key.
func (m MasterKey) Fits(v States) error {
	sealed, err := sealedKeys(v)
	if err != nil {
		return err
	}
	for _, k := range sealed {
		if m.Key == nil {
			return m.helped(fmt.Errorf("%w: neither %s nor %s exists, and the journal contains data encrypted with that key: everything that organizations own, and the keys that sign access tokens and cards", errNoKey, m.File, MasterKeyVariable))
		}
		if _, err := m.Key.OpenSeed(k.GetKid(), k.GetSealedSeed()); err != nil {
			return m.helped(fmt.Errorf("%s: %w: signing key %s: %w", m.Origin(), errForeignKey, k.GetKid(), err))
		}
	}
	return nil
}

// Origin returns where the key is, for messages.
func (m MasterKey) Origin() string {
	if m.given {
		return MasterKeyVariable
	}
	return m.File
}

// helped adds to an error about the key what the operator can do. It adds nothing for a
// file with the wrong permissions, which must not be replaced.
func (m MasterKey) helped(err error) error {
	switch {
	case err == nil, errors.Is(err, auth.ErrMasterKeyExposed), errors.Is(err, fs.ErrPermission):
		return err
	case m.given && m.Filed:
		return fmt.Errorf("%w\n"+
			"  fix it                       %s must contain the key with which this directory was first used\n"+
			"  or unset it                  if %s is that key", err, MasterKeyVariable, m.File)
	case m.given:
		return fmt.Errorf("%w\n"+
			"  fix it                       %s must contain the key with which this directory was first used", err, MasterKeyVariable)
	}
	return fmt.Errorf("%w\n"+
		"  put the key back             %s (mode 600); every backup with a key has the same one\n"+
		"  find it in a backup          %s restore --from BACKUP --data NEW-DIRECTORY\n"+
		"  or set it elsewhere          %s, in base64", err, m.File, program.Name, MasterKeyVariable)
}

// sealedKeys returns the signing keys that a server must open at startup; none before the
// first start has finished. It reads them from the store, because the actors need the
// master key before they can answer queries.
func sealedKeys(v States) ([]*issuer.Key, error) {
	var keys []*issuer.Key
	for _, purpose := range []journal.Stream{rules.SigningKeyStream, rules.CardKeyStream, rules.ReceiptKeyStream} {
		_, stored, err := v.State(purpose)
		if err != nil {
			return nil, fmt.Errorf("signing keys: %w", err)
		}
		var state issuer.State
		if err := encoding.Unmarshal(stored, &state); err != nil {
			return nil, fmt.Errorf("%w: the state of the signing keys: %w", persistence.ErrDamaged, err)
		}
		keys = append(keys, state.Published(time.Now())...)
	}
	return keys, nil
}
