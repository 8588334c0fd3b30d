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
		return nil
	}
	x.folded.Checked++
	if !entry.Begins || parley.IDFromBytes[parley.ConversationID](value) != x.startedBy(*entry) {
		x.folded.Fault(fmt.Sprintf("list of agent %s, position %d", agent, position), "the entry of its feed there does not begin conversation %x", value)
	}
	return nil
}
