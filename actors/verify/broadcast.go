package verify

import (
	"bytes"
	"fmt"
	"slices"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/journal"
	"parley/journal/report"
)

// hosted checks the start of a conversation that a group hosts, and its first message.
func (k *conversationReplay) hosted(e *conversation.Started) error {
	self := parley.ConversationID(k.stream.ID)
	k.host = parley.IDFromBytes[parley.GroupID](e.GetGroup())
	k.x.talks.Find(k.host.Slot(), 1, k.host[:], self[:])
	c, err := k.x.seatHistoryOf(k.host)
	if err != nil {
		return err
	}
	if c != nil {
		k.roll = c.rollOf(self)
	}
	return k.broadcast(&conversation.Broadcasted{MessageId: e.GetMessageId(), From: e.GetInitiator(), AtMs: e.GetAtMs()}, true)
}

// broadcast compares a message to all members of a group with its record, its copies and
// the membership at that time.
func (k *conversationReplay) broadcast(e *conversation.Broadcasted, first bool) error {
	x := k.x
	id, from := parley.IDFromBytes[parley.MessageID](e.GetMessageId()), parley.IDFromBytes[parley.AgentID](e.GetFrom())
	where := "broadcast " + id.String()
	x.order.Checked++
	last := k.state.LastMessage()
	if id.Slot() != k.stream.Slot() || bytes.Compare(id[:], last[:]) <= 0 || id.Seat() != 0 {
		x.order.Fault(where, "it does not follow %s in conversation %s, or is a copy", last, k.stream.ID)
	}
	x.multisets.records.Expect(id.Slot(), 1, id[:])
	x.record.Checked++
	r, _, err := x.recordAt(id.Slot(), id)
	if err != nil {
		return err
	}
	if r == nil {
		x.record.Fault(where, "its record cannot be read: neither can the message")
		return nil
	}
	to, err := k.readers(id)
	if err != nil {
		return err
	}
	self := parley.ConversationID(k.stream.ID)
	if !bytes.Equal(r.GetId(), id[:]) || !bytes.Equal(r.GetConversationId(), self[:]) || r.Sender() != from ||
		r.GroupID() != k.host || r.HostID() != k.host || len(r.GetInReplyTo()) > 0 {
		x.record.Fault(where, "its record is of another message, conversation, sender or group than its event")
	}
	x.reached.Checked++
	switch {
	case len(to) == 0 || int(r.GetRecipients()) != len(to) || r.GetFirstSeat() != to[0].Number || r.Recipient() != to[0].Agent:
		x.reached.Fault(where, "it says that it went to %d, first to %s on seat %d; it has %d copies", r.GetRecipients(), r.Recipient(), r.GetFirstSeat(), len(to))
	case k.roll != nil && !k.roll.call(from, to, first):
		x.reached.Fault(where, "its %d copies and its sender %s are not who was in group %s at any moment when it can have been sent", len(to), from, k.host)
	}
	k.counted(r.SenderOrg(), e.GetAtMs())
	if err := k.owners(where, r); err != nil || len(to) == 0 {
		return err
	}
	return k.delivered(id, r, to)
}

// readers returns the recipients of a broadcast's copies, in the order of their seats. It
// includes copies that are still in an outbox.
func (k *conversationReplay) readers(id parley.MessageID) (to []parley.Seat, err error) {
	err = k.x.CopiesOf(id, func(seat parley.Seat, _ uint64) { to = append(to, seat) })
	bySeat := func(a, b parley.Seat) int { return int(a.Number) - int(b.Number) }
	to = append(to, k.x.underway.fans[id]...)
	slices.SortFunc(to, bySeat)
	return slices.Compact(to), err
}

