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
	"parley/http/api"
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
	// One of these is set, counted from 1: a message, a conversation in a list, a change of a
	// conversation's status, of a group's conversation as it was announced, or news of a
	// group. number is that of the change.
	message, listed, change, announced, news int32
	number                                   int32
}

func (a *arrival) compare(b *arrival) int {
	return cmp.Or(
		cmp.Compare(a.atMs, b.atMs), cmp.Compare(a.order, b.order), cmp.Compare(a.rank, b.rank), cmp.Compare(a.agent, b.agent),
		cmp.Compare(a.change, b.change), cmp.Compare(a.number, b.number), cmp.Compare(a.message, b.message), cmp.Compare(a.news, b.news),
	)
}

// writeFeeds writes all feeds, with the messages.
func (w *writer) writeFeeds() error {
	// from is, by agent, a slot of the journal from which the last entry came, unless all
	// entries have arrived: entries of two journals may overtake each other.
	from := map[int32]parley.Slot{}
	for all := w.arrivals(); len(all) > 0; {
		n := w.together(all)
		entry, err := w.entry(all[:n])
		if err != nil {
			return err
		}
		for i := range all[:n] {
			if before, pending := from[all[i].agent]; pending && !w.SameHome(before, entry.Slot) {
				if err := w.settle(); err != nil {
					return err
				}
				clear(from)
			}
		}
		for i := range all[:n] {
			from[all[i].agent] = entry.Slot
		}
		if err := w.add(entry); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// together returns how many of the first arrivals are copies of one broadcast that one batch
// may append.
func (w *writer) together(all []arrival) int {
	if all[0].message == 0 || !w.messages[all[0].message-1].copied {
		return 1
	}
	first := w.messages[all[0].message-1].id
	chunk := func(id parley.MessageID) uint32 { return (id.Seat() - 1) / journal.FanoutChunk }
	n := 1
	for ; n < len(all) && all[n].message > 0; n++ {
		m := &w.messages[all[n].message-1]
		if !m.copied || m.posted() != first.Broadcast() || chunk(m.id) != chunk(first) {
			break
		}
	}
	return n
}

// entry returns the journal entry of an arrival, or of copies of one broadcast.
func (w *writer) entry(all []arrival) (*journal.Entry, error) {
	a := &all[0]
	at := time.UnixMilli(a.atMs)
	agent := w.parties[a.agent].id
	switch {
	case a.news > 0:
		n := &w.news[a.news-1]
		return &journal.Entry{Slot: agent.Slot(), At: at, Effects: []journal.Effect{
			journal.AppendFeed{To: agent, Kind: journal.GroupEntry, Ref: parley.AnyID(n.group), Note: n.note},
		}}, nil
	case a.announced > 0:
		t := &w.talks[a.announced-1]
		s := &t.announced[a.number]
		return &journal.Entry{Slot: agent.Slot(), At: at, Effects: []journal.Effect{
			journal.AppendFeed{To: agent, Kind: journal.StatusEntry, Ref: parley.AnyID(t.id), Note: statusNote(s.Status, s.Own)},
		}}, nil
	case a.listed > 0:
		t := &w.talks[a.listed-1]
		return &journal.Entry{Slot: agent.Slot(), At: at, Effects: []journal.Effect{journal.AddToList{Agent: agent, Conversation: t.id}}}, nil
	case a.change > 0:
		t := &w.talks[a.change-1]
		moved := &t.changes[a.number]
		note := statusNote(moved.Status, moved.By == agent)
		return &journal.Entry{Slot: agent.Slot(), At: at, Effects: []journal.Effect{
			journal.AppendFeed{To: agent, Kind: journal.StatusEntry, Ref: parley.AnyID(t.id), Note: note},
		}}, nil
	}
	m := &w.messages[a.message-1]
	if m.copied {
		return w.copies(all)
	}
	entry, r, counted, err := w.carrying(m, at)
	if err != nil {
		return nil, err
	}
	entry.Effects = []journal.Effect{journal.AppendFeed{
		To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(m.id), Note: journal.TypeHash(r.GetType()), Begins: r.Starts(),
	}}
	if counted {
		entry.Counts = []journal.Count{w.countOf(m, r)}
	}
	return entry, nil
}

// carrying returns an entry with the record of a message.
func (w *writer) carrying(m *message, at time.Time) (*journal.Entry, *record.Message, bool, error) {
	r, counted, err := w.record(m)
	if err != nil {
		return nil, nil, false, &lineError{int(m.line), err}
	}
	stored, err := r.Encode()
	if err != nil {
		return nil, nil, false, &lineError{int(m.line), err}
	}
	return &journal.Entry{Slot: m.id.Slot(), At: at, Records: []journal.Record{stored}}, r, counted, nil
}

func (w *writer) countOf(m *message, r *record.Message) journal.Count {
	return journal.Count{
		Org: r.SenderOrg(), Day: journal.Day(time.UnixMilli(w.postedMs(&w.talks[m.talk], m))), N: 1,
		Bytes: journal.RoundStored(len(r.GetContent()) + len(r.GetSelfPayload())),
	}
}

// copies returns the entry of copies of one broadcast. Each such entry has the record of the
// broadcast, because each may be the first in its journal.
func (w *writer) copies(all []arrival) (*journal.Entry, error) {
	first := int(all[0].message - 1)
	for first > 0 && w.messages[first-1].copied && w.messages[first-1].posted() == w.messages[first].posted() {
		first--
	}
	m := &w.messages[first]
	entry, r, _, err := w.carrying(m, time.UnixMilli(all[len(all)-1].atMs))
	if err != nil {
		return nil, err
	}
	fan := journal.Fanout{
		Kind: journal.CopyEntry, Ref: parley.AnyID(m.posted()), Note: journal.TypeHash(r.GetType()), Begins: first == int(w.talks[m.talk].firstMsg),
	}
	for i := range all {
		if all[i].message == int32(first+1) {
			entry.Counts = []journal.Count{w.countOf(m, r)}
		}
		fan.To = append(fan.To, parley.Seat{Agent: w.parties[all[i].agent].id, Number: w.messages[all[i].message-1].id.Seat()})
	}
	slices.SortFunc(fan.To, func(a, b parley.Seat) int { return cmp.Compare(a.Number, b.Number) })
	entry.Effects = []journal.Effect{fan}
	return entry, nil
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
		if t.group != nil {
			all = w.appendHosted(all, t, int32(i))
			continue
		}
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
	for i := range w.news {
		n := &w.news[i]
		all = append(all, arrival{atMs: w.groups[n.group].state.CreatedMs, order: n.position, agent: n.agent, news: int32(i + 1)})
	}
	w.inFeedOrder(all)
	all = append(all, w.statusArrivals()...)
	slices.SortFunc(all, func(a, b arrival) int { return a.compare(&b) })
	return all
}

// appendHosted appends the places of a group's conversation in lists, except where a copy of
// its first broadcast stands for them, and the changes of its status in feeds.
func (w *writer) appendHosted(all []arrival, t *talk, of int32) []arrival {
	begins := map[api.ExportedPlace]bool{}
	talk := w.messages[t.firstMsg:t.lastMsg]
	for i := range talk[:copiesAt(talk, 0)] {
		begins[api.ExportedPlace{AgentID: w.parties[talk[i].to].id, Position: talk[i].position}] = true
	}
	owed := t.group.announcer.lists
	for _, place := range t.listed {
		if !begins[place] {
			owed[owedPlace{place.AgentID, t.id}]--
			all = append(all, arrival{atMs: t.createdMs, order: place.Position, agent: w.indexOf[place.AgentID], listed: of + 1})
		}
	}
	for place, n := range owed { // it was on its way
		if place.conversation == t.id && n > 0 {
			all = append(all, arrival{atMs: t.createdMs, order: math.MaxUint64, agent: w.indexOf[place.agent], listed: of + 1})
		}
	}
	for i, s := range t.announced {
		all = append(all, arrival{atMs: t.createdMs, order: s.Position, agent: w.indexOf[s.AgentID], announced: of + 1, number: int32(i)})
	}
	return all
}

// inFeedOrder sets the instants of arrivals of the organization's agents so that they do
// not decrease along a feed.
func (w *writer) inFeedOrder(all []arrival) {
	slices.SortFunc(all, func(a, b arrival) int {
		return cmp.Or(
			cmp.Compare(a.agent, b.agent), cmp.Compare(a.order, b.order), cmp.Compare(a.atMs, b.atMs),
			cmp.Compare(a.message, b.message), cmp.Compare(a.news, b.news), // those that were on their way
		)
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
		if w.talks[i].group != nil {
			continue // their feeds are in the export
		}
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

// positionOf returns the position of a message in its recipient's feed.
func positionOf(v journal.View, to parley.AgentID, m *message) (uint64, error) {
	if m.copied {
		_, position, _, err := v.Copy(to.Slot(), m.id)
		return position, err
	}
	return v.Message(to.Slot(), m.id, func([]byte) error { return nil })
}

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
			position, err := positionOf(view, agent, m)
			if err == nil && position == 0 {
				err = errNotArrived
			}
			if err != nil {
				return &lineError{int(m.line), fmt.Errorf("message %s: %w", m.id, err)}
			}
			entry.Effects = append(entry.Effects, w.receiptOf(m, position))
			order = order[1:]
		}
		if err := w.add(entry); err != nil {
			return err
		}
	}
	return nil
}
