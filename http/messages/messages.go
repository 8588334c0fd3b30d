package messages

import (
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

var errGroupSync = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, group handles are not supported here").With("loc", "to_handle")

// Send starts a conversation with a message. // spec: POST /messages
func (s Messages) Send(c *rest.Call, in *api.Send) (rest.Rendered, error) {
	if err := s.Desk.CheckType(in.Type); err != nil {
		return rest.Rendered{}, err
	}
	from, err := s.Desk.Sender(c, in)
	if err != nil {
		return rest.Rendered{}, err
	}
	var posted actors.Posted
	if to, ok := handleOfGroup(in); ok {
		posted, err = s.broadcast(c, in, from, to)
	} else {
		posted, err = s.Desk.Send(c, in, from, submission.ViaAPI, nil)
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	return s.renderPosted(c, posted, from), nil
}

// renderPosted renders the answer to a send or a reply. The answer to a repeat is marked
// as such.
func (s Messages) renderPosted(c *rest.Call, p actors.Posted, from *agent.State) rest.Rendered {
	notePosted(c, p)
	v := s.viewerOf(c, from)
	out := c.Render(v.SizeBound(p.Message), func(b []byte) []byte {
		return view.AppendMessage(b, s.Agents.ToView(c.Context(), query.Message{Record: p.Message, Receipts: p.Receipts}), v)
	})
	if p.Repeated {
		out.Code = 200
	}
	return out
}

// Reply continues the conversation of a message. // spec: POST /messages/{id}/reply
func (s Messages) Reply(c *rest.Call, in *api.Reply) (rest.Rendered, error) {
	if err := s.Desk.CheckType(in.Type); err != nil {
		return rest.Rendered{}, err
	}
	var named *agent.State
	if in.ActingAgent != "" {
		var err error
		if named, err = s.Agents.Acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
	}
	posted, from, err := s.Desk.Reply(c, in, named)
	if err != nil {
		return rest.Rendered{}, err
	}
	return s.renderPosted(c, posted, from), nil
}

// Get returns a message. If the recipient acts, this delivers the message and marks it as read.
// Without a name it acts if the organization does not own the sender too.
func (s Inbox) Get(c *rest.Call, in *api.GetMessage) (rest.Rendered, error) {
	var acting *agent.State
	if in.ActingAgent != "" {
		var err error
		if acting, err = s.Agents.Acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
	}
	m, err := s.Node.Messages.Get(c.Context(), in.ID)
	if m, err = submission.Readable(c, m, err); err != nil {
		return rest.Rendered{}, err
	}
	r, v := m.Record, s.viewerOf(c, acting)
	if err := c.Reserve(v.SizeBound(r)); err != nil { // before anything is marked
		return rest.Rendered{}, err
	}
	if !in.Peek && !c.OnlyReads() && recipientActs(c, acting, r) {
		if m, err = s.carry(c, m, journal.InboxChannel, true); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(v.SizeBound(r), func(b []byte) []byte { return view.AppendMessage(b, s.Agents.ToView(c.Context(), m), v) }), nil
}

// recipientActs reports whether a message is shown to its recipient: the acting agent, or if none
// is named, an agent of the caller that did not get it from its own organization.
// // docs: delivery.md
func recipientActs(c *rest.Call, acting *agent.State, r *record.Message) bool {
	if acting != nil {
		return acting.AgentID() == r.Recipient()
	}
	return c.Caller.Owns(r.RecipientOrg(), r.Recipient()) && !c.Caller.Owns(r.SenderOrg(), r.Sender())
}

// List returns a page of an agent's messages, newest first. It marks the messages that
// it transfers for the first time as delivered, and waits until that is stored.
func (s Inbox) List(c *rest.Call, in *api.Inbox) (rest.Rendered, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return rest.Rendered{}, err
	}
	looks, err := s.onlyLooks(c, in.ID, in.ActingAgent, in.Peek)
	if err != nil {
		return rest.Rendered{}, err
	}
	only, list, read := "", "inbox "+in.ID.String()+" ", s.Node.Messages.Inbox
	if in.Unread {
		list, read = "unread "+in.ID.String()+" ", s.Node.Messages.Unread
	}
	if in.Type != nil {
		only = *in.Type
	}
	list += only
	before, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	room := pageBudget{call: c, viewer: s.viewer(c.Caller.Principal, in.ID)}
	page, next, err := read(c.Context(), in.ID, before, in.Limit, only, room.fits)
	if err != nil {
		return rest.Rendered{}, err
	}
	if !looks {
		if err := s.recordTransfers(c, in.ID, page, journal.InboxChannel); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(room.size(), func(b []byte) []byte {
		return view.AppendPage(b, s.Agents.ToViews(c.Context(), page), room.viewer, s.Lists.Cursor(list, next))
	}), nil
}

// onlyLooks reports whether a request for an agent's messages leaves them as they are: it peeks, or
// any other agent acts, also one that the caller does not own.
func (s Inbox) onlyLooks(c *rest.Call, id parley.AgentID, named string, peek bool) (bool, error) {
	if named == "" {
		return peek || c.OnlyReads(), nil
	}
	acting, err := s.Agents.Acting(c, named)
	switch {
	case parley.IsRefusal(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return peek || c.OnlyReads() || acting.AgentID() != id, nil
}
