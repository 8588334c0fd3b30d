package apply

import (
	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
	"parley/persistence/layout"
)

// Rows is all that the evaluator reads of what earlier batches wrote. It has to show
// all of them.
type Rows interface {
	// Length is the number of events of a stream.
	Length(journal.Stream) (uint64, error)
	// Ends reports whether a stream has n events.
	Ends(s journal.Stream, n uint64) (bool, error)
	// Kinds are the kinds of the receipts that have a key.
	Kinds(key []byte) (journal.ReceiptKinds, error)
}

// Stored reads Rows from a store.
type Stored struct{ pebble.Reader }

// Length reads the number of the last event of a stream. Most streams that are
// looked for do not exist: one filtered lookup answers that.
func (r Stored) Length(s journal.Stream) (uint64, error) {
	_, found, err := layout.Get(r, layout.EventKey(s, 1))
	if err != nil || !found {
		return 0, err
	}
	prefix := layout.StreamKey(layout.EventFamily, s, 0)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, err
	}
	seq := uint64(0)
	if iter.Last() {
		seq = layout.Number(iter.Key()[len(prefix):])
	}
	return seq, iter.Close()
}

// Ends looks for event n, which is usually there, and for the one after it, which
// is usually not: no iterator is needed.
func (r Stored) Ends(s journal.Stream, n uint64) (bool, error) {
	if _, next, err := layout.Get(r, layout.EventKey(s, n+1)); err != nil || next || n == 0 {
		return !next, err
	}
	_, last, err := layout.Get(r, layout.EventKey(s, n))
	return last, err
}
