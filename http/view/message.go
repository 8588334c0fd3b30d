package view

import (
	"log/slog"

	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/content"
	"parley/journal"
)

// A message on the wire has three parts: its ids, the content that never changes (see package
// content), and the members that depend on time and reader.

// Message is a message with what is shown beside it.
type Message struct {
	query.Message
	// Recipient is the handle of the recipient of a broadcast's copy, whose content names the
	// group instead; nil if there is none any more.
	Recipient *string
}

// Viewer is the reader of a message, who owns its sender or its recipient.
type Viewer struct {
	parley.Principal
	// Agent is the acting agent, zero if none was named.
	Agent parley.AgentID
	// Logger logs messages whose content cannot be decoded, unless it is nil.
	Logger *slog.Logger
}

// received reports whether the viewer sees the message from the recipient's side.
func (v Viewer) received(r *record.Message) bool {
	if v.owns(r) && v.Owns(r.RecipientOrg(), r.Recipient()) {
		return v.Agent == r.Recipient() && !v.Agent.Zero()
	}
	return v.Owns(r.RecipientOrg(), r.Recipient())
}

// owns reports whether the viewer owns the message's sender.
func (v Viewer) owns(r *record.Message) bool { return v.Owns(r.SenderOrg(), r.Sender()) }

// AppendMessage renders a message for a reader. // spec: Message (MessageRead)
func AppendMessage(b []byte, m Message, v Viewer) []byte {
	r := m.Record
	b = content.AppendID(append(b, `{"id":`...), parley.AnyID(r.MessageID()))
	b = content.AppendID(append(b, `,"conversation_id":`...), parley.AnyID(r.Conversation()))
	b, ok := content.Append(append(b, ','), r)
	if !ok && v.Logger != nil {
		v.Logger.Error("the content of a message cannot be decoded", "message", r.MessageID().String())
	}
	if r.Copied() { // in these the copies of a broadcast differ
		b = content.AppendID(append(b, `,"to_agent_id":`...), parley.AnyID(r.Recipient()))
		b = content.AppendOptional(append(b, `,"recipient_handle":`...), m.Recipient)
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
	if r.GetSelfPayload() != "" && v.owns(r) {
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

// AppendPage renders a page of messages.
func AppendPage(b []byte, items []Message, v Viewer, next string) []byte {
	return AppendPageEnd(AppendMessages(append(b, `{"items":[`...), items, v), next)
}

// AppendMessages renders messages with commas between them.
func AppendMessages(b []byte, items []Message, v Viewer) []byte {
	for i, m := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendMessage(b, m, v)
	}
	return b
}

// AppendPageEnd renders what follows the items of a page. next is the cursor of the next page,
// "" if there is none.
func AppendPageEnd(b []byte, next string) []byte {
	b = append(b, `],"next_cursor":`...)
	if next == "" {
		return append(b, `null,"has_more":false}`...)
	}
	return append(content.AppendText(b, next), `,"has_more":true}`...)
}

// SizeBound returns an upper bound of the bytes that AppendMessage takes.
func (v Viewer) SizeBound(r *record.Message) int {
	n := content.MessageFrame + content.Size(r)
	if v.owns(r) {
		n += len(r.GetSelfPayload()) // its alphabet needs no escapes
	}
	if r.Copied() {
		n += content.CopyFrame
	}
	return n
}
