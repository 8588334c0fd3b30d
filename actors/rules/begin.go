package rules

import (
	"time"

	"parley/actors/encoding"
	"parley/journal"
)

// Begin decides the first command of an aggregate that does not exist yet. It evolves
// blank into the new state and returns the effect that creates the stream, state
// included.
func (r Aggregate[S, C, E]) Begin(s journal.Stream, blank S, c C, now time.Time) (journal.CreateStream, error) {
	events, err := r.Decide(blank, c, now)
	if err != nil {
		return journal.CreateStream{}, err
	}
	for _, e := range events {
		r.Evolve(blank, e)
	}
	create := journal.CreateStream{Stream: s, Owners: r.OwnersOf(blank)}
	if create.Events, err = r.Encode(events); err == nil {
		create.State, err = encoding.Marshal(blank)
	}
	return create, err
}
