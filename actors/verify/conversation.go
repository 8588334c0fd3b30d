package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// conversationReplay is the state of the verifier while it replays a conversation.
type conversationReplay struct {
	x      *verifier
	stream journal.Stream
	state  *conversation.State
	// places are the last positions of its messages in its participants' feeds. Once a
	// message is in an outbox, the position is onTheWay, and no later message may be in
	// that feed.
	places map[parley.AgentID]uint64
	// statuses are the status changes, in order.
	statuses []conversation.Status
	// opens: a first reply was posted, so the next event must change the status to open.
	opens bool
	// host is the group that hosts the conversation, zero if none does; roll is nil if
	// the group has no such conversation.
	host parley.GroupID
	roll *roll
}

const onTheWay = ^uint64(0)

func (x *verifier) replayConversation(s journal.Stream) streamReplay {
	t := &aggregateReplay[*conversation.State, conversation.Command, conversation.Event]{
		rules: rules.Conversation, state: &conversation.State{}, lags: true,
		blank: func() *conversation.State { return &conversation.State{} },
	}
	k := &conversationReplay{x: x, stream: s, state: t.state, places: map[parley.AgentID]uint64{}}
	t.judge = k.judge
	t.end = k.end
	return t
}

// judge checks an event before it is folded.
func (k *conversationReplay) judge(seq uint64, e conversation.Event) error {
	if _, moved := e.(*conversation.StatusChanged); k.opens && !moved {
		k.unlawful(seq, "the reply before it had to open the conversation")
	}
	opened := k.opens
	k.opens = false
	switch e := e.(type) {
	case *conversation.Started:
		if seq == 1 && k.state.Exists() {
			k.x.begin.Fault(record.StreamName(k.stream), "event %d makes it once more", seq)
		}
		k.x.begins(k.stream, seq, e.GetId())
		if len(e.GetGroup()) > 0 {
			return k.hosted(e)
		}
		self := parley.ConversationID(k.stream.ID)
		for _, p := range [][]byte{e.GetInitiator(), e.GetResponder()} {
			k.x.lists.Expect(parley.IDFromBytes[parley.AgentID](p).Slot(), 1, p, self[:])
		}
		return k.message(&conversation.Posted{MessageId: e.GetMessageId(), From: e.GetInitiator(), To: e.GetResponder(), AtMs: e.GetAtMs()})
	case *conversation.Broadcasted:
		from := parley.IDFromBytes[parley.AgentID](e.GetFrom())
		k.lawful(seq, e, e.GetAtMs(), conversation.Broadcast{MessageID: parley.IDFromBytes[parley.MessageID](e.GetMessageId()), From: from})
		return k.broadcast(e, false)
	case *conversation.Posted:
		k.lawful(seq, e, e.GetAtMs(), conversation.Reply{
			MessageID: parley.IDFromBytes[parley.MessageID](e.GetMessageId()), InReplyTo: parley.IDFromBytes[parley.MessageID](e.GetInReplyTo()),
			From: parley.IDFromBytes[parley.AgentID](e.GetFrom()), To: parley.IDFromBytes[parley.AgentID](e.GetTo()),
		})
		k.opens = k.state.GetStatus() == conversation.Submitted
		return k.message(e)
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
		k.statuses = append(k.statuses, e.GetStatus())
	}
	return nil
}

// lawful lets the rules decide the command again. They must return the stored event.
func (k *conversationReplay) lawful(seq uint64, e conversation.Event, atMs int64, c conversation.Command) {
	k.x.lawful.Checked++
	events, refusal := conversation.Decide(k.state, c, time.UnixMilli(atMs))
	if refusal != nil || len(events) == 0 {
		k.unlawful(seq, fmt.Sprintf("the rules refuse it in status %s: %v", k.state.GetStatus(), refusal))
		return
	}
	want, err := events[0].MarshalVT()
	have, err2 := e.MarshalVT()
	if err != nil || err2 != nil || conversation.Tag(events[0]) != conversation.Tag(e) || !bytes.Equal(want, have) {
		k.unlawful(seq, "the rules come to another event")
	}
}

