package http

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/http/api"
	"parley/http/rest"
	"parley/journal"
)

// A message on the wire has three parts: its ids, the content that never changes (see
// content.go), and the members that depend on time and reader.

// envelope is the content that a send and a reply have in common.
type envelope struct {
	Type             string
	Payload          string
	Version          string
	SigningKid       *string
	Metadata         api.Object
	ContentType      string
	Schema           *string
	Attestations     api.Array
	SelfPayload      *string
	IdempotencyKey   string
	MessageSignature *string
	// signatureErr is the refusal of signatures that do not verify, nil if they do. A
	// repeat is answered even if it is set.
	signatureErr      error
	senderHandle      string
	recipientHandle   string
	recipient, sender parley.AgentID
	// group is the group of a broadcast, whose copies differ in their recipients.
	group       parley.GroupID
	groupHandle string
	origin
}

// origin is the sender of a message, as the server vouches for it.
type origin struct {
	server    string
	at        time.Time
	org       parley.OrgID
	slug      string
	tier      int
	oversight bool
	via       string
}

func (s *core) originOf(c *rest.Call, from *agent.State, via string) origin {
	return origin{
		server: s.Domain, at: c.Now(), org: c.Caller.Org, slug: c.Caller.Slug, tier: c.Caller.Tier,
		oversight: from.GetHumanOversight(), via: via,
	}
}

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
	b = appendID(append(b, `{"id":`...), parley.AnyID(r.MessageID()))
	b = appendID(append(b, `,"conversation_id":`...), parley.AnyID(r.Conversation()))
	b, ok := appendContent(append(b, ','), r)
	if !ok && v.service != nil {
		v.service.Logger.Error("the content of a message cannot be decoded", "message", r.MessageID().String())
	}
	if r.Copied() {
		b = v.appendRecipient(b, r)
	}
	b = appendTime(append(b, `,"created_at":`...), r.CreatedAt())
	b = appendInstant(append(b, `,"delivered_at":`...), m.Receipts.DeliveredAt())
	b = appendInstant(append(b, `,"read_at":`...), m.Receipts.ReadAt)
	direction := api.Sent
	if v.received(r) {
		direction = api.Received
	}
	b = appendText(append(b, `,"direction":`...), direction)
	b = append(b, `,"self_encrypted_payload":`...)
	if r.GetSelfPayload() != "" && v.org == r.SenderOrg() {
		b = appendText(b, r.GetSelfPayload())
	} else {
		b = append(b, `null`...)
	}
	b = appendText(append(b, `,"status":`...), statusOf(m.Receipts))
	if r.Copied() && direction == api.Sent {
		b = appendID(append(b, `,"broadcast_id":`...), parley.AnyID(r.MessageID().Broadcast()))
		b = appendInt(append(b, `,"recipient_count":`...), int(r.GetRecipients()))
	}
	return append(b, '}')
}

// appendRecipient appends the members in which the copies of a broadcast differ.
func (v viewer) appendRecipient(b []byte, r *record.Message) []byte {
	b = appendID(append(b, `,"to_agent_id":`...), parley.AnyID(r.Recipient()))
	handle, err := v.service.handleOf(context.Background(), r.Recipient())
	if err != nil {
		handle = nil // resolved if possible
	}
	return appendOptional(append(b, `,"recipient_handle":`...), handle)
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
	b = append(b, `],"next_cursor":`...)
	if next == "" {
		return append(b, `null,"has_more":false}`...)
	}
	return append(appendText(b, next), `,"has_more":true}`...)
}

func appendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // bound strings are valid UTF-8
	return b
}

func appendOptional(b []byte, text *string) []byte {
	if text == nil {
		return append(b, `null`...)
	}
	return appendText(b, *text)
}

func appendID(b []byte, id parley.AnyID) []byte {
	b, _ = id.AppendText(append(b, '"'))
	return append(b, '"')
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, `true`...)
	}
	return append(b, `false`...)
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// appendTime appends an instant in the format of api.Time, without parsing a layout: a
// page has sixty of them.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendDigits(append(b, '"'), year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	b = appendDigits(append(b, '.'), t.Nanosecond()/1000, 6)
	return append(b, 'Z', '"')
}

// appendDigits appends n with leading zeros, as width digits.
func appendDigits(b []byte, n, width int) []byte {
	at := len(b)
	b = append(b, "000000"[:width]...)
	for i := at + width - 1; i >= at && n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

func appendInstant(b []byte, ms int64) []byte {
	if ms == 0 {
		return append(b, `null`...)
	}
	return appendTime(b, time.UnixMilli(ms))
}
