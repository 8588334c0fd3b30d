package rows

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Row returns the value of one row.
func (v TableReader) Row(slot parley.Slot, table journal.Table, k []byte) ([]byte, bool, error) {
	return v.Get(layout.RowKey(slot, table, k))
}

// RowSize returns the length of the stored value of one row, 0 if there is none.
func (v TableReader) RowSize(slot parley.Slot, table journal.Table, k []byte) (int, error) {
	if v.Reader == nil {
		return 0, journal.ErrClosed
	}
	value, closer, err := v.Reader.Get(layout.RowKey(slot, table, k))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return len(value), closer.Close()
}

// Rows calls fn with the rows whose keys begin with prefix, after the key beyond
// (nil: from the first, or from the last if reverse), until fn returns false.
func (v TableReader) Rows(slot parley.Slot, table journal.Table, prefix, beyond []byte, reverse bool, fn func(k, value []byte) bool) error {
	low, head := layout.RowKey(slot, table, prefix), len(layout.RowKey(slot, table, nil))
	high := layout.After(low)
	switch {
	case beyond != nil && reverse:
		high = slices.MinFunc([][]byte{high, layout.RowKey(slot, table, beyond)}, bytes.Compare)
	case beyond != nil:
		low = slices.MaxFunc([][]byte{low, append(layout.RowKey(slot, table, beyond), 0)}, bytes.Compare)
	}
	return v.Scan(low, high, reverse, func(k, value []byte) (bool, error) { return fn(k[head:], value), nil })
}

// Table calls fn with all rows of a table, in all journals, until fn returns false.
func (v TableReader) Table(table journal.Table, fn func(k, value []byte) bool) error {
	return v.table(table, func(k []byte, iter *pebble.Iterator) (bool, error) {
		value, err := iter.ValueAndErr()
		return err == nil && fn(k, value), err
	})
}

// Keys calls fn with the keys of all rows of a table, in all journals, until fn returns
// false. It reads no values.
func (v TableReader) Keys(table journal.Table, fn func(k []byte) bool) error {
	return v.table(table, func(k []byte, _ *pebble.Iterator) (bool, error) { return fn(k), nil })
}

func (v TableReader) table(table journal.Table, fn func(k []byte, at *pebble.Iterator) (bool, error)) error {
	if v.Reader == nil {
		return journal.ErrClosed
	}
	iter, err := v.Reader.NewIter(nil)
	if err != nil {
		return err
	}
	for slot := parley.Slot(0); slot < parley.Slots; {
		low := layout.RowKey(slot, table, nil)
		ok := iter.SeekGE(low)
		for ; ok && bytes.HasPrefix(iter.Key(), low); ok = iter.Next() {
			if more, err := fn(iter.Key()[len(low):], iter); err != nil || !more {
				return errors.Join(err, iter.Close())
			}
		}
		if !ok {
			break
		}
		slot++
		if next, _ := layout.FamilyOf(iter.Key()); next > slot { // the slots between have no rows
			slot = next
		}
	}
	return errors.Join(iter.Error(), iter.Close())
}

// Used is what an organization used on a day, over all journals. It reads all rows of the
// organization, one for each day and journal.
func (v TableReader) Used(org parley.OrgID, day uint32) (u journal.Usage, err error) {
	for n := range int(v.Homes) {
		from := v.Homes.QuotasKey(n, org)
		err = errors.Join(err, v.Scan(from, layout.After(from), false, func(k, value []byte) (bool, error) {
			q, ok := layout.QuotaOf(k)
			if !ok {
				return true, nil
			}
			count, bytes := layout.DecodeCount(q.Of, layout.Number(value))
			u.Stored += bytes
			if q.Day == day {
				u.Add(q.Of, count)
			}
			return true, nil
		}))
	}
	return u, err
}
