package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/persistence"
	"parley/persistence/keyring"
)

// creating is the folder of a data directory in which it is made.
const creating = "creating.tmp"

// NewDirectory is a data directory that is being made. Until Finish, a server finds nothing
// in it.
type NewDirectory struct {
	Store   *persistence.Store
	Keyring *keyring.Keyring
	Master  *auth.MasterKey
	data    string
	// made is whether the directory did not exist.
	made bool
}

// Create begins a data directory, which must be empty or not exist. The caller calls Finish
// or Abandon.
func Create(data string, journals int, std *program.Streams) (d *NewDirectory, err error) {
	d = &NewDirectory{data: data}
	names, err := os.ReadDir(data)
	if d.made = errors.Is(err, fs.ErrNotExist); err != nil && !d.made {
		return nil, err
	}
	for _, f := range names {
		if f.Name() != "lost+found" { // file systems create it
			return nil, fmt.Errorf("%s is not empty (it has %s)", data, f.Name())
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Abandon())
		}
	}()
	if err = os.MkdirAll(d.aside(), 0o700); err != nil {
		return d, err
	}
	found, err := FindMasterKey(d.aside())
	if err != nil {
		return d, err
	}
	o := offline(std)
	o.Existing, o.Journals = false, journals
	if d.Store, d.Keyring, err = OpenStore(d.aside(), found, o); err != nil {
		return d, err
	}
	if d.Master, err = found.KeyFor(d.Store); err == nil {
		d.Keyring, err = MakeKeyring(d.Store, d.aside(), d.Master, nil)
	}
	return d, err
}

func (d *NewDirectory) aside() string { return filepath.Join(d.data, creating) }

// Finish closes the store and puts everything in its place.
func (d *NewDirectory) Finish() error {
	store := d.Store
	d.Store = nil
	if err := store.Close(); err != nil {
		return err
	}
	files, err := os.ReadDir(d.aside())
	if err != nil {
		return err
	}
	const last = "journal" // a server does not start on the other files alone
	for _, f := range files {
		if f.Name() != last {
			err = errors.Join(err, os.Rename(filepath.Join(d.aside(), f.Name()), filepath.Join(d.data, f.Name())))
		}
	}
	if err == nil {
		err = os.Rename(filepath.Join(d.aside(), last), filepath.Join(d.data, last))
	}
	if err == nil {
		err = os.Remove(d.aside())
	}
	return errors.Join(err, syncDirectory(d.data), syncDirectory(filepath.Dir(d.data)))
}

// Abandon removes everything that was made.
func (d *NewDirectory) Abandon() (err error) {
	if d.Store != nil {
		err = d.Store.Close()
		d.Store = nil
	}
	err = errors.Join(err, os.RemoveAll(d.aside()))
	if d.made {
		_ = os.Remove(d.data) // one that is not empty stays
	}
	return err
}