// delivered expects each copy in its recipient's feed, in the conversation's order, and
// one record in each home of a recipient.
func (k *conversationReplay) delivered(id parley.MessageID, r *record.Message, to []parley.Seat) error {
	x, note := k.x, journal.TypeHash(r.GetType())
	brought := map[int]bool{x.Home(id.Slot()): true}
	for _, seat := range to {
		one := parley.Copy(id, seat.Number)
		x.feeds.Expect(seat.Agent.Slot(), 1, seat.Agent[:], one[:], note)
		if x.underway.announced[pair(parley.AnyID(seat.Agent), parley.AnyID(one))] {
			k.inOrder("broadcast "+id.String(), seat.Agent, onTheWay)
			continue
		}
		_, position, _, err := x.Copy(seat.Agent.Slot(), one)
		if err != nil {
			return err
		}
		k.inOrder("broadcast "+id.String(), seat.Agent, position)
		home := x.Home(seat.Agent.Slot())
		if brought[home] {
			continue
		}
		brought[home] = true
		if err := k.lodged(id, seat.Agent.Slot(), home); err != nil {
			return err
		}
	}
	return nil
}

// lodged compares the record of a broadcast in a recipient's home with the original.
func (k *conversationReplay) lodged(id parley.MessageID, reader parley.Slot, home int) error {
	x := k.x
	slot := x.BroadcastSlot(home, id)
	x.copies.Expect(slot, 1, copyKey(slot, id))
	x.copied.Checked++
	var there []byte
	found, err := x.Broadcast(reader, id, func(record []byte) error {
		there = bytes.Clone(record)
		return nil
	})
	if err != nil || !found {
		return err
	}
	here, _, err := x.bytesAt(id.Slot(), id)
	if err == nil && !bytes.Equal(here, there) {
		x.copied.Fault("broadcast "+id.String(), "readers who live in journal %d do not read what its sender does", home)
	}
	return err
}

// answers reports whether a reply in a group's conversation answers one of its messages
// and is between that message's sender and a recipient.
func (k *conversationReplay) answers(r *record.Message) (bool, error) {
	id := parley.IDFromBytes[parley.MessageID](r.GetInReplyTo())
	original, _, err := k.x.recordAt(id.Slot(), id)
	if err != nil {
		return false, err
	}
	if original != nil {
		return !original.Copied() && k.between(r, original, original.Recipient()), nil
	}
	original, _, err = k.x.recordAt(id.Slot(), id.Broadcast())
	if err != nil || original == nil {
		return false, err
	}
	to, _, found, err := k.x.Copy(id.Slot(), id)
	return found && k.between(r, original, to), err
}

// between reports whether a reply belongs to the conversation of the original and is
// between the original's sender and to.
func (k *conversationReplay) between(r, original *record.Message, to parley.AgentID) bool {
	from := original.Sender()
	return original.Conversation() == r.Conversation() &&
		(r.Sender() == from && r.Recipient() == to || r.Sender() == to && r.Recipient() == from)
}

// toldAll expects all status changes in the feeds of agents that have been members since
// the conversation began. The feeds of other members have some of them; see later.
func (k *conversationReplay) toldAll() {
	if k.roll == nil || len(k.statuses) == 0 {
		return
	}
	x, self := k.x, parley.ConversationID(k.stream.ID)
	m := &changedConversation{host: k.host, since: k.roll.begins[self], statuses: k.statuses}
	x.moved[self] = m
	for _, l := range k.roll.seats {
		if l.from <= m.since && l.to == stillThere {
			k.told(l.agent)
		}
	}
}

// witnessed reports whether an agent has been a member since the conversation began.
func (x *verifier) witnessed(agent parley.AgentID, m *changedConversation) (bool, error) {
	c, err := x.seatHistoryOf(m.host)
	return c != nil && c.stayed(agent, m.since), err
}

// later checks a status change in the feed of an agent that was not a member all the
// time: it must come after the changes that the feed already has. It returns how many
// changes have passed.
func (x *verifier) later(agent parley.AgentID, c parley.ConversationID, m *changedConversation, passed int, status string) int {
	for n := passed; n < len(m.statuses); n++ {
		if m.statuses[n].String() == status {
			return n + 1
		}
	}
	x.statusChecks().Fault(fmt.Sprintf("feed of agent %s, conversation %s", agent, c), "it has a change to %s, which did not happen then", status)
	return passed
}

func (x *verifier) statusChecks() *report.Check { return x.report.Check("status-entries", "") }
