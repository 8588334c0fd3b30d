package rows

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/layout"
)

// feedRows reads the rows of feeds in the order of agents and positions. They are of two families:
// entries that bring messages, and the others.
type feedRows struct {
	families [2]*pebble.Iterator
	has      [2]bool
}

// newFeedRows reads with an iterator, which the caller closes, and another one at the same instant.
func newFeedRows(messages *pebble.Iterator) (*feedRows, error) {
	notices, err := messages.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, err
	}
	return &feedRows{families: [2]*pebble.Iterator{messages, notices}}, nil
}

// scan calls fn for the rows of [low, high), which are keys of entries that bring messages, until fn
// returns false. Key and value are only valid during the call.
func (r *feedRows) scan(low, high []byte, fn func(k, value []byte) (bool, error)) error {
	r.families[0].SetBounds(low, high)
	r.families[1].SetBounds(layout.NoticeKey(low), layout.NoticeKey(high))
	for i, rows := range r.families {
		r.has[i] = rows.First()
	}
	for more := true; more && r.err() == nil && (r.has[0] || r.has[1]); {
		next := r.next()
		rows := r.families[next]
		value, err := rows.ValueAndErr()
		if err == nil {
			more, err = fn(rows.Key(), value)
		}
		if err != nil {
			return err
		}
		r.has[next] = rows.Next()
	}
	return r.err()
}

// next is the family whose row comes next.
func (r *feedRows) next() int {
	if !r.has[0] || r.has[1] && bytes.Compare(r.families[1].Key()[3:], r.families[0].Key()[3:]) < 0 {
		return 1
	}
	return 0
}

func (r *feedRows) err() error { return errors.Join(r.families[0].Error(), r.families[1].Error()) }

// close closes what newFeedRows opened.
func (r *feedRows) close() error { return r.families[1].Close() }
