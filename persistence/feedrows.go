package persistence

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/layout"
)

// feedRows iterates over the rows of feeds in the order of agents and positions. They are of two
// families: entries that bring messages, and the others.
type feedRows struct {
	families [2]*pebble.Iterator
	has      [2]bool
	current  int // the family of the current row
}

// newFeedRows reads with an iterator, which the caller closes, and another one at the same instant.
func newFeedRows(messages *pebble.Iterator) (*feedRows, error) {
	notices, err := messages.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, err
	}
	return &feedRows{families: [2]*pebble.Iterator{messages, notices}}, nil
}

// first goes to the first row of [low, high), which are keys of entries that bring messages.
func (r *feedRows) first(low, high []byte) bool {
	r.families[0].SetBounds(low, high)
	r.families[1].SetBounds(layout.NoticeKey(low), layout.NoticeKey(high))
	for i, rows := range r.families {
		r.has[i] = rows.First()
	}
	return r.choose()
}

func (r *feedRows) next() bool {
	r.has[r.current] = r.families[r.current].Next()
	return r.choose()
}

// choose makes the lesser of the two rows the current one. It is false at the end, or if a row
// cannot be read.
func (r *feedRows) choose() bool {
	if r.err() != nil {
		return false
	}
	r.current = 0
	if !r.has[0] || r.has[1] && bytes.Compare(r.families[1].Key()[3:], r.families[0].Key()[3:]) < 0 {
		r.current = 1
	}
	return r.has[r.current]
}

func (r *feedRows) row() *pebble.Iterator { return r.families[r.current] }

func (r *feedRows) err() error { return errors.Join(r.families[0].Error(), r.families[1].Error()) }

// close closes what newFeedRows opened.
func (r *feedRows) close() error { return r.families[1].Close() }
