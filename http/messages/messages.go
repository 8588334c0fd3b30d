package messages

import (
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/query"
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

// Get returns a message. If the caller's organization owns the recipient, this
// delivers the message. If the acting agent is the recipient, it also marks it as read.
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
	if r.RecipientOrg() == c.Caller.Org && !c.Head() {
		reads := acting == nil && r.SenderOrg() != c.Caller.Org
		if acting != nil {
			reads = acting.AgentID() == r.Recipient()
		}
		if m, err = s.carry(c, m, journal.InboxChannel, reads); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(v.SizeBound(r), func(b []byte) []byte { return view.AppendMessage(b, s.Agents.ToView(c.Context(), m), v) }), nil
}

// List returns a page of an agent's messages, newest first. It marks the messages that
// it transfers for the first time as delivered, and waits until that is stored.
func (s Inbox) List(c *rest.Call, in *api.Inbox) (rest.Rendered, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return rest.Rendered{}, err
	}
	only := ""
	if in.Type != nil {
		only = *in.Type
	}
	list := "inbox " + in.ID.String() + " " + only
	before, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	room := pageBudget{call: c, viewer: s.viewer(c.Caller.Org, in.ID)}
	page, next, err := s.Node.Messages.Inbox(c.Context(), in.ID, before, in.Limit, only, room.fits)
	if err != nil {
		return rest.Rendered{}, err
	}
	if !c.Head() {
		if err := s.recordTransfers(c, in.ID, page, journal.InboxChannel); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(room.size(), func(b []byte) []byte {
		return view.AppendPage(b, s.Agents.ToViews(c.Context(), page), room.viewer, s.Lists.Cursor(list, next))
	}), nil
}
