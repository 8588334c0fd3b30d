package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/disk"
)

// headsKept is how many of the newest commits have their head stored: many more
// than can be committed before the witness is written again.
const headsKept = 4096

// headKey is where the head of a commit is stored, until headsKept later.
func headKey(number uint64) []byte {
	return binary.BigEndian.AppendUint16(metaKey(headFamily, 0, 2), uint16(number%headsKept))
}

// floorKey holds the commit up to which heads may be missing: the operator gave
// some of those up.
func floorKey() []byte {
	return binary.BigEndian.AppendUint16(metaKey(headFamily, 0, 2), math.MaxUint16)
}

// lastHead is the newest commit in the rows; at is the commit of the given
// number, zero if its head is not stored. whole reports that no head is missing
// among those that must be there.
func lastHead(r pebble.Reader, number uint64) (last, at disk.Head, whole bool, err error) {
	prefix := metaKey(headFamily, 0, 0)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return disk.Head{}, disk.Head{}, false, err
	}
	floor, known := uint64(0), uint64(0)
	for ok := iter.First(); ok && err == nil; ok = iter.Next() {
		var h disk.Head
		h, err = disk.DecodeHead(iter.Value())
		if bytes.Equal(iter.Key(), floorKey()) {
			floor = h.Number
			continue
		}
		if h.Number > last.Number {
			last = h
		}
		known++
		if h.Number == number {
			at = h
		}
	}
	return last, at, known == min(last.Number-floor, headsKept), errors.Join(err, iter.Close())
}

// checkHeads compares the journal that was opened with its witness. With
// Options.AcceptLoss what is missing is given up.
func (s *Store) checkHeads() error {
	said := s.witness.Latest()
	last, at, whole, err := lastHead(s.db, said.Number)
	if err == nil {
		err = s.compare(said, last, at, whole)
	}
	if err != nil && s.opts.AcceptLoss {
		s.opts.Logger.Warn("what is missing is given up", "error", err)
		s.witness.Rewind(last)
		if err = s.giveUp(last); err == nil {
			err = s.witness.Write()
		}
	}
	s.head = last
	s.applied.Store(last.Number)
	s.durable.raise(last.Number)
	return err
}

// compare reports what is missing of what was acknowledged: said is the commit
// in the witness, at the journal's commit of that number. whole says that there
// is no gap before the last commit.
func (s *Store) compare(said, last, at disk.Head, whole bool) error {
	switch {
	case last.Number < said.Number:
		return fmt.Errorf("%w: the journal in %s ends at commit %d, and commits up to %d were acknowledged: %d are missing from the end of its log",
			ErrDamaged, s.dir, last.Number, said.Number, said.Number-last.Number)
	case said.Number > 0 && last.Number-said.Number < headsKept && at != said:
		return fmt.Errorf("%w: commit %d of the journal in %s is not the one that was acknowledged", ErrDamaged, said.Number, s.dir)
	case !whole:
		return fmt.Errorf("%w: of the newest commits of the journal in %s, up to %d, some are missing: a log, or a part of the manifest, is not there", ErrDamaged, s.dir, last.Number)
	}
	return nil
}

// giveUp no longer demands the heads before the last one, of which some are missing.
func (s *Store) giveUp(last disk.Head) error {
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	prefix := metaKey(headFamily, 0, 0)
	if err := b.DeleteRange(prefix, after(prefix), nil); err != nil {
		return err
	}
	if last.Number > 0 {
		err := errors.Join(b.Set(headKey(last.Number), last.Append(nil), nil), b.Set(floorKey(), disk.Head{Number: last.Number - 1}.Append(nil), nil))
		if err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}
