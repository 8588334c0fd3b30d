package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
)

// noRows is a store in which no stream has events.
type noRows struct{}

func (noRows) Length(journal.Stream) (uint64, error)         { return 0, nil }
func (noRows) Ends(_ journal.Stream, n uint64) (bool, error) { return n == 0, nil }
func (noRows) Kinds([]byte) (journal.ReceiptKinds, error)    { return 0, nil }

var testStart = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// newGroup makes a group whose first activation may append.
func newGroup(s *State, n byte) journal.Stream {
	g := journal.Stream{Kind: journal.GroupStream, ID: parley.NewID[parley.AnyID](0, testStart, [10]byte{n})}
	s.activations[g] = activation{number: 1}
	return g
}

// newSeats makes agents with seats from 1 on, over all slots.
func newSeats(n int) []parley.Seat {
	seats := make([]parley.Seat, n)
	for i := range seats {
		seats[i] = parley.Seat{
			Agent:  parley.NewID[parley.AgentID](journaltest.SpreadSlot(i), testStart, [10]byte{byte(i), byte(i >> 8)}),
			Number: uint32(i + 1),
		}
	}
	return seats
}

// broadcast is an entry of a group that sends one message to all of to.
func broadcast(group journal.Stream, n byte, to []parley.Seat) *journal.Entry {
	id := parley.NewID[parley.MessageID](0, testStart, [10]byte{n}).Broadcast()
	return &journal.Entry{
		Stream: group, Activation: 1, At: testStart,
		Records: []journal.Record{{ID: id, Data: []byte("broadcast")}},
		Effects: []journal.Effect{journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(id), Note: journal.TypeHash("text"), To: to}},
	}
}

// applied applies an entry as the next of a batch.
func applied(t *testing.T, ev *Evaluator, e *journal.Entry) *Item {
	t.Helper()
	it := &Item{Entry: e}
	if err := ev.Apply(it); err != nil || it.Refusal != nil {
		t.Fatal(err, it.Refusal)
	}
	return it
}

// placement describes what the entry's batch appends to feeds and, for each outbox
// message, its target, whether the entry waits for it, its effects and its records.
func placement(it *Item) (text []string) {
	for _, f := range it.Fanouts {
		text = append(text, fmt.Sprintf("%d from %d", len(f.To), f.To[0].Number))
	}
	for _, a := range it.Appended {
		text = append(text, fmt.Sprintf("to %v", a.Agent.Slot()))
	}
	for _, m := range it.Outgoing {
		effects := ""
		for _, w := range m.Effects {
			if many, ok := w.(journal.Fanout); ok {
				effects += fmt.Sprintf(", %d from %d", len(many.To), many.To[0].Number)
			} else {
				effects += fmt.Sprintf(", %T", w)
			}
		}
		text = append(text, fmt.Sprintf("journal %d, number %d, awaited %v, records %d%s", m.Target, m.Number, m.Awaited, len(m.Records), effects))
	}
	return text
}