func (k *conversationReplay) unlawful(seq uint64, why string) {
	k.x.lawful.Fault(record.StreamName(k.stream), "event %d: %s", seq, why)
}

// message compares a message event with its record, and checks what must follow from it.
func (k *conversationReplay) message(e *conversation.Posted) error {
	x := k.x
	id, to := parley.IDFromBytes[parley.MessageID](e.GetMessageId()), parley.IDFromBytes[parley.AgentID](e.GetTo())
	where := "message " + id.String()
	x.order.Checked++
	last := k.state.LastMessage()
	if id.Slot() != k.stream.Slot() || bytes.Compare(id[:], last[:]) <= 0 {
		x.order.Fault(where, "it does not follow %s in conversation %s", last, k.stream.ID)
	}
	x.multisets.records.Expect(id.Slot(), 1, id[:])
	x.record.Checked++
	r, position, err := x.recordAt(id.Slot(), id)
	if err != nil {
		return err
	}
	if r == nil {
		x.record.Fault(where, "its record cannot be read: neither can the message")
		return nil
	}
	self := parley.ConversationID(k.stream.ID)
	if !k.host.Zero() {
		if fits, err := k.answers(r); err != nil {
			return err
		} else if !fits {
			x.record.Fault(where, "it answers no message that its sender got or sent in the group's conversation")
		}
	}
	if !bytes.Equal(r.GetId(), id[:]) || len(r.GetGroup()) > 0 || r.HostID() != k.host || !bytes.Equal(r.GetConversationId(), self[:]) || !bytes.Equal(r.GetFrom(), e.GetFrom()) ||
		!bytes.Equal(r.GetTo(), e.GetTo()) || !bytes.Equal(r.GetInReplyTo(), e.GetInReplyTo()) {
		x.record.Fault(where, "its record is of another message, conversation, sender, recipient or original than its event")
	}
	sender := r.SenderOrg()
	k.counted(sender, e.GetAtMs())
	x.feeds.Expect(to.Slot(), 1, to[:], id[:], journal.TypeHash(r.GetType()))
	if err := k.owners(where, r); err != nil {
		return err
	}
	if x.Home(to.Slot()) != x.Home(id.Slot()) {
		if position, err = k.far(id, to); err != nil {
			return err
		}
	}
	k.inOrder(where, to, position)
	return nil
}

// counted expects that a message is counted in its organization's day.
func (k *conversationReplay) counted(sender parley.OrgID, atMs int64) {
	day := journal.Day(time.UnixMilli(atMs))
	k.x.quota.Expect(sender.Slot(), 1, usedKey(k.x.Home(k.stream.Slot()), sender, day))
}

// recordAt reads the record of a message as stored in slot; nil if it is missing or
// cannot be decoded.
func (x *verifier) recordAt(slot parley.Slot, id parley.MessageID) (r *record.Message, position uint64, err error) {
	position, err = x.Message(slot, id, func(stored []byte) error {
		have := &record.Message{}
		if have.UnmarshalVT(stored) == nil {
			r = have
		}
		return nil
	})
	return r, position, err
}

// bytesAt reads a record without decoding it.
func (x *verifier) bytesAt(slot parley.Slot, id parley.MessageID) (data []byte, position uint64, err error) {
	position, err = x.Message(slot, id, func(record []byte) error {
		data = bytes.Clone(record)
		return nil
	})
	return data, position, err
}

// owners compares the organizations in a record with the owners of its agents.
func (k *conversationReplay) owners(where string, r *record.Message) error {
	x := k.x
	for _, end := range []struct {
		agent parley.AgentID
		org   parley.OrgID
		part  string
	}{{r.Sender(), r.SenderOrg(), "sender"}, {r.Recipient(), r.RecipientOrg(), "recipient"}} {
		x.owner.Checked++
		owner, err := x.ownerOf(end.agent)
		if err != nil {
			return err
		}
		if owner != end.org {
			x.owner.Fault(where, "it says that its %s %s belongs to organization %s; it belongs to %s", end.part, end.agent, end.org, owner)
		}
	}
	return nil
}

