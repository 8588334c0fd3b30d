package actors

import (
	"fmt"
	"time"

	"parley/journal"
)

// event is what every aggregate's events can do.
type event interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// state is what every aggregate's state can do.
type state interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
	Exists() bool
}

// rules are an aggregate's law as the host needs it: S its state, C its
// commands, E its events.
type rules[S state, C any, E event] struct {
	decide func(S, C, time.Time) ([]E, error)
	evolve func(S, E)
	tag    func(E) byte
	blank  func(byte) (E, bool)
}

// encode turns events into facts.
func (r rules[S, C, E]) encode(events []E) ([]journal.StoredEvent, error) {
	facts := make([]journal.StoredEvent, 0, len(events))
	for _, e := range events {
		data, err := e.MarshalVT()
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", e, err)
		}
		facts = append(facts, journal.StoredEvent{Tag: r.tag(e), Data: data})
	}
	return facts, nil
}

// decode turns a fact back into an event.
func (r rules[S, C, E]) decode(f journal.StoredEvent) (E, error) {
	e, ok := r.blank(f.Tag)
	if !ok {
		return e, fmt.Errorf("event of unknown kind %d", f.Tag)
	}
	if err := e.UnmarshalVT(f.Data); err != nil {
		return e, fmt.Errorf("decode %T: %w", e, err)
	}
	return e, nil
}

// load folds a stream: its stored state, then the folded events after it. seq is
// the number of the last.
func (r rules[S, C, E]) load(v journal.View, s journal.Stream, into S) (seq, folded uint64, err error) {
	seq, stored, err := v.State(s)
	if err != nil {
		return 0, 0, err
	}
	if stored != nil {
		if err := into.UnmarshalVT(stored); err != nil {
			return 0, 0, fmt.Errorf("state of stream %d/%s: %w", s.Kind, s.ID, err)
		}
	}
	var bad error
	err = v.Events(s, seq+1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
		var e E
		if n != seq+1 {
			bad = fmt.Errorf("stream %d/%s: event %d follows %d", s.Kind, s.ID, n, seq)
			return false
		}
		if e, bad = r.decode(f); bad != nil {
			bad = fmt.Errorf("stream %d/%s: %w", s.Kind, s.ID, bad)
			return false
		}
		r.evolve(into, e)
		seq = n
		folded++
		return true
	})
	if err == nil {
		err = bad
	}
	return seq, folded, err
}