func expectPlacement(t *testing.T, it *Item, want ...string) {
	t.Helper()
	if got := placement(it); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// arrive applies the first n messages that an item sent to its own journal.
func arrive(t *testing.T, ev *Evaluator, it *Item, n int) {
	t.Helper()
	for _, m := range it.Outgoing {
		if m.Target == ev.state.journal && n > 0 {
			n--
			if err := ev.Apply(&Item{Entry: &journal.Entry{}, Message: m}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFanoutInChunks: the entry's batch appends the first chunk of its journal's
// agents; outboxes carry the other chunks. Later appends of the same stream to feeds
// follow them.
func TestFanoutInChunks(t *testing.T) {
	s := newState(1, 0)
	ev, group, other := s.Begin(noRows{}, &pebble.Batch{}), newGroup(s, 1), newGroup(s, 2)
	seats := newSeats(600)
	feed := journal.AppendFeed{To: seats[1].Agent, Kind: journal.StatusEntry}

	small := applied(t, ev, broadcast(group, 1, seats[:200]))
	expectPlacement(t, small, "200 from 1")
	late := applied(t, ev, broadcast(group, 2, seats[300:400])) // the first chunk of the fan-out
	expectPlacement(t, late, "100 from 301")
	e := broadcast(group, 3, seats)
	e.Effects = append([]journal.Effect{feed}, append(e.Effects, journal.Fanout{Kind: journal.StatusEntry, To: seats[:300]}, feed)...)
	big := applied(t, ev, e)
	expectPlacement(t, big, "256 from 1", "256 from 1", "to 2048",
		"journal 0, number 1, awaited false, records 0, 256 from 257, 44 from 257",
		"journal 0, number 2, awaited false, records 0, 88 from 513, journal.AppendFeed")
	second := applied(t, ev, broadcast(group, 4, seats[:300]))
	expectPlacement(t, second,
		"journal 0, number 3, awaited true, records 0, 256 from 1",
		"journal 0, number 4, awaited false, records 0, 44 from 257")
	reply := journal.AppendFeed{To: seats[9].Agent, Kind: journal.MessageEntry, Ref: parley.AnyID(parley.NewID[parley.MessageID](0, testStart, [10]byte{5}))}
	answer := applied(t, ev, &journal.Entry{
		Stream: group, Activation: 1, Effects: []journal.Effect{reply, journal.EnqueueFor{To: other}},
		Records: []journal.Record{{ID: parley.MessageID(reply.Ref), Data: []byte("reply")}},
	})
	expectPlacement(t, answer, "journal 0, number 5, awaited true, records 1, journal.AppendFeed")
	// Other streams have no fan-out in progress.
	expectPlacement(t, applied(t, ev, &journal.Entry{Stream: other, Activation: 1, Effects: []journal.Effect{feed}}), "to 2048")
	arrive(t, ev, big, 2)
	arrive(t, ev, second, 2)
	last := applied(t, ev, &journal.Entry{Stream: group, Activation: 1, Effects: []journal.Effect{feed}})
	expectPlacement(t, last, "journal 0, number 6, awaited true, records 0, journal.AppendFeed")
	arrive(t, ev, answer, 1)
	arrive(t, ev, last, 1)
	expectPlacement(t, applied(t, ev, &journal.Entry{Stream: group, Activation: 1, Effects: []journal.Effect{feed}}), "to 2048")
	if n := len(s.ownOutbox); n != 0 {
		t.Errorf("%d streams count as having a fan-out in progress", n)
	}
}

// TestFanoutToOtherHomes: there is one message for each chunk. The first one contains
// the record, and the entry waits for it.
func TestFanoutToOtherHomes(t *testing.T) {
	s := newState(2, 0)
	ev, group := s.Begin(noRows{}, &pebble.Batch{}), newGroup(s, 1)
	seats := newSeats(600)
	far := seats[1].Agent // in the other journal
	e := broadcast(group, 1, seats)
	e.Effects = append([]journal.Effect{journal.AddToList{Agent: far}}, e.Effects...)
	e.Effects = append(e.Effects, journal.Fanout{Kind: journal.StatusEntry, To: seats}, journal.AddToList{Agent: far}, journal.AppendFeed{To: far, Kind: journal.StatusEntry}, journal.Fanout{Kind: journal.GroupEntry, To: seats[:2]})
	expectPlacement(t, applied(t, ev, e), "128 from 1", "128 from 1", "1 from 1",
		"journal 1, number 1, awaited true, records 1, journal.AddToList, 128 from 2, 128 from 2, journal.AddToList",
		"journal 0, number 1, awaited false, records 0, 128 from 257, 128 from 257",
		"journal 1, number 2, awaited false, records 0, 128 from 258, 128 from 258",
		"journal 0, number 2, awaited false, records 0, 44 from 513, 44 from 513",
		"journal 1, number 3, awaited false, records 0, 44 from 514, 44 from 514, journal.AppendFeed",
		"journal 1, number 4, awaited false, records 0, 1 from 2")
	// A fan-out without recipients sends nothing.
	expectPlacement(t, applied(t, ev, broadcast(group, 2, nil)))
}

// TestMessagesAreAppliedOnce: a repeated message changes nothing; one that arrives too
// early is a defect.
func TestMessagesAreAppliedOnce(t *testing.T) {
	batch := &pebble.Batch{}
	ev := newState(2, 1).Begin(noRows{}, batch)
	agent := parley.NewID[parley.AgentID](journaltest.SpreadSlot(1), testStart, [10]byte{})
	for _, c := range []struct {
		number, rows uint64
		early        bool
	}{{1, 1, false}, {1, 1, false}, {3, 1, true}, {2, 2, false}, {1, 2, false}} {
		m := &Message{Source: 0, Target: 1, Number: c.number, OutboxMessage: layout.OutboxMessage{Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.StatusEntry}}}}
		err := ev.Apply(&Item{Entry: &journal.Entry{}, Message: m})
		if (err != nil) != c.early || uint64(batch.Count()) != c.rows {
			t.Errorf("message %d: %d rows, want %d (%v)", c.number, batch.Count(), c.rows, err)
		}
	}
}
