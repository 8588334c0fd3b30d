package apply

import (
	"cmp"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
	"parley/persistence/layout"
)

// State is what the evaluator of one journal keeps between batches. Load reads it
// from rows, except for activations: no activation survives the process that
// numbered it. Its methods must not be called at the same time.
type State struct {
	journal int // the number of the journal
	homes   layout.Homes

	applied     layout.Applied
	activations map[journal.Stream]activation // the one that may append to a stream

	outboxes []uint64 // per target: number of the last message
	deleted  []uint64 // per target: number of the last message whose row is deleted
	received []uint64 // per source: number of the last message applied here

	// A stream whose feed entries for agents of this journal went to the journal's
	// outbox to itself appends none directly until they are applied: ownOutbox is
	// the number of its last such message. For streams of messages up to loaded,
	// which were there when the state was loaded, the stream is not known.
	ownOutbox map[journal.Stream]uint64
	loaded    uint64
}

// activation is the incarnation of an actor that may append to a stream. The
// stream's length is unknown until the activation creates it or first appends to it.
type activation struct {
	number  uint64
	seq     uint64
	unknown bool
}

func newState(homes layout.Homes, number int) *State {
	return &State{
		journal: number, homes: homes,
		activations: map[journal.Stream]activation{}, ownOutbox: map[journal.Stream]uint64{},
		outboxes: make([]uint64, homes), deleted: make([]uint64, homes), received: make([]uint64, homes),
	}
}

// Load reads the state of a journal. arrived is, per target, the number of the last
// message that the target has applied.
func Load(rows pebble.Reader, homes layout.Homes, number int) (s *State, arrived []uint64, err error) {
	s = newState(homes, number)
	if s.applied, err = homes.ReadApplied(rows, number); err != nil {
		return nil, nil, err
	}
	arrived = make([]uint64, homes)
	for other := range int(homes) {
		if arrived[other], err = s.loadOutboxes(rows, other); err != nil {
			return nil, nil, err
		}
	}
	s.loaded = s.outboxes[number]
	return s, arrived, nil
}

// loadOutboxes reads how far the outboxes from and to another journal have come.
func (s *State) loadOutboxes(rows pebble.Reader, other int) (arrived uint64, err error) {
	value, _, err := layout.Get(rows, s.homes.OutboxReceivedKey(s.journal, other))
	if err != nil {
		return 0, err
	}
	s.received[other] = layout.Number(value)
	value, _, err = layout.Get(rows, s.homes.OutboxReceivedKey(other, s.journal))
	if err != nil {
		return 0, err
	}
	arrived = layout.Number(value)
	first, last, err := outboxRows(rows, s.homes.OutboxPrefix(s.journal, other))
	if err != nil {
		return 0, err
	}
	// Rows of messages that arrived may be deleted: the next number is beyond both
	// what the target applied and what is still stored.
	s.outboxes[other] = max(arrived, last)
	s.deleted[other] = min(arrived, cmp.Or(first, arrived+1)-1)
	return arrived, nil
}

// outboxRows reads the numbers of the first and last stored message of an outbox,
// whose keys begin with prefix; 0 if there is none.
func outboxRows(rows pebble.Reader, prefix []byte) (first, last uint64, err error) {
	iter, err := rows.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, 0, err
	}
	if iter.First() {
		first = layout.Number(iter.Key()[len(prefix):])
	}
	if iter.Last() {
		last = layout.Number(iter.Key()[len(prefix):])
	}
	return first, last, iter.Close()
}

// Position is the last position assigned.
func (s *State) Position() uint64 { return s.applied.Position }

// feedsPending reports whether feed entries of a stream for agents of this journal
// are under way in the journal's outbox to itself.
func (s *State) feedsPending(stream journal.Stream) bool {
	return max(s.loaded, s.ownOutbox[stream]) > s.received[s.journal]
}

// arrival stamps feed entries: not before the entry was appended, and not before
// the last arrival.
func (s *State) arrival(at time.Time) int64 {
	s.applied.Arrival = max(s.applied.Arrival, at.UnixMilli())
	return s.applied.Arrival
}

// next assigns a position.
func (s *State) next() uint64 {
	s.applied.Position++
	return s.applied.Position
}
