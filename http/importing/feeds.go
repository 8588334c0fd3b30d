package importing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/journal"
)

// A feed gets its entries in the order of the positions that the export has, and arrivals
// that never decrease. The feeds of agents of other organizations, of which the export has
// no positions, are in the order in which messages were sent.

// arrival is one thing that comes into an agent's feed or list.
type arrival struct {
	atMs int64
	// order is the position, or the number of a message in the feed of another
	// organization's agent; math.MaxUint64 is the end of the millisecond.
	order uint64
	// rank puts changes of status before or behind the message with the same order.
	rank  int8
	agent int32 // party
	// One of these is set, counted from 1; number is that of a change of status.
	message, listed, change int32
	number                  int32
}

func (a *arrival) compare(b *arrival) int {
	return cmp.Or(
		cmp.Compare(a.atMs, b.atMs), cmp.Compare(a.order, b.order), cmp.Compare(a.rank, b.rank), cmp.Compare(a.agent, b.agent),
		cmp.Compare(a.change, b.change), cmp.Compare(a.number, b.number),
	)
}

// writeFeeds writes all feeds, with the messages.
func (w *writer) writeFeeds() error {
	// from is, by agent, a slot of the journal from which the last entry came, unless all
	// entries have arrived: entries of two journals may overtake each other.
	from := map[int32]parley.Slot{}
	for _, a := range w.arrivals() {
		entry, err := w.entry(&a)
		if err != nil {
			return err
		}
		if before, pending := from[a.agent]; pending && !w.SameHome(before, entry.Slot) {
			if err := w.settle(); err != nil {
				return err
			}
			clear(from)
		}
		from[a.agent] = entry.Slot
		if err := w.add(entry); err != nil {
			return err
		}
	}
	return nil
}

// entry returns the journal entry of an arrival.
func (w *writer) entry(a *arrival) (*journal.Entry, error) {
	at := time.UnixMilli(a.atMs)
	agent := w.parties[a.agent].id
	switch {
	case a.listed > 0:
		t := &w.talks[a.listed-1]
		return &journal.Entry{Slot: agent.Slot(), At: at, Effects: []journal.Effect{journal.AddToList{Agent: agent, Conversation: t.id}}}, nil
	case a.change > 0:
		t := &w.talks[a.change-1]
		moved := &t.changes[a.number]
		note := []byte(moved.Status)
		if moved.By == agent {
			note = append(note, record.OwnStatus)
		}
		return &journal.Entry{Slot: agent.Slot(), At: at, Effects: []journal.Effect{
			journal.AppendFeed{To: agent, Kind: journal.StatusEntry, Ref: parley.AnyID(t.id), Note: note},
		}}, nil
	}
	m := &w.messages[a.message-1]
	r, err := w.record(m)
	if err != nil {
		return nil, &lineError{int(m.line), err}
	}
	stored, err := r.Encode()
	if err != nil {
		return nil, &lineError{int(m.line), err}
	}
	posted := time.UnixMilli(w.postedMs(&w.talks[m.talk], m))
	return &journal.Entry{
		Slot: m.id.Slot(), At: at, Records: []journal.Record{stored},
		Effects: []journal.Effect{journal.AppendFeed{
			To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(m.id), Note: journal.TypeHash(r.GetType()), Begins: r.Starts(),
		}},
		Counts: []journal.Count{{Org: r.SenderOrg(), Day: journal.Day(posted), N: 1}},
	}, nil
}

// arrivals returns everything that comes into feeds and lists, in the order in which it is
// written.
func (w *writer) arrivals() []arrival {
	all := make([]arrival, 0, len(w.messages)+len(w.talks))
	for i := range w.messages {
		m := &w.messages[i]
		all = append(all, arrival{atMs: m.id.Time().UnixMilli(), order: w.orderOf(int32(i)), agent: m.to, message: int32(i + 1)})
	}
	for i := range w.talks {
		t := &w.talks[i]
		a := arrival{atMs: w.messages[t.firstMsg].id.Time().UnixMilli(), order: uint64(t.firstMsg), agent: t.from, listed: int32(i + 1)}
		if w.own(t.from) {
			a.order = math.MaxUint64
			for _, place := range t.listed {
				if place.AgentID == w.parties[t.from].id {
					a.order = place.Position
				}
			}
		}
		all = append(all, a)
	}
	w.inFeedOrder(all)
	all = append(all, w.statusArrivals()...)
	slices.SortFunc(all, func(a, b arrival) int { return a.compare(&b) })
	return all
}

