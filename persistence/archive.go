package persistence

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// Archive shows all rows of a store at one instant, family by family, for
// verification and export. It shows what is applied, durable or not.
type Archive struct {
	*storeView
	streamsAt
	messagesAt
	feedsAt
	rowsAt
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
	return &Archive{storeView: v, streamsAt: streamsAt{v}, messagesAt: messagesAt{v}, feedsAt: feedsAt{v}, rowsAt: rowsAt{v}, closes: closes}
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
func (a *Archive) Reader() pebble.Reader { return a.rows }

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
func (a *Archive) Position() (GroupPosition, error) { return layout.ReadGroupPosition(a.rows) }

// Close releases the archive.
func (a *Archive) Close() error {
	a.storeView.Close()
	return a.closes()
}

// family calls fn for every key of a family, in order. Key and value are only valid
// during the call. It seeks once or twice per slot that has rows.
func (a *Archive) family(letter byte, fn func(slot parley.Slot, k, value []byte) error) error {
	if a.rows == nil {
		return journal.ErrClosed
	}
	iter, err := a.rows.NewIter(nil)
	if err != nil {
		return err
	}
	err = eachOfFamily(iter, letter, fn)
	return errors.Join(err, iter.Close())
}

func eachOfFamily(iter *pebble.Iterator, letter byte, fn func(slot parley.Slot, k, value []byte) error) error {
	for slot := parley.Slot(0); slot < parley.Slots; {
		if !iter.SeekGE(layout.Key(slot, letter, 0)) {
			return iter.Error()
		}
		at, has := layout.FamilyOf(iter.Key())
		if at >= parley.Slots {
			return nil
		}
		if at != slot || has != letter {
			if at == slot || has > letter {
				at++ // this slot has none
			}
			slot = at
			continue
		}
		for ok := true; ok; ok = iter.Next() {
			k := iter.Key()
			if at, has := layout.FamilyOf(k); at != slot || has != letter {
				break
			}
			value, err := iter.ValueAndErr()
			if err == nil {
				err = fn(slot, k, value)
			}
			if err != nil {
				return err
			}
		}
		if err := iter.Error(); err != nil {
			return err
		}
		slot++
	}
	return nil
}

// own calls fn for every key of a family of the journals' own rows, journal by
// journal, in order.
func (a *Archive) own(letter byte, fn func(journal int, k, value []byte) error) error {
	for n := range int(a.store.homes) {
		low := a.store.homes.JournalKey(letter, n, 0)
		if err := a.scan(low, layout.After(low), false, func(k, value []byte) (bool, error) {
			err := fn(n, k, value)
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	return nil
}
