package layout

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/disk"
)

// LastHead reads the newest commit. at is the commit of the given number, zero if
// its head is not stored. whole reports that no head is missing among the newest
// HeadsKept.
func LastHead(r pebble.Reader, number uint64) (last, at disk.Head, whole bool, err error) {
	prefix := StoreKey(HeadFamily)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: After(prefix)})
	if err != nil {
		return disk.Head{}, disk.Head{}, false, err
	}
	floor, known := uint64(0), uint64(0)
	for ok := iter.First(); ok && err == nil; ok = iter.Next() {
		var h disk.Head
		h, err = disk.DecodeHead(iter.Value())
		if bytes.Equal(iter.Key(), FloorKey()) {
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
	return last, at, known == min(last.Number-floor, HeadsKept), errors.Join(err, iter.Close())
}

// Get reads one row; the value is a copy.
func Get(r pebble.Reader, key []byte) ([]byte, bool, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	owned := append(make([]byte, 0, len(value)), value...)
	return owned, true, closer.Close()
}