// inFeedOrder sets the instants of arrivals of the organization's agents so that they do
// not decrease along a feed.
func (w *writer) inFeedOrder(all []arrival) {
	slices.SortFunc(all, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.agent, b.agent), cmp.Compare(a.order, b.order), cmp.Compare(a.atMs, b.atMs))
	})
	for i := range all {
		a := &all[i]
		if i > 0 && all[i-1].agent == a.agent && w.own(a.agent) {
			a.atMs = max(a.atMs, all[i-1].atMs)
		}
		if a.message > 0 {
			w.messages[a.message-1].arrivedMs = a.atMs
		}
	}
}

// orderOf returns the order of a message in the feed of its recipient.
func (w *writer) orderOf(i int32) uint64 {
	m := &w.messages[i]
	if !w.own(m.to) {
		return uint64(i)
	}
	return cmp.Or(m.position, math.MaxUint64) // it was on its way
}

// statusArrivals returns the changes of status, for both participants.
func (w *writer) statusArrivals() (all []arrival) {
	for i := range w.talks {
		for _, agent := range []int32{w.talks[i].from, w.talks[i].to} {
			all = w.appendChanges(all, int32(i), agent)
		}
	}
	return all
}

// appendChanges appends the changes of a conversation's status for one participant: each
// between the messages of the conversation that came to the participant before and after.
// Beside messages of other conversations it has its place by its instant alone.
func (w *writer) appendChanges(all []arrival, of, agent int32) []arrival {
	t, at := &w.talks[of], int64(0)
	before, next := int32(-1), t.firstMsg
	for n := range t.changes {
		for last := w.shownAfter(t, n); next < t.lastMsg && compareIDs(w.messages[next].id, last) <= 0; next++ {
			if w.messages[next].to == agent {
				before = next
			}
		}
		after := next
		for after < t.lastMsg && w.messages[after].to != agent {
			after++
		}
		at = max(at, t.changes[n].At.UnixMilli())
		a := arrival{order: math.MaxUint64, rank: 1, agent: agent, change: of + 1, number: int32(n)}
		if before >= 0 {
			if at = max(at, w.messages[before].arrivedMs); at == w.messages[before].arrivedMs {
				a.order = w.orderOf(before)
			}
		}
		if after < t.lastMsg && at >= w.messages[after].arrivedMs {
			at, a.order, a.rank = w.messages[after].arrivedMs, w.orderOf(after), -1
		}
		a.atMs = at
		all = append(all, a)
	}
	return all
}

// shownAfter returns the message after which feeds show a change. The opening of an A2A task
// by a reply is stored before the reply and shown after it.
func (w *writer) shownAfter(t *talk, n int) parley.MessageID {
	change := &t.changes[n]
	if !t.task || change.Status != conversation.Open.String() {
		return change.After
	}
	for i := t.firstMsg; i < t.lastMsg; i++ {
		m := &w.messages[i]
		if compareIDs(m.id, change.After) <= 0 {
			continue
		}
		if w.parties[m.from].id == change.By && w.postedMs(t, m) == change.At.UnixMilli() {
			return m.id
		}
		break
	}
	return change.After
}

func compareIDs(a, b parley.MessageID) int { return slices.Compare(a[:], b[:]) }

// errNotArrived is a defect of this package.
var errNotArrived = errors.New("it is not in the feed of its recipient")

// receiptsAtOnce is how many receipts an entry has.
const receiptsAtOnce = 256

// writeReceipts writes the receipts of all messages, at the positions that they have now.
func (w *writer) writeReceipts() error {
	order := make([]int32, 0, len(w.messages))
	for i := range w.messages {
		if w.messages[i].receipts != (journal.Receipts{}) {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(w.messages[a].to, w.messages[b].to) })
	view := w.Journal.View()
	defer view.Close()
	for len(order) > 0 {
		to := w.messages[order[0]].to
		agent := w.parties[to].id
		entry := &journal.Entry{Slot: agent.Slot(), At: w.org.Export.SnapshotAt.Time}
		for len(order) > 0 && w.messages[order[0]].to == to && len(entry.Effects) < receiptsAtOnce {
			m := &w.messages[order[0]]
			position, err := view.Message(agent.Slot(), m.id, func([]byte) error { return nil })
			if err == nil && position == 0 {
				err = errNotArrived
			}
			if err != nil {
				return &lineError{int(m.line), fmt.Errorf("message %s: %w", m.id, err)}
			}
			entry.Effects = append(entry.Effects, journal.RecordReceipt{
				Recipient: agent, Message: m.id, Position: position, Receipts: m.receipts, Sender: w.parties[m.from].id,
			})
			order = order[1:]
		}
		if err := w.add(entry); err != nil {
			return err
		}
	}
	return nil
}
