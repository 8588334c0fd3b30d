package verify

import (
	"bytes"
	"slices"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// broadcast compares a message to all members of a group with its record, its copies and
// the membership at that time.
func (k *conversationReplay) broadcast(e *conversation.Broadcasted, first bool) {
	id, from := parley.IDFromBytes[parley.MessageID](e.GetMessageId()), parley.IDFromBytes[parley.AgentID](e.GetFrom())
	where := "broadcast " + id.String()
	k.holds(messageOrder, id.Seat() == 0, where, "it is a copy")
	r, _ := k.recorded(where, id, e.GetAtMs())
	if r == nil {
		return
	}
	same := r.MessageID() == id && r.Conversation() == k.id && r.Sender() == from && r.GroupID() == k.host && r.HostID() == k.host && len(r.GetInReplyTo()) == 0
	k.holds(messageRecord, same, where, "its record is of another message, conversation, sender or group than its event")
	to := k.readers(id)
	switch {
	case k.fails(broadcastReaders, len(to) == 0 || int(r.GetRecipients()) != len(to) || r.GetFirstSeat() != to[0].Number || r.Recipient() != to[0].Agent):
		k.fault(broadcastReaders, where, "it says that it went to %d, first to %s on seat %d; it has %d copies", r.GetRecipients(), r.Recipient(), r.GetFirstSeat(), len(to))
	case k.roll != nil && !k.roll.call(from, to, first):
		k.fault(broadcastReaders, where, "its %d copies and its sender %s are not who was in group %s at any moment when it can have been sent", len(to), from, k.host)
	}
	k.delivered(where, id, r, to)
}

// readers returns the recipients of a broadcast's copies, in the order of their seats. It
// includes copies that are still in an outbox.
func (k *conversationReplay) readers(id parley.MessageID) (to []parley.Seat) {
	k.failed(k.CopiesOf(id, func(seat parley.Seat, _ uint64) { to = append(to, seat) }))
	to = append(to, k.fans[id]...)
	slices.SortFunc(to, func(a, b parley.Seat) int { return int(a.Number) - int(b.Number) })
	return slices.Compact(to)
}

// delivered expects each copy in its recipient's feed, in the conversation's order, and
// one record in each home of a recipient.
func (k *conversationReplay) delivered(where string, id parley.MessageID, r *record.Message, to []parley.Seat) {
	note, brought := journal.TypeHash(r.GetType()), map[int]bool{k.Home(id.Slot()): true}
	for _, seat := range to {
		one := parley.Copy(id, seat.Number)
		k.expect(feedEntries, seat.Agent[:], one[:], note)
		if k.announced[pair(parley.AnyID(seat.Agent), parley.AnyID(one))] {
			k.inOrder(where, seat.Agent, onTheWay)
			continue
		}
		_, position, _, err := k.Copy(seat.Agent.Slot(), one)
		k.failed(err)
		k.inOrder(where, seat.Agent, position)
		if home := k.Home(seat.Agent.Slot()); !brought[home] {
			brought[home] = true
			k.lodged(where, id, seat.Agent.Slot(), home)
		}
	}
}

// lodged compares the record of a broadcast in a recipient's home with the original.
func (k *conversationReplay) lodged(where string, id parley.MessageID, reader parley.Slot, home int) {
	k.expect(farRecords, copyKey(k.BroadcastSlot(home, id), id))
	here, _ := k.encoded(id.Slot(), id)
	differs := false
	found, err := k.Broadcast(reader, id, func(there []byte) error {
		differs = !bytes.Equal(here, there)
		return nil
	})
	k.failed(err)
	k.holds(recordCopy, !found || !differs, where, "readers who live in journal %d do not read what its sender does", home)
}

// answers reports whether a reply in a group's conversation answers one of its messages
// and is between that message's sender and a recipient.
func (k *conversationReplay) answers(r *record.Message) bool {
	id := parley.IDFromBytes[parley.MessageID](r.GetInReplyTo())
	if original, _ := k.record(id.Slot(), id); original != nil {
		return !original.Copied() && between(r, original, original.Recipient())
	}
	original, _ := k.record(id.Slot(), id.Broadcast())
	if original == nil {
		return false
	}
	to, _, found, err := k.Copy(id.Slot(), id)
	return !k.failed(err) && found && between(r, original, to)
}

// between reports whether a reply belongs to the conversation of the original and is
// between the original's sender and to.
func between(r, original *record.Message, to parley.AgentID) bool {
	from := original.Sender()
	return original.Conversation() == r.Conversation() &&
		(r.Sender() == from && r.Recipient() == to || r.Sender() == to && r.Recipient() == from)
}
