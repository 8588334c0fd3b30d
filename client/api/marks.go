package api

import "parley/client/parley"

// ReadMessage marks a message as read by its recipient:
// POST /messages/{id}/read. The answer is the Message.
type ReadMessage struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
	// ActingAgent, if given, must be the recipient.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// Ack marks messages that an agent received as read:
// POST /agents/{id}/messages/ack. Exactly one of UpTo and IDs is given.
type Ack struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// UpTo selects this message and all that arrived in the inbox before it.
	UpTo *parley.MessageID `json:"up_to,omitzero" example:"01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1"`
	// IDs are messages of the agent's inbox.
	IDs []parley.MessageID `json:"ids,omitzero" maxItems:"100"`
}

// Check checks the fields of an acknowledgement together.
func (in *Ack) Check() []FieldError {
	if (in.UpTo == nil) == (in.IDs == nil) {
		return []FieldError{{Loc: []any{"body", "up_to"}, Msg: "Value error, exactly one of up_to and ids is required", Type: valueError}}
	}
	return nil
}

// Acked is the answer of an Ack.
type Acked struct {
	// Acked is the number of messages that were not read before.
	Acked int `json:"acked"`
	// UpTo is the up_to of the request.
	UpTo *parley.MessageID `json:"up_to"`
}

// Wait gets messages to an agent, and waits if there are none: GET /agents/{id}/wait.
type Wait struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// After is a message of the agent's inbox. The answer has the messages after it,
	// read or not; the nil UUID selects all. Without it, the answer has the messages
	// that have not been transferred yet.
	After *parley.MessageID `json:"-" query:"after"`
	// TimeoutMS is how long to wait, in milliseconds.
	TimeoutMS int `json:"-" query:"timeout_ms" default:"30000" minimum:"1000" maximum:"60000"`
}

// Waited is the answer of a Wait.
type Waited struct {
	// Items are at most 20 messages, oldest first; none at the timeout.
	Items []Message `json:"items"`
	// After is the last message of Items, or the after of the request if there is none.
	After *parley.MessageID `json:"after"`
	// Unread is the number of further messages that are not marked as read, counted up
	// to 1,000 and over at most 4,096 entries of the agent's feed.
	Unread int `json:"unread"`
}

// Trace gets the delivery history of a message: GET /messages/{id}/trace.
type Trace struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
}

// Channels by which a message reaches its recipient, in an Attempt.
const (
	ChannelInbox   = "inbox"
	ChannelStream  = "stream"
	ChannelWebhook = "webhook"
	ChannelSync    = "sync"
	ChannelWait    = "wait"
	ChannelA2A     = "a2a"
)

// Outcomes of an Attempt. Carried: the recipient has the message's body. Announced: a
// webhook's target accepted the event.
const (
	OutcomeCarried   = "carried"
	OutcomeAnnounced = "announced"
	OutcomeFailed    = "failed"
)

// Traced is the answer of a Trace.
type Traced struct {
	MessageID  parley.MessageID `json:"message_id"`
	AcceptedAt Time             `json:"accepted_at"`
	// Position in the recipient's inbox. Only the recipient's organization gets it,
	// once the message is there.
	Position *int `json:"position"`
	// Attempts to deliver it, in order of time.
	Attempts    []Attempt `json:"attempts"`
	DeliveredAt *Time     `json:"delivered_at"`
	ReadAt      *Time     `json:"read_at"`
	// PendingReason says why the message is not delivered yet; null when it is.
	PendingReason *string `json:"pending_reason"`
}

// Attempt is one attempt to deliver a message. Only the recipient's organization sees
// details, and the attempts of webhooks.
type Attempt struct {
	Channel string `json:"channel" enum:"inbox,stream,webhook,sync,wait,a2a"`
	At      Time   `json:"at"`
	// Outcome is carried if the recipient got the message's body, announced if a
	// webhook's target accepted the event.
	Outcome string  `json:"outcome" enum:"carried,announced,failed"`
	Detail  *string `json:"detail"`
}
