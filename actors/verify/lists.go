package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"parley"
	"parley/actors/conversation"
	"parley/journal"
)

// beginning checks an entry of an agent's feed that begins a conversation. The agent's
// list has the conversation by the entry. A row says the same, and must be there where
// the entries count as listed.
func (x *verifier) beginning(agent parley.AgentID, e journal.FeedEntry) error {
	id := x.listedBy(agent, e)
	value, _, err := x.Row(agent.Slot(), journal.ListedTable, agent[:])
	if err != nil || len(value) != 8 || binary.BigEndian.Uint64(value) < e.Position {
		return err
	}
	x.folded.Checked++
	row, _, err := x.Row(agent.Slot(), journal.ConversationTable, binary.BigEndian.AppendUint64(agent.Bytes(), e.Position))
	if err == nil && !bytes.Equal(row, id[:]) {
		x.folded.Fault(fmt.Sprintf("feed of agent %s, position %d", agent, e.Position), "it begins conversation %s and counts as listed, but the agent's list has no such row", id)
	}
	return err
}

// listedBy records that an agent's list has the conversation that begins with an entry.
func (x *verifier) listedBy(agent parley.AgentID, e journal.FeedEntry) parley.ConversationID {
	id := x.startedBy(e)
	x.lists.Find(agent.Slot(), 1, agent[:], id[:])
	return id
}

// startedBy returns the conversation that begins with an entry; zero if the record of the
// broadcast that says so cannot be read, which another check reports.
func (x *verifier) startedBy(e journal.FeedEntry) parley.ConversationID {
	if e.Kind != journal.CopyEntry {
		return conversation.StartedBy(parley.MessageID(e.Ref))
	}
	broadcast := parley.MessageID(e.Ref).Broadcast()
	if r, _, err := x.recordAt(broadcast.Slot(), broadcast); err == nil && r != nil {
		return r.Conversation()
	}
	return parley.ConversationID{}
}

// listRow checks a row of an agent's list of conversations. At the position of a feed
// entry it only repeats what the entry says.
func (x *verifier) listRow(slot parley.Slot, key, value []byte) error {
	agent, position := parley.IDFromBytes[parley.AgentID](key[:16]), binary.BigEndian.Uint64(key[16:])
	var entry *journal.FeedEntry
	err := x.Feed(agent, position-1, position, func(e journal.FeedEntry) bool {
		entry = &e
		return false
	})
	switch {
	case err != nil:
		return err
	case entry == nil:
		x.lists.Find(slot, 1, key[:16], value)
		return x.tasked(agent, position, parley.IDFromBytes[parley.ConversationID](value))
	}
	x.folded.Checked++
	if !entry.Begins || parley.IDFromBytes[parley.ConversationID](value) != x.startedBy(*entry) {
		x.folded.Fault(fmt.Sprintf("list of agent %s, position %d", agent, position), "the entry of its feed there does not begin conversation %x", value)
	}
	return nil
}

// tasked checks that a conversation has a row among those that its agent has begun, if its
// place in the agent's list counts as read for them.
func (x *verifier) tasked(agent parley.AgentID, position uint64, id parley.ConversationID) error {
	value, _, err := x.Row(agent.Slot(), journal.TaskedTable, agent[:])
	if err != nil || len(value) != 8 || binary.BigEndian.Uint64(value) < position {
		return err
	}
	r, _, err := x.recordAt(id.Slot(), conversation.FirstMessageID(id))
	if err != nil || r == nil || r.Sender() != agent { // of a group, or begun by the other
		return err
	}
	x.begun.Checked++
	to := r.Recipient()
	_, found, err := x.Row(agent.Slot(), journal.TaskTable, append(append(agent.Bytes(), to[:]...), id[:]...))
	if err == nil && !found {
		x.begun.Fault(fmt.Sprintf("list of agent %s, position %d", agent, position), "it has begun conversation %s with agent %s, which counts as listed there, but has no such row", id, to)
	}
	return err
}

// taskRow checks the row of a conversation that an agent has begun with another one.
func (x *verifier) taskRow(slot parley.Slot, key []byte) error {
	x.begun.Checked++
	from, to, id := parley.IDFromBytes[parley.AgentID](key[:16]), parley.IDFromBytes[parley.AgentID](key[16:32]), parley.IDFromBytes[parley.ConversationID](key[32:])
	r, _, err := x.recordAt(id.Slot(), conversation.FirstMessageID(id))
	if err == nil && (r == nil || r.Sender() != from || r.Recipient() != to || from.Slot() != slot) {
		x.begun.Fault(fmt.Sprintf("row of agent %s with agent %s", from, to), "the one has not begun conversation %s with the other", id)
	}
	return err
}
