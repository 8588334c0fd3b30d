package http

import (
	"context"

	"parley"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/http/api"
	"parley/http/content"
	"parley/http/rest"
	"parley/journal"
)

// A message on the wire has three parts: its ids, the content that never changes (see
// content.go), and the members that depend on time and reader.

// viewer is the reader of a message.
type viewer struct {
	org parley.OrgID
	// agent is the acting agent, zero if none was named.
	agent parley.AgentID
	// service resolves the recipients of copies.
	service *core
}

// viewerOf returns a viewer of messages of which the caller's organization owns the
// sender or the recipient.
func (s *core) viewerOf(c *rest.Call, acting *agent.State) viewer {
	v := viewer{org: c.Caller.Org, service: s}
	if acting != nil {
		v.agent = acting.AgentID()
	}
	return v
}

// received reports whether the viewer sees the message from the recipient's side.
func (v viewer) received(r *record.Message) bool {
	if r.SenderOrg() == r.RecipientOrg() {
		return v.agent == r.Recipient() && !v.agent.Zero()
	}
	return v.org == r.RecipientOrg()
}

// appendMessage renders a message for a reader. // spec: Message (MessageRead)
func appendMessage(b []byte, m query.Message, v viewer) []byte {
	r := m.Record
	b = content.AppendID(append(b, `{"id":`...), parley.AnyID(r.MessageID()))
	b = content.AppendID(append(b, `,"conversation_id":`...), parley.AnyID(r.Conversation()))
	b, ok := content.Append(append(b, ','), r)
	if !ok && v.service != nil {
		v.service.Logger.Error("the content of a message cannot be decoded", "message", r.MessageID().String())
	}
	if r.Copied() {
		b = v.appendRecipient(b, r)
	}
	b = content.AppendTime(append(b, `,"created_at":`...), r.CreatedAt())
	b = content.AppendInstant(append(b, `,"delivered_at":`...), m.Receipts.DeliveredAt())
	b = content.AppendInstant(append(b, `,"read_at":`...), m.Receipts.ReadAt)
	direction := api.Sent
	if v.received(r) {
		direction = api.Received
	}
	b = content.AppendText(append(b, `,"direction":`...), direction)
	b = append(b, `,"self_encrypted_payload":`...)
	if r.GetSelfPayload() != "" && v.org == r.SenderOrg() {
		b = content.AppendText(b, r.GetSelfPayload())
	} else {
		b = append(b, `null`...)
	}
	b = content.AppendText(append(b, `,"status":`...), statusOf(m.Receipts))
	if r.Copied() && direction == api.Sent {
		b = content.AppendID(append(b, `,"broadcast_id":`...), parley.AnyID(r.MessageID().Broadcast()))
		b = content.AppendInt(append(b, `,"recipient_count":`...), int(r.GetRecipients()))
	}
	return append(b, '}')
}

// appendRecipient appends the members in which the copies of a broadcast differ.
func (v viewer) appendRecipient(b []byte, r *record.Message) []byte {
	b = content.AppendID(append(b, `,"to_agent_id":`...), parley.AnyID(r.Recipient()))
	handle, err := v.service.handleOf(context.Background(), r.Recipient())
	if err != nil {
		handle = nil // resolved if possible
	}
	return content.AppendOptional(append(b, `,"recipient_handle":`...), handle)
}

// statusOf returns a message's status. // spec: Message status
func statusOf(m journal.Receipts) string {
	switch {
	case m.ReadAt != 0:
		return api.MessageRead
	case m.DeliveredAt() != 0:
		return api.MessageDelivered
	}
	return api.MessageNew
}

// appendPage renders a page of messages.
func appendPage(b []byte, items []query.Message, v viewer, next string) []byte {
	b = append(b, `{"items":[`...)
	for i, m := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, m, v)
	}
	return appendPageEnd(b, next)
}

// appendPageEnd renders what follows the items of a page. next is the cursor of the next page,
// "" if there is none.
func appendPageEnd(b []byte, next string) []byte {
	b = append(b, `],"next_cursor":`...)
	if next == "" {
		return append(b, `null,"has_more":false}`...)
	}
	return append(content.AppendText(b, next), `,"has_more":true}`...)
}
