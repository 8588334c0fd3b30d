// Package record holds what actors store beside their events: messages, the steps
// of sagas, and rows of the directory.
package record

import (
	"time"

	"parley"
)

// CreatedAt is when the message was accepted: the instant in its id.
func (r *Message) CreatedAt() time.Time { return r.MessageID().Time() }

// MessageID is the message's id.
func (r *Message) MessageID() parley.MessageID {
	return parley.IDFromBytes[parley.MessageID](r.GetId())
}

// Conversation is the id of the conversation it belongs to.
func (r *Message) Conversation() parley.ConversationID {
	return parley.IDFromBytes[parley.ConversationID](r.GetConversationId())
}

// Sender is the agent that sent it.
func (r *Message) Sender() parley.AgentID { return parley.IDFromBytes[parley.AgentID](r.GetFrom()) }

// Recipient is the agent it is for.
func (r *Message) Recipient() parley.AgentID { return parley.IDFromBytes[parley.AgentID](r.GetTo()) }

// SenderOrg owns the sender.
func (r *Message) SenderOrg() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetFromOrg()) }

// RecipientOrg owns the recipient.
func (r *Message) RecipientOrg() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetToOrg()) }

// Copied reports whether the message is a broadcast or one of its copies.
func (r *Message) Copied() bool { return len(r.GetGroup()) > 0 }

// GroupID is the group that a broadcast went to, zero for any other message.
func (r *Message) GroupID() parley.GroupID { return parley.IDFromBytes[parley.GroupID](r.GetGroup()) }

// HostID is the group in whose conversation the message is, zero for any other.
func (r *Message) HostID() parley.GroupID { return parley.IDFromBytes[parley.GroupID](r.GetHost()) }

// CopyFor is the copy of a broadcast for one agent. Its recipient's organization
// is left empty: the record of a broadcast does not have it.
func (r *Message) CopyFor(id parley.MessageID, to parley.AgentID) *Message {
	return &Message{
		Id: id.Bytes(), ConversationId: r.ConversationId, From: r.From, To: to.Bytes(), FromOrg: r.FromOrg, Type: r.Type,
		Content: r.Content, SelfPayload: r.SelfPayload, Group: r.Group, Host: r.Host, Recipients: r.Recipients, FirstSeat: r.FirstSeat,
	}
}

// FirstCopy is a broadcast as its sender sees it.
func (r *Message) FirstCopy() *Message {
	c := r.CopyFor(parley.Copy(r.MessageID(), r.GetFirstSeat()), r.Recipient())
	c.ToOrg = r.ToOrg
	return c
}

// GroupID is the group's id.
func (g *PublicGroup) GroupID() parley.GroupID {
	return parley.IDFromBytes[parley.GroupID](g.GetId())
}

// Owner is the organization that made it.
func (g *PublicGroup) Owner() parley.OrgID {
	return parley.IDFromBytes[parley.OrgID](g.GetOrg())
}
