// Package rules adapts the pure aggregates to the code that runs them: one Aggregate
// each, with the encoding of its events and the stream that stores it.
package rules

import (
	"fmt"
	"time"

	"parley/actors/encoding"
	"parley/client/parley"
	"parley/journal"
)

// Event is an event of any aggregate: what encoding.Marshal encodes.
type Event = any

// State is the state of any aggregate: a protobuf message, or what has an encoding of its own.
type State interface{ Exists() bool }

// Aggregate holds the pure functions of one aggregate: S is its state, C its commands, E
// its events.
type Aggregate[S State, C any, E Event] struct {
	// Decide decides a command at an instant. It returns the resulting events, or a
	// refusal.
	Decide func(S, C, time.Time) ([]E, error)
	// Evolve applies an event to a state.
	Evolve func(S, E)
	// Tag returns the number under which an event's type is stored. New returns an empty
	// event of that type, false for an unknown number.
	Tag func(E) byte
	New func(byte) (E, bool)
	// Start, if set, reads the event that begins a stream and is not stored as one; found
	// is false if the stream begins with its event 1.
	Start func(v Stored, s journal.Stream) (e E, found bool, err error)
	// Owners returns the organizations to which the stream of a state belongs. It is nil
	// for what belongs to the server itself.
	Owners func(S) journal.Owners
	// HasContent reports whether an event has more than ids, instants and statuses. If it
	// is nil, every event of a stream with owners does.
	HasContent func(E) bool
}

// Stored is what Load reads from: parts of a journal.View, or of an archive.
type Stored struct {
	Streams interface {
		State(journal.Stream) (seq uint64, state []byte, err error)
		Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error
	}
	Messages interface {
		Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error)
	}
}

// StoredIn returns the parts of a view that Load reads from.
func StoredIn(v journal.View) Stored { return Stored{v.StreamReader, v.MessageReader} }

// OwnersOf returns the owners of what a state and its events contain.
func (r Aggregate[S, C, E]) OwnersOf(s S) journal.Owners {
	if r.Owners == nil {
		return journal.Owners{}
	}
	return r.Owners(s)
}

// Encode encodes events for storage.
func (r Aggregate[S, C, E]) Encode(events []E) ([]journal.StoredEvent, error) {
	encoded := make([]journal.StoredEvent, 0, len(events))
	for _, e := range events {
		data, err := encoding.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", e, err)
		}
		unowned := r.Owners == nil || r.HasContent != nil && !r.HasContent(e)
		encoded = append(encoded, journal.StoredEvent{Tag: r.Tag(e), Data: data, Clear: unowned})
	}
	return encoded, nil
}

// Decode decodes a stored event.
func (r Aggregate[S, C, E]) Decode(f journal.StoredEvent) (E, error) {
	e, ok := r.New(f.Tag)
	if !ok {
		return e, fmt.Errorf("event of unknown kind %d", f.Tag)
	}
	if err := encoding.Unmarshal(f.Data, e); err != nil {
		return e, fmt.Errorf("decode %T: %w", e, err)
	}
	return e, nil
}

// Load reads a stream into a blank state: the stored state, then the events after it. seq
// is the number of the last event, folded the number of events applied.
func (r Aggregate[S, C, E]) Load(v Stored, s journal.Stream, into S) (seq, folded uint64, err error) {
	seq, stored, err := v.Streams.State(s)
	if err != nil {
		return 0, 0, err
	}
	if stored != nil {
		if err := encoding.Unmarshal(stored, into); err != nil {
			return 0, 0, fmt.Errorf("state of stream %d/%s: %w", s.Kind, s.ID, err)
		}
	}
	if stored == nil && r.Start != nil {
		start, found, err := r.Start(v, s)
		if err != nil {
			return 0, 0, err
		}
		if found {
			r.Evolve(into, start)
		}
	}
	var bad error
	err = v.Streams.Events(s, seq+1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
		var e E
		if n != seq+1 {
			bad = fmt.Errorf("stream %d/%s: event %d follows %d", s.Kind, s.ID, n, seq)
			return false
		}
		if e, bad = r.Decode(f); bad != nil {
			bad = fmt.Errorf("stream %d/%s: %w", s.Kind, s.ID, bad)
			return false
		}
		r.Evolve(into, e)
		seq = n
		folded++
		return true
	})
	if err == nil {
		err = bad
	}
	return seq, folded, err
}
