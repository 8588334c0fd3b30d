// Package rows reads the rows of a store as they are at one instant: the parts of a
// journal.View that need no more than rows, and the families of rows that an archive lists.
package rows

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
	"parley/persistence/layout"
)

// View shows rows. Its methods may be called from any goroutine.
type View struct {
	Homes layout.Homes
	// Reader is nil if there is nothing to read: then reads fail with journal.ErrClosed.
	Reader pebble.Reader
	// Instant says that Reader is a snapshot, which Close closes.
	Instant bool
	// idle is an iterator of a snapshot between two scans, nil if there is none. To open
	// one for each scan costs several times as much as a short scan.
	idle atomic.Pointer[scanner]
}

type (
	// StreamReader is a journal.StreamReader.
	StreamReader struct{ *View }
	// MessageReader is a journal.MessageReader.
	MessageReader struct{ *View }
	// FeedReader is a journal.FeedReader but for what it says about commits.
	FeedReader struct{ *View }
	// TableReader is a journal.RowReader.
	TableReader struct{ *View }
)

// Close releases the view, which must have rows.
func (v *View) Close() {
	if iter := v.idle.Swap(nil); iter != nil {
		_ = iter.Close()
	}
	if v.Instant {
		_ = v.Reader.Close()
	}
}

// scanner is an iterator that several scans use, one after the other.
type scanner struct {
	*pebble.Iterator
	scans int
}

// ScansMax bounds the scans of one iterator, which keeps files and tables in memory that
// the engine has replaced since.
const ScansMax = 1024

// Get returns the value of a key.
func (v *View) Get(k []byte) ([]byte, bool, error) {
	if v.Reader == nil {
		return nil, false, journal.ErrClosed
	}
	return layout.Get(v.Reader, k)
}

// Scan calls fn for each key within [low, high), last first if reverse, until
// fn returns false. Key and value are only valid during the call.
func (v *View) Scan(low, high []byte, reverse bool, fn func(k, value []byte) (bool, error)) error {
	if v.Reader == nil {
		return journal.ErrClosed
	}
	iter, err := v.scanner(low, high)
	if err != nil {
		return err
	}
	first, next := iter.First, iter.Next
	if reverse {
		first, next = iter.Last, iter.Prev
	}
	more := true
	for ok := first(); ok && more && err == nil; ok = next() {
		var value []byte
		if value, err = iter.ValueAndErr(); err == nil {
			more, err = fn(iter.Key(), value)
		}
	}
	if closeErr := v.release(iter); err == nil {
		err = closeErr
	}
	return err
}

// scanner returns an iterator for one scan of [low, high).
func (v *View) scanner(low, high []byte) (*scanner, error) {
	if iter := v.idle.Swap(nil); iter != nil {
		iter.SetBounds(low, high)
		return iter, nil
	}
	iter, err := v.iterator(low, high)
	return &scanner{Iterator: iter}, err
}

// iterOptions keeps options between iterators, which copy them: 192 bytes for each would be
// garbage.
var iterOptions = sync.Pool{New: func() any { return new(pebble.IterOptions) }}

// iterator returns an iterator over the rows of [low, high).
func (v *View) iterator(low, high []byte) (*pebble.Iterator, error) {
	o := iterOptions.Get().(*pebble.IterOptions)
	o.LowerBound, o.UpperBound = low, high
	iter, err := v.Reader.NewIter(o)
	o.LowerBound, o.UpperBound = nil, nil
	iterOptions.Put(o)
	return iter, err
}

// release takes an iterator back after a scan, and returns the error that ended the scan.
func (v *View) release(iter *scanner) error {
	iter.scans++
	if v.Instant && iter.scans < ScansMax && iter.Error() == nil && v.idle.CompareAndSwap(nil, iter) {
		return nil
	}
	return iter.Close()
}
