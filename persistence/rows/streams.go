package rows

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
	"parley/persistence/layout"
)

// State returns a stream's stored state and the number of events folded into it;
// nil if there is none.
func (v StreamReader) State(s journal.Stream) (seq uint64, state []byte, err error) {
	value, found, err := v.Get(layout.StateKey(s))
	if err != nil || !found {
		return 0, nil, err
	}
	if len(value) < 8 {
		return 0, nil, fmt.Errorf("state of %d bytes", len(value))
	}
	return layout.Number(value), value[8:], nil
}

// Version returns a hash of what is stored as a stream's state, 0 if there is nothing.
func (v StreamReader) Version(s journal.Stream) (uint64, error) {
	if v.Reader == nil {
		return 0, journal.ErrClosed
	}
	value, closer, err := v.Reader.Get(layout.StateKey(s))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(value) // never fails
	return max(h.Sum64(), 1), closer.Close()
}

// Events calls fn with the stream's events, from number from (counted from 1) on in
// order, or down from it if reverse, until fn returns false.
func (v StreamReader) Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error {
	low, high := layout.EventKey(s, from), layout.After(layout.StreamKey(layout.EventFamily, s, 0))
	if reverse {
		low, high = layout.EventKey(s, 1), layout.After(layout.EventKey(s, from))
	}
	return v.Scan(low, high, reverse, func(k, value []byte) (bool, error) {
		if len(value) < 9 {
			return false, fmt.Errorf("event of %d bytes", len(value))
		}
		f := journal.StoredEvent{Tag: value[0], Data: append([]byte(nil), value[9:]...)}
		return fn(layout.Number(k[len(k)-8:]), int64(layout.NumberAt(value, 1)), f), nil
	})
}

// Queue calls fn with the messages queued for an actor after the given number,
// oldest first. An actor that passes the last number it handled spares the engine
// the deleted rows before it.
func (v StreamReader) Queue(s journal.Stream, beyond uint64, fn func(journal.QueuedMessage) bool) error {
	return v.Scan(layout.QueueKey(s, beyond+1), layout.After(layout.StreamKey(layout.QueueFamily, s, 0)), false, func(k, value []byte) (bool, error) {
		return fn(journal.QueuedMessage{Number: layout.Number(k[len(k)-8:]), Data: append([]byte(nil), value...)}), nil
	})
}
