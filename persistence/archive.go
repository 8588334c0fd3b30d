package persistence

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/disk"
	"parley/persistence/layout"
	"parley/persistence/rows"
)

// Archive shows all rows of a store at one instant, family by family, for
// verification and export. It shows what is applied, durable or not.
type Archive struct {
	*storeView
	rows.StreamReader
	rows.MessageReader
	rows.FeedReader
	rows.TableReader
	rows.Families
	// closes what was opened only for the archive.
	closes func() error
	// witness and unreadable, see Witness.
	witness    *disk.Head
	unreadable error
	keyring    disk.KeyringState
}

// Archive shows all rows that the store holds now. The caller closes it. The store
// continues to serve.
func (s *Store) Archive() *Archive {
	return newArchive(s.view(), func() error { return nil })
}

func newArchive(v *storeView, closes func() error) *Archive {
	r := &v.View
	return &Archive{
		storeView: v, StreamReader: rows.StreamReader{View: r}, MessageReader: rows.MessageReader{View: r}, FeedReader: rows.FeedReader{View: r},
		TableReader: rows.TableReader{View: r}, Families: rows.Families{View: r}, closes: closes,
	}
}

// OpenArchive opens a directory for reading and changes nothing on the disk. It
// refuses a directory that a server has open (ErrInUse) and one without a journal.
// Of opts it uses FS, Logger, Clock, Fatal and CacheBytes.
func OpenArchive(dir string, opts Options) (*Archive, error) {
	opts.Journals = 0
	if err := opts.ensureDefaults(); err != nil {
		return nil, err
	}
	opts.FS = disk.ReadOnlyFS{FS: opts.FS}
	s := newStore(dir, opts)
	o := opening{s}
	s.disk = o.newMonitor()
	if err := o.openUnchanged(); err != nil {
		return nil, err
	}
	if err := o.readUnchanged(); err != nil {
		return nil, errors.Join(err, s.db.Close(), s.lock.Close())
	}
	record, unreadable := disk.ReadWitness(s.opts.FS, s.dir)
	if unreadable != nil {
		record = &disk.WitnessRecord{}
	}
	a := newArchive(s.view(), func() error { return errors.Join(s.db.Close(), s.lock.Close()) })
	a.witness, a.unreadable, a.keyring = &record.Head, unreadable, record.Keyring
	return a, nil
}

// openUnchanged opens the engine read-only. The log is replayed into memory.
func (s opening) openUnchanged() error {
	desc, err := pebble.Peek(s.dir, s.opts.FS)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", s.dir, err)
	}
	if !desc.Exists {
		return fmt.Errorf("%s holds no journal: name the directory that serve was given as --data", s.dir)
	}
	if s.lock, err = pebble.LockDirectory(s.dir, s.opts.FS); err != nil {
		return fmt.Errorf("data directory %s %w", s.dir, lockError(err, ": stop the server first, or look at a backup"))
	}
	o := s.engineOptions()
	o.ReadOnly, o.DisableAutomaticCompactions = true, true
	if s.db, err = pebble.Open(s.dir, o); err != nil {
		return errors.Join(fmt.Errorf("data directory %s cannot be read: %w", s.dir, err), s.lock.Close())
	}
	if err := (examination{s}).requireBlobs(); err != nil {
		return errors.Join(fmt.Errorf("data directory %s cannot be read: %w", s.dir, err), s.db.Close(), s.lock.Close())
	}
	return nil
}

// readUnchanged reads the format of the directory.
func (s opening) readUnchanged() error {
	journals, openings, err := s.readFormat()
	if err != nil {
		return err
	}
	if openings == 0 {
		return fmt.Errorf("the first opening of %s did not finish: it holds no data", s.dir)
	}
	s.homes = layout.Homes(journals)
	return nil
}

// Reader shows all rows; nil of a closed store.
func (a *Archive) Reader() pebble.Reader { return a.storeView.Reader }

// CheckLevels has the storage engine check itself.
func (a *Archive) CheckLevels(stats *pebble.CheckLevelsStats) error {
	return a.store.db.CheckLevels(stats)
}

// Homes is the number of journals.
func (a *Archive) Homes() layout.Homes { return a.store.homes }

// Witness is the commit in the durability witness of a directory that no server has
// open, or why the witness cannot be read. It is nil for an open store, whose witness
// lags.
func (a *Archive) Witness() (*disk.Head, error) { return a.witness, a.unreadable }

// WitnessedKeyring is what the durability witness records about the keyring, zero if it
// records nothing or cannot be read.
func (a *Archive) WitnessedKeyring() disk.KeyringState { return a.keyring }

// Position is how far a replica has applied the order of its group; zero if it has no group.
func (a *Archive) Position() (GroupPosition, error) {
	return layout.ReadGroupPosition(a.storeView.Reader)
}

// Close releases the archive.
func (a *Archive) Close() error {
	a.storeView.Close()
	return a.closes()
}