// far checks a message in its recipient's home, if that is another home: it must be
// stored there or in an outbox.
func (k *conversationReplay) far(id parley.MessageID, to parley.AgentID) (position uint64, err error) {
	x, where := k.x, "message "+id.String()
	if x.underway.announced[pair(parley.AnyID(to), parley.AnyID(id))] {
		return onTheWay, nil
	}
	x.copied.Checked++
	x.copies.Expect(to.Slot(), 1, copyKey(to.Slot(), id))
	received, position, err := x.bytesAt(to.Slot(), id)
	if err != nil || received == nil {
		return 0, err
	}
	sent, _, err := x.bytesAt(id.Slot(), id)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(received, sent) {
		x.copied.Fault(where, "recipient and sender do not read the same")
	}
	x.receipts.Checked++
	near, err := x.Receipts(journal.RecordReceipt{Recipient: to, Message: id, Position: position})
	if err != nil {
		return position, err
	}
	far, err := x.Receipts(journal.RecordReceipt{Message: id})
	near, far = near.Earliest(x.underway.receiptsNear[id]), far.Earliest(x.underway.receiptsFar[id])
	// A receipt in an outbox to the recipient's home is already recorded in the
	// conversation's.
	if near != far {
		x.receipts.Fault(where, "its recipient's home says delivered %d, read %d; its sender is told %d and %d", near.TransferredAt, near.ReadAt, far.TransferredAt, far.ReadAt)
	}
	return position, err
}

// inOrder checks the position of a message in its recipient's feed. The multiset checks
// that the message is in the feed at all.
func (k *conversationReplay) inOrder(where string, to parley.AgentID, position uint64) {
	if position == 0 {
		return
	}
	k.x.place.Checked++
	last := k.places[to]
	if position <= last && position != onTheWay {
		k.x.place.Fault(where, "the feed of agent %s has it at position %d, before the message that came before it", to, position)
	}
	k.places[to] = max(position, last)
}

// end checks the conversation as a whole.
func (k *conversationReplay) end() error {
	if k.opens {
		k.x.lawful.Fault(record.StreamName(k.stream), "its last reply had to open it, and did not")
	}
	if !k.host.Zero() {
		k.toldAll()
		return nil
	}
	for _, p := range k.state.GetParticipants() {
		k.told(p.Agent())
	}
	return nil
}

// told expects the status changes in a participant's feed: all but the newest ones that
// are still in an outbox.
func (k *conversationReplay) told(agent parley.AgentID) {
	awaited := k.x.underway.statuses[pair(parley.AnyID(agent), k.stream.ID)]
	k.x.statusWords.Checked += uint64(len(awaited))
	there := len(k.statuses) - len(awaited)
	for n, word := range awaited {
		if there < 0 || k.statuses[there+n].String() != word {
			k.x.statusWords.Fault(record.StreamName(k.stream), "a change to %s is on its way to agent %s, which did not happen then", word, agent)
			return
		}
	}
	for n, status := range k.statuses[:max(there, 0)] {
		k.x.statuses.Expect(agent.Slot(), 1, statusKey(agent, parley.ConversationID(k.stream.ID), n, status.String()))
	}
}

// statusKey identifies a status change by its index among those of its conversation.
func statusKey(agent parley.AgentID, c parley.ConversationID, n int, word string) []byte {
	key := append(append(make([]byte, 0, 48), agent[:]...), c[:]...)
	return append(binary.BigEndian.AppendUint32(key, uint32(n)), word...)
}

// readFarReceipts checks receipts that are stored by message.
func (x *verifier) readFarReceipts() error {
	return x.FarReceipts(func(id parley.MessageID, _ journal.Receipts) error {
		x.progress("receipts")
		x.farReceipts.Checked++
		r, _, err := x.recordAt(id.Slot(), id)
		if err != nil {
			return err
		}
		if r == nil || r.Copied() || x.Home(r.Recipient().Slot()) == x.Home(id.Slot()) {
			x.farReceipts.Fault("message "+id.String(), "there is no such message, or its recipient lives with it: nobody reads these receipts")
		}
		return nil
	})
}
