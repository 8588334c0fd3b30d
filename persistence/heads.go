package persistence

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/disk"
	"parley/persistence/layout"
)

// checkHeads compares the newest commits in the rows with the witness. With
// Options.AcceptLoss, what is missing is given up.
func (s examination) checkHeads() error {
	acked := s.witness.Latest()
	last, at, whole, err := layout.LastHead(s.db, acked.Number)
	if err == nil {
		err = s.compare(acked, last, at, whole)
	}
	if err != nil && s.opts.AcceptLoss {
		s.opts.Logger.Warn("giving up missing data", "error", err)
		s.witness.Rewind(last)
		if err = s.giveUp(last); err == nil {
			err = s.witness.Write()
		}
	}
	s.head = last
	s.applied.Store(last.Number)
	s.visible.Store(last.Number)
	s.durable.Raise(last.Number)
	return err
}

// compare reports which acknowledged commits are missing. acked is the commit in the
// witness, last the newest in the rows, at the one in the rows with the witness's
// number. whole means that no commit is missing before the last one.
func (s examination) compare(acked, last, at disk.Head, whole bool) error {
	switch {
	case last.Number < acked.Number:
		return fmt.Errorf("%w: the journal in %s ends at commit %d, and commits up to %d were acknowledged: %d are missing from the end of its log",
			ErrDamaged, s.dir, last.Number, acked.Number, acked.Number-last.Number)
	case acked.Number > 0 && last.Number-acked.Number < layout.HeadsKept && at != acked:
		return fmt.Errorf("%w: commit %d of the journal in %s is not the one that was acknowledged", ErrDamaged, acked.Number, s.dir)
	case !whole:
		return fmt.Errorf("%w: of the newest commits of the journal in %s, up to %d, some are missing: a log, or a part of the manifest, is not there", ErrDamaged, s.dir, last.Number)
	}
	return nil
}

// giveUp records that heads before the last one may be missing from now on.
func (s examination) giveUp(last disk.Head) error {
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	prefix := layout.StoreKey(layout.HeadFamily)
	if err := b.DeleteRange(prefix, layout.After(prefix), nil); err != nil {
		return err
	}
	if last.Number > 0 {
		err := errors.Join(b.Set(layout.HeadKey(last.Number), last.Append(nil), nil), b.Set(layout.FloorKey(), disk.Head{Number: last.Number - 1}.Append(nil), nil))
		if err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}
