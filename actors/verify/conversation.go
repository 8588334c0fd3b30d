package verify

import (
	"bytes"
	"fmt"
	"time"

	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// conversationReplay is a conversation that is being replayed.
type conversationReplay struct {
	*replay
	id    parley.ConversationID
	state *conversation.State
	// places are the last positions of its messages in its participants' feeds. Once a
	// message is in an outbox, the position is onTheWay, and no later message may be in
	// that feed.
	places map[parley.AgentID]uint64
	// changes are the status changes, in order.
	changes []conversation.Status
	// opens: a first reply was posted, so the next event must change the status to open.
	opens bool
	// host is the group that hosts the conversation, zero if none does; roll is nil if
	// the group has no such conversation.
	host parley.GroupID
	roll *roll
}

const onTheWay = ^uint64(0)

func replayConversation(r *replay) {
	k := &conversationReplay{replay: r, id: parley.ConversationID(r.stream.ID), state: &conversation.State{}, places: map[parley.AgentID]uint64{}}
	follow(r, rules.Conversation, k.state, &conversation.State{}, k.judge)
	r.lags, r.end = true, k.finished
}

// judge checks an event before it is folded.
func (k *conversationReplay) judge(seq uint64, e conversation.Event) {
	if _, moved := e.(*conversation.StatusChanged); k.opens && !moved {
		k.unlawful(seq, "the reply before it had to open the conversation")
	}
	opened := k.opens
	k.opens = false
	switch e := e.(type) {
	case *conversation.Started:
		k.begun(seq, e)
	case *conversation.Broadcasted:
		k.lawful(seq, e, e.GetAtMs(), conversation.Broadcast{
			MessageID: parley.IDFromBytes[parley.MessageID](e.GetMessageId()), From: parley.IDFromBytes[parley.AgentID](e.GetFrom()),
		})
		k.broadcast(e, false)
	case *conversation.Posted:
		c := conversation.Reply{
			MessageID: parley.IDFromBytes[parley.MessageID](e.GetMessageId()), InReplyTo: parley.IDFromBytes[parley.MessageID](e.GetInReplyTo()),
			From: parley.IDFromBytes[parley.AgentID](e.GetFrom()), To: parley.IDFromBytes[parley.AgentID](e.GetTo()),
			Lone: e.GetMeaning() == conversation.Meaning_lone_message,
		}
		if e.GetMeaning() == conversation.Meaning_artifact { // its type is known to the interface only
			c.Outcome = conversation.Completed
		}
		k.lawful(seq, e, e.GetAtMs(), c)
		k.opens = k.state.GetStatus() == conversation.Submitted
		k.message(e)
	case *conversation.StatusChanged:
		by := parley.IDFromBytes[parley.AgentID](e.GetBy())
		c := conversation.ChangeStatus{By: []parley.AgentID{by}, Status: e.GetStatus().String(), Reason: e.GetReason()}
		if k.roll != nil { // only the group knew whether the initiator was a member then
			c.Members = c.By
		}
		if k.roll != nil && (k.roll.stewards[by] || opened) {
			c.Admins = c.By
		}
		k.lawful(seq, e, e.GetAtMs(), c)
		k.changes = append(k.changes, e.GetStatus())
	}
}

// begun checks the start of the conversation, and its first message.
func (k *conversationReplay) begun(seq uint64, e *conversation.Started) {
	k.must(streamBegin, seq != 1 || !k.state.Exists(), "event %d makes it once more", seq)
	k.begins(seq, e.GetId())
	if len(e.GetGroup()) == 0 {
		k.expect(conversationLists, e.GetInitiator(), k.id[:])
		k.expect(conversationLists, e.GetResponder(), k.id[:])
		k.message(&conversation.Posted{MessageId: e.GetMessageId(), From: e.GetInitiator(), To: e.GetResponder(), AtMs: e.GetAtMs()})
		return
	}
	k.host = parley.IDFromBytes[parley.GroupID](e.GetGroup())
	k.find(groupConversations, k.host[:], k.id[:])
	if h := k.history(k.host); h != nil {
		k.roll = h.rollOf(k.id)
	}
	k.broadcast(&conversation.Broadcasted{MessageId: e.GetMessageId(), From: e.GetInitiator(), AtMs: e.GetAtMs()}, true)
}

// lawful lets the rules decide the command again. They must return the stored event.
func (k *conversationReplay) lawful(seq uint64, e conversation.Event, atMs int64, c conversation.Command) {
	events, refusal := conversation.Decide(k.state, c, time.UnixMilli(atMs))
	if k.fails(conversationHistory, refusal != nil || len(events) == 0) {
		k.unlawful(seq, fmt.Sprintf("the rules refuse it in status %s: %v", k.state.GetStatus(), refusal))
		return
	}
	excuse(events[0], e)
	want, err := encoding.Marshal(events[0])
	have, err2 := encoding.Marshal(e)
	if err != nil || err2 != nil || conversation.Tag(events[0]) != conversation.Tag(e) || !bytes.Equal(want, have) {
		k.unlawful(seq, "the rules come to another event")
	}
}

// excuse gives a decided event what the stored one may lack or have: the count of unanswered
// messages, which was not always stored, and the mark of a reason that may be erased.
func excuse(decided, stored conversation.Event) {
	switch decided := decided.(type) {
	case *conversation.Posted:
		if stored, same := stored.(*conversation.Posted); same && decided.Meaning == conversation.Meaning_unanswered {
			decided.Meaning = stored.GetMeaning()
		}
	case *conversation.StatusChanged:
		if stored, same := stored.(*conversation.StatusChanged); same && decided.Status == conversation.InputRequired {
			decided.AuthRequired = stored.GetAuthRequired()
		}
	case *conversation.Started, *conversation.Broadcasted:
	}
}

func (k *conversationReplay) unlawful(seq uint64, why string) {
	k.fault(conversationHistory, k.name(), "event %d: %s", seq, why)
}

// recorded checks what is true of every message of the conversation, and returns its
// record; nil if there is none.
func (k *conversationReplay) recorded(where string, id parley.MessageID, atMs int64) (r *record.Message, position uint64) {
	last := k.state.LastMessage()
	if k.fails(messageOrder, id.Slot() != k.stream.Slot() || bytes.Compare(id[:], last[:]) <= 0) {
		k.fault(messageOrder, where, "it does not follow %s in conversation %s", last, k.id)
	}
	k.expect(messageRecords, id[:])
	r, position = k.record(id.Slot(), id)
	if k.fails(messageRecord, r == nil) {
		k.fault(messageRecord, where, "its record cannot be read: neither can the message")
		return nil, 0
	}
	sender := r.SenderOrg()
	k.expect(quota, usedKey(k.Home(k.stream.Slot()), sender, journal.Day(time.UnixMilli(atMs))))
	k.owned(where, "sender", r.Sender(), sender)
	k.owned(where, "recipient", r.Recipient(), r.RecipientOrg())
	return r, position
}

// owned compares an organization in a record with the owner of its agent.
func (k *conversationReplay) owned(where, part string, agent parley.AgentID, org parley.OrgID) {
	if owner := k.owner(agent); k.fails(messageOwner, owner != org) {
		k.fault(messageOwner, where, "it says that its %s %s belongs to organization %s; it belongs to %s", part, agent, org, owner)
	}
}

// message compares a message event with its record, and checks what must follow from it.
func (k *conversationReplay) message(e *conversation.Posted) {
	id, to := parley.IDFromBytes[parley.MessageID](e.GetMessageId()), parley.IDFromBytes[parley.AgentID](e.GetTo())
	where := "message " + id.String()
	r, position := k.recorded(where, id, e.GetAtMs())
	if r == nil {
		return
	}
	k.holds(messageRecord, k.host.Zero() || k.answers(r), where, "it answers no message that its sender got or sent in the group's conversation")
	same := r.MessageID() == id && !r.Copied() && r.HostID() == k.host && r.Conversation() == k.id && bytes.Equal(r.GetFrom(), e.GetFrom()) &&
		bytes.Equal(r.GetTo(), e.GetTo()) && bytes.Equal(r.GetInReplyTo(), e.GetInReplyTo())
	k.holds(messageRecord, same, where, "its record is of another message, conversation, sender, recipient or original than its event")
	k.expect(feedEntries, to[:], id[:], journal.TypeHash(r.GetType()))
	if k.Home(to.Slot()) != k.Home(id.Slot()) {
		position = k.far(where, id, to)
	}
	k.inOrder(where, to, position)
}

// far checks a message in its recipient's home, which is another home: it must be stored
// there or in an outbox. It returns its position in the recipient's feed.
func (k *conversationReplay) far(where string, id parley.MessageID, to parley.AgentID) (position uint64) {
	if k.announced[pair(parley.AnyID(to), parley.AnyID(id))] {
		return onTheWay
	}
	k.expect(farRecords, copyKey(to.Slot(), id))
	received, position := k.encoded(to.Slot(), id)
	if received == nil {
		return 0
	}
	sent, _ := k.encoded(id.Slot(), id)
	k.holds(recordCopy, bytes.Equal(received, sent), where, "recipient and sender do not read the same")
	near, err := k.Receipts(journal.RecordReceipt{Recipient: to, Message: id, Position: position})
	k.failed(err)
	far, err := k.Receipts(journal.RecordReceipt{Message: id})
	k.failed(err)
	near, far = near.Earliest(k.receiptsNear[id]), far.Earliest(k.receiptsFar[id])
	// A receipt in an outbox to the recipient's home is already recorded in the
	// conversation's.
	if k.fails(sameReceipts, near != far) {
		k.fault(sameReceipts, where, "its recipient's home says delivered %d, read %d; its sender is told %d and %d", near.TransferredAt, near.ReadAt, far.TransferredAt, far.ReadAt)
	}
	return position
}

// inOrder checks the position of a message in its recipient's feed. The multiset checks
// that the message is in the feed at all.
func (k *conversationReplay) inOrder(where string, to parley.AgentID, position uint64) {
	if position == 0 {
		return
	}
	last := k.places[to]
	if k.fails(feedOrder, position <= last && position != onTheWay) {
		k.fault(feedOrder, where, "the feed of agent %s has it at position %d, before the message that came before it", to, position)
	}
	k.places[to] = max(position, last)
}

// finished checks the conversation as a whole, and expects its status changes in feeds: all
// of them in those of participants, and of agents that have been members of its group since
// it began. The feeds of other members have some of them, which readFeeds checks.
func (k *conversationReplay) finished() {
	k.must(conversationHistory, !k.opens, "its last reply had to open it, and did not")
	if k.host.Zero() {
		for _, p := range k.state.GetParticipants() {
			k.notified(p.Agent())
		}
		return
	}
	if k.roll == nil || len(k.changes) == 0 {
		return
	}
	since := k.roll.begins[k.id]
	k.moved[k.id] = &changedConversation{host: k.host, since: since, statuses: k.changes}
	for agent := range k.roll.members {
		if k.roll.stayed(agent, since) {
			k.notified(agent)
		}
	}
}

// notified expects the status changes in a participant's feed: all but the newest ones that
// are still in an outbox.
func (k *conversationReplay) notified(agent parley.AgentID) {
	awaited := k.statuses[pair(parley.AnyID(agent), k.stream.ID)]
	k.checks[statusUnderway].Checked += uint64(len(awaited))
	there := len(k.changes) - len(awaited)
	for n, status := range awaited {
		if there < 0 || k.changes[there+n].String() != status {
			k.fault(statusUnderway, k.name(), "a change to %s is on its way to agent %s, which did not happen then", status, agent)
			return
		}
	}
	for n, status := range k.changes[:max(there, 0)] {
		k.expect(statusEntries, statusKey(agent, k.id, n, status.String()))
	}
}
