package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// conversationsAtOnce bounds how many conversations of one feed are checked in one pass
// over it.
const conversationsAtOnce = 1 << 20

// readFeeds checks every feed: each message as it is read, and the status changes, whose
// order matters, once the feed's length is known.
func (x *verifier) readFeeds() error {
	var of parley.AgentID
	var statuses int
	var last uint64
	err := x.Feeds(func(agent parley.AgentID, e journal.FeedEntry) error {
		x.progress("feeds")
		if agent != of {
			x.statusesOf(of, last, statuses)
			of, statuses = agent, 0
		}
		last = e.Position
		switch {
		case e.Kind == journal.ReceiptEntry, e.Kind == journal.WebhookEntry, e.Kind == journal.CredentialEntry:
		case e.Kind == journal.GroupEntry:
			x.find(groupNews, agent[:], e.Ref[:], record.MemberKind(e.Note))
		case !e.Kind.BringsMessage():
			statuses++
		default:
			x.find(feedEntries, agent[:], e.Ref[:], e.Note)
			if e.Begins {
				x.beginning(agent, e)
			}
			if said := e.Ref.Time().UnixMilli(); x.fails(feedArrival, e.At < said) {
				x.fault(feedArrival, feedPlace(agent, e.Position), "message %s arrived %d ms before it was sent: counts since an instant are wrong", e.Ref, said-e.At)
			}
		}
		return x.err
	})
	if err != nil {
		return err
	}
	x.statusesOf(of, last, statuses)
	return x.err
}

func feedPlace(agent parley.AgentID, position uint64) string {
	return fmt.Sprintf("feed of agent %s, position %d", agent, position)
}

// statusesOf numbers the status changes of each conversation in a feed. Each pass covers
// one part of the conversations.
func (x *verifier) statusesOf(agent parley.AgentID, upTo uint64, statuses int) {
	if statuses == 0 {
		return
	}
	seed, parts := maphash.MakeSeed(), 1+statuses/conversationsAtOnce
	for part := range parts {
		seen := map[parley.ConversationID]int{}
		x.failed(x.Feed(agent, 0, upTo, func(e journal.FeedEntry) bool {
			if e.Kind != journal.StatusEntry || parts > 1 && int(maphash.Bytes(seed, e.Ref[:])%uint64(parts)) != part {
				return true
			}
			c := parley.ConversationID(e.Ref)
			status, _ := record.StatusNews(e.Note)
			if moved := x.moved[c]; moved == nil || x.witnessed(agent, moved) {
				x.find(statusEntries, statusKey(agent, c, seen[c], status))
				seen[c]++
			} else if n := moved.next(seen[c], status); n > 0 {
				seen[c] = n
			} else {
				x.fault(statusEntries, fmt.Sprintf("feed of agent %s, conversation %s", agent, c), "it has a change to %s, which did not happen then", status)
			}
			return x.err == nil
		}))
	}
}

// statusKey identifies a status change by its index among those of its conversation.
func statusKey(agent parley.AgentID, c parley.ConversationID, n int, status string) []byte {
	key := append(append(make([]byte, 0, 48), agent[:]...), c[:]...)
	return append(binary.BigEndian.AppendUint32(key, uint32(n)), status...)
}

// beginning checks an entry of an agent's feed that begins a conversation. The agent's
// list has the conversation by the entry. A row says the same, and must be there where
// the entries count as listed.
func (x *verifier) beginning(agent parley.AgentID, e journal.FeedEntry) {
	id := x.startedBy(e.Kind, e.Ref)
	x.find(conversationLists, agent[:], id[:])
	if x.passed(journal.ListedTable, agent) < e.Position {
		return
	}
	row, _ := x.row(agent.Slot(), journal.ConversationTable, append(agent.Bytes(), big(e.Position)...))
	if x.fails(listRows, !bytes.Equal(row, id[:])) {
		x.fault(listRows, feedPlace(agent, e.Position), "it begins conversation %s and counts as listed, but the agent's list has no such row", id)
	}
}

// list checks a row of an agent's list of conversations. At the position of a feed entry it
// only repeats what the entry says.
func (r row) list() {
	agent, id := parley.IDFromBytes[parley.AgentID](r.key[:16]), parley.IDFromBytes[parley.ConversationID](r.value)
	position := binary.BigEndian.Uint64(r.key[16:])
	var entry *journal.FeedEntry
	r.failed(r.Feed(agent, position-1, position, func(e journal.FeedEntry) bool {
		entry = &e
		return false
	}))
	if entry == nil {
		r.find(conversationLists, r.key[:16], r.value)
		r.tasked(agent, position, id)
		return
	}
	begins := entry.Begins && id == r.startedBy(entry.Kind, entry.Ref)
	r.holds(listRows, begins, listPlace(agent, position), "the entry of its feed there does not begin conversation %x", r.value)
}

// tasked checks that a conversation has a row among those that its agent has begun, if its
// place in the agent's list counts as read for them.
func (r row) tasked(agent parley.AgentID, position uint64, id parley.ConversationID) {
	if r.passed(journal.TaskedTable, agent) < position {
		return
	}
	m, _ := r.record(id.Slot(), conversation.FirstMessageID(id))
	if m == nil || m.Sender() != agent { // of a group, or begun by the other
		return
	}
	to := m.Recipient()
	_, found := r.row(agent.Slot(), journal.TaskTable, append(append(agent.Bytes(), to[:]...), id[:]...))
	r.holds(taskRows, found, listPlace(agent, position), "it has begun conversation %s with agent %s, which counts as listed there, but has no such row", id, to)
}

func listPlace(agent parley.AgentID, position uint64) string {
	return fmt.Sprintf("list of agent %s, position %d", agent, position)
}

// task checks the row of a conversation that an agent has begun with another one.
func (r row) task() {
	from, to, id := parley.IDFromBytes[parley.AgentID](r.key[:16]), parley.IDFromBytes[parley.AgentID](r.key[16:32]), parley.IDFromBytes[parley.ConversationID](r.key[32:])
	m, _ := r.record(id.Slot(), conversation.FirstMessageID(id))
	begun := m != nil && m.Sender() == from && m.Recipient() == to && from.Slot() == r.slot
	r.holds(taskRows, begun, fmt.Sprintf("row of agent %s with agent %s", from, to), "the one has not begun conversation %s with the other", id)
}
