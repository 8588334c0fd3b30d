// Package record holds what actors store beside their events: messages, the steps
// of sagas, and rows of the directory.
package record

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/actors/conversation"
	"parley/client/parley"
	"parley/journal"
)

// CreatedAt returns when the message was accepted: the instant in its id.
func (r *Message) CreatedAt() time.Time { return r.MessageID().Time() }

// MessageID returns the message's id.
func (r *Message) MessageID() parley.MessageID {
	return parley.IDFromBytes[parley.MessageID](r.GetId())
}

// Conversation returns the id of the message's conversation.
func (r *Message) Conversation() parley.ConversationID {
	return parley.IDFromBytes[parley.ConversationID](r.GetConversationId())
}

// Sender returns the agent that sent it.
func (r *Message) Sender() parley.AgentID { return parley.IDFromBytes[parley.AgentID](r.GetFrom()) }

// Recipient returns the agent that it is for.
func (r *Message) Recipient() parley.AgentID { return parley.IDFromBytes[parley.AgentID](r.GetTo()) }

// SenderOrg returns the organization that owns the sender.
func (r *Message) SenderOrg() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetFromOrg()) }

// RecipientOrg returns the organization that owns the recipient.
func (r *Message) RecipientOrg() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetToOrg()) }

// Copied reports whether the message is a broadcast or one of its copies.
func (r *Message) Copied() bool { return len(r.GetGroup()) > 0 }

// GroupID returns the group that a broadcast went to, zero for any other message.
func (r *Message) GroupID() parley.GroupID { return parley.IDFromBytes[parley.GroupID](r.GetGroup()) }

// HostID returns the group that hosts the message's conversation, zero if none does.
func (r *Message) HostID() parley.GroupID { return parley.IDFromBytes[parley.GroupID](r.GetHost()) }

// CopyFor returns the copy of a broadcast for one agent. It leaves the recipient's
// organization empty, because the record of a broadcast lacks it.
func (r *Message) CopyFor(id parley.MessageID, to parley.AgentID) *Message {
	return &Message{
		Id: id.Bytes(), ConversationId: r.ConversationId, From: r.From, To: to.Bytes(), FromOrg: r.FromOrg, Type: r.Type,
		Content: r.Content, SelfPayload: r.SelfPayload, Group: r.Group, Host: r.Host, Recipients: r.Recipients, FirstSeat: r.FirstSeat,
	}
}

// FirstCopy returns a broadcast as its sender sees it.
func (r *Message) FirstCopy() *Message {
	c := r.CopyFor(parley.Copy(r.MessageID(), r.GetFirstSeat()), r.Recipient())
	c.ToOrg = r.ToOrg
	return c
}

// Numbers of the fields that make a record long.
const (
	contentField     = 101
	selfPayloadField = 102
)

// Owners are the organizations of the message's sender and recipient. A broadcast belongs
// to its sender's alone.
func (r *Message) Owners() journal.Owners {
	owners := journal.OwnedBy(r.SenderOrg())
	if !r.Copied() {
		owners.B = r.RecipientOrg()
	}
	return owners
}

// Encode returns the record of a message.
func (r *Message) Encode() (journal.Record, error) {
	data, err := r.MarshalVT()
	if err != nil {
		return journal.Record{}, err
	}
	return journal.Record{ID: r.MessageID(), Data: data, Clear: journal.HeaderLen(data), Owners: r.Owners()}, nil
}

// UnmarshalHeader decodes a stored message without its body and the sender's own copy,
// which may take hundreds of kilobytes. It keeps no reference to stored.
func (r *Message) UnmarshalHeader(stored []byte) error {
	header := make([]byte, 0, min(len(stored), 512))
	for len(stored) > 0 {
		number, _, n := protowire.ConsumeField(stored)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number != contentField && number != selfPayloadField {
			header = append(header, stored[:n]...)
		}
		stored = stored[n:]
	}
	return r.UnmarshalVT(header)
}

// UnmarshalAgain decodes a stored message into the memory that r has already. What refers
// to that memory changes.
func (r *Message) UnmarshalAgain(stored []byte) error {
	r.Id, r.ConversationId, r.From, r.To, r.FromOrg, r.ToOrg = r.Id[:0], r.ConversationId[:0], r.From[:0], r.To[:0], r.FromOrg[:0], r.ToOrg[:0]
	r.InReplyTo, r.Group, r.Host, r.Parent = r.InReplyTo[:0], r.Group[:0], r.Host[:0], r.Parent[:0]
	r.Content, r.Metadata = r.Content[:0], r.Metadata[:0]
	r.Type, r.SelfPayload = "", ""
	r.Recipients, r.FirstSeat, r.Turn, r.Task, r.unknownFields = 0, 0, 0, false, r.unknownFields[:0]
	return r.UnmarshalVT(stored)
}

// Starts reports whether the message is the first of a conversation between two agents.
func (r *Message) Starts() bool {
	return len(r.GetInReplyTo()) == 0 && r.HostID().Zero() && r.MessageID() == conversation.FirstMessageID(r.Conversation())
}

// Ordinal returns the number of the message in its conversation, from 1; 0 if that is a group's.
func (r *Message) Ordinal() int {
	if r.GetTurn() == 0 && r.Starts() {
		return 1
	}
	return int(r.GetTurn())
}

// Started returns the event that a message stands for if it Starts a conversation.
func (r *Message) Started() *conversation.Started {
	return &conversation.Started{
		Id: r.ConversationId, Initiator: r.From, Responder: r.To, Parent: r.Parent, Metadata: r.Metadata,
		MessageId: r.Id, AtMs: r.CreatedAt().UnixMilli(), Owner: r.FromOrg, OtherOwner: r.ToOrg, Task: r.Task,
	}
}

// GroupID returns the group's id.
func (g *PublicGroup) GroupID() parley.GroupID {
	return parley.IDFromBytes[parley.GroupID](g.GetId())
}

// Owner returns the organization that owns the group.
func (g *PublicGroup) Owner() parley.OrgID {
	return parley.IDFromBytes[parley.OrgID](g.GetOrg())
}
